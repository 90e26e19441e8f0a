"""Steps of agents: planted faults in calls of tools, found by a judge alone and by Accord from 100 labels.

    python benchmarks/agent_steps.py [--only PART] [--quick] --json OUT

The corpus is planted (`tests/planted_steps.py`): agents of a shop, a travel agency and a bank, at least 400 steps, of
which about a third have one of six faults. A scripted judge answers the five questions of the rubric `agent-steps`, and
is right with a stated probability. People label the first 100 steps without error; the steps of all later conversations
are predicted. Macro F1 of right and wrong steps, and recall
of each fault: means over the seeds, 95% t-intervals (`NAME_low`, `NAME_high`). `right_called_wrong` is the share of
right steps that are called wrong.

independent         the judge's errors are independent between questions, so five answers hold more than one
shared              the judge's answers about a step follow from one belief, which is right or wrong

judge-alone         the judge's answer to the main question
judge-any           a step is wrong if the judge's answer to any question is 0
accord-judge        Accord learns from the judge's answers, with the head `ridge`
accord-metrics      Accord learns from the metrics `steps`, without a judge
accord              Accord learns from both
accord-balanced     the same with the head `balanced`, which gives right and wrong steps the same weight
accord-default      the same with the default choice of a head, on the first seeds of `shared`

Three of the faults (ignored error, invented claim, repeated call) are those that metrics of steps measure; the others
(wrong tool, wrong argument, policy break) are left to the judge.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from concurrent import futures
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import scipy
from harness import Row, chosen, finish, options
from planted_steps import FAULTS, Planted, erring_judge, labels_of, messages_of, planted_steps, truth
from sklearn.metrics import f1_score

from accord import Project
from accord.models import Answer
from accord.models.scripted import ScriptedJudge
from accord.project import Config, JudgeSelection
from accord.values import Sample, Target, load_rubric

PARTS = ("independent", "shared")
ACCURACY = 0.8
STEPS, LABELS, SEEDS = 400, 100, 10


class System(NamedTuple):
    """Settings of a system that learns: its metrics, its evaluator, and whether it has the judge."""

    metrics: Sequence[str]
    evaluator: str
    is_judged: bool = True


SYSTEMS = {
    "accord-judge": System([], "ridge"),
    "accord-metrics": System(["steps"], "ridge", is_judged=False),
    "accord": System(["steps"], "ridge"),
    "accord-balanced": System(["steps"], "balanced"),
    "accord-default": System(["steps"], "default"),
}
QUICK_SYSTEMS = ("accord",)
DEFAULT_SEEDS = 2
COLUMNS = ("errors", "system", "seeds", "steps", "macro_f1", *(fault.replace(" ", "_") for fault in FAULTS),
           "right_called_wrong")  # fmt: skip
Predicted = Mapping[Target, float]
"""Predicted answer to the main question, from 0 to 1, by step."""


def main() -> None:
    parser = options("agent_steps", str(__doc__), PARTS)
    given = parser.parse_args()
    parts = chosen(parser, given.only, PARTS)
    seeds = given.limit or (1 if given.quick else SEEDS)
    tasks = [
        (part, seed, QUICK_SYSTEMS if given.quick else _systems(part, seed)) for seed in range(seeds) for part in parts
    ]
    if given.quick:
        done = [seed_figures(*task) for task in tasks]
    else:
        with futures.ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
            done = list(pool.map(seed_figures, *zip(*tasks, strict=True)))
    figures: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for (part, _, _), found in zip(tasks, done, strict=True):
        for system, row in found.items():
            figures.setdefault((part, system), []).append(row)
    setting = {"judge_accuracy": ACCURACY, "labels": LABELS}
    rows: list[Row] = [
        {"errors": part, "system": system, **setting, "seeds": len(each), **_means(each)}
        for (part, system), each in sorted(figures.items(), key=lambda item: parts.index(item[0][0]))
    ]
    finish("agent_steps", rows, COLUMNS, given.json)


def _systems(part: str, seed: int) -> list[str]:
    has_default = part == "shared" and seed < DEFAULT_SEEDS
    return [name for name in SYSTEMS if name != "accord-default" or has_default]


def seed_figures(errors: str, seed: int, systems: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the figures of the judge alone and of some systems on the corpus of a seed."""
    made = planted_steps(STEPS, seed)
    judge = erring_judge(made, ACCURACY, seed, is_shared=errors == "shared")
    labeled, rest = halves(made)
    stated = _stated(judge, rest)
    main = load_rubric("agent-steps").main
    found: dict[str, Predicted] = {
        "judge-alone": {target: answers[main] for target, answers in stated.items()},
        "judge-any": {target: min(answers.values()) for target, answers in stated.items()},
    }
    found |= {system: _learned(labeled, rest, SYSTEMS[system], judge) for system in systems}
    return {system: figures_of(made, each) for system, each in found.items()}


