"""Head `issue-labels`: probability that people mark an issue, given a detector's findings (SODA-EVAL).

Evidence becomes inputs of a linear model: standardized columns, missing values at their mean, and embeddings of replies
reduced to a few directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import MEANING, Arrays, Column, EvidenceTable, by_row, columns_from
from accord.learning.head import Head, heads
from accord.methods import WORST
from accord.statistics import INNER_FOLDS, REPEATED_DRAWS, alpha_estimate, grouped_folds
from accord.values import (
    ISSUE,
    POPULATION,
    Labels,
    Question,
    Score,
    Unscored,
    score_from,
)

Floats = NDArray[np.float64]

DIRECTIONS = 24
"""Number of principal components of the embeddings of replies."""


@dataclass(frozen=True)
class Design:
    """Conversion of columns to inputs.

    Attributes:
        columns: d plain columns that were learned from.
        mean: (d,) mean of each column, which replaces missing values.
        scale: (d,) standard deviation of each column.
        meaning: e columns of an embedder's vectors; empty without one.
        centre: (e,) mean of the vectors.
        directions: (e, k) first principal components, each divided by its standard deviation.
    """

    columns: tuple[Column, ...]
    mean: Floats
    scale: Floats
    meaning: tuple[Column, ...]
    centre: Floats
    directions: Floats

    @classmethod
    def fit(cls, evidence: EvidenceTable, always: str = "") -> Self:
        """Return the conversion for these rows.

        Constant and empty columns are left out, except the one named `always`.
        """
        plain = [place for place, column in enumerate(evidence.columns) if not column.name.startswith(MEANING)]
        of_meaning = [place for place, column in enumerate(evidence.columns) if column.name.startswith(MEANING)]
        counts = np.maximum(evidence.present.sum(axis=0), 1)
        mean = evidence.values.sum(axis=0) / counts
        scale = np.sqrt((np.where(evidence.present, evidence.values - mean, 0.0) ** 2).sum(axis=0) / counts)
        used = [place for place in plain if scale[place] > 0 or evidence.columns[place].name == always]
        scale = np.where(scale > 0, scale, 1.0)
        known = evidence.present[:, of_meaning].all(axis=1) if of_meaning else np.zeros(len(evidence), dtype=bool)
        vectors = evidence.values[known][:, of_meaning]
        centre = vectors.mean(axis=0) if len(vectors) else np.zeros(len(of_meaning))
        return cls(
            tuple(evidence.columns[place] for place in used), mean[used], scale[used],
            tuple(evidence.columns[place] for place in of_meaning), centre, _directions(vectors - centre),
        )  # fmt: skip

    def of(self, evidence: EvidenceTable) -> Floats:
        """Return (n, d + k) inputs; 0 is a column's mean.

        Raises:
            BadInput: A column is missing, or was computed differently from the training column.
        """
        plain, meaning = evidence.align(self.columns), evidence.align(self.meaning)
        values = np.where(plain.present, (plain.values - self.mean) / self.scale, 0.0)
        is_present = meaning.present.all(axis=1, keepdims=True)
        return np.hstack([values, np.where(is_present, by_row(meaning.values - self.centre, self.directions), 0.0)])

    def to_json(self) -> dict[str, Any]:
        """Return the columns as JSON."""
        parts = {"columns": self.columns, "meaning": self.meaning}
        used = ("name", "signature", "question", "option")
        return {
            part: [{name: getattr(each, name) for name in used} for each in findings]
            for part, findings in parts.items()
        }

    def arrays(self) -> dict[str, Floats]:
        """Return the other fields as arrays."""
        return {
            "design.mean": self.mean, "design.scale": self.scale, "design.centre": self.centre,
            "design.directions": self.directions,
        }  # fmt: skip

    @classmethod
    def restore(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the conversion from `to_json` and `arrays`."""
        columns, meaning = (columns_from(card[name]) for name in ("columns", "meaning"))
        mean, scale, centre, directions = (
            arrays[f"design.{name}"] for name in ("mean", "scale", "centre", "directions")
        )
        return cls(columns, mean, scale, meaning, centre, directions)


