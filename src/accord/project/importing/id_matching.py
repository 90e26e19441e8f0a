"""Matching of conversation ids in labels with those in the store that differ by a file ending or leading zeros."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from accord.edges import BadInput, count_of
from accord.formats import Source, label_ids
from accord.store import Store
from accord.values import Label, Target

_ENDING = re.compile(r"\.(?:txt|json|jsonl|csv|tsv|md|html?|xml|docx?|pdf|log|eml|wav|mp3)$", re.IGNORECASE)
_WHOLE = re.compile(r"(\d+)(?:\.0+)?", re.ASCII)
"""A whole number, as spreadsheets write it too: 7.0."""


def plain_id(id: str) -> str:
    """Return an id without the ending of a file, and a number without leading zeros.

    >>> plain_id("chat1.txt"), plain_id("007"), plain_id("7.0"), plain_id("v1.2")
    ('chat1', '7', '7', 'v1.2')
    """
    stem = _ENDING.sub("", id.strip()) or id
    number = _WHOLE.fullmatch(stem)
    return (number[1].lstrip("0") or "0") if number else stem


def with_matched_ids(
    store: Store,
    path: Source,
    columns: Mapping[str, str] | None,
    labels: Iterable[Label],
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[Label]:
    """Yield labels under the ids of the store's conversations; a warning in the log names the change.

    Args:
        store: The store with the conversations.
        path: The file of the labels, which is read for its ids.
        columns: Accord's column names to the file's.
        labels: The labels of the file.
        note: Called with the sentence on the change.

    Raises:
        BadInput: An id is not in the store, and several ids have its plain form.
    """
    ids = match_ids(store, path, columns)
    if ids:
        id, there = next(iter(ids.items()))
        text = (
            f"{count_of(len(ids), 'id')} matched without file endings and leading zeros, such as {id!r} of the labels "
            f"with {there!r} of the store"
        )
        logging.getLogger("accord").warning("%s: %s", path, text)
        note(f"{path.name}: {text}")
    for label in labels:
        target, against = _renamed(label.target, ids), None if label.against is None else _renamed(label.against, ids)
        is_same = (target, against) == (label.target, label.against)
        yield label if is_same else replace(label, target=target, against=against)


def _renamed(target: Target, ids: Mapping[str, str]) -> Target:
    return Target(ids.get(target.conversation, target.conversation), target.turn)


def match_ids(store: Store, path: Source, columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the ids of a file of labels that the store has in another form, with the form in the store.

    Raises:
        BadInput: As `with_matched_ids`.
    """
    named: defaultdict[str, set[str]] = defaultdict(set)
    missing = label_ids(path, columns)
    for id in missing:
        named[plain_id(id)].add(id)
    stored: defaultdict[str, list[str]] = defaultdict(list)
    for id in store.conversation_ids():
        missing.discard(id)
        if (plain := plain_id(id)) in named:
            stored[plain].append(id)
    matched = {id: stored[plain_id(id)][0] for id in sorted(missing) if plain_id(id) in stored}
    for id in matched:
        plain = plain_id(id)
        if len(named[plain]) > 1 or len(stored[plain]) > 1:
            raise BadInput(
                f"{path}: no conversation {id!r} in the store, and several ids are alike: {_listed(named[plain])} in "
                f"the labels, {_listed(stored[plain])} in the store. Write the ids of the labels as in the store"
            )
    return matched


def _listed(ids: Iterable[str]) -> str:
    return " and ".join(map(repr, sorted(ids)[:3]))
