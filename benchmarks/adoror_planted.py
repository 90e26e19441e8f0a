"""A planted world of demonstrations: what of the best possible choice each selector recovers, and what averaging saves.

`recovered` is (mean utility of the top node on unseen inputs - that of a random node) / (the best node's - that).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
from adoror_systems import ABLATIONS, subgraph_of_means
from harness import Row
from scipy import stats
from synthetic_corpus import MECHANISMS, PlantedUtility, planted_utility

from accord.methods import (
    Floats,
    Nodes,
    Pairs,
    Selector,
    TowerSettings,
    by_cost,
    greedy_subgraph,
    pair_draws,
    random_nodes,
    selectors,
)

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


GAMMAS, ZETAS, SHOTS = (2, 4, 8), (256, 512, 1024), (2, 3, 5, 8)
"""Sets tried per prompt and input, sets ranked per prompt (both as in table 4), demonstrations per set (figure 10)."""


def sensitivity_rows(seed: int, quick: bool) -> list[Row]:
    """Table 4 and figures 7 to 10 in a planted world: γ × ζ × k.

    Returns:
        A row per cell with `absolute_error` of the subgraph's mean of five and of `SELECTED`, and `improvement`, the
        share of the latter that it saves; then a row each with the least, mean and largest improvement, over all cells
        and by value of each setting.
    """
    gammas, zetas, shots = (GAMMAS[:2], (32, 64), SHOTS[::2]) if quick else (GAMMAS, ZETAS, SHOTS)
    world, cells = _world(seed, MECHANISMS, quick), list[Row]()
    settings = SMALL if quick else TowerSettings()
    for gamma, k in product(gammas, shots):
        selector = SYSTEMS["adoror"](seed, settings).fit(world.library, world.pairs(gamma, k, seed))
        for zeta in zetas:
            nodes = _nodes(seed, world, quick, zeta, k)
            prepared = selector.prepare(nodes)
            weights = np.stack([selector.weights(world.query(query), prepared) for query in world.unseen])
            error, selected = _errors(seed, world, nodes, weights)["subgraph"], _selected(seed, world, nodes)
            about = {"world": "sensitivity", "gamma": gamma, "zeta": zeta, "k": k, "seed": seed}
            cells.append({**about, "absolute_error": error, "selected": selected, "improvement": 1 - error / selected})
    rows = [{"world": "sensitivity", "system": "all cells", **_spread(cells)}]
    for name, values in (("gamma", gammas), ("zeta", zetas), ("k", shots)):
        for value in values:
            mine = [cell for cell in cells if cell[name] == value]
            rows.append({"world": "sensitivity", "system": f"{name} {value}", **_spread(mine)})
    return [*rows, *cells]


def _spread(cells: Sequence[Row]) -> Row:
    found = [float(cell["improvement"]) for cell in cells]
    return {"least": min(found), "mean": float(np.mean(found)), "most": max(found), "cells": len(found)}


def _selected(seed: int, world: PlantedUtility, nodes: Nodes) -> float:
    """The error of five random sets with the prompt that erred least about the examples (Auto-P-selected, ensemble)."""
    examples = range(len(world.library))
    by_prompt = np.mean([np.abs(world.error(query, nodes)) for query in examples], axis=0)
    best = min(set(nodes.prompt.tolist()), key=lambda prompt: float(by_prompt[nodes.prompt == prompt].mean()))
    rng, mine = np.random.default_rng([seed, 3]), np.flatnonzero(nodes.prompt == best)
    errors = [
        world.error(query, nodes)[rng.choice(mine, min(SIZE, len(mine)), replace=False)].mean()
        for query in world.unseen
    ]
    return float(np.mean(np.abs(errors)))


PROMPTS = 80
"""Prompts that are tried, as many as the paper lets a model write."""


TRIED_ON = (10, 30, 100, 300)
"""Rated examples about which each prompt is asked once."""


def prompt_rows(seed: int, quick: bool) -> list[Row]:
    """Figures 4 to 6 in a planted world: whether prompts that err less about the examples err less about new inputs.

    Every prompt is asked once about each input, with demonstrations drawn at random, as where prompts are selected.

    Returns:
        A row by number of examples: Spearman's ρ of both errors over the prompts, and the held-out error of the prompt
        that erred least about the examples (`selected`), of the best there is, and of all on average.
    """
    world = planted_utility(seed, examples=TRIED_ON[-1], unseen=60 if quick else 300, prompts=PROMPTS, width=48)
    rng = np.random.default_rng([seed, 4])

    def asked(side: range) -> Floats:
        """(n, ℓ) the error of every prompt about each input."""
        each = (random_nodes(rng, range(len(world.library)), PROMPTS, 5, 1) for _ in side)
        return np.stack([np.abs(world.error(query, nodes)) for query, nodes in zip(side, each, strict=True)])

    held_out, trained = asked(world.unseen).mean(axis=0), asked(range(len(world.library)))
    rows = []
    for count in TRIED_ON:
        own = trained[rng.choice(len(trained), count, replace=False)].mean(axis=0)
        rho = float(stats.spearmanr(own, held_out).statistic)
        about = {"world": "prompts", "system": f"{count} examples", "seed": seed, "spearman": rho}
        rows.append({**about, "selected": float(held_out[own.argmin()]), "best": float(held_out.min()),
                     "mean": float(held_out.mean())})  # fmt: skip
    return rows


TOGETHER = (1, 2, 4, 8, 16)
"""Inputs that share a tried set of demonstrations; 1 as published, 4 is our default."""


def together_rows(seed: int, quick: bool) -> list[Row]:
    """Cost of sharing observed sets among inputs, which lets a prefix cache save most of the text (`prefixes`)."""
    world, rows = _world(seed, MECHANISMS, quick), list[Row]()
    nodes, examples, prompts = _nodes(seed, world, quick), len(world.library), len(world.library.prompts)
    for together in TOGETHER[::2] if quick else TOGETHER:
        rng, alone = np.random.default_rng([seed, 5]), [str(place) for place in range(examples)]
        query, tried = pair_draws(rng, alone, prompts, 5, 4, together)
        target = np.empty(len(query))
        for place in range(examples):
            mine = np.flatnonzero(query == place)
            target[mine] = np.exp(-np.abs(world.error(place, tried.take(mine))))
        pairs = Pairs(world.queries[:examples], world.library.texts, query, tried, target)
        weights = _weights("adoror", seed, world, pairs, nodes, quick)
        error = _errors(seed, world, nodes, weights)["subgraph"]
        about = {"world": "together", "system": f"together {together}", "seed": seed}
        rows.append({**about, "recovered": _recovered(world, nodes, weights), "absolute_error": error})
    return rows


def _world(seed: int, mechanisms: Mapping[str, float], quick: bool) -> PlantedUtility:
    if quick:
        return planted_utility(seed, mechanisms, examples=120, unseen=40, topics=3, width=48)
    return planted_utility(seed, mechanisms)


def _nodes(seed: int, world: PlantedUtility, quick: bool, zeta: int | None = None, k: int = 5) -> Nodes:
    examples, prompts = range(len(world.library)), len(world.library.prompts)
    each = zeta or (ZETA_QUICK if quick else ZETA)
    return random_nodes(np.random.default_rng([seed, 1]), examples, prompts, k, each)


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