def _directions(centred: Floats) -> Floats:
    """Return (e, k) principal components with any spread, scaled so that projections have variance 1."""
    if len(centred) < 2 or not centred.shape[1]:
        return np.zeros((centred.shape[1], 0))
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    used = min(DIRECTIONS, int((spread > 1e-9).sum()))
    signs = np.sign(axes[np.arange(used), np.abs(axes[:used]).argmax(axis=1)])
    return np.asarray((axes[:used] * signs[:, None]).T * np.sqrt(len(centred)) / spread[:used])


Flags = NDArray[np.bool_]

PLATT, ISOTONIC, RIDGE = "platt", "isotonic", "ridge"
PENALTIES = (0.003, 0.01, 0.03, 0.1)
"""Inverse strengths of the ridge penalty."""
FEWEST_LABELLED = 5
"""Smallest number of marked, and of unmarked, turns of a kind."""
_LEAST = 1e-4


@dataclass(frozen=True)
class IssueCalibration:
    """Conversion of findings to the probability of a mark, and the threshold of a call.

    Attributes:
        mode: `platt`, `isotonic` or `ridge`.
        weights: For `platt` (1,) on the model's finding, for `ridge` (d,) on all inputs.
        intercept: Constant of the logit.
        steps: For `isotonic`: (m, 2) rising findings and their probabilities, interpolated linearly.
        threshold: Probability from which calling the issue has the highest expected F1.
        losses: Mean log loss on inner folds of each candidate, in nats.
        marked: Share of marks in training.
        alpha_low: Lower end of the 95% interval, over groups, of the α of calls on inner folds with marks.
    """

    mode: str
    weights: Floats
    intercept: float
    steps: Floats
    threshold: float
    losses: Mapping[str, float]
    marked: float
    alpha_low: float | None = None

    @property
    def warning(self) -> str | None:
        """Warning if calls do not agree with people better than chance."""
        return None if (self.alpha_low or 0.0) > 0 else "agreement with people is not above chance"

    def probabilities(self, findings: Floats, inputs: Floats) -> Floats:
        """Return (n,) probabilities from a model's own findings (n,) and all inputs (n, d)."""
        if self.mode == ISOTONIC:
            return np.clip(np.interp(findings, self.steps[:, 0], self.steps[:, 1]), _LEAST, 1 - _LEAST)
        logit = by_row(inputs if self.mode == RIDGE else findings[:, None], self.weights) + self.intercept
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -30, 30))))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {
            "mode": self.mode, "weights": self.weights.tolist(), "intercept": self.intercept,
            "steps": self.steps.tolist(), "threshold": self.threshold, "losses": dict(self.losses),
            "marked": self.marked, "alpha_low": self.alpha_low,
        }  # fmt: skip

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> IssueCalibration:
        """Return the calibration from `to_json`."""
        weights, steps = np.array(row["weights"], dtype=float), np.array(row["steps"], dtype=float).reshape(-1, 2)
        return cls(**{**row, "weights": weights, "steps": steps})


def learn_calibration(
    findings: Floats, inputs: Floats, marked: Flags, groups: list[str], seed: int = 0
) -> IssueCalibration | None:
    """Return the best conversion of findings to marks; None if too few turns are marked, or unmarked.

    Args:
        findings: (n,) the model's finding of this kind for each mark, a count or a probability.
        inputs: (n, d) all evidence, standardized.
        marked: (n,) True if an annotator marked the turn.
        groups: (n,) conversation of each row; folds keep conversations together.
        seed: Random seed of the folds.
    """
    few = min(int(marked.sum()), int((~marked).sum())) < FEWEST_LABELLED
    names = sorted(set(groups))
    if few or len(names) < INNER_FOLDS:
        return None
    modes: dict[str, tuple[str, float]] = {PLATT: (PLATT, 1.0), ISOTONIC: (ISOTONIC, 1.0)}
    modes |= {f"{RIDGE} {strength}": (RIDGE, strength) for strength in PENALTIES}
    named = np.array(groups)
    folds = [np.isin(named, list(split.test)) for split in grouped_folds(names, INNER_FOLDS, seed)]
    unseen: dict[str, Floats] = {}
    for name, (mode, strength) in modes.items():
        unseen[name] = np.empty(len(findings))
        for test in folds:
            learned = _fitted(mode, strength, findings[~test], inputs[~test], marked[~test])
            unseen[name][test] = learned.probabilities(findings[test], inputs[test])
    losses = {name: _log_loss(chance, marked) for name, chance in unseen.items()}
    best = min(losses, key=lambda name: losses[name])
    results = _fitted(*modes[best], findings, inputs, marked)
    threshold = best_threshold(unseen[best])
    alpha = alpha_estimate(marked, unseen[best] >= threshold, groups, REPEATED_DRAWS, seed)
    return IssueCalibration(
        results.mode,
        results.weights,
        results.intercept,
        results.steps,
        threshold,
        losses,
        float(marked.mean()),
        alpha.low,
    )


