"""The default head: what applies is tried on inner folds, and what helps is averaged (docs/decisions/0028).

    P(y) = Σ_m w_m·p_m(y),   w = argmax Σ_i log Σ_m w_m·p_m(y_i),   w_m ← mean_i (w_m·p_m(y_i) / Σ_k w_k·p_k(y_i))

over ratings that were predicted without their groups (stacking: Wolpert, 1992; of distributions: Yao and others, 2018).
What is complicated has to show that it is better: a way that hardly learns anything (the constant, the judge, one
column) is taken alone where its loss is within one standard error, over groups, of that average's; else the plain mean
of the heads that know each annotator, unless it is shown to be worse (p < .05); else equal weights, unless they are;
else the weights above.
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
from accord.learning.answer_model import Core, Floats, held_out_by
from accord.learning.mixture import FEWEST_TEXTS
from accord.learning.network_core import NetworkCore
from accord.statistics import INNER_FOLDS
from accord.values import Labels

CANDIDATES = ("constant", "judge", "column", "mixed", "curves", "network")
"""In order of cost, which is that of simplicity."""
SIMPLE = ("constant", "judge", "column")
"""Those that stand for the average where they are not shown to be worse."""
PERSONAL = ("mixed", "network")
"""Those that know each annotator: their plain mean comes next, since weights learned from a few folds are noisy."""
FEWEST_FOR_NETWORK = 500
"""With fewer labels the network is not tried: beside the mixed model it has made things worse there."""
FEWEST_FOR_STACK = 20
"""With fewer labels nothing is tried: the folds would be of a few ratings each."""
LEAST_WEIGHT = 0.1
SHOWN = 1.96
"""Standard errors by which an equal average has to be worse: weights are judged on the ratings they were fitted to."""
_STEPS = 500
_NETWORK_SPEED, _NETWORK_START = 2e9, 10.0
"""Operations per second of training on one core, and seconds until the program is compiled; a rough measure."""


@dataclass(frozen=True)
class Tried:
    """What was found of one candidate.

    Attributes:
        name: One of `CANDIDATES`.
        loss: Log loss of ratings predicted without their groups, in nats; `None` where it was not tried.
        weight: Its share of the average.
        why: Why it was not tried, left out, or taken.
    """

    name: str
    loss: float | None
    weight: float
    why: str


Makers = Mapping[str, Callable[[], Core]]


def stacked(
    make: Makers, evidence: EvidenceTable, rated: Ratings, labels: Labels, seconds: float
) -> tuple[Core, Floats, tuple[Tried, ...]]:
    """The candidates that apply, tried on inner folds, averaged, and learned from everything.

    Args:
        make: Makers of the candidates, in the order of `CANDIDATES`.
        evidence: As the sources gave it.
        rated: The ratings of the main question.
        labels: All labels.
        seconds: A candidate that is expected to take longer is not tried.

    Returns:
        The core (a candidate itself where it has all the weight), each rating's distribution as predicted without its
        group, and what was found of every candidate.
    """
    reasons = {name: _why_not(name, core, evidence, rated, seconds) for name, core in make.items()}
    trying = {name: core for name, core in make.items() if reasons[name] is None}
    shares: dict[str, Floats] = {}
    cores: dict[str, Core] = {}
    for name, maker in trying.items():
        cores[name], shares[name] = _tried(maker, evidence, rated, labels)
    weights, why = choose(rated, shares)
    kept = {name: weight for name, weight in weights.items() if weight > 0}
    for name in kept:
        core = cores[name]
        if isinstance(core, NetworkCore):
            core.finish()
        else:
            core.fit(core.shown(evidence), rated, labels)
    found = tuple(
        Tried(name, rated.log_loss(shares[name]), weights[name], why[name]) if name in shares
        else Tried(name, None, 0.0, f"not tried: {reasons[name]}")
        for name in make
    )  # fmt: skip
    together = np.sum([weight * shares[name] for name, weight in kept.items()], axis=0)
    if len(kept) == 1:
        return cores[next(iter(kept))], together, found
    return StackCore({name: cores[name] for name in kept}, kept), together, found


def _tried(make: Callable[[], Core], evidence: EvidenceTable, rated: Ratings, labels: Labels) -> tuple[Core, Floats]:
    """A candidate that has not learned from everything yet, and what it says of each rating without its group."""
    core = make()
    features = core.shown(evidence)
    if isinstance(core, NetworkCore):  # its folds are trained in one compiled program
        return core, core.try_out(features, rated, labels)
    return core, held_out_by(make, features, rated, labels)


def choose(rated: Ratings, shares: Mapping[str, Floats]) -> tuple[dict[str, float], dict[str, str]]:
    """Each candidate's weight, and why: what is simplest and not shown to be worse than the best average.

    Args:
        rated: n ratings.
        shares: (n, K) each candidate's distributions of them, predicted without their groups, the simplest first.
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
                return {each: float(each == name) for each in names}, why
    personal = np.array([name in PERSONAL for name in names])
    averages = {
        f"the plain mean of {' and '.join(np.array(names)[personal])}": personal,
        "an equal weight": weights > 0,
    }
    said = "weighed by what predicts other groups best"
    for about, taken in averages.items():
        equal = taken / max(np.count_nonzero(taken), 1)
        worse, error = clustered_mean(-np.log(np.maximum(chances @ equal, 1e-12)) - loss, rated.group)
        if worse <= SHOWN * error:
            weights, said = equal, f"{about} is not shown to be worse"
            break
    why = {
        name: f"part of the average: {said}" if weight else "adds little to the others"
        for name, weight in zip(names, weights, strict=True)
    }
    return dict(zip(names, weights.tolist(), strict=True)), why


