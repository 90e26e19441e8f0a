"""The interface of a selector: how much each demonstration set and prompt promises for an input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from accord.evaluators.in_context.nodes import Floats, Library, Nodes, Pairs, Query

Arrays = dict[str, NDArray[Any]]


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
        name: What it is chosen by.
        needs_pairs: Whether it learns from a judge's observed errors.
    """

    name: str
    needs_pairs: bool = False

    @abstractmethod
    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Take the examples in, and learn from the pairs where that is needed."""

    @abstractmethod
    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) W_v of each node for an input, in [0, 1]."""

    def prepare(self, nodes: Nodes) -> Prepared:
        """What depends on nodes alone: computed once, used for every input."""
        return Prepared(nodes)

    def retrieved(self, query: Query, k: int, left_out: Collection[int] = ()) -> tuple[int, ...] | None:
        """The k examples that retrieval would show outright, the most similar last; `None` from what retrieves none."""
        return None

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays, without the library."""
        return {}, {}

    def restore(self, library: Library, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Be as after `fit` on the library, from what `state` said."""
        return self.fit(library)
