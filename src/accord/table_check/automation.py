"""Share of the rows that the judge may decide alone with a bounded error, and the error of each slice.

Rows are sorted by the judge's confidence: a column, the distance of its score from the threshold, or the agreement of
its runs. The share is the widest one whose labeled rows have an error of at most the limit with 95% confidence
(`accord.statistics.widest_share`, the test of `accord score --agree` with other shares).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, count_of, one_line
from accord.results import told_apart
from accord.statistics import CONFIDENCE, share_interval, widest_share
from accord.table_check.agreement import MIN_LABELS, table_point
from accord.table_check.biases import SYSTEM
from accord.table_check.means import Means
from accord.table_check.table import JudgedTable
from accord.values import Estimate

Floats = NDArray[np.float64]

ERROR = 0.05
"""Default limit of the error."""
SMALLEST_ERROR = 1e-6
"""Smallest limit of the error; it takes three million labels."""


@dataclass(frozen=True)
class SliceError:
    """Error of the judge in a slice, in rows that it decides alone.

    Attributes:
        by: Column of the slice.
        group: Value of the slice.
        share: Share of the slice's rows with a score that the judge decides alone.
        n: Number of labeled ones among them.
        error: Share of these that differ from people; unknown for fewer than 10.
    """

    by: str
    group: str
    share: float
    n: int
    error: Estimate


@dataclass(frozen=True)
class Automation:
    """Share of the rows that the judge may decide alone.

    Attributes:
        limit: Largest error.
        confidence: The judge's confidence, in words.
        rule: What counts as an error.
        labeled: Labeled rows with a confidence.
        share: Share of the rows with a score that the judge may decide alone; 0 for none.
        rows: Number of these rows.
        threshold: Lowest confidence of these rows; missing if there are none.
        error: Expected error in these rows, from `tested` labeled ones; without a share, in the first rows tested.
        at_most: Upper bound of the error with 95% confidence.
        tested: Number of labeled rows behind `error`.
        reason: Reason of "none".
        slices: Error of each slice, the highest first.
    """

    limit: float
    confidence: str
    rule: str
    labeled: int
    share: float = 0.0
    rows: int = 0
    threshold: float | None = None
    error: Estimate = Estimate()
    at_most: float | None = None
    tested: int = 0
    reason: str = ""
    slices: Sequence[SliceError] = ()

    def __str__(self) -> str:
        if self.threshold is None:
            return f"the judge may decide no row alone: {self.reason}"
        return (
            f"the judge may decide {_percent(self.share)} of the rows alone ({self.confidence} at least "
            f"{self.threshold:.3g}): error {_percents(self.error)} in {count_of(self.tested, 'labeled row')}, at most "
            f"{told_apart(self.at_most or 0.0, self.limit, '.1%')[0]} with {CONFIDENCE:.0%} confidence"
        )

    @property
    def worst(self) -> SliceError | None:
        """The slice with the highest error whose interval lies above the limit."""
        return next((each for each in self.slices if each.error.low is not None and each.error.low > self.limit), None)


def _percent(share: float) -> str:
    return f"{share:.1%}" if 0 < share < 0.1 or 0.99 < share < 1 else f"{share:.0%}"


def _percents(figure: Estimate) -> str:
    if figure.value is None:
        return "unknown"
    ends = "" if figure.low is None or figure.high is None else f" [{figure.low:.1%}, {figure.high:.1%}]"
    return f"{figure.value:.1%}{ends}"


def slice_text(each: SliceError) -> str:
    """Return the error of a slice as a line."""
    return (
        f"{each.by} {one_line(each.group, 40)}: error {_percents(each.error)} in {count_of(each.n, 'labeled row')}, "
        f"{_percent(each.share)} of its rows decided alone"
    )


def check_error(error: float) -> None:
    """Raise `BadInput` if a limit of the error is out of range."""
    if not SMALLEST_ERROR <= error < 0.5:
        raise BadInput(
            f"--error {error:g}: the largest error is a share from {SMALLEST_ERROR:g} to below .5; for example .05"
        )


def share_to_automate(table: JudgedTable, error: float, means: Means) -> Automation | str:
    """Return the share of the rows that the judge may decide alone, or the reason why it is unknown.

    Args:
        table: The table.
        error: Largest share of these rows in which the judge may differ from people.
        means: Means of the table, which know whether its labeled rows are a random part.
    """
    if table.answer is None:
        return table.no_answer
    found = judge_confidence(table)
    if isinstance(found, str):
        return found
    name, confidence = found
    if means.is_selective:
        return "the labeled rows are not a random part of all rows"
    rule, wrong = judge_errors(table)
    rows = np.flatnonzero(table.is_labeled & np.isfinite(confidence))
    result = Automation(error, name, rule, len(rows))
    items = len(set(table.item[rows]))
    sure = confidence[rows]
    passed, last = widest_share(sure, wrong[rows], table.item[rows], error)
    if last is None:
        fewest = _fewest(error)
        return replace(
            result, reason=f"{count_of(items, 'labeled item')}; an error of {error:.3g} needs at least {fewest}"
        )
    tested = rows[sure >= (last if passed is None else passed).threshold]
    figure = share_interval(wrong[tested], table.item[tested])
    result = replace(result, error=figure, tested=len(tested))
    if passed is None:
        at_most, wrong_rows = 1 - last.at_least, int(wrong[tested].sum())
        differ = "differs" if wrong_rows == 1 else "differ"
        return replace(
            result, at_most=at_most,
            reason=f"of the {count_of(len(tested), 'labeled row')} with the highest confidence, {wrong_rows} {differ} "
            f"from people, so the error may be {told_apart(at_most, error, '.1%')[0]}, and {error:.3g} is allowed",
        )  # fmt: skip
    alone = table.is_judged & (confidence >= passed.threshold)
    return replace(
        result, share=float(alone.sum() / table.is_judged.sum()), rows=int(alone.sum()), threshold=passed.threshold,
        at_most=1 - passed.at_least, slices=_slices(table, alone, wrong),
    )  # fmt: skip


def _fewest(error: float) -> int:
    """Return the fewest labels that can bound an error: the judge is right in each."""
    return int(np.ceil(np.log(1 - CONFIDENCE) / np.log1p(-error)))


def judge_confidence(table: JudgedTable) -> tuple[str, Floats] | str:
    """Return the judge's confidence in words and as (n,) numbers, or the reason why it is unknown."""
    if table.confidence is not None:
        return str(table.roles.confidence), table.confidence
    threshold = table.scale.judge_threshold
    if threshold is not None:
        score = table.mean_score
        judged = score[table.is_judged]
        if threshold == 0.5 and len(judged) and judged.min() >= 0 and judged.max() <= 1:
            return "probability of the answer", np.maximum(score, 1 - score)
        return "distance of the score from the threshold", np.abs(score - threshold)
    answers = table.answer
    assert answers is not None
    runs = (~np.isnan(answers)).sum(axis=1)
    if answers.shape[1] < 2 or not (runs > 1).any():
        return "the judge's confidence is unknown; name a column with --confidence, or add runs of the judge"
    if table.scale.kind in ("two-valued", "nominal"):
        counts = np.stack([(answers == value).sum(axis=1) for value in np.unique(answers[~np.isnan(answers)])])
        return "share of equal runs", np.where(runs > 1, counts.max(axis=0) / np.maximum(runs, 1), np.nan)
    mean = np.nansum(answers, axis=1) / np.maximum(runs, 1)
    squares = np.nansum((answers - mean[:, None]) ** 2, axis=1) / np.maximum(runs - 1, 1)
    return "minus the standard deviation of runs", np.where(runs > 1, -np.sqrt(squares), np.nan)


