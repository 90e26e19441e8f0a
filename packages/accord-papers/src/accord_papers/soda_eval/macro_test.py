"""Test of the mean F1 on ABC-Eval: learning from people's labels against the recorded judge's own decisions."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accord import Project
from accord.embedded.catalogue import is_pulled
from accord.evidence import ask_rubric
from accord.models import Models, ModelSettings, run
from accord.project import config_from
from accord.validation import cross_validate_labels
from accord.validation.issue_metrics import Called
from accord_papers.soda_eval.abc_eval import CLASSIFIERS, EMBEDDER, JUDGE, behaviors_of, halve

Floats = NDArray[np.float64]
PERMUTATIONS = 2000


def learned_and_recorded(folder: Path, seed: int = 0) -> tuple[dict[str, Called], dict[str, Called]]:
    """Return the calls of each kind on one half of the dialogues: learned on the other half, and of the judge.

    The evidence is that of the system `accord` of `abc_eval_rows`.
    """
    behaviors = behaviors_of(folder)
    recorded = {"mode": "recorded", "paths": [str(folder)]}
    with tempfile.TemporaryDirectory() as place:
        named = Path(place) / "behaviors.yaml"
        named.write_text(
            behaviors.model_dump_json(include={"name": True, "issues": {"__all__": {"name", "definition"}}}),
            encoding="utf-8",
        )
        config = config_from({
            "store": "sqlite:///:memory:", "metrics": ["bank", "lexical"],
            "models": {"judge": {**recorded, "model": JUDGE}},
            "sources": {"issues": {"by": "judge", "taxonomy": str(named), "columns": "all"}},
        })  # fmt: skip
        with Project(config) as project:
            project.import_([folder], format="abc-eval")
            labels = project.store.labels()
            samples = project.samples(labels.targets)
            names = ("issues", "metrics", *(["meaning"] if is_pulled(EMBEDDER) else []))
            found, *others = (project.measure([project.source(name)], samples) for name in names)
            models = Models({"judge": ModelSettings.model_validate({**recorded, "model": CLASSIFIERS})}, project.store)
            evidence = found.join(run(ask_rubric(behaviors.rubric, samples), models))
    for other in others:
        evidence = evidence.join(other)
    split = halve({sample.conversation.id for sample in samples}, seed)
    calibrated, raw = cross_validate_labels(evidence, labels, [split])
    return calibrated, raw


def macro_test(first: Mapping[str, Called], second: Mapping[str, Called], seed: int = 0) -> float:
    """Return p, two-sided, of the difference in mean F1 over the kinds of issues.

    Under the null hypothesis two systems are exchangeable within each dialogue: each of `PERMUTATIONS` permutations
    swaps their calls in a random half of the dialogues.
    """
    names = sorted({name for called in first.values() for name in called.conversation})
    keep = np.random.default_rng(seed).integers(0, 2, (PERMUTATIONS, len(names))).astype(float)
    keep[0] = 1
    total = np.zeros(PERMUTATIONS)
    for kind, called in first.items():
        own, other = (_counts(each, names) for each in (called, second[kind]))
        one, two = (keep @ a + (1 - keep) @ b for a, b in ((own, other), (other, own)))
        total += _f1(one) - _f1(two)
    return float((np.abs(total) >= abs(total[0]) - 1e-12).mean())


def _counts(called: Called, names: Sequence[str]) -> Floats:
    """Return (C, 3) by dialogue: rightly called, called, marked."""
    counts = np.zeros((len(names), 3))
    rows = np.column_stack([called.marked & called.called, called.called, called.marked]).astype(float)
    np.add.at(counts, np.searchsorted(names, list(called.conversation)), rows)
    return counts


def _f1(counts: Floats) -> Floats:
    """Return (D,) F1 of (D, 3) counts; 0 where nothing is called or marked."""
    both = counts[:, 1] + counts[:, 2]
    return np.divide(2 * counts[:, 0], both, out=np.zeros(len(both)), where=both > 0)


def macro_f1(calls: Mapping[str, Called]) -> float:
    """Return the mean F1 over the kinds of issues."""
    names = sorted({name for called in calls.values() for name in called.conversation})
    return float(np.mean([_f1(_counts(called, names).sum(axis=0)[None])[0] for called in calls.values()]))
