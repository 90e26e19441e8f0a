"""Answer model `issue-labels`: probability that people mark an issue, given a detector's findings (SODA-EVAL).

It chooses on inner folds, by log loss, among a logistic curve of the finding (Platt), isotonic regression, and ridge
logistic regression on all evidence (docs/decisions/0021). For the regression, columns are standardized, missing values
are at their mean, and embeddings of replies are reduced to a few directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import MEANING, Arrays, EvidenceTable, Ratings, by_row
from accord.learning.answer_models.contract import AnswerModel, card_names, card_number, fold_masks, inner_folds
from accord.methods import WORST
from accord.statistics import INNER_FOLDS, REPEATED_DRAWS, alpha_estimate
from accord.values import ISSUE, Labels

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

DIRECTIONS = 24
"""Number of principal components of the embeddings of replies."""
PLATT, ISOTONIC, RIDGE = "platt", "isotonic", "ridge"
PENALTIES = (0.003, 0.01, 0.03, 0.1)
"""Inverse strengths of the ridge penalty."""
FEWEST_LABELLED = 5
"""Smallest number of marked, and of unmarked, turns of a kind."""
_LEAST = 1e-4
_CANDIDATES = {name: (name, 1.0) for name in (PLATT, ISOTONIC)} | {f"{RIDGE} {C}": (RIDGE, C) for C in PENALTIES}
"""Mode and inverse strength of the penalty of each candidate."""


@dataclass(frozen=True)
class Design:
    """Conversion of d columns to inputs.

    Attributes:
        plain: (p,) columns that are standardized: those that vary, and the finding.
        mean: (p,) mean of each plain column, which replaces missing values.
        scale: (p,) standard deviation of each plain column.
        meaning: (e,) columns of an embedder's vectors; empty without one.
        centre: (e,) mean of the vectors.
        directions: (e, k) first principal components, each divided by its standard deviation.
    """

    plain: Indices
    mean: Floats
    scale: Floats
    meaning: Indices
    centre: Floats
    directions: Floats

    @classmethod
    def fit(cls, features: EvidenceTable, finding: str) -> Self:
        """Return the conversion for these rows; constant and empty columns are left out, except the finding."""
        names = [column.name for column in features.columns]
        is_meaning = np.array([name.startswith(MEANING) for name in names], dtype=bool)
        counts = np.maximum(features.present.sum(axis=0), 1)
        mean = features.values.sum(axis=0) / counts
        scale = np.sqrt((np.where(features.present, features.values - mean, 0.0) ** 2).sum(axis=0) / counts)
        is_used = ~is_meaning & ((scale > 0) | (np.array(names) == finding))
        plain, meaning = np.flatnonzero(is_used), np.flatnonzero(is_meaning)
        is_known = features.present[:, meaning].all(axis=1) & bool(len(meaning))
        vectors = features.values[is_known][:, meaning]
        centre = vectors.mean(axis=0) if len(vectors) else np.zeros(len(meaning))
        scale = np.where(scale > 0, scale, 1.0)
        return cls(plain, mean[plain], scale[plain], meaning, centre, _directions(vectors - centre))

    def of(self, features: EvidenceTable) -> Floats:
        """Return (n, p + k) inputs of n rows with the same columns; 0 is a column's mean."""
        plain, meaning = features.values[:, self.plain], features.values[:, self.meaning]
        values = np.where(features.present[:, self.plain], (plain - self.mean) / self.scale, 0.0)
        is_present = features.present[:, self.meaning].all(axis=1, keepdims=True)
        return np.hstack([values, np.where(is_present, by_row(meaning - self.centre, self.directions), 0.0)])


def _directions(centred: Floats) -> Floats:
    """Return (e, k) principal components with any spread, scaled so that projections have variance 1."""
    if len(centred) < 2 or not centred.shape[1]:
        return np.zeros((centred.shape[1], 0))
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    used = min(DIRECTIONS, int((spread > 1e-9).sum()))
    signs = np.sign(axes[np.arange(used), np.abs(axes[:used]).argmax(axis=1)])
    return np.asarray((axes[:used] * signs[:, None]).T * np.sqrt(len(centred)) / spread[:used])


