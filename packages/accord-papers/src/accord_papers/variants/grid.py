"""The paper's grid (LLM-RUBRIC, section 4): the held-out log loss of every cell at a fraction of the cost.

All lengths of pretraining are checkpoints of one run, and all lengths of fine-tuning are checkpoints of the run from
each checkpoint: the 36 pairs of lengths cost 350 epochs instead of 1,860. Networks of one shape and batch size, with
all rates and folds, are one compiled program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from accord.learning.answer_models.network.formula import Array, NetworkShape, Parameters, inputs, main_alone
from accord.learning.answer_models.network.training import (
    HALF_THE_EFFORT,
    Schedule,
    Settings,
    Sheets,
    Tables,
    TrainingJob,
    initial,
    on_main,
    phase,
    schedules,
    settings,
    tables,
    total_surprise,
    unseen,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Values of each setting; the defaults are the paper's, 16,128 cells."""

    hidden: Sequence[int] = (10, 25, 50, 100)
    batch: Sequence[int] = (32, 64, 128, 256)
    rate: Sequence[float] = (0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01)
    epochs: Sequence[int] = (5, 10, 20, 30, 40, 50)

    def programs(self) -> list[tuple[int, int, int]]:
        """Return (h₁, h₂, batch size) of each compiled program, cheapest first."""
        every = product(self.hidden, self.hidden, self.batch)
        return sorted(every, key=lambda one: ((one[0] + one[1]) * 36 + one[0] * one[1]) * (1 / one[2] + 1 / 256))

    def __len__(self) -> int:
        return len(self.programs()) * len(self.rate) * len(self.epochs) ** 2


@dataclass(frozen=True)
class Cell:
    """Cell of the grid with its held-out log loss, a mean over the answers of all folds."""

    hidden: tuple[int, int]
    batch: int
    rate: float
    pretrain: int
    finetune: int
    loss: float


def search(
    shape: NetworkShape,
    sheets: Sheets,
    folds: Sequence[NDArray[np.bool_]],
    grid: Grid,
    seed: int = 0,
    seconds: float | None = None,
    most: int | None = None,
) -> list[Cell]:
    """Return cells with their held-out log loss on the main question, best first.

    Args:
        shape: Dimensions of the networks; its hidden layers are replaced by the grid's.
        sheets: Training sheets.
        folds: For each fold, (n,) True for rows to learn from; the others are predicted.
        grid: Cells to search.
        seed: Random seed of initial weights and batches, the same for every cell.
        seconds: Start no further program after this time; programs run cheapest first, and the first one always runs.
            None searches the whole grid.
        most: Largest number of programs, cheapest first.
    """
    start, result = time.monotonic(), list[Cell]()
    for first, second, batch in grid.programs()[:most]:
        if result and seconds is not None and time.monotonic() - start > seconds:
            break
        sized = replace(shape, hidden=(first, second))
        result += _cells(sized, batch, losses(sized, batch, sheets, folds, grid, seed), grid)
    return sorted(result, key=lambda cell: cell.loss)


def _cells(shape: NetworkShape, batch: int, loss: Floats, grid: Grid) -> Iterator[Cell]:
    for rate, pretrain, finetune in np.ndindex(*loss.shape):
        lengths = grid.epochs[pretrain], grid.epochs[finetune]
        yield Cell(shape.hidden, batch, grid.rate[rate], *lengths, float(loss[rate, pretrain, finetune]))


def losses(
    shape: NetworkShape, batch: int, sheets: Sheets, folds: Sequence[NDArray[np.bool_]], grid: Grid, seed: int
) -> Floats:
    """Return (R, P, F) held-out log loss of one program, by rate, length of pretraining and of fine-tuning."""
    longest = max(grid.epochs)
    terms = Schedule(longest, longest, batch, dropout=0.0, penalised=False)
    jobs = [TrainingJob(rows, rate, 0.0, 0.0, seed) for rate in grid.rate for rows in folds]
    first = jobs[: len(folds)]
    both = (first, on_main(sheets, first))
    steps, last = (schedules(sheets.annotator, sheets.blocks, some, terms) for some in both)
    stops = tuple(epochs - 1 for epochs in grid.epochs)
    result = _losses(
        shape, terms, stops, tables(sheets, shape.widest), (steps, last), unseen(sheets, folds), settings(jobs)
    )
    surprise, count = (np.asarray(each, dtype=float) for each in result)
    by_fold = surprise.reshape(len(grid.rate), len(folds), len(stops), len(stops))
    return np.asarray(by_fold.sum(axis=1) / count.reshape(len(grid.rate), len(folds))[0].sum())


@partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=HALF_THE_EFFORT)
def _losses(
    shape: NetworkShape,
    terms: Schedule,
    stops: tuple[int, ...],
    sheets: Tables,
    steps: tuple[Array, Array],
    unseen: Array,
    jobs: Settings,
) -> tuple[Array, Array]:
    """Return each job's (P, F) sums of held-out -log p̂, and the number of answers."""
    alone = main_alone(shape, initial(shape, jax.random.key(0)))[0]

    def one(place: Array) -> tuple[Array, Array]:
        job: Settings = jax.tree.map(lambda each: each[place], jobs)
        mine, last = (each[place % len(each)] for each in steps)
        key, rows = jax.random.key(job["seed"]), unseen[place % len(unseen)]
        x = inputs(jnp, sheets["values"][rows], sheets["present"][rows], sheets["group"])

        def measured(parameters: Parameters) -> Array:
            return total_surprise(alone, sheets, parameters, x, rows, ~job["rows"])[0]

        def missed(parameters: Parameters, epoch: Array) -> Array:
            is_stop = (epoch == jnp.array(stops)).any()
            return jax.lax.cond(is_stop, measured, lambda _: jnp.zeros(()), parameters)

        def finetuned(begun: Parameters) -> Array:
            main = main_alone(shape, begun)[1]
            return phase(alone, terms, sheets, last, job, key, main, terms.finetune, missed)[1][jnp.array(stops)]

        _, on_the_way = phase(
            shape,
            terms,
            sheets,
            mine,
            job,
            key,
            initial(shape, key),
            terms.pretrain,
            lambda parameters, _: parameters,
        )
        checkpoints = jax.tree.map(lambda each: each[jnp.array(stops)], on_the_way)
        count = (~job["rows"] * sheets["answers"][:, 0].sum(axis=-1)).sum()
        return jax.lax.map(finetuned, checkpoints), count

    result: tuple[Array, Array] = jax.lax.map(one, jnp.arange(len(jobs["seed"])))
    return result
