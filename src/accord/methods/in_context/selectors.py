"""Selectors: which demonstrations and prompt to show for an input; the contract, the cheap ones, and the contest.

A selector weighs nodes. What each would have picked among the sets that were tried is known without asking anything, so
the simplest one that is not worse is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from accord.evidence import Settings
from accord.methods.in_context.demonstration_sets import (
    Floats,
    Indices,
    Library,
    Nodes,
    Pairs,
    Query,
)
from accord.statistics import DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate, Registry

AUTO, CHANCE = "auto", "random"
"""`selector: auto`; and the selector that every other one is measured against."""

Arrays = dict[str, NDArray[Any]]


class TowerSettings(Settings):
    """Settings of selectors that learn: the two towers and their training."""

    layers: int = Field(default=2, ge=0, le=12, description="Transformer layers; 0 pools the embeddings as they are.")
    width: int | None = Field(
        default=64, ge=1, description="Principal components of the texts' vectors; null keeps them whole, as published."
    )
    heads: int = Field(default=4, ge=1, description="Attention heads; a divisor of the width.")
    feed_forward: int = Field(default=128, ge=1, description="Width of the transformer's hidden layer.")
    rate: float = Field(
        default=1e-3, gt=0, allow_inf_nan=False, description="Adam's step size; it falls to 0 along a half cosine."
    )
    batch: int = Field(default=32, ge=1, description="Pairs per step.")
    epochs: int = Field(default=50, ge=1, description="Passes over the pairs.")
    # Measured in one planted world with all mechanisms and 5,760 pairs: correlation with utility on unseen inputs 0.75
    # without decay, 0.81 with it, 0.80 with twice the rate; in an easier one 0.83 with a third of the rate, not 0.89.
    decay: float = Field(default=1.0, ge=0, allow_inf_nan=False, description="Weight decay; 0 is the published Adam.")

    @model_validator(mode="after")
    def _shared_by_heads(self) -> Self:
        if self.width is not None and self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be shared by {self.heads} heads")
        return self


@dataclass(frozen=True)
class Prepared:
    """N nodes, and what a selector knows of them before there is an input.

    Attributes:
        nodes: N nodes.
        known: (N, …) whatever the selector needs of each of them; `None` where that is nothing.
    """

    nodes: Nodes
    known: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, rows: NDArray[Any]) -> Prepared:
        """Some of the nodes, with what is known of them."""
        return Prepared(self.nodes.take(rows), None if self.known is None else self.known[rows])


class Selector(ABC):
    """Weighs demonstration sets and prompts for an input.

    Attributes:
        name: What it is chosen by; the registry gives it.
        cost: The contest prefers what costs less: 0 chance, 1 to 4 retrieval, from 5 on what is trained.
        is_chance: All sets are alike to it: in the contest it stands for the mean of all that were tried.
        needs_pairs: Whether it learns from a scorer's observed errors.
    """

    name: str = ""
    cost: int = 2
    is_chance: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False

    def __init__(self, seed: int = 0, towers: TowerSettings | None = None) -> None:
        self.seed, self.towers = seed, towers or TowerSettings()

    @abstractmethod
    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Take the examples in, and learn from the pairs where that is needed."""

    @abstractmethod
    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) W_v of each node for an input, in [0, 1]."""

    def check(self) -> None:
        """Refuse, before anything is paid for, what cannot be trained here.

        Raises:
            MissingExtra: A package is not installed.
        """
        return

    def prepare(self, nodes: Nodes) -> Prepared:
        """The part that depends on nodes alone: computed once, used for every input."""
        return Prepared(nodes)

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...] | None:
        """The k examples that retrieval would show outright, the most similar last; `None` from what retrieves none."""
        return None

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The learned state as JSON and arrays, without the library."""
        return {}, {}

    def restore(self, library: Library, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`: as after `fit` on the library."""
        return self.fit(library)


selectors: Registry[Callable[[int, TowerSettings], Selector]] = Registry(
    "selector", "accord.methods.in_context.tower_selector"
)
"""Selectors by name: `register` decorates a class, or a function of the seed and the settings `towers`."""


def make_selector(name: str, seed: int = 0, **towers: Any) -> Selector:
    """A selector by its registered name, with the seed of what it draws and its `TowerSettings`.

    Raises:
        UnknownName: No selector is called so.
    """
    made = selectors.get(name)(seed, TowerSettings(**towers))
    made.name = name
    return made


def by_cost() -> list[str]:
    """The names of all selectors, the simplest first."""
    return sorted(selectors.names(), key=lambda name: (make_selector(name).cost, name))


@selectors.register(CHANCE)
class Random(Selector):
    """Any set is as good as any other; the same text gets the same weights."""

    cost, is_chance = 0, True

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Nothing to learn."""
        return self

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) uniform weights, from the seed and the text."""
        text = int.from_bytes(sha256(query.text.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, text]).random(len(prepared))


@selectors.register("neighbours")
class Neighbours(Selector):
    """Examples whose meaning is near the input's: cosine of embeddings."""

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Keep the library's vectors."""
        self.vectors_ = library.vectors
        return self

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) mean of (1 + cos)/2 over a set's demonstrations."""
        near = np.clip((1 + self.vectors_.astype(float) @ query.vector) / 2, 0, 1)
        return np.asarray(near[prepared.nodes.demonstrations].mean(axis=1))

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
        """The k nearest examples."""
        return highest(self.vectors_.astype(float) @ query.vector, k, left_out)


def highest(scores: Floats, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
    """The k examples with the largest scores, the largest last; of equals the first is the better."""
    order = [place for place in np.argsort(-scores, kind="stable").tolist() if place not in set(left_out)]
    return tuple(reversed(order[:k]))


# --- the contest ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried:
    """Result of one selector.

    Attributes:
        name: Of the selector.
        targets: (Q,) for each input the target of the set that it put first; NaN where no set was tried.
        folds: The selectors as they were fitted without each fold; one that does not learn is the same in all.
    """

    name: str
    targets: Floats
    folds: Sequence[Selector]


def try_selector(name: str, make: Callable[[str], Selector], library: Library, pairs: Pairs, fold: Indices) -> Tried:
    """A selector, made by its name, on the (Q,) inputs of which it has not learned: the library's examples, by fold."""
    count, selector = int(fold.max()) + 1, make(name)
    if selector.needs_pairs:
        others = (pairs.take(np.flatnonzero(fold[pairs.query] != each)) for each in range(count))
        fitted = [make(name).fit(library, part) for part in others]
    else:
        fitted = [selector.fit(library)] * count
    targets = np.full(len(pairs.texts), np.nan)
    for query in range(len(pairs.texts)):
        rows = pairs.of_query(query)
        if len(rows) and not selector.is_chance:
            own, nodes = fitted[fold[query]], pairs.nodes.take(rows)
            weights = own.weights(Query(pairs.queries[query], pairs.texts[query]), own.prepare(nodes))
            rows = rows[weights >= weights.max()]
        targets[query] = pairs.target[rows].mean() if len(rows) else np.nan
    return Tried(name, targets, fitted)


def simplest(tried: Sequence[Tried], groups: Sequence[str]) -> Tried:
    """The simplest selector that is not worse: its mean target is within one standard error of the best one's.

    `tried` comes in the order of simplicity. The standard error is that of the mean difference over groups.
    """
    best = max(tried, key=lambda each: (np.nanmean(each.targets), -tried.index(each)))
    return next(each for each in tried if each is best or _is_near(best.targets - each.targets, groups))


def _is_near(differences: Floats, groups: Sequence[str]) -> bool:
    """Whether the mean of (Q,) differences is within its standard error over groups."""
    names, place = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    known = np.isfinite(differences)
    count = np.bincount(place[known], minlength=len(names))
    means = np.bincount(place[known], differences[known], minlength=len(names))[count > 0] / count[count > 0]
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else 0.0
    return bool(np.nanmean(differences) <= error)


@dataclass(frozen=True)
class SelectorFigures:
    """The mean target of a selector's picks and its gain over random ones, with 95 % intervals."""

    selector: str
    chosen: bool
    target: float
    target_low: float | None
    target_high: float | None
    gain: float
    gain_low: float | None
    gain_high: float | None

    @property
    def targets(self) -> Estimate:
        """The mean target with its interval."""
        return Estimate(self.target, self.target_low, self.target_high)

    @property
    def gains(self) -> Estimate:
        """The gain with its interval."""
        return Estimate(self.gain, self.gain_low, self.gain_high)


def selector_figures(tried: Sequence[Tried], chosen: str, groups: Sequence[str], seed: int) -> list[SelectorFigures]:
    """The figures of each selector; the first one is what the others gain over."""
    base, found = tried[0].targets, []
    for each in tried:
        known = np.isfinite(each.targets) & np.isfinite(base)
        clusters = Clusters(np.asarray(groups, dtype=object)[known])
        counts = clusters.counts(DRAWS, seed)
        figures: list[float | None] = []
        for values in (each.targets[known], (each.targets - base)[known]):
            drawn = (counts @ clusters.sums(values[:, None]))[:, 0] / (counts @ clusters.sizes)
            estimate = estimate_from_draws(float(values.mean()), drawn)
            figures += [estimate.value, estimate.low, estimate.high]
        found.append(SelectorFigures(each.name, each.name == chosen, *figures))  # type: ignore[arg-type]
    return found
