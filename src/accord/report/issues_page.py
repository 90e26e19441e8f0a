"""The page on issues: SODA-EVAL's statistics as plots, and the worst turns with the words that show what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accord.methods import GroupCounts, IssueStatistics
from accord.report import charts
from accord.report.charts import page
from accord.values import Conversation, IssueAnnotation, Taxonomy, Turn
from accord.workbench import Outcome, parts

WORST_SHOWN = 12


@dataclass(frozen=True)
class WorstTurn:
    """A turn with issues, the turns before it from place `first` on, and its text in parts that are quoted or not."""

    assessment: IssueAnnotation
    before: Sequence[Turn]
    first: int
    parts: Sequence[tuple[str, bool]]


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
    target.parent.mkdir(parents=True, exist_ok=True)
    known = {conversation.id: conversation for conversation in conversations}
    shown = IssuesContent(
        found,
        taxonomy,
        sorted({each.signature for each in assessments}),
        _plots(found, taxonomy),
        [_worst(each, known.get(each.target.conversation)) for each in worst(assessments)],
        {each.flow: each for each in validation},
    )
    target.write_text(page("issues.html", shown), encoding="utf-8", errors="xmlcharrefreplace")
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
