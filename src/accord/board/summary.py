"""Figures of the board, and its sentences: the first with its comparison and changes, the overview, relative rates."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from os.path import commonprefix
from typing import Any

from accord.board.comparisons import MeanDifference, difference_in_words
from accord.board.density import Density
from accord.board.filters import Dimension, dimension_in_words, filter_in_words
from accord.board.score_reader import UNKNOWN, SelectedScores
from accord.board.statistics import (
    DisputedText,
    EvidenceEffect,
    GroupTable,
    PoweredMean,
    QuestionSlope,
    TimeSeries,
)
from accord.results import p_text
from accord.validation import attribution
from accord.values import Estimate


@dataclass(frozen=True)
class BoardFigures:
    """All statistics of a selection.

    Attributes:
        headline: The finding of the comparisons below in a few words.
        summary: The first sentence: the comparison below with its interval, or the mean, and changes over time.
        overview: Number of texts, mean, bottom 10%, and last period.
        notes: Sentences about scores that are left out or included.
        unscored: Number of missing scores by reason.
        given: Distribution of people's answers to the same texts.
        pairs: Groups that are compared in one click, by dimension.
        difference: Difference of two groups of the table; `questions` are the same groups on other questions.
        among: Differences of all pairs of the largest groups, if there are three or more and none is chosen.
        evaluators: Difference of two evaluators on the same texts.
        last_period: Difference of the last day or week and all earlier ones.
        powered: Prediction-powered means of people's ratings by system.
        pulls: Evidence with the largest effect on scores.
        rises: Slopes of the main question on others.
        drift: Change of all scores of the evaluator over time, attributed to the assistant or the judge.
    """

    headline: str
    summary: str
    overview: str
    notes: tuple[str, ...]
    texts: int
    mean: Estimate
    unscored: dict[str, int]
    density: Density
    given: Density | None
    table: GroupTable
    annotators: GroupTable | None
    time: TimeSeries
    pairs: Mapping[Dimension, tuple[str, str]]
    difference: MeanDifference | None
    among: tuple[MeanDifference, ...]
    questions: tuple[MeanDifference, ...]
    evaluators: MeanDifference | None
    last_period: MeanDifference | None
    controversial: tuple[DisputedText, ...]
    powered: tuple[PoweredMean, ...]
    powered_note: str
    pulls: tuple[EvidenceEffect, ...]
    rises: tuple[QuestionSlope, ...]
    drift: attribution.Attribution | None

    @property
    def pair_text(self) -> str:
        """The clear and the other differences of all pairs of groups, in words; empty without any."""
        return _pairs_in_words(self.among)

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


LONG_HEADLINE = 80
"""Length in characters from which a headline leaves out the common beginning of names that it repeats."""


def headline_of(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return the finding of a selection in a few words, from the comparisons that the page shows.

    Conversations that the evaluator learned from give no finding, and neither do differences that are not clear.
    """
    about, where = scores.selection, _where(scores)
    is_given = about.answers == "given"
    on = f"on {scores.shown(str(about.question))}{where}"
    if figures.mean.value is None:
        return f"No scores {on}"
    mean = f"{figures.mean.value:.2f}"
    averages = f"{scores.shown(str(about.question))} averages {mean}{where}"
    if figures.evaluators is None and scores.is_self_made:
        return averages
    on = where.lstrip() if is_given and scores.is_main else on
    said = ""
    if figures.evaluators is not None:
        said = pair_headline(figures.evaluators, {}, on, scores.choices.names)
    elif figures.among:
        said = ranking_headline(figures.table, figures.among, on, is_given)
    elif figures.difference is not None:
        said = pair_headline(figures.difference, _means_of(figures.table), on, is_given=is_given)
    if not said:
        return f"People rate {scores.shown(str(about.question))} {mean} on average{where}" if is_given else averages
    return said


