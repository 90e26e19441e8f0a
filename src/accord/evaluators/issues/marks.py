"""How probable it is that people mark an issue: a model's finding, calibrated per issue against their marks.

Three ways are tried on folds inside the training side, the simplest first: Platt's (a logistic curve of the model's own
finding), isotonic regression of it, and a ridge logistic regression on all evidence. A way replaces a simpler one where
its held-out log loss is lower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.splits import INNER_FOLDS, grouped_folds

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PLATT, ISOTONIC, RIDGE = "platt", "isotonic", "ridge"
PENALTIES = (0.003, 0.01, 0.03, 0.1)
"""Inverse strengths of the ridge."""
FEWEST_MARKS = 5
"""Of a kind: with fewer turns marked, and fewer not marked, nothing is learned."""
_LEAST = 1e-4


@dataclass(frozen=True)
class Marks:
    """How findings become the probability of a mark, and from which probability on an issue is called there.

    Attributes:
        way: `platt`, `isotonic` or `ridge`.
        weights: Of `platt` (1,) and `ridge` (d,): on the model's finding, or on all inputs.
        intercept: Beside them.
        steps: Of `isotonic`: (m, 2) findings, rising, and probabilities; between them lines.
        threshold: The probability from which on calling it there has the highest expected F1.
        losses: Of the ways that were tried: mean log loss on the inner folds, in nats.
        marked: Share of the marks that were learned from.
    """

    way: str
    weights: Floats
    intercept: float
    steps: Floats
    threshold: float
    losses: Mapping[str, float]
    marked: float

    def probabilities(self, own: Floats, inputs: Floats) -> Floats:
        """(n,) from a model's own findings (n,) and all inputs (n, d)."""
        if self.way == ISOTONIC:
            return np.clip(np.interp(own, self.steps[:, 0], self.steps[:, 1]), _LEAST, 1 - _LEAST)
        logit = (inputs if self.way == RIDGE else own[:, None]) @ self.weights + self.intercept
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -30, 30))))

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "way": self.way, "weights": self.weights.tolist(), "intercept": self.intercept,
            "steps": self.steps.tolist(), "threshold": self.threshold, "losses": dict(self.losses),
            "marked": self.marked,
        }  # fmt: skip

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Marks:
        """The inverse of `to_json`."""
        weights, steps = np.array(row["weights"], dtype=float), np.array(row["steps"], dtype=float).reshape(-1, 2)
        return cls(**{**row, "weights": weights, "steps": steps})


def learn_marks(own: Floats, inputs: Floats, marked: Flags, groups: list[str], seed: int = 0) -> Marks | None:
    """The best way from findings to marks; `None` where too few turns are marked, or left unmarked, to tell.

    Args:
        own: (n,) the model's finding of this kind, a count or a probability, a row a mark.
        inputs: (n, d) all evidence, standardised.
        marked: (n,) whether a person marked it.
        groups: (n,) the conversation of each row: folds are over whole conversations.
        seed: Of the folds.
    """
    few = min(int(marked.sum()), int((~marked).sum())) < FEWEST_MARKS
    names = sorted(set(groups))
    if few or len(names) < INNER_FOLDS:
        return None
    ways: dict[str, tuple[str, float]] = {PLATT: (PLATT, 1.0), ISOTONIC: (ISOTONIC, 1.0)}
    ways |= {f"{RIDGE} {strength}": (RIDGE, strength) for strength in PENALTIES}
    named = np.array(groups)
    folds = [np.isin(named, list(split.test)) for split in grouped_folds(names, INNER_FOLDS, seed)]
    unseen: dict[str, Floats] = {}
    for name, (way, strength) in ways.items():
        unseen[name] = np.empty(len(own))
        for test in folds:
            learned = _fitted(way, strength, own[~test], inputs[~test], marked[~test])
            unseen[name][test] = learned.probabilities(own[test], inputs[test])
    losses = {name: _log_loss(chance, marked) for name, chance in unseen.items()}
    best = min(losses, key=lambda name: losses[name])
    found = _fitted(*ways[best], own, inputs, marked)
    threshold = best_threshold(unseen[best])
    return Marks(found.way, found.weights, found.intercept, found.steps, threshold, losses, float(marked.mean()))


def best_threshold(probabilities: Floats) -> float:
    """The probability from which on calling an issue there has the highest expected F1.

    With the k likeliest called, expected F1 ≈ 2·Σ p(k likeliest) / (k + Σ p): half of the best F1 that can be had
    (Lipton et al., 2014), found without looking at a mark once probabilities are calibrated.
    """
    falling = np.sort(probabilities)[::-1]
    sizes = np.arange(1, len(falling) + 1)
    expected = 2.0 * np.cumsum(falling) / (sizes + falling.sum())
    return float(falling[int(expected.argmax())])


def _fitted(way: str, strength: float, own: Floats, inputs: Floats, marked: Flags) -> Marks:
    if way == ISOTONIC:
        from sklearn.isotonic import IsotonicRegression

        # One imaginary mark and one imaginary miss a level keep small levels from certainty.
        levels, place = np.unique(own, return_inverse=True)
        rate = marked.mean()
        count = np.bincount(place)
        shares = (np.bincount(place, weights=marked) + 2 * rate) / (count + 2)
        fitted = IsotonicRegression(out_of_bounds="clip").fit(levels, shares, sample_weight=count)
        steps = np.column_stack([fitted.X_thresholds_, fitted.y_thresholds_])
        return Marks(way, np.zeros(0), 0.0, steps, 0.5, {}, float(rate))
    from sklearn.linear_model import LogisticRegression

    design = inputs if way == RIDGE else own[:, None]
    if not marked.any() or marked.all() or not design.shape[1]:
        rate = float(np.clip(marked.mean(), _LEAST, 1 - _LEAST))
        return Marks(way, np.zeros(design.shape[1]), float(np.log(rate / (1 - rate))), np.zeros((0, 2)), 0.5, {}, rate)
    model = LogisticRegression(C=strength, max_iter=1000).fit(design, marked)
    weights, intercept = model.coef_[0].astype(float), float(model.intercept_[0])
    return Marks(way, weights, intercept, np.zeros((0, 2)), 0.5, {}, float(marked.mean()))


def _log_loss(chance: Floats, marked: Flags) -> float:
    said = np.clip(np.where(marked, chance, 1.0 - chance), 1e-12, None)
    return float(-np.log(said).mean())
