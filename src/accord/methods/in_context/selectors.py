"""Selectors of demonstrations and prompt for an input: contract, simple ones, and their comparison.

A node is a set of demonstrations with a prompt. Algorithm 1 observes random nodes; a selector weighs nodes; algorithm 2
picks a diverse subgraph. The result of each selector on the observed nodes needs no request, so the simplest selector
that is not worse is used.

Beyond the paper, algorithm 1 shows each drawn set with all prompts and before several inputs, so that a prefix cache
can reuse it. No demonstration comes from the input's own context (another reply to the same turns, another turn of the
same conversation), because no such example will exist for a new input.
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
from accord.evidence import SourceSettings
from accord.methods.in_context.prompt_inversion import TaskPrompt
from accord.methods.in_context.score_parsing import UNREADABLE, ParsedScore
from accord.methods.in_context.scoring_requests import RequestCounts, ScoreRequest, score_each
from accord.methods.in_context.template import PromptTemplate, RatedExamples, unit
from accord.models import Failure, PromptFlow
from accord.statistics import DRAWS, Clusters, clustered_mean, estimate_from_draws
from accord.values import Contract, Estimate, Question, Registry

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LEAST_TARGET = float(np.exp(-1.0))
"""Target of a reply without a score: the largest possible error."""


@dataclass(frozen=True)
class ExampleLibrary:
    """n rated examples and ℓ prompts: the training set, and P_S of section 4.2.

    Attributes:
        vectors: (n, h) unit vectors of the examples' texts, without scores; h is 0 if nothing was embedded.
        scores: (n,) mean scores, on [0, 1].
        texts: n texts.
        prompts: (ℓ, h) unit vectors of the task prompts, best first.
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
        demonstrations: (N, k) examples in the order shown; the last one is next to the input.
        prompt: (N,) index of the prompt.
    """

    demonstrations: Indices
    prompt: Indices

    def __len__(self) -> int:
        return len(self.prompt)

    def take(self, rows: Indices | Sequence[int]) -> Nodes:
        """Return some of the nodes."""
        return Nodes(self.demonstrations[rows], self.prompt[rows])

    def concat(self, other: Nodes) -> Nodes:
        """Append other nodes."""
        joined = np.concatenate([self.demonstrations, other.demonstrations])
        return Nodes(joined, np.concatenate([self.prompt, other.prompt]))

    def without(self, excluded: Collection[int]) -> Indices:
        """Return the rows of nodes without these examples."""
        contains_excluded = np.isin(self.demonstrations, np.fromiter(excluded, dtype=np.intp, count=len(excluded)))
        return np.flatnonzero(~contains_excluded.any(axis=1))


@dataclass(frozen=True)
class Query:
    """An input to score: its text, and the (h,) unit vector of the text."""

    vector: Vectors
    text: str


@dataclass(frozen=True)
class Pairs:
    """P observations of a scorer on Q inputs with known scores (algorithm 1).

    Attributes:
        queries: (Q, h) unit vectors of the inputs' texts.
        texts: Q texts.
        query: (P,) index of the input.
        nodes: P nodes shown to the scorer.
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
        """Return some of the observations of the same inputs."""
        return Pairs(self.queries, self.texts, self.query[rows], self.nodes.take(rows), self.target[rows])


def random_nodes(rng: np.random.Generator, examples: Sequence[int], prompts: int, k: int, each: int) -> Nodes:
    """Draw ℓ·`each` (ζ) ordered sets of k distinct examples, ordered by prompt; all orders are equally likely."""
    if len(examples) < k:
        raise BadInput(
            f"{k} demonstrations need at least {k} examples; got {len(examples)}. Lower in-context: demonstrations"
        )
    count = prompts * each
    drawn = np.empty((count, k), dtype=np.intp)
    for column in range(k):  # rank among the remaining examples; each smaller drawn one adds 1
        rank = rng.integers(len(examples) - column, size=count)
        for taken in np.sort(drawn[:, :column], axis=1).T:
            rank += rank >= taken
        drawn[:, column] = rank
    return Nodes(np.asarray(examples, dtype=np.intp)[drawn], np.repeat(np.arange(prompts), each))


