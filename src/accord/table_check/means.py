"""Mean label of all rows from the labels of some, by system, and the number of labels that an interval needs.

Several estimators are shown, and one is chosen without a look at their intervals, because the narrowest of several
intervals holds the mean too rarely. The choice follows simulations (docs/measured.md): the efficient mean had the
narrowest intervals, and they held the mean in 95% of the tables, within the error of the simulations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.results import p_text
from accord.statistics import (
    CONFIDENCE,
    SURE,
    CenteredPart,
    LabeledSystem,
    MeanDifference,
    SystemMean,
    efficient_means,
    estimate_systems,
    holm,
    label_plans,
    mean_differences,
    mean_on_scale,
    normal_quantile,
    on_scale,
    p_value,
    random_label_p,
    reach,
    rogan_gladen,
    spread_of,
)
from accord.table_check.agreement import MIN_LABELS
from accord.table_check.table import JudgedTable
from accord.values import Estimate

Floats = NDArray[np.float64]

JUDGE, LABELS, PPI, ROGAN_GLADEN, EFFICIENT = (
    "the judge alone", "the labels alone", "PPI++", "error rates (Rogan–Gladen)", "efficient",
)  # fmt: skip
MIN_SYSTEM_LABELS = 5
"""Smallest number of labels of a system; systems share the slope of labels on scores."""
MAX_SYSTEMS = 20


@dataclass(frozen=True)
class MeanRow:
    """Mean of all rows by one estimator.

    Attributes:
        method: Name of the estimator.
        mean: The mean.
        reason: Reason of a missing figure.
    """

    method: str
    mean: Estimate
    reason: str = ""


@dataclass(frozen=True)
class LabelPlan:
    """Number of labels for an interval of some width.

    Attributes:
        width: Width of the 95% interval, from end to end.
        labels: Labels that it needs with the judge's scores, or `None` if all rows are too few.
        labels_alone: Labels that it needs without them.
        present: Present number of labels.
    """

    width: float
    labels: int | None
    labels_alone: int
    present: int


@dataclass(frozen=True)
class Means:
    """Means of all rows.

    Attributes:
        rows: A row per estimator.
        best: Name of the chosen estimator; empty if there is none.
        corrected: Mean by it.
        bias: Mean of the judge minus the corrected mean; without a value on another scale.
        bias_p: Its p, or `None` without a bias.
        plan: Labels for the asked width.
        reason: Reason of missing means.
        is_selective: True if they are missing because the judge's answers differ between labeled and other rows.
    """

    rows: Sequence[MeanRow] = ()
    best: str = ""
    corrected: Estimate = Estimate()
    bias: Estimate = Estimate()
    bias_p: float | None = None
    plan: LabelPlan | None = None
    reason: str = ""
    is_selective: bool = False


def table_means(table: JudgedTable, width: float | None) -> Means:
    """Return the mean of all rows by each estimator.

    Args:
        table: The table.
        width: Width of the interval for which labels are planned; by default half the present width.
    """
    scale, judged = table.scale, table.is_judged
    if scale.kind == "nominal":
        more = "; name the value that counts as 1 with --yes" if len(scale.options) == 2 else ""
        return Means(reason=f"the values have no order, so they have no mean{more}")
    answers = table.mean_answer
    judge_mean = Estimate()
    if answers is not None:
        judge_mean = mean_on_scale(answers[judged], table.item[judged], scale.ends, scale.is_two_valued)
    first = [MeanRow(JUDGE, judge_mean, "" if answers is not None else "the judge answers on another scale")]
    labels = int(table.is_labeled.sum())
    if labels < MIN_LABELS:
        reason = f"{labels} rows have a score and a label; at least {MIN_LABELS} are needed"
        return Means(first, reason=reason)
    given = _system(table, "all rows", np.ones(len(table.item), dtype=bool))
    if (chance := random_label_p(given)) < SURE:
        return Means(first, reason=_selection_text(given, chance), is_selective=True)
    [efficient] = efficient_means([given], scale.ends, scale.is_two_valued)
    rows = [*first, MeanRow(LABELS, _label_estimate(efficient), efficient.reason or "")]
    if efficient.reason:
        return Means(rows, reason=efficient.reason)
    [ppi] = estimate_systems([given])
    rows.append(MeanRow(PPI, _estimate(on_scale(ppi, given, scale.ends, scale.is_two_valued))))
    if scale.is_two_valued:
        rows.append(_by_error_rates(table, given))
    rows.append(MeanRow(EFFICIENT, _estimate(efficient)))
    bias, p = (Estimate(), None) if answers is None else _bias(efficient, answers[judged], table.item[judged], given)
    return Means(rows, EFFICIENT, _estimate(efficient), bias, p, label_plan(efficient, width))


def _selection_text(given: LabeledSystem, p: float) -> str:
    """Return the reason why labels of some rows say nothing about the others."""
    labeled, others = float(given.predicted.mean()), float(given.unlabelled.mean())
    return (
        f"the judge's answers differ between the {len(given.predicted):,} labeled rows (mean {labeled:.2f}) and the "
        f"{len(given.unlabelled):,} others ({others:.2f}) beyond chance ({p_text(p)}), so the labels say little about "
        "the others; label rows that are chosen at random"
    )


def _system(table: JudgedTable, name: str, members: NDArray[np.bool_]) -> LabeledSystem:
    labeled, other = members & table.is_labeled, members & table.is_judged & ~table.is_labeled
    return LabeledSystem(
        name, table.mean_label[labeled], table.mean_score[labeled], table.mean_score[other],
        list(table.item[labeled]), list(table.item[other]), "rows",
    )  # fmt: skip


def _estimate(mean: SystemMean) -> Estimate:
    return Estimate(mean.mean, mean.low, mean.high)


def _label_estimate(mean: SystemMean) -> Estimate:
    return Estimate(mean.label_mean, mean.label_low, mean.label_high)


def _by_error_rates(table: JudgedTable, given: LabeledSystem) -> MeanRow:
    """Return the mean by the judge's error rates."""
    if table.mean_answer is None:
        return MeanRow(ROGAN_GLADEN, Estimate(), "the judge's scores have no threshold; set one with --threshold")
    low, high = table.scale.ends
    answers = (table.mean_answer - low) / (high - low)
    other = table.is_judged & ~table.is_labeled
    shares = LabeledSystem(
        given.system, (given.said - low) / (high - low), answers[table.is_labeled], answers[other], given.group,
        given.unlabelled_group, given.unit,
    )  # fmt: skip
    found = rogan_gladen(shares)
    if isinstance(found, str):
        return MeanRow(ROGAN_GLADEN, Estimate(), found)
    wide = high - low
    return MeanRow(ROGAN_GLADEN, Estimate(*(None if x is None else low + wide * x
                                            for x in (found.mean, found.low, found.high))))  # fmt: skip


