"""Choices of a selector: rated examples and prompts, sets of them (nodes), their observed effect, and the subgraph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from accord.values import BadInput

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Library:
    """n rated examples and ℓ prompts: the training set, and P_S of section 4.2.

    Attributes:
        vectors: (n, h) unit vectors of the examples' texts, without their scores.
        scores: (n,) what people gave, on [0, 1].
        texts: n texts.
        prompts: (ℓ, h) unit vectors of the task prompts, the best prompt first.
    """

    vectors: Vectors
    scores: Floats
    texts: tuple[str, ...]
    prompts: Vectors

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Nodes:
    """N pairs of k demonstrations and a prompt: the nodes of section 4.4.

    Attributes:
        demonstrations: (N, k) examples in the order shown; the last one stands next to the input.
        prompt: (N,) which prompt.
    """

    demonstrations: Indices
    prompt: Indices

    def __len__(self) -> int:
        return len(self.prompt)

    def take(self, rows: Indices | Sequence[int]) -> Nodes:
        """Some of the nodes."""
        return Nodes(self.demonstrations[rows], self.prompt[rows])

    def concat(self, other: Nodes) -> Nodes:
        """These nodes, then the other ones."""
        joined = np.concatenate([self.demonstrations, other.demonstrations])
        return Nodes(joined, np.concatenate([self.prompt, other.prompt]))

    def without(self, excluded: Collection[int]) -> Indices:
        """Rows of the nodes that show none of these examples."""
        shown = np.isin(self.demonstrations, np.fromiter(excluded, dtype=np.intp, count=len(excluded)))
        return np.flatnonzero(~shown.any(axis=1))


@dataclass(frozen=True)
class Query:
    """An input to be scored.

    Attributes:
        vector: (h,) unit vector of its text.
        text: The text.
    """

    vector: Vectors
    text: str


@dataclass(frozen=True)
class Pairs:
    """P observations of a judge who scored Q inputs whose scores are known (algorithm 1).

    Attributes:
        queries: (Q, h) unit vectors of the inputs' texts.
        texts: Q texts.
        query: (P,) which input.
        nodes: P nodes: what the judge was shown.
        target: (P,) exp(-|y - ŷ|), y on [0, 1] (eq. 6).
    """

    queries: Vectors
    texts: tuple[str, ...]
    query: Indices
    nodes: Nodes
    target: Floats

    def __len__(self) -> int:
        return len(self.query)

    def take(self, rows: Indices | Sequence[int]) -> Pairs:
        """Some of the observations, of the same inputs."""
        return Pairs(self.queries, self.texts, self.query[rows], self.nodes.take(rows), self.target[rows])

    def of_query(self, query: int) -> Indices:
        """Rows of one input's observations."""
        return np.flatnonzero(self.query == query)


def random_nodes(rng: np.random.Generator, examples: Sequence[int], prompts: int, k: int, each: int) -> Nodes:
    """Random ordered sets of k different examples, `each` (ζ) of them per prompt; all orders are equally likely.

    The j-th example is drawn by its rank among those that are left, which each smaller chosen one moves up by one.

    Args:
        rng: Drawn from.
        examples: Which examples may be shown.
        prompts: ℓ.
        k: Demonstrations of a node.
        each: ζ.

    Returns:
        ℓ·ζ nodes, those of the first prompt first.
    """
    if len(examples) < k:
        raise BadInput(f"{k} demonstrations need at least {k} examples; got {len(examples)}. Show fewer.")
    count = prompts * each
    drawn = np.empty((count, k), dtype=np.intp)
    for column in range(k):
        place = rng.integers(len(examples) - column, size=count)
        for taken in np.sort(drawn[:, :column], axis=1).T:
            place += place >= taken
        drawn[:, column] = place
    return Nodes(np.asarray(examples, dtype=np.intp)[drawn], np.repeat(np.arange(prompts), each))


Arrays = dict[str, NDArray[Any]]


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
        name: What it is chosen by.
        needs_pairs: Whether it learns from a judge's observed errors.
    """

    name: str
    needs_pairs: bool = False

    @abstractmethod
    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Take the examples in, and learn from the pairs where that is needed."""

    @abstractmethod
    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) W_v of each node for an input, in [0, 1]."""

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
        """Be as after `fit` on the library, from what `state` said."""
        return self.fit(library)


Edges = Literal["sum", "mean"]


def greedy_subgraph(weights: Floats, nodes: Nodes, size: int = 5, edges: Edges = "sum") -> list[int]:
    """The heaviest node, then each time the one that adds most to those chosen; of equals the first.

        W_e(i, j) = 1 - |D_i ∩ D_j|/k                    (eq. 7)
        Q(G', i)  = Σ_j 2·W_e·W_v(i) / (W_e + W_v(i))    (eq. 8), 0 where both are 0

    Args:
        weights: (N,) W_v, in [0, 1].
        nodes: N nodes; the order of their demonstrations does not matter.
        size: How many to choose; all of them where there are no more.
        edges: `sum` is eq. 8. `mean` is what the authors' code does: weights are divided by the largest, the prompt
            counts as an element of the set, and one harmonic mean is taken, with 1 - the mean overlap.

    Returns:
        Rows of the chosen nodes, in the order chosen.
    """
    if not len(nodes) or size < 1:
        return []
    added = _Sum(weights, nodes) if edges == "sum" else _Mean(weights, nodes)
    chosen = [int(np.argmax(weights))]
    free = np.ones(len(nodes), dtype=bool)
    while len(chosen) < min(size, len(nodes)):
        free[chosen[-1]] = False
        chosen.append(int(np.argmax(np.where(free, added.after(chosen[-1]), -np.inf))))
    return chosen


class _Sum:
    """Q of every node after each choice: a choice adds its own term."""

    def __init__(self, weights: Floats, nodes: Nodes) -> None:
        self._weights, self._nodes = weights, nodes
        self._total = np.zeros(len(nodes))

    def after(self, row: int) -> Floats:
        shared = _shared(self._nodes, row)
        self._total += _harmonic(1 - shared / self._nodes.demonstrations.shape[1], self._weights)
        return self._total


class _Mean:
    """The same as the authors' code has it."""

    def __init__(self, weights: Floats, nodes: Nodes) -> None:
        self._weights = weights / (weights.max() or 1.0)
        self._nodes = nodes
        self._shared = np.zeros(len(nodes), dtype=np.intp)
        self._choices = 0

    def after(self, row: int) -> Floats:
        self._choices += 1
        self._shared += _shared(self._nodes, row) + (self._nodes.prompt == self._nodes.prompt[row])
        elements = self._nodes.demonstrations.shape[1] + 1
        return _harmonic(1 - self._shared / (elements * self._choices), self._weights)


def _shared(nodes: Nodes, row: int) -> Indices:
    """(N,) |D_i ∩ D_row|."""
    member = np.zeros(int(nodes.demonstrations.max(initial=0)) + 1, dtype=np.intp)
    member[nodes.demonstrations[row]] = 1
    return np.asarray(member[nodes.demonstrations].sum(axis=1))


def _harmonic(a: Floats, b: Floats) -> Floats:
    total = a + b
    return np.asarray(np.divide(2 * a * b, total, out=np.zeros_like(total), where=total > 0))