def pair_headline(
    found: MeanDifference, means: Mapping[str, float], on: str, names: Mapping[str, str] | None = None,
    is_given: bool = False,
) -> str:  # fmt: skip
    """Return the difference of two groups in a few words, in scores or in people's ratings; empty without a test."""
    first, second = (_group_name(found.by, (names or {}).get(name, name)) for name in (found.first, found.second))
    if found.p is None:
        return ""
    if not found.sign:
        said = f"o clear difference between {first} and {second}{' in people’s ratings' * is_given}"
        return f"N{said} {on}".rstrip()
    direction = "higher" if found.sign > 0 else "lower"
    verb = f"People rate {first}" if is_given else f"{first} is"
    return f"{f'{verb} {direction} than {second} {on}'.rstrip()}, by {_gap_in_words(found, means)}"


def ranking_headline(table: GroupTable, among: Sequence[MeanDifference], on: str, is_given: bool = False) -> str:
    """Return the groups that clearly differ from all others, in a few words; empty without a test.

    Args:
        table: Table of the groups with their means.
        among: Differences of all pairs of the compared groups, corrected together.
        on: The question, and the filters of the conversations.
        is_given: True for means of people's ratings instead of scores.
    """
    names = {name for each in among for name in (each.first, each.second)}
    means = {name: value for name, value in _means_of(table).items() if name in names}
    if len(means) < 2 or all(each.p is None for each in among):
        return ""
    order = sorted(means, key=lambda name: (-means[name], name))
    of = f"{len(names)} {'largest ' if _is_part(table, names) else ''}{dimension_in_words(table.by)}s"
    if not any(each.sign for each in among):
        return f"No clear difference between the {of}{' in people’s ratings' * is_given} {on}".rstrip()
    clauses, rest = _ends_in_words(order, table.by, among, means, on, is_given)
    others = [each for each in among if {each.first, each.second} <= set(rest)]
    if not clauses:
        largest = max((each for each in among if each.sign), key=lambda each: abs(_value_of(each.difference)))
        clauses = [pair_headline(largest, means, on, is_given=is_given)]
        others.remove(largest)
    return _with_others(clauses, others, rest, order, table.by)


def _with_others(
    clauses: Sequence[str], others: Sequence[MeanDifference], rest: Sequence[str], order: Sequence[str], by: str
) -> str:
    """Return the clauses with that on the other groups, whose names are shortened in a long headline."""
    said = "; ".join(filter(None, [*clauses, _on_others(others, rest, by)]))
    if len(said) < LONG_HEADLINE:
        return said
    short = dict(zip(rest, _short_names(order, rest), strict=True))
    return "; ".join(filter(None, [*clauses, _on_others(others, [short[name] for name in rest], by)]))


def _short_names(names: Sequence[str], some: Sequence[str]) -> list[str]:
    """Return some names without the common beginning of all names, which ends with a separator.

    >>> _short_names(["assistant-a", "assistant-b", "assistant-c"], ["assistant-b", "assistant-c"])
    ['b', 'c']
    """
    beginning = re.match(r".*[-_/. :]|", commonprefix(list(names)), re.DOTALL)
    size = len(beginning[0]) if beginning else 0
    return [name[size:] or name for name in some]


def _ends_in_words(
    order: Sequence[str], by: str, among: Sequence[MeanDifference], means: Mapping[str, float], on: str, is_given: bool
) -> tuple[list[str], list[str]]:
    """Return clauses on the highest and the lowest group, if they clearly are, and the other groups."""
    clauses, rest = list[str](), list(order)
    for name, sign, word in ((order[0], 1, "highest"), (order[-1], -1, "lowest")):
        if gap := _gap_to_all(name, sign, among, means):
            group, about = _group_name(by, name), f" {on}" if on and not clauses else ""
            verb = f"{group} is" if not is_given else group if clauses else f"People rate {group}"
            clauses.append(f"{verb} {word}{about}, by {gap}")
            rest.remove(name)
    return clauses, rest


def _on_others(others: Sequence[MeanDifference], rest: Sequence[str], by: str) -> str:
    """Return how many of the other differences are clear; empty if there are none."""
    clear = sum(each.sign != 0 for each in others)
    if not others or clear == len(others):
        return ""
    if len(others) == 1 and len(rest) == 2:
        return f"no clear difference between {' and '.join(_group_name(by, name) for name in rest)}"
    return f"{clear} of the {len(others)} other differences are clear" if clear else "no other difference is clear"


