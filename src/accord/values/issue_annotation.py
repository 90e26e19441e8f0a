"""An assessment: the issues of one reply, each with the words that show it, and how good the reply is on the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from accord.values.conversation import Conversation, Target, content_hash

MIN_SCORE, MAX_SCORE = 1, 5
"""The ends of an overall score: poor and excellent."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Issue:
    """One issue of a reply.

    Attributes:
        type: Its kind, a name of the taxonomy.
        comment: What is wrong, in a sentence.
        quote: Words of the reply that show it, as they were given; may be empty.
        span: Where in the reply the quote stands, from a character up to another; `None` where it does not.
        said: What it was called before it was mapped to the taxonomy; `None` where it was called so.
    """

    type: str
    comment: str
    quote: str = ""
    span: Span | None = None
    said: str | None = None

    @property
    def is_made_up(self) -> bool:
        """Whether it quotes words that the reply does not have."""
        return bool(self.quote) and self.span is None

    def to_json(self) -> dict[str, Any]:
        """The issue as plain JSON values; what is empty is left out."""
        row = {"type": self.type, "comment": self.comment, "quote": self.quote, "span": self.span, "said": self.said}
        return {name: value for name, value in row.items() if value or name in {"type", "comment"}}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Issue:
        """The inverse of `to_json`."""
        span = row.get("span")
        return cls(
            row["type"], row["comment"], row.get("quote", ""), None if span is None else (span[0], span[1]),
            row.get("said"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class IssueAnnotation:
    """What a model says of one reply, given all that was said before it.

    Attributes:
        target: The turn.
        issues: What is wrong with it; empty where nothing is.
        score: From 1 (poor) to 5 (excellent).
        comment: Why, in at most 25 words.
        signature: How it was made: the model, the taxonomy, the prompts.
        losses: What else the model wrote about the turn and nobody could read, by reason.
        said: A digest of what was said up to the turn (`turn_digests`); empty where that is not known. The same id with
            other words is another turn.
    """

    target: Target
    issues: tuple[Issue, ...]
    score: int
    comment: str
    signature: str
    losses: tuple[str, ...] = ()
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        """The assessment as plain JSON values, without its target and how it was made."""
        row: dict[str, Any] = {"issues": [issue.to_json() for issue in self.issues], "score": self.score}
        more = {"losses": list(self.losses), "said": self.said}
        return {**row, "comment": self.comment, **{name: value for name, value in more.items() if value}}

    @classmethod
    def from_json(cls, target: Target, signature: str, row: Mapping[str, Any]) -> IssueAnnotation:
        """The inverse of `to_json`."""
        issues = tuple(map(Issue.from_json, row["issues"]))
        losses, said = tuple(row.get("losses", ())), row.get("said", "")
        return cls(target, issues, row["score"], row["comment"], signature, losses, said)


@dataclass(frozen=True, slots=True)
class Unannotated:
    """A turn without an assessment, and why: a value in a batch, never a default score."""

    target: Target
    reason: str
    detail: str = ""


def turn_digests(conversation: Conversation) -> list[str]:
    """For each turn a digest of what could be seen up to it: the documents, and every turn with its role and name."""
    last = content_hash([document.to_json() for document in conversation.documents], length=16)
    found = []
    for turn in conversation.turns:
        calls = list(turn.extra.get("tool_calls") or ())
        last = content_hash([last, turn.role, turn.name, turn.content, calls], length=16)
        found.append(last)
    return found


_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})
_AROUND = " \t\n\"'.\u2026"
_GAP = re.compile(r"\s+")


def with_located_quotes(found: IssueAnnotation, reply: str) -> IssueAnnotation:
    """The assessment with each quote looked up in the reply that it is about."""
    issues = tuple(replace(issue, span=find_quote(issue.quote, reply)) for issue in found.issues)
    return replace(found, issues=issues)


def find_quote(quote: str, reply: str) -> Span | None:
    """Where a reply has the quoted words, whatever the case, the white space and the shape of quotation marks.

    >>> span_of("much  Better", "It is much better now.")
    (6, 17)
    """
    words = quote.strip(_AROUND)
    if not words:
        return None
    start = reply.find(words)
    if start >= 0:
        return start, start + len(words)
    pattern = r"\s+".join(map(re.escape, _GAP.split(words.translate(_QUOTES))))
    found = re.search(pattern, reply.translate(_QUOTES), re.IGNORECASE)
    return None if found is None else found.span()
