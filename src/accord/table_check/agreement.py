"""Agreement of people among themselves and of the judge with people, and the repeatability of the judge.

Both columns of the table are the same statistics: a pair is two people who labeled the same row, or the judge and a
person. Intervals are over items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.statistics import (
    AC1,
    STATISTICS,
    TWO_VALUED,
    Clusters,
    MeanStatistic,
    Paired,
    Statistic,
    jackknife,
    jackknife_of,
    number,
    share_interval,
    units_alpha,
)
from accord.table_check.table import JudgedTable
from accord.values import Estimate

Floats = NDArray[np.float64]

MIN_LABELS = 10
"""Smallest number of labels for a figure."""
KAPPA, ALPHA, R = "Cohen's κ", "Krippendorff's α", "r"
SHARES = ("same answer", "TPR", "TNR")
MAX_STEPS = 10
"""Largest number of steps of a scale whose step is one point."""
MOST_PAIRS = 200_000
"""Largest number of pairs of people's labels; their number grows with the square of the labels of a row."""
UNANIMOUS = ", unanimous rows"
"""End of the name of a statistic in rows of two or more people who agree."""
AC1_NAME, WITHIN, ERROR = "Gwet's AC1", "within", "mean absolute error"


@dataclass(frozen=True)
class Pairs:
    """Pairs of two answers to the same row.

    Attributes:
        first: (n,) the person's label.
        second: (n,) the judge's answer, or another person's label.
        item: (n,) item of the row.
    """

    first: Floats
    second: Floats
    item: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class AgreementRow:
    """One statistic of agreement.

    Attributes:
        statistic: Its name.
        people: Among people; without a value in rows that were chosen because people agree in them.
        judge: Of the judge with people.
        reason: Reason of a missing figure of the judge.
    """

    statistic: str
    people: Estimate
    judge: Estimate
    reason: str = ""


@dataclass(frozen=True)
class Repeatability:
    """Agreement of several runs of a judge.

    Attributes:
        runs: Number of runs.
        rows: Number of rows with several runs.
        alpha: Krippendorff's α of the runs.
        same: Share of rows with the same answer in every run.
        flips: Share of rows whose runs lie on both sides of the threshold.
        threshold: The threshold.
        noise: Share of the judge's squared error that is the variance of its runs.
    """

    runs: int
    rows: int
    alpha: Estimate
    same: Estimate
    flips: Estimate
    threshold: float | None
    noise: Estimate


def judge_pairs(table: JudgedTable, answers: Floats) -> Pairs:
    """Return a pair for each label, each run of the judge, and each row with both."""
    first, second, item = [], [], []
    for person in range(table.labels.shape[1]):
        for run in range(answers.shape[1]):
            both = ~np.isnan(table.labels[:, person]) & ~np.isnan(answers[:, run])
            first.append(table.labels[both, person])
            second.append(answers[both, run])
            item.append(table.item[both])
    return Pairs(np.concatenate(first), np.concatenate(second), np.concatenate(item))


def people_pairs(table: JudgedTable) -> Pairs:
    """Return two pairs for each two labels of a row, one in each order.

    The pairs of many labels are a sample: each label is paired with the same number of others of its row, drawn at
    random, so that there are about `MOST_PAIRS`.
    """
    labels = table.labels
    counts = (~np.isnan(labels)).sum(axis=1)
    nearest = labels.shape[1]
    if (counts * (counts - 1)).sum() > MOST_PAIRS:
        nearest = max(MOST_PAIRS // (2 * int(counts.sum())), 1)
        labels = labels[:, np.random.default_rng(0).permutation(labels.shape[1])]
    row, column = np.nonzero(~np.isnan(labels))
    values, count = labels[row, column], counts[row]
    place = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]  # place of a label within its row
    first, second = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for shift in range(1, int(counts.max(initial=0))):
        if shift <= nearest or (count - shift <= nearest).any():
            paired = np.flatnonzero((shift < count) & ((shift <= nearest) | (count - shift <= nearest)))
            first.append(paired)
            second.append(paired - place[paired] + (place[paired] + shift) % count[paired])
    one, other = np.concatenate(first), np.concatenate(second)
    return Pairs(values[one], values[other], table.item[row[one]])


def agreement_rows(table: JudgedTable) -> list[AgreementRow]:
    """Return the statistics of agreement that the scale has."""
    answers = table.score if table.answer is None else table.answer
    with_people, among = judge_pairs(table, answers), people_pairs(table)
    rows = []
    for name, compute in _statistics(table).items():
        judge, reason = _figure(name, with_people, compute, table)
        people, _ = _figure(name, among, compute, table)
        rows.append(AgreementRow(name, people, judge, reason))
    alphas = [row for row in rows if row.statistic == ALPHA]
    if alphas:  # of all people together, not of pairs
        place = rows.index(alphas[0])
        rows[place] = AgreementRow(ALPHA, alpha_of(table, table.labels), alphas[0].judge, alphas[0].reason)
    return [rows[0], *_among_unanimous(table, answers, rows[0].statistic), *rows[1:]]