def _pairs_in_words(among: Sequence[MeanDifference]) -> str:
    """Return the clear and the other differences of all pairs, with their p."""
    clauses = []
    for name, is_clear in (("Clear", True), ("Not clear", False)):
        found = [each for each in among if each.p is not None and bool(each.sign) == is_clear]
        pairs = []
        for each in found:
            gap = f"{abs(_value_of(each.difference)):.2f}, {p_text(each.p or 0.0)}"
            pairs.append(f"{each.first or UNKNOWN} and {each.second or UNKNOWN} ({gap})")
        clauses += [f"{name}: {', '.join(pairs)}."] if pairs else []
    return f"Differences. {' '.join(clauses)} p is corrected for the number of pairs (Holm)." if clauses else ""


def _gap_to_all(name: str, sign: int, among: Sequence[MeanDifference], means: Mapping[str, float]) -> str:
    """Return the smallest difference of a group to each other one; empty if not all are clear with this sign."""
    own = [each for each in among if name in (each.first, each.second)]
    if not all(each.sign == (sign if each.first == name else -sign) for each in own):
        return ""
    return _gap_in_words(min(own, key=lambda each: abs(_value_of(each.difference))), means)


def _gap_in_words(found: MeanDifference, means: Mapping[str, float]) -> str:
    """Return a difference in points, with a note if it is that of common inputs and the shown means differ from it."""
    gap, said = _value_of(found.difference), _points_in_words(_value_of(found.difference))
    if found.first in means and found.second in means:
        shown = means[found.first] - means[found.second]
        if _points_in_words(shown) != said or (shown > 0) != (gap > 0):
            said += " on the same inputs" if found.paired else ""
    return said


def _points_in_words(gap: float) -> str:
    size = abs(gap)
    digits = 1 if size >= 0.095 else 2 if size >= 0.005 else 3
    number = f"{size:.{digits}f}"
    return f"{number} {'point' if number == '1.0' else 'points'}"


def _group_name(by: str, name: str) -> str:
    """Return the name of a group, with its dimension unless it names a system."""
    shown = name or UNKNOWN
    return shown if by == "system" and name else f"{dimension_in_words(by)} {shown}"


def _means_of(table: GroupTable) -> dict[str, float]:
    return {row.value: row.mean.value for row in table.rows if row.mean.value is not None}


def _is_part(table: GroupTable, names: Collection[str]) -> bool:
    """Return True if the table has more groups than those compared."""
    return table.others > 0 or len(names) < sum(bool(row.value) for row in table.rows)


