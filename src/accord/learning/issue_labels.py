"""The head `issue-labels`: how probable it is that people mark an issue, given what was found (SODA-EVAL).

Evidence becomes a linear model's inputs: standardised columns, missing ones at their mean, meaning in few directions.
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
from accord.statistics import INNER_FOLDS, alpha_estimate, grouped_folds
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
"""Principal components of the meaning of replies that are looked at."""


@dataclass(frozen=True)
class Design:
    """How columns become inputs.

    Attributes:
        columns: The d plain columns that were learned from.
        mean: (d,) and `scale` (d,): each column is standardised by them; a missing value is its mean.
        meaning: The e columns of an embedder's vectors; none where there were none.
        centre: (e,) their mean.
        directions: (e, k) the first principal components, each divided by its standard deviation.
    """

    columns: tuple[Column, ...]
    mean: Floats
    scale: Floats
    meaning: tuple[Column, ...]
    centre: Floats
    directions: Floats

    @classmethod
    def fit(cls, evidence: EvidenceTable, always: str = "") -> Self:
        """What these rows ask for; columns that never vary, or are never there, are left out, but for one of a name."""
        plain = [place for place, column in enumerate(evidence.columns) if not column.name.startswith(MEANING)]
        of_meaning = [place for place, column in enumerate(evidence.columns) if column.name.startswith(MEANING)]
        counts = np.maximum(evidence.present.sum(axis=0), 1)
        mean = evidence.values.sum(axis=0) / counts
        scale = np.sqrt((np.where(evidence.present, evidence.values - mean, 0.0) ** 2).sum(axis=0) / counts)
        kept = [place for place in plain if scale[place] > 0 or evidence.columns[place].name == always]
        scale = np.where(scale > 0, scale, 1.0)
        known = evidence.present[:, of_meaning].all(axis=1) if of_meaning else np.zeros(len(evidence), dtype=bool)
        vectors = evidence.values[known][:, of_meaning]
        centre = vectors.mean(axis=0) if len(vectors) else np.zeros(len(of_meaning))
        return cls(
            tuple(evidence.columns[place] for place in kept), mean[kept], scale[kept],
            tuple(evidence.columns[place] for place in of_meaning), centre, _directions(vectors - centre),
        )  # fmt: skip

    def of(self, evidence: EvidenceTable) -> Floats:
        """(n, d + k) inputs; 0 stands for a column's mean.

        Raises:
            BadInput: A column is missing, or made otherwise than what was learned from.
        """
        plain, meaning = evidence.align(self.columns), evidence.align(self.meaning)
        values = np.where(plain.present, (plain.values - self.mean) / self.scale, 0.0)
        there = meaning.present.all(axis=1, keepdims=True)
        return np.hstack([values, np.where(there, by_row(meaning.values - self.centre, self.directions), 0.0)])

    def to_json(self) -> dict[str, Any]:
        """The columns."""
        parts = {"columns": self.columns, "meaning": self.meaning}
        kept = ("name", "signature", "question", "option")
        return {part: [{name: getattr(each, name) for name in kept} for each in own] for part, own in parts.items()}

    def arrays(self) -> dict[str, Floats]:
        """The rest."""
        return {
            "design.mean": self.mean, "design.scale": self.scale, "design.centre": self.centre,
            "design.directions": self.directions,
        }  # fmt: skip

    @classmethod
    def restore(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of both."""
        columns, meaning = (columns_from(card[name]) for name in ("columns", "meaning"))
        mean, scale, centre, directions = (
            arrays[f"design.{name}"] for name in ("mean", "scale", "centre", "directions")
        )
        return cls(columns, mean, scale, meaning, centre, directions)


def _directions(centred: Floats) -> Floats:
    """(e, k) principal components that have any spread, scaled so that projections have a variance of 1."""
    if len(centred) < 2 or not centred.shape[1]:
        return np.zeros((centred.shape[1], 0))
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    kept = min(DIRECTIONS, int((spread > 1e-9).sum()))
    signs = np.sign(axes[np.arange(kept), np.abs(axes[:kept]).argmax(axis=1)])
    return np.asarray((axes[:kept] * signs[:, None]).T * np.sqrt(len(centred)) / spread[:kept])


Flags = NDArray[np.bool_]

PLATT, ISOTONIC, RIDGE = "platt", "isotonic", "ridge"
PENALTIES = (0.003, 0.01, 0.03, 0.1)
"""Inverse strengths of the ridge."""
FEWEST_LABELLED = 5
"""Of a kind: with fewer turns marked, and fewer not marked, nothing is learned."""
DRAWS = 500
"""Bootstrap samples of groups, for the interval of α."""
_LEAST = 1e-4


