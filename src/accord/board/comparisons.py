"""Differences of mean scores: two groups on one or all questions, two evaluators on the same texts, the last period."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accord.board.filters import Dimension, dimension_in_words
from accord.board.score_reader import DAY, UNKNOWN, ScoreReader, SelectedScores
from accord.board.statistics import TimeSeries
from accord.edges import count_of
from accord.results import By, p_text, written
from accord.statistics import MIN_CLUSTERS, SIGNIFICANT, clustered_mean, gap_of_means, holm
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

MAX_GROUPS_IN_PAIRS = 5
"""Maximum number of groups of which all pairs are compared, the largest ones."""
MAX_QUESTION_TEXTS = 100_000
"""Maximum number of texts, drawn at random, that are compared on other questions."""
_NO_ERROR = 1e-12
COMPARED: tuple[Dimension, ...] = ("system", "version")
"""Dimensions that are compared by default, the first with two values."""


@dataclass(frozen=True)
class MeanDifference:
    """Difference of two means on a question, first minus second.

    Attributes:
        question: Question of the scores.
        by: Dimension of the two groups, `evaluator`, or the length of the last period (`day`, `week`).
        first, second: Names of the groups.
        difference: With a 95% interval unless there are too few conversations.
        p: Two-sided, with Holm's correction over `tests` differences, or `None` if `difference` has no interval.
        paired: True if both sides have common inputs or texts, which narrow the interval.
        shared: Number of common inputs or texts.
        texts: Numbers of texts.
        tests: Number of differences that were tested together; the interval is for this difference alone.
        means: Means of the two sides; their difference is `difference`.
        values: Maker of the values: scores, or people.
    """

    question: str
    by: str
    first: str
    second: str
    difference: Estimate
    p: float | None
    paired: bool
    shared: int
    texts: tuple[int, int]
    tests: int = 1
    means: tuple[float | None, float | None] = (None, None)
    values: By = "scores"

    @property
    def sign(self) -> int:
        """1 if the interval is above 0, -1 if it is below 0; 0 if it contains 0, or if the corrected p is too high."""
        low, high = self.difference.low, self.difference.high
        if low is None or high is None or (self.tests > 1 and (self.p is None or self.p >= SIGNIFICANT)):
            return 0
        return int(low > 0) - int(high < 0)


def pairs_of(texts: pl.DataFrame) -> dict[Dimension, tuple[str, str]]:
    """Return the two groups that are compared by default, for each dimension of `COMPARED` with two names."""
    return {by: pair for by in COMPARED if (pair := pair_of(texts, by)) is not None}


def pair_of(texts: pl.DataFrame, by: str) -> tuple[str, str] | None:
    """Return the two versions that began last, the latest first, or the two largest groups of another dimension."""
    import polars as pl

    groups = texts.filter(pl.col(by).is_not_null()).group_by(by).agg(pl.len(), pl.col(DAY).min())
    rows = [(str(name), size, day or date.min) for name, size, day in groups.iter_rows()]
    if len(rows) < 2:
        return None
    if by == "version":
        first, second, *_ = sorted(rows, key=lambda row: (row[2], _natural(row[0])), reverse=True)
        return first[0], second[0]
    largest = sorted(rows, key=lambda row: (-row[1], row[0]))[:2]
    return max(name for name, *_ in largest), min(name for name, *_ in largest)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders 2.10 after 2.9."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def group_difference(
    scores: SelectedScores, texts: pl.DataFrame, by: str, first: str | None, second: str | None
) -> MeanDifference | None:
    """Return the difference of two groups, by default the groups of `pair_of`, or `None` with fewer than two.

    A named group without texts gives a difference without a value.
    """
    default = [name for name in pair_of(texts, by) or () if name not in (first, second)]
    first = default.pop(0) if first is None and default else first
    second = default.pop(0) if second is None and default else second
    if first is None or second is None or first == second:
        return None
    return _of_groups(scores, texts, str(scores.selection.question), by, first, second)


def pair_differences(
    scores: SelectedScores, texts: pl.DataFrame, by: str, groups: Sequence[str]
) -> tuple[MeanDifference, ...]:
    """Return the differences of all pairs of some groups, with Holm's correction over those with a test."""
    sides = {name: _Side.of(texts.filter(_is_group(by, name))) for name in groups}
    found = [
        _of_sides(scores, sides, str(scores.selection.question), by, max(pair), min(pair))
        for pair in combinations(groups, 2)
    ]
    tested = [place for place, each in enumerate(found) if each.p is not None]
    corrected = dict(zip(tested, holm([found[place].p or 0.0 for place in tested]), strict=True))
    return tuple(replace(each, p=corrected.get(place), tests=max(len(tested), 1)) for place, each in enumerate(found))