def _bias(mean: SystemMean, answers: Floats, item: NDArray[np.object_], given: LabeledSystem) -> tuple[Estimate, float]:
    """Return the mean answer of the judge minus the corrected mean, and the p of no bias."""
    difference = float(answers.mean()) - mean.mean
    adds = CenteredPart((answers - answers.mean()) / len(answers), item.astype(str))
    parts = [adds, *(part.times(-1.0) for part in mean.parts)]
    half = reach(parts)
    return Estimate(difference, difference - half, difference + half), p_value(difference, parts)


def label_plan(mean: SystemMean, width: float | None) -> LabelPlan | None:
    """Return the number of labels for an interval of this width."""
    if mean.low is None or mean.high is None:
        return None
    width = (mean.high - mean.low) / 2 if width is None else width
    labels, scores = (spread_of([part])[0] ** 2 for part in mean.parts)
    assert mean.label_part is not None  # efficient means have one
    alone = spread_of([mean.label_part])[0] ** 2
    error = width / 2 / float(normal_quantile((1 + CONFIDENCE) / 2))
    needed, without = label_plans.labels_for(error, mean.labelled, labels, scores, alone)
    best = math.ceil(min(needed, without)) if min(needed, without) <= mean.scored else None
    return LabelPlan(width, best, math.ceil(without), mean.labelled)


# --- systems ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SystemRows:
    """Means of systems, and their differences.

    Attributes:
        systems: Mean of each system, the highest first.
        judge_means: Mean answer of the judge for each system, or `None` on another scale.
        differences: Difference of each pair with Holm's correction.
        left: Systems that are left out, each with the reason.
        reason: Reason of a missing comparison.
    """

    systems: Sequence[SystemMean] = ()
    judge_means: Sequence[float | None] = ()
    differences: Sequence[MeanDifference] = ()
    left: Sequence[str] = ()
    reason: str = ""


def compare_systems(table: JudgedTable) -> SystemRows:
    """Return corrected means of systems; their labels share the slope on scores, and common items pair them."""
    if table.system is None:
        return SystemRows(reason="no column names a system; name it with --system COLUMN")
    if table.scale.kind == "nominal":
        return SystemRows(reason="the values have no order, so systems have no means")
    names = sorted({str(name) for name in table.system if name is not None})
    given, left = [], []
    for name in names:
        found = _system(table, name, table.system == name)
        if len(found.said) < MIN_SYSTEM_LABELS:
            left.append(f"{name} ({len(found.said)} labels, {MIN_SYSTEM_LABELS} needed)")
        else:
            given.append(found)
    if len(given) > MAX_SYSTEMS:
        return SystemRows(reason=f"{len(given)} systems are more than {MAX_SYSTEMS}; name a column with --system")
    by_chance = holm([random_label_p(each) for each in given])
    selective = {each.system for each, p in zip(given, by_chance, strict=True) if p < SURE}
    left += [f"{name} (the judge's answers differ between its labeled and other rows)" for name in sorted(selective)]
    given = [each for each in given if each.system not in selective]
    if len(given) < 2:
        return SystemRows(
            left=left, reason=f"fewer than two systems have {MIN_SYSTEM_LABELS} random labels: {', '.join(left)}"
        )
    means = sorted(efficient_means(given, table.scale.ends, table.scale.is_two_valued), key=lambda each: -each.mean)
    answers = table.mean_answer
    judge = [
        None if answers is None else float(np.nanmean(answers[(table.system == each.system) & table.is_judged]))
        for each in means
    ]
    left += [f"{each.system} ({each.reason})" for each in means if each.reason]
    return SystemRows(means, judge, mean_differences(means), left)