def halves(made: Sequence[Planted]) -> tuple[list[Planted], list[Planted]]:
    """Return the first conversations with at least `LABELS` steps, and the others."""
    counts = np.cumsum([len(each.faults) for each in made])
    split = int(np.searchsorted(counts, LABELS)) + 1
    return list(made[:split]), list(made[split:])


def _stated(judge: ScriptedJudge, made: Sequence[Planted]) -> dict[Target, dict[str, float]]:
    """Return the judge's probability of the answer 1 to each question about each step."""
    questions = load_rubric("agent-steps").questions
    samples = [Sample(each.conversation, turn) for each in made for turn in each.faults]
    answers = {sample.target: asyncio.run(judge.answer(sample, questions)) for sample in samples}
    return {
        target: {answer.question: answer.probabilities["1"] for answer in given if isinstance(answer, Answer)}
        for target, given in answers.items()
    }


def _learned(labeled: list[Planted], rest: list[Planted], system: System, judge: ScriptedJudge) -> Predicted:
    settings: dict[str, object] = {"store": "sqlite:///:memory:", "rubric": "agent-steps", "metrics": system.metrics}
    settings |= {"evaluators": {"balanced": {"head": "balanced"}}} if system.evaluator == "balanced" else {}
    models = {"judge": judge} if system.is_judged else {}
    with (
        warnings.catch_warnings(action="ignore"),
        Project(Config.model_validate(settings), given=models) as project,
    ):
        project.store.add_conversations([each.conversation for each in labeled])
        project.store.add_labels(labels_of(labeled)[:LABELS])
        if system.is_judged:
            project.judge(selection=JudgeSelection(everything=True))
        evaluator = project.fit(system.evaluator).evaluator
        scores = project.score([messages_of(each.conversation) for each in rest], evaluator=evaluator).scores
    values = {Target(row["conversation"], row["turn"]): row["value"] for row in scores}
    found = {target: value for target, value in values.items() if value is not None}
    assert len(found) == sum(len(each.faults) for each in rest)
    return found


def figures_of(made: Sequence[Planted], found: Predicted) -> dict[str, float]:
    """Return the macro F1 of wrong and right steps and the recall of each fault; a step is wrong below 0.5."""
    faults = {Target(each.conversation.id, turn): fault for each in made for turn, fault in each.faults.items()}
    is_right = np.array([truth(faults[target], "step") for target in found])
    said = np.array([value >= 0.5 for value in found.values()])
    own = np.array([faults[target] for target in found])
    recalls = {fault.replace(" ", "_"): float(np.mean(~said[own == fault])) for fault in FAULTS}
    return {"steps": float(len(said)), "macro_f1": float(f1_score(is_right, said, average="macro")), **recalls,
            "right_called_wrong": float(np.mean(~said[is_right == 1]))}  # fmt: skip


def _means(figures: Sequence[Mapping[str, float]]) -> Row:
    """Return the mean of each figure, and its 95% t-interval."""
    means: Row = {}
    for name in figures[0]:
        values = np.array([each[name] for each in figures])
        means[name] = float(values.mean())
        if len(values) > 1 and name != "steps":
            half = float(scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values))
            means |= {f"{name}_low": means[name] - half, f"{name}_high": means[name] + half}
    return means | {"steps": round(means["steps"])}


if __name__ == "__main__":
    main()
