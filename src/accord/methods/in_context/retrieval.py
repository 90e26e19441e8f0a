"""Okapi BM25 (Robertson & Zaragoza, 2009) over stems: how well each text of a collection answers another text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256
from math import log
from typing import Self

import numpy as np

from accord.evidence import counted_stems, pieces
from accord.methods.in_context.nodes import Floats, Library, Nodes, Pairs, Prepared, Query, Selector, Vectors

K1, B = 1.5, 0.75


class Bm25:
    """n texts, ready to be compared with others."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [counted_stems(pieces(text)) for text in texts]
        length = np.array([sum(count.values()) for count in counts], dtype=float)
        self._long = K1 * (1 - B + B * length / (length.mean() or 1.0)) if texts else length
        self._found: dict[str, list[tuple[int, int]]] = {}
        for place, count in enumerate(counts):
            for stem, times in count.items():
                self._found.setdefault(stem, []).append((place, times))

    def scores(self, text: str) -> Floats:
        """(n,) Σ over the stems of `text` of log(1 + (n - df + ½)/(df + ½)) · tf·(k₁ + 1)/(tf + k₁·(1 - b + b·l/l̄)).

        tf is how often a text has the stem, df how many texts have it, l/l̄ a text's length in stems over the mean.
        """
        total = np.zeros(len(self._long))
        for stem, times in counted_stems(pieces(text)).items():
            if stem in self._found:
                places, tf = np.array(self._found[stem]).T
                rarity = log(1 + (len(total) - len(places) + 0.5) / (len(places) + 0.5))
                total[places] += times * rarity * tf * (K1 + 1) / (tf + self._long[places])
        return total


AT_ONCE = 8192
"""Nodes whose pairs of demonstrations are compared together."""


class Random(Selector):
    """Any set is as good as any other; the same text gets the same weights."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Nothing to learn."""
        return self

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) uniform weights, from the seed and the text."""
        text = int.from_bytes(sha256(query.text.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, text]).random(len(prepared))


class SharedWords(Selector):
    """Examples that share rare words with the input (BM25)."""

    name = "bm25"

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Count the library's words."""
        self.index_ = Bm25(library.texts)
        return self

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) mean BM25 of a set's demonstrations, over the largest of any example; 0 where no word is shared."""
        scores = self.index_.scores(query.text)
        share = scores / (scores.max(initial=0.0) or 1.0)
        return np.asarray(share[prepared.nodes.demonstrations].mean(axis=1))

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
        """The k examples with the largest BM25."""
        return _best(self.index_.scores(query.text), k, left_out)


class Neighbours(Selector):
    """Examples whose meaning is near the input's."""

    name = "neighbours"

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Keep the library's vectors."""
        self.vectors_ = library.vectors
        return self

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) mean of (1 + cos)/2 over a set's demonstrations."""
        return np.asarray(_nearness(self.vectors_, query)[prepared.nodes.demonstrations].mean(axis=1))

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
        """The k nearest examples."""
        return _best(_nearness(self.vectors_, query), k, left_out)


class Diverse(Selector):
    """Near examples that differ from each other: maximal marginal relevance (Carbonell & Goldstein, 1998).

    Args:
        relevance: λ, how much nearness to the input counts; 1 - λ is for distance within the set.
    """

    name = "diverse"

    def __init__(self, relevance: float = 0.7) -> None:
        self.relevance = relevance

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Keep the library's vectors."""
        self.vectors_ = library.vectors
        return self

    def prepare(self, nodes: Nodes) -> Prepared:
        """(N,) mean (1 + cos)/2 of each set's pairs of demonstrations; with one demonstration 0."""
        starts = range(0, len(nodes), AT_ONCE)
        parts = [_likeness(self.vectors_[nodes.demonstrations[start : start + AT_ONCE]]) for start in starts]
        return Prepared(nodes, np.concatenate(parts) if parts else np.zeros(0))

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) λ · the set's mean nearness + (1 - λ) · (1 - its mean likeness)."""
        assert prepared.known is not None
        near = _nearness(self.vectors_, query)[prepared.nodes.demonstrations].mean(axis=1)
        return np.asarray(self.relevance * near + (1 - self.relevance) * (1 - prepared.known))

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
        """K examples, each time the one with the largest λ·cos(x, d) - (1 - λ)·max cos(d, chosen)."""
        nearness = self.vectors_.astype(float) @ query.vector
        free = np.ones(len(nearness), dtype=bool)
        free[list(left_out)] = False
        chosen: list[int] = []
        closest = np.zeros(len(nearness))
        while len(chosen) < k and free.any():
            value = self.relevance * nearness - (1 - self.relevance) * closest
            chosen.append(int(np.argmax(np.where(free, value, -np.inf))))
            free[chosen[-1]] = False
            to_last = self.vectors_.astype(float) @ self.vectors_[chosen[-1]]
            closest = to_last if len(chosen) == 1 else np.maximum(closest, to_last)
        return tuple(sorted(chosen, key=lambda example: nearness[example]))


def _nearness(vectors: Vectors, query: Query) -> Floats:
    """(n,) (1 + cos)/2 to the input."""
    return np.asarray(np.clip((1 + vectors.astype(float) @ query.vector) / 2, 0, 1))


def _likeness(sets: Vectors) -> Floats:
    """(N,) mean (1 + cos)/2 of the pairs in (N, k, h) sets, from |Σ v|² = k + Σ_{i≠j} cos_ij."""
    k = sets.shape[1]
    if k < 2:
        return np.zeros(len(sets))
    total = sets.sum(axis=1, dtype=float)
    cosine = ((total**2).sum(axis=1) - (sets.astype(float) ** 2).sum(axis=(1, 2))) / (k * (k - 1))
    return np.asarray(np.clip((1 + cosine) / 2, 0, 1))


def _best(scores: Floats, k: int, left_out: Collection[int]) -> tuple[int, ...]:
    """The k examples with the largest scores, the largest last; of equals the first is the better."""
    without = set(left_out)
    order = [int(place) for place in np.argsort(-scores, kind="stable") if int(place) not in without]
    return tuple(reversed(order[:k]))
