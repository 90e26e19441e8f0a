"""Groups of samples that a split must keep on one side to avoid leakage.

Turns of one conversation, replies to the same turns, and equal or nearly equal texts share content that an evaluator
could memorize; so do samples with the same value of a `group_by` attribute (a user, a topic). Texts are nearly equal if
the Jaccard similarity of their word 5-grams is at least `ALIKE`; candidates are found by MinHash (Broder, 1997).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from accord.values import Sample, Target, Turn

ALIKE = 0.8
FEWEST_WORDS = 12
"""Minimum number of words of a shared opening. Shorter ones are greetings and do not join conversations."""
OPENING, TEXT = "the same turns before the reply", "the same text"
INPUT = "the same first message to several assistant versions"
_WORD = re.compile(r"\w+")
_INSTRUCTIONS = frozenset({"system", "developer"})
_GRAM, _BANDS, _ROWS = 5, 16, 4
_PRIME = (1 << 61) - 1


@dataclass(frozen=True)
class Groups:
    """Groups of targets.

    Attributes:
        of: Group of each target whose group is larger than its conversation.
        count: Number of groups.
        largest: Number of targets in the largest group.
        joined: Number of joined conversations by reason.
    """

    of: Mapping[Target, str] = field(default_factory=dict)
    count: int = 0
    largest: int = 0
    joined: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the counts as JSON values and as text."""
        return {"groups": self.count, "largest": self.largest, "joined": dict(self.joined), "said": str(self)}

    def __str__(self) -> str:
        why = ", ".join(f"{count} conversations by {reason}" for reason, count in self.joined.items())
        return f"{self.count} groups of conversations (joined: {why})" if why else "whole conversations"


def groups_of(samples: Sequence[Sample], group_by: Iterable[str] = (), by_input: bool = False) -> Groups:
    """Return the groups of some samples.

    Args:
        samples: Rated samples.
        group_by: Names of metadata entries, or `system`: conversations with the same value stay together.
        by_input: True to join conversations of several systems that begin with the same message. A message that one
            system received several times (a greeting) does not join conversations.
    """
    union = _Union()
    for sample in samples:
        union.find(sample.target.conversation)
    joined = {**_keys(samples, tuple(group_by)), **({INPUT: _same_inputs(samples)} if by_input else {})}
    for reason, keys in joined.items():
        for names in keys:
            union.join(names, reason)
    members: dict[str, list[str]] = {}
    for name in union.parent:
        members.setdefault(union.find(name), []).append(name)
    named = {name: min(names) for names in members.values() for name in names if len(names) > 1}
    of = {s.target: named[s.target.conversation] for s in samples if s.target.conversation in named}
    sizes = Counter(named.get(s.target.conversation, s.target.conversation) for s in samples)
    return Groups(of, len(sizes), max(sizes.values(), default=0), union.reasons)


class _Union:
    """Union-find over names, with the reasons of joins."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.reasons: Counter[str] = Counter()

    def find(self, name: str) -> str:
        self.parent.setdefault(name, name)
        while self.parent[name] != name:
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def join(self, names: Sequence[str], reason: str) -> None:
        first = self.find(names[0])
        for name in names[1:]:
            other = self.find(name)
            if other != first:
                self.parent[other] = first
                self.reasons[reason] += 1


def _keys(samples: Sequence[Sample], group_by: Sequence[str]) -> dict[str, list[list[str]]]:
    """Return lists of conversations that belong together, by reason."""
    result: dict[str, list[list[str]]] = {}
    texts: dict[str, dict[str, list[str]]] = {OPENING: {}, TEXT: {}}
    openings = {" ".join(_words(sample.conversation.turns[: sample.turn])) for sample in samples if sample.turn}
    for sample in samples:
        for reason, text in _texts(sample, openings):
            texts[reason].setdefault(text, []).append(sample.target.conversation)
    for reason, lines in texts.items():
        equal = [names for names in lines.values() if len(names) > 1]
        result[reason] = equal + [[lines[a][0], lines[b][0]] for a, b in nearly_equal(list(lines))]
    for by in group_by:
        values: dict[str, list[str]] = {}
        for sample in samples:
            conversation = sample.conversation
            value = conversation.system if by == "system" else conversation.metadata.get(by)
            if value is not None:
                values.setdefault(str(value), []).append(conversation.id)
        result[f"the same {by}"] = [names for names in values.values() if len(set(names)) > 1]
    return result


def _same_inputs(samples: Sequence[Sample]) -> list[list[str]]:
    """Return lists of conversations of several systems, one each, that begin with the same message."""
    result: dict[str, dict[str, list[str]]] = {}
    for conversation in {sample.conversation.id: sample.conversation for sample in samples}.values():
        words = " ".join(_words([turn for turn in conversation.turns if turn.role == "user"][:1]))
        if words:
            result.setdefault(words, {}).setdefault(conversation.system or "", []).append(conversation.id)
    return [
        [name for names in of.values() for name in names]
        for of in result.values()
        if len(of) > 1 and all(len(names) == 1 for names in of.values())
    ]


def _texts(sample: Sample, openings: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys that a sample shares with others: its text, or the openings of rated turns that it begins with."""
    turns = sample.conversation.turns
    if sample.turn is None:
        if words := _words(turns):
            yield TEXT, " ".join(words)
        return
    is_last = sample.turn == len(turns) - 1
    begun: list[str] = []
    for place, turn in enumerate(turns[: sample.turn], 1):
        begun += _words([turn])
        opening = " ".join(begun)
        if begun and (len(begun) >= FEWEST_WORDS or (is_last and place == sample.turn)) and opening in openings:
            yield OPENING, opening


