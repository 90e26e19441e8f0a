"""How good a system is on average, from few labels and many scores (prediction-powered inference).

    θ = λ·mean(f over all) + mean(y - λ·f over the labelled)

The scores f carry most of the information, the labels y what the scores get wrong; whatever the scores are worth, the
interval holds (Angelopoulos et al., 2023). λ is chosen to make it shortest (Angelopoulos et al., PPI++, 2023): scores
that say nothing get λ = 0, the plain mean. No label ever helps to predict its own conversation (cross-prediction,
Zrnic & Candès, 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, ratings
from accord.statistics import CONFIDENCE, FOLDS, grouped_folds, holm
from accord.values import BadInput, Labels, Question, Score

Floats = NDArray[np.float64]

FEWEST = 5
"""Labelled conversations that a system needs."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; `label_mean` is the same from the labels alone.

    Attributes:
        system: Whose conversations.
        labelled: Conversations with a label.
        scored: All conversations with a score, the labelled among them.
        mean, low, high: From labels and scores.
        label_mean, label_low, label_high: From labels alone.
        trust: λ, how far the scores are used.
    """

    system: str
    labelled: int
    scored: int
    mean: float
    low: float
    high: float
    label_mean: float
    label_low: float
    label_high: float
    trust: float
    error: float

    @property
    def worth(self) -> float:
        """How many times as many labels alone would give as short an interval."""
        return ((self.label_high - self.label_low) / max(self.high - self.low, 1e-12)) ** 2

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        return {**{k: v for k, v in vars(self).items() if k != "error"}, "worth": self.worth}


@dataclass(frozen=True)
class Gap:
    """The difference of two systems' means, first minus second; p corrected over all pairs."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        return dict(vars(self))


def estimate(system: str, said: Floats, predicted: Floats, unlabelled: Floats) -> Estimate:
    """The mean of what people say of a system's conversations.

    Args:
        system: Its name.
        said: (n,) mean label of each labelled conversation; a random part of the system's conversations.
        predicted: (n,) their scores, made without those labels.
        unlabelled: (N,) scores of its other conversations.

    Raises:
        BadInput: Fewer than `FEWEST` labelled conversations.
    """
    from scipy.stats import t

    n, rest = len(said), len(unlabelled)
    if n < FEWEST:
        raise BadInput(f"{n} labelled conversations of {system!r}; a mean with an interval needs {FEWEST} or more")
    reach = float(t.ppf((1 + CONFIDENCE) / 2, n - 1))
    plain = float(np.std(said, ddof=1) / np.sqrt(n))
    trust = _trust(said, predicted, unlabelled)
    off = said - trust * predicted
    mean = float(off.mean() + trust * (unlabelled.mean() if rest else predicted.mean()))
    error = np.sqrt(np.var(off, ddof=1) / n + (trust**2 * np.var(unlabelled, ddof=1) / rest if rest > 1 else 0.0))
    return Estimate(
        system, n, n + rest, mean, mean - reach * float(error), mean + reach * float(error),
        float(said.mean()), float(said.mean()) - reach * plain, float(said.mean()) + reach * plain, trust, float(error),
    )  # fmt: skip


def _trust(said: Floats, predicted: Floats, unlabelled: Floats) -> float:
    """λ = cov(y, f) / ((1 + n/N)·var f), between 0 and 1; 0 without other conversations."""
    if len(unlabelled) < 2 or np.ptp(predicted) == 0:
        return 0.0
    together = float(np.cov(said, predicted, ddof=1)[0, 1])
    spread = float(np.var(np.concatenate([predicted, unlabelled]), ddof=1))
    return float(np.clip(together / ((1 + len(said) / len(unlabelled)) * spread), 0.0, 1.0)) if spread > 0 else 0.0


def gaps(estimates: Sequence[Estimate]) -> list[Gap]:
    """Every pair's difference; systems are independent samples. Intervals and p are normal."""
    from scipy.stats import norm

    found = []
    for first, second in combinations(estimates, 2):
        difference, error = first.mean - second.mean, float(np.hypot(first.error, second.error))
        p = float(2 * norm.sf(abs(difference) / error)) if error > 0 else 1.0
        reach = float(norm.ppf((1 + CONFIDENCE) / 2)) * error
        found.append((first.system, second.system, difference, difference - reach, difference + reach, p))
    corrected = holm([each[-1] for each in found])
    return [Gap(*each[:-1], p_holm=p) for each, p in zip(found, corrected, strict=True)]


def system_means(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    make: Callable[[Question], Any],
    system_of: Mapping[str, str],
    folds: int = FOLDS,
    seed: int = 0,
) -> list[Estimate]:
    """Each system's mean rating by the annotators together, from its labelled and its other conversations.

    Args:
        evidence: Of whole conversations, labelled or not.
        labels: Of some of them.
        question: The main question.
        make: How to make the evaluator that scores.
        system_of: Each conversation's system.
        folds: Of the cross-prediction; every conversation without labels is scored by all folds' evaluators.
        seed: Of the folds.

    Raises:
        BadInput: Too few rated conversations, or a system with fewer than `FEWEST` of them.
    """
    rated = ratings(evidence, labels, question)
    means = {name: float(rated.value[rated.conversation == name].mean()) for name in sorted(set(rated.conversation))}
    others = [target.conversation for target in evidence.targets if target.conversation not in means]
    score = dict.fromkeys([*means, *others], 0.0)
    for split in grouped_folds(list(rated.group), folds, seed):
        evaluator = make(question).fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        tested = sorted({str(c) for c, g in zip(rated.conversation, rated.group, strict=True) if g in split.test})
        for names, share in ((tested, 1.0), (others, 1.0 / folds)):
            for name, value in _by_panel(evaluator, evidence.filter(names)).items():
                score[name] += share * value
    systems = sorted({system_of.get(name, "not said") for name in score})
    found = []
    for system in systems:
        mine = [name for name in means if system_of.get(name, "not said") == system]
        rest = np.array([score[name] for name in others if system_of.get(name, "not said") == system])
        said = np.array([means[name] for name in mine])
        found.append(estimate(system, said, np.array([score[name] for name in mine]), rest))
    return found


def _by_panel(evaluator: Any, evidence: EvidenceTable) -> dict[str, float]:
    """Each conversation's score by all annotators together; what cannot be scored is the mean of what can."""
    speakers: Sequence[str | None] = evaluator.annotators or [None]
    each = [evaluator.predict_each(evidence, [name] * len(evidence)) for name in speakers]
    values = np.array([[s.value if isinstance(s, Score) else np.nan for s in scores] for scores in each])
    known = np.isfinite(values).all(axis=0)
    mean = np.where(known, np.where(known, values, 0.0).mean(axis=0), np.nan)
    filled = np.where(known, mean, mean[known].mean() if known.any() else 0.0)
    return {target.conversation: float(v) for target, v in zip(evidence.targets, filled, strict=True)}
