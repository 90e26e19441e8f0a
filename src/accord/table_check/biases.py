"""Bias of the judge by slice and by length, and the mean label for each of its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics import (
    MIN_GROUP_RATINGS,
    SIGNIFICANT,
    bias_slope,
    group_bias_tests,
    holm,
    mean_on_scale,
)
from accord.table_check.table import JudgedTable
from accord.values import Estimate

Floats = NDArray[np.float64]

MAX_LEVELS, BINS = 11, 5
"""Scores with more different values are shown in bins of equal size."""
SYSTEM, LENGTH = "system", "length"


@dataclass(frozen=True)
class BiasRow:
    """Bias of the judge in a slice, compared with all other rows, or per doubling of the length.

    Attributes:
        by: Column of the slice.
        group: Value of the slice; empty for the length.
        n: Number of labeled rows.
        bias: Bias in the slice minus the bias in the other rows, in units of the scale.
        p_holm: p with Holm's correction over all rows of the list.
    """

    by: str
    group: str
    n: int
    bias: Estimate
    p_holm: float

    @property
    def is_biased(self) -> bool:
        """True for a significant difference."""
        return self.p_holm < SIGNIFICANT


@dataclass(frozen=True)
class BiasRows:
    """Biases by slice and by length, the most significant first; `missing` has the reasons of those without a test."""

    rows: Sequence[BiasRow] = ()
    missing: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class CalibrationRow:
    """Mean label of rows with one score of the judge, or with scores in a range.

    Attributes:
        name: The score, or the range.
        score: The score, or the mean one in the range.
        n: Number of labeled rows.
        mean: Mean label.
    """

    name: str
    score: float
    n: int
    mean: Estimate


def judge_biases(table: JudgedTable) -> BiasRows:
    """Test the judge's errors by slice and length, with one correction for all tests."""
    slices = dict(table.groups) | ({SYSTEM: table.system} if table.system is not None else {})
    wanted = ["bias by slice", "bias by length"]
    if table.mean_answer is None or table.scale.kind == "nominal":
        reason = "the values have no order" if table.scale.kind == "nominal" else "the judge answers on another scale"
        return BiasRows(missing=[(each, reason) for each in wanted])
    rows, missing = np.flatnonzero(table.is_labeled), list[tuple[str, str]]()
    error = table.mean_answer[rows] - table.mean_label[rows]
    found: list[tuple[str, str, int, Estimate, float]] = []
    for by, values in slices.items():
        found += _by_slice(table, by, values, rows, error, missing)
    if not slices:
        missing.append((wanted[0], "no column slices the table; name it with --group COLUMN"))
    found += _by_length(table, rows, error, missing)
    corrected = holm([p for *_, p in found])
    listed = [BiasRow(*each[:4], p) for each, p in zip(found, corrected, strict=True)]
    return BiasRows(sorted(listed, key=lambda row: (row.p_holm, -abs(row.bias.value or 0.0))), missing)


def _by_slice(
    table: JudgedTable, by: str, values: NDArray[np.object_], rows: NDArray[np.intp], error: Floats,
    missing: list[tuple[str, str]],
) -> list[tuple[str, str, int, Estimate, float]]:  # fmt: skip
    """Return the bias for each value of one column."""
    groups = [None if values[row] is None else str(values[row]) for row in rows]
    tests = group_bias_tests(error, table.item[rows], groups)
    if not tests:
        missing.append((f"bias by {by}", f"fewer than two values have {MIN_GROUP_RATINGS} labeled rows"))
    if len(tests) == 2:  # the second is the first with the other sign
        tests = dict([max(tests.items(), key=lambda each: (each[1][0].value or 0.0, each[0]))])
    return [(by, name, groups.count(name), bias, p) for name, (bias, p) in tests.items()]


def _by_length(
    table: JudgedTable, rows: NDArray[np.intp], error: Floats, missing: list[tuple[str, str]]
) -> list[tuple[str, str, int, Estimate, float]]:
    """Return the rise of the error per doubling of the length."""
    if table.length is None:
        missing.append(("bias by length", "no column holds a length or a text; name it with --length COLUMN"))
        return []
    length = table.length[rows]
    known = np.isfinite(length) & (length > -1)  # of pairs: the ratio of both lengths - 1
    length, item = length[known], table.item[rows][known]
    found = bias_slope(error[known], item, np.log2(1 + length))
    if found is None:
        reason = "one item has nearly all of the differences in length"
        if len(length) < MIN_GROUP_RATINGS:
            reason = f"{len(length)} labeled rows have a length; at least {MIN_GROUP_RATINGS} are needed"
        elif len(set(length)) == 1:
            reason = f"all {len(length)} labeled rows have the length {length[0]:g}"
        missing.append(("bias by length", reason))
        return []
    return [(LENGTH, "", len(length), *found)]


def calibration_map(table: JudgedTable) -> list[CalibrationRow]:
    """Return the mean label for each score of the judge, with its interval over items."""
    if table.scale.kind == "nominal":
        return []
    rows = np.flatnonzero(table.is_labeled)
    score = table.mean_score[rows]
    values = np.unique(score)
    if len(values) <= MAX_LEVELS:
        edges = values
        is_on_scale = table.scale.has_same and table.scale.judge_threshold is None
        names = [table.scale.name(value) if is_on_scale else f"{value:.3g}" for value in values]
    else:
        edges = np.unique(np.quantile(score, np.arange(1, BINS + 1) / BINS, method="lower"))
        lows = [score.min(), *(values[values > edge].min() for edge in edges[:-1])]
        ends = [(f"{low:.3g}", f"{high:.3g}") for low, high in zip(lows, edges, strict=True)]
        names = [low if low == high else f"{low} to {high}" for low, high in ends]
    place = np.searchsorted(edges, score)
    found = []
    for number, name in enumerate(names):
        members = rows[place == number]
        mean = mean_on_scale(
            table.mean_label[members], table.item[members], table.scale.ends, table.scale.is_two_valued
        )
        found.append(CalibrationRow(name, float(score[place == number].mean()), len(members), mean))
    return found
