"""Answer model `auto`: candidates compared on inner folds, and averaged where that helps (docs/decisions/0028).

    P(y) = Σ_m w_m·p_m(y),   w = argmax Σ_i log Σ_m w_m·p_m(y_i),   w_m ← mean_i (w_m·p_m(y_i) / Σ_k w_k·p_k(y_i))

over ratings predicted without their groups (stacking: Wolpert, 1992; of distributions: Yao et al., 2018). Complex
models must be shown to be better. A simple candidate (constant, judge, column) is taken alone if its loss is within one
standard error, over groups, of the average's. Otherwise the plain mean of the personal models is taken unless it is
significantly worse (p < .05), then equal weights on the same condition, and only then the weights above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, install_command
from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.learning.answer_model import AnswerModel, Floats, part_arrays, prefixed
from accord.learning.curve_answers import FEWEST_TEXTS
from accord.learning.network_answers import NetworkAnswers
from accord.statistics import INNER_FOLDS
from accord.values import Labels

CANDIDATES = ("constant", "judge", "column", "mixed", "curves", "network")
"""Candidates from the simplest to the most complex."""
SIMPLE = ("constant", "judge", "column")
"""Simple candidates that replace the average unless they are significantly worse."""
PERSONAL = ("mixed", "network")
"""Candidates that model each annotator. Their plain mean comes first because fitted weights are noisy."""
FEWEST_FOR_NETWORK = 500
"""Below this number of labels the network made the average worse and is not tried."""
FEWEST_FOR_STACK = 20
"""Below this number of labels the inner folds are too small to compare candidates."""
LEAST_WEIGHT = 0.1
SHOWN = 1.96
"""Fitted weights replace equal weights only if equal weights are worse by this many standard errors."""
_STEPS = 500
_NETWORK_SPEED, _NETWORK_START = 2e9, 10.0
"""Approximate training speed on one core in operations per second, and compile time in seconds."""


@dataclass(frozen=True)
class CandidateTrial:
    """Result of one candidate.

    Attributes:
        name: One of `CANDIDATES`.
        loss: Log loss on held-out ratings, in nats; None if it was not tried.
        weight: Weight in the average.
        why: Reason why it was skipped, dropped or taken.
    """

    name: str
    loss: float | None
    weight: float
    why: str


Makers = Mapping[str, Callable[[], AnswerModel]]


def fit_stack(
    make: Makers, evidence: EvidenceTable, rated: Ratings, labels: Labels, max_seconds: float
) -> tuple[AnswerModel, Floats, tuple[CandidateTrial, ...]]:
    """Compare the candidates on inner folds and fit the selected ones on all ratings.

    Args:
        make: Makers of the candidates, in the order of `CANDIDATES`.
        evidence: Evidence from the sources.
        rated: Ratings of the main question.
        labels: All labels.
        max_seconds: A candidate that is expected to take longer is skipped.

    Returns:
        The model (a candidate itself if it has all the weight), (n, K) held-out distributions, and the result of every
        candidate.
    """
    obstacles = {name: _obstacle(name, maker, evidence, rated, max_seconds) for name, maker in make.items()}
    shares: dict[str, Floats] = {}
    models: dict[str, AnswerModel] = {}
    for name, maker in make.items():
        if obstacles[name] is None:
            model = maker()
            models[name], shares[name] = model, model.cross_predict(maker, model.prepare(evidence), rated, labels)
    weights, why = choose(rated, shares)
    kept = {name: weight for name, weight in weights.items() if weight > 0}
    for name in kept:
        models[name].fit(models[name].prepare(evidence), rated, labels)
    trials = tuple(
        CandidateTrial(name, rated.log_loss(shares[name]), weights[name], why[name]) if name in shares
        else CandidateTrial(name, None, 0.0, f"not tried: {obstacles[name]}")
        for name in make
    )  # fmt: skip
    average = np.sum([weight * shares[name] for name, weight in kept.items()], axis=0)
    if len(kept) == 1:
        return models[next(iter(kept))], average, trials
    return StackedAnswers({name: models[name] for name in kept}, kept), average, trials


def choose(rated: Ratings, shares: Mapping[str, Floats]) -> tuple[dict[str, float], dict[str, str]]:
    """Return the weight of each candidate, with the reason.

    Args:
        rated: n ratings.
        shares: (n, K) held-out distributions by candidate, simplest first.
    """
    names, rows = list(shares), np.arange(len(rated))
    chances = np.column_stack([np.maximum(shares[name][rows, rated.answer], 1e-12) for name in names])
    weights = simplex_weights(chances)
    weights = np.where(weights < LEAST_WEIGHT, 0.0, weights)
    weights /= weights.sum()
    loss = -np.log(chances @ weights)
    for place, name in enumerate(names):
        if name in SIMPLE:
            worse, error = clustered_mean(-np.log(chances[:, place]) - loss, rated.group)
            if worse <= error:
                why = dict.fromkeys(names, f"{name} is simpler, and not shown to be worse")
                why[name] = f"{worse:.3f} worse than the average of all, within one standard error ({error:.3f})"
                return {candidate: float(candidate == name) for candidate in names}, why
    personal = np.array([name in PERSONAL for name in names])
    averages = {
        f"the plain mean of {' and '.join(np.array(names)[personal])}": personal,
        "an equal weight": weights > 0,
    }
    rule = "weighted by held-out log loss"
    for average, taken in averages.items():
        equal = taken / max(np.count_nonzero(taken), 1)
        worse, error = clustered_mean(-np.log(np.maximum(chances @ equal, 1e-12)) - loss, rated.group)
        if worse <= SHOWN * error:
            weights, rule = equal, f"{average} is not shown to be worse"
            break
    why = {
        name: f"part of the average: {rule}" if weight else "adds little to the others"
        for name, weight in zip(names, weights, strict=True)
    }
    return dict(zip(names, weights.tolist(), strict=True)), why


def simplex_weights(chances: Floats) -> Floats:
    """Return (M,) weights that maximize Σ log(chances @ w) by expectation-maximization, for (n, M) chances above 0."""
    rows, models = chances.shape
    weights = np.full(models, 1 / models)
    for _ in range(_STEPS):
        weights = weights * ((1 / (chances @ weights)) @ chances) / rows
    return np.asarray(weights)


def clustered_mean(values: Floats, group: NDArray[Any]) -> tuple[float, float]:
    """Return the mean of n values and its standard error, clustered by group."""
    _, of = np.unique(np.asarray(group).astype(str), return_inverse=True)
    mean, count = float(values.mean()), int(of.max()) + 1
    if count < 2:
        return mean, float("inf")
    sums = np.bincount(of, weights=values - mean)
    return mean, float(np.sqrt((sums**2).sum() * count / (count - 1)) / len(values))


def _obstacle(
    name: str, make: Callable[[], AnswerModel], evidence: EvidenceTable, rated: Ratings, max_seconds: float
) -> str | None:
    """Return the reason why a candidate cannot be tried on these ratings, or None."""
    groups = len(set(rated.group))
    if name == "column" and len(evidence.expected().columns) < 2:
        return "the evidence has a single column, which the other candidates use"
    if name == "curves" and (len(set(rated.text)) < FEWEST_TEXTS or groups < 2):
        return f"{len(set(rated.text))} texts of {groups} groups; curves need {FEWEST_TEXTS} texts of two groups"
    if name != "network":
        return None
    if len(rated) < FEWEST_FOR_NETWORK:
        return f"{len(rated)} labels; the network needs {FEWEST_FOR_NETWORK}"
    if groups < INNER_FOLDS:
        return f"{groups} groups cannot make {INNER_FOLDS} folds"
    model = make()
    assert isinstance(model, NetworkAnswers)
    expected = _NETWORK_START + model.operations(model.prepare(evidence), rated) / _NETWORK_SPEED
    if expected > max_seconds:
        return f"it would take about {expected:,.0f} s, above max_seconds: {max_seconds:g}"
    return None if find_spec("jax") and find_spec("optax") else f"it needs {install_command('networks')}"


class ConstantAnswers(AnswerModel):
    """Frequency of each option, regardless of evidence and annotator."""

    name = "constant"

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Count the answers."""
        self.fit(features, rated, labels)
        return self.cross_predict(ConstantAnswers, features, rated, labels)

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Count the answers, with one further rating spread over all options."""
        options = len(rated.options)
        counts = np.bincount(rated.answer, minlength=options) + 1 / options
        self.shares_, self.people_ = counts / counts.sum(), sorted({str(name) for name in rated.annotator})

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the same distribution in every row."""
        return np.tile(self.shares_, (len(features), 1))

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """Return the frequencies."""
        return {"shares": self.shares_.tolist()}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        return {"people": self.people_}, {"shares": self.shares_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.people_, self.shares_ = list(card["people"]), arrays["shares"]
        return self


class StackedAnswers(AnswerModel):
    """Weighted average of fitted models; the weights sum to 1."""

    name = "stack"

    def __init__(self, parts: Mapping[str, AnswerModel], weights: Mapping[str, float]) -> None:
        self.parts, self.weights = dict(parts), dict(weights)

    def prepare(self, evidence: EvidenceTable) -> EvidenceTable:
        """Return the evidence as the parts read it if all read it the same way, otherwise unchanged."""
        tables = [model.prepare(evidence) for model in self.parts.values()]
        return tables[0] if all(table.columns == tables[0].columns for table in tables) else evidence

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Refuse to learn: `fit_stack` fits the parts.

        Raises:
            BadInput: Always.
        """
        raise BadInput("a stack combines fitted models; use fit_stack")

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the weighted mean of the parts' distributions."""
        shares = [
            self.weights[name] * model.distributions(model.prepare(features), annotators)
            for name, model in self.parts.items()
        ]
        return np.asarray(np.sum(shares, axis=0))

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that any part learned from."""
        return sorted({name for model in self.parts.values() for name in model.annotators})

    def describe(self) -> dict[str, Any]:
        """Return the description of the heaviest part, with the others under `parts`."""
        first, *others = sorted(self.parts, key=lambda name: (name != "mixed", -self.weights[name]))
        return {**self.parts[first].describe(), "parts": {name: self.parts[name].describe() for name in others}}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state of each part."""
        states = {name: model.state() for name, model in self.parts.items()}
        card = {"weights": self.weights, "parts": {name: card for name, (card, _) in states.items()}}
        return card, {key: array for name, (_, part) in states.items() for key, array in prefixed(name, part).items()}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore each part from `state`."""
        for name, model in self.parts.items():
            model.restore(card["parts"][name], part_arrays(name, arrays))
        return self

    def in_new_domain(self, domain_correlation: float) -> StackedAnswers:
        """Return the average of each part in the new domain."""
        parts = {name: model.in_new_domain(domain_correlation) for name, model in self.parts.items()}
        return StackedAnswers(parts, self.weights)

    def adapt(self, features: EvidenceTable, rated: Ratings, domain_correlation: float) -> AnswerModel:
        """Return the adapted mixed part alone, the only one that learns from few labels of another domain."""
        mixed = self.parts.get("mixed")
        if mixed is None:
            return super().adapt(features, rated, domain_correlation)
        return mixed.adapt(mixed.prepare(features), rated, domain_correlation)


def trials_to_json(trials: Sequence[CandidateTrial]) -> dict[str, dict[str, Any]]:
    """Return the result of each candidate by name."""
    return {trial.name: {key: value for key, value in asdict(trial).items() if key != "name"} for trial in trials}
