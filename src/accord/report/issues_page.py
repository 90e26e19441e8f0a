"""The page of issues: statistics of SODA-EVAL as charts, and the turns with the lowest scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from accord.charts import Axis, ChartLine, ChartRow, bar_chart, column_chart, line_chart, row_chart, scatter
from accord.edges import sendable, write_atomically
from accord.report.page import render_page
from accord.studies import StudyOutcome
from accord.validation import GroupCounts, IssueStatistics
from accord.values import Conversation, Estimate, IssueAnnotation, Span, Taxonomy

WORST_SHOWN = 12


class QuotedPart(NamedTuple):
    """A part of a turn; `quoted` is True if an issue quotes it."""

    text: str
    quoted: bool


def write_issues_page(
    found: IssueStatistics,
    assessments: Sequence[IssueAnnotation],
    conversations: Iterable[Conversation],
    taxonomy: Taxonomy,
    path: str | Path,
    validation: Sequence[StudyOutcome] = (),
) -> Path:
    """Write the page of issue statistics, of the assessments behind them, and of their validation by people."""
    target = Path(path)
    known = {conversation.id: conversation for conversation in conversations}
    values = {
        "found": found,
        "taxonomy": taxonomy,
        "signature": sorted({each.signature for each in assessments}),
        "charts": page_charts(found, taxonomy),
        "worst": [_worst(each, known.get(each.target.conversation)) for each in worst(assessments)],
        "validation": {each.flow: {**each.results, "examples": each.examples} for each in validation},
    }
    write_atomically(target, render_page("issues.html", values), "xmlcharrefreplace")
    return target


def worst(assessments: Sequence[IssueAnnotation], most: int = WORST_SHOWN) -> list[IssueAnnotation]:
    """Return the turns with issues and the lowest scores, one per dialogue."""
    seen: set[str] = set()
    shown: list[IssueAnnotation] = []
    for each in sorted(assessments, key=lambda one: (one.score, -len(one.issues), str(one.target))):
        if each.issues and each.target.conversation not in seen and len(shown) < most:
            seen.add(each.target.conversation)
            shown.append(each)
    return shown


def page_charts(found: IssueStatistics, taxonomy: Taxonomy) -> dict[str, Markup]:
    """Return the charts of the page by their names; a chart without values is empty."""
    kinds = sorted((kind for kind in found.types if kind.turns), key=lambda kind: kind.turns, reverse=True)
    rows = [
        ChartRow(kind.type, Estimate(kind.share), "tool" if kind.critical else "neutral", count=kind.turns)
        for kind in kinds
    ]
    scores = sorted({*found.dialogue_mean, *found.dialogue_minimum})
    dialogues = [
        ChartRow(
            str(score),
            Estimate(found.dialogue_mean.get(score, 0)),
            more=[(Estimate(found.dialogue_minimum.get(score, 0)), "neutral")],
        )
        for score in scores
    ]
    return {
        "kinds": _bars(rows, Axis("share of turns", 0, is_share=True), "Kinds of issues"),
        "counts": _bars(_numbers(found.issues_per_turn), Axis("turns", 0), "Issues per turn"),
        "scores": _bars(_numbers(found.scores), Axis("turns", 0), "Scores of turns"),
        "dialogues": _bars(dialogues, Axis("dialogues", 0), "Scores of dialogues", ["mean", "lowest"]),
        "kinds_by_score": _kinds_by_score(found, taxonomy),
        "positions": _shares_along(found.by_position, "turn"),
        "days": _shares_along(found.by_day, "day"),
    }


def _numbers(counts: Mapping[int, int]) -> list[ChartRow]:
    return [ChartRow(str(value), Estimate(count)) for value, count in counts.items()]


def _bars(rows: Sequence[ChartRow], axis: Axis, title: str, heads: Sequence[str] = ()) -> Markup:
    return row_chart(rows, axis, title, is_bars=True, heads=heads) if rows else Markup("")


def _shares_along(rows: Sequence[GroupCounts], title: str) -> Markup:
    """Draw the share of turns with an issue by position or day; empty with fewer than two."""
    return scatter([_line_of(rows)], *_axes_along(rows, title)) if len(rows) > 1 else Markup("")


def issue_plots(found: IssueStatistics, taxonomy: Taxonomy) -> list[tuple[str, Markup]]:
    """Return charts of issues and scores with their titles (figures 1 to 5 and 8 of SODA-EVAL)."""
    plots = [
        ("Kinds of issues; critical ones are red", _kinds(found)),
        ("Issues per turn", _counts(found.issues_per_turn, "issues", "turns")),
        ("Scores of turns", _counts(found.scores, "score", "turns")),
        ("Issues at each score", _kinds_by_score(found, taxonomy)),
        ("Scores of dialogues", _dialogues(found)),
        ("Along the dialogue", _along(found.by_position, "turn")),
        ("By day", _along(found.by_day, "day")),
    ]
    return [(title, plot) for title, plot in plots if plot]


def _counts(numbers: Mapping[int, int], axis: str, counted: str) -> Markup:
    labels = [str(value) for value in numbers]
    return column_chart(labels, {counted: list(numbers.values())}, Axis(axis), Axis(counted), f"{counted} by {axis}")


def _kinds(found: IssueStatistics) -> Markup:
    """Draw the share of turns with each kind of issue, the most frequent first."""
    kinds = sorted((kind for kind in found.types if kind.turns), key=lambda kind: kind.turns, reverse=True)
    rows = [ChartRow(kind.type, Estimate(kind.share), "flagged" if kind.critical else "model") for kind in kinds]
    return bar_chart(rows, Axis("share of turns", is_share=True), "Kinds of issues") if rows else Markup("")


def _kinds_by_score(found: IssueStatistics, taxonomy: Taxonomy) -> Markup:
    """Draw the kinds of the issues of turns with each score, as shares."""
    counts = {(row.type, row.score): row.issues for row in found.types_by_score}
    kinds = [name for name in taxonomy.names if any(name == kind for kind, _ in counts)]
    scores = sorted({score for _, score in counts})
    if not kinds:
        return Markup("")
    totals = {score: sum(counts.get((kind, score), 0) for kind in kinds) or 1 for score in scores}
    series = {kind: [counts.get((kind, score), 0) / totals[score] for score in scores] for kind in kinds}
    x, y = Axis("score"), Axis("share of the issues", high=1, is_share=True)
    return column_chart([str(score) for score in scores], series, x, y, "Issues at each score", is_stacked=True)


def _dialogues(found: IssueStatistics) -> Markup:
    """Draw the number of dialogues by score, both for the mean and for the lowest score of their turns."""
    scores = sorted({*found.dialogue_mean, *found.dialogue_minimum})
    sources = {"mean": found.dialogue_mean, "lowest": found.dialogue_minimum}
    series = {name: [counts.get(score, 0) for score in scores] for name, counts in sources.items()}
    return column_chart(
        [str(score) for score in scores], series, Axis("score"), Axis("dialogues"), "Scores of dialogues"
    )


def _along(rows: Sequence[GroupCounts], title: str) -> Markup:
    """Draw the share of turns with an issue by position or day."""
    return line_chart([_line_of(rows)], *_axes_along(rows, title)) if len(rows) > 1 else Markup("")


def _line_of(rows: Sequence[GroupCounts]) -> ChartLine:
    return ChartLine(range(len(rows)), [row.with_issues or 0.0 for row in rows], draws="line points")


def _axes_along(rows: Sequence[GroupCounts], title: str) -> tuple[Axis, Axis, str]:
    """Return the axes and the title of a chart of shares by position or day."""
    x = Axis(title, labels={place: str(row.group) for place, row in enumerate(rows)})
    return x, Axis("turns with an issue", 0, 1, is_share=True), f"Turns with an issue by {title}"


def _worst(each: IssueAnnotation, conversation: Conversation | None) -> dict[str, Any]:
    """Return a turn with issues, the turns before it (from index `first`), and its text split at quotes."""
    place = each.target.turn or 0
    turns = conversation.turns if conversation is not None else ()
    reply = turns[place].content if place < len(turns) else ""
    first = max(place - 3, 0)
    quoted = quoted_parts(reply, [issue.span for issue in each.issues if issue.span is not None])
    return {"assessment": each, "before": turns[first:place], "first": first, "parts": quoted}


def quoted_parts(text: str, spans: Sequence[Span]) -> tuple[QuotedPart, ...]:
    """Split a text at quotes; overlapping and touching spans are merged.

    >>> [(part.text, part.quoted) for part in quoted_parts("It is much better.", [(6, 10), (8, 17)])]
    [('It is ', False), ('much better', True), ('.', False)]
    """
    found, done = [], 0
    for start, end in _joined(text, spans):
        found += [QuotedPart(text[done:start], False), QuotedPart(text[start:end], True)]
        done = end
    found.append(QuotedPart(text[done:], False))
    return tuple(QuotedPart(sendable(part.text), part.quoted) for part in found if part.text)


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
