"""Metrics of an evaluator with intervals: pooled, within annotators and within assistant versions.

A pooled correlation also rewards knowing the annotator and the assistant version. Within annotators, each annotator's
mean is subtracted from both sides and only pairs of one annotator are ordered; within versions likewise. These are
about the predictions for a new annotator, which `accord score` makes by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Ratings
from accord.learning import Predictions
from accord.statistics import (
    DRAWS,
    STATISTICS,
    TWO_VALUED,
    Clusters,
    MeanStatistic,
    Statistic,
    bootstrap_all,
    fold_of,
    krippendorff_alpha,
    smece_estimates,
    within,
)
from accord.values import Estimate, Target

Indices = NDArray[np.intp]
Repeats = Sequence[Predictions]
"""Predictions of one evaluator in each repetition of the cross-validation, the first one with the comparison's seed."""

CORRELATIONS = ("pearson", "spearman", "kendall", "weighted_kappa", "alpha", "kappa")
"""Statistics that are undefined for a prediction that is constant in each fold."""
NEW, R_NEW, COVERAGE_NEW, WIDTH_NEW = SERVED = (
    "rmse_new_annotator", "r_new_annotator", "coverage_new_annotator", "width_new_annotator",
)  # fmt: skip
"""Statistics of the prediction for a new annotator, which `accord score` makes unless an annotator is named: RMSE, r
within annotators, and coverage and mean width of the bands."""


@dataclass(frozen=True)
class Within:
    """Agreement inside groups of ratings: of one annotator each, or about one assistant version each.

    Attributes:
        groups: Number of groups.
        pearson: r after subtracting each group's means from both sides, -1 to 1.
        kendall: τ-b over the pairs inside groups, -1 to 1.
    """

    groups: int
    pearson: Estimate
    kendall: Estimate

    def to_json(self, by: str) -> dict[str, Any]:
        """Return flat entries: `pearson_within_annotators`, ..."""
        row: dict[str, Any] = {f"groups_within_{by}": self.groups}
        for name, estimate in (("pearson", self.pearson), ("kendall", self.kendall)):
            key = f"{name}_within_{by}"
            row |= {key: estimate.value, f"{key}_low": estimate.low, f"{key}_high": estimate.high}
        return row


@dataclass(frozen=True)
class EvaluatorMetrics:
    """Metrics of an evaluator or baseline on `n` ratings.

    Attributes:
        evaluator: Name of the evaluator or baseline.
        n: Number of ratings: those common to the table that it scored.
        unscored: Number of all ratings without a score; `reasons` explains them.
        estimates: Statistics by name, with intervals over conversations; for a scale of two options also `kappa`,
            `tpr`, `tnr` and `base_rate`. All are about the prediction for the rating's own annotator, except
            the statistics in `SERVED`.
        smece: Calibration error of each option, or of each range of a long scale.
        reasons: Number of ratings without a score by reason.
        within: Agreement inside groups, by `annotators` and by `systems` if there are several.
    """

    evaluator: str
    n: int
    unscored: int
    estimates: Mapping[str, Estimate]
    smece: Sequence[Estimate]
    reasons: Mapping[str, int]
    within: Mapping[str, Within] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float | None]:
        """Statistics by name, without their intervals."""
        return {name: estimate.value for name, estimate in self.estimates.items()}

    def to_json(self) -> dict[str, Any]:
        """Return a flat row under the names that every benchmark uses."""
        row: dict[str, Any] = {"evaluator": self.evaluator, "n": self.n, "unscored": self.unscored}
        for name, estimate in self.estimates.items():
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        for by, result in self.within.items():
            row |= result.to_json(by)
        row |= {"smece": [each.value for each in self.smece], "smece_low": [each.low for each in self.smece]}
        return row | {"smece_high": [each.high for each in self.smece], "reasons": dict(self.reasons)}


@dataclass(frozen=True)
class Leak:
    """Metrics of the first evaluator under folds of single samples, which leak, and under folds of groups.

    Attributes:
        evaluator: Evaluator that was tested both ways.
        groups: Number of groups in the honest folds.
        samples: Number of rated samples in them.
        pearson: r with folds of single samples, -1 to 1.
        rmse: RMSE with folds of single samples, in units of the scale.
        honest_pearson: r in the table.
        honest_rmse: RMSE in the table.
        is_large: True if r or RMSE is better than the table's interval.
    """

    evaluator: str
    groups: int
    samples: int
    pearson: float | None
    rmse: float | None
    honest_pearson: float | None
    honest_rmse: float | None
    is_large: bool

    @classmethod
    def of(cls, leaking: Predictions, line: EvaluatorMetrics, rated: Ratings, groups: int) -> Leak:
        """Return the metrics of leaking predictions, compared with the honest row."""
        paired = leaking.paired(rated).take(np.flatnonzero(leaking.scored))
        r, rmse = STATISTICS["pearson"](paired), STATISTICS["rmse"](paired)
        highest, lowest = line.estimates["pearson"].high, line.estimates["rmse"].low
        is_large = (r is not None and highest is not None and r > highest) or (
            rmse is not None and lowest is not None and rmse < lowest
        )
        samples = len(set(rated.target))
        return cls(line.evaluator, groups, samples, r, rmse, line.values["pearson"], line.values["rmse"], is_large)

    def to_json(self) -> dict[str, Any]:
        """Return a flat row with a summary sentence."""
        return {**asdict(self), "said": str(self)}

    def __str__(self) -> str:
        def shown(value: float | None) -> str:
            return "–" if value is None else f"{value:.2f}"

        return (
            f"folds of single samples would give r = {shown(self.pearson)} (RMSE {shown(self.rmse)}) for "
            f"{self.evaluator} instead of {shown(self.honest_pearson)} (RMSE {shown(self.honest_rmse)}); folds keep "
            f"the {self.groups} groups of {self.samples} samples together"
        )


