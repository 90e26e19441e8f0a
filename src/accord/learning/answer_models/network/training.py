"""Training of the calibration network: maximum likelihood (LLM-RUBRIC, eq. 1) by Adam, many networks in one program.

A network is trained on all questions first, then on the main one (section 2, multi-task learning). Missing answers are
masked. Beyond the paper, each annotator's weights may be pulled towards the shared ones (partial pooling), and whole
questions may be hidden at random (appendix B), so that the network tolerates missing answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import MissingExtra
from accord.learning.answer_models.network.formula import (
    Array,
    Indices,
    NetworkShape,
    Parameters,
    blocks,
    chances,
    inputs,
    log_densities,
    main_alone,
)

try:
    import jax
    import jax.numpy as jnp
    import optax
except ImportError:
    raise MissingExtra("training a calibration network", "networks") from None

Floats = NDArray[np.float64]
Tables = dict[str, Array]
Settings = dict[str, Array]
State = tuple[Parameters, Any]

HALF_THE_EFFORT = {"xla_backend_optimization_level": 1}
"""Compiler option; these programs train equally fast with this setting, and to the same networks."""
_TINY = 1e-12
_NUMBERS = ("rate", "pooling", "decay")
_WIDTH, _ROUND = 4, 128
"""Smallest number of places per annotator, and of rows; sizes grow in steps (`_rounded`) so that folds share one
program.
"""


@dataclass(frozen=True)
class Sheets:
    """n answer sheets: one annotator's answers about one text, on every question.

    Attributes:
        values: (n, d) inputs; 0 for missing ones.
        present: (n, G) flags of present groups of inputs; G is 0 if no input can be missing.
        group: (G, d) groups of inputs.
        annotator: (n,) index of the annotator; from A on, of a block of sheets without weights of their own.
        answers: (n, Q) index of the chosen option, the main question first; -1 for no answer.
    """

    values: Floats
    present: Floats
    group: Floats
    annotator: Indices
    answers: Indices

    @property
    def blocks(self) -> int:
        """Number of annotators and of further blocks."""
        return int(self.annotator.max()) + 1


@dataclass(frozen=True)
class Schedule:
    """Settings that the networks of one program share.

    Attributes:
        pretrain: Epochs on all questions.
        finetune: Epochs on the main question.
        batch: Largest number of rows per step; None takes all.
        dropout: Share of the groups of inputs that a step hides.
        penalised: True if any job has a penalty.
        unquantized: Weight of the unquantized log likelihood, for an ordinal head (footnote 28).
        shared: Epochs of pretraining, the first ones, in which annotators' own weights stay at 0 (footnote 8).
    """

    pretrain: int
    finetune: int
    batch: int | None
    dropout: float
    penalised: bool
    unquantized: float = 0.0
    shared: int = 0


@dataclass(frozen=True)
class TrainingJob:
    """One network to train.

    Attributes:
        rows: (n,) True for sheets to learn from.
        rate: Adam's step size.
        pooling: Strength λ of the penalty λ/2·|Wᵃ|² on the log likelihood; 0 for the paper's network.
        decay: The same for the shared weights, except their constants.
        seed: Random seed of initial weights, batches and hidden questions.
    """

    rows: NDArray[np.bool_]
    rate: float
    pooling: float
    decay: float
    seed: int


def train(shape: NetworkShape, sheets: Sheets, terms: Schedule, jobs: Sequence[TrainingJob]) -> list[Parameters]:
    """Train one network per job in one compiled program; the same jobs give the same networks.

    Returns:
        The networks of the main question.
    """
    networks = [_train(*given) for given in _arguments(shape, sheets, terms, jobs)]
    return [jax.tree.map(np.asarray, network) for network in networks]


def _arguments(
    shape: NetworkShape, sheets: Sheets, terms: Schedule, jobs: Sequence[TrainingJob]
) -> Iterator[tuple[NetworkShape, Schedule, Tables, Array, Array, Settings]]:
    """Yield the arguments of each job's compiled training.

    Training networks one after another keeps their arrays in the processor's cache (docs/decisions/0011).
    """
    steps, last = (schedules(sheets.annotator, sheets.blocks, some, terms) for some in (jobs, on_main(sheets, jobs)))
    arrays, each = tables(sheets, shape.widest), settings(jobs)
    for place in range(len(jobs)):
        job = {name: of[place] for name, of in each.items()}
        yield shape, terms, arrays, steps[min(place, len(steps) - 1)], last[min(place, len(last) - 1)], job


@partial(jax.jit, static_argnums=(0, 1), compiler_options=HALF_THE_EFFORT)
def _train(
    shape: NetworkShape, terms: Schedule, sheets: Tables, steps: Array, last: Array, job: Settings
) -> Parameters:
    return _phases(shape, terms, sheets, steps, last, job, lambda shape, parameters: None)[0]


Watch = Callable[[NetworkShape, Parameters], Any]


def _phases(
    shape: NetworkShape, terms: Schedule, sheets: Tables, steps: Array, last: Array, job: Settings, watch: Watch
) -> tuple[Parameters, tuple[Any, Any]]:
    """Pretrain and fine-tune; return the network, and the results of `watch` after each epoch of both phases."""
    key = jax.random.key(job["seed"])

    def of(shape: NetworkShape) -> Callable[[Parameters, Array], Any]:
        return lambda parameters, epoch: watch(shape, parameters)

    start = initial(shape, key)
    learned, first = phase(shape, terms, sheets, steps, job, key, start, terms.pretrain, of(shape), terms.shared)
    main, begun = main_alone(shape, learned)
    network, then = phase(main, terms, sheets, last, job, key, begun, terms.finetune, of(main))
    return network, (first, then)


def early_stops(shape: NetworkShape, sheets: Sheets, terms: Schedule, jobs: Sequence[TrainingJob]) -> tuple[int, int]:
    """Return the lengths of pretraining and of fine-tuning with the least held-out loss (footnote 11).

    Each phase is judged by its own objective on the sheets that a job does not learn from, after every epoch, up to the
    lengths of `terms`. Fine-tuning starts from the chosen length of pretraining.
    """
    pretrain = finetune = 0
    if terms.pretrain:
        losses = _held_out_losses(shape, sheets, replace(terms, finetune=0), jobs)[0]
        pretrain = int(np.argmin(losses)) + 1
    if terms.finetune:
        losses = _held_out_losses(shape, sheets, replace(terms, pretrain=pretrain), jobs)[1]
        finetune = int(np.argmin(losses)) + 1
    return pretrain, finetune


def _held_out_losses(
    shape: NetworkShape, sheets: Sheets, terms: Schedule, jobs: Sequence[TrainingJob]
) -> tuple[Floats, Floats]:
    """Return the held-out -log p̂ after each epoch of pretraining (P,) and of fine-tuning (F,), summed over jobs."""
    rows = unseen(sheets, [job.rows for job in jobs])
    arguments = _arguments(shape, sheets, terms, jobs)
    found = [_watched(*given, rows[place]) for place, given in enumerate(arguments)]
    first, then = (np.sum([np.asarray(losses[phase], dtype=float) for losses in found], axis=0) for phase in (0, 1))
    return first, then


@partial(jax.jit, static_argnums=(0, 1), compiler_options=HALF_THE_EFFORT)
def _watched(
    shape: NetworkShape, terms: Schedule, sheets: Tables, steps: Array, last: Array, job: Settings, rows: Array
) -> tuple[Array, Array]:
    x = inputs(jnp, sheets["values"][rows], sheets["present"][rows], sheets["group"])

    def missed(shape: NetworkShape, parameters: Parameters) -> Array:
        return total_surprise(shape, sheets, parameters, x, rows, ~job["rows"])[0]

    return _phases(shape, terms, sheets, steps, last, job, missed)[1]


def unseen(sheets: Sheets, learned: Sequence[NDArray[np.bool_]]) -> Array:
    """Return (J, B, c) the sheets that each job does not learn from, by annotator."""
    rows = [np.flatnonzero(~each) for each in learned]
    width = max(int(np.bincount(sheets.annotator[each]).max(initial=1)) for each in rows)
    return jnp.asarray(np.stack([blocks(sheets.annotator, sheets.blocks, each, width) for each in rows]))


def on_main(sheets: Sheets, jobs: Sequence[TrainingJob]) -> Sequence[TrainingJob]:
    """Return the jobs on the sheets with a main rating only, for the last epochs."""
    rated = sheets.answers[:, 0] >= 0
    return jobs if rated.all() else [replace(job, rows=job.rows & rated) for job in jobs]


def initial(shape: NetworkShape, key: Array) -> Parameters:
    """Return initial weights: shared ones drawn (Glorot & Bengio, 2010), each annotator's own at 0."""
    drawn: Parameters = {}
    for place, (name, size) in enumerate(shape.sizes().items()):
        width = np.sqrt(6 / sum(size))
        shared = jax.random.uniform(jax.random.fold_in(key, place), size, minval=-width, maxval=width)
        if name == "cuts":
            middle = (np.array(shape.options) - 2) / 2
            shared = jnp.zeros(size).at[:, 0].set(-jnp.asarray(middle))
        drawn[name] = {"shared": shared, "own": jnp.zeros((shape.annotators, *size))}
    return drawn


