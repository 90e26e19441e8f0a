"""What a person gets to see of a task: a value without what must stay hidden.

It is made from a conversation, and from the issues only where the stage shows them. The score, its comment and the
name of the model never enter it, so that no page and no answer in JSON can give them away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from accord.assessment import Issue, Span
from accord.conversation import Conversation, sendable
from accord.taxonomy import Taxonomy
from accord.validation.stages import Stage


class At(NamedTuple):
    """A step of a person: which of its turns, from 1, and which stage."""

    place: int
    stage: str


class Part(NamedTuple):
    """Words of a turn, and whether an issue quotes them."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class ShownTurn:
    """One turn: who speaks, what is said, and whether it is the one to judge."""

    speaker: str
    parts: tuple[Part, ...]
    judged: bool


@dataclass(frozen=True)
class ShownIssue:
    """One issue; `objective` and `definition` are `None` and empty for kinds that the taxonomy does not have."""

    type: str
    objective: bool | None
    definition: str
    comment: str
    quote: str
    is_made_up: bool


@dataclass(frozen=True)
class Task:
    """What is shown, and what is asked.

    Attributes:
        at: Which step it is.
        of: How many turns the person has.
        stage: The question and its answers.
        turns: All turns up to the judged one, which is the last.
        issues: What was found; `None` where the stage does not show it.
        before: What the person itself answered at the stage before; `None` at the first.
    """

    at: At
    of: int
    stage: Stage
    turns: tuple[ShownTurn, ...]
    issues: tuple[ShownIssue, ...] | None
    before: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        row: dict[str, Any] = {
            "place": self.at.place,
            "of": self.of,
            "stage": self.stage.id,
            "before": self.before,
            "question": self.stage.question,
            "answers": [{"value": v, "word": word, "meaning": told} for v, (word, told) in self.stage.meanings.items()],
            "turns": [
                {"speaker": turn.speaker, "text": "".join(part.text for part in turn.parts), "judged": turn.judged}
                for turn in self.turns
            ],
        }
        if self.issues is not None:
            row["issues"] = [
                {"type": each.type, "objective": each.objective, "definition": each.definition,
                 "comment": each.comment, "quote": each.quote} for each in self.issues
            ]  # fmt: skip
        return row


def task(
    at: At, of: int, stage: Stage, conversation: Conversation, turn: int, issues: Sequence[Issue], taxonomy: Taxonomy
) -> Task:
    """The task of judging one turn of a conversation; `issues` are left out where the stage does not show them."""
    seen = tuple(issues) if stage.shows_issues else ()
    spans = [issue.span for issue in seen if issue.span is not None]
    turns = tuple(
        ShownTurn(
            sendable(each.name or each.role),
            parts(each.content, spans if place == turn else []),
            place == turn,
        )
        for place, each in enumerate(conversation.up_to(turn))
    )
    shown = tuple(_shown(issue, taxonomy) for issue in seen) if stage.shows_issues else None
    return Task(at, of, stage, turns, shown)


def _shown(issue: Issue, taxonomy: Taxonomy) -> ShownIssue:
    kind = next((kind for kind in taxonomy.issues if kind.name == issue.type), None)
    objective, definition = (None, "") if kind is None else (kind.objective, kind.definition)
    name, comment, quote = map(sendable, (issue.type, issue.comment, issue.quote))
    return ShownIssue(name, objective, definition, comment, quote, issue.is_made_up)


def parts(text: str, spans: Sequence[Span]) -> tuple[Part, ...]:
    """A text cut where quoted words begin and end; spans that overlap or touch become one.

    >>> parts("It is much better.", [(6, 10), (8, 17)])
    (Part(text='It is ', quoted=False), Part(text='much better', quoted=True), Part(text='.', quoted=False))
    """
    found, done = [], 0
    for start, end in _joined(text, spans):
        found += [Part(text[done:start], False), Part(text[start:end], True)]
        done = end
    found.append(Part(text[done:], False))
    return tuple(Part(sendable(part.text), part.quoted) for part in found if part.text)


def _joined(text: str, spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted((max(0, start), min(end, len(text))) for start, end in spans):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
