"""Figures of the board, and its sentences: the headline, the first one with changes over time, the overview."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from os.path import commonprefix
from typing import Any

from accord.board.comparisons import MeanDifference, difference_in_words, group_name, points_in_words
from accord.board.density import Density
from accord.board.filters import Dimension, dimension_in_words
from accord.board.score_reader import SOURCE, UNKNOWN, SelectedScores
from accord.board.statistics import (
    DisputedText,
    EvidenceEffect,
    GroupTable,
    PoweredMean,
    QuestionSlope,
    TimeSeries,
)
from accord.decisions import BatchChange
from accord.edges import count_of
from accord.results import By, Figure, Ledger, Over, Part, Section, Table, Text, p_text
from accord.validation import attribution
from accord.values import Estimate


@dataclass(frozen=True)
class BoardFigures:
    """All statistics of a selection.

    Attributes:
        headline: The finding of the comparisons below in a few words.
        summary: The first sentence: the comparison below with its interval, or the mean, and changes over time.
        overview: Number of texts, mean, and last period.
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
        figures: Means, differences, and the numbers of new and unusual texts.
        changes: Alarms, drift and the change in the last period in words.
        unlike: Sentence on new texts that are unlike the training data; empty without any.
        kind: Kind of the texts: new, rated, or empty.
        noun: Word for the texts: conversations or replies.
        batch: Comparison of the latest batch of the evaluator's scores with the earlier ones.
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
    figures: tuple[Figure, ...] = ()
    changes: str = ""
    unlike: str = ""
    kind: str = ""
    noun: str = "conversations"
    batch: BatchChange | None = None

    @property
    def pair_text(self) -> str:
        """The clear and the other differences of all pairs of groups, in words; empty without any."""
        return _pairs_in_words(self.among)

    def ledger(self) -> Ledger:
        """Return the figures by key; figures of a group have its name as their part."""
        return Ledger({each.key: each for each in self.figures}.values())  # two pairs may have one name

    @property
    def mean_name(self) -> str:
        """Name of the figures of the shown means: of scores, or of people's ratings."""
        return "mean_rating" if self.kind == "rated" else "mean_score"

    @property
    def differences(self) -> list[Figure]:
        """Figures of the difference of two groups or evaluators, or of all pairs of the largest groups."""
        return [each for each in self.figures if each.name in DIFFERENCES]

    @property
    def stated_figure(self) -> Figure | None:
        """Figure of the difference that the first sentence states; None among three or more groups."""
        return next(iter(self.differences), None) if self.evaluators or not self.among else None

    def section(self) -> Section:
        """Return the headline with the mean of each group, differences, and the number of unusual texts."""
        means = [each for each in self.figures if each.name == self.mean_name]
        groups = [each for each in means if each.part] or means
        rows: list[list[str | Figure]] = [[each.part or "all", f"{each.n or 0:,}", each] for each in groups]
        rows += [[each.part, f"{each.n or 0:,}", each] for each in self.differences]
        label = means[0].definition.label if means else ""
        parts: list[Part] = [Table([dimension_in_words(self.table.by), self.noun, label], rows)] if means else []
        parts += [Text(self.unlike)] if self.unlike else []
        heading = f"{self.kind} {self.noun}".strip()
        return Section(f"{heading[:1].upper()}{heading[1:]}", f"{self.headline}.", parts)

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name; the figures with their definitions and texts."""
        batch = None if self.batch is None else self.batch.to_json()
        return {**asdict(replace(self, figures=(), batch=None)), "figures": self.ledger().to_json(), "batch": batch}


DIFFERENCES = ("score_difference", "people_difference", "evaluator_difference")
"""Names of the figures of differences."""


def figures_of(scores: SelectedScores, found: BoardFigures) -> tuple[Figure, ...]:
    """Return the figures of a selection: numbers of new texts, means of all and of each group, differences."""
    is_given = scores.selection.answers == "given"
    by: By = "people" if is_given else "scores"
    name = "mean_rating" if is_given else "mean_score"
    over: Over = "people and conversations" if "annotators" in found.density.drawn else "conversations"
    figures = [scores.new_scores, scores.new_unlike]
    if found.mean.value is None:
        return tuple(figures)
    figures.append(Figure.measured(name, found.mean, found.texts, scores.about(found.texts), by, over, source=SOURCE))
    if (given := found.given) is not None and given.mean.value is not None:
        rated = f"{given.conversations:,} of {scores.about(found.texts)} that people rated"
        figures.append(Figure.measured("mean_rating", given.mean, given.conversations, rated, "people", source=SOURCE))
    groups = {row.value: (row.texts, row.mean) for row in found.table.rows if row.value}
    difference = stated_difference(found)
    if difference is not None and difference.by != "evaluator":
        sides = zip((difference.first, difference.second), difference.texts, difference.means, strict=True)
        groups = {**{side: (n, Estimate(mean)) for side, n, mean in sides if side and n}, **groups}
    figures += [
        Figure.measured(name, mean, n, f"{scores.about(n)} of {group_name(found.table.by, group)}", by, part=group,
                  source=SOURCE)
        for group, (n, mean) in groups.items()
    ]  # fmt: skip
    if found.evaluators:
        figures.append(_difference_figure(scores, found.evaluators))
    elif not scores.is_self_made:
        compared = found.among or filter(None, [found.difference])
        figures += [_difference_figure(scores, each) for each in compared if each.difference.value is not None]
    return tuple(figures)


def _difference_figure(scores: SelectedScores, found: MeanDifference) -> Figure:
    first, second = (scores.choices.names.get(each, each) or UNKNOWN for each in (found.first, found.second))
    name, n = "people_difference" if found.values == "people" else "score_difference", sum(found.texts)
    about = f"{scores.about(n)}, {found.texts[0]:,} and {found.texts[1]:,}"
    if found.values == "people":
        about += f", by {count_of(len(scores.annotators), 'person', 'people')}"
    if found.by == "evaluator":
        name, n, about = "evaluator_difference", found.shared, f"{scores.about(found.shared)} that both scored"
    part = f"{first} − {second}"
    return Figure.measured(name, found.difference, n, about, found.values, part=part, source=SOURCE)


LONG_HEADLINE = 80
"""Length in characters from which a headline leaves out the common beginning of names that it repeats."""


def headline_of(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return the finding of a selection in a few words, from the comparisons that the page shows.

    Conversations that the evaluator learned from give no finding, and neither do differences that are not clear.
    """
    about, where = scores.selection, _where(scores)
    is_given, question = about.answers == "given", scores.shown(str(about.question))
    on = f"on {question}{where}"
    if figures.mean.value is None:
        return f"No scores {on}"
    averages = f"{question} averages {figures.mean.value:.2f}{where}"
    if figures.evaluators is None and scores.is_self_made:
        return averages
    on = where.lstrip() if is_given and scores.is_main else on
    difference, said = stated_difference(figures), ""
    if figures.among and figures.evaluators is None:
        said = ranking_headline(figures.table, figures.among, on)
    elif difference is not None and difference.p is not None:
        said = difference_in_words(difference, on, scores.choices.names, scores.noun(2), interval=False)
    if not said:
        return f"People rate {question} {figures.mean.value:.2f} on average{where}" if is_given else averages
    return said