def first_sentence(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return the most important result of a selection: the comparison that the page shows, or the mean, and changes."""
    about, difference = scores.selection, stated_difference(figures)
    if scores.is_self_made and not figures.evaluators:
        parts, other = [_mean_in_words(scores, figures)], ""
    elif difference is not None:
        said = difference_in_words(difference, scores.choices.names, _where(scores), scores.shown, scores.noun(2))
        said = f"According to people, {said[0].lower()}{said[1:]}" if about.answers == "given" else said
        parts = [said, "" if figures.evaluators else _on_other_questions(difference, figures.questions, scores.shown)]
        other = "other " if difference.sign else ""
    else:
        ranking = ranking_in_words(figures.table, figures.among, _where(scores), scores.shown)
        if ranking and about.answers == "given":
            ranking = f"According to people, {ranking[0].lower()}{ranking[1:]}"
        parts, other = [ranking or _mean_in_words(scores, figures)], ""
    if not figures.evaluators:
        parts.append(_changes(figures.time, figures.last_period, other, scores.shown))
    return "; ".join(filter(None, parts)) + "."


def stated_difference(figures: BoardFigures) -> MeanDifference | None:
    """Return the difference that the first sentence states; None among three or more groups of which none is chosen."""
    return figures.evaluators or (None if figures.among else figures.difference)


def _mean_in_words(scores: SelectedScores, figures: BoardFigures) -> str:
    about, mean, where = scores.selection, figures.mean, _where(scores)
    question = scores.shown(str(about.question))
    if mean.value is None:
        one, many = scores.noun(1), scores.noun(2)
        return f"No {one}{where.removeprefix(f' for {many}')} has a score on {question}; remove a filter"
    what = "rating of people" if about.answers == "given" else "score"
    interval = "" if mean.low is None else f"95% interval {mean.low:.2f} to {mean.high:.2f}, "
    scale = f"on a scale from {scores.low:g} to {scores.high:g}"
    return f"The mean {what} on {question}{where} is {mean.value:.2f} {scale} ({interval}{scores.count(figures.texts)})"


def overview_of(scores: SelectedScores, texts: int, density: Density, time: TimeSeries) -> str:
    """Return the mean, the bottom 10% and the last period in one sentence."""
    if density.tail is None:
        return f"{scores.count(texts)}."
    last = time.moments[-1] if len(time.moments) > 1 else None
    trend = "" if last is None else f"; in the last {time.step} {last.mean} from {last.texts:,}"
    tail = f"; the bottom 10% score {density.tail:.2f} or less"
    scale = f"on a scale from {scores.low:g} to {scores.high:g}"
    return f"{scores.count(texts)}, mean {density.mean} {scale}{tail}{trend}."


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
    filters = [filter_in_words(name, value) for name, value in scores.selection.filters().items()]
    return f" for {scores.noun(2)} with {', '.join(filters)}" if filters else ""


def _on_other_questions(
    main: MeanDifference, questions: tuple[MeanDifference, ...], shown: Callable[[str], str]
) -> str:
    """Return the questions with a higher mean, with a lower mean, and the number of all others."""
    clauses = []
    for sign, word in ((1, "higher"), (-1, "lower")):
        found = [shown(each.question) for each in questions if each.sign == sign]
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        word += " also" if sign == main.sign else ""
        clauses += [f"{word} on {', '.join(found[:3])}{more}"] if found else []
    unclear = sum(not each.sign for each in questions)
    clauses += [f"no clear difference on {unclear} other question{'' if unclear == 1 else 's'}"] if unclear else []
    return ", ".join(clauses)


def ranking_in_words(
    table: GroupTable, among: Sequence[MeanDifference], where: str = "", shown: Callable[[str], str] = str
) -> str:
    """Return the largest significant difference of some groups, or that there is none; empty without a test.

    Args:
        table: Table of the groups.
        among: Differences of all pairs of the compared groups, corrected together.
        where: Filters of the conversations, such as " for conversations with topic refunds".
        shown: Returns the short name of a question.
    """
    tested = [each for each in among if each.p is not None]
    if not tested:
        return ""
    names = {name for each in tested for name in (each.first, each.second)}
    groups = f"{len(names)} {'largest ' if _is_part(table, names) else ''}{dimension_in_words(table.by)}s"
    significant = [each for each in tested if each.sign]
    if not significant:
        means = sorted((row.mean for row in table.rows if row.value in names), key=_value_of)
        said = f"No significant difference between the {groups} on {shown(tested[0].question)}{where}"
        return f"{said}: means from {means[0]} to {means[-1]}"
    largest = max(significant, key=lambda each: abs(_value_of(each.difference)))
    count = f"largest of {len(significant)} significant differences" if len(significant) > 1 else "only significant one"
    return f"{difference_in_words(largest, {}, where, shown)}, the {count} between the {groups}"


def _value_of(estimate: Estimate) -> float:
    return estimate.value or 0.0


def _changes(time: TimeSeries, last_period: MeanDifference | None, other: str, shown: Callable[[str], str]) -> str:
    """Return alarms, drift and the change in the last period, or that no (other) change was found."""
    since = f"since {day_in_words(time.moments[0].since)}" if time.moments else ""
    clauses = []
    for kind, one, many in (("drift", "drift in 1 run", "drift in {} runs"), ("", "1 alarm", "{} alarms")):
        count = sum((each.kind == "drift") == bool(kind) for each in time.happened)
        clauses += [f"{one if count == 1 else many.format(count)} {since}"] if count else []
    if last_period is not None and last_period.sign:
        said = difference_in_words(last_period, {}, shown=shown)
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
