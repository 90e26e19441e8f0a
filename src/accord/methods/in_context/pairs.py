"""Algorithm 1: which demonstrations and prompt brought the model how near to what people said of an input.

Beyond the paper, each drawn set of demonstrations is shown with all prompts and before several inputs, so that its
reading is shared by a prefix cache; and no demonstration comes from the input's own group (another reply to the same
turns, another turn of the same conversation), since no such example will stand beside a new input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accord.methods.in_context.asking import UNREADABLE, Asked, Counts, Reading, score_each
from accord.methods.in_context.examples import Examples, unit
from accord.methods.in_context.inversion import TaskPrompt
from accord.methods.in_context.nodes import Nodes, Pairs
from accord.methods.in_context.template import PromptTemplate
from accord.models import Failure, PromptFlow
from accord.values import BadInput, Question

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LEAST_TARGET = float(np.exp(-1.0))
"""The target of a reply without a score: as far from any person's as can be."""


def pair_draws(
    rng: np.random.Generator,
    groups: Sequence[str],
    showable: Sequence[int],
    prompts: int,
    k: int,
    each: int,
    together: int,
) -> tuple[Indices, Nodes]:
    """Draw the pairs to try: for every input and prompt, `each` (γ) random sets of k demonstrations.

    Args:
        rng: Of the draws.
        groups: (n,) the examples' groups; an input is shown none of its own.
        showable: Examples that can be demonstrations.
        prompts: ℓ.
        k: Demonstrations of a set.
        each: γ.
        together: Inputs that share a set.

    Returns:
        (P,) the input of each pair, and its node; P = n·ℓ·γ.

    Raises:
        BadInput: Beside some input there are fewer than k examples to show.
    """
    named, allowed = np.asarray(groups, dtype=object), np.asarray(showable, dtype=np.intp)
    query: list[int] = []
    sets: list[Indices] = []
    task: list[int] = []
    for block in _blocks(rng.permutation(len(groups)), named, allowed, k, together):
        free = _outside(block, named, allowed)
        for _ in range(each):
            shown = rng.permutation(free)[:k]
            for prompt in range(prompts):
                query += block
                task += [prompt] * len(block)
                sets += [shown] * len(block)
    return np.array(query, dtype=np.intp), Nodes(np.array(sets, dtype=np.intp), np.array(task, dtype=np.intp))


def _blocks(order: Indices, groups: NDArray[np.object_], showable: Indices, k: int, together: int) -> list[list[int]]:
    """Inputs in blocks of `together`; smaller ones where beside a whole block too few examples are left."""
    blocks: list[list[int]] = []
    for start in range(0, len(order), together):
        block = order[start : start + together].tolist()
        if len(_outside(block, groups, showable)) >= k:
            blocks.append(block)
        else:
            blocks += [[one] for one in block]
    for block in blocks:
        if len(_outside(block, groups, showable)) < k:
            raise BadInput(
                f"beside some example there are fewer than {k} others to show that are not of its own conversation or "
                f"context; rate more conversations, or show fewer: in-context: {{demonstrations: {max(k - 1, 1)}}}"
            )
    return blocks


def _outside(block: Sequence[int], groups: NDArray[np.object_], showable: Indices) -> Indices:
    return showable[~np.isin(groups[showable].astype(str), groups[list(block)].astype(str))]


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


def pairs_of(
    vectors: NDArray[np.float32], texts: Sequence[str], query: Indices, nodes: Nodes, targets: Floats
) -> Pairs:
    """The pairs that were answered, as a selector learns from them; inputs are the examples themselves."""
    return Pairs(vectors, tuple(texts), query, nodes, targets)
