"""Selection over recorded answers: each question and option of a judge is a candidate, on splits of whole dialogues."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Column, EvidenceTable
from accord.methods.learned_rubric.assertion_selector import (
    AssertionSelector,
    NetSatOutcome,
)
from accord.methods.learned_rubric.selection_policies import (
    SelectionSettings,
    stratified,
)
from accord.values import Label, Labels, Target
from accord_papers.rubicon.baselines import SYSTEMS
from accord_papers.rubicon.outcomes import figures, mean_row
from accord_papers.rubicon.simulation import MAIN
from accord_papers.study import Row

Flags = NDArray[np.bool_]
Answers = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Probability by item, question and option."""


@cache
def recorded_rows(data: Path, seeds: int) -> list[Row]:
    """Return both data sets: means over splits in halves, with the spread of the splits."""
    rows: list[Row] = []
    for name in SETS:
        recorded = Recorded.load(data, name)
        found: dict[str, list[Row]] = {}
        for seed in range(seeds):
            for system, outcome in recorded.outcomes(seed).items():
                found.setdefault(system, []).append(figures(outcome))
        labels = {"dataset": name, "conversations": len(recorded.truth), "seeds": seeds}
        rows += [
            {**labels, "system": system, **mean_row(each, are_independent=False)} for system, each in found.items()
        ]
    return rows


@dataclass(frozen=True)
class Recorded:
    """Recorded answers as candidates, one for each question and option, and for each whole question.

    Attributes:
        options: Each option of a question as a candidate.
        questions: Each question as a candidate.
        truth: (n,) mask of good rows.
        groups: (n,) dialogue of each row.
    """

    options: EvidenceTable
    questions: EvidenceTable
    truth: Flags
    groups: Sequence[str]

    @classmethod
    def load(cls, data: Path, name: str) -> Recorded:
        """Read a data set of `SETS`."""
        answers, good, groups = SETS[name](data / name)
        items = sorted(good)
        targets = tuple(Target(groups[item], place) for place, item in enumerate(items))
        options, questions = (_table(targets, items, answers, shape) for shape in (_each_option, _whole))
        return cls(options, questions, np.array([good[item] for item in items]), [groups[item] for item in items])

    def outcomes(self, seed: int) -> dict[str, NetSatOutcome]:
        """Return the scores of one half of the dialogues by each system that learned on the other half."""
        candidates = {name: (self.options, settings) for name, settings in SYSTEMS.items()}
        candidates["all questions"] = (self.questions, {"policy": "all"})
        fold = stratified(self.groups, self.truth, seed, 2)
        train, test = np.flatnonzero(fold == 0), np.flatnonzero(fold == 1)
        pairs = zip(self.options.targets, self.truth, strict=True)
        labels = Labels(Label(target, "good", "people", int(each)) for target, each in pairs)
        seen = labels.filter({self.options.targets[row].conversation for row in train})
        found = {}
        for name, (table, settings) in candidates.items():
            selector = AssertionSelector(MAIN, settings=SelectionSettings(**settings), seed=seed)
            found[name] = selector.fit(table.take(train), seen).outcome(table.take(test), self.truth[test])
        return found


def _each_option(question: str, options: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return each option as a question of its own, with its probability."""
    return {f"{question}={option}": {"0": 1 - p, "1": p} for option, p in options.items()}


def _whole(question: str, options: Mapping[str, float]) -> dict[str, dict[str, float]]:
    return {question: dict(options)}


def _table(
    targets: tuple[Target, ...],
    items: list[str],
    answers: Answers,
    shape: Callable[[str, Mapping[str, float]], dict[str, dict[str, float]]],
) -> EvidenceTable:
    """Return answers as evidence, one block of columns per candidate."""
    blocks = [{n: d for q, options in answers[item].items() for n, d in shape(q, options).items()} for item in items]
    names = sorted({name for block in blocks for name in block})
    columns = [
        Column(f"{name}/{option}", f"recorded|question:{name}", name, float(option))
        for name in names
        for option in sorted({o for block in blocks for o in block.get(name, {})}, key=float)
    ]
    rows = {
        target: {f"{name}/{option}": p for name, options in block.items() for option, p in options.items()}
        for target, block in zip(targets, blocks, strict=True)
    }
    return EvidenceTable.from_rows(columns, rows)


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _real(folder: Path) -> tuple[Answers, dict[str, bool], dict[str, str]]:
    """Read LLM-RUBRIC's real conversations: bad up to 2 on Q0, good from 3 on; the judge's nine distributions."""
    answers: dict[str, dict[str, dict[str, float]]] = {}
    for line in _lines(folder / "judgments.jsonl.gz"):
        answers.setdefault(line["item_id"], {})[line["question"]] = line["distribution"]
    good = {
        item["id"]: rating["value"] >= 3
        for item in _lines(folder / "items.jsonl.gz")
        for rating in item["ratings"]
        if rating["question"] == "Q0"
    }
    return answers, good, {name: name for name in good}


def _turns(folder: Path) -> tuple[Answers, dict[str, bool], dict[str, str]]:
    """Read ABC-Eval's turns: bad where both annotators mark an issue, good where neither does; two recorded judges."""
    answers: dict[str, dict[str, dict[str, float]]] = {}
    for line in _lines(folder / "judgments.jsonl.gz"):
        question = f"{line['judge_model'].split()[0]} {line['question']}"
        said = {"0": 1.0 - line["value"], "1": float(line["value"])}
        answers.setdefault(line["item_id"], {})[question] = said
    good, groups = {}, {}
    for item in _lines(folder / "items.jsonl.gz"):
        marked: dict[str, bool] = {}
        for rating in item["ratings"]:
            issue = rating["question"] != "empathetic" and rating["value"] == 1
            marked[rating["annotator"]] = marked.get(rating["annotator"], False) or issue
        if all(marked.values()) or not any(marked.values()):
            good[item["id"]], groups[item["id"]] = not any(marked.values()), item["id"].rsplit("-", 1)[0]
    return answers, good, groups


SETS: Mapping[str, Callable[[Path], tuple[Answers, dict[str, bool], dict[str, str]]]] = {
    "llm_rubric_real": _real, "abc_eval": _turns,
}  # fmt: skip
"""Readers of the data sets: recorded answers, good items, and the dialogue of each item."""
