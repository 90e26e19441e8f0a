"""Sets of demonstrations with a prompt (nodes): random ones, what they are worth (algorithm 1), the subgraph (2).

Beyond the paper, algorithm 1 shows each drawn set with all prompts and before several inputs, so that a prefix cache
shares its reading; and no demonstration comes from the input's own group (another reply to the same turns, another turn
of the same conversation), since no such example will stand beside a new input.
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

from accord.edges import BadInput
from accord.evidence import Settings
from accord.methods.in_context.prompt_inversion import TaskPrompt
from accord.methods.in_context.scoring_requests import UNREADABLE, Asked, Counts, Reading, score_each
from accord.methods.in_context.template import Examples, PromptTemplate, unit
from accord.models import Failure, PromptFlow
from accord.statistics import DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate, Question, Registry

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LEAST_TARGET = float(np.exp(-1.0))
"""The target of a reply without a score: as far from any person's as can be."""


@dataclass(frozen=True)
class Library:
    """n rated examples and ℓ prompts: the training set, and P_S of section 4.2.

    Attributes:
        vectors: (n, h) unit vectors of the examples' texts, without their scores.
        scores: (n,) people's mean scores, on [0, 1].
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
    """An input to be scored: its text, and the text's (h,) unit vector."""

    vector: Vectors
    text: str


