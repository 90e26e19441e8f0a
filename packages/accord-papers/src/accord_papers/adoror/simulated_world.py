"""A planted world: a judge whose error depends on the demonstrations, their order, their scores and the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accord.methods.in_context.selectors import (
    ExampleLibrary,
    Floats,
    Indices,
    Nodes,
    Pairs,
    Query,
    Vectors,
    random_nodes,
)

MECHANISMS: Mapping[str, float] = {"match": 0.25, "absolute": 0.15, "relative": 0.3, "scores": 0.2, "prompt": 0.1}
"""Planted mechanisms with their default weights."""


@dataclass(frozen=True)
class PlantedUtility:
    """n rated examples, which are also the training inputs, and Q unseen inputs; all have one of T topics.

    Attributes:
        library: Examples and prompts.
        queries: (n + Q, h) vectors of the examples, then of the unseen inputs.
        topics: (n + Q,) topics.
        truth: (n + Q,) scores; scores of unseen inputs stay hidden.
        fit: (T, ℓ) suitability of each prompt for each topic, in [0, 1].
        noise: (n + Q, n) contribution of each demonstration to the judge's error on each input.
        mechanisms: Share of utility of each planted mechanism; the shares sum to 1.
        loud: Share of chance in the size of an error: 0 none, 1 a normal deviate.
    """

    library: ExampleLibrary
    queries: Vectors
    topics: Indices
    truth: Floats
    fit: Floats
    noise: Floats
    mechanisms: Mapping[str, float] = field(default_factory=lambda: MECHANISMS)
    loud: float = 0.0

    @property
    def unseen(self) -> range:
        """Inputs that are not examples."""
        return range(len(self.library), len(self.topics))

    def query(self, query: int) -> Query:
        """Return an input for a selector."""
        return Query(self.queries[query], _text_of(int(self.topics[query]), query))

    def utility(self, query: int, nodes: Nodes) -> Floats:
        """Return (N,) the utility of each node for an input, in [0, 1]: the mean of the mechanisms by their shares.

        `match`: share of demonstrations of the input's topic. `absolute`: 1 if the demonstration next to the input has
        its topic. `relative`: share of neighboring demonstrations in which the second's topic follows the first's.
        `scores`: twice the standard deviation of the demonstrations' scores, a property of the whole set. `prompt`:
        suitability of the prompt for the input's topic.
        """
        shown = self.topics[nodes.demonstrations]
        own = shown == self.topics[query]
        follows = shown[:, 1:] == (shown[:, :-1] + 1) % len(self.fit)
        parts: dict[str, Floats] = {
            "match": own.mean(axis=1),
            "absolute": own[:, -1].astype(float),
            "relative": follows.mean(axis=1),
            "scores": 2 * self.library.scores[nodes.demonstrations].std(axis=1),
            "prompt": self.fit[self.topics[query], nodes.prompt],
        }
        return np.asarray(sum(share * parts[name] for name, share in self.mechanisms.items()))

    def error(self, query: int, nodes: Nodes) -> Floats:
        """Return (N,) ŷ - y of the scripted judge: 1 - utility, with the sign of the demonstrations' mean noise.

        Errors of sets without a common demonstration are independent and cancel out in a mean; errors of
        overlapping sets do not.
        """
        k = nodes.demonstrations.shape[1]
        drawn = self.noise[query][nodes.demonstrations].sum(axis=1) / np.sqrt(k)
        size = (1 - self.loud) + self.loud * np.abs(drawn)
        return np.asarray((1 - self.utility(query, nodes)) * size * np.sign(drawn))

    def pairs(self, gamma: int = 4, k: int = 5, seed: int = 0) -> Pairs:
        """Run algorithm 1 on the examples: γ random sets of the others per prompt, with the closeness of the judge."""
        rng, n, prompts = np.random.default_rng(seed), len(self.library), len(self.library.prompts)
        drawn = [
            random_nodes(rng, [other for other in range(n) if other != query], prompts, k, gamma) for query in range(n)
        ]
        whole = Nodes(np.concatenate([each.demonstrations for each in drawn]), np.tile(drawn[0].prompt, n))
        target = [np.exp(-np.abs(self.error(query, nodes))) for query, nodes in enumerate(drawn)]
        of = np.repeat(np.arange(n), prompts * gamma)
        return Pairs(self.queries[:n], self.library.texts, of, whole, np.concatenate(target))


def planted_utility(
    seed: int = 0,
    mechanisms: Mapping[str, float] = MECHANISMS,
    examples: int = 360,
    unseen: int = 100,
    topics: int = 6,
    prompts: int = 4,
    width: int = 384,
    spread: float = 0.7,
    loud: float = 0.0,
) -> PlantedUtility:
    """Draw a synthetic corpus for demonstration selection.

    Args:
        seed: Seed of the draw.
        mechanisms: Planted mechanisms with weights, divided by their sum.
        examples: n.
        unseen: Q.
        topics: T.
        prompts: ℓ.
        width: Width of the vectors.
        spread: Length of a text's own direction, relative to its topic's.
        loud: As of `PlantedUtility`.
    """
    rng, whole = np.random.default_rng(seed), examples + unseen
    of = rng.permutation(np.arange(whole) % topics)
    vectors = _units(_directions(rng, topics, width)[of] + spread * _directions(rng, whole, width))
    truth = rng.integers(0, 5, whole) / 4
    texts = tuple(_text_of(int(topic), place) for place, topic in enumerate(of[:examples]))
    tasks = _units(_directions(rng, 1, width) + _directions(rng, prompts, width))
    best = np.stack([np.roll(np.linspace(1, 0, prompts), topic % prompts) for topic in range(topics)])
    return PlantedUtility(
        library=ExampleLibrary(vectors[:examples], truth[:examples], texts, tasks),
        queries=vectors,
        topics=of,
        truth=truth,
        fit=best,
        noise=rng.normal(size=(whole, examples)),
        mechanisms={name: weight / sum(mechanisms.values()) for name, weight in mechanisms.items()},
        loud=loud,
    )


def _text_of(topic: int, place: int) -> str:
    """Return a text with shared words, words of its topic, and a word of its own."""
    said = " ".join(f"topic{topic}word{(place + step) % 7}" for step in range(3))
    return f"we talked about {said} today, case {place}"


def _directions(rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    return np.asarray(rng.normal(size=(count, width)) / np.sqrt(width))


def _units(vectors: NDArray[np.float64]) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)