@dataclass(frozen=True)
class MetricsTable:
    """Ratings, folds and draws that all rows of a table share.

    Attributes:
        rated: n ratings.
        folds: Number of folds; 1 if one side was held out.
        seed: Random seed of the folds and the draws.
        draws: Number of bootstrap samples and permutations.
        speakers: (n,) assistant version that each rating is about, or `None` if unknown.
    """

    rated: Ratings
    folds: int
    seed: int = 0
    draws: int = DRAWS
    speakers: NDArray[np.object_] | None = None

    @cached_property
    def fold(self) -> Indices:
        """(n,) fold in which each rating was predicted."""
        place = fold_of(map(str, self.rated.group), self.folds, self.seed)
        return np.array([place[str(name)] for name in self.rated.group], dtype=np.intp)

    @cached_property
    def groupings(self) -> dict[str, NDArray[np.object_]]:
        """(n,) groups for agreement inside groups: annotators, and assistant versions, if there are several."""
        result = {"annotators": self.rated.annotator.astype(object)}
        if self.speakers is not None:
            result["systems"] = self.speakers
        return {by: names for by, names in result.items() if len(set(names)) > 1}

    @cached_property
    def _clusters(self) -> dict[bytes, Clusters]:
        return {}

    def clusters(self, rows: Indices) -> Clusters:
        """Return the groups of some rows; systems that scored the same rows share them and their draws."""
        key = rows.tobytes()
        if key not in self._clusters:
            self._clusters[key] = Clusters(self.rated.group[rows])
        return self._clusters[key]

    def common(self, systems: Sequence[Predictions]) -> NDArray[np.bool_]:
        """Return (n,) True for ratings that were scored by all systems with at least half of the most scores.

        A system that was tested on a part of the ratings (because its training costs money) is compared on that part.
        """
        most = max((int(system.scored.sum()) for system in systems), default=0)
        wide = [system.scored for system in systems if 2 * system.scored.sum() >= most]
        return np.logical_and.reduce(wide) if wide else np.zeros(len(self.rated), dtype=bool)

    def varies(self, system: Predictions, rows: Indices) -> bool:
        """Return True if a system's predictions of some ratings differ inside a fold."""
        return _varies(system.value[rows], [self.fold[rows]])

    def row(self, repeats: Repeats, among: NDArray[np.bool_] | None = None) -> EvaluatorMetrics:
        """Return a system's metrics on its scored ratings, or on a selection of these.

        Args:
            repeats: Predictions in each repetition of the cross-validation. Statistics that are means are averaged over
                all repetitions; statistics of ranks and calibration errors use the first one.
            among: (n,) True for the ratings to use; None uses all.
        """
        rated, system = self.rated, repeats[0]
        scored = np.logical_and.reduce([each.scored for each in repeats])
        rows = np.flatnonzero(scored if among is None else scored & among)
        paired, clusters = system.paired(rated).take(rows), self.clusters(rows)
        statistics = {**STATISTICS, **(TWO_VALUED if len(rated.options) == 2 else {})}
        is_constant = not self.varies(system, rows)
        defined = {name: each for name, each in statistics.items() if not (is_constant and name in CORRELATIONS)}
        means = {name: each for name, each in defined.items() if isinstance(each, MeanStatistic)}
        others = {name: each for name, each in defined.items() if name not in means}
        pairs = [each.paired(rated).take(rows) for each in repeats]
        estimates = bootstrap_all(clusters, means, pairs, self.draws, self.seed)
        estimates |= bootstrap_all(clusters, others, pairs[:1], self.draws, self.seed)
        inside = {by: self._within(repeats, rows, names) for by, names in self.groupings.items()}
        r = inside["annotators"].pearson if "annotators" in inside else None
        return EvaluatorMetrics(
            evaluator=system.name,
            n=len(rows),
            unscored=len(rated) - int(system.scored.sum()),
            estimates={name: estimates.get(name, Estimate()) for name in statistics} | self.served(repeats, rows, r),
            smece=smece_estimates(paired, clusters, self.seed),
            reasons=system.reasons,
            within=inside,
        )

    def served(self, repeats: Repeats, rows: Indices, r: Estimate | None = None) -> dict[str, Estimate]:
        """Return the statistics of the predictions for a new annotator, averaged over repetitions (`SERVED`).

        `r` is the correlation within annotators, if it is known. A correlation is within annotators if there are
        several. It is undefined for constant predictions, and all are undefined for a system that predicts no new
        annotator.
        """
        known = rows[np.logical_and.reduce([np.isfinite(each.new_value[rows]) for each in repeats])]
        if not len(known):
            return dict.fromkeys(SERVED, Estimate())
        names, clusters = self.rated.annotator[known].astype(object), self.clusters(known)
        pairs = [each.paired_new(self.rated).take(known) for each in repeats]
        statistics: dict[str, Statistic] = {NEW: STATISTICS["rmse"]}
        if r is None and _varies(pairs[0].value, [self.fold[known], names.astype(str)]):
            statistics[R_NEW] = within(names)["pearson"]
        if all(each.band is not None and np.isfinite(each.band).all() for each in pairs):
            statistics |= {COVERAGE_NEW: STATISTICS["coverage"], WIDTH_NEW: STATISTICS["width"]}
        estimates = {R_NEW: Estimate() if r is None else r} | bootstrap_all(
            clusters, statistics, pairs, self.draws, self.seed
        )
        return {name: estimates.get(name, Estimate()) for name in SERVED}

    def _within(self, repeats: Repeats, rows: Indices, names: NDArray[np.object_]) -> Within:
        """Return the agreement inside groups of the predictions for a new annotator."""
        known = rows[np.logical_and.reduce([np.isfinite(each.new_value[rows]) for each in repeats])]
        groups, own = len(set(names[known])), names[known]
        pairs = [each.paired_new(self.rated).take(known) for each in repeats]
        if not len(known) or not _varies(pairs[0].value, [self.fold[known], own.astype(str)]):
            return Within(groups, Estimate(), Estimate())
        statistics, clusters = within(own), self.clusters(known)
        r = bootstrap_all(clusters, {"pearson": statistics["pearson"]}, pairs, self.draws, self.seed)
        tau = bootstrap_all(clusters, {"kendall": statistics["kendall"]}, pairs[:1], self.draws, self.seed)
        return Within(groups, **r, **tau)


