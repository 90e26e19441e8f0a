"""Systems, ablations and sensitivity in a planted world with a known best choice of demonstrations.

`recovered` is (top - random) / (best - random), with the mean utility of each node on unseen inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

import numpy as np
from scipy import stats

from accord.methods import (
    Selector,
    selectors,
)
from accord.methods.in_context.prompt_assembly import greedy_subgraph
from accord.methods.in_context.selectors import (
    Floats,
    Indices,
    Neighbours,
    Nodes,
    Pairs,
    Query,
    TowerSettings,
    pair_draws,
    random_nodes,
)
from accord_papers.adoror.simulated_world import MECHANISMS, PlantedUtility, planted_utility
from accord_papers.adoror.system_answers import FOLDS, spearman
from accord_papers.adoror.systems import ABLATIONS, ADOROR, SELECTORS, SharedWords, subgraph_of_means
from accord_papers.study import Row


@dataclass(frozen=True)
class Sizes:
    """Sizes of a planted world and of its selector.

    Attributes:
        examples: Rated examples.
        unseen: Inputs to test on.
        topics: Topics of examples and inputs.
        width: Width of the vectors.
        zeta: Random sets per prompt (ζ).
        towers: Settings of the selectors that learn.
    """

    examples: int = 360
    unseen: int = 100
    topics: int = 6
    width: int = 384
    zeta: int = 512
    towers: TowerSettings = field(default_factory=TowerSettings)

    def world(self, seed: int, mechanisms: Mapping[str, float] = MECHANISMS) -> PlantedUtility:
        """Draw the world."""
        return planted_utility(seed, mechanisms, self.examples, self.unseen, self.topics, width=self.width)


FULL = Sizes()
PAPER = Sizes(240, 200, towers=TowerSettings(batch=64, rate=2e-3, epochs=30))
"""Trains a selector in about five seconds."""
SINGLE_MECHANISM = Sizes(120, 100, towers=PAPER.towers)
SENSITIVITY = Sizes(160, 100, towers=PAPER.towers)
QUICK = Sizes(120, 40, 3, 48, 64, TowerSettings(width=32, heads=2, feed_forward=64, epochs=20))
ABOUT: Mapping[str, Sequence[str]] = {
    "absolute": ("adoror without absolute", "adoror without positions"), "relative": ("adoror without relative",),
    "scores": ("adoror without scores",),
}  # fmt: skip
"""Ablations that are tried in a world of one mechanism."""
ALL_MECHANISMS: Mapping[str, Mapping[str, float]] = {"all": MECHANISMS}
WORLDS = {**ALL_MECHANISMS, **{name: {name: 1.0} for name in MECHANISMS}}
SIMPLE = ("random", "bm25", "neighbours", "diverse", "utility", "adoror")
SYSTEMS: Mapping[str, Callable[[int, TowerSettings], Selector]] = {
    **{name: SELECTORS.get(name) or selectors.get(name) for name in SIMPLE}, **ABLATIONS,
}  # fmt: skip
"""Selectors, the simplest first, and ablations."""
SINGLE, RANDOM = "single", "5 at random"
SUBGRAPHS = {"subgraph": greedy_subgraph, "subgraph, edges mean": subgraph_of_means}
SIZE, K, GAMMA = 5, 5, 4


def planted_rows(
    seed: int, sizes: Sizes = FULL, worlds: Mapping[str, Mapping[str, float]] = ALL_MECHANISMS
) -> list[Row]:
    """Return rows of every selector in every world.

    Returns:
        Rows with `world`, `system` and `recovered`, and for the world with all mechanisms rows with `absolute_error`:
        of ADOROR's best node, of the mean of its subgraph's five, of its five heaviest nodes and of five at random.
    """
    rows: list[Row] = []
    for name, mechanisms in worlds.items():
        world = sizes.world(seed, mechanisms)
        systems = SYSTEMS if name == "all" else (*SIMPLE, *ABOUT.get(name, ()))
        pairs, nodes = world.pairs(seed=seed), _nodes(seed, world, sizes.zeta)
        weights = {system: _weights(_fit(system, seed, world, pairs, sizes), world, nodes) for system in systems}
        about = {"seed": seed, "world": name}
        rows += [
            {**about, "system": system, "recovered": _recovered(world, nodes, of)} for system, of in weights.items()
        ]
        if name == "all":
            errors = _errors(seed, world, nodes, weights["adoror"])
            rows += [{**about, "system": system, "absolute_error": error} for system, error in errors.items()]
    return rows


# --- tables 1, 3 and 6 ----------------------------------------------------------------------------------------------

NO_SUBGRAPH = "ADOROR w/o subgraph"
ENSEMBLE, FIVE_SETS = "Auto-P-Selected-Ensemble", "Auto-P-Selected, five random sets"
PARTS = {"relative": "relative positions", "absolute": "absolute positions", "scores": "scores"}


def system_rows(seed: int, sizes: Sizes = PAPER) -> Iterator[Row]:
    """Yield a row per system of table 1 and fold of the unseen inputs: answers, ρ, mean absolute error."""
    world, nodes, weights = _asked_with(seed, sizes)
    yield from _by_fold(seed, "all", answers(seed, world, nodes, weights))


def ablation_rows(seed: int, sizes: Sizes = PAPER, single: Sizes = SINGLE_MECHANISM) -> Iterator[Row]:
    """Yield rows as `system_rows` for table 3, with `recovered`.

    The subgraph is left out in the world with all mechanisms, and each part of the selector in a world with only the
    mechanism that this part can learn.
    """
    world, nodes, weights = _asked_with(seed, sizes)
    yield from _by_fold(seed, "all", answers(seed, world, nodes, weights, only=(ADOROR, NO_SUBGRAPH)))
    for part, shown in PARTS.items():
        for name, system in ((ADOROR, "adoror"), (f"ADOROR w/o {shown}", f"adoror without {part}")):
            world, nodes, weights = _asked_with(seed, single, system, mechanism=part)
            asked = answers(seed, world, nodes, weights, only=[ADOROR])[ADOROR]
            yield from _by_fold(seed, f"{shown} alone", {name: asked}, _recovered(world, nodes, weights))


def _by_fold(
    seed: int, world: str, asked: Mapping[str, list[tuple[float, float]]], recovered: float | None = None
) -> Iterator[Row]:
    for fold, (system, pairs) in product(range(FOLDS), asked.items()):
        own = pairs[fold::FOLDS]
        yield {
            "split": "planted", "dimension": world, "fold": seed * FOLDS + fold, "system": system,
            "rho": spearman(own), "answers": own,
            "context": [f"{seed}-{place}" for place in range(fold, len(pairs), FOLDS)],
            "absolute_error": _absolute_error(own), "recovered": recovered,
        }  # fmt: skip


def answers(
    seed: int,
    world: PlantedUtility,
    nodes: Nodes,
    weights: Floats,
    k: int = K,
    only: Collection[str] = (),
) -> dict[str, list[tuple[float, float]]]:
    """Return the answer of each system about each unseen input, with the input's true score.

    Args:
        seed: Seed of the random demonstrations.
        world: The world.
        nodes: Sets that ADOROR ranks.
        weights: (Q, N) their weights by ADOROR's selector.
        k: Demonstrations per request.
        only: Systems to ask; all by default.
    """
    rng, asked = np.random.default_rng([seed, 3]), dict[str, list[tuple[float, float]]]()
    shown = _systems(world, nodes, int(rng.integers(len(world.library.prompts))), k)
    for query, own in zip(world.unseen, weights, strict=True):
        sets = np.stack([rng.permutation(len(world.library))[:k] for _ in range(SIZE)])
        true = float(world.truth[query])
        for system in only or shown:
            error = world.error(query, shown[system](world.query(query), own, sets)).mean()
            asked.setdefault(system, []).append((true + float(error), true))
    return asked


def _systems(
    world: PlantedUtility, nodes: Nodes, drawn: int, k: int
) -> Mapping[str, Callable[[Query, Floats, Indices], Nodes]]:
    """Return the systems: functions of an input, ADOROR's weights and five random sets, which return the requests.

    `drawn` is the prompt of Auto-P-Random.
    """
    best, words, near = _best_prompt(world, nodes), SharedWords().fit(world.library), Neighbours().fit(world.library)
    return {
        "Auto-P-Random": lambda about, own, sets: _with(sets[0], [drawn]),
        "Auto-P-Selected": lambda about, own, sets: _with(sets[0], [best]),
        "Auto-P-Selected with BM25": lambda about, own, sets: _with(words.retrieved(about, k), [best]),
        "Auto-P-Selected with neighbours": lambda about, own, sets: _with(near.retrieved(about, k), [best]),
        ENSEMBLE: lambda about, own, sets: _with(sets[0], range(len(world.library.prompts))),
        FIVE_SETS: lambda about, own, sets: Nodes(sets, np.full(SIZE, best)),
        ADOROR: lambda about, own, sets: nodes.take(greedy_subgraph(own, nodes, SIZE)),
        NO_SUBGRAPH: lambda about, own, sets: nodes.take([int(own.argmax())]),
        "ADOROR, subgraph of the authors' code": lambda about, own, sets: nodes.take(
            subgraph_of_means(own, nodes, SIZE)
        ),
    }


def _absolute_error(pairs: Sequence[tuple[float, float]]) -> float:
    return float(np.mean([abs(answer - true) for answer, true in pairs]))


def _with(demonstrations: Sequence[int] | Indices, prompts: Sequence[int]) -> Nodes:
    """Return one set of demonstrations with each prompt."""
    shown = np.asarray(demonstrations, dtype=np.intp)
    return Nodes(np.tile(shown, (len(prompts), 1)), np.asarray(prompts, dtype=np.intp))


def _best_prompt(world: PlantedUtility, nodes: Nodes) -> int:
    """Return the prompt with the lowest error about the examples."""
    error = np.mean([np.abs(world.error(query, nodes)) for query in range(len(world.library))], axis=0)
    return int(min(set(nodes.prompt.tolist()), key=lambda prompt: float(error[nodes.prompt == prompt].mean())))


@lru_cache(maxsize=64)
def _fitted(
    system: str, seed: int, sizes: Sizes, gamma: int, k: int, mechanism: str
) -> tuple[PlantedUtility, Selector]:
    """Return a world and a selector; several tables use the same one."""
    world = sizes.world(seed, WORLDS[mechanism])
    return world, _fit(system, seed, world, world.pairs(gamma, k, seed), sizes)


def _asked_with(
    seed: int,
    sizes: Sizes,
    system: str = "adoror",
    gamma: int = GAMMA,
    zeta: int | None = None,
    k: int = K,
    mechanism: str = "all",
) -> tuple[PlantedUtility, Nodes, Floats]:
    """Return a world, the sets to rank, and a selector's weights."""
    world, selector = _fitted(system, seed, sizes, gamma, k, mechanism)
    nodes = _nodes(seed, world, zeta or sizes.zeta, k)
    return world, nodes, _weights(selector, world, nodes)