@dataclass(frozen=True)
class IssueCalibration:
    """How findings become the probability of a mark, and from which probability on an issue is called there.

    Attributes:
        way: `platt`, `isotonic` or `ridge`.
        weights: Of `platt` (1,) and `ridge` (d,): on the model's finding, or on all inputs.
        intercept: Beside them.
        steps: Of `isotonic`: (m, 2) findings, rising, and probabilities; between them lines.
        threshold: The probability from which on calling it there has the highest expected F1.
        losses: Of the ways that were tried: mean log loss on the inner folds, in nats.
        marked: Share of the marks that were learned from.
        alpha_low: Where the 95 % interval, over groups, of the α of calls on the inner folds with marks begins.
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
        """Why calls say nothing, where they do."""
        return None if (self.alpha_low or 0.0) > 0 else "agreement with people is not above chance"

    def probabilities(self, own: Floats, inputs: Floats) -> Floats:
        """(n,) from a model's own findings (n,) and all inputs (n, d)."""
        if self.mode == ISOTONIC:
            return np.clip(np.interp(own, self.steps[:, 0], self.steps[:, 1]), _LEAST, 1 - _LEAST)
        logit = by_row(inputs if self.mode == RIDGE else own[:, None], self.weights) + self.intercept
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -30, 30))))

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "mode": self.mode, "weights": self.weights.tolist(), "intercept": self.intercept,
            "steps": self.steps.tolist(), "threshold": self.threshold, "losses": dict(self.losses),
            "marked": self.marked, "alpha_low": self.alpha_low,
        }  # fmt: skip

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> IssueCalibration:
        """The inverse of `to_json`."""
        weights, steps = np.array(row["weights"], dtype=float), np.array(row["steps"], dtype=float).reshape(-1, 2)
        return cls(**{**row, "weights": weights, "steps": steps})


def learn_calibration(
    own: Floats, inputs: Floats, marked: Flags, groups: list[str], seed: int = 0
) -> IssueCalibration | None:
    """The best way from findings to marks; `None` where too few turns are marked, or left unmarked, to tell.

    Args:
        own: (n,) the model's finding of this kind, a count or a probability, a row a mark.
        inputs: (n, d) all evidence, standardised.
        marked: (n,) whether a person marked it.
        groups: (n,) the conversation of each row: folds are over whole conversations.
        seed: Of the folds.
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
        unseen[name] = np.empty(len(own))
        for test in folds:
            learned = _fitted(mode, strength, own[~test], inputs[~test], marked[~test])
            unseen[name][test] = learned.probabilities(own[test], inputs[test])
    losses = {name: _log_loss(chance, marked) for name, chance in unseen.items()}
    best = min(losses, key=lambda name: losses[name])
    found = _fitted(*modes[best], own, inputs, marked)
    threshold = best_threshold(unseen[best])
    alpha = alpha_estimate(marked, unseen[best] >= threshold, groups, DRAWS, seed)
    return IssueCalibration(
        found.mode, found.weights, found.intercept, found.steps, threshold, losses, float(marked.mean()), alpha.low
    )


def best_threshold(probabilities: Floats) -> float:
    """The probability from which on calling an issue there has the highest expected F1.

    With the k likeliest called, expected F1 ≈ 2·Σ p(k likeliest) / (k + Σ p): half of the best F1 that can be had
    (Lipton et al., 2014), found without looking at a mark once probabilities are calibrated.
    """
    falling = np.sort(probabilities)[::-1]
    sizes = np.arange(1, len(falling) + 1)
    expected = 2.0 * np.cumsum(falling) / (sizes + falling.sum())
    return float(falling[int(expected.argmax())])


def _fitted(mode: str, strength: float, own: Floats, inputs: Floats, marked: Flags) -> IssueCalibration:
    if mode == ISOTONIC:
        from sklearn.isotonic import IsotonicRegression

        # Two imaginary labels per level, marked as often as all are, keep small levels from certainty.
        levels, place = np.unique(own, return_inverse=True)
        rate = marked.mean()
        count = np.bincount(place)
        shares = (np.bincount(place, weights=marked) + 2 * rate) / (count + 2)
        fitted = IsotonicRegression(out_of_bounds="clip").fit(levels, shares, sample_weight=count)
        steps = np.column_stack([fitted.X_thresholds_, fitted.y_thresholds_])
        return IssueCalibration(mode, np.zeros(0), 0.0, steps, 0.5, {}, float(rate))
    from sklearn.linear_model import LogisticRegression

    design = inputs if mode == RIDGE else own[:, None]
    if not marked.any() or marked.all() or not design.shape[1]:
        rate = float(np.clip(marked.mean(), _LEAST, 1 - _LEAST))
        return IssueCalibration(
            mode, np.zeros(design.shape[1]), float(np.log(rate / (1 - rate))), np.zeros((0, 2)), 0.5, {}, rate
        )
    model = LogisticRegression(C=strength, max_iter=1000).fit(design, marked)
    weights, intercept = model.coef_[0].astype(float), float(model.intercept_[0])
    return IssueCalibration(mode, weights, intercept, np.zeros((0, 2)), 0.5, {}, float(marked.mean()))


def _log_loss(chance: Floats, marked: Flags) -> float:
    said = np.clip(np.where(marked, chance, 1.0 - chance), 1e-12, None)
    return float(-np.log(said).mean())


def kinds_of(evidence: EvidenceTable) -> list[str]:
    """The kinds of issues that evidence tells of, in the order of its columns."""
    names = [column.name for column in evidence.columns]
    return [name.removeprefix(ISSUE) for name in names if name.startswith(ISSUE) and f"{name}{WORST}" in names]


def finding(evidence: EvidenceTable, kind: str) -> tuple[Floats, NDArray[np.bool_]]:
    """(n,) how much of a kind was found in each row, and where somebody looked (n,).

    Raises:
        BadInput: Nobody looked for it.
    """
    names = [column.name for column in evidence.columns]
    if ISSUE + kind not in names:
        raise BadInput(f"the evidence says nothing of {kind!r}; it tells of {', '.join(kinds_of(evidence)) or 'none'}")
    place = names.index(ISSUE + kind)
    return evidence.values[:, place], evidence.present[:, place]


def labels_of(evidence: EvidenceTable, labels: Labels, kind: str) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(n,) rows and whether they were marked: one a label of 0 or 1 on a kind of issue whose target has evidence.

    Raises:
        BadInput: A mark is neither.
    """
    on_kind = [*labels.on(kind), *labels.on(ISSUE + kind)]
    for label in on_kind:
        if label.value not in (0, 1):
            said = f"label of {label.annotator!r} on {label.target}"
            raise BadInput(f"{said}: a mark of {kind!r} is 0 or 1, got {label.value!r}")
    rows = evidence.rows_of(label.target for label in on_kind)
    kept = [(int(row), label.value == 1) for row, label in zip(rows, on_kind, strict=True) if row >= 0]
    return np.array([row for row, _ in kept], dtype=np.intp), np.array([mark for _, mark in kept], dtype=bool)


