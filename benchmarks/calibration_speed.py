"""How long `mixed` takes to choose its variance ratios, fit and predict, on one core, beside the textbook way.

    python benchmarks/calibration_speed.py [--data ../shared/data] [--quick] --json OUT

The textbook way is the same restricted likelihood on the dense (n, n) covariance, with numerical gradients, by the
same optimiser from the same start; its ratios must agree.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # one core, before NumPy is imported

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import median  # noqa: E402

import numpy as np  # noqa: E402
from harness import Row, finish, options  # noqa: E402
from llm_rubric import load  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy import optimize  # noqa: E402

from accord.evaluators import Calibration  # noqa: E402
from accord.evaluators.calibration.mixed_core import MixedCore  # noqa: E402
from accord.evaluators.ratings import Ratings, ratings  # noqa: E402
from accord.evidence import EvidenceTable  # noqa: E402
from accord.labels import Labels  # noqa: E402
from accord.llm import RecordedJudge  # noqa: E402
from accord.rubric import Question, load_rubric  # noqa: E402
from accord.testing import planted  # noqa: E402

Floats = NDArray[np.float64]


def corpus(folder: Path) -> tuple[str, EvidenceTable, Labels, Question]:
    """LLM-RUBRIC's synthetic rows where they are, else a planted corpus of their shape."""
    if folder.is_dir():
        judge = RecordedJudge.read([folder / "llm_rubric_synth"])
        data = load(folder, "llm_rubric_synth", load_rubric("llm-rubric"), judge)
        return data.name, data.evidence, data.labels, data.question
    drawn = planted(conversations=223, annotators=24, features=9, share=3 / 24, noise=0.7)
    return "planted", drawn.evidence, drawn.labels, drawn.question


def textbook(features: EvidenceTable, rated: Ratings) -> Floats:
    """The variance ratios by REML on the dense covariance."""
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
    """Median seconds of `work`."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def main() -> None:
    parser = options("calibration_speed", "Fit, selection and prediction of the mixed core on one core.")
    given = parser.parse_args()
    dataset, evidence, labels, question = corpus(given.data)
    rated = ratings(evidence, labels, question)
    annotators = list(rated.annotator)

    def ours() -> None:
        Calibration(question, core="mixed").fit(evidence, labels).predict_each(evidence.take(rated.row), annotators)

    seconds = timed(ours, given.limit or (3 if given.quick else 9))
    start = time.perf_counter()
    ratios = textbook(evidence.expected(), rated)
    dense = time.perf_counter() - start
    core = Calibration(question, core="mixed").fit(evidence, labels).core_
    assert isinstance(core, MixedCore)
    same = float(np.abs(np.log(ratios) - np.log(core.model_.ratios_)).max())
    about = {"dataset": dataset, "n": len(rated), "cores": 1}
    rows: list[Row] = [
        {"what": "mixed", "seconds": seconds, "ratio": dense / seconds, **about},
        {"what": "textbook-reml", "seconds": dense, "ratio": 1.0, "log_ratio_difference": same, **about},
    ]
    finish("calibration_speed", rows, ["what", "dataset", "n", "seconds", "ratio", "log_ratio_difference"], given.json)


if __name__ == "__main__":
    main()