def ranking_headline(table: GroupTable, among: Sequence[MeanDifference], on: str) -> str:
    """Return the groups that clearly differ from all others, in a few words; empty without a test.

    Args:
        table: Table of the groups with their means.
        among: Differences of all pairs of the compared groups, corrected together.
        on: The question, and the filters of the conversations.
    """
    names = {name for each in among for name in (each.first, each.second)}
    means = {row.value: row.mean.value for row in table.rows if row.value in names and row.mean.value is not None}
    if len(means) < 2 or all(each.p is None for each in among):
        return ""
    order = sorted(means, key=lambda name: (-means[name], name))
    of = f"{len(names)} {'largest ' if _is_part(table, names) else ''}{dimension_in_words(table.by)}s"
    if not any(each.sign for each in among):
        return f"No clear difference{_in_ratings(among)} between the {of} {on}".rstrip()
    clauses, rest = _ends_in_words(order, table.by, among, on)
    others = [each for each in among if {each.first, each.second} <= set(rest)]
    if not clauses:
        largest = max((each for each in among if each.sign), key=lambda each: abs(_value_of(each.difference)))
        clauses = [difference_in_words(largest, on, interval=False)]
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
    order: Sequence[str], by: str, among: Sequence[MeanDifference], on: str
) -> tuple[list[str], list[str]]:
    """Return clauses on the groups that clearly score highest and lowest, and the other groups."""
    clauses, rest = list[str](), list(order)
    for name, sign, word in ((order[0], 1, "highest"), (order[-1], -1, "lowest")):
        own = [each for each in among if name in (each.first, each.second)]
        if not all(each.sign == (sign if each.first == name else -sign) for each in own):
            continue
        group, about = group_name(by, name), f" {on}" if on and not clauses else ""
        verb = f"{group} scores"
        if own[0].values == "people":
            verb = group if clauses else f"People rate {group}"
        gap = min((_value_of(each.difference) for each in own), key=abs)
        clauses.append(f"{verb} {word}{about}, by {points_in_words(gap)}")
        rest.remove(name)
    return clauses, rest


def _in_ratings(among: Sequence[MeanDifference]) -> str:
    return " in people’s ratings" if among[0].values == "people" else ""


def _on_others(others: Sequence[MeanDifference], rest: Sequence[str], by: str) -> str:
    """Return how many of the other differences are clear; empty if there are none."""
    clear = sum(each.sign != 0 for each in others)
    if not others or clear == len(others):
        return ""
    if len(others) == 1 and len(rest) == 2:
        return f"no clear difference between {' and '.join(group_name(by, name) for name in rest)}"
    return f"{clear} of the {len(others)} other differences are clear" if clear else "no other difference is clear"