def judge_errors(table: JudgedTable) -> tuple[str, NDArray[np.bool_]]:
    """Return what counts as an error of the judge, and (n,) True for rows with one; False without a label."""
    assert table.answer is not None and table.mean_answer is not None
    if table.scale.kind in ("two-valued", "nominal"):
        most, is_tied = majority(table.labels)
        wrong = (majority(table.answer)[0] != most) | is_tied
        is_several = (~np.isnan(table.labels)).sum(axis=1).max(initial=0) > 1
        rule = (
            "the judge's answer is not the label of most people"
            if is_several
            else "the judge's answer is not the label"
        )
        return rule, wrong & table.is_labeled
    point = table_point(table)
    unit = "one point" if point == 1 else f"{point:.3g} points"
    with np.errstate(invalid="ignore"):
        return (
            f"the judge's answer is more than {unit} from the mean label",
            table.is_labeled & (np.abs(table.mean_answer - table.mean_label) > point + 1e-9),
        )


def majority(values: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the most frequent of the (n, S) values of each row (NaN for none), and True for rows with a tie."""
    options = np.unique(values[~np.isnan(values)])
    if not len(options):
        return np.full(len(values), np.nan), np.zeros(len(values), dtype=bool)
    counts = np.stack([(values == option).sum(axis=1) for option in options], axis=1)
    most = counts.max(axis=1)
    return np.where(most > 0, options[counts.argmax(axis=1)], np.nan), (counts == most[:, None]).sum(axis=1) > 1


def _slices(table: JudgedTable, alone: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> list[SliceError]:
    slices = dict(table.groups) | ({SYSTEM: table.system} if table.system is not None else {})
    found = []
    for by, values in slices.items():
        for group in sorted({str(value) for value in values[table.is_judged] if value is not None}):
            members = table.is_judged & (values == group)
            labeled = np.flatnonzero(members & alone & table.is_labeled)
            figure = share_interval(wrong[labeled], table.item[labeled]) if len(labeled) >= MIN_LABELS else Estimate()
            found.append(SliceError(by, group, float(alone[members].mean()), len(labeled), figure))
    return sorted(found, key=lambda each: (-(each.error.value if each.error.value is not None else -1.0), -each.n))
