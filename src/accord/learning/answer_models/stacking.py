"""Answer model `auto`: an average of several models, weighted by held-out error (docs/decisions/0028).

    P(y) = Σ_m w_m·p_m(y),   w = argmin  Σ_i (y_i - Σ_m w_m·μ_m(x_i))² / var(y) + λM·Σ_m (w_m - π_m)²,   w ≥ 0, Σ w = 1

over ratings predicted without their groups (stacking: Wolpert, 1992; Breiman, 1996); μ_m is the mean of p_m. The
penalty pulls the weights towards π, which are best while labels are few (docs/decisions/0088). There are two vectors of
weights: one from predictions for the rating's own annotator, one from predictions for a new annotator. For known
annotators the plain mean of `PERSONAL` models is taken instead if all were tried and their mean is not significantly
worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import scipy

from accord.edges import BadInput, install_command
from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.learning.answer_models.contract import AnswerModel, Floats, part_arrays, prefixed
from accord.learning.answer_models.curves import FEWEST_TEXTS
from accord.learning.answer_models.network.answers import NetworkAnswers
from accord.statistics import INNER_FOLDS, SIGNIFICANT, clustered_mean
from accord.values import Labels

CANDIDATES = ("constant", "judge", "judge-mean", "trees", "mixed", "network")
"""Models that are averaged unless others are named."""
PERSONAL = ("mixed", "network")
"""Models of each annotator."""
FEWEST_FOR_NETWORK = 500
"""Below this number of labels the network made the average worse and is not tried."""
FEWEST_TEXTS_FOR_MIXED = 15
"""Below this number of rated texts `mixed` made the average worse and is not tried if another model can be."""
PENALTY = 3.0
"""λ: strength that pulls the weights towards π; chosen on five data sets (`benchmarks/first_labels.py`)."""
PRIOR_WEIGHTS = {"trees": 3.0, "constant": 0.5, "judge": 0.5}
"""π, relative to 1 for the models that are not named; chosen on eight questions of five data sets."""
LEAST_WEIGHT = 0.02
"""Models with a lower weight for known and for new annotators are dropped."""
_NETWORK_SPEED, _NETWORK_START = 2e9, 10.0
"""Approximate training speed on one core in operations per second, and compile time in seconds."""


@dataclass(frozen=True)
class CandidateTrial:
    """Result of one candidate.

    Attributes:
        name: Name of the answer model.
        rmse: Held-out error for each rating's annotator, in units of the scale; `None` if it was not tried.
        rmse_new: Held-out error for a new annotator.
        weight: Weight in the average for known annotators.
        weight_new: Weight in the average for a new annotator.
        why: Reason why it was not tried.
    """

    name: str
    rmse: float | None
    rmse_new: float | None
    weight: float
    weight_new: float
    why: str | None = None


Makers = Mapping[str, Callable[[], AnswerModel]]


def fit_stack(
    make: Makers, evidence: EvidenceTable, rated: Ratings, labels: Labels, max_seconds: float
) -> tuple[AnswerModel, tuple[Floats, Floats], tuple[CandidateTrial, ...]]:
    """Weight the candidates by their held-out error and fit those that have weight on all ratings.

    Args:
        make: Makers of the candidates by name.
        evidence: Evidence from the sources.
        rated: Ratings of the main question.
        labels: All labels.
        max_seconds: A candidate that is expected to take longer is skipped.

    Returns:
        The model (a candidate itself if it has all the weight); (n, K) held-out distributions for each rating's
        annotator and for a new one; and the result of every candidate.

    Raises:
        BadInput: No candidate can be tried.
    """
    obstacles = _obstacles(make, evidence, rated, max_seconds)
    models = {name: maker() for name, maker in make.items() if obstacles[name] is None}
    held_out = {
        name: model.cross_predict(make[name], model.prepare(evidence), rated, labels) for name, model in models.items()
    }
    if not models:
        raise BadInput("; ".join(f"{name}: {reason}" for name, reason in obstacles.items()))
    means = [np.column_stack([pair[side] @ rated.options for pair in held_out.values()]) for side in (0, 1)]
    weights = _weights(list(models), means, rated)
    kept = {name: (float(w), float(v)) for name, w, v in zip(models, *weights, strict=True) if max(w, v) > 0}
    for name in kept:
        models[name].fit(models[name].prepare(evidence), rated, labels)
    trials = [*_untried(obstacles), *_tried(list(models), means, weights, rated)]
    known, new = (np.sum([kept[name][side] * held_out[name][side] for name in kept], axis=0) for side in (0, 1))
    if len(kept) == 1:
        return models[next(iter(kept))], (known, new), tuple(trials)
    return StackedAnswers({name: models[name] for name in kept}, kept), (known, new), tuple(trials)


def _obstacles(make: Makers, evidence: EvidenceTable, rated: Ratings, max_seconds: float) -> dict[str, str | None]:
    """Return why each candidate cannot be tried; `mixed` is tried if no other one can be."""
    obstacles = {name: _obstacle(name, maker, evidence, rated, max_seconds) for name, maker in make.items()}
    if "mixed" in make and None not in obstacles.values():
        obstacles["mixed"] = None
    return obstacles


def _untried(obstacles: Mapping[str, str | None]) -> list[CandidateTrial]:
    """Return the results of candidates that cannot be tried."""
    return [
        CandidateTrial(name, None, None, 0.0, 0.0, f"not tried: {obstacle}")
        for name, obstacle in obstacles.items()
        if obstacle is not None
    ]


def _tried(names: Sequence[str], means: Sequence[Floats], weights: Floats, rated: Ratings) -> Iterator[CandidateTrial]:
    """Yield the result of each of M candidates, from held-out means (n, M) and weights (2, M)."""
    for place, name in enumerate(names):
        error, error_new = (float(np.sqrt(np.mean((mean[:, place] - rated.value) ** 2))) for mean in means)
        yield CandidateTrial(name, error, error_new, *weights[:, place].tolist())


def _weights(names: Sequence[str], means: Sequence[Floats], rated: Ratings) -> Floats:
    """Return (2, M) weights of M models for known annotators and for a new one, from held-out means (n, M) of each."""
    prior = np.array([PRIOR_WEIGHTS.get(name, 1.0) for name in names])
    weights = np.array([shrunk_weights(mean, rated.value, prior) for mean in means])
    if all(name in names for name in PERSONAL):
        personal = np.array([name in PERSONAL for name in names]) / len(PERSONAL)
        worse = (means[0] @ personal - rated.value) ** 2 - (means[0] @ weights[0] - rated.value) ** 2
        loss = clustered_mean(worse, rated.group)
        if loss.mean <= 0 or loss.p >= SIGNIFICANT:
            weights[0] = personal
    weights = np.where(weights.max(axis=0) < LEAST_WEIGHT, 0.0, weights)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def shrunk_weights(means: Floats, value: Floats, prior: Floats) -> Floats:
    """Return (M,) weights of M models from their held-out means (n, M), the ratings (n,) and prior weights (M,)."""
    count = means.shape[1]
    spread = float(value.std()) or 1.0
    pull = np.sqrt(PENALTY * count)
    sum_to_one = 1e4 * np.ones((1, count))
    rows = np.vstack([means / spread, pull * np.eye(count), sum_to_one])
    weights = scipy.optimize.nnls(rows, np.concatenate([value / spread, pull * prior / prior.sum(), [1e4]]))[0]
    return np.asarray(weights / weights.sum())


def _obstacle(
    name: str, make: Callable[[], AnswerModel], evidence: EvidenceTable, rated: Ratings, max_seconds: float
) -> str | None:
    """Return the reason why a candidate cannot be tried on these ratings, or None."""
    groups, texts = len(set(rated.group)), len(set(rated.text))
    if name == "curves" and (texts < FEWEST_TEXTS or groups < 2):
        return f"{texts} texts of {groups} groups; curves need {FEWEST_TEXTS} texts of two groups"
    if name == "mixed" and texts < FEWEST_TEXTS_FOR_MIXED:
        return f"{texts} rated texts; mixed needs {FEWEST_TEXTS_FOR_MIXED}"
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
    differs_by_annotator = False

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Count the answers."""
        self.fit(features, rated, labels)
        return self.cross_predict(ConstantAnswers, features, rated, labels)[0]

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
    """Weighted average of fitted models.

    Args:
        parts: Models by name.
        weights: Weights of each model by name: for known annotators, and for a new one; each sums to 1.
    """

    name = "stack"

    def __init__(self, parts: Mapping[str, AnswerModel], weights: Mapping[str, Sequence[float]]) -> None:
        self.parts, self.weights = dict(parts), {name: tuple(map(float, pair)) for name, pair in weights.items()}

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
        """Return (n, K) the mean of the parts' distributions, by the weights of each row's annotator."""
        everyone = set(self.annotators)
        is_known = np.array([name is not None and str(name) in everyone for name in annotators], dtype=bool)
        total: Floats | float = 0.0
        for name, model in self.parts.items():
            weight = np.where(is_known, *self.weights[name])
            if weight.any():
                total = total + weight[:, None] * model.distributions(model.prepare(features), annotators)
        return np.asarray(total)

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that any part learned from."""
        return sorted({name for model in self.parts.values() for name in model.annotators})

    def describe(self) -> dict[str, Any]:
        """Return the description of the heaviest part, with the others under `parts`."""
        first, *others = sorted(self.parts, key=lambda name: (name != "mixed", -max(self.weights[name])))
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
