"""Training time of the answer models `mixed` and `network`, compared with the usual way of training.

    python benchmarks/calibration_speed.py [--data ../shared/data] [--only mixed,network-grid] [--quick] --json OUT

mixed         chooses its variance ratios, fits and predicts on one core. The textbook way maximizes the same restricted
              likelihood on the dense (n, n) covariance, with numerical gradients, by the same optimizer from the same
              start; its ratios must agree.
network-grid  the paper's grid (16,128 cells, 5 folds) in CPU seconds, compared with training every cell eagerly: a step
              of each program is timed and multiplied by the steps that its cells take. `--limit N` takes N of the 64
              programs, evenly spaced by cost; `--quick` the cheapest. Cells and folds are the same on both sides.
              `--budget 60s` then searches the grid for that time and compares the best cell with that of all programs.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # one core, before NumPy is imported
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from eager import seconds_of_a_step
from harness import Row, chosen, finish, options
from numpy.typing import NDArray
from scipy import optimize

from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import Calibration
from accord.learning.answer_models.mixed.model import MixedAnswers
from accord.learning.answer_models.network.answers import answers_to
from accord.learning.answer_models.network.formula import (
    NetworkShape,
    predict,
)
from accord.learning.answer_models.network.training import Schedule, Sheets, TrainingJob, train
from accord.models import RecordedJudge
from accord.statistics import Clusters, grouped_folds
from accord.testing import planted
from accord.values import Labels, Question, load_rubric
from accord_papers.llm_rubric.protocols import load
from accord_papers.variants.grid import Cell, Grid, losses, search

Floats = NDArray[np.float64]


def corpus(folder: Path) -> tuple[str, EvidenceTable, Labels, Question]:
    """LLM-RUBRIC's synthetic rows if the data exist, otherwise a planted corpus of the same size."""
    if folder.is_dir():
        judge = RecordedJudge.read([folder / "llm_rubric_synth"])
        data = load(folder, "llm_rubric_synth", load_rubric("llm-rubric"), judge)
        return data.name, data.evidence, data.labels, data.question
    drawn = planted(conversations=223, annotators=24, features=9, share=3 / 24, noise=0.7)
    return "planted", drawn.evidence, drawn.labels, drawn.question


def textbook(features: EvidenceTable, rated: Ratings) -> Floats:
    """Return the variance ratios by REML on the dense covariance."""
    X = features.values[rated.row]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    gram, person = Z @ Z.T, rated.annotator[:, None] == rated.annotator
    parts = np.stack([gram, person, gram * person, rated.text[:, None] == rated.text]).astype(float)
    ones, n = np.ones(len(Z)), len(Z)

    def criterion(logs: Floats) -> float:
        V = np.tensordot(np.exp(logs), parts, axes=1) + np.eye(n)
        inverse = np.linalg.inv(V)
        mean = (ones @ inverse @ rated.value) / (ones @ inverse @ ones)
        residual = rated.value - mean
        noise = residual @ inverse @ residual / (n - 1)
        log_det = np.linalg.slogdet(V)[1] + np.log(ones @ inverse @ ones)
        return float(0.5 * (log_det + (n - 1) * np.log(noise)))

    found = optimize.minimize(criterion, np.full(4, np.log(0.05)), method="L-BFGS-B", bounds=[(-12.0, 4.0)] * 4)
    return np.asarray(np.exp(found.x))


def timed(work: Callable[[], object], times: int) -> float:
    """Return the median seconds of `work`."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


# --- the network's grid --------------------------------------------------------------------------------------------


def sheets_of(evidence: EvidenceTable, labels: Labels, question: Question) -> tuple[NetworkShape, Sheets, Ratings]:
    """Return the dimensions of the paper's network and its training sheets, with every question as a task."""
    rated = ratings(evidence, labels, question)
    answers, choices = answers_to(rated, labels)
    people, who = np.unique(rated.annotator.astype(str), return_inverse=True)
    x = evidence.values[rated.row]
    sheets = Sheets(x, np.ones((len(x), 0)), np.ones((0, x.shape[1])), who.astype(np.intp), answers)
    return NetworkShape(x.shape[1], (1, 1), choices, len(people), "softmax"), sheets, rated


