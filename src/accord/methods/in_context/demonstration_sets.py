"""Sets of demonstrations with a prompt (nodes): random ones, what they are worth (algorithm 1), the subgraph (2).

Beyond the paper, algorithm 1 shows each drawn set with all prompts and before several inputs, so that a prefix cache
shares its reading; and no demonstration comes from the input's own group (another reply to the same turns, another turn
of the same conversation), since no such example will stand beside a new input.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.methods.in_context.prompt_inversion import TaskPrompt
from accord.methods.in_context.rated_examples import Examples, unit
from accord.methods.in_context.score_parser import UNREADABLE, Reading
from accord.methods.in_context.scoring_requests import Asked, Counts, score_each
from accord.methods.in_context.template import PromptTemplate
from accord.models import Failure, PromptFlow
from accord.values import Question

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