def _among_unanimous(table: JudgedTable, answers: Floats, name: str) -> list[AgreementRow]:
    """Return the main statistic of the judge in rows whose people agree, if people are split in others."""
    several = (~np.isnan(table.labels)).sum(axis=1) > 1
    labels = table.labels[several]
    if not len(labels):
        return []
    split = np.nanmax(labels, axis=1) > np.nanmin(labels, axis=1)
    if not split.any() or split.all():
        return []
    kept = replace(table, labels=labels[~split], score=table.score[several][~split], item=table.item[several][~split])
    pairs = judge_pairs(kept, answers[several][~split])
    judge, reason = _figure(name, pairs, _statistics(table)[name], table)
    return [AgreementRow(f"{name}{UNANIMOUS}", Estimate(), judge, reason)] if judge.value is not None else []


Compute = Callable[[Pairs], Estimate]


def _statistics(table: JudgedTable) -> Mapping[str, Compute]:
    """Return the statistics of pairs by name, the one that a gate checks first."""
    scale = table.scale

    def of(statistic: Statistic, is_bounded: bool = True) -> Compute:
        return lambda pairs: jackknife(Clusters(pairs.item), statistic, paired(table, pairs), is_bounded)

    def share(rows: Callable[[Pairs], tuple[NDArray[np.bool_], NDArray[np.bool_]]]) -> Compute:
        def compute(pairs: Pairs) -> Estimate:
            events, among = rows(pairs)
            return share_interval(events[among], pairs.item[among])

        return compute

    same = share(lambda pairs: (pairs.first == pairs.second, np.ones(len(pairs), dtype=bool)))
    low, high = scale.ends
    if table.answer is None:
        return {R: of(STATISTICS["pearson"]), "Spearman's ρ": of(STATISTICS["spearman"])}
    if scale.is_two_valued:
        return {
            KAPPA: of(TWO_VALUED["kappa"]),
            AC1_NAME: of(AC1),
            "same answer": same,
            "TPR": share(lambda pairs: (pairs.second == high, pairs.first == high)),
            "TNR": share(lambda pairs: (pairs.second == low, pairs.first == low)),
        }
    if scale.kind == "nominal":
        return {ALPHA: lambda pairs: _alpha_of_pairs(table, pairs), "same answer": same}
    point = table_point(table)
    within = share(lambda pairs: (np.abs(pairs.first - pairs.second) <= point + 1e-9, np.isfinite(pairs.first)))
    near = f"{WITHIN} one point" if point == 1 else f"{WITHIN} {point:.3g} points"
    errors = {ERROR: of(STATISTICS["mae"], is_bounded=False), near: within}
    if scale.kind == "continuous":
        return {R: of(STATISTICS["pearson"]), "Spearman's ρ": of(STATISTICS["spearman"]), **errors}
    return {
        f"{KAPPA}, quadratic weights": of(STATISTICS["weighted_kappa"]),
        ALPHA: lambda pairs: _alpha_of_pairs(table, pairs),
        R: of(STATISTICS["pearson"]),
        "same answer": same,
        near: within,
        ERROR: errors[ERROR],
    }


def table_point(table: JudgedTable) -> float:
    """Return one point of the scale.

    It is 1 on a scale of 2 to 10 points with labels that are at most 1 apart, also if some labels lie between whole
    numbers. On other scales with few labels it is the typical step between them, else a tenth of the scale.
    """
    labels = np.unique(table.labels[np.isfinite(table.labels)])
    span = float(np.ptp(table.scale.options))
    step = float(np.median(np.diff(labels))) if len(labels) > 2 else span
    if 2 <= span <= MAX_STEPS and step <= 1:
        return 1.0
    return step if len(labels) <= MAX_STEPS + 1 and step < span else span / MAX_STEPS


def paired(table: JudgedTable, pairs: Pairs) -> Paired:
    """Return pairs as ratings (the first answers) and predictions (the second)."""
    options = np.union1d(table.scale.options, pairs.first)
    return Paired(options, np.searchsorted(options, pairs.first), np.zeros((len(pairs), 0)), pairs.second)