# --- table 4 and figures 7 to 10 ------------------------------------------------------------------------------------

GAMMAS, ZETAS, SHOTS = (2, 4, 8), (256, 512, 1024), (2, 3, 5, 8)
"""Sets tried per prompt and input, sets ranked per prompt (both as in table 4), demonstrations per set (figure 10)."""


def sensitivity_cells(
    seed: int,
    sizes: Sizes = FULL,
    gammas: Sequence[int] = GAMMAS,
    zetas: Sequence[int] = ZETAS,
    shots: Sequence[int] = SHOTS,
) -> list[Row]:
    """Return a row per γ, ζ and k.

    Returns:
        Rows with `absolute_error` of the subgraph's mean of five and of five random sets with the best prompt
        (`selected`), and `improvement`, the share of the latter that it saves; ρ of ADOROR (`rho`), and `gain`, its
        relative gain over Auto-P-Selected-Ensemble as in table 4.
    """
    cells: list[Row] = []
    for gamma, k, zeta in product(gammas, shots, zetas):
        world, nodes, weights = _asked_with(seed, sizes, "adoror", gamma, zeta, k)
        asked = answers(seed, world, nodes, weights, k, (ADOROR, ENSEMBLE, FIVE_SETS))
        ours, theirs = (spearman(asked[system]) or 0.0 for system in (ADOROR, ENSEMBLE))
        error, selected = (_absolute_error(asked[system]) for system in (ADOROR, FIVE_SETS))
        about = {"world": "sensitivity", "gamma": gamma, "zeta": zeta, "k": k, "seed": seed}
        cells.append({**about, "absolute_error": error, "selected": selected, "improvement": 1 - error / selected,
                      "rho": ours, "gain": ours / theirs - 1 if theirs > 0 else None})  # fmt: skip
    return cells