def question_differences(
    found: MeanDifference, scores: SelectedScores, texts: pl.DataFrame, reader: ScoreReader
) -> list[MeanDifference]:
    """Return the difference of the same two groups on each other question, over texts with scores of both questions."""
    import polars as pl

    others = [name for name in scores.choices.questions if name != scores.selection.question]
    if not others or found.difference.value is None:
        return []
    sides = texts.filter(pl.any_horizontal(_is_group(found.by, name) for name in (found.first, found.second)))
    sides = sides.sample(min(MAX_QUESTION_TEXTS, len(sides)), seed=0)
    keys = ["conversation", "turn"]
    names = sides.select(keys).lazy()
    rows, _ = reader.mart.read(
        lambda each: each.filter(pl.col("question").is_in(others) & pl.col("value").is_not_null())
        .join(names, on=keys, how="semi", nulls_equal=True)
        .select("question", "evaluator", "scored", *keys, "value").collect()
    )  # fmt: skip
    same = pl.col("evaluator") == scores.selection.evaluator
    chosen = rows.group_by("question").agg(pl.col("evaluator").sort_by(same, "scored").last())
    answers = rows.join(chosen, on=["question", "evaluator"]).group_by("question", *keys).agg(pl.col("value").mean())
    differences = []
    for name in others:
        joined = sides.drop("value").join(
            answers.filter(pl.col("question") == name).drop("question"), on=keys, nulls_equal=True
        )
        difference = _of_groups(scores, joined, name, found.by, found.first, found.second)
        differences += [] if difference.difference.value is None else [difference]
    return differences


def evaluator_difference(
    scores: SelectedScores, texts: pl.DataFrame, reader: ScoreReader, against: str
) -> MeanDifference | None:
    """Return the difference of two evaluators on the texts that both scored, or `None` if their scales differ.

    Raises:
        UnknownName: The other evaluator has no scores on this question.
    """
    about = scores.selection
    others = reader.texts(replace(about.base, question=about.question, evaluator=against, training="with"))
    if others is not None and (others.low, others.high) != (scores.low, scores.high):
        return None
    keys = ["conversation", "turn"]
    theirs = texts.head(0) if others is None else others.texts()
    joined = texts.join(theirs.select(*keys, "value"), on=keys, suffix="_other", nulls_equal=True)
    first, second, n = _numbers(joined, "value"), _numbers(joined, "value_other"), len(joined)
    estimate, p = _tested_gaps(first - second, joined["cluster"].to_numpy())
    means = (float(first.mean()), float(second.mean())) if n else (None, None)
    return MeanDifference(
        str(about.question), "evaluator", str(about.evaluator), against, estimate, p, True, n, (n, n), means=means
    )


def last_period_difference(scores: SelectedScores, texts: pl.DataFrame, time: TimeSeries) -> MeanDifference | None:
    """Return the difference of the last period and all earlier ones, or `None` with a single period."""
    import polars as pl

    if len(time.moments) < 2:
        return None
    first, last = date.fromisoformat(time.moments[0].since), date.fromisoformat(time.moments[-1].since)
    sides = {
        last.isoformat(): _Side.of(texts.filter(pl.col(DAY) >= last)),
        first.isoformat(): _Side.of(texts.filter(pl.col(DAY).is_between(first, last, closed="left"))),
    }
    return _of_sides(scores, sides, str(scores.selection.question), time.step, *sides)


@dataclass(frozen=True)
class _Side:
    """Values and units of the texts of a group, and its known inputs, each once."""

    values: NDArray[np.float64]
    units: NDArray[np.integer[Any]]
    inputs: NDArray[np.integer[Any]]

    @classmethod
    def of(cls, texts: pl.DataFrame) -> _Side:
        return cls(_numbers(texts, "value"), texts["unit"].to_numpy(), texts["input"].drop_nulls().unique().to_numpy())


def _of_groups(
    scores: SelectedScores, texts: pl.DataFrame, question: str, by: str, first: str, second: str
) -> MeanDifference:
    sides = {name: _Side.of(texts.filter(_is_group(by, name))) for name in (first, second)}
    return _of_sides(scores, sides, question, by, first, second)


def _of_sides(
    scores: SelectedScores, sides: Mapping[str, _Side], question: str, by: str, first: str, second: str
) -> MeanDifference:
    """Return the difference of the means of all texts of two groups."""
    one, other = sides[first], sides[second]
    found = gap_of_means(one.values, one.units, other.values, other.units)
    shared = len(np.intersect1d(one.inputs, other.inputs, assume_unique=True)) if all(found.sizes) else 0
    return MeanDifference(
        question, by, first, second, found.gap, found.p, shared > 0, shared, found.sizes, means=found.means,
        values="people" if scores.selection.answers == "given" else "scores",
    )  # fmt: skip


