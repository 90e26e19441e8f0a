"""Choosing demonstrations: the search against its definition, known retrieval, the towers, and a world with a truth."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import log

import numpy as np
import pytest

from accord.edges import BadInput, MissingExtra, NotFitted, UnknownName
from accord.methods.in_context.prompt_assembly import greedy_subgraph
from accord.methods.in_context.selectors import (
    ExampleLibrary,
    Nodes,
    Query,
    TowerSettings,
    by_cost,
    make_selector,
    random_nodes,
)
from accord.methods.in_context.tower_selector import (
    PARTS,
    TowerSelector,
    TowerShape,
    bucket_edges,
    demonstration_tower,
    initial,
    input_tower,
)
from accord_papers.adoror import simulated_world, systems

SELECTORS = ("random", "bm25", "neighbours", "diverse", "utility", "adoror")
SMALL = {"width": 16, "heads": 2, "feed_forward": 32, "epochs": 3}


@pytest.fixture(autouse=True)
def paper_systems() -> Iterator[None]:
    with systems.registered():
        yield


def drawn(nodes: int, examples: int = 12, k: int = 3, seed: int = 0) -> tuple[np.ndarray, Nodes]:
    rng = np.random.default_rng(seed)
    return np.round(rng.random(nodes), 1), random_nodes(rng, range(examples), 2, k, nodes // 2)


def by_definition(weights: np.ndarray, nodes: Nodes, size: int, edges: str) -> list[int]:
    """Algorithm 2 one number at a time."""
    sets, k = [set(row) for row in nodes.demonstrations.tolist()], nodes.demonstrations.shape[1]
    chosen = [max(range(len(weights)), key=lambda row: (weights[row], -row))]

    def harmonic(a: float, b: float) -> float:
        return 2 * a * b / (a + b) if a + b else 0.0

    def value(row: int) -> float:
        if edges == "sum":
            return sum(harmonic(1 - len(sets[row] & sets[other]) / k, weights[row]) for other in chosen)
        shared = [len(sets[row] & sets[other]) + (nodes.prompt[row] == nodes.prompt[other]) for other in chosen]
        return harmonic(1 - sum(shared) / (len(chosen) * (k + 1)), weights[row] / (max(weights) or 1))

    while len(chosen) < min(size, len(weights)):
        free = [row for row in range(len(weights)) if row not in chosen]
        values = [round(value(row), 12) for row in free]
        chosen.append(free[values.index(max(values))])
    return chosen


# --- nodes and the subgraph ------------------------------------------------------------------------------------------


def test_random_nodes_are_distinct_with_uniform_orders() -> None:
    nodes = random_nodes(np.random.default_rng(0), [2, 3, 5, 7], 2, 3, 12_000)
    assert len(nodes) == 24_000 and (np.diff(np.sort(nodes.demonstrations, axis=1), axis=1) > 0).all()
    orders, counts = np.unique(nodes.demonstrations, axis=0, return_counts=True)
    assert [tuple(order) for order in orders.tolist()] == sorted(itertools.permutations([2, 3, 5, 7], 3))
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    again = random_nodes(np.random.default_rng(0), [2, 3, 5, 7], 2, 3, 12_000)
    assert (again.demonstrations == nodes.demonstrations).all()
    with pytest.raises(BadInput, match="at least 5 examples; got 4"):
        random_nodes(np.random.default_rng(0), range(4), 1, 5, 1)


@pytest.mark.parametrize("seed", range(8))
def test_subgraph_follows_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nodes = drawn(40, seed=seed)
    weights = rng.random(40)
    assert greedy_subgraph(weights, nodes, 6) == by_definition(weights, nodes, 6, "sum")
    assert systems.subgraph_of_means(weights, nodes, 6) == by_definition(weights, nodes, 6, "mean")


def test_subgraph_edge_cases() -> None:
    nodes = Nodes(np.array([[0, 1], [1, 0], [2, 3], [0, 3]]), np.zeros(4, dtype=np.intp))
    assert greedy_subgraph(np.array([0.5, 0.5, 0.5, 0.5]), nodes, 3) == [0, 2, 3]
    assert greedy_subgraph(np.array([0.9, 0.8, 0.1, 0.2]), nodes, 9) == [0, 3, 1, 2]
    for search in (greedy_subgraph, systems.subgraph_of_means):
        assert search(np.zeros(4), nodes, 2) == [0, 1]
        assert search(np.zeros(0), nodes.take([]), 2) == []


# --- retrieval -------------------------------------------------------------------------------------------------------


def library(texts: tuple[str, ...], vectors: np.ndarray) -> ExampleLibrary:
    return ExampleLibrary(
        vectors.astype(np.float32), np.linspace(0, 1, len(texts)), texts, np.eye(1, vectors.shape[1], dtype=np.float32)
    )


def test_bm25_follows_its_formula() -> None:
    texts = ("cats purr", "cats cats bark", "dogs bark loudly tonight")
    scores = systems.Bm25(texts).scores("the cat barked")
    rarity = log(1 + (3 - 2 + 0.5) / 2.5)
    cat = [rarity * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * length / 3)) for tf, length in ((1, 2), (2, 3))]
    bark = [rarity * 2.5 / (1 + 1.5 * (0.25 + 0.75 * length / 3)) for length in (3, 4)]
    assert scores.tolist() == pytest.approx([cat[0], cat[1] + bark[0], bark[1]])
    selector = make_selector("bm25").fit(library(texts, np.eye(3)))
    query = Query(np.zeros(3, dtype=np.float32), "the cat barked")
    assert selector.retrieved(query, 2) == (0, 1) and selector.retrieved(query, 2, {1}) == (2, 0)
    prepared = selector.prepare(Nodes(np.array([[1, 1], [0, 1]]), np.zeros(2, dtype=np.intp)))
    assert selector.weights(query, prepared).tolist() == pytest.approx([1.0, (1 + scores[0] / scores[1]) / 2])
    assert selector.weights(replace(query, text="fish"), prepared).tolist() == [0.0, 0.0]


def test_neighbours_and_diverse_selectors() -> None:
    angles = np.radians([0, 5, 10, -50, 180])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    examples, query = library(tuple("abcde"), vectors), Query(np.array([1, 0], dtype=np.float32), "x")
    near = make_selector("neighbours").fit(examples)
    assert near.retrieved(query, 3) == (2, 1, 0) and near.retrieved(query, 2, [0]) == (2, 1)
    # After the nearest, each gets (2λ - 1)·cos: with λ below ½ the farthest, above ½ the next.
    apart = systems.Diverse(relevance=0.45).fit(examples)
    assert apart.retrieved(query, 2) == (4, 0) and systems.Diverse().fit(examples).retrieved(query, 2) == (1, 0)
    nodes = Nodes(np.array([[0, 4], [0, 1]]), np.zeros(2, dtype=np.intp))
    weights = near.weights(query, near.prepare(nodes))
    assert weights.tolist() == pytest.approx([0.5, (3 + np.cos(angles[1])) / 4])
    likeness = np.array([0, (1 + np.cos(angles[1])) / 2])
    assert apart.weights(query, apart.prepare(nodes)).tolist() == pytest.approx(
        (0.45 * weights + 0.55 * (1 - likeness)).tolist(), abs=1e-6
    )


def test_random_selector_is_deterministic_by_text() -> None:
    world = simulated_world.planted_utility(examples=20, unseen=4)
    _, nodes = drawn(60)
    chance = make_selector("random", seed=3).fit(world.library)
    first, second = world.query(20), world.query(21)
    assert (chance.weights(first, chance.prepare(nodes)) == chance.weights(first, chance.prepare(nodes))).all()
    assert (chance.weights(first, chance.prepare(nodes)) != chance.weights(second, chance.prepare(nodes))).any()
    assert chance.retrieved(first, 3) is None


# --- the towers ------------------------------------------------------------------------------------------------------


def test_buckets_are_those_of_freedman_and_diaconis() -> None:
    scores = np.random.default_rng(0).random(300)
    edges = np.histogram_bin_edges(scores, bins="fd")
    assert bucket_edges(scores) == pytest.approx(edges[1:-1])
    assert set(np.searchsorted(bucket_edges(scores), scores, side="right")) == set(range(len(edges) - 1))
    assert len(bucket_edges(np.ones(5))) == 0 and len(bucket_edges(np.array([0, 0.5, 0.5 + 1e-9, 1]))) <= 31
    assert len(bucket_edges(np.array([*np.linspace(0.5, 0.5001, 50), 0, 1]))) == 31


def inputs_of(shape: TowerShape, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    text = rng.normal(size=(7, shape.k, shape.width)).astype(np.float32)
    return (
        text,
        rng.integers(shape.buckets, size=(7, shape.k)),
        rng.normal(size=(7, shape.embedding)).astype(np.float32),
    )


def by_loops(
    shape: TowerShape, parameters: dict, text: np.ndarray, bucket: np.ndarray, prompt: np.ndarray
) -> np.ndarray:
    """The demonstration tower of one set, one head and one pair of demonstrations at a time."""
    k, d = shape.k, shape.width // shape.heads
    E = np.stack(
        [
            text[i] + parameters["embedding"]["position"][k - 1 - i] + parameters["embedding"]["score"][bucket[i]]
            for i in range(k)
        ]
    )

    def normalised(x: np.ndarray, name: str) -> np.ndarray:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * layer[f"{name}_scale"] + layer[f"{name}_bias"]

    for number in range(shape.layers):
        layer = parameters[f"layer{number}"]
        found = np.zeros_like(E)
        parts = [E @ layer["attend"][:, part * shape.width : (part + 1) * shape.width] for part in range(3)]
        for head in range(shape.heads):
            q, keys, values = (part[:, head * d : (head + 1) * d] for part in parts)
            for i in range(k):
                e = np.array([q[i] @ (keys[j] + layer["key_distance"][j - i + k - 1]) / np.sqrt(d) for j in range(k)])
                share = np.exp(e) / np.exp(e).sum()
                found[i, head * d : (head + 1) * d] = sum(
                    share[j] * (values[j] + layer["value_distance"][j - i + k - 1]) for j in range(k)
                )
        E = np.stack([normalised(row, "norm1") for row in E + found @ layer["mix"]])
        E = np.stack([normalised(row, "norm2") for row in E + np.maximum(E @ layer["first"], 0) @ layer["second"]])
    return E.mean(axis=0) + prompt @ parameters["demonstrations"]["weight"]


def test_the_tower_is_its_formula_in_loops_in_numpy_and_in_jax() -> None:
    jnp = pytest.importorskip("jax.numpy", reason="needs accord[networks]")
    shape = TowerShape(embedding=9, width=8, k=4, buckets=3, heads=2, feed_forward=6)
    parameters, (text, bucket, prompt) = initial(shape, 0), inputs_of(shape)
    found = demonstration_tower(np, shape, parameters, text, bucket, prompt)
    loops = [by_loops(shape, parameters, text[row], bucket[row], prompt[row]) for row in range(7)]
    assert found == pytest.approx(np.stack(loops), abs=1e-5)
    as_jax = {part: {name: jnp.asarray(each) for name, each in names.items()} for part, names in parameters.items()}
    assert np.asarray(demonstration_tower(jnp, shape, as_jax, text, bucket, prompt)) == pytest.approx(found, abs=1e-4)
    h_in = input_tower(parameters, text[:, 0], prompt)
    assert np.asarray(input_tower(as_jax, text[:, 0], prompt)) == pytest.approx(h_in, abs=1e-4)


# --- learning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "width"), [*((name, 16) for name in SELECTORS), ("utility", None)])
def test_every_selector_keeps_the_contract_and_survives_saving(name: str, width: int | None) -> None:
    pytest.importorskip("jax", reason="needs accord[networks]")
    assert by_cost() == list(SELECTORS)
    world = simulated_world.planted_utility(examples=30, unseen=2, width=24)
    learned = name in ("utility", "adoror")
    settings = {**SMALL, "width": width}
    pairs, nodes = world.pairs(1), random_nodes(np.random.default_rng(0), range(30), 4, 5, 20)
    selector = make_selector(name, seed=1, **settings).fit(world.library, pairs)
    assert selector.name == name and selector.needs_pairs is learned
    prepared = selector.prepare(nodes)
    weights = selector.weights(world.query(30), prepared)
    assert weights.shape == (80,) and weights.dtype == np.float64 and weights.min() >= 0 and weights.max() <= 1
    rows = nodes.without([3, 4])
    assert selector.weights(world.query(30), selector.prepare(nodes.take(rows))).shape == rows.shape
    card, arrays = selector.state()
    again = make_selector(name, seed=1, **settings).restore(world.library, json.loads(json.dumps(card)), arrays)
    twice = make_selector(name, seed=1, **settings).fit(world.library, pairs)
    for other in (again, twice):
        assert (other.weights(world.query(30), other.prepare(nodes)) == weights).all()
    retrieved = selector.retrieved(world.query(30), 5, {0, 1})
    assert retrieved is None or (len(set(retrieved)) == 5 and not {0, 1} & set(retrieved))


def test_learned_selector_beats_random_on_unseen_inputs() -> None:
    pytest.importorskip("jax", reason="needs accord[networks]")
    world = simulated_world.planted_utility(examples=120, unseen=40, topics=3, width=48)
    nodes = random_nodes(np.random.default_rng(1), range(120), 4, 5, 64)
    selector = make_selector("adoror", width=32, heads=2, feed_forward=32, epochs=20).fit(world.library, world.pairs(4))
    prepared, gained = selector.prepare(nodes), []
    for query in world.unseen:
        utility = world.utility(query, nodes)
        top = utility[np.argmax(selector.weights(world.query(query), prepared))]
        gained.append((top - utility.mean(), utility.max() - utility.mean()))
    recovered = np.sum(gained, axis=0)
    assert recovered[0] / recovered[1] > 0.5


def test_invalid_use_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="unknown selector 'adorer'. Did you mean 'adoror'"):
        make_selector("adorer")
    world = simulated_world.planted_utility(examples=20, unseen=1)
    with pytest.raises(BadInput, match="needs observed pairs"):
        make_selector("adoror").fit(world.library)
    with pytest.raises(NotFitted, match="Call fit first"):
        make_selector("adoror").prepare(drawn(4)[1])
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(MissingExtra, match=r"training a selector needs .*\[networks\]'"):
        make_selector("adoror").fit(world.library, world.pairs(1))


def test_towers_use_the_configured_parts() -> None:
    world = simulated_world.planted_utility(examples=20, unseen=1, width=16)
    for parts in (PARTS, {"scores"}, {"relative"}, set()):
        shape, _ = TowerSelector(0, TowerSettings(width=8, heads=2), parts).training_tables(
            world.library, world.pairs(1)
        )
        assert {part for part in PARTS if getattr(shape, part)} == set(parts)
    pooled, _ = systems.utility(0, TowerSettings(width=8)).training_tables(world.library, world.pairs(1))
    assert (pooled.layers, pooled.relative, pooled.absolute, pooled.scores) == (0, False, False, True)


# --- the planted world -----------------------------------------------------------------------------------------------
