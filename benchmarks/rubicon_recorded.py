"""Selection over recorded answers: each question and option of a judge is a candidate, on splits of whole dialogues."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row
from numpy.typing import NDArray
from rubicon_planted import MAIN, SYSTEMS

from accord.evidence import Column, EvidenceTable
from accord.methods import AssertionSelector, SelectionSettings, figures, stratified
from accord.values import Label, Labels, Target

Answers = Mapping[str, Mapping[str, Mapping[str, float]]]
"""item → question → option → probability."""


def recorded_rows(data: Path, seeds: int) -> list[Row]:
    """Both data sets: means over splits in halves, with the spread of the middle 95 % of the splits."""
    rows: list[Row] = []
    for name, load in (("llm_rubric_real", _real), ("abc_eval", _turns)):
        answers, good, groups = load(data / name)
        rows += _tried(name, answers, good, groups, seeds)
    return rows


def _tried(
    dataset: str, answers: Answers, good: Mapping[str, bool], groups: Mapping[str, str], seeds: int
) -> list[Row]:
    items = sorted(good)
    targets = tuple(Target(groups[item], place) for place, item in enumerate(items))
    truth = np.array([good[item] for item in items])
    labels = Labels(Label(target, "good", "people", int(each)) for target, each in zip(targets, truth, strict=True))
    options = _table(targets, items, answers, _each_option)
    questions = _table(targets, items, answers, _whole)
    found: dict[str, list[Row]] = {}
    for seed in range(seeds):
        fold = stratified([groups[item] for item in items], truth, seed, 2)
        train, test = np.flatnonzero(fold == 0), np.flatnonzero(fold == 1)
        seen = labels.filter({targets[row].conversation for row in train})
        for name, settings in SYSTEMS.items():
            selector = AssertionSelector(MAIN, settings=SelectionSettings(**settings), seed=seed)
            outcome = selector.fit(options.take(train), seen).outcome(options.take(test), truth[test])
            found.setdefault(name, []).append(figures(outcome))
        whole = AssertionSelector(MAIN, settings=SelectionSettings(policy="all"), seed=seed)
        outcome = whole.fit(questions.take(train), seen).outcome(questions.take(test), truth[test])
        found.setdefault("all questions", []).append(figures(outcome))
    return [_mean(dataset, name, rows, len(items)) for name, rows in found.items()]


def _each_option(question: str, options: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Each option as a question of its own: how probable it is."""
    return {f"{question}={option}": {"0": 1 - p, "1": p} for option, p in options.items()}


def _whole(question: str, options: Mapping[str, float]) -> dict[str, dict[str, float]]:
    return {question: dict(options)}


def _table(
    targets: tuple[Target, ...],
    items: list[str],
    answers: Answers,
    shape: Callable[[str, Mapping[str, float]], dict[str, dict[str, float]]],
) -> EvidenceTable:
    """Answers as evidence, one block a candidate."""
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


def _mean(dataset: str, system: str, rows: list[Row], conversations: int) -> Row:
    row: Row = {"part": "recorded", "dataset": dataset, "system": system, "conversations": conversations}
    for name in rows[0]:
        values: NDArray[np.float64] = np.array([each[name] for each in rows if each[name] is not None], dtype=float)
        if len(values):
            low, high = np.quantile(values, [0.025, 0.975])
            row |= {name: float(values.mean()), f"{name}_low": float(low), f"{name}_high": float(high)}
    return {**row, "seeds": len(rows)}


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def _real(folder: Path) -> tuple[Answers, dict[str, bool], dict[str, str]]:
    """LLM-RUBRIC's real conversations: bad where Q0 is at most 2, good from 3 on; the judge's nine distributions."""
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
    """ABC-Eval's bot turns: bad where both people mark an issue, good where neither does; two recorded judges."""
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
