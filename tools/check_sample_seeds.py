"""Stability of the demo's comparison over other seeds of the ratings.

`python tools/check_sample_seeds.py 0 1 2 ...` prints a line per seed, and in how many of them the mixed model on words
alone beats every baseline (RMSE, p < 0.05 after Holm's correction).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import draw_sample_ratings

from accord import Project
from accord.evidence import EvidenceTable
from accord.learning import Experiment, FoldPlan, make_head
from accord.project import Config
from accord.sample import sources
from accord.statistics import FOLDS
from accord.validation import baselines, compared, is_better
from accord.values import Labels, Question

DRAWS = 1000
SURE = 0.05


def read(ratings: Path) -> tuple[EvidenceTable, Labels, Question]:
    """The demo's evidence, and ratings of a file."""
    with Project(Config(store="sqlite:///:memory:")) as project:
        project.import_([sources()[0], ratings])
        evaluator = project.evaluator()
        return (
            project.measure(evaluator.sources, list(project.all_samples())),
            project.store.labels(),
            project.question,
        )


def holds(seed: int, ratings: Path) -> bool:
    """Draw ratings by a seed, compare, print a line, and say whether every baseline is beaten."""
    draw_sample_ratings.main(seed, ratings)
    table, labels, question = read(ratings)
    experiment = Experiment.of(table, labels, question, FOLDS)
    ours, rated = experiment.run("mixed", lambda asked: make_head("mixed", asked, {})), experiment.ratings
    systems = [ours, *FoldPlan(baselines(experiment)).run()]
    found = [d for d in compared(experiment, systems, DRAWS).differences if d.statistic == "rmse"]
    beaten = all(is_better(d) and d.p_holm < SURE for d in found)
    shown = ", ".join(f"{d.against} {d.test.difference:+.3f} [{d.test.low:+.3f}, {d.test.high:+.3f}]" for d in found)
    error = float(((ours.value - rated.value) ** 2).mean() ** 0.5)
    print(
        f"seed {seed}: RMSE {error:.3f}; against {shown}; {'beats all' if beaten else 'does not beat all'}", flush=True
    )
    return beaten


def main(seeds: list[int]) -> None:
    """Every seed, and the share in which every baseline is beaten."""
    with tempfile.TemporaryDirectory() as folder:
        done = [holds(seed, Path(folder) / f"ratings-{seed}.csv") for seed in seeds]
    print(f"{sum(done)} of {len(done)}")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or list(range(21)))