@dataclass(frozen=True)
class Pairs:
    """P observations of a scorer on Q inputs whose scores are known (algorithm 1).

    Attributes:
        queries: (Q, h) unit vectors of the inputs' texts.
        texts: Q texts.
        query: (P,) which input.
        nodes: P nodes: what the scorer was shown.
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
    """ℓ·`each` (ζ) random ordered sets of k different examples, those of the first prompt first; all orders alike.

    Raises:
        BadInput: There are fewer than k examples.
    """
    if len(examples) < k:
        raise BadInput(f"{k} demonstrations need at least {k} examples; got {len(examples)}. Show fewer.")
    count = prompts * each
    drawn = np.empty((count, k), dtype=np.intp)
    for column in range(k):  # by rank among the examples that are left, which each smaller chosen one moves up by one
        place = rng.integers(len(examples) - column, size=count)
        for taken in np.sort(drawn[:, :column], axis=1).T:
            place += place >= taken
        drawn[:, column] = place
    return Nodes(np.asarray(examples, dtype=np.intp)[drawn], np.repeat(np.arange(prompts), each))


# --- algorithm 1 ----------------------------------------------------------------------------------------------------


def pair_draws(
    rng: np.random.Generator, groups: Sequence[str], prompts: int, k: int, each: int, together: int
) -> tuple[Indices, Nodes]:
    """Draw the pairs to try: for every input and each of ℓ prompts, `each` (γ) random sets of k demonstrations.

    An input is shown no example of its own group; `together` inputs share a set.

    Returns:
        (P,) the input of each pair, and its node; P = n·ℓ·γ.

    Raises:
        BadInput: Beside some input there are fewer than k examples to show.
    """
    _, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    query: list[int] = []
    sets: list[Indices] = []
    task: list[int] = []
    for block in _blocks(rng.permutation(len(group)), group, k, together):
        others = np.flatnonzero(~np.isin(group, group[block]))
        for _ in range(each):
            shown = rng.permutation(others)[:k]
            for prompt in range(prompts):
                query += block
                task += [prompt] * len(block)
                sets += [shown] * len(block)
    return np.array(query, dtype=np.intp), Nodes(np.array(sets, dtype=np.intp), np.array(task, dtype=np.intp))


def _blocks(order: Indices, group: Indices, k: int, together: int) -> list[list[int]]:
    """Inputs in blocks of `together`; single ones where too few examples are left beside a whole block."""
    blocks: list[list[int]] = []
    for start in range(0, len(order), together):
        block = order[start : start + together].tolist()
        is_possible = (~np.isin(group, group[block])).sum() >= k
        blocks += [block] if is_possible else [[one] for one in block]
    if np.bincount(group).max(initial=0) > len(group) - k:
        raise BadInput(
            f"beside some example there are fewer than {k} others to show that are not of its own conversation or "
            f"context; rate more conversations, or show fewer: in-context: {{demonstrations: {max(k - 1, 1)}}}"
        )
    return blocks


def try_pairs(
    wording: PromptTemplate,
    examples: Examples,
    tasks: Sequence[TaskPrompt],
    query: Indices,
    nodes: Nodes,
    counts: Counts,
) -> PromptFlow[tuple[Indices, Floats]]:
    """Ask about every pair; which pairs were answered, and their targets exp(-|y - ŷ|) (eq. 6) with y on [0, 1]."""
    asked = [
        Asked(tuple(examples.all[place] for place in shown), tasks[task].text, examples.all[row].sample)
        for row, shown, task in zip(query.tolist(), nodes.demonstrations.tolist(), nodes.prompt.tolist(), strict=True)
    ]
    readings = yield from score_each(wording, asked, counts)
    truth = examples.unit[query]
    targets = [target(reading, true, wording.question) for reading, true in zip(readings, truth, strict=True)]
    kept = np.array([place for place, each in enumerate(targets) if each is not None], dtype=np.intp)
    return kept, np.array([each for each in targets if each is not None])


def target(reading: Reading | Failure, truth: float, question: Question) -> float | None:
    """exp(-|y - ŷ|) (eq. 6) of scores on [0, 1]; `None` for a request that failed for a passing reason."""
    if isinstance(reading, Reading):
        return float(np.exp(-abs(truth - float(unit(np.array(reading.value), question)))))
    return LEAST_TARGET if reading.reason in UNREADABLE else None


# --- algorithm 2 ----------------------------------------------------------------------------------------------------


def greedy_subgraph(weights: Floats, nodes: Nodes, size: int = 5) -> list[int]:
    """The heaviest node, then each time the one that adds most to those chosen; of equals the first.

        W_e(i, j) = 1 - |D_i ∩ D_j|/k                    (eq. 7)
        Q(G', i)  = Σ_j 2·W_e·W_v(i) / (W_e + W_v(i))    (eq. 8), 0 where both are 0

    Args:
        weights: (N,) W_v, in [0, 1].
        nodes: N nodes; the order of their demonstrations does not matter.
        size: How many to choose; all of them where there are no more.

    Returns:
        Rows of the chosen nodes, in the order chosen.
    """
    if not len(nodes) or size < 1:
        return []
    k = nodes.demonstrations.shape[1]
    gained, free = np.zeros(len(nodes)), np.ones(len(nodes), dtype=bool)
    chosen = [int(np.argmax(weights))]
    while len(chosen) < min(size, len(nodes)):
        free[chosen[-1]] = False
        edges = 1 - shared_with(nodes, chosen[-1]) / k
        total = edges + weights
        gained += np.divide(2 * edges * weights, total, out=np.zeros_like(total), where=total > 0)
        chosen.append(int(np.argmax(np.where(free, gained, -np.inf))))
    return chosen


def shared_with(nodes: Nodes, row: int) -> Indices:
    """(N,) |D_i ∩ D_row|."""
    member = np.zeros(int(nodes.demonstrations.max(initial=0)) + 1, dtype=np.intp)
    member[nodes.demonstrations[row]] = 1
    return np.asarray(member[nodes.demonstrations].sum(axis=1))


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
    target: Estimate
    gain: Estimate


def selector_figures(tried: Sequence[Tried], chosen: str, groups: Sequence[str], seed: int) -> list[SelectorFigures]:
    """The figures of each selector; the first one is what the others gain over."""
    base, found = tried[0].targets, []
    for each in tried:
        known = np.isfinite(each.targets) & np.isfinite(base)
        clusters = Clusters(np.asarray(groups, dtype=object)[known])
        counts = clusters.counts(DRAWS, seed)
        figures = []
        for values in (each.targets[known], (each.targets - base)[known]):
            drawn = (counts @ clusters.sums(values[:, None]))[:, 0] / (counts @ clusters.sizes)
            figures.append(estimate_from_draws(float(values.mean()), drawn))
        found.append(SelectorFigures(each.name, each.name == chosen, *figures))
    return found
