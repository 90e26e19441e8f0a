"""Tables 1 and 2 of RUBICON without a model: a recorded writer, and scripted writers of planted pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from accord.methods.learned_rubric.assertion_selector import AssertionSelector
from accord.methods.learned_rubric.selection_policies import SelectionSettings, stratified
from accord.values import Label, Labels
from accord_papers.rubicon.outcomes import figures, mean_row
from accord_papers.rubicon.recordings import SETS, Recorded
from accord_papers.rubicon.simulation import MAIN, TEST, DrawnStudy, Planted, plain, shared
from accord_papers.study import Row

DIRECT = "Q0"
"""Question about the whole, which is a rubric of its own."""
SIZE = "size"
WRITERS: Mapping[str, float] = {
    "RUBICON": 0.0, "without design principles": 0.25, "without task description": 0.5, "without both": 0.75,
}  # fmt: skip
"""Scripted writers of table 2: the share of their informative assertions that hold for every conversation instead."""


def recorded_rubrics(data: Path, seeds: int) -> list[Row]:
    """Return the rubrics of a recorded writer on halves of the dialogues of both data sets, with their size.

    The selection and the whole pool have each option of a question as a candidate; `all questions` and `judge asked
    directly` are the questions as they were asked.
    """
    rows: list[Row] = []
    for name in SETS:
        recorded, found = Recorded.load(data, name), dict[str, list[Row]]()
        for seed in range(seeds):
            for system, row in rubrics_of(recorded, seed).items():
                found.setdefault(system, []).append(row)
        rows += [
            {"dataset": name, "system": system, **mean_row(each, are_independent=False)}
            for system, each in found.items()
        ]
    return rows


def rubrics_of(recorded: Recorded, seed: int) -> dict[str, Row]:
    """Return the statistics of each rubric on one half of the dialogues, learned on the other half."""
    direct = [place for place, column in enumerate(recorded.questions.columns) if column.question == DIRECT]
    candidates = {
        "accord": (recorded.options, {}), "all": (recorded.options, {"policy": "all"}),
        "all questions": (recorded.questions, {"policy": "all"}),
    }  # fmt: skip
    if direct:
        candidates["judge asked directly"] = (recorded.questions.select(direct), {"policy": "all"})
    fold = stratified(recorded.groups, recorded.truth, seed, 2)
    train, test = np.flatnonzero(fold == 0), np.flatnonzero(fold == 1)
    targets = recorded.options.targets
    labels = Labels(Label(targets[row], "good", "people", int(recorded.truth[row])) for row in train)
    found: dict[str, Row] = {}
    for system, (table, given) in candidates.items():
        selector = AssertionSelector(MAIN, settings=SelectionSettings.model_validate(given), seed=seed)
        fitted = selector.fit(table.take(train), labels)
        outcome = fitted.outcome(table.take(test), recorded.truth[test])
        found[system] = {**figures(outcome), SIZE: float(len(fitted.names_))}
    return found


def weakened(pool: Planted, share: float, seed: int) -> Planted:
    """Return a pool in which a share of the informative assertions of each class hold for all conversations."""
    rng, kinds, level = np.random.default_rng([seed, 2]), list(pool.kinds), pool.level.copy()
    for side in set(pool.sides):
        own = [place for place, kind in enumerate(pool.kinds) if kind == "informative" and pool.sides[place] is side]
        ideas = {pool.ideas[place] for place in own[len(own) - round(share * len(own)) :]}
        for place, idea in enumerate(pool.ideas):
            if idea in ideas:
                kinds[place] = "true of all"
                level[place] = np.clip(9 + rng.normal(scale=0.5, size=level.shape[1]), 0, 10)
    return replace(pool, kinds=kinds, level=level)


def writer_rows(seeds: int, test: int = TEST) -> list[Row]:
    """Return the selection from the pools of scripted writers: means over seeds with their 95% intervals."""
    rows: list[Row] = []
    for writer, share in WRITERS.items():
        found = []
        for seed in range(seeds):
            pool = weakened(plain(np.random.default_rng(seed), test), share, seed)
            found.append(_sized(DrawnStudy(pool, seed), "accord"))
        about = {"dataset": "planted pool, scripted writer", "system": writer, "weak": share}
        rows.append({**about, **mean_row(found, are_independent=True)})
    return rows


def planted_rubrics(seeds: int, test: int = TEST) -> list[Row]:
    """Return the selection and the whole pool on planted pools with shared noise, with their size."""
    studies = [DrawnStudy(shared(np.random.default_rng(seed), test), seed) for seed in range(seeds)]
    return [
        {"dataset": "planted pool, scripted writer", "system": system,
         **mean_row([_sized(study, system) for study in studies], are_independent=True)}
        for system in ("accord", "all")
    ]  # fmt: skip


def _sized(study: DrawnStudy, system: str) -> Row:
    return {**study.row(system), SIZE: float(len(study.selectors[system].names_))}
