"""Training of the selector's towers: mean squared error (ADOROR, eq. 5) by Adam, in one compiled program."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

import numpy as np

from accord.edges import MissingExtra
from accord.methods.in_context.selectors import Arrays, Indices, TowerSettings
from accord.methods.in_context.tower_selector import (
    Array,
    Parameters,
    TowerShape,
    demonstration_tower,
    initial,
    input_tower,
    utility,
)

try:
    import jax
    import jax.numpy as jnp
    import optax
except ImportError:
    raise MissingExtra("training a selector", "networks") from None

Tables = dict[str, Array]


_STEPS, _PAIRS = 256, 256
"""Steps and pairs are padded to multiples of these, so that the folds of a data set share one compiled program."""


def train(shape: TowerShape, tables: Arrays, settings: TowerSettings, seed: int) -> Parameters:
    """Train the towers on `TowerSelector.training_tables`; deterministic for equal tables, settings and seed."""
    _on_one_thread()
    start = jax.tree.map(jnp.asarray, initial(shape, seed))
    steps = batches(len(tables["target"]), settings, seed)
    padded = jnp.asarray(np.pad(steps, ((0, -len(steps) % _STEPS), (0, 0))), dtype=jnp.int32)
    learned = _train(shape, to_jax(tables), start, padded, len(steps), settings.rate, settings.decay)
    trained: Parameters = jax.tree.map(np.asarray, learned)
    return trained


@cache
def _on_one_thread() -> None:
    """Start XLA with one thread, unless it is running: splitting steps this small doubles their time."""
    previous = os.environ.get("NPROC")
    os.environ["NPROC"] = previous or "1"
    try:
        jax.local_devices(backend="cpu")
    finally:
        if previous is None:
            del os.environ["NPROC"]


def batches(pairs: int, settings: TowerSettings, seed: int) -> Indices:
    """Return the (S, b) pairs of each step, reshuffled in each epoch; b is the batch size, or the number of pairs.

    Pairs after the last whole batch of an epoch are skipped, so that all steps have one size.
    """
    rng = np.random.default_rng(seed)
    size = min(settings.batch, pairs)
    used = pairs // size * size
    return np.concatenate([rng.permutation(pairs)[:used].reshape(-1, size) for _ in range(settings.epochs)])


@partial(jax.jit, static_argnums=0)
def _train(
    shape: TowerShape, tables: Tables, begun: Parameters, steps: Array, count: int, rate: float, decay: float
) -> Parameters:
    adam = optax.scale_by_adam()
    slope = jax.grad(partial(loss, shape, tables))

    def step(state: tuple[Parameters, Any], at: tuple[Array, Array]) -> tuple[tuple[Parameters, Any], None]:
        parameters, moments = state
        rows, progress = at
        change, moments = adam.update(slope(parameters, rows), moments)
        now = rate * 0.5 * (1 + jnp.cos(jnp.pi * progress))
        moved = jax.tree.map(lambda weight, by: weight - now * (by + decay * weight), parameters, change)
        return (moved, moments), None

    progress = jnp.minimum(jnp.arange(len(steps)) / count, 1.0)  # steps beyond `count` have rate 0
    (learned, _), _ = jax.lax.scan(step, (begun, adam.init(begun)), (steps, progress))
    return learned


def loss(shape: TowerShape, tables: Tables, parameters: Parameters, rows: Array) -> Array:
    """Return the mean squared error of some pairs (eq. 5)."""
    demonstrations, prompt = tables["demonstrations"][rows], tables["prompts"][tables["prompt"][rows]]
    h_d = demonstration_tower(
        jnp, shape, parameters, tables["text"][demonstrations], tables["bucket"][demonstrations], prompt
    )
    h_in = input_tower(parameters, tables["queries"][tables["query"][rows]], prompt)
    return ((utility(jnp, h_d, h_in) - tables["target"][rows]) ** 2).mean()


def to_jax(tables: Arrays) -> Tables:
    """Return the tables for the compiled program: single precision, 32-bit integers, padded pairs."""
    dtypes, converted = {"i": jnp.int32, "f": jnp.float32}, {}
    for name, value in tables.items():
        pad = -len(value) % _PAIRS if name in ("demonstrations", "prompt", "query", "target") else 0
        padded = np.pad(value, [(0, pad), *[(0, 0)] * (value.ndim - 1)])
        converted[name] = jnp.asarray(padded, dtype=dtypes[value.dtype.kind])
    return converted
