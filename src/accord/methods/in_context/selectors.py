"""The selectors by name, the simplest first: chance, retrieval, the towers; and which of them earns its cost.

Retrieval by words is Okapi BM25 (Robertson & Zaragoza, 2009) over stems, by meaning the cosine of embeddings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from math import log
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from accord.evidence import counted_stems, pieces
from accord.methods.in_context.nodes import (
    Floats,
    Indices,
    Library,
    Nodes,
    Pairs,
    Prepared,
    Query,
    Selector,
    Vectors,
)
from accord.methods.in_context.towers import TOWERS, Towers, TowerSettings
from accord.statistics import DRAWS, Clusters, interval
from accord.values import BadInput, UnknownName

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


NODES_AT_ONCE = 8192
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
        starts = range(0, len(nodes), NODES_AT_ONCE)
        parts = [_likeness(self.vectors_[nodes.demonstrations[start : start + NODES_AT_ONCE]]) for start in starts]
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


# --- by name -----------------------------------------------------------------------------------------------------

SELECTORS = ("random", "bm25", "neighbours", "diverse", "utility", "adoror")


def make_selector(name: str, seed: int = 0, **settings: Any) -> Selector:
    """The selector of a name.

    Args:
        name: One of `SELECTORS`.
        seed: Of what is drawn: the weights of `random`, the training of `utility` and `adoror`.
        settings: `relevance` of `diverse`; `TowerSettings` of `utility` and `adoror`.
    """
    if name in TOWERS:
        return Towers(name, replace(TOWERS[name], **settings), seed)
    if name == "random":
        return Random(seed, **settings)
    kinds: dict[str, type[Selector]] = {"bm25": SharedWords, "neighbours": Neighbours, "diverse": Diverse}
    if name not in kinds:
        raise UnknownName("selector", name, SELECTORS)
    return kinds[name](**settings)


AUTO = "auto"

Make = Callable[[str], Selector]


@dataclass(frozen=True)
class Tried:
    """Result of one selector.

    Attributes:
        name: Of the selector.
        targets: (Q,) the target of the set that it put first, for each example; for `random`, the mean of all that
            were tried.
        folds: The selectors as they were fitted without each fold; one that does not learn is the same in all.
    """

    name: str
    targets: Floats
    folds: Sequence[Selector]


def try_selectors(
    library: Library, pairs: Pairs, fold: Indices, make: Make, names: Sequence[str] = SELECTORS
) -> list[Tried]:
    """Each selector on examples of which it has not learned.

    Args:
        library: What can be shown.
        pairs: What was tried; inputs are the library's examples.
        fold: (Q,) the fold of each input.
        make: Makes a selector by its name.
        names: Which are tried.
    """
    return [_tried(name, library, pairs, fold, make) for name in names]


def _tried(name: str, library: Library, pairs: Pairs, fold: Indices, make: Make) -> Tried:
    fitted = _without_each(make, name, library, pairs, fold)
    targets = np.full(len(pairs.texts), np.nan)
    for query in range(len(pairs.texts)):
        rows = pairs.of_query(query)
        if not len(rows):
            continue
        if name == SELECTORS[0]:
            targets[query] = pairs.target[rows].mean()
            continue
        selector, nodes = fitted[fold[query]], pairs.nodes.take(rows)
        weights = selector.weights(Query(pairs.queries[query], pairs.texts[query]), selector.prepare(nodes))
        best = np.flatnonzero(weights >= weights.max())
        targets[query] = pairs.target[rows[best]].mean()
    return Tried(name, targets, fitted)


def _without_each(make: Make, name: str, library: Library, pairs: Pairs, fold: Indices) -> list[Selector]:
    """The selector as it is fitted without each fold: only once, where it does not learn from pairs."""
    count, selector = int(fold.max()) + 1, make(name)
    if not selector.needs_pairs:
        return [selector.fit(library)] * count
    return [make(name).fit(library, pairs.take(np.flatnonzero(fold[pairs.query] != each))) for each in range(count)]


def simplest(tried: Sequence[Tried], groups: Sequence[str]) -> Tried:
    """The simplest selector that is not worse: its mean target is within one standard error of the best one's.

    `tried` comes in the order of simplicity. The standard error is that of the mean difference over groups.
    """
    best = max(tried, key=lambda each: (np.nanmean(each.targets), -tried.index(each)))
    for each in tried:
        behind, error = _difference(best, each, groups)
        if behind <= error:
            return each
    return best


def _difference(one: Tried, other: Tried, groups: Sequence[str]) -> tuple[float, float]:
    """The mean difference of two selectors' targets, and its standard error over groups."""
    names, place = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    differences = one.targets - other.targets
    known = np.isfinite(differences)
    count = np.bincount(place[known], minlength=len(names))
    means = np.bincount(place[known], differences[known], minlength=len(names))[count > 0] / count[count > 0]
    if len(means) < 2:
        return float(np.nanmean(differences)), 0.0
    return float(np.nanmean(differences)), float(means.std(ddof=1) / np.sqrt(len(means)))


def rows_of(tried: Sequence[Tried], chosen: str, groups: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """One row per selector: the mean target of its picks and the gain over random ones, with 95 % intervals."""
    base = tried[0].targets
    rows = []
    for each in tried:
        known = np.isfinite(each.targets) & np.isfinite(base)
        clusters = Clusters(np.asarray(groups, dtype=object)[known])
        counts = clusters.counts(DRAWS, seed)
        sizes = counts @ clusters.sizes
        row: dict[str, Any] = {"selector": each.name, "chosen": each.name == chosen}
        for name, values in (("target", each.targets), ("gain", each.targets - base)):
            drawn = interval((counts @ clusters.sums(values[known][:, None]))[:, 0] / sizes)
            row |= {name: float(values[known].mean()), f"{name}_low": drawn.low, f"{name}_high": drawn.high}
        rows.append(row)
    return rows


def check_towers(selector: str, settings: Mapping[str, Any]) -> None:
    """Refuse, before anything is paid for, what cannot be trained.

    Raises:
        UnknownName: No selector is called so, or the towers have no such setting.
        BadInput: A setting has a value that cannot be.
        MissingExtra: JAX is not installed.
    """
    if selector not in (*SELECTORS, AUTO):
        raise UnknownName("selector", selector, (*SELECTORS, AUTO))
    known = [each.name for each in fields(TowerSettings)]
    for name in settings:
        if name not in known:
            raise UnknownName("setting of in-context: towers", name, known)
    try:
        given = TypeAdapter(TowerSettings).validate_json(
            json.dumps({**asdict(TOWERS["adoror"]), **settings}, default=str), strict=True
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(f"in-context: towers: {first['loc'][0]}: {first['msg']}, got {first['input']!r}") from None
    if given.width is not None and given.width % given.heads:
        raise BadInput(f"in-context: towers: width {given.width} cannot be shared by {given.heads} heads")
    if selector == AUTO or selector in TOWERS:
        import accord.methods.in_context.tower_training  # noqa: F401 - says how to install what it needs