def phase(
    shape: NetworkShape,
    terms: Schedule,
    sheets: Tables,
    steps: Array,
    job: Settings,
    key: Array,
    begun: Parameters,
    epochs: int,
    watch: Callable[[Parameters, Array], Any] = lambda parameters, epoch: None,
    shared: int = 0,
) -> tuple[Parameters, Any]:
    """Run some epochs of Adam, with fresh moments, on the first questions that `shape` has.

    `steps` is (E, S, A, c): epoch e takes the batches of row e mod E. In the first `shared` epochs annotators' own
    weights do not change.

    Returns:
        The parameters, and the stacked results of `watch` after each epoch.
    """
    adam = optax.scale_by_adam()
    slope = jax.grad(partial(surprise, shape, terms, sheets, job))

    def step(state: State, rows_and_time: tuple[Array, Array, Array]) -> tuple[State, None]:
        parameters, moments = state
        rows, time, moves = rows_and_time
        slopes = slope(parameters, rows, jax.random.fold_in(key, time))
        if shared:
            slopes = {name: {**parts, "own": parts["own"] * moves} for name, parts in slopes.items()}
        change, moments = adam.update(slopes, moments)
        moved = jax.tree.map(lambda weight, by: weight - job["rate"] * by, parameters, change)
        return (moved, moments), None

    def epoch(state: State, number: Array) -> tuple[State, Any]:
        batches = steps[number % len(steps)]
        times = number * len(batches) + jnp.arange(len(batches))
        moves = jnp.repeat(number >= shared, len(batches))
        state, _ = jax.lax.scan(step, state, (batches, times, moves))
        return state, watch(state[0], number)

    (learned, _), watched = jax.lax.scan(epoch, (begun, adam.init(begun)), jnp.arange(epochs))
    return learned, watched