# --- algorithm 1 ----------------------------------------------------------------------------------------------------


def pair_draws(
    rng: np.random.Generator, groups: Sequence[str], prompts: int, k: int, each: int, together: int
) -> tuple[Indices, Nodes]:
    """Draw the pairs to observe: for every input and each of ℓ prompts, `each` (γ) random sets of k demonstrations.

    An input gets no example of its own group; `together` inputs share a set. `BadInput` if k examples are not left.

    Returns:
        (P,) input of each pair, and its node; P = n·ℓ·γ.
    """
    _, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    query: list[int] = []
    sets: list[Indices] = []
    task: list[int] = []
    for block in _blocks(rng.permutation(len(group)), group, k, together):
        others = np.flatnonzero(~np.isin(group, group[block]))
        for _ in range(each):
            demonstrations = rng.permutation(others)[:k]
            for prompt in range(prompts):
                query += block
                task += [prompt] * len(block)
                sets += [demonstrations] * len(block)
    return np.array(query, dtype=np.intp), Nodes(np.array(sets, dtype=np.intp), np.array(task, dtype=np.intp))


def _blocks(order: Indices, group: Indices, k: int, together: int) -> list[list[int]]:
    """Return inputs in blocks of `together`; single ones if too few examples are outside a block's groups."""
    blocks: list[list[int]] = []
    for start in range(0, len(order), together):
        block = order[start : start + together].tolist()
        is_possible = (~np.isin(group, group[block])).sum() >= k
        blocks += [block] if is_possible else [[place] for place in block]
    if np.bincount(group).max(initial=0) > len(group) - k:
        raise BadInput(
            f"some example has fewer than {k} others outside its own conversation or context. Rate more "
            f"conversations, or show fewer: in-context: {{demonstrations: {max(k - 1, 1)}}}"
        )
    return blocks


def try_pairs(
    wording: PromptTemplate,
    examples: RatedExamples,
    tasks: Sequence[TaskPrompt],
    query: Indices,
    nodes: Nodes,
    counts: RequestCounts,
) -> PromptFlow[tuple[Indices, Floats]]:
    """Ask about every pair; return the answered rows and their targets exp(-|y - ŷ|) (eq. 6) with y on [0, 1]."""
    requests = [
        ScoreRequest(tuple(examples.all[place] for place in demonstrations), tasks[task].text, examples.all[row].sample)
        for row, demonstrations, task in zip(
            query.tolist(), nodes.demonstrations.tolist(), nodes.prompt.tolist(), strict=True
        )
    ]
    readings = yield from score_each(wording, requests, counts)
    truth = examples.unit[query]
    targets = [target(reading, true, wording.question) for reading, true in zip(readings, truth, strict=True)]
    answered = np.array([place for place, one in enumerate(targets) if one is not None], dtype=np.intp)
    return answered, np.array([one for one in targets if one is not None])


def target(reading: ParsedScore | Failure, truth: float, question: Question) -> float | None:
    """Return exp(-|y - ŷ|) (eq. 6) on [0, 1]; `None` for a temporary failure."""
    if isinstance(reading, ParsedScore):
        return float(np.exp(-abs(truth - float(unit(np.array(reading.value), question)))))
    return LEAST_TARGET if reading.reason in UNREADABLE else None


AUTO, CHANCE = "auto", "random"
"""`selector: auto`, and the baseline selector."""

Arrays = dict[str, NDArray[Any]]


class TowerSettings(SourceSettings):
    """Settings of the learned selector: two towers and their training."""

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
    # Measured on a synthetic corpus with all mechanisms, 5,760 pairs: correlation with utility on unseen inputs 0.75
    # without decay, 0.81 with decay, 0.80 with twice the rate; an easier one: 0.83 with a third, 0.89 with the whole.
    decay: float = Field(default=1.0, ge=0, allow_inf_nan=False, description="Weight decay; 0 is the published Adam.")

    @model_validator(mode="after")
    def _shared_by_heads(self) -> Self:
        if self.width is not None and self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        return self


