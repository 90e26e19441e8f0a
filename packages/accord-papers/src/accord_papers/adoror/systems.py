"""The paper's comparison systems as plug-ins: selectors by words and by diversity, ablations, the systems of table 1.

They are written against the public contract alone (docs/plugins.md). `registered` registers the selectors `bm25`,
`diverse` and `utility`, the rivals of table 1 by the paper's names, and `prompt@N` for each tried prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import log
from typing import Self

import numpy as np

from accord.evidence import counted_stems, pieces
from accord.methods import (
    Selector,
    at_random,
    rivals,
    selectors,
)
from accord.methods.in_context.experiment import (
    FEW_SHOT,
    ZERO_SHOT,
    Choose,
    InContextTraining,
)
from accord.methods.in_context.prompt_assembly import shared_with
from accord.methods.in_context.scoring_requests import ScoreRequest
from accord.methods.in_context.selectors import (
    ExampleLibrary,
    Floats,
    Neighbours,
    Nodes,
    Pairs,
    PreparedNodes,
    Query,
    TowerSettings,
    Vectors,
    highest,
    make_selector,
)
from accord.methods.in_context.source import IN_CONTEXT
from accord.methods.in_context.tower_selector import (
    PARTS,
    TowerSelector,
)
from accord.values import Sample

ADOROR = "ADOROR"
NAMES = {ZERO_SHOT: "Human-P (z.s)", FEW_SHOT: "Human-P (few)", IN_CONTEXT: ADOROR}
"""This product's names of systems, as table 1 calls them."""
TABLE_1 = (
    ZERO_SHOT, FEW_SHOT, "Auto-P-Random", "Auto-P-Selected", "Auto-P-Selected with BM25",
    "Auto-P-Selected with neighbours", "Auto-P-Selected-Ensemble", "ADOROR w/o subgraph",
)  # fmt: skip
"""The rivals of ADOROR in table 1."""

# --- selectors ------------------------------------------------------------------------------------------------------

K1, B = 1.5, 0.75
NODES_AT_ONCE = 8192
"""Nodes whose pairs of demonstrations are compared together."""


class Bm25:
    """Okapi BM25 over stems (Robertson & Zaragoza, 2009): n texts, ready to be compared with others."""

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


class SharedWords(Selector):
    """Examples that share rare words with the input (BM25)."""

    cost = 1

    def fit(self, library: ExampleLibrary, pairs: Pairs | None = None) -> Self:
        """Count the library's words."""
        self.index_ = Bm25(library.texts)
        return self

    def weights(self, query: Query, prepared: PreparedNodes) -> Floats:
        """(N,) mean BM25 of a set's demonstrations, over the largest of any example; 0 where no word is shared."""
        scores = self.index_.scores(query.text)
        share = scores / (scores.max(initial=0.0) or 1.0)
        return np.asarray(share[prepared.nodes.demonstrations].mean(axis=1))

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
        """The k examples with the largest BM25."""
        return highest(self.index_.scores(query.text), k, left_out)


class Diverse(Selector):
    """Near examples that differ from each other: maximal marginal relevance (Carbonell & Goldstein, 1998).

    Args:
        seed: Not used.
        towers: Not used.
        relevance: λ, how much nearness to the input counts; 1 - λ is for distance within the set.
    """

    cost = 3

    def __init__(self, seed: int = 0, towers: TowerSettings | None = None, relevance: float = 0.7) -> None:
        super().__init__(seed, towers)
        self.relevance = relevance

    def fit(self, library: ExampleLibrary, pairs: Pairs | None = None) -> Self:
        """Keep the library's vectors."""
        self.vectors_, self.near_ = library.vectors, Neighbours().fit(library)
        return self

    def prepare(self, nodes: Nodes) -> PreparedNodes:
        """(N,) mean (1 + cos)/2 of each set's pairs of demonstrations; with one demonstration 0."""
        starts = range(0, len(nodes), NODES_AT_ONCE)
        parts = [_likeness(self.vectors_[nodes.demonstrations[start : start + NODES_AT_ONCE]]) for start in starts]
        return PreparedNodes(nodes, np.concatenate(parts) if parts else np.zeros(0))

    def weights(self, query: Query, prepared: PreparedNodes) -> Floats:
        """(N,) λ · the set's mean nearness + (1 - λ) · (1 - its mean likeness)."""
        assert prepared.known is not None
        near = self.near_.weights(query, prepared)
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


def _likeness(sets: Vectors) -> Floats:
    """(N,) mean (1 + cos)/2 of the pairs in (N, k, h) sets, from |Σ v|² = k + Σ_{i≠j} cos_ij."""
    k = sets.shape[1]
    if k < 2:
        return np.zeros(len(sets))
    total = sets.sum(axis=1, dtype=float)
    cosine = ((total**2).sum(axis=1) - (sets.astype(float) ** 2).sum(axis=(1, 2))) / (k * (k - 1))
    return np.asarray(np.clip((1 + cosine) / 2, 0, 1))