@dataclass(frozen=True)
class Curve:
    """Conversion of findings to the probability of a mark.

    Attributes:
        mode: `platt`, `isotonic` or `ridge`.
        weights: For `platt` (1,) on the model's finding, for `ridge` (d,) on all inputs.
        intercept: Constant of the logit.
        steps: For `isotonic`: (m, 2) rising findings and their probabilities, interpolated linearly.
    """

    mode: str
    weights: Floats
    intercept: float
    steps: Floats

    @classmethod
    def fit(cls, mode: str, strength: float, findings: Floats, inputs: Floats, marked: Flags) -> Self:
        """Return the curve of a mode for findings (n,), all inputs (n, d) and marks (n,).

        `strength` is the inverse strength of the ridge penalty.
        """
        if mode == ISOTONIC:
            from sklearn.isotonic import IsotonicRegression

            # Two pseudo-labels with the overall share of marks keep levels with few labels from certainty.
            levels, place = np.unique(findings, return_inverse=True)
            rate = marked.mean()
            count = np.bincount(place)
            shares = (np.bincount(place, weights=marked) + 2 * rate) / (count + 2)
            fitted = IsotonicRegression(out_of_bounds="clip").fit(levels, shares, sample_weight=count)
            steps = np.column_stack([fitted.X_thresholds_, fitted.y_thresholds_])
            return cls(mode, np.zeros(0), 0.0, steps)
        from sklearn.linear_model import LogisticRegression

        design = inputs if mode == RIDGE else findings[:, None]
        if not marked.any() or marked.all() or not design.shape[1]:
            rate = float(np.clip(marked.mean(), _LEAST, 1 - _LEAST))
            return cls(mode, np.zeros(design.shape[1]), float(np.log(rate / (1 - rate))), np.zeros((0, 2)))
        model = LogisticRegression(C=strength, max_iter=1000).fit(design, marked)
        weights, intercept = model.coef_[0].astype(float), float(model.intercept_[0])
        return cls(mode, weights, intercept, np.zeros((0, 2)))

    def probabilities(self, findings: Floats, inputs: Floats) -> Floats:
        """Return (n,) probabilities from a model's own findings (n,) and all inputs (n, d)."""
        if self.mode == ISOTONIC:
            return np.clip(np.interp(findings, self.steps[:, 0], self.steps[:, 1]), _LEAST, 1 - _LEAST)
        logit = by_row(inputs if self.mode == RIDGE else findings[:, None], self.weights) + self.intercept
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -30, 30))))


def best_threshold(probabilities: Floats) -> float:
    """Return the probability from which calling an issue has the highest expected F1.

    With the k most likely turns called, the expected F1 is about 2·Σ p(k most likely) / (k + Σ p): half of the best
    possible F1 (Lipton et al., 2014), computed from calibrated probabilities without looking at marks.
    """
    falling = np.sort(probabilities)[::-1]
    sizes = np.arange(1, len(falling) + 1)
    expected = 2.0 * np.cumsum(falling) / (sizes + falling.sum())
    return float(falling[int(expected.argmax())])


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


