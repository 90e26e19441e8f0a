"""What a selector chooses from: rated examples and prompts, sets of them (nodes), and what they did to an input."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput

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

    def above(self, other: Nodes) -> Nodes:
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
    """Random ordered sets of k different examples, `each` (ζ) of them a prompt; all orders are equally likely.

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