def utility(seed: int, towers: TowerSettings) -> TowerSelector:
    """The towers without the transformer: embeddings pooled as they are."""
    made = TowerSelector(seed, towers.model_copy(update={"layers": 0}))
    made.cost = 5
    return made


def without(*parts: str) -> Callable[[int, TowerSettings], TowerSelector]:
    """Return the towers without some of their inputs."""
    return partial(TowerSelector, parts=PARTS - set(parts))


ABLATIONS: Mapping[str, Callable[[int, TowerSettings], Selector]] = {
    **{f"adoror without {part}": without(part) for part in ("relative", "absolute", "scores")},
    "adoror without positions": without("relative", "absolute"),
}


def subgraph_of_means(weights: Floats, nodes: Nodes, size: int = 5) -> list[int]:
    """Algorithm 2 as the authors' code has it: rows of the chosen nodes.

    Weights are divided by the largest, the prompt counts as an element of the set, and one harmonic mean is taken, with
    1 - the mean overlap.
    """
    if not len(nodes) or size < 1:
        return []
    scaled, elements = weights / (weights.max() or 1.0), nodes.demonstrations.shape[1] + 1
    shared, free = np.zeros(len(nodes), dtype=np.intp), np.ones(len(nodes), dtype=bool)
    chosen = [int(np.argmax(weights))]
    while len(chosen) < min(size, len(nodes)):
        row = chosen[-1]
        free[row] = False
        shared += shared_with(nodes, row) + (nodes.prompt == nodes.prompt[row])
        edges = 1 - shared / (elements * len(chosen))
        total = edges + scaled
        value = np.divide(2 * edges * scaled, total, out=np.zeros_like(total), where=total > 0)
        chosen.append(int(np.argmax(np.where(free, value, -np.inf))))
    return chosen


# --- the systems of table 1 -----------------------------------------------------------------------------------------


def random_prompt(result: InContextTraining) -> Choose | None:
    """A written prompt drawn at random, with random examples."""
    written = [task for task in result.candidates if task.examples]
    rng = np.random.default_rng([result.seed, 4])
    return at_random(result.recipe, [written[int(rng.integers(len(written)))]]) if written else None


def best_prompt(result: InContextTraining) -> Choose:
    """The best prompt, with random examples."""
    return at_random(result.recipe, result.recipe.tasks[:1])


def all_prompts(result: InContextTraining) -> Choose:
    """Every prompt that is kept, with random examples."""
    return at_random(result.recipe, result.recipe.tasks)


def retrieved_by(name: str, result: InContextTraining) -> Choose:
    """The very set that a selector retrieves, with the best prompt."""
    recipe = result.recipe
    selector = make_selector(name, result.seed).fit(recipe.library, result.pairs)

    def choose(sample: Sample, query: Query, left_out: Collection[int]) -> list[ScoreRequest]:
        places = selector.retrieved(query, recipe.sizes.k, left_out) or ()
        return [ScoreRequest(tuple(recipe.examples[place] for place in places), recipe.tasks[0].text, sample)]

    return choose


def one_request(result: InContextTraining) -> Choose:
    """The heaviest set alone."""
    recipe = result.recipe
    return replace(recipe, sizes=replace(recipe.sizes, ensemble=1)).requests


def selected_by(name: str, result: InContextTraining) -> Choose | None:
    """The method with another selector; `None` for the one that is used."""
    recipe = result.recipe
    if name == recipe.selector.name:
        return None
    return replace(recipe, selector=result.made(name).fit(recipe.library, result.pairs)).requests


def tried_prompt(number: int, result: InContextTraining) -> Choose | None:
    """The tried prompt of a rank, with random examples; `None` if fewer were tried."""
    return at_random(result.recipe, [result.search[number][0]]) if number < len(result.search) else None


SELECTORS: Mapping[str, Callable[[int, TowerSettings], Selector]] = {
    "bm25": SharedWords,
    "diverse": Diverse,
    "utility": utility,
}
RIVALS: Mapping[str, Callable[[InContextTraining], Choose | None]] = {
    "Auto-P-Random": random_prompt,
    "Auto-P-Selected": best_prompt,
    "Auto-P-Selected with BM25": partial(retrieved_by, "bm25"),
    "Auto-P-Selected with neighbours": partial(retrieved_by, "neighbours"),
    "Auto-P-Selected-Ensemble": all_prompts,
    "ADOROR w/o subgraph": one_request,
}


@contextmanager
def registered() -> Iterator[None]:
    """Register the selectors and systems while the block runs; `selector: auto` elsewhere does not compare them."""
    for selector_name, selector in SELECTORS.items():
        selectors.register(selector_name)(selector)
    for rival_name, rival in RIVALS.items():
        rivals.register(rival_name)(rival)
    rivals.family("ADOROR by", lambda name: partial(selected_by, name))
    rivals.family("prompt", lambda number: partial(tried_prompt, int(number)))
    try:
        yield
    finally:
        for selector_name in SELECTORS:
            selectors.forget(selector_name)
        for rival_name in RIVALS:
            rivals.forget(rival_name)
