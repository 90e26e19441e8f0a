"""ChatGPT's recorded decisions on nine behaviors, calibrated with two annotators' labels on halves of ABC-Eval."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

Floats = NDArray[np.float64]
JUDGE, CLASSIFIERS = "gpt-3.5-turbo (ChatGPT, 2023)", "specialized classifier"
FIGURES = ("called", "precision", "recall", "f1", "alpha", "calibration_error")
EMBEDDER = "minilm-l6"


PERMUTATIONS = 2000
RECORDED_JUDGE = "recorded-judge"


def abc_eval_rows(folder: Path, halvings: int) -> list[Row]:
    """Return issues called on the halves of the dialogues that were not learned from.

    The systems are the recorded judge, its calibrated decision on the same kind, and calibration on all evidence. The
    mean F1 of each system is tested against the recorded judge's on the first halving.

    Args:
        folder: Folder of the data set.
        halvings: Number of random halvings of the dialogues.
    """
    results = abc_eval_calls(folder, halvings)
    told = _told(next(each for system, each in results.items() if system.startswith("accord")))
    rows = [row for system, each in sorted(results.items(), key=_order) for row in _rows(system, each, told)]
    for row in rows:
        if row["issue"] == MACRO and row["system"] != RECORDED_JUDGE:
            row["p"] = macro_test(results[row["system"]][0], results[RECORDED_JUDGE][0])
    return rows


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


def abc_eval_calls(folder: Path, halvings: int) -> dict[str, list[dict[str, Called]]]:
    """Return the calls of each system on each halving, by kind of issue."""
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
                results.setdefault(RECORDED_JUDGE, []).append(raw)
                results.setdefault(ALWAYS, []).append({kind: each.everywhere() for kind, each in calibrated.items()})
        results.setdefault("accord, each kind's own decision", []).append(_own(found, labels, split))
    return results


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
    return system[0] != RECORDED_JUDGE, system[0]


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
