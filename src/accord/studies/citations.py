"""What a reply uses of the documents: those that it names by number, and passages whose words it repeats in order.

Nobody is asked: a passage is `LEAST` words or more that stand in both, whatever their case. It says where to look, and
not that the reply is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accord.values import Document, Span, Turn

LEAST = 5
"""Words that a reply and a document share in their order."""
LOOKED_AT = 50_000
"""Characters of a reply, and of each document, that are compared."""
AROUND = 160
"""Characters of a document that are shown on either side of a passage."""
_WORD = re.compile(r"\w+")
_CITED = re.compile(r"\[(\d{1,4})\]")


@dataclass(frozen=True)
class Used:
    """What a reply uses of one document.

    Attributes:
        number: Of the document, from 1, as citations count.
        is_cited: Whether the reply names it by its number, or says that it was retrieved for it.
        spans: Passages of the document that the reply repeats, in their order, none overlapping another.
    """

    number: int
    is_cited: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class _Words:
    """The words of a text in lower case, and where each stands."""

    words: tuple[str, ...]
    places: tuple[Span, ...]

    @classmethod
    def of(cls, text: str) -> _Words:
        found = list(_WORD.finditer(text, 0, LOOKED_AT))
        return cls(tuple(each[0].casefold() for each in found), tuple(each.span() for each in found))


class Passages:
    """The documents of a conversation, looked through once for all its replies."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._numbers = {str(each.id): place for place, each in enumerate(documents, 1) if each.id is not None}
        self._documents = [_Words.of(each.text) for each in documents]
        self._first: dict[tuple[str, ...], tuple[int, int]] = {}
        for number, each in enumerate(self._documents):
            for place in range(len(each.words) - LEAST + 1):
                self._first.setdefault(each.words[place : place + LEAST], (number, place))

    def used_by(self, turn: Turn) -> list[Used]:
        """What a turn uses, by the documents' numbers."""
        if not self._documents:
            return []
        spans = self._shared(_Words.of(turn.content).words)
        cited = {int(number) for number in _CITED.findall(turn.content[:LOOKED_AT])} | self._retrieved(turn.extra)
        known = sorted({number for number in cited if 1 <= number <= len(self._documents)} | spans.keys())
        return [Used(number, number in cited, _joined(spans.get(number, []))) for number in known]

    def _retrieved(self, extra: Mapping[str, object]) -> set[int]:
        """The documents that a turn says were found for it, by their ids."""
        named = extra.get("documents")
        ids = [str(each) for each in named if isinstance(each, str | int)] if isinstance(named, list | tuple) else []
        return {self._numbers[each] for each in ids if each in self._numbers}

    def _shared(self, said: tuple[str, ...]) -> dict[int, list[Span]]:
        found: dict[int, list[Span]] = {}
        at = 0
        while at <= len(said) - LEAST:
            first = self._first.get(said[at : at + LEAST])
            if first is None:
                at += 1
                continue
            number, place = first
            document = self._documents[number]
            length = LEAST
            while said[at + length : at + length + 1] == document.words[place + length : place + length + 1] != ():
                length += 1
            span = document.places[place][0], document.places[place + length - 1][1]
            found.setdefault(number + 1, []).append(span)
            at += length
        return found


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Spans in their order, those that touch as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return tuple(found)


def excerpts(text: str, spans: Sequence[Span]) -> list[tuple[Span, tuple[Span, ...]]]:
    """Where to cut a document so that each passage stands in its surroundings; the passages of each cut."""
    found: list[tuple[Span, tuple[Span, ...]]] = []
    for start, end in spans:
        first, last = max(0, start - AROUND), min(len(text), end + AROUND)
        if found and first <= found[-1][0][1]:
            (begin, _), inside = found[-1]
            found[-1] = (begin, last), (*inside, (start, end))
        else:
            found.append(((first, last), ((start, end),)))
    return found