def _figure(name: str, pairs: Pairs, compute: Compute, table: JudgedTable) -> tuple[Estimate, str]:
    """Return a figure, or an empty one with the reason."""
    items = len(set(pairs.item))
    if len(pairs) < MIN_LABELS or items < 2:
        counts = f"{count_of(len(pairs), 'label')} of {count_of(items, 'item')}"
        return Estimate(), f"{counts}; at least {MIN_LABELS} labels of two items are needed"
    is_constant = np.ptp(pairs.first) == 0 or (name != AC1_NAME and np.ptp(pairs.second) == 0)
    if name not in (*SHARES, ERROR) and not name.startswith(WITHIN) and is_constant:
        return Estimate(), _constant_text(table, pairs)
    found = compute(pairs)
    if name in ("TPR", "TNR") and found.value is None:
        return Estimate(), f"no label is {table.scale.name(table.scale.ends[name == 'TPR'])}"
    if found.low is None and found.value is not None and abs(found.value) > 1 - 1e-9:
        return found, "without a disagreement its interval is unknown"
    return found, ""


def _constant_text(table: JudgedTable, pairs: Pairs) -> str:
    if np.ptp(pairs.first) == 0:
        return f"all {len(pairs)} labels are {table.scale.name(float(pairs.first[0]))}"
    return f"all {len(pairs)} answers of the judge are {table.scale.name(float(pairs.second[0]))}"


def alpha_of(table: JudgedTable, answers: Floats) -> Estimate:
    """Return Krippendorff's α of (n, S) answers of several sources; ordinal for an ordered scale."""
    several = (~np.isnan(answers)).sum(axis=1) > 1
    if several.sum() < MIN_LABELS:
        return Estimate()
    return _alpha(answers[several], table.item[several], table.scale.kind != "nominal")


def _alpha_of_pairs(table: JudgedTable, pairs: Pairs) -> Estimate:
    both = np.column_stack([pairs.first, pairs.second])
    return _alpha(both, pairs.item, table.scale.kind != "nominal")


def _alpha(answers: Floats, item: NDArray[np.object_], is_ordered: bool) -> Estimate:
    values = np.unique(answers[~np.isnan(answers)])
    counts = np.stack([(answers == value).sum(axis=1) for value in values], axis=1).astype(float)
    clusters = Clusters(item)

    def of(kept: Floats) -> Floats:
        return units_alpha(counts, kept[:, clusters.of_row], is_ordered)

    value = number(of(np.ones((1, len(clusters))))[0])
    return jackknife_of(of, len(clusters), len(item), value)


# --- several runs -----------------------------------------------------------------------------------------------------


def _noise_of(means: Floats) -> Floats:
    """Divide the variance of runs by the squared error; NaN without errors, as without the one item that has some."""
    noise, squared = means[..., 0], means[..., 1]
    return np.divide(noise, squared, out=np.full_like(noise, np.nan), where=squared > 0)


_NOISE = MeanStatistic(lambda paired: paired.probabilities, _noise_of)


def repeatability(table: JudgedTable) -> Repeatability | str:
    """Return the agreement of several runs of the judge, or the reason why it is unknown."""
    answers = table.score if table.answer is None else table.answer
    count = (~np.isnan(answers)).sum(axis=1)
    several = count > 1
    if not several.any():
        return "the judge has one run; add columns judge_1, judge_2, or a column that names the run"
    if several.sum() < MIN_LABELS:
        return f"{several.sum()} rows have several runs; at least {MIN_LABELS} are needed"
    runs, item = answers[several], table.item[several]
    threshold = table.scale.threshold if table.answer is not None else None
    spread = np.nanmax(runs, axis=1) - np.nanmin(runs, axis=1)
    flips = Estimate()
    if threshold is not None:
        upper = np.where(np.isnan(runs), np.nan, runs >= threshold)
        flips = share_interval(np.nanmax(upper, axis=1) != np.nanmin(upper, axis=1), item)
    return Repeatability(
        answers.shape[1], int(several.sum()), alpha_of(table, answers), share_interval(spread == 0, item), flips,
        threshold, _noise_share(table, answers, several),
    )  # fmt: skip


def _noise_share(table: JudgedTable, answers: Floats, several: NDArray[np.bool_]) -> Estimate:
    """Return the share of the judge's squared error that is the variance of its runs, within 0 to 1."""
    rows = np.flatnonzero(several & table.is_labeled)
    if table.answer is None or table.scale.kind == "nominal" or len(rows) < MIN_LABELS:
        return Estimate()
    noise = np.nanvar(answers[rows], axis=1, ddof=1)
    errors = (answers[rows][:, :, None] - table.labels[rows][:, None, :]) ** 2
    squared = np.nanmean(errors.reshape(len(rows), -1), axis=1)
    if not squared.sum() > 0:
        return Estimate()
    shown = Paired(np.zeros(1), np.zeros(len(rows), dtype=np.intp), np.column_stack([noise, squared]), noise)
    found = jackknife(Clusters(table.item[rows]), _NOISE, shown, is_bounded=False)
    ends = (None if end is None else min(max(end, 0.0), 1.0) for end in (found.value, found.low, found.high))
    return Estimate(*ends)
