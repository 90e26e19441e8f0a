"""Issue annotations: issues of one reply with quotes as evidence, and an overall score."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from accord.values.conversation import Conversation, Target, content_hash

MIN_SCORE, MAX_SCORE = 1, 5
"""Range of an overall score: poor and excellent."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Issue:
    """One issue of a reply.

    Attributes:
        type: Kind of issue, as named in the taxonomy.
        comment: One sentence on the problem.
        quote: Quoted words of the reply as evidence; may be empty.
        span: Start and end of the quote in the reply, in characters; None if the quote is not found.
        said: Original name of the kind before it was mapped to the taxonomy; None if it is unchanged.
    """

    type: str
    comment: str
    quote: str = ""
    span: Span | None = None
    said: str | None = None

    @property
    def is_made_up(self) -> bool:
        """True if the quote does not occur in the reply."""
        return bool(self.quote) and self.span is None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without empty fields."""
        row = {"type": self.type, "comment": self.comment, "quote": self.quote, "span": self.span, "said": self.said}
        return {name: value for name, value in row.items() if value or name in {"type", "comment"}}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Issue:
        """Return the value of `to_json`."""
        span = row.get("span")
        return cls(
            row["type"], row["comment"], row.get("quote", ""), None if span is None else (span[0], span[1]),
            row.get("said"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class IssueAnnotation:
    """A model's assessment of one reply, given the dialogue before it.

    Attributes:
        target: The turn.
        issues: The issues; empty if there are none.
        score: From 1 (poor) to 5 (excellent).
        comment: The reason, in at most 25 words.
        signature: Signature of the model, the taxonomy and the prompts.
        losses: Reasons for parts of the model's reply that could not be parsed.
        said: Digest of the dialogue up to the turn (`turn_digests`); empty if unknown. It distinguishes a conversation
            with the same ID and other texts.
    """

    target: Target
    issues: tuple[Issue, ...]
    score: int
    comment: str
    signature: str
    losses: tuple[str, ...] = ()
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without target and signature."""
        row: dict[str, Any] = {"issues": [issue.to_json() for issue in self.issues], "score": self.score}
        more = {"losses": list(self.losses), "said": self.said}
        return {**row, "comment": self.comment, **{name: value for name, value in more.items() if value}}

    @classmethod
    def from_json(cls, target: Target, signature: str, row: Mapping[str, Any]) -> IssueAnnotation:
        """Return the value of `to_json`."""
        issues = tuple(map(Issue.from_json, row["issues"]))
        losses, said = tuple(row.get("losses", ())), row.get("said", "")
        return cls(target, issues, row["score"], row["comment"], signature, losses, said)


@dataclass(frozen=True, slots=True)
class Unannotated:
    """A turn that has no assessment, and the reason."""

    target: Target
    reason: str
    detail: str = ""


def turn_digests(conversation: Conversation) -> list[str]:
    """Return a digest per turn of the dialogue up to it: documents, roles, names and texts."""
    last = content_hash([document.to_json() for document in conversation.documents], length=16)
    digests = []
    for turn in conversation.turns:
        calls = list(turn.extra.get("tool_calls") or ())
        last = content_hash([last, turn.role, turn.name, turn.content, calls], length=16)
        digests.append(last)
    return digests


_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})
_AROUND = " \t\n\"'.\u2026"
_GAP = re.compile(r"\s+")


def with_located_quotes(annotation: IssueAnnotation, reply: str) -> IssueAnnotation:
    """Return the annotation with the spans of its quotes in the reply."""
    issues = tuple(replace(issue, span=find_quote(issue.quote, reply)) for issue in annotation.issues)
    return replace(annotation, issues=issues)


def find_quote(quote: str, reply: str) -> Span | None:
    """Return the span of a quote in a reply, ignoring case, white space and the style of quotation marks.

    >>> find_quote("much  Better", "It is much better now.")
    (6, 17)
    """
    words = quote.strip(_AROUND)
    if not words:
        return None
    start = reply.find(words)
    if start >= 0:
        return start, start + len(words)
    pattern = r"\s+".join(map(re.escape, _GAP.split(words.translate(_QUOTES))))
    match = re.search(pattern, reply.translate(_QUOTES), re.IGNORECASE)
    return None if match is None else match.span()