@dataclass(frozen=True)
class PreparedNodes:
    """N nodes, with (N, …) precomputed values of a selector if it has any."""

    nodes: Nodes
    known: NDArray[Any] | None = None


class Selector(ABC):
    """Weighs demonstration sets and prompts for an input.

    Attributes:
        name: Registered name.
        cost: Order of preference in the comparison: 0 random, 1 to 4 retrieval, from 5 on trained.
        is_chance: True for the baseline, whose result is the mean of all observed sets.
        needs_pairs: True if it learns from observed errors of the scorer.
        needs_vectors: True if it compares texts by their vectors; without such a selector nothing is embedded.
    """

    name: str = ""
    cost: int = 2
    is_chance: ClassVar[bool] = False
    needs_pairs: ClassVar[bool] = False
    needs_vectors: ClassVar[bool] = True

    def __init__(self, seed: int = 0, towers: TowerSettings | None = None) -> None:
        self.seed, self.towers = seed, towers or TowerSettings()

    @abstractmethod
    def fit(self, library: ExampleLibrary, pairs: Pairs | None = None) -> Self:
        """Store the examples, and learn from the pairs if needed."""

    @abstractmethod
    def weights(self, query: Query, prepared: PreparedNodes) -> Floats:
        """Return (N,) W_v of each node for an input, in [0, 1]."""

    def check(self) -> None:
        """Check, before any request, that training is possible; `MissingExtra` if a package is not installed."""
        return

    def prepare(self, nodes: Nodes) -> PreparedNodes:
        """Return the part that depends on the nodes only, computed once for all inputs."""
        return PreparedNodes(nodes)

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...] | None:
        """Return the k retrieved examples, the most similar last; `None` for a selector without retrieval."""
        return None

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays, without the library."""
        return {}, {}

    def restore(self, library: ExampleLibrary, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Invert `state`: return the selector as after `fit` on the library."""
        return self.fit(library)


selectors: Registry[Callable[[int, TowerSettings], Selector]] = Registry(
    "selector",
    "accord.methods.in_context.tower_selector",
    contract=Contract.maker(
        Selector,
        "a subclass of accord.methods.Selector, or a function of a seed and the settings `towers` that makes one",
    ),
)
"""Selectors by name; `register` decorates a class, or a function of the seed and the settings `towers`."""


def make_selector(name: str, seed: int = 0, **towers: Any) -> Selector:
    """Return a selector by name, with the seed of its draws and its `TowerSettings`."""
    made = selectors.get(name)(seed, TowerSettings(**towers))
    made.name = name
    return made


def by_cost() -> list[str]:
    """Return the names of all selectors, the simplest first."""
    return sorted(selectors.names(), key=lambda name: (make_selector(name).cost, name))


@selectors.register(CHANCE)
class Random(Selector):
    """Random sets; the same text gets the same weights."""

    cost, is_chance, needs_vectors = 0, True, False

    def fit(self, library: ExampleLibrary, pairs: Pairs | None = None) -> Self:
        """Learn nothing."""
        return self

    def weights(self, query: Query, prepared: PreparedNodes) -> Floats:
        """Return (N,) uniform weights from the seed and the text."""
        text = int.from_bytes(sha256(query.text.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, text]).random(len(prepared.nodes))


@selectors.register("neighbours")
class Neighbours(Selector):
    """Examples near the input by the cosine of embeddings."""

    def fit(self, library: ExampleLibrary, pairs: Pairs | None = None) -> Self:
        """Store the library's vectors."""
        self.vectors_ = library.vectors
        return self

    def weights(self, query: Query, prepared: PreparedNodes) -> Floats:
        """Return the (N,) mean of (1 + cos)/2 over a set's demonstrations."""
        near = np.clip((1 + self.vectors_.astype(float) @ query.vector) / 2, 0, 1)
        return np.asarray(near[prepared.nodes.demonstrations].mean(axis=1))

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
        """Return the k nearest examples."""
        return highest(self.vectors_.astype(float) @ query.vector, k, left_out)