def best_threshold(probabilities: Floats) -> float:
    """Return the probability from which calling an issue has the highest expected F1.

    With the k most likely turns called, the expected F1 is about 2·Σ p(k most likely) / (k + Σ p): half of the best
    possible F1 (Lipton et al., 2014), computed from calibrated probabilities without looking at marks.
    """
    falling = np.sort(probabilities)[::-1]
    sizes = np.arange(1, len(falling) + 1)
    expected = 2.0 * np.cumsum(falling) / (sizes + falling.sum())
    return float(falling[int(expected.argmax())])


def _fitted(mode: str, strength: float, findings: Floats, inputs: Floats, marked: Flags) -> IssueCalibration:
    if mode == ISOTONIC:
        from sklearn.isotonic import IsotonicRegression

        # Two pseudo-labels with the overall share of marks keep levels with few labels from certainty.
        levels, place = np.unique(findings, return_inverse=True)
        rate = marked.mean()
        count = np.bincount(place)
        shares = (np.bincount(place, weights=marked) + 2 * rate) / (count + 2)
        fitted = IsotonicRegression(out_of_bounds="clip").fit(levels, shares, sample_weight=count)
        steps = np.column_stack([fitted.X_thresholds_, fitted.y_thresholds_])
        return IssueCalibration(mode, np.zeros(0), 0.0, steps, 0.5, {}, float(rate))
    from sklearn.linear_model import LogisticRegression

    design = inputs if mode == RIDGE else findings[:, None]
    if not marked.any() or marked.all() or not design.shape[1]:
        rate = float(np.clip(marked.mean(), _LEAST, 1 - _LEAST))
        return IssueCalibration(
            mode, np.zeros(design.shape[1]), float(np.log(rate / (1 - rate))), np.zeros((0, 2)), 0.5, {}, rate
        )
    model = LogisticRegression(C=strength, max_iter=1000).fit(design, marked)
    weights, intercept = model.coef_[0].astype(float), float(model.intercept_[0])
    return IssueCalibration(mode, weights, intercept, np.zeros((0, 2)), 0.5, {}, float(marked.mean()))


def _log_loss(chance: Floats, marked: Flags) -> float:
    chances = np.clip(np.where(marked, chance, 1.0 - chance), 1e-12, None)
    return float(-np.log(chances).mean())


def kinds_of(evidence: EvidenceTable) -> list[str]:
    """Return the kinds of issues in the evidence, in the order of its columns."""
    names = [column.name for column in evidence.columns]
    return [name.removeprefix(ISSUE) for name in names if name.startswith(ISSUE) and f"{name}{WORST}" in names]