def sensitivity_rows(cells: Sequence[Row], statistic: str = "improvement") -> list[Row]:
    """Return the least, mean and largest value of a statistic, over all cells and by value of each setting."""
    rows = [{"world": "sensitivity", "system": "all cells", **_spread(cells, statistic)}]
    for name in ("gamma", "zeta", "k"):
        for value in dict.fromkeys(cell[name] for cell in cells):
            own = [cell for cell in cells if cell[name] == value]
            rows.append({"world": "sensitivity", "system": f"{name} {value}", **_spread(own, statistic)})
    return rows


def _spread(cells: Sequence[Row], statistic: str) -> Row:
    values = [float(cell[statistic]) for cell in cells if cell[statistic] is not None]
    if not values:
        return {"cells": 0}
    return {"least": min(values), "mean": float(np.mean(values)), "most": max(values), "cells": len(values)}


# --- figures 4 to 6 -------------------------------------------------------------------------------------------------

PROMPTS = 80
"""Prompts that are tried, as many as the paper lets a model write."""
TRIED_ON = (10, 30, 100, 300)
"""Rated examples about which each prompt is asked once."""


def prompt_errors(rng: np.random.Generator, seed: int, unseen: int = 300) -> tuple[Floats, Floats]:
    """Return the (n, 80) and (Q, 80) absolute errors of prompts about the examples and about new inputs.

    Every prompt is asked once about each input, with demonstrations drawn at random, as where prompts are selected.
    """
    world = planted_utility(seed, examples=TRIED_ON[-1], unseen=unseen, prompts=PROMPTS, width=48)

    def asked(side: range) -> Floats:
        each = (random_nodes(rng, range(len(world.library)), PROMPTS, 5, 1) for _ in side)
        return np.stack([np.abs(world.error(query, nodes)) for query, nodes in zip(side, each, strict=True)])

    held_out = asked(world.unseen)
    return asked(range(len(world.library))), held_out


