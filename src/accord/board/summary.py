"""Sentences of the board: the first sentence with its comparison and changes, the overview, and relative rates."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from accord.board.comparisons import MeanDifference, difference_in_words
from accord.board.density import Density
from accord.board.filters import BoardFilters
from accord.board.score_reader import UNKNOWN, SelectedScores
from accord.board.statistics import GroupTable, TimeSeries

if TYPE_CHECKING:
    from accord.board.board import BoardFigures


def first_sentence(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return the most important result of a selection: the comparison that the page shows, or the mean, and changes."""
    about, difference = scores.selection, stated_difference(scores.selection, figures)
    if difference is not None:
        said = difference_in_words(difference, scores.choices.names, _where(scores))
        said = f"According to people, {said[0].lower()}{said[1:]}" if about.answers == "given" else said
        parts = [said, "" if figures.evaluators else _on_other_questions(difference, figures.questions)]
        other = "other " if difference.sign else ""
    else:
        parts, other = [_ranking(scores, figures.table) or _mean_in_words(scores, figures)], ""
    if not figures.evaluators:
        parts.append(_changes(figures.time, figures.last_period, other))
    return "; ".join(filter(None, parts)) + "."


def stated_difference(about: BoardFilters, figures: BoardFigures) -> MeanDifference | None:
    """Return the difference that the first sentence states; None among three or more groups of which none is chosen."""
    is_chosen = about.first is not None or about.second is not None
    is_clear = is_chosen or about.by == "version" or sum(bool(row.value) for row in figures.table.rows) == 2
    return figures.evaluators or (figures.difference if is_clear else None)


def _mean_in_words(scores: SelectedScores, figures: BoardFigures) -> str:
    about, mean, where = scores.selection, figures.mean, _where(scores)
    if mean.value is None:
        return f"No text{where.removeprefix(' for texts')} has a score on {about.question}; remove a filter"
    what = "rating of people" if about.answers == "given" else "score"
    interval = "" if mean.low is None else f"95% interval {mean.low:.2f} to {mean.high:.2f}, "
    scale = f"on a scale from {scores.low:g} to {scores.high:g}"
    return f"The mean {what} on {about.question}{where} is {mean.value:.2f} {scale} ({interval}{_texts(figures.texts)})"


def _texts(count: int) -> str:
    return f"{count:,} {'text' if count == 1 else 'texts'}"


def overview_of(scores: SelectedScores, texts: int, density: Density, time: TimeSeries) -> str:
    """Return the mean, the bottom 10% and the last period in one sentence."""
    if density.tail is None:
        return f"{_texts(texts)}."
    last = time.moments[-1] if len(time.moments) > 1 else None
    trend = "" if last is None else f"; in the last {time.step} {last.mean} from {last.texts:,}"
    tail = f"; the bottom 10% score {density.tail:.2f} or less"
    scale = f"on a scale from {scores.low:g} to {scores.high:g}"
    return f"{_texts(texts)}, mean {density.mean} {scale}{tail}{trend}."


def times_as_often(ratio: float) -> str:
    """Return a relative rate in words.

    >>> times_as_often(2.21), times_as_often(0.98), times_as_often(0.0)
    ('2.2 times as often', 'as often', 'never')
    """
    text = f"{ratio:.1f}"
    if ratio == 0:
        return "never"
    return "as often" if text == "1.0" else f"{'under 0.1' if text == '0.0' else text} times as often"


def _where(scores: SelectedScores) -> str:
    filters = [f"{name.replace('_', ' ')} {value or UNKNOWN}" for name, value in scores.selection.filters().items()]
    return f" for texts with {', '.join(filters)}" if filters else ""


def _on_other_questions(main: MeanDifference, questions: tuple[MeanDifference, ...]) -> str:
    """Return the questions with a higher mean, with a lower mean, and the number of all others."""
    clauses = []
    for sign, word in ((1, "higher"), (-1, "lower")):
        found = [each.question for each in questions if each.sign == sign]
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        word += " also" if sign == main.sign else ""
        clauses += [f"{word} on {', '.join(found[:3])}{more}"] if found else []
    unclear = sum(not each.sign for each in questions)
    clauses += [f"no clear difference on {unclear} other question{'' if unclear == 1 else 's'}"] if unclear else []
    return ", ".join(clauses)


def _ranking(scores: SelectedScores, table: GroupTable) -> str:
    """Return the groups with the highest and the lowest mean; empty with fewer than two that have intervals."""
    known = [row for row in table.rows if row.value and row.mean.low is not None]
    rows = sorted(known, key=lambda row: row.mean.value or 0.0)
    if len(rows) < 2:
        return ""
    by, question, where = table.by.replace("_", " "), scores.selection.question, _where(scores)
    bottom, top = rows[0], rows[-1]
    count = f"{len(rows)} {'largest ' if table.others else ''}{by}s"
    if (bottom.mean.high or 0.0) >= (top.mean.low or 0.0):
        return f"The {count} differ little on {question}{where}: means from {bottom.mean} to {top.mean}"
    return (
        f"Of {count}, {top.name} has the highest mean on {question}{where}, "
        f"{top.mean.value:.2f} (95% interval {top.mean.low:.2f} to {top.mean.high:.2f}), "
        f"and {bottom.name} the lowest, {bottom.mean.value:.2f} ({bottom.mean.low:.2f} to {bottom.mean.high:.2f})"
    )


def _changes(time: TimeSeries, last_period: MeanDifference | None, other: str) -> str:
    """Return alarms, drift and the change in the last period, or that no (other) change was found."""
    since = f"since {day_in_words(time.moments[0].since)}" if time.moments else ""
    clauses = []
    for kind, one, many in (("drift", "drift in 1 run", "drift in {} runs"), ("", "1 alarm", "{} alarms")):
        count = sum((each.kind == "drift") == bool(kind) for each in time.happened)
        clauses += [f"{one if count == 1 else many.format(count)} {since}"] if count else []
    if last_period is not None and last_period.sign:
        said = difference_in_words(last_period, {})
        clauses.append(f"{said[0].lower()}{said[1:]}")
    if clauses:
        return ", ".join(clauses)
    if last_period is None or last_period.p is None:
        return ""
    return f"no {other}change was found {since}"


def day_in_words(day: str) -> str:
    """Return an ISO date as in text.

    >>> day_in_words("2026-06-01")
    '1 June 2026'
    """
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%B} {parsed.year}"
