"""ChatGPT's recorded decisions on nine behaviors, calibrated with two annotators' labels on halves of ABC-Eval."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord import Project
from accord.embedded.catalogue import is_pulled
from accord.evidence import EvidenceTable, ask_rubric
from accord.learning import kinds_of
from accord.methods import WORST
from accord.models import Models, ModelSettings, run
from accord.project import config_from
from accord.statistics import Split, fold_of
from accord.validation import cross_validate_labels
from accord.validation.issue_metrics import (
    ABOVE_CHANCE,
    ALWAYS,
    CALIBRATED,
    MACRO,
    Called,
)
from accord.values import (
    ISSUE,
    Labels,
    Taxonomy,
)
from accord.values.issues import IssueType
from accord_papers.study import Row, spread_of

JUDGE, CLASSIFIERS = "gpt-3.5-turbo (ChatGPT, 2023)", "specialized classifier"
FIGURES = ("called", "precision", "recall", "f1", "alpha", "calibration_error")
EMBEDDER = "minilm-l6"


def abc_eval_rows(folder: Path, halvings: int) -> list[Row]:
    """Return issues called on the halves of the dialogues that were not learned from.

    The systems are the recorded judge, its calibrated decision on the same kind, and calibration on all evidence.

    Args:
        folder: Folder of the data set.
        halvings: Number of random halvings of the dialogues.
    """
    behaviors = behaviors_of(folder)
    with tempfile.TemporaryDirectory() as place:
        named = Path(place) / "behaviors.yaml"
        named.write_text(
            behaviors.model_dump_json(include={"name": True, "issues": {"__all__": {"name", "definition"}}}),
            encoding="utf-8",
        )
        config = config_from({
            "store": "sqlite:///:memory:", "metrics": ["bank", "lexical"],
            "models": {"judge": _recorded(folder, JUDGE)},
            "sources": {"issues": {"by": "judge", "taxonomy": str(named), "columns": "all"}},
        })  # fmt: skip
        with Project(config) as project:
            project.import_([folder], format="abc-eval")
            labels = project.store.labels()
            samples = project.samples(labels.targets)
            found, cheap = (project.measure([project.source(name)], samples) for name in ("issues", "metrics"))
            meaning = project.measure([project.source("meaning")], samples) if is_pulled(EMBEDDER) else None
            others = Models({"judge": ModelSettings(**_recorded(folder, CLASSIFIERS))}, project.store)
            classifiers = run(ask_rubric(behaviors.rubric, samples), others)
    known = {sample.conversation.id for sample in samples}
    both = found.join(cheap)
    systems = {"accord, without the embedder": both.join(classifiers)}
    if meaning is not None:
        systems = {
            "accord": both.join(classifiers).join(meaning),
            **systems,
            "accord, without the classifiers": both.join(meaning),
        }
    first = next(iter(systems))
    splits = [halve(known, seed) for seed in range(halvings)]
    results: dict[str, list[dict[str, Called]]] = {}
    for split in splits:
        for system, evidence in systems.items():
            calibrated, raw = cross_validate_labels(evidence, labels, [split])
            results.setdefault(system, []).append(calibrated)
            if system == first:
                results.setdefault("recorded-judge", []).append(raw)
                results.setdefault(ALWAYS, []).append({kind: each.everywhere() for kind, each in calibrated.items()})
        results.setdefault("accord, each kind's own decision", []).append(_own(found, labels, split))
    told = _told(results[first])
    return [row for system, each in sorted(results.items(), key=_order) for row in _rows(system, each, told)]


def behaviors_of(folder: Path) -> Taxonomy:
    """Return the nine behaviors of ABC-Eval as a taxonomy."""
    names = [
        question["name"]
        for question in json.loads((folder / "questions.json").read_text(encoding="utf-8"))["questions"]
    ]
    return Taxonomy(name="abc-eval", issues=tuple(IssueType(name=name, definition=name) for name in names))


def _told(halvings: Sequence[Mapping[str, Called]]) -> set[str]:
    """Return the kinds whose α with people is above 0 in the middle 95% of the halvings."""
    found = {
        kind: [each[kind].row(CALIBRATED, kind, draws=2).alpha or 0.0 for each in halvings] for kind in halvings[0]
    }
    return {kind for kind, alphas in found.items() if np.quantile(alphas, 0.025) > 0}


def _recorded(folder: Path, model: str) -> dict[str, Any]:
    return {"mode": "recorded", "paths": [str(folder)], "model": model}


def _own(found: EvidenceTable, labels: Labels, split: Split) -> dict[str, Called]:
    """Call each kind from the judge's decision on that kind alone."""
    called: dict[str, Called] = {}
    for kind in kinds_of(found):
        columns = [c for c in found.columns if c.name in {ISSUE + kind, f"{ISSUE}{kind}{WORST}"}]
        called |= cross_validate_labels(found.align(columns), labels, [split])[0]
    return called


def halve(names: Iterable[str], seed: int) -> Split:
    """Return a random halving of the dialogues."""
    fold = fold_of(names, 2, seed)
    return Split(*(frozenset(name for name, at in fold.items() if at == side) for side in (0, 1)))


def _order(system: tuple[str, Any]) -> tuple[bool, str]:
    return system[0] != "recorded-judge", system[0]


def _rows(system: str, halvings: Sequence[Mapping[str, Called]], told: Collection[str]) -> list[Row]:
    """Return the mean F1 over all kinds and some kinds, then one row per kind, with the spread of the halvings."""
    each = [{kind: called.row(system, kind, draws=2).to_json() for kind, called in one.items()} for one in halvings]
    kinds = list(each[0])
    rows: list[Row] = []
    for name, some in ((MACRO, kinds), (ABOVE_CHANCE, [kind for kind in kinds if kind in told])):
        macro = [float(np.mean([one[kind]["f1"] or 0.0 for kind in some])) for one in each if some]
        rows.append({"part": "abc_eval", "system": system, "issue": name, **spread_of("macro_f1", macro)})
    for kind in kinds:
        row: Row = {"part": "abc_eval", "system": system, "issue": kind}
        for name in FIGURES:
            row |= spread_of(name, [one[kind][name] for one in each if one[kind][name] is not None])
        rows.append(row)
    return rows
