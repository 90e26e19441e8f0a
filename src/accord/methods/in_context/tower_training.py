"""Training the selector's towers: mean squared error (ADOROR, eq. 5) by Adam, in one compiled program."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from accord.methods.in_context.nodes import Floats, Indices, Vectors
from accord.methods.in_context.towers import (
    Array,
    Parameters,
    Shape,
    demonstration_tower,
    initial,
    input_tower,
    utility,
)
from accord.values import MissingExtra

try:
    import jax
    import jax.numpy as jnp
    import optax
except ImportError:
    raise MissingExtra("training a selector", "networks") from None

Tables = dict[str, Array]


_STEPS, _PAIRS = 256, 256
"""Steps and pairs are padded to round numbers of these: the folds of one data set share one compiled program."""


@dataclass(frozen=True)
class ClientOptions:
    """Settings of training.

    Attributes:
        rate: Adam's step size at the start; it falls to 0 along a half cosine.
        batch: Pairs of a step.
        epochs: Times that each pair is met.
        decay: Strength of weight decay (Loshchilov & Hutter, 2019); 0 is the paper's Adam.
        seed: Of the first weights and of the batches.
    """

    rate: float
    batch: int
    epochs: int
    decay: float
    seed: int


@dataclass(frozen=True)
class Sheet:
    """P pairs as the towers take them in.

    Attributes:
        text: (n, h) the examples' texts.
        bucket: (n,) their scores.
        prompts: (ℓ, embedding) the prompts.
        queries: (Q, h) the inputs' texts.
        demonstrations: (P, k) which examples.
        prompt: (P,) which prompt.
        query: (P,) which input.
        target: (P,) y of eq. 6.
    """

    text: Vectors
    bucket: Indices
    prompts: Vectors
    queries: Vectors
    demonstrations: Indices
    prompt: Indices
    query: Indices
    target: Floats


def train(shape: Shape, sheet: Sheet, terms: ClientOptions) -> Parameters:
    """Train the towers; the same sheet and terms give the same towers."""
    _on_one_thread()
    tables = sheet_arrays(sheet)
    begun = jax.tree.map(jnp.asarray, initial(shape, terms.seed))
    steps = batches(len(sheet.target), terms)
    padded = jnp.asarray(np.pad(steps, ((0, -len(steps) % _STEPS), (0, 0))), dtype=jnp.int32)
    learned = _train(shape, tables, begun, padded, len(steps), terms.rate, terms.decay)
    found: Parameters = jax.tree.map(np.asarray, learned)
    return found


@cache
def _on_one_thread() -> None:
    """Have XLA begin with one thread, where it has not begun yet: sharing steps this small out doubles their time."""
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = before or "1"
    try:
        jax.local_devices(backend="cpu")
    finally:
        if before is None:
            del os.environ["NPROC"]


def batches(pairs: int, terms: ClientOptions) -> Indices:
    """(S, b) the pairs of each step, drawn anew in each epoch; b is `terms.batch`, or all pairs where they are fewer.

    What is left of an epoch after its last whole batch is left to the others: all steps have one size.
    """
    rng = np.random.default_rng(terms.seed)
    size = min(terms.batch, pairs)
    whole = pairs // size * size
    return np.concatenate([rng.permutation(pairs)[:whole].reshape(-1, size) for _ in range(terms.epochs)])


@partial(jax.jit, static_argnums=0)
def _train(
    shape: Shape, tables: Tables, begun: Parameters, steps: Array, count: int, rate: float, decay: float
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

    progress = jnp.minimum(jnp.arange(len(steps)) / count, 1.0)  # the steps beyond `count` move nothing
    (learned, _), _ = jax.lax.scan(step, (begun, adam.init(begun)), (steps, progress))
    return learned


def loss(shape: Shape, tables: Tables, parameters: Parameters, rows: Array) -> Array:
    """Mean squared error of some pairs (eq. 5)."""
    shown, prompt = tables["demonstrations"][rows], tables["prompts"][tables["prompt"][rows]]
    h_d = demonstration_tower(jnp, shape, parameters, tables["text"][shown], tables["bucket"][shown], prompt)
    h_in = input_tower(parameters, tables["queries"][tables["query"][rows]], prompt)
    return ((utility(jnp, h_d, h_in) - tables["target"][rows]) ** 2).mean()


def sheet_arrays(sheet: Sheet) -> Tables:
    """A sheet as the compiled program takes it: single precision, and small whole numbers."""
    kinds = {"i": jnp.int32, "f": jnp.float32}
    arrays = {name: np.asarray(value) for name, value in vars(sheet).items()}
    for name in ("demonstrations", "prompt", "query", "target"):
        wider = [(0, -len(arrays[name]) % _PAIRS), *[(0, 0)] * (arrays[name].ndim - 1)]
        arrays[name] = np.pad(arrays[name], wider)
    return {name: jnp.asarray(value, dtype=kinds[value.dtype.kind]) for name, value in arrays.items()}
