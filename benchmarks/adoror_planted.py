"""A planted world of demonstrations: what of the best possible choice each selector recovers, and what averaging saves.

`recovered` is (mean utility of the top node on unseen inputs - that of a random node) / (the best node's - that).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from adoror_systems import ABLATIONS, subgraph_of_means
from harness import Row

from accord.methods import (
    Floats,
    Nodes,
    Pairs,
    Selector,
    TowerSettings,
    by_cost,
    greedy_subgraph,
    random_nodes,
    selectors,
)
from accord.testing import MECHANISMS, PlantedUtility, planted_utility

ZETA, ZETA_QUICK = 512, 64
ABOUT: Mapping[str, Sequence[str]] = {
    "absolute": ("adoror without absolute", "adoror without positions"), "relative": ("adoror without relative",),
    "scores": ("adoror without scores",),
}  # fmt: skip
"""In a world of one mechanism only the ablations that are about it are tried."""
WORLDS: Mapping[str, Mapping[str, float]] = {"all": MECHANISMS, **{name: {name: 1.0} for name in MECHANISMS}}
SELECTORS = tuple(by_cost())
SYSTEMS: Mapping[str, Callable[[int, TowerSettings], Selector]] = {
    **{name: selectors.get(name) for name in SELECTORS}, **ABLATIONS,
}  # fmt: skip
SINGLE, RANDOM = "single", "5 at random"
SUBGRAPHS = {"subgraph": greedy_subgraph, "subgraph, edges mean": subgraph_of_means}
SMALL = TowerSettings(width=32, heads=2, feed_forward=64, epochs=20)
SIZE = 5


def planted_rows(seed: int, quick: bool) -> list[Row]:
    """Rows of every selector in every world; `quick` is a small one with all mechanisms.

    Returns:
        Rows with `world`, `system` and `recovered`, and for the world with all mechanisms rows with `absolute_error`:
        of ADOROR's best node, of the mean of its subgraph's five, of its five heaviest nodes and of five at random.
    """
    rows: list[Row] = []
    for name, mechanisms in ({"all": MECHANISMS} if quick else WORLDS).items():
        world = _world(seed, mechanisms, quick)
        systems = SYSTEMS if name == "all" else (*SELECTORS, *ABOUT.get(name, ()))
        pairs, nodes = world.pairs(seed=seed), _nodes(seed, world, quick)
        weights = {system: _weights(system, seed, world, pairs, nodes, quick) for system in systems}
        about = {"seed": seed, "world": name}
        rows += [
            {**about, "system": system, "recovered": _recovered(world, nodes, of)} for system, of in weights.items()
        ]
        if name == "all":
            errors = _errors(seed, world, nodes, weights["adoror"])
            rows += [{**about, "system": system, "absolute_error": error} for system, error in errors.items()]
    return rows


def _world(seed: int, mechanisms: Mapping[str, float], quick: bool) -> PlantedUtility:
    if quick:
        return planted_utility(seed, mechanisms, examples=120, unseen=40, topics=3, width=48)
    return planted_utility(seed, mechanisms)


def _nodes(seed: int, world: PlantedUtility, quick: bool) -> Nodes:
    examples, prompts = range(len(world.library)), len(world.library.prompts)
    return random_nodes(np.random.default_rng([seed, 1]), examples, prompts, 5, ZETA_QUICK if quick else ZETA)


def _weights(system: str, seed: int, world: PlantedUtility, pairs: Pairs, nodes: Nodes, quick: bool) -> Floats:
    """(Q, N) a selector's weights for the unseen inputs."""
    selector = SYSTEMS[system](seed, SMALL if quick else TowerSettings()).fit(world.library, pairs)
    prepared = selector.prepare(nodes)
    return np.stack([selector.weights(world.query(query), prepared) for query in world.unseen])


def _recovered(world: PlantedUtility, nodes: Nodes, weights: Floats) -> float:
    utility = np.stack([world.utility(query, nodes) for query in world.unseen])
    top = np.take_along_axis(utility, weights.argmax(axis=1)[:, None], axis=1)
    return float((top.mean() - utility.mean()) / (utility.max(axis=1).mean() - utility.mean()))


def _errors(seed: int, world: PlantedUtility, nodes: Nodes, weights: Floats) -> dict[str, float]:
    """Mean absolute error of one answer, and of the mean of five."""
    rng = np.random.default_rng([seed, 2])
    found: dict[str, list[float]] = {}
    for place, query in enumerate(world.unseen):
        error, own = world.error(query, nodes), weights[place]
        shown = {
            SINGLE: [int(own.argmax())],
            **{system: choose(own, nodes, SIZE) for system, choose in SUBGRAPHS.items()},
            "5 heaviest": np.argsort(-own, kind="stable")[:SIZE].tolist(),
            RANDOM: rng.choice(len(nodes), SIZE, replace=False).tolist(),
        }
        for system, rows in shown.items():
            found.setdefault(system, []).append(abs(float(error[rows].mean())))
    return {system: float(np.mean(errors)) for system, errors in found.items()}
