"""The page on issues: SODA-EVAL's statistics as plots, and the worst turns with the words that show what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accord.report import charts
from accord.report.charts import page
from accord.values import Conversation, IssueAnnotation, Taxonomy
from accord.workbench import parts

WORST_SHOWN = 12


def write_issues_page(
    found: Mapping[str, Any],
    assessments: Sequence[IssueAnnotation],
    conversations: Iterable[Conversation],
    taxonomy: Taxonomy,
    path: str | Path,
    validation: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the page of `statistics`, of the assessments they were made from, and of how people validated them."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    known = {conversation.id: conversation for conversation in conversations}
    text = page(
        "issues.html",
        {
            "found": found,
            "taxonomy": taxonomy,
            "signature": sorted({each.signature for each in assessments}),
            "plots": _plots(found, taxonomy),
            "worst": [_worst(each, known.get(each.target.conversation)) for each in worst(assessments)],
            "validation": {each["flow"]: each for each in validation},
        },
    )
    target.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
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


def _plots(found: Mapping[str, Any], taxonomy: Taxonomy) -> list[tuple[str, str]]:
    there = [row for row in found["types"] if row["turns"]]
    plots = [
        ("Kinds of issues; critical ones are orange", charts.kinds(there) if there else ""),
        ("Issues a turn", charts.counts(found["issues_per_turn"], "issues", "turns")),
        ("Scores of turns", charts.counts(found["scores"], "score", "turns")),
        ("Issues at each score", charts.by_score(found["types_by_score"], taxonomy.names) if there else ""),
        ("Scores of dialogues", charts.of_dialogues(found["dialogue_mean"], found["dialogue_minimum"])),
        ("Along the dialogue", _along(found["by_position"], "turn")),
        ("By day", _along(found["by_day"], "day")),
    ]
    return [(title, plot) for title, plot in plots if plot]


def _along(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    return charts.along(rows, title) if len(rows) > 1 else ""


def _worst(each: IssueAnnotation, conversation: Conversation | None) -> dict[str, Any]:
    place = each.target.turn or 0
    turns = conversation.turns if conversation is not None else ()
    reply = turns[place].content if place < len(turns) else ""
    return {
        "assessment": each,
        "before": turns[max(place - 3, 0) : place],
        "first": max(place - 3, 0),
        "parts": parts(reply, [issue.span for issue in each.issues if issue.span is not None]),
    }
