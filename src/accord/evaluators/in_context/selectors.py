"""The selectors by name, the simplest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accord.errors import UnknownName
from accord.evaluators.in_context.learned import TOWERS, Towers
from accord.evaluators.in_context.retrieval import Diverse, Neighbours, Random, SharedWords
from accord.evaluators.in_context.selector import Selector

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
