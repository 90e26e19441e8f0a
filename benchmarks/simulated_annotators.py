"""Annotators whose habits are known: how well they are found again, and what that takes as they become many.

    python benchmarks/simulated_annotators.py [--quick] --json OUT

Ratings are drawn as y = round(level + x·w + the annotator's level and weights + the text + noise), cut to 1..5, three
of each text. Levels have standard deviation .6, own weights .15 each. `coverage` is the share of true levels inside
their 95 % intervals; `held` the share of new ratings inside the 90 % conformal bands. Each row is a process of its
own; `peak_mb` is that process's. The last row has a million labels; sizes below 1,000 annotators are means of five
draws. The baseline is each annotator's mean of their residuals from one regression for all, the way habits are
usually corrected.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from harness import Row, finish, options
from numpy.typing import NDArray

from accord.evidence import Column, EvidenceTable
from accord.learning import Calibration
from accord.learning.answer_models.mixed.model import MixedAnswers
from accord.values import Label, Labels, Question, Scale, Score, Target

Floats = NDArray[np.float64]

SIZES = [(10, 2), (10, 10), (10, 50), (100, 2), (100, 10), (100, 50), (1000, 2), (1000, 10), (1000, 50), (1000, 1000)]
FEATURES = 6
PER_TEXT = 3
NEW = 2000
DRAWS = 5


def drawn(annotators: int, each: int, seed: int) -> tuple[EvidenceTable, Labels, Floats, list[Label]]:
    """Evidence, labels, true levels, and labels of texts that are not learned from."""
    rng = np.random.default_rng(seed)
    count = annotators * each
    texts = -(-count // PER_TEXT) + NEW
    x = rng.normal(size=(texts, FEATURES))
    weights = np.linspace(0.5, 0.05, FEATURES)
    levels = rng.normal(scale=0.6, size=annotators)
    own = rng.normal(scale=0.15, size=(annotators, FEATURES))
    extra = rng.normal(scale=0.3, size=texts)
    who = np.concatenate([rng.permutation(np.repeat(np.arange(annotators), each)), rng.integers(annotators, size=NEW)])
    text = np.concatenate([np.arange(count) // PER_TEXT, np.arange(texts - NEW, texts)])
    mean = 3 + (x[text] * (weights + own[who])).sum(axis=1) + levels[who] + extra[text]
    value = np.clip(np.round(mean + rng.normal(scale=0.6, size=len(who))), 1, 5).astype(int)
    targets = tuple(Target(f"c{place}") for place in range(texts))
    labels = [Label(targets[t], "main", f"a{a:04d}", int(v)) for t, a, v in zip(text, who, value, strict=True)]
    columns = tuple(Column(f"f{place}", "simulated") for place in range(FEATURES))
    table = EvidenceTable(targets, columns, x, np.ones(x.shape, dtype=bool))
    return table, Labels(labels[:count]), levels, labels[count:]


def measured(annotators: int, each: int, seed: int = 0) -> dict[str, Any]:
    """One size: recovery, coverage, seconds and memory."""
    table, labels, levels, new = drawn(annotators, each, seed)
    question = Question(id="main", text="How good?", scale=Scale(options=(1, 2, 3, 4, 5)))
    start = time.perf_counter()
    evaluator = Calibration(question, answer_model="mixed").fit(table, labels)
    seconds = time.perf_counter() - start
    answer_model = evaluator.answer_model_
    assert isinstance(answer_model, MixedAnswers)
    model = answer_model.model_
    truth = levels[[int(str(name)[1:]) for name in model.annotators_]]
    truth, found = truth - truth.mean(), model.offsets_ - model.offsets_.mean()
    inside = np.abs(found - truth) <= 1.96 * model.offset_error_
    scores = evaluator.predict_each(
        table.take(table.rows_of(label.target for label in new)), [n.annotator for n in new]
    )
    held = [s.band[0] <= float(n.value) <= s.band[1] for s, n in zip(scores, new, strict=True)  # type: ignore[arg-type]
            if isinstance(s, Score) and s.band]  # fmt: skip
    return {
        "annotators": annotators, "labels": annotators * each, "seconds": seconds,
        "recovery": float(np.corrcoef(found, truth)[0, 1]), "baseline_recovery": baseline(table, labels, levels),
        "coverage": float(inside.mean()), "held": float(np.mean(held)),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def baseline(table: EvidenceTable, labels: Labels, levels: Floats) -> float:
    """Correlation of each annotator's mean residual, from one least-squares line for all, with their level."""
    rows = table.rows_of(label.target for label in labels)
    y = np.array([float(label.value or 0) for label in labels])
    who = np.array([int(label.annotator[1:]) for label in labels])
    X = np.hstack([np.ones((len(y), 1)), table.values[rows]])
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    count = np.bincount(who, minlength=len(levels))
    mean = np.bincount(who, residual, len(levels)) / np.maximum(count, 1)
    return float(np.corrcoef(mean[count > 0], levels[count > 0])[0, 1])


def main() -> None:
    parser = options("simulated_annotators", "Recovery of known habits, 10 to 1,000 annotators.")
    parser.add_argument("--one", help=argparse_hidden())
    given = parser.parse_args()
    if given.one:
        annotators, each = map(int, given.one.split("x"))
        for seed in range(DRAWS if annotators < 1000 else 1):
            print(json.dumps(measured(annotators, each, seed)))
        return
    sizes = SIZES[: given.limit or (5 if given.quick else None)]
    rows: list[Row] = []
    for annotators, each in sizes:
        command = [sys.executable, __file__, "--one", f"{annotators}x{each}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
        counts = {name: int(mean[name]) for name in ("annotators", "labels")}
        rows.append({"system": "accord", "each": each, **mean, **counts, "draws": len(found)})
    columns = ["annotators", "each", "labels", "recovery", "baseline_recovery", "coverage", "held"]
    finish("simulated_annotators", rows, [*columns, "seconds", "peak_mb"], given.json)


def argparse_hidden() -> str:
    """Help of an option that the script gives to itself."""
    import argparse

    return argparse.SUPPRESS


if __name__ == "__main__":
    main()