def highest(scores: Floats, k: int, left_out: Collection[int] = ()) -> tuple[int, ...]:
    """Return the k examples with the largest scores, in increasing order; the first wins in a tie."""
    order = [place for place in np.argsort(-scores, kind="stable").tolist() if place not in set(left_out)]
    return tuple(reversed(order[:k]))


# --- the contest ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SelectorTrial:
    """Result of one selector.

    Attributes:
        targets: (Q,) target of the set ranked first for each input; NaN without an observed set.
        folds: Selectors fitted without each fold; a selector that does not learn is the same in all.
    """

    name: str
    targets: Floats
    folds: Sequence[Selector]


def try_selector(
    name: str, make: Callable[[str], Selector], library: ExampleLibrary, pairs: Pairs, fold: Indices
) -> SelectorTrial:
    """Evaluate a selector on the library's examples as Q inputs, each by a model that did not learn from it."""
    count, selector = int(fold.max()) + 1, make(name)
    if selector.needs_pairs:
        parts = (pairs.take(np.flatnonzero(fold[pairs.query] != left_out)) for left_out in range(count))
        fitted = [make(name).fit(library, part) for part in parts]
    else:
        fitted = [selector.fit(library)] * count
    targets = np.full(len(pairs.texts), np.nan)
    for query in range(len(pairs.texts)):
        rows = np.flatnonzero(pairs.query == query)
        if len(rows) and not selector.is_chance:
            fold_selector, nodes = fitted[fold[query]], pairs.nodes.take(rows)
            asked = Query(pairs.queries[query], pairs.texts[query])
            weights = fold_selector.weights(asked, fold_selector.prepare(nodes))
            rows = rows[weights >= weights.max()]
        targets[query] = pairs.target[rows].mean() if len(rows) else np.nan
    return SelectorTrial(name, targets, fitted)


def simplest(tried: Sequence[SelectorTrial], groups: Sequence[str]) -> SelectorTrial:
    """Return the simplest selector whose mean target is within one standard error of the best one's.

    `tried` is ordered by simplicity. The standard error of the mean difference is clustered by group.
    """
    best = max(tried, key=lambda trial: (np.nanmean(trial.targets), -tried.index(trial)))
    return next(trial for trial in tried if trial is best or _is_near(best.targets - trial.targets, groups))


def _is_near(differences: Floats, groups: Sequence[str]) -> bool:
    """Return True if the mean of (Q,) differences is within its standard error over groups."""
    known = np.isfinite(differences)
    return bool(known.any()) and clustered_mean(differences[known], np.asarray(groups)[known]).is_within_error


@dataclass(frozen=True)
class SelectorFigures:
    """Mean target of a selector's picks, and its gain over random ones, with 95% intervals."""

    selector: str
    chosen: bool
    target: Estimate
    gain: Estimate


def selector_figures(
    tried: Sequence[SelectorTrial], chosen: str, groups: Sequence[str], seed: int
) -> list[SelectorFigures]:
    """Return the figures of each selector; gains are relative to the first one."""
    base, rows = tried[0].targets, []
    for trial in tried:
        known = np.isfinite(trial.targets) & np.isfinite(base)
        clusters = Clusters(np.asarray(groups, dtype=object)[known])
        counts = clusters.counts(DRAWS, seed)
        figures = []
        for values in (trial.targets[known], (trial.targets - base)[known]):
            drawn = (counts @ clusters.sums(values[:, None]))[:, 0] / (counts @ clusters.sizes)
            figures.append(estimate_from_draws(float(values.mean()), drawn))
        rows.append(SelectorFigures(trial.name, trial.name == chosen, *figures))
    return rows
