"""Nodes that are good and differ: the greedy search for the optimal subgraph (ADOROR, section 4.4, algorithm 2)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from accord.evaluators.in_context.nodes import Floats, Indices, Nodes

Edges = Literal["sum", "mean"]


def greedy_subgraph(weights: Floats, nodes: Nodes, size: int = 5, edges: Edges = "sum") -> list[int]:
    """The heaviest node, then each time the one that adds most to those chosen; of equals the first.

        W_e(i, j) = 1 - |D_i ∩ D_j|/k                    (eq. 7)
        Q(G', i)  = Σ_j 2·W_e·W_v(i) / (W_e + W_v(i))    (eq. 8), 0 where both are 0

    Args:
        weights: (N,) W_v, in [0, 1].
        nodes: N nodes; the order of their demonstrations does not matter.
        size: How many to choose; all of them where there are no more.
        edges: `sum` is eq. 8. `mean` is what the authors' code does: weights are divided by the largest, the prompt
            counts as an element of the set, and one harmonic mean is taken, with 1 - the mean overlap.

    Returns:
        Rows of the chosen nodes, in the order chosen.
    """
    if not len(nodes) or size < 1:
        return []
    added = _Sum(weights, nodes) if edges == "sum" else _Mean(weights, nodes)
    chosen = [int(np.argmax(weights))]
    free = np.ones(len(nodes), dtype=bool)
    while len(chosen) < min(size, len(nodes)):
        free[chosen[-1]] = False
        chosen.append(int(np.argmax(np.where(free, added.after(chosen[-1]), -np.inf))))
    return chosen


class _Sum:
    """Q of every node after each choice: a choice adds its own term."""

    def __init__(self, weights: Floats, nodes: Nodes) -> None:
        self._weights, self._nodes = weights, nodes
        self._total = np.zeros(len(nodes))

    def after(self, row: int) -> Floats:
        shared = _shared(self._nodes, row)
        self._total += _harmonic(1 - shared / self._nodes.demonstrations.shape[1], self._weights)
        return self._total


class _Mean:
    """The same as the authors' code has it."""

    def __init__(self, weights: Floats, nodes: Nodes) -> None:
        self._weights = weights / (weights.max() or 1.0)
        self._nodes = nodes
        self._shared = np.zeros(len(nodes), dtype=np.intp)
        self._choices = 0

    def after(self, row: int) -> Floats:
        self._choices += 1
        self._shared += _shared(self._nodes, row) + (self._nodes.prompt == self._nodes.prompt[row])
        elements = self._nodes.demonstrations.shape[1] + 1
        return _harmonic(1 - self._shared / (elements * self._choices), self._weights)


def _shared(nodes: Nodes, row: int) -> Indices:
    """(N,) |D_i ∩ D_row|."""
    member = np.zeros(int(nodes.demonstrations.max(initial=0)) + 1, dtype=np.intp)
    member[nodes.demonstrations[row]] = 1
    return np.asarray(member[nodes.demonstrations].sum(axis=1))


def _harmonic(a: Floats, b: Floats) -> Floats:
    total = a + b
    return np.asarray(np.divide(2 * a * b, total, out=np.zeros_like(total), where=total > 0))