def _pairs_in_words(among: Sequence[MeanDifference]) -> str:
    """Return the clear and the other differences of all pairs, with their p."""
    clauses = []
    for name, is_clear in (("Clear differences", True), ("No clear difference", False)):
        found = [each for each in among if each.p is not None and bool(each.sign) == is_clear]
        pairs = []
        for each in found:
            gap = f"{points_in_words(_value_of(each.difference))}, {p_text(each.p or 0.0)}"
            pairs.append(f"{each.first or UNKNOWN} and {each.second or UNKNOWN} ({gap})")
        clauses += [f"{name}: {', '.join(pairs)}."] if pairs else []
    return f"{' '.join(clauses)} p is corrected for the number of pairs (Holm)." if clauses else ""


def _is_part(table: GroupTable, names: Collection[str]) -> bool:
    """Return True if the table has more groups than those compared."""
    return table.others > 0 or len(names) < sum(bool(row.value) for row in table.rows)


def first_sentence(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return the most important result of a selection: the comparison that the page shows, or the mean, and changes."""
    difference, on = stated_difference(figures), f"on {scores.shown(str(scores.selection.question))}{_where(scores)}"
    parts = [""]
    if scores.is_self_made and not figures.evaluators:
        pass  # scores of conversations that the evaluator learned from compare nothing
    elif difference is not None:
        parts = [difference_in_words(difference, on, scores.choices.names, scores.noun(2))]
        parts += [] if figures.evaluators else [_on_other_questions(difference, figures.questions, scores.shown)]
    else:
        parts = [ranking_in_words(figures.table, figures.among, on)]
    parts[0] = parts[0] or _mean_in_words(scores, figures)
    return "; ".join(filter(None, [*parts, figures.changes])) + "."


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
    """Return the number of texts, their mean and the mean of the last period in one sentence."""
    if density.mean.value is None:
        return f"{scores.count(texts)}."
    last = time.moments[-1] if len(time.moments) > 1 else None
    trend = "" if last is None else f"; in the last {time.step} {last.mean} from {last.texts:,}"
    scale = f"on a scale from {scores.low:g} to {scores.high:g}"
    return f"{scores.count(texts)}, mean {density.mean} {scale}{trend}."


def _where(scores: SelectedScores) -> str:
    return f" for {scores.noun(2)}{scores.filtered}" if scores.filtered else ""


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


def ranking_in_words(table: GroupTable, among: Sequence[MeanDifference], on: str) -> str:
    """Return the largest significant difference of some groups, or that there is none; empty without a test.

    Args:
        table: Table of the groups.
        among: Differences of all pairs of the compared groups, corrected together.
        on: The question, and the filters of the conversations.
    """
    tested = [each for each in among if each.p is not None]
    if not tested:
        return ""
    names = {name for each in tested for name in (each.first, each.second)}
    groups = f"{len(names)} {'largest ' if _is_part(table, names) else ''}{dimension_in_words(table.by)}s"
    significant = [each for each in tested if each.sign]
    if not significant:
        means = sorted((row.mean for row in table.rows if row.value in names), key=_value_of)
        said = f"No significant difference{_in_ratings(among)} between the {groups} {on}"
        return f"{said}: means from {means[0]} to {means[-1]}"
    largest = max(significant, key=lambda each: abs(_value_of(each.difference)))
    count = f"largest of {len(significant)} significant differences" if len(significant) > 1 else "only significant one"
    return f"{difference_in_words(largest, on)}, the {count} between the {groups}"


def _value_of(estimate: Estimate) -> float:
    return estimate.value or 0.0


def changes_of(scores: SelectedScores, figures: BoardFigures) -> str:
    """Return alarms, drift and the change in the last period, or its estimate if there is too little to tell."""
    if figures.evaluators:
        return ""
    time, last_period = figures.time, figures.last_period
    since = f"since {day_in_words(time.moments[0].since)}" if time.moments else ""
    clauses = []
    for kind, one, many in (("drift", "drift in 1 run", "drift in {} runs"), ("", "1 alarm", "{} alarms")):
        count = sum((each.kind == "drift") == bool(kind) for each in time.happened)
        clauses += [f"{one if count == 1 else many.format(count)} {since}"] if count else []
    if last_period is not None and last_period.sign:
        said = difference_in_words(last_period, f"on {scores.shown(last_period.question)}")
        clauses.append(f"{said[0].lower()}{said[1:]}")
    if figures.batch is not None and figures.batch.is_alarm:
        told = figures.batch.finding.rstrip(".")
        clauses.append(f"{told[0].lower()}{told[1:]}")
    if clauses:
        return ", ".join(clauses)
    if last_period is None or last_period.p is None:
        return ""
    seen = Figure.measured("score_difference", last_period.difference).text()
    return f"not enough to tell a change in the last {time.step}: {seen} points from earlier"


def day_in_words(day: str) -> str:
    """Return an ISO date as in text.

    >>> day_in_words("2026-06-01")
    '1 June 2026'
    """
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%B} {parsed.year}"
