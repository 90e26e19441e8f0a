"""Eager training of single networks, the usual way, as a baseline for batched training."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from accord.learning.answer_models.network.formula import (
    NetworkShape,
    blocks,
)
from accord.learning.answer_models.network.training import (
    Schedule,
    Sheets,
    TrainingJob,
    initial,
    settings,
    surprise,
    tables,
)

STEPS = 12


def seconds_of_a_step(shape: NetworkShape, sheets: Sheets, batch: int) -> dict[str, float]:
    """Return CPU seconds of one step of Adam on one network, by library; PyTorch if it is installed."""
    rows = np.random.default_rng(0).permutation(len(sheets.annotator))[:batch]
    modes = {"eager-jax": _with_jax(shape, sheets, rows)}
    if find_spec("torch"):
        modes["eager-torch"] = _with_torch(shape, sheets, rows)
    return {name: _timed(step) for name, step in modes.items()}


def _timed(step: Callable[[], object]) -> float:
    step()
    start = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - start) / STEPS


def _with_jax(shape: NetworkShape, sheets: Sheets, rows: Any) -> Callable[[], object]:
    terms = Schedule(1, 1, len(rows), dropout=0.0, penalised=False)
    job = jax.tree.map(
        lambda each: each[0], settings([TrainingJob(np.ones(len(sheets.annotator), bool), 1e-3, 0.0, 0.0, 0)])
    )
    known, key, adam = tables(sheets, shape.widest), jax.random.key(0), optax.adam(1e-3)
    laid = jnp.asarray(blocks(sheets.annotator, shape.annotators, rows))
    state = [initial(shape, key)]
    state.append(adam.init(state[0]))

    def step() -> None:
        slope = jax.grad(lambda p: surprise(shape, terms, known, job, p, laid, key))(state[0])
        change, state[1] = adam.update(slope, state[1])
        state[0] = optax.apply_updates(state[0], change)
        jax.tree.map(lambda each: each.block_until_ready(), state[0])

    return step


def _with_torch(shape: NetworkShape, sheets: Sheets, rows: Any) -> Callable[[], object]:
    torch: Any = import_module("torch")
    drawn = initial(shape, jax.random.key(0))
    shared = [
        torch.nn.Parameter(torch.tensor(np.asarray(drawn[name]["shared"]).tolist())) for name in ("W1", "W2", "V")
    ]
    own = [torch.nn.Parameter(torch.zeros(shape.annotators, *each.shape)) for each in shared]
    adam = torch.optim.Adam([*shared, *own], lr=1e-3)
    x = torch.tensor(sheets.values[rows].tolist())
    who, answers = torch.tensor(sheets.annotator[rows].tolist()), torch.tensor(sheets.answers[rows].tolist())
    one = torch.ones(len(rows), 1)

    def step() -> None:
        z = x
        for layer, (common, personal) in enumerate(zip(shared, own, strict=True)):
            z = torch.cat([one, torch.sigmoid(z) if layer else z], 1)
            z = torch.bmm(z[:, None], common + personal[who])[:, 0]
        logits = z.view(-1, shape.widest)
        loss = torch.nn.functional.cross_entropy(logits, answers.reshape(-1), ignore_index=-1)
        adam.zero_grad()
        loss.backward()
        adam.step()

    return step