@heads.register("issue-labels")
class IssueLabels(Head):
    """How probable it is that people mark a kind of issue: findings calibrated against their labels of 0 or 1.

    The simplest of a logistic curve of the finding (Platt), isotonic regression, and ridge logistic regression on all
    evidence that predicts folds of the training side best (docs/decisions/0021).

    Args:
        question: A binary question, called like the kind.
        seed: Of the inner folds.
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
            BadInput: Nobody looked for the kind, a label is neither 0 nor 1, or too few of either were given.
        """
        turns = [row for row, target in enumerate(evidence.targets) if target.turn is not None]
        evidence = evidence.take(turns) if turns else evidence  # a label of a whole dialogue is of another kind
        own, known = finding(evidence, self.kind)
        self.design_ = Design.fit(evidence, ISSUE + self.kind)
        inputs = self.design_.of(evidence)
        rows, marked = labels_of(evidence, labels, self.kind)
        rows, marked = rows[known[rows]], marked[known[rows]]
        groups = [labels.group_of(evidence.targets[row]) for row in rows]
        self.calibration_ = learn_calibration(own[rows], inputs[rows], marked, groups, self.seed)
        if self.calibration_ is None:
            raise BadInput(
                f"{int(marked.sum())} turns with a finding are labelled {self.kind!r} and {int((~marked).sum())} are "
                f"labelled without it; {FEWEST_LABELLED} of each in {INNER_FOLDS} conversations are needed"
            )
        return self

    def chances(self, evidence: EvidenceTable) -> tuple[Floats, NDArray[np.bool_]]:
        """(n,) the probability of a label, and (n,) which rows have a finding to go by."""
        self.check_fitted()
        assert self.calibration_ is not None
        own, known = finding(evidence, self.kind)
        return self.calibration_.probabilities(own, self.design_.of(evidence)), known

    @property
    def threshold(self) -> float:
        """The probability from which on calling the issue there has the highest expected F1."""
        self.check_fitted()
        assert self.calibration_ is not None
        return self.calibration_.threshold

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score per row on the scale of 0 and 1: its value is the probability, its notes say whether to call it."""
        chances, known = self.chances(evidence)
        signature, found = self.signature(), list[Score | Unscored]()
        warning = None if self.calibration_ is None else self.calibration_.warning
        for row, (target, chance) in enumerate(zip(evidence.targets, chances, strict=True)):
            if known[row]:
                score = score_from(target, POPULATION, (0.0, 1.0), (1.0 - float(chance), float(chance)), signature)
                notes = {"called": bool(chance >= self.threshold), **({"warning": warning} if warning else {})}
                found.append(replace(score, notes=notes))
            else:
                found.append(Unscored(target, POPULATION, "not assessed", signature))
        return found

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The evidence that was learned from, the finding among it."""
        return None if self.calibration_ is None else (*self.design_.columns, *self.design_.meaning)

    @property
    def annotators(self) -> list[str]:
        """Nobody: labels of all people are learned as one."""
        return []

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.calibration_ is not None

    def describe(self) -> dict[str, Any]:
        """How findings become probabilities."""
        assert self.calibration_ is not None
        own = self.calibration_
        return {"method": self.method, "mode": own.mode, "threshold": own.threshold, "marked": own.marked,
                "alpha_low": own.alpha_low, "warning": own.warning, "losses": dict(own.losses)}  # fmt: skip

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        assert self.calibration_ is not None
        return {"design": self.design_.to_json(), "calibration": self.calibration_.to_json()}, self.design_.arrays()

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.design_ = Design.restore(card["design"], arrays)
        self.calibration_ = IssueCalibration.from_json(card["calibration"])
        return self
