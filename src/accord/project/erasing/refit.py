"""Fitted evaluators that learned from erased conversations, by their own lists; those with texts are removed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from accord.decisions import AgreementCard
from accord.edges import BadInput, Step, count_of, write_atomically
from accord.learning import CARD, REFIT_NEEDED, Evaluator, saved_as, training_digests
from accord.store import Erasures, Store

Row = dict[str, Any]
MOST_CARD_BYTES = 1_000_000
"""Larger files are not read as cards."""


def learned_from(evaluators: Path, in_use: str, folder: Path, digests: set[int]) -> list[Row]:
    """Return the evaluators in a folder that learned from conversations with these digests, each with its cards.

    `in_use` is the name of the evaluator in use, and `folder` the folder with agreement cards.

    A row has the `folder`, the `evaluator` with its `question`, `every_question`, the number `learned` of these
    conversations, the files of its agreement `cards`, and `in_use`.
    """
    found = list[Row]()
    for path in sorted(evaluators.iterdir()) if evaluators.is_dir() and digests else ():
        if count := len(digests & _digests(path)):
            name, question, others = path.name, None, False
            with suppress(BadInput):
                card = saved_as(path)
                name, question, others = str(card["name"]), str(card["question"]["id"]), bool(card["other_questions"])
            found.append({
                "folder": path.name, "evaluator": name, "question": question, "every_question": others,
                "learned": count, "cards": cards_about(folder, name) if path.name == name else [],
                "in_use": path.name == in_use,
            })  # fmt: skip
    return found


def cards_about(folder: Path, name: str) -> list[str]:
    """Return the agreement cards of an evaluator among the files of a folder, by file name."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with suppress(BadInput, OSError):
            if path.is_file() and path.stat().st_size < MOST_CARD_BYTES:
                subject = AgreementCard.read(path).subject
                found += [path.name] if (subject.kind, subject.name) == ("evaluator", name) else []
    return found


def refit_sentences(rows: Iterable[Mapping[str, Any]], is_done: bool) -> list[str]:
    """Return a sentence for each evaluator that an erasure costs, with the cards that it costs.

    >>> row = {"folder": "default", "evaluator": "default", "learned": 3, "cards": ["card.json"], "in_use": True}
    >>> refit_sentences([row], is_done=False)
    ['The evaluator in use, default, learned from 3 of these conversations: fit it again and make card.json again']
    >>> refit_sentences([{**row, "folder": "old", "cards": [], "in_use": False}], is_done=True)
    ['The evaluator old learned from 3 of the erased conversations: fit it again']
    """
    whose = "the erased" if is_done else "these"
    said = []
    for row in rows:
        named = f"in use, {row['folder']}," if row["in_use"] else row["folder"]
        cards = f" and make {' and '.join(row['cards'])} again" if row["cards"] else ""
        said.append(
            f"The evaluator {named} learned from {row['learned']:,} of {whose} conversations: fit it again{cards}"
        )
    return said


def _digests(folder: Path) -> set[int]:
    """Return the digests of an evaluator's training conversations; empty if the folder cannot be read."""
    try:
        return training_digests(folder)
    except (BadInput, FileNotFoundError):
        return set()


def _name_of(folder: Path) -> str:
    try:
        return str(saved_as(folder)["name"])
    except BadInput:
        return folder.name


def erased_since_fit(store: Store, folder: Path) -> int:
    """Return the number of erased conversations that an evaluator learned from, by its own list."""
    erasures = Erasures(store)
    if not erasures.count_digests():
        return 0
    return erasures.count_digests([f"{digest:016x}" for digest in _digests(folder)])


def refit_note(store: Store, folder: Path) -> str:
    """Return the sentence on an evaluator that learned from erased conversations; empty if it did not."""
    count = erased_since_fit(store, folder)
    if not count:
        return ""
    return (
        f"{folder.name} learned from {count_of(count, 'conversation')} that {'was' if count == 1 else 'were'} erased "
        f"since; fit it again: accord fit {_name_of(folder)}"
    )


def save_unless_erased(store: Store, evaluator: Evaluator, folder: Path) -> None:
    """Save an evaluator whose training conversations are all there still.

    An erasure adds its tombstones before it looks for texts in files. So either it finds the saved files, or they are
    removed here.

    Raises:
        BadInput: A conversation that it learned from was erased meanwhile; the evaluator is not saved.
    """
    known = [each.training_set for each in (evaluator, *evaluator.other_questions) if each.training_set is not None]
    learned = {int(digest) for each in known for digest in each.digest}

    def count_erased() -> int:
        return Erasures(store).count_digests([f"{digest:016x}" for digest in learned])

    count = count_erased()
    if not count:
        evaluator.save(folder)
        if count := count_erased():
            remove_evaluator(folder)
    if count:
        fit = Step("fit", evaluator.name)
        raise BadInput(
            f"{count_of(count, 'conversation')} to learn from {'was' if count == 1 else 'were'} erased during the fit, "
            f"so the evaluator was not saved; fit it again: {fit}", fit,
        )  # fmt: skip


def remove_evaluator(folder: Path) -> None:
    """Remove the files of an evaluator, and leave a note with the command that fits it again."""
    name = folder.name
    with suppress(ValueError, OSError, AttributeError):
        name = str(json.loads((folder / CARD).read_text(encoding="utf-8")).get("name") or name)
    note = {"refit": f"accord fit {name}", "why": "it held texts of erased conversations"}
    write_atomically(folder / REFIT_NEEDED, json.dumps(note, indent=1) + "\n")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != REFIT_NEEDED]
    for path in sorted(files, key=lambda path: path.name != CARD):  # the card first: it marks an evaluator
        path.unlink(missing_ok=True)