def surprise(
    shape: NetworkShape, terms: Schedule, sheets: Tables, job: Settings, parameters: Parameters, rows: Array, key: Array
) -> Array:
    """Return the mean -log p̂ of the answers in some rows (eq. 1) plus the penalties."""
    present = sheets["present"][rows]
    if terms.dropout > 0:
        present = present * jax.random.bernoulli(key, 1 - terms.dropout, present.shape)
    x = inputs(jnp, sheets["values"][rows], present, sheets["group"])
    total, count = total_surprise(shape, sheets, parameters, x, rows, job["rows"])
    if terms.unquantized > 0:
        total = total + terms.unquantized * unquantized_surprise(shape, sheets, parameters, x, rows, job["rows"])
    misfit = total / jnp.maximum(count, 1)
    if not terms.penalised:
        return misfit
    own = sum((weights["own"] ** 2).sum() for weights in parameters.values())
    shared = sum((parameters[name]["shared"][1:] ** 2).sum() for name in ("W1", "W2", "V"))
    return misfit + 0.5 * (job["pooling"] * own + job["decay"] * shared) / sheets["count"]


def total_surprise(
    shape: NetworkShape, sheets: Tables, parameters: Parameters, x: Array, rows: Array, allowed: Array
) -> tuple[Array, Array]:
    """Return Σ -log p̂ of the `allowed` answers in some rows with inputs `x`, and their number."""
    answers = sheets["answers"][rows][..., : len(shape.options), : shape.widest]
    chance = (chances(jnp, shape, parameters, x) * answers).sum(axis=-1)
    answered = answers.sum(axis=-1) * allowed[rows][..., None]
    return -(jnp.log(jnp.where(answered > 0, chance, 1.0) + _TINY) * answered).sum(), answered.sum()