def prompt_rows(seed: int, unseen: int = 300) -> list[Row]:
    """Return whether prompts that err less about the examples err less about new inputs (figures 4 to 6).

    Returns:
        A row by number of examples: Spearman's ρ of both errors over the prompts, and the held-out error of the prompt
        that erred least about the examples (`selected`), of the best there is, and of all on average.
    """
    rng, rows = np.random.default_rng([seed, 4]), list[Row]()
    trained, new = prompt_errors(rng, seed, unseen)
    held_out = new.mean(axis=0)
    for count in TRIED_ON:
        own = trained[rng.choice(len(trained), count, replace=False)].mean(axis=0)
        rho = float(stats.spearmanr(own, held_out).statistic)
        about = {"world": "prompts", "system": f"{count} examples", "seed": seed, "spearman": rho}
        rows.append({**about, "selected": float(held_out[own.argmin()]), "best": float(held_out.min()),
                     "mean": float(held_out.mean())})  # fmt: skip
    return rows


# --- sets that inputs share -----------------------------------------------------------------------------------------

TOGETHER = (1, 2, 4, 8, 16)
"""Inputs that share a tried set of demonstrations; 1 as published."""


def together_rows(seed: int, sizes: Sizes = FULL, together: Sequence[int] = TOGETHER) -> list[Row]:
    """Return the cost of sharing observed sets among inputs, which lets a prefix cache save most of the text."""
    world, rows = sizes.world(seed), list[Row]()
    nodes, examples, prompts = _nodes(seed, world, sizes.zeta), len(world.library), len(world.library.prompts)
    for shared in together:
        rng, alone = np.random.default_rng([seed, 5]), [str(place) for place in range(examples)]
        query, tried = pair_draws(rng, alone, prompts, K, GAMMA, shared)
        target = np.empty(len(query))
        for place in range(examples):
            own = np.flatnonzero(query == place)
            target[own] = np.exp(-np.abs(world.error(place, tried.take(own))))
        pairs = Pairs(world.queries[:examples], world.library.texts, query, tried, target)
        weights = _weights(_fit("adoror", seed, world, pairs, sizes), world, nodes)
        error = _errors(seed, world, nodes, weights)["subgraph"]
        about = {"world": "together", "system": f"together {shared}", "seed": seed}
        rows.append({**about, "recovered": _recovered(world, nodes, weights), "absolute_error": error})
    return rows