def simplex_weights(chances: Floats) -> Floats:
    """(M,) weights that maximise Σ log(chances @ w), by expectation-maximisation; `chances` is (n, M) above 0."""
    rows, models = chances.shape
    weights = np.full(models, 1 / models)
    for _ in range(_STEPS):
        weights = weights * ((1 / (chances @ weights)) @ chances) / rows
    return np.asarray(weights)


def clustered_mean(values: Floats, group: NDArray[Any]) -> tuple[float, float]:
    """The mean of n values, and its standard error where those of one group depend on each other."""
    _, of = np.unique(np.asarray(group).astype(str), return_inverse=True)
    mean, count = float(values.mean()), int(of.max()) + 1
    if count < 2:
        return mean, float("inf")
    sums = np.bincount(of, weights=values - mean)
    return mean, float(np.sqrt((sums**2).sum() * count / (count - 1)) / len(values))


def _why_not(
    name: str, make: Callable[[], Core], evidence: EvidenceTable, rated: Ratings, seconds: float
) -> str | None:
    """Why a candidate is not tried on these ratings; `None` where it is."""
    groups = len(set(rated.group))
    if name == "column" and len(evidence.expected().columns) < 2:
        return "there is one column, which the others have"
    if name == "curves" and (len(set(rated.text)) < FEWEST_TEXTS or groups < 2):
        return f"{len(set(rated.text))} texts of {groups} groups; curves need {FEWEST_TEXTS} of two"
    if name != "network":
        return None
    if len(rated) < FEWEST_FOR_NETWORK:
        return f"{len(rated)} labels, it is tried from {FEWEST_FOR_NETWORK}"
    if groups < INNER_FOLDS:
        return f"{groups} groups cannot make {INNER_FOLDS} folds"
    core = make()
    assert isinstance(core, NetworkCore)
    expected = _NETWORK_START + core.operations(core.shown(evidence), rated) / _NETWORK_SPEED
    if expected > seconds:
        return f"it would take about {expected:,.0f} s, more than seconds: {seconds:g}"
    return None if find_spec("jax") and find_spec("optax") else f"it needs {install_command('networks')}"