class IssueAnswers(AnswerModel):
    """Probability that people mark a kind of issue: findings calibrated against labels of 0 or 1.

    Args:
        kind: Kind of issue, the id of the binary question.
    """

    name = "issue-labels"
    uses_other_questions = False
    differs_by_annotator = False

    def __init__(self, kind: str) -> None:
        self.kind = kind.removeprefix(ISSUE)

    def prepare(self, evidence: EvidenceTable) -> EvidenceTable:
        """Return the evidence unchanged: each probability of a judge's answer is an input."""
        return evidence

    def is_readable(self, features: EvidenceTable) -> Flags:
        """Return (n,) True for rows that were assessed.

        Raises:
            BadInput: The evidence has no such kind.
        """
        return finding(features, self.kind)[1]

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Choose the curve and the threshold on inner folds; labels of other questions are ignored.

        Raises:
            BadInput: The question has more than two options, or an option has too few labels.
        """
        if len(rated.options) != 2:
            raise BadInput(f"a mark of {self.kind!r} is 0 or 1; the question has {len(rated.options)} options")
        marked, own = rated.answer == 1, features.take(rated.row)
        findings, fold = finding(own, self.kind)[0], inner_folds(rated)
        if min(int(marked.sum()), int((~marked).sum())) < FEWEST_LABELLED or len(set(rated.group)) < INNER_FOLDS:
            raise BadInput(
                f"{int(marked.sum())} assessed turns are labelled {self.kind!r} and {int((~marked).sum())} are "
                f"labelled without it; {FEWEST_LABELLED} of each in {INNER_FOLDS} conversations are needed"
            )
        self.design_ = Design.fit(features.take(np.unique(rated.row)), ISSUE + self.kind)
        inputs = self.design_.of(own)
        unseen = {name: np.empty(len(rated)) for name in _CANDIDATES}
        for train, test in fold_masks(fold):
            for name, (mode, strength) in _CANDIDATES.items():
                curve = Curve.fit(mode, strength, findings[train], inputs[train], marked[train])
                unseen[name][test] = curve.probabilities(findings[test], inputs[test])
        self.losses_ = {name: rated.log_loss(_shares(chances)) for name, chances in unseen.items()}
        best = min(self.losses_, key=self.losses_.__getitem__)
        self.curve_ = Curve.fit(*_CANDIDATES[best], findings, inputs, marked)
        self.threshold_ = best_threshold(unseen[best])
        groups = [str(name) for name in rated.group]
        self.alpha_low_ = alpha_estimate(marked, unseen[best] >= self.threshold_, groups, REPEATED_DRAWS).low
        self.marked_, self.people_ = float(marked.mean()), sorted({str(name) for name in rated.annotator})
        return _shares(unseen[best])

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, 2) the probabilities of no mark and of a mark, the same for every annotator."""
        return _shares(self.curve_.probabilities(finding(features, self.kind)[0], self.design_.of(features)))

    def notes(self, distributions: Floats) -> list[dict[str, Any]]:
        """Return the call of each row: True from the probability with the highest expected F1."""
        return [{"called": chance >= self.threshold_} for chance in distributions[:, 1].tolist()]

    @property
    def caution(self) -> str | None:
        """Warning if calls do not agree with people better than chance."""
        return None if (self.alpha_low_ or 0.0) > 0 else "agreement with people is not above chance"

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the model learned from; all get the same predictions."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """Return the learned conversion as JSON for reports."""
        return {
            "mode": self.curve_.mode, "threshold": self.threshold_, "marked": self.marked_,
            "alpha_low": self.alpha_low_, "warning": self.caution, "losses": dict(self.losses_),
        }  # fmt: skip

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        curve, design = self.curve_, self.design_
        card = {
            "mode": curve.mode, "intercept": curve.intercept, "threshold": self.threshold_, "marked": self.marked_,
            "alpha_low": self.alpha_low_, "losses": dict(self.losses_), "people": self.people_,
        }  # fmt: skip
        arrays = {f"design.{name}": array for name, array in vars(design).items()}
        return card, {**arrays, "curve.weights": curve.weights, "curve.steps": curve.steps}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.design_ = Design(**{each.name: arrays[f"design.{each.name}"] for each in fields(Design)})
        steps = arrays["curve.steps"].reshape(-1, 2)
        self.curve_ = Curve(str(card["mode"]), arrays["curve.weights"], card_number(card, "intercept"), steps)
        self.threshold_, self.marked_ = card_number(card, "threshold"), card_number(card, "marked")
        self.alpha_low_ = None if card["alpha_low"] is None else card_number(card, "alpha_low")
        self.losses_, self.people_ = dict(card["losses"]), card_names(card, "people")
        return self


def _shares(chances: Floats) -> Floats:
    """Return (n, 2) distributions over no mark and a mark."""
    return np.column_stack([1.0 - chances, chances])