# --- the world ------------------------------------------------------------------------------------------------------


def _nodes(seed: int, world: PlantedUtility, zeta: int, k: int = K) -> Nodes:
    examples, prompts = range(len(world.library)), len(world.library.prompts)
    return random_nodes(np.random.default_rng([seed, 1]), examples, prompts, k, zeta)


def _fit(system: str, seed: int, world: PlantedUtility, pairs: Pairs, sizes: Sizes) -> Selector:
    return SYSTEMS[system](seed, sizes.towers).fit(world.library, pairs)


def _weights(selector: Selector, world: PlantedUtility, nodes: Nodes) -> Floats:
    """Return (Q, N) a selector's weights for the unseen inputs."""
    prepared = selector.prepare(nodes)
    return np.stack([selector.weights(world.query(query), prepared) for query in world.unseen])


def _recovered(world: PlantedUtility, nodes: Nodes, weights: Floats) -> float:
    utility = np.stack([world.utility(query, nodes) for query in world.unseen])
    top = np.take_along_axis(utility, weights.argmax(axis=1)[:, None], axis=1)
    return float((top.mean() - utility.mean()) / (utility.max(axis=1).mean() - utility.mean()))


def _errors(seed: int, world: PlantedUtility, nodes: Nodes, weights: Floats) -> dict[str, float]:
    """Return the mean absolute error of one answer, and of the mean of five."""
    rng = np.random.default_rng([seed, 2])
    errors: dict[str, list[float]] = {}
    for place, query in enumerate(world.unseen):
        error, own = world.error(query, nodes), weights[place]
        shown = {
            SINGLE: [int(own.argmax())],
            **{system: choose(own, nodes, SIZE) for system, choose in SUBGRAPHS.items()},
            "5 heaviest": np.argsort(-own, kind="stable")[:SIZE].tolist(),
            RANDOM: rng.choice(len(nodes), SIZE, replace=False).tolist(),
        }
        for system, rows in shown.items():
            errors.setdefault(system, []).append(abs(float(error[rows].mean())))
    return {system: float(np.mean(each)) for system, each in errors.items()}
