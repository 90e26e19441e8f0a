"""Other ways to choose from the same pool (RUBICON, section 4.3.1): what the selection has to beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.learned_rubric.selection import Budget, Candidates, Pool, select
from accord.evaluators.learned_rubric.sharpness import TOP, Flags, Floats

PULLS = 5
"""Of the bandit: batches that it may look at, for each rubric of the pool."""
BATCH = 10
"""Conversations of one batch."""


def reward(pool: Pool) -> Floats:
    """(P,) each rubric's score: the sum over conversations of what it adds, less the bad ones' share of it.

    As the paper puts it, the sum of its scores over a batch: Σ y·eval with y = 1 for good and −1 for bad ones. Unlike
    a difference of means it favours what is true of every conversation where good ones are more.
    """
    return np.asarray(pool.points @ np.where(pool.good, 1.0, -1.0))


def brute_force(pool: Pool, budget: Budget) -> list[int]:
    """The best rubrics of each class one by one, whatever they are worth together."""
    return _best(reward(pool), pool.sat, budget)


def correctness_alone(pool: Pool, budget: Budget) -> list[int]:
    """Algorithm 1 with α = 0."""
    return select(Candidates(pool), budget, 0.0)


def everything(pool: Pool, budget: Budget) -> list[int]:
    """The whole pool, whatever the budget."""
    return list(range(len(pool.sat)))


def ucb(pool: Pool, budget: Budget, seed: int = 0, pulls: int = PULLS) -> list[int]:
    """UCB1 over the rubrics, each pull a random batch: as if evaluations were dear (Pryzant et al., 2023).

    A pull's reward is Σ y·eval over the batch, brought to [0, 1]; pulls go to the largest mean + √(2·ln t / n).
    """
    rng = np.random.default_rng(seed)
    size, conversations = len(pool.sat), len(pool.good)
    signs = np.where(pool.good, 1.0, -1.0)
    totals, counts = np.zeros(size), np.zeros(size)
    for pull in range(size * pulls):
        waiting = np.flatnonzero(counts == 0)
        bonus = np.sqrt(2 * np.log(pull + 1) / np.maximum(counts, 1))
        arm = int(waiting[0]) if len(waiting) else int((totals / counts + bonus).argmax())
        batch = rng.choice(conversations, size=min(BATCH, conversations), replace=False)
        mean = float(pool.points[arm, batch] @ signs[batch]) / (len(batch) * TOP)
        totals[arm] += (mean + 1) / 2
        counts[arm] += 1
    return _best(totals / np.maximum(counts, 1), pool.sat, budget)


POLICIES: Mapping[str, Callable[[Pool, Budget], list[int]]] = {
    "correctness": correctness_alone,
    "brute-force": brute_force,
    "ucb": ucb,
    "all": everything,
}
"""The baselines, by name."""
RUBICON = "rubicon"
Choose = Callable[[Candidates, Budget, float], list[int]]


def chooser(policy: str, seed: int) -> Choose:
    """How a policy chooses from candidates, within a budget, at an α that only `rubicon` looks at."""
    if policy == RUBICON:
        return select
    baseline = partial(ucb, seed=seed) if policy == "ucb" else POLICIES[policy]
    return lambda candidates, budget, _: baseline(candidates.pool, budget)


def _best(values: Floats, sat: Flags, budget: Budget) -> list[int]:
    """The rubrics with the largest values, so many of each class; the earlier of equals."""
    order: NDArray[np.intp] = np.argsort(-values, kind="stable")
    return [*order[sat[order]][: budget.sat].tolist(), *order[~sat[order]][: budget.dsat].tolist()]