def unquantized_surprise(
    shape: NetworkShape, sheets: Tables, parameters: Parameters, x: Array, rows: Array, allowed: Array
) -> Array:
    """Return Σ -log density of the `allowed` answers in some rows with inputs `x`, which ties the latent scale."""
    answers = sheets["answers"][rows][..., : len(shape.options), : shape.widest]
    answered = answers.sum(axis=-1) * allowed[rows][..., None]
    return -(log_densities(jnp, shape, parameters, x, answers) * answered).sum()


# --- arrays of the compiled program --------------------------------------------------------------------------------


def tables(sheets: Sheets, widest: int) -> Tables:
    """Return the sheets as arrays, with answers one-hot; empty rows at the end pad batches."""

    def with_empty(rows: NDArray[Any], fill: float, kind: Any) -> Array:
        empty = np.full((_empty(len(rows)), *rows.shape[1:]), fill)
        return np.asarray(np.concatenate([rows, empty]), dtype=kind)

    return {
        "values": with_empty(sheets.values, 0, np.float32),
        "present": with_empty(sheets.present, 1, np.float32),
        "group": np.asarray(sheets.group, dtype=np.float32),
        "answers": with_empty(sheets.answers[..., None] == np.arange(widest), 0, np.float32),
        "count": np.asarray(float((sheets.answers[:, 0] >= 0).sum()), dtype=np.float32),
    }


def _empty(rows: int) -> int:
    """Return the number of empty rows to append: at least one, up to a size that folds of one data set share."""
    return _rounded(rows + 1, _ROUND) - rows


def _rounded(count: int, least: int) -> int:
    """Return the smallest of `least` times 1, 1.5, 2, 3, 4, 6, 8, ... that is not below `count`.

    Compiling takes longer than training on some empty rows.

    >>> [_rounded(count, 16) for count in (3, 16, 17, 25, 70)]
    [16, 16, 24, 32, 96]
    """
    size = least
    while size < count:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def settings(jobs: Sequence[TrainingJob]) -> Settings:
    """Return the jobs as arrays."""
    numbers = {name: np.asarray([getattr(job, name) for job in jobs], dtype=np.float32) for name in _NUMBERS}
    rows = np.array([np.append(job.rows, np.zeros(_empty(len(job.rows)), dtype=bool)) for job in jobs])
    return {**numbers, "rows": np.asarray(rows), "seed": np.asarray([job.seed for job in jobs], dtype=np.uint32)}


def schedules(annotator: Indices, annotators: int, jobs: Sequence[TrainingJob], terms: Schedule) -> Array:
    """Return (J, E, S, A, c) the rows of each step of each epoch of each job; `len(annotator)` marks an empty place.

    New batches are drawn in each epoch from the job's seed, of nearly equal size and at most `terms.batch` rows. Each
    annotator's rows are dealt out among them, which keeps the number of empty places small (docs/decisions/0011).
    Without batches all jobs share one step of all rows, and rows that a job may not learn from are masked.
    """
    if terms.batch is None:
        everything = blocks(annotator, annotators, np.arange(len(annotator)), _WIDTH)
        width = everything.shape[1]
        padded = np.pad(everything, ((0, 0), (0, _rounded(width, _WIDTH) - width)), constant_values=len(annotator))
        return np.asarray(padded[None, None, None], dtype=np.int32)
    epochs = max(terms.pretrain, terms.finetune)
    count = -(-max(int(job.rows.sum()) for job in jobs) // terms.batch)
    orders = [order for job in jobs for order in _orders(job, annotator, annotators, epochs)]
    batches = [order[first::count] for order in orders for first in range(count)]
    width = max(int(np.bincount(annotator[batch]).max(initial=1)) for batch in batches)
    arrays = np.stack([blocks(annotator, annotators, batch, width) for batch in batches])
    return np.asarray(arrays.reshape(len(jobs), epochs, count, annotators, width), dtype=np.int32)


def _orders(job: TrainingJob, annotator: Indices, annotators: int, epochs: int) -> Iterator[Indices]:
    """Yield a job's rows for each epoch in random order, each annotator's together, to be dealt out in turn."""
    rng = np.random.default_rng(job.seed)
    rows = np.flatnonzero(job.rows)
    for _ in range(epochs):
        mixed, place = rng.permutation(rows), rng.permutation(annotators)
        yield mixed[np.argsort(place[annotator[mixed]], kind="stable")]