def _is_group(by: str, name: str) -> pl.Expr:
    import polars as pl

    return pl.col(by) == name if name else pl.col(by).is_null()


def _numbers(rows: pl.DataFrame, name: str) -> NDArray[np.float64]:
    return rows[name].to_numpy().astype(float)


def _tested_gaps(gaps: NDArray[np.float64], cluster: NDArray[np.integer[Any]]) -> tuple[Estimate, float | None]:
    """Return the mean of paired differences with its t interval and the p of 0.

    Both are missing with fewer than `MIN_CLUSTERS` clusters, and if the differences do not vary.
    """
    if not len(gaps):
        return Estimate(None), None
    found = clustered_mean(gaps, cluster)
    if found.groups < MIN_CLUSTERS or found.error <= _NO_ERROR:
        return Estimate(found.mean), None
    return found.interval(), found.p


# --- sentences --------------------------------------------------------------------------------------------------------


def difference_in_words(
    found: MeanDifference, on: str, names: Mapping[str, str] | None = None, many: str = "conversations",
    interval: bool = True,
) -> str:  # fmt: skip
    """Return a difference in one clause: evaluators score, people rate.

    Args:
        found: The difference.
        on: Question and filters, such as "on Helpful for conversations with topic refunds"; may be empty.
        names: Names of evaluators by id.
        many: Word for the compared texts.
        interval: State the interval, or the numbers of texts if there is none; with False, the finding alone.
    """
    first, second = ((names or {}).get(name, name) for name in (found.first, found.second))
    by, is_period, of = dimension_in_words(found.by), found.by in ("day", "week"), f" {on}" if on else ""
    subject, other = (f"the last {by}", "the time before") if is_period else (
        group_name(found.by, first), second or UNKNOWN
    )  # fmt: skip
    if found.difference.value is None:
        absent = [name or UNKNOWN for name, n in zip((first, second), found.texts, strict=True) if not n]
        return f"No scores of {by} {' and '.join(absent)}{of}; choose another {by} or remove a filter"
    low, high = found.difference.low, found.difference.high
    if low is None or high is None:
        sizes = f" ({found.texts[0]:,} and {found.texts[1]:,} {many})" if interval else ""
        return f"Too few different scores to compare {subject} with {other}{of}{sizes}"
    if not found.sign:
        ends = f"{written(low, 'difference')} to {written(high, 'difference')}"
        kind, which = ("significant", " of this pair alone") if found.tests > 1 and interval else ("clear", "")
        ratings = " in people’s ratings" if found.values == "people" else ""
        said = f"No {kind} difference{ratings} between {subject} and {other}{of}"
        points = f": {written(found.difference.value, 'difference')} points (95% interval{which} {ends})"
        return f"{said}{points if interval else ''}"
    low, high = sorted((abs(low), abs(high)))
    ends = f" (95% interval {written(low, 'points')} to {written(high, 'points')})" if interval else ""
    gap = f"{points_in_words(found.difference.value)} {'higher' if found.sign > 0 else 'lower'} than {other}{of}{ends}"
    if found.values == "people":
        return f"People rate {subject} {gap}"
    is_named = found.by == "system" and first
    subject = subject if is_named else f"{subject[:1].upper()}{subject[1:]}"
    return f"{subject} scores {f'the same {found.shared:,} {many} ' if by == 'evaluator' else ''}{gap}"


def group_name(by: str, name: str) -> str:
    """Return the name of a group, with its dimension unless it names a system.

    >>> group_name("system", "b"), group_name("version", "2.10"), group_name("system", "")
    ('b', 'version 2.10', 'assistant version unknown')
    """
    shown = name or UNKNOWN
    return shown if by == "system" and name else f"{dimension_in_words(by)} {shown}"


def points_in_words(gap: float) -> str:
    """Return the size of a difference.

    >>> points_in_words(-0.6612), points_in_words(0.004)
    ('0.66 points', 'less than 0.01 points')
    """
    shown = written(abs(gap), "points")
    return f"{'less than 0.01' if shown == '0.00' and gap else shown} points"


def describe_test(found: MeanDifference, many: str = "conversations") -> str:
    """Return the inputs or texts that both sides have, and the p of the difference; empty without a test."""
    if found.p is None:
        return ""
    if found.by == "evaluator":
        said = f"On the {found.shared:,} {many} that both scored"
    else:
        said = f"Both answered {count_of(found.shared, 'input')}" if found.shared else "They have no input in common"
    corrected = f" with Holm's correction for {found.tests} differences" if found.tests > 1 else ""
    return f"{said}; {p_text(found.p)}{corrected}"