def finding(evidence: EvidenceTable, kind: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (n,) the finding of a kind in each row, and (n,) True if the row was assessed.

    Raises:
        BadInput: The evidence has no such kind.
    """
    names = [column.name for column in evidence.columns]
    if ISSUE + kind not in names:
        raise BadInput(f"no evidence of issue {kind!r}. Available: {', '.join(kinds_of(evidence)) or 'none'}")
    place = names.index(ISSUE + kind)
    return evidence.values[:, place], evidence.present[:, place]


def labels_of(evidence: EvidenceTable, labels: Labels, kind: str) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return (n,) rows and (n,) True for marks, one per label of 0 or 1 on a kind of issue whose target has evidence.

    Raises:
        BadInput: A label is neither 0 nor 1.
    """
    on_kind = [*labels.on(kind), *labels.on(ISSUE + kind)]
    for label in on_kind:
        if label.value not in (0, 1):
            source = f"label of {label.annotator!r} on {label.target}"
            raise BadInput(f"{source}: a mark of {kind!r} must be 0 or 1, got {label.value!r}")
    rows = evidence.rows_of(label.target for label in on_kind)
    used = [(int(row), label.value == 1) for row, label in zip(rows, on_kind, strict=True) if row >= 0]
    return np.array([row for row, _ in used], dtype=np.intp), np.array([mark for _, mark in used], dtype=bool)


@heads.register("issue-labels")
class IssueLabels(Head):
    """Probability that people mark a kind of issue: findings calibrated against labels of 0 or 1.

    It chooses on inner folds among a logistic curve of the finding (Platt), isotonic regression, and ridge logistic
    regression on all evidence (docs/decisions/0021).

    Args:
        question: Binary question with the name of the kind.
        seed: Random seed of the inner folds.
    """

    method = "issue-labels"

    def __init__(self, question: Question, seed: int = 0) -> None:
        super().__init__(question)
        self.seed = seed
        self.kind = question.id.removeprefix(ISSUE)
        self.calibration_: IssueCalibration | None = None

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label of the kind whose turn has a finding.

        Raises:
            BadInput: The kind was not assessed, a label is neither 0 nor 1, or there are too few of either.
        """
        turns = [row for row, target in enumerate(evidence.targets) if target.turn is not None]
        evidence = evidence.take(turns) if turns else evidence
        findings, known = finding(evidence, self.kind)
        self.design_ = Design.fit(evidence, ISSUE + self.kind)
        inputs = self.design_.of(evidence)
        rows, marked = labels_of(evidence, labels, self.kind)
        rows, marked = rows[known[rows]], marked[known[rows]]
        groups = [labels.group_of(evidence.targets[row]) for row in rows]
        self.calibration_ = learn_calibration(findings[rows], inputs[rows], marked, groups, self.seed)
        if self.calibration_ is None:
            raise BadInput(
                f"{int(marked.sum())} assessed turns are labelled {self.kind!r} and {int((~marked).sum())} are "
                f"labelled without it; {FEWEST_LABELLED} of each in {INNER_FOLDS} conversations are needed"
            )
        return self

    def chances(self, evidence: EvidenceTable) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n,) the probability of a mark, and (n,) True for rows with a finding."""
        self.check_fitted()
        assert self.calibration_ is not None
        findings, known = finding(evidence, self.kind)
        return self.calibration_.probabilities(findings, self.design_.of(evidence)), known

    @property
    def threshold(self) -> float:
        """Probability from which calling the issue has the highest expected F1."""
        self.check_fitted()
        assert self.calibration_ is not None
        return self.calibration_.threshold

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return one score per row on the scale of 0 and 1; its value is the probability, its notes hold the call."""
        chances, known = self.chances(evidence)
        signature, results = self.signature(), list[Score | Unscored]()
        warning = None if self.calibration_ is None else self.calibration_.warning
        for row, (target, chance) in enumerate(zip(evidence.targets, chances, strict=True)):
            if known[row]:
                score = score_from(target, POPULATION, (0.0, 1.0), (1.0 - float(chance), float(chance)), signature)
                notes = {"called": bool(chance >= self.threshold), **({"warning": warning} if warning else {})}
                results.append(replace(score, notes=notes))
            else:
                results.append(Unscored(target, POPULATION, "not assessed", signature))
        return results

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """Evidence columns that were learned from, with the finding."""
        return None if self.calibration_ is None else (*self.design_.columns, *self.design_.meaning)

    @property
    def annotators(self) -> list[str]:
        """Empty: labels of all annotators are learned together."""
        return []

    @property
    def is_fitted(self) -> bool:
        """True after `fit` or `restore`."""
        return self.calibration_ is not None

    def describe(self) -> dict[str, Any]:
        """Return the learned conversion as JSON for reports."""
        assert self.calibration_ is not None
        learned = self.calibration_
        return {"method": self.method, "mode": learned.mode, "threshold": learned.threshold, "marked": learned.marked,
                "alpha_low": learned.alpha_low, "warning": learned.warning, "losses": dict(learned.losses)}  # fmt: skip

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        assert self.calibration_ is not None
        return {"design": self.design_.to_json(), "calibration": self.calibration_.to_json()}, self.design_.arrays()

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.design_ = Design.restore(card["design"], arrays)
        self.calibration_ = IssueCalibration.from_json(card["calibration"])
        return self