def eager_steps(grid: Grid, batch: int, folds: Sequence[NDArray[np.bool_]]) -> int:
    """Return the steps that the cells of one program take when each is trained separately, over all folds."""
    epochs = sum(pretrain + finetune for pretrain in grid.epochs for finetune in grid.epochs)
    return sum(epochs * len(grid.rate) * -(-int(rows.sum()) // batch) for rows in folds)


def network_grid(
    evidence: EvidenceTable, labels: Labels, question: Question, count: int | None, budget: float | None
) -> list[Row]:
    """Measure the grid's cost, eager training, and a bounded search."""
    shape, sheets, rated = sheets_of(evidence, labels, question)
    folds = [
        np.array([name in split.train for name in rated.conversation])
        for split in grouped_folds(list(rated.conversation), 5, 43)
    ]
    grid = Grid()
    programs = grid.programs()
    if count is not None:
        programs = [programs[i] for i in np.linspace(0, 63, count).astype(int)]
    spent, eager, best = 0.0, dict[str, float](), np.inf
    for first, second, batch in programs:
        sized = replace(shape, hidden=(first, second))
        start = time.process_time()
        loss = float(losses(sized, batch, sheets, folds, grid, seed=0).min())
        seconds = time.process_time() - start
        spent, best = spent + seconds, min(best, loss)
        for mode, step in seconds_of_a_step(sized, sheets, batch).items():
            eager[mode] = eager.get(mode, 0.0) + step * eager_steps(grid, batch, folds)
        print(
            f"  {first:3} x {second:3}, batch {batch:3}: {seconds:6.1f} s, best {loss:.4f}", file=sys.stderr, flush=True
        )
    cells = len(programs) * len(grid) // 64
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    about = {"n": len(rated), "programs": len(programs), "cells": cells}
    rows: list[Row] = [
        {"what": mode, "seconds": seconds, "ratio": 1.0, **about} for mode, seconds in sorted(eager.items())
    ]
    ratio = min(eager.values()) / spent
    rows.append({"what": "network-grid", "seconds": spent, "ratio": ratio, "peak_mb": peak, "log_loss": best, **about})
    if budget is not None:
        start = time.process_time()
        found = search(shape, sheets, folds, grid, seconds=budget)
        error = standard_error(shape, sheets, folds, found[0], rated)
        seconds = time.process_time() - start
        bounded = {"what": f"bounded search, {budget:.0f} s", "seconds": seconds, "cells": len(found)}
        rows.append({**bounded, "log_loss": found[0].loss, "standard_error": error, "n": len(rated)})
    return rows


def standard_error(
    shape: NetworkShape, sheets: Sheets, folds: Sequence[NDArray[np.bool_]], cell: Cell, rated: Ratings
) -> float:
    """Return the standard error of a cell's held-out log loss, clustered by conversation."""
    sized = replace(shape, hidden=cell.hidden)
    terms = Schedule(cell.pretrain, cell.finetune, cell.batch, dropout=0.0, penalised=False)
    networks = train(sized, sheets, terms, [TrainingJob(rows, cell.rate, 0.0, 0.0, 0) for rows in folds])
    surprise = np.zeros(len(rated))
    for network, learned in zip(networks, folds, strict=True):
        rest = np.flatnonzero(~learned)
        shares = predict(sized, [network], sheets.values[rest], sheets.annotator[rest])
        surprise[rest] = -np.log(np.maximum(shares[np.arange(len(rest)), rated.answer[rest]], 1e-12))
    clusters = Clusters(rated.conversation)
    off = clusters.sums((surprise - surprise.mean())[:, None])[:, 0]
    return float(np.sqrt((off**2).sum()) / len(rated))


PARTS = ("mixed", "network-grid")


def main() -> None:
    parser = options("calibration_speed", "Learning, selection and prediction of calibration's two cores.", PARTS)
    parser.add_argument("--budget", help="also search the grid for so long, for instance 60s")
    given = parser.parse_args()
    wanted = chosen(parser, given.only, PARTS)
    dataset, evidence, labels, question = corpus(given.data)
    rows: list[Row] = []
    if "mixed" in wanted:
        rows += mixed(evidence, labels, question, given.limit or (3 if given.quick else 9))
    if "network-grid" in wanted:
        budget = None if given.budget is None else float(given.budget.removesuffix("s"))
        rows += network_grid(evidence, labels, question, 1 if given.quick else given.limit, budget)
    for row in rows:
        row["dataset"] = dataset
    columns = ["what", "dataset", "n", "seconds", "ratio", "log_ratio_difference", "programs", "cells", "peak_mb"]
    finish("calibration_speed", rows, [*columns, "log_loss", "standard_error"], given.json)


def mixed(evidence: EvidenceTable, labels: Labels, question: Question, times: int) -> list[Row]:
    """Measure the mixed model and the textbook way."""
    rated = ratings(evidence, labels, question)
    annotators = list(rated.annotator)

    def ours() -> None:
        Calibration(question, answer_model="mixed").fit(evidence, labels).predict_each(
            evidence.take(rated.row), annotators
        )

    seconds = timed(ours, times)
    start = time.perf_counter()
    ratios = textbook(evidence.expected(), rated)
    dense = time.perf_counter() - start
    answer_model = Calibration(question, answer_model="mixed").fit(evidence, labels).answer_model_
    assert isinstance(answer_model, MixedAnswers)
    same = float(
        np.abs(np.log(ratios) - np.log(answer_model.model_.ratios_[: len(ratios)])).max()
    )  # the rest is of groups, none here
    about = {"n": len(rated), "cores": 1}
    return [
        {"what": "mixed", "seconds": seconds, "ratio": dense / seconds, **about},
        {"what": "textbook-reml", "seconds": dense, "ratio": 1.0, "log_ratio_difference": same, **about},
    ]


if __name__ == "__main__":
    main()
