"""Speed of choosing demonstrations, relative to plain code in the same run.

    python benchmarks/demonstration_selection.py [--only rank-100000|subgraph-2048|train] [--quick] --json OUT

`rank-100000` weighs 100,000 nodes for one input, once the demonstration tower is computed; the baseline computes the
tower anew. `subgraph-2048` grows a subgraph of 5 among 2,048 nodes; the baseline is a loop over algorithm 2 from its
definition, and has to choose the same nodes. `train` trains the towers on 5,760 pairs, 50 epochs; the baseline
differentiates and steps a batch at a time, and is measured on one epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from harness import Row, chosen, finish, options

from accord.methods.in_context.prompt_assembly import greedy_subgraph
from accord.methods.in_context.selectors import (
    Nodes,
    make_selector,
    random_nodes,
)
from accord.methods.in_context.tower_selector import (
    TowerSelector,
    initial,
)
from accord_papers.adoror.simulated_world import PlantedUtility, planted_utility

PARTS = ("rank-100000", "subgraph-2048", "train")
COLUMNS = ("what", "seconds", "baseline_seconds", "ratio", "target_seconds", "same")
TARGETS = {"rank-100000": 0.1, "subgraph-2048": 0.02, "train": 60.0}
REPEATS = 9
EPOCHS, EPOCHS_QUICK = 50, 2


def main() -> None:
    parser = options("demonstration_selection", str(__doc__), PARTS)
    given = parser.parse_args()
    world = planted_utility(examples=60, unseen=1) if given.quick else planted_utility(unseen=1)
    rows = [_measured(part, world, given.quick) for part in chosen(parser, given.only, PARTS)]
    finish("demonstration_selection", rows, COLUMNS, given.json)


def _measured(part: str, world: PlantedUtility, quick: bool) -> Row:
    measure = {"rank-100000": _rank, "subgraph-2048": _subgraph, "train": _train}[part]
    row: Row = {"what": part, **measure(world, quick)}
    row["ratio"] = row["baseline_seconds"] / row["seconds"]
    return {**row, "target_seconds": TARGETS[part]}


def _seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median of some repetitions."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return float(np.median(found))


def _rank(world: PlantedUtility, quick: bool) -> Row:
    selector = make_selector("adoror", epochs=1).fit(world.library, world.pairs(1))
    nodes = _nodes(world, 1_000 if quick else 25_000)
    query, prepared = world.query(world.unseen[0]), selector.prepare(nodes)
    ours = _seconds(lambda: selector.weights(query, prepared))
    anew = _seconds(lambda: selector.weights(query, selector.prepare(nodes)), 1)
    return {"nodes": len(nodes), "seconds": ours, "baseline_seconds": anew}


def _subgraph(world: PlantedUtility, quick: bool) -> Row:
    nodes = _nodes(world, 128 if quick else 512)
    weights = np.random.default_rng(0).random(len(nodes))
    ours = _seconds(lambda: greedy_subgraph(weights, nodes))
    loop = _seconds(lambda: _straightforward(weights, nodes), 1)
    same = greedy_subgraph(weights, nodes) == _straightforward(weights, nodes)
    return {"nodes": len(nodes), "seconds": ours, "baseline_seconds": loop, "same": str(same)}


def _straightforward(weights: np.ndarray[tuple[int], np.dtype[np.float64]], nodes: Nodes, size: int = 5) -> list[int]:
    """Algorithm 2 as it is written."""
    sets, k = [set(row) for row in nodes.demonstrations.tolist()], nodes.demonstrations.shape[1]
    taken = [int(np.argmax(weights))]
    while len(taken) < size:
        best, most = -1, -1.0
        for row in range(len(weights)):
            if row in taken:
                continue
            value = 0.0
            for other in taken:
                edge, weight = 1 - len(sets[row] & sets[other]) / k, float(weights[row])
                value += 2 * edge * weight / (edge + weight) if edge + weight else 0.0
            if value > most:
                best, most = row, value
        taken.append(best)
    return taken


def _train(world: PlantedUtility, quick: bool) -> Row:
    pairs, epochs = world.pairs(), EPOCHS_QUICK if quick else EPOCHS
    started = time.perf_counter()
    selector = make_selector("adoror", epochs=epochs).fit(world.library, pairs)
    ours = time.perf_counter() - started
    assert isinstance(selector, TowerSelector)
    started = time.perf_counter()
    _one_epoch(selector, world)
    return {"pairs": len(pairs), "seconds": ours, "baseline_seconds": (time.perf_counter() - started) * epochs}


def _one_epoch(selector: TowerSelector, world: PlantedUtility) -> None:
    """One epoch of Adam, a compiled step for each batch, with a Python loop around it."""
    import jax
    import optax

    from accord.methods.in_context.tower_selector import batches, loss, to_jax

    given, settings = world.pairs(), selector.towers
    shape, arrays = selector.training_tables(world.library, given)
    tables, parameters = to_jax(arrays), initial(shape, 0)
    adam = optax.adam(settings.rate)
    moments = adam.init(parameters)
    slope = jax.jit(jax.grad(lambda parameters, rows: loss(shape, tables, parameters, rows)))
    for rows in batches(len(given), settings, 0)[: len(given) // settings.batch]:
        change, moments = adam.update(slope(parameters, rows), moments)
        parameters = optax.apply_updates(parameters, change)


def _nodes(world: PlantedUtility, each: int) -> Nodes:
    examples = range(len(world.library))
    return random_nodes(np.random.default_rng(0), examples, len(world.library.prompts), 5, each)


if __name__ == "__main__":
    main()