class ConstantCore(Core):
    """How often each option was chosen, whoever is asked and whatever the evidence says."""

    name = "constant"

    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """Answer blocks as expected answers; they are not looked at."""
        return evidence.expected()

    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Count the answers."""
        self.fit(features, rated, labels)
        return held_out_by(ConstantCore, features, rated, labels)

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Count the answers; every option as if another rating were shared out among all."""
        options = len(rated.options)
        counts = np.bincount(rated.answer, minlength=options) + 1 / options
        self.shares_, self.people_ = counts / counts.sum(), sorted({str(name) for name in rated.annotator})

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) the same in every row."""
        return np.tile(self.shares_, (len(features), 1))

    @property
    def annotators(self) -> list[str]:
        """Everyone who answered."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """The shares."""
        return {"shares": self.shares_.tolist()}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The shares and the people."""
        return {"people": self.people_}, {"shares": self.shares_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.people_, self.shares_ = list(card["people"]), arrays["shares"]
        return self

    def in_new_domain(self, domain_correlation: float) -> ConstantCore:
        """The same."""
        return self


class StackCore(Core):
    """Several cores that have learned, averaged with weights that sum to 1."""

    name = "stack"

    def __init__(self, parts: Mapping[str, Core], weights: Mapping[str, float]) -> None:
        self.parts, self.weights = dict(parts), dict(weights)

    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """As its parts read it, where they read alike; else the evidence as it is."""
        each = [core.shown(evidence) for core in self.parts.values()]
        return each[0] if all(table.columns == each[0].columns for table in each) else evidence

    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Its parts have learned before.

        Raises:
            BadInput: Always; see `stacked`.
        """
        raise BadInput("a stack is made of cores that have learned; use stacked")

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) the weighted mean of its parts' distributions."""
        said = [
            self.weights[name] * core.distributions(core.shown(features), annotators)
            for name, core in self.parts.items()
        ]
        return np.asarray(np.sum(said, axis=0))

    @property
    def annotators(self) -> list[str]:
        """Everyone whom a part has learned to imitate."""
        return sorted({name for core in self.parts.values() for name in core.annotators})

    def describe(self) -> dict[str, Any]:
        """What its heaviest part learned, and under `parts` what the others did."""
        first, *others = sorted(self.parts, key=lambda name: (name != "mixed", -self.weights[name]))
        return {**self.parts[first].describe(), "parts": {name: self.parts[name].describe() for name in others}}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Each part's."""
        states = {name: core.state() for name, core in self.parts.items()}
        card = {"weights": self.weights, "parts": {name: card for name, (card, _) in states.items()}}
        return card, {f"{name}.{key}": array for name, (_, arrays) in states.items() for key, array in arrays.items()}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`; its parts are there, and have learned nothing."""
        for name, core in self.parts.items():
            own = {key.removeprefix(f"{name}."): each for key, each in arrays.items() if key.startswith(f"{name}.")}
            core.restore(card["parts"][name], own)
        return self

    def in_new_domain(self, domain_correlation: float) -> StackCore:
        """Each part as it is there."""
        return StackCore({n: core.in_new_domain(domain_correlation) for n, core in self.parts.items()}, self.weights)

    def adapt(self, features: EvidenceTable, rated: Ratings, domain_correlation: float) -> Core:
        """The mixed part alone: no other learns a new place from a few labels."""
        mixed = self.parts.get("mixed")
        if mixed is None:
            return super().adapt(features, rated, domain_correlation)
        return mixed.adapt(mixed.shown(features), rated, domain_correlation)


def as_json(tried: Sequence[Tried]) -> dict[str, dict[str, Any]]:
    """What was found of each candidate, by name, the simplest first."""
    return {each.name: {k: v for k, v in asdict(each).items() if k != "name"} for each in tried}