def _varies(value: NDArray[np.float64], by: Sequence[NDArray[Any]]) -> bool:
    """Return True if predictions differ inside a cell of these groupings.

    If a prediction is constant in each fold, its correlation only reflects how the folds were drawn.
    """
    codes = np.zeros(len(value), dtype=np.intp)
    for names in by:
        code = np.unique(names, return_inverse=True)[1]
        codes = np.unique(codes * (code.max(initial=0) + 1) + code, return_inverse=True)[1]
    cells = int(codes.max(initial=-1)) + 1
    low, high = np.full(cells, np.inf), np.full(cells, -np.inf)
    np.minimum.at(low, codes, value)
    np.maximum.at(high, codes, value)
    return bool((high - low > 1e-9).any())


# --- agreement among people ---------------------------------------------------------------------------------------


def other_people(rated: Ratings) -> Predictions | None:
    """Return predictions of each rating by the other annotators of the same target.

    The prediction is the mean of the others' ratings, its distribution theirs with one rating's worth of the overall
    distribution (without the rating itself). This is not an upper bound if annotators differ by habit: an
    evaluator that knows the habits can be better. Returns `None` if no target has two annotators.
    """
    by_target: dict[Target, list[int]] = {}
    for row, target in enumerate(rated.target):
        by_target.setdefault(target, []).append(row)
    options, n = len(rated.options), len(rated)
    all_counts = np.bincount(rated.answer, minlength=options)
    probabilities, value, scored = np.zeros((n, options)), np.zeros(n), np.zeros(n, dtype=bool)
    annotator = rated.annotator
    for rows in by_target.values():
        for row in rows:
            others = [other for other in rows if annotator[other] != annotator[row]]
            if others:
                counts = np.bincount(rated.answer[others], minlength=options)
                rest = all_counts - (np.arange(options) == rated.answer[row])
                probabilities[row] = (counts + rest / rest.sum()) / (len(others) + 1.0)
                value[row], scored[row] = rated.value[others].mean(), True
    if not scored.any():
        return None
    nothing = np.full((n, 2), np.nan)
    new_value = np.where(scored, value, np.nan)
    return Predictions("other people", probabilities, value, new_value, scored, nothing, probabilities, nothing)


def people_alpha(rated: Ratings) -> float | None:
    """Return Krippendorff's ordinal α of the annotators on the main question."""
    units: dict[Target, dict[str, float]] = {}
    for label, value in zip(rated.labels, rated.value, strict=True):
        unit = units.setdefault(label.target, {})
        repeats = sum(name.split("\0")[0] == label.annotator for name in unit)
        unit[f"{label.annotator}\0{repeats}"] = float(value)
    return krippendorff_alpha(list(units.values()))