def _words(turns: Sequence[Turn]) -> list[str]:
    """Return the words of turns without instructions, which all conversations of an assistant share."""
    spoken = (turn.content for turn in turns if turn.role not in _INSTRUCTIONS)
    return [word for text in spoken for word in _WORD.findall(text.casefold())]


def nearly_equal(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of different texts whose word 5-grams have a Jaccard similarity of at least `ALIKE`."""
    grams = {text: _grams(text) for text in texts}
    long = [text for text in texts if len(grams[text]) > _GRAM]
    if len(long) < 2:
        return []
    buckets: dict[tuple[int, bytes], list[str]] = {}
    for text in long:
        for bucket in _buckets(grams[text]):
            buckets.setdefault(bucket, []).append(text)
    pairs = {
        (bucket[0], other)
        for bucket in buckets.values()
        for other in bucket[1:]
        if _alike(grams[bucket[0]], grams[other])
    }
    return sorted(pairs)


class TextIndex:
    """Index of texts that finds equal and nearly equal earlier texts, as `groups_of` defines them."""

    def __init__(self) -> None:
        self._equal: dict[str, str] = {}
        self._buckets: dict[tuple[int, bytes], list[tuple[str, set[int]]]] = {}

    def add(self, name: str, turns: Sequence[Turn]) -> str | None:
        """Return the name of an equal or nearly equal earlier text, or `None` for a new text, which is added."""
        text = " ".join(_words(turns))
        if text in self._equal:
            return self._equal[text]
        grams = _grams(text)
        buckets = _buckets(grams) if len(grams) > _GRAM else []
        for bucket in buckets:
            for other, known in self._buckets.get(bucket, ()):
                if _alike(grams, known):
                    return other
        self._equal[text] = name
        for bucket in buckets:
            self._buckets.setdefault(bucket, []).append((name, grams))
        return None


def _buckets(grams: set[int]) -> list[tuple[int, bytes]]:
    """Return the MinHash buckets of a text; nearly equal texts share one."""
    a, b = _hashes()
    hashes = np.fromiter(grams, dtype=np.uint64)
    least = ((hashes[:, None] * a + b) % np.uint64(_PRIME)).min(axis=0).reshape(_BANDS, _ROWS)
    return [(band, row.tobytes()) for band, row in enumerate(least)]


@cache
def _hashes() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 1 << 31, size=_BANDS * _ROWS, dtype=np.uint64) for _ in range(2))
    return a, b


def _alike(one: set[int], other: set[int]) -> bool:
    return len(one & other) >= ALIKE * len(one | other)


def _grams(text: str) -> set[int]:
    """Return the hashes of a text's word 5-grams, below 2³²."""
    words = text.split()
    runs = (" ".join(words[place : place + _GRAM]) for place in range(max(len(words) - _GRAM + 1, 1)))
    return {int.from_bytes(hashlib.blake2b(run.encode(), digest_size=4).digest(), "big") for run in runs}
