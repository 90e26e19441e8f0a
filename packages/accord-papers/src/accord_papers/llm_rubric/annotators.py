"""Annotators' answers per system and question (tables 4 and 5), and their disagreement (appendix A)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import pvariance

import numpy as np
from numpy.typing import NDArray

from accord.evidence import ratings
from accord.formats import read
from accord.learning import Calibration
from accord.statistics import CenteredPart, grouped_folds, pearson, reach
from accord.values import Conversation, Label, Question, Rubric, Score, Target
from accord_papers.llm_rubric.protocols import FOLD_SEEDS, DataSet
from accord_papers.study import Row

Floats = NDArray[np.float64]
FEWEST = 5
"""Fewer answers, or constant ones, have no interval."""


def means_of(folder: Path) -> list[Row]:
    """Return annotators' answers per system and question of a data set."""
    records = list(read(folder))
    return mean_rows(
        (record.conversation for record in records), (label for record in records for label in record.labels)
    )


def mean_rows(conversations: Iterable[Conversation], labels: Iterable[Label]) -> list[Row]:
    """Return the mean and deviation of numeric answers per system and question, with intervals over conversations."""
    system_of = {conversation.id: str(conversation.system) for conversation in conversations}
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for label in labels:
        if isinstance(label.value, int | float) and label.target.conversation in system_of:
            about = (system_of[label.target.conversation], label.question)
            found.setdefault(about, []).append((label.target.conversation, float(label.value)))
    rows: list[Row] = []
    for (system, question), answers in sorted(found.items()):
        value, names = np.array([answer for _, answer in answers]), np.array([where for where, _ in answers])
        row: Row = {"system": system, "question": question, "n": len(value), "mean": float(value.mean())}
        if len(value) >= FEWEST and np.ptp(value) > 0:
            half = reach([CenteredPart((value - value.mean()) / len(value), names)])
            row |= {"mean_low": row["mean"] - half, "mean_high": row["mean"] + half}
            row["sd"] = float(value.std(ddof=1))
        rows.append(row)
    return rows


def everyone(data: DataSet, question: Question) -> tuple[list[str], Floats, Floats]:
    """Return annotators (A,), and their out-of-fold means and variances (m, A) for each row of the evidence."""
    labels = data.labels.on(question.id)
    rated = ratings(data.evidence, labels, question)
    people = sorted(set(map(str, rated.annotator)))
    value, spread = (np.full((len(data.evidence), len(people)), np.nan) for _ in range(2))
    for split in grouped_folds(list(rated.group), 5, FOLD_SEEDS[0]):
        head = Calibration(question, answer_model="mixed").fit(
            data.evidence.filter(split.train, labels.group_of), labels.filter(split.train)
        )
        tested = np.flatnonzero([labels.group_of(target) in split.test for target in data.evidence.targets])
        for place, name in enumerate(people):
            scores = head.predict_each(data.evidence.take(tested), [name] * len(tested))
            for row, score in zip(tested, scores, strict=True):
                if isinstance(score, Score):
                    value[row, place], spread[row, place] = score.value, score.variance
    return people, value, spread


def panel(data: DataSet, rubric: Rubric) -> list[Row]:
    """Return ŷ of all annotators per question, controversial dialogues, and expected errors by annotator."""
    rows: list[Row] = []
    for question in rubric.questions:
        mine = replace(data, question=question)
        people, value, _ = everyone(mine, question)
        said = _said(mine)
        here = [row for row, target in enumerate(data.evidence.targets) if target in said]
        together = value[here].mean(axis=1)
        truth = np.array([np.mean(list(said[data.evidence.targets[row]].values())) for row in here])
        row: Row = {"protocol": "panel", "system": "all annotators", "question": question.id, "n": len(here)}
        rmse = float(np.sqrt(np.mean((together - truth) ** 2)))
        rows.append({**row, "mean": float(together.mean()), "said": float(truth.mean()), "rmse": rmse,
                     "pearson": pearson(together, truth)})  # fmt: skip
    return rows + controversial(data) + by_person(data)


def _said(data: DataSet) -> dict[Target, dict[str, float]]:
    """Return each annotator's answer to the set's question, by text."""
    found: dict[Target, dict[str, float]] = {}
    for label in data.rated.labels:
        found.setdefault(label.target, {})[label.annotator] = float(label.value or 0)
    return found


def controversial(data: DataSet) -> list[Row]:
    """Compare the predicted disagreement on a dialogue with the actual one; no row if none has two annotators."""
    people, value, _ = everyone(data, data.question)
    place = {name: column for column, name in enumerate(people)}
    predicted, seen, names = [], [], []
    said = _said(data)
    for row, target in enumerate(data.evidence.targets):
        answers = said.get(target, {})
        if len(answers) > 1:
            predicted.append(float(np.var(value[row, [place[name] for name in answers]])))
            seen.append(pvariance(answers.values()))
            names.append(str(target))
    if not seen:
        return []
    order = np.argsort(predicted)[::-1]
    tenth = order[: max(len(order) // 10, 1)]
    every: Row = {"protocol": "controversial", "system": "all", "n": len(seen), "mean": float(np.mean(seen))}
    top: Row = {"protocol": "controversial", "system": "a tenth, as predicted", "n": len(tenth)}
    top |= {"mean": float(np.mean(np.array(seen)[tenth])), "dialogues": [names[each] for each in tenth[:5]]}
    return [{**every, "pearson": pearson(np.array(predicted), np.array(seen))}, top]


def by_person(data: DataSet) -> list[Row]:
    """Compare each annotator's expected error, √(mean predicted variance), with the measured RMSE."""
    people, value, spread = everyone(data, data.question)
    rated = data.rated
    rows: list[Row] = []
    for place, name in enumerate(people):
        mine = rated.annotator == name
        at = rated.row[mine]
        error = float(np.sqrt(np.mean((value[at, place] - rated.value[mine]) ** 2)))
        row: Row = {"protocol": "errors by person", "system": name, "n": int(mine.sum()), "rmse": error}
        rows.append({**row, "expected": float(np.sqrt(spread[at, place].mean()))})
    expected, measured = (np.array([float(row[key]) for row in rows]) for key in ("expected", "rmse"))
    weights = np.array([int(row["n"]) for row in rows])
    whole: Row = {"protocol": "errors by person", "system": "all", "n": int(weights.sum())}
    whole |= {"rmse": _pooled(measured, weights), "expected": _pooled(expected, weights)}
    return [*rows, {**whole, "pearson": pearson(expected[weights >= 10], measured[weights >= 10])}]


def _pooled(errors: Floats, weights: NDArray[np.intp]) -> float:
    return float(np.sqrt(np.average(errors**2, weights=weights)))
