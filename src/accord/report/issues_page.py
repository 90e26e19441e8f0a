"""The page on issues: SODA-EVAL's statistics as plots, and the worst turns with the words that show what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from accord.edges import sendable, write_whole
from accord.report import charts
from accord.report.charts import page
from accord.studies import Outcome
from accord.validation import GroupCounts, IssueStatistics
from accord.values import Conversation, IssueAnnotation, Span, Taxonomy, Turn

WORST_SHOWN = 12


class Part(NamedTuple):
    """Words of a turn, and whether an issue quotes them."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class WorstTurn:
    """A turn with issues, the turns before it from place `first` on, and its text in parts that are quoted or not."""

    assessment: IssueAnnotation
    before: Sequence[Turn]
    first: int
    parts: Sequence[Part]


@dataclass(frozen=True)
class IssuesContent:
    """Everything the page shows; the plots are SVG with their titles, `validation` is by flow."""

    found: IssueStatistics
    taxonomy: Taxonomy
    signature: Sequence[str]
    plots: Sequence[tuple[str, str]]
    worst: Sequence[WorstTurn]
    validation: Mapping[str, Outcome]


def write_issues_page(
    found: IssueStatistics,
    assessments: Sequence[IssueAnnotation],
    conversations: Iterable[Conversation],
    taxonomy: Taxonomy,
    path: str | Path,
    validation: Sequence[Outcome] = (),
) -> Path:
    """Write the page of `statistics`, of the assessments they were made from, and of how people validated them."""
    target = Path(path)
    known = {conversation.id: conversation for conversation in conversations}
    shown = IssuesContent(
        found,
        taxonomy,
        sorted({each.signature for each in assessments}),
        _plots(found, taxonomy),
        [_worst(each, known.get(each.target.conversation)) for each in worst(assessments)],
        {each.flow: each for each in validation},
    )
    write_whole(target, page("issues.html", shown), "xmlcharrefreplace")
    return target


def worst(assessments: Sequence[IssueAnnotation], most: int = WORST_SHOWN) -> list[IssueAnnotation]:
    """The turns with the lowest scores that have issues, one a dialogue."""
    seen: set[str] = set()
    shown: list[IssueAnnotation] = []
    for each in sorted(assessments, key=lambda one: (one.score, -len(one.issues), str(one.target))):
        if each.issues and each.target.conversation not in seen and len(shown) < most:
            seen.add(each.target.conversation)
            shown.append(each)
    return shown


def _plots(found: IssueStatistics, taxonomy: Taxonomy) -> list[tuple[str, str]]:
    there = [row for row in found.types if row.turns]
    plots = [
        ("Kinds of issues; critical ones are orange", charts.kinds(there) if there else ""),
        ("Issues a turn", charts.counts(found.issues_per_turn, "issues", "turns")),
        ("Scores of turns", charts.counts(found.scores, "score", "turns")),
        ("Issues at each score", charts.by_score(found.types_by_score, taxonomy.names) if there else ""),
        ("Scores of dialogues", charts.of_dialogues(found.dialogue_mean, found.dialogue_minimum)),
        ("Along the dialogue", _along(found.by_position, "turn")),
        ("By day", _along(found.by_day, "day")),
    ]
    return [(title, plot) for title, plot in plots if plot]


def _along(rows: Sequence[GroupCounts], title: str) -> str:
    return charts.along(rows, title) if len(rows) > 1 else ""


def _worst(each: IssueAnnotation, conversation: Conversation | None) -> WorstTurn:
    place = each.target.turn or 0
    turns = conversation.turns if conversation is not None else ()
    reply = turns[place].content if place < len(turns) else ""
    first = max(place - 3, 0)
    quoted = parts(reply, [issue.span for issue in each.issues if issue.span is not None])
    return WorstTurn(each, turns[first:place], first, quoted)


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
