"""Differences of mean scores: two groups on one or all questions, two evaluators on the same texts, the last period."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accord.board.filters import Dimension, dimension_in_words
from accord.board.score_reader import DAY, UNKNOWN, ScoreReader, SelectedScores
from accord.board.statistics import TimeSeries
from accord.results import p_text
from accord.statistics import MIN_CLUSTERS, SIGNIFICANT, CenteredPart, clustered_mean, holm, p_value, reach
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

MIN_SHARED_INPUTS = 10
"""Minimum number of common inputs for a paired comparison of two groups."""
MAX_GROUPS_IN_PAIRS = 5
"""Maximum number of groups of which all pairs are compared, the largest ones."""
MAX_QUESTION_TEXTS = 100_000
"""Maximum number of texts, drawn at random, that are compared on other questions."""
_NO_ERROR = 1e-12
COMPARED: tuple[Dimension, ...] = ("system", "version")
"""Dimensions that are compared by default, the first with two values."""


@dataclass(frozen=True)
class MeanDifference:
    """Difference of two mean scores on a question, first minus second.

    Attributes:
        question: Question of the scores.
        by: Dimension of the two groups, `evaluator`, or the length of the last period (`day`, `week`).
        first, second: Names of the groups.
        difference: With a 95% interval unless there are too few conversations.
        p: Two-sided, with Holm's correction over `tests` differences; None without an interval.
        paired: True if common inputs or texts are compared in pairs.
        shared: Number of common inputs or texts.
        texts: Numbers of texts.
        tests: Number of differences that were tested together; the interval is that of this difference alone.
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
    """Return the difference of two groups, by default of those of `pair_of`; None with fewer than two.

    A named group without texts gives a difference without a value.
    """
    default = [name for name in pair_of(texts, by) or () if name not in (first, second)]
    first = default.pop(0) if first is None and default else first
    second = default.pop(0) if second is None and default else second
    if first is None or second is None or first == second:
        return None
    return _of_groups(texts, str(scores.selection.question), by, first, second)


