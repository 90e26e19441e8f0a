"""Documents that a reply uses: cited by number, or repeated word for word.

A passage is a sequence of at least `MIN_WORDS` words that occurs in the reply and in the document, ignoring case. It
shows where to look; it does not prove that the reply is correct. No model is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accord.values import Document, Span, Turn

MIN_WORDS = 5
MAX_COMPARED = 50_000
"""Number of characters of a reply, and of each document, that are compared."""
CONTEXT = 160
"""Number of characters of a document shown before and after a passage."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class DocumentUse:
    """Use of a document in a reply.

    Attributes:
        number: Number of the document, from 1, as in citations.
        is_cited: True if the reply cites the document, or records that it was retrieved for it.
        spans: Passages of the document that the reply repeats, in order, without overlap.
    """

    number: int
    is_cited: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class _Words:
    """Words of a text in lower case, with their spans."""

    words: tuple[str, ...]
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, text: str) -> _Words:
        matches = list(_WORD.finditer(text, 0, MAX_COMPARED))
        return cls(tuple(match[0].casefold() for match in matches), tuple(match.span() for match in matches))


class CitationFinder:
    """Index of the documents of a conversation, built once for all of its replies.

    Attributes:
        citation: Citation of a document by number: `[2]`, `[doc2]`.
    """

    citation = re.compile(r"\[(?:doc ?)?(\d{1,4})\]", re.IGNORECASE)

    def __init__(self, documents: Sequence[Document]) -> None:
        self._numbers = {str(each.id): number for number, each in enumerate(documents, 1) if each.id is not None}
        self._documents = [_Words.of(document.text) for document in documents]
        self._index: dict[tuple[str, ...], tuple[int, int]] = {}
        for number, document in enumerate(self._documents):
            for place in range(len(document.words) - MIN_WORDS + 1):
                self._index.setdefault(document.words[place : place + MIN_WORDS], (number, place))

    def uses(self, turn: Turn) -> list[DocumentUse]:
        """Return the documents that a turn uses, by number."""
        if not self._documents:
            return []
        spans = self._repeated_passages(_Words.of(turn.content).words)
        cited = {int(number) for number in self.citation.findall(turn.content[:MAX_COMPARED])} | self._retrieved(
            turn.extra
        )
        numbers = sorted({number for number in cited if 1 <= number <= len(self._documents)} | spans.keys())
        return [DocumentUse(number, number in cited, _merge_spans(spans.get(number, []))) for number in numbers]

    def _retrieved(self, extra: Mapping[str, object]) -> set[int]:
        """Return the documents that a turn records as retrieved, by their ids."""
        documents = extra.get("documents")
        names = documents if isinstance(documents, list | tuple) else []
        ids = [str(name) for name in names if isinstance(name, str | int)]
        return {self._numbers[id] for id in ids if id in self._numbers}

    def _repeated_passages(self, reply: tuple[str, ...]) -> dict[int, list[Span]]:
        passages: dict[int, list[Span]] = {}
        at = 0
        while at <= len(reply) - MIN_WORDS:
            match = self._index.get(reply[at : at + MIN_WORDS])
            if match is None:
                at += 1
                continue
            number, place = match
            document, length = self._documents[number], MIN_WORDS
            while reply[at + length : at + length + 1] == document.words[place + length : place + length + 1] != ():
                length += 1
            span = document.spans[place][0], document.spans[place + length - 1][1]
            passages.setdefault(number + 1, []).append(span)
            at += length
        return passages


def _merge_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return spans in order, with touching ones merged."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return tuple(merged)


def excerpts(text: str, spans: Sequence[Span]) -> list[tuple[Span, tuple[Span, ...]]]:
    """Return the parts of a document to show: each passage with its context, and the passages in each part."""
    parts: list[tuple[Span, tuple[Span, ...]]] = []
    for start, end in spans:
        first, last = max(0, start - CONTEXT), min(len(text), end + CONTEXT)
        if parts and first <= parts[-1][0][1]:
            (begin, _), inside = parts[-1]
            parts[-1] = (begin, last), (*inside, (start, end))
        else:
            parts.append(((first, last), ((start, end),)))
    return parts