def pair_differences(
    scores: SelectedScores, texts: pl.DataFrame, by: str, groups: Sequence[str]
) -> tuple[MeanDifference, ...]:
    """Return the differences of all pairs of some groups, with Holm's correction over those with a test."""
    sides = {name: _Side.of(texts, by, name) for name in groups}
    found = [
        _of_sides(sides, str(scores.selection.question), by, max(pair), min(pair)) for pair in combinations(groups, 2)
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
        difference = _of_groups(joined, name, found.by, found.first, found.second)
        differences += [] if difference.difference.value is None else [difference]
    return differences


def evaluator_difference(
    scores: SelectedScores, texts: pl.DataFrame, reader: ScoreReader, against: str
) -> MeanDifference | None:
    """Return the difference of two evaluators on the texts that both scored; None if their scales differ.

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
    gaps, cluster = _numbers(joined, "value") - _numbers(joined, "value_other"), joined["cluster"].to_numpy()
    estimate, p = _tested_gaps(gaps, cluster)
    return MeanDifference(
        str(about.question), "evaluator", str(about.evaluator), against, estimate, p, True, len(gaps),
        (len(gaps), len(gaps)),
    )  # fmt: skip


def last_period_difference(scores: SelectedScores, texts: pl.DataFrame, time: TimeSeries) -> MeanDifference | None:
    """Return the difference of the last period and all earlier ones; None with a single period."""
    import polars as pl

    if len(time.moments) < 2:
        return None
    first, last = date.fromisoformat(time.moments[0].since), date.fromisoformat(time.moments[-1].since)
    sides = [texts.filter(pl.col(DAY) >= last), texts.filter(pl.col(DAY).is_between(first, last, closed="left"))]
    return _unpaired(sides, str(scores.selection.question), time.step, last.isoformat(), first.isoformat())


@dataclass(frozen=True)
class _Side:
    """Texts of a group, and the mean and number of its texts by input."""

    texts: pl.DataFrame
    inputs: pl.DataFrame

    @classmethod
    def of(cls, texts: pl.DataFrame, by: str, name: str) -> _Side:
        import polars as pl

        mine = texts.filter(_is_group(by, name))
        known = mine.filter(pl.col("input").is_not_null())
        return cls(mine, known.group_by("input").agg(pl.col("value").mean(), pl.len()))


def _of_groups(texts: pl.DataFrame, question: str, by: str, first: str, second: str) -> MeanDifference:
    """Return the difference of two groups: paired by input with enough common inputs, else of all their texts."""
    return _of_sides({name: _Side.of(texts, by, name) for name in (first, second)}, question, by, first, second)


def _of_sides(sides: Mapping[str, _Side], question: str, by: str, first: str, second: str) -> MeanDifference:
    one, other = sides[first], sides[second]
    if not len(one.texts) or not len(other.texts):
        sizes = len(one.texts), len(other.texts)
        return MeanDifference(question, by, first, second, Estimate(None), None, False, 0, sizes)
    joined = one.inputs.join(other.inputs, on="input", suffix="_other")
    if len(joined) < MIN_SHARED_INPUTS:
        return replace(_unpaired([one.texts, other.texts], question, by, first, second), shared=len(joined))
    gaps = _numbers(joined, "value") - _numbers(joined, "value_other")
    estimate, p = _tested_gaps(gaps, np.arange(len(gaps)))
    sizes = int(joined["len"].sum()), int(joined["len_other"].sum())
    return MeanDifference(question, by, first, second, estimate, p, True, len(joined), sizes)


def _is_group(by: str, name: str) -> pl.Expr:
    import polars as pl

    return pl.col(by) == name if name else pl.col(by).is_null()


def _unpaired(sides: Sequence[pl.DataFrame], question: str, by: str, first: str, second: str) -> MeanDifference:
    estimate, p = _tested([
        (sign, _numbers(side, "value"), side["cluster"].to_numpy())
        for sign, side in zip((1.0, -1.0), sides, strict=True)
    ])  # fmt: skip
    return MeanDifference(question, by, first, second, estimate, p, False, 0, (len(sides[0]), len(sides[1])))


def _numbers(rows: pl.DataFrame, name: str) -> NDArray[np.float64]:
    return rows[name].to_numpy().astype(float)


def _tested_gaps(gaps: NDArray[np.float64], cluster: NDArray[np.integer[Any]]) -> tuple[Estimate, float | None]:
    """Return the mean of paired differences with its t interval and the p of 0, or without both as in `_tested`."""
    if not len(gaps):
        return Estimate(None), None
    found = clustered_mean(gaps, cluster)
    if found.groups < MIN_CLUSTERS or found.error <= _NO_ERROR:
        return Estimate(found.mean), None
    return found.interval(), found.p


def _tested(
    sides: Sequence[tuple[float, NDArray[np.float64], NDArray[np.integer[Any]]]],
) -> tuple[Estimate, float | None]:
    """Return the signed sum of means with its t interval over clusters, and the p of 0.

    Both are missing with fewer than `MIN_CLUSTERS` clusters in a mean, and if no mean varies.
    """
    if not all(len(value) for _, value, _ in sides):
        return Estimate(None), None
    total, parts = 0.0, []
    for sign, value, cluster in sides:
        present = np.flatnonzero(np.bincount(cluster))
        adds = np.bincount(cluster, value - value.mean())[present] / len(value)
        total += sign * float(value.mean())
        parts.append(CenteredPart(sign * adds, present.astype(str)))
    half = reach(parts) if all(len(part.adds) >= MIN_CLUSTERS for part in parts) else 0.0
    if half <= _NO_ERROR:
        return Estimate(total), None
    return Estimate(total, total - half, total + half), p_value(total, parts)


# --- sentences --------------------------------------------------------------------------------------------------------


def difference_in_words(
    found: MeanDifference, names: Mapping[str, str], where: str = "", shown: Callable[[str], str] = str,
    many: str = "conversations",
) -> str:  # fmt: skip
    """Return a difference with its interval in one clause.

    Args:
        found: The difference.
        names: Names of evaluators by id.
        where: Filters of the conversations, such as " for conversations with topic refunds".
        shown: Returns the short name of a question.
        many: Word for the compared texts.
    """
    first, second = (names.get(name, name) or UNKNOWN for name in (found.first, found.second))
    by = dimension_in_words(found.by)
    subject, other = (f"the last {by}", "the time before") if by in ("day", "week") else (f"{by} {first}", second)
    on = f"on {shown(found.question)}{where}"
    if found.difference.value is None:
        absent = [name for name, count in zip((first, second), found.texts, strict=True) if not count]
        return f"No scores of {by} {' and '.join(absent)} {on}; choose another {by} or remove a filter"
    low, high = found.difference.low, found.difference.high
    if low is None or high is None:
        sizes = f"{found.texts[0]:,} and {found.texts[1]:,} {many}"
        return f"Too few different scores to compare {subject} with {other} {on} ({sizes})"
    points, (low, high) = found.difference.value, sorted((low, high))
    if found.sign:
        points, (low, high) = abs(points), sorted((abs(low), abs(high)))
    digits = _digits_of(low, high)
    interval = f"(95% interval {low:.{digits}f} to {high:.{digits}f})"
    if not found.sign:
        kind = "clear"
        if found.tests > 1:
            kind, interval = "significant", f"(95% interval of this pair alone {low:.{digits}f} to {high:.{digits}f})"
        return f"No {kind} difference between {subject} and {other} {on}: {points:+.{digits}f} points {interval}"
    verb = f"rates the same {found.shared:,} {many}" if by == "evaluator" else "is rated"
    direction = "higher" if found.sign > 0 else "lower"
    subject = subject[:1].upper() + subject[1:]
    return f"{subject} {verb} {points:.{digits}f} points {direction} than {other} {on} {interval}"


def _digits_of(*numbers: float) -> int:
    """Return the least number of digits, 2 to 4, with which no number is shown as 0; 2 if there is none."""
    return next((digits for digits in (2, 3, 4) if all(round(number, digits) for number in numbers)), 2)


def describe_test(found: MeanDifference, many: str = "conversations") -> str:
    """Return the kind of test and its p; empty without a test."""
    if found.p is None:
        return ""
    pairs = f"{many} that both scored" if found.by == "evaluator" else "inputs of both"
    kind = f"Paired on the {found.shared:,} {pairs}" if found.paired else "On different inputs (unpaired)"
    corrected = f" with Holm's correction for {found.tests} differences" if found.tests > 1 else ""
    return f"{kind}: {found.difference}, {p_text(found.p)}{corrected}"
