"""What a study found, as JSON that the store keeps and a report shows: which assertion fails most, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from accord.evaluators.learned_rubric.likert import points
from accord.evaluators.learned_rubric.passages import passage
from accord.evaluators.learned_rubric.sharpness import POINT, TOP, Flags, Floats, targets
from accord.evaluators.learned_rubric.stability import SHAKY
from accord.evaluators.learned_rubric.window import curves
from accord.llm.model import Subject
from accord.pipeline.rubric_study import Study, outcome
from accord.resampling import DRAWS, Clusters, interval
from accord.rubric import Question, Side
from accord.store import Store

COMMAND = "learn-rubric"
SHOWN = 2
"""Examples of each kind."""


def findings(study: Study, spent: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """Everything a report shows of a learned rubric, as JSON."""
    evaluator, good = study.evaluator, np.array([good for _, good in study.sides.test])
    sides = outcome(evaluator, study.test, good)
    systems = [subject.conversation.system or "not said" for subject, _ in study.sides.test]
    said = evaluator.window_.says(sides.scores)
    return {
        "rows": study.rows,
        "assertions": _assertions(study, good, systems, seed),
        "scores": [
            {"score": float(score), "good": bool(is_good), "said": str(label)}
            for score, is_good, label in zip(sides.scores, good, said, strict=True)
        ],
        "threshold": evaluator.threshold_,
        "window": evaluator.describe()["window"],
        "precision": evaluator.precision,
        "curves": _curves(study),
        "confusion": _confusion(systems, good, said),
        "cautions": cautions(study),
        "pool": {**study.pool.to_json(), "assertions": len(study.everything.assertions)},
        "trained": len(study.sides.train),
        "tested": len(good),
        "spent": dict(spent),
        "evaluator": evaluator.describe(),
    }  # fmt: skip


def _curves(study: Study) -> list[dict[str, float]]:
    """The training side's precision at each threshold, and the targets that it is held against."""
    was_good = {subject.target: good for subject, good in study.sides.train}
    decided = study.train.take([row for row, target in enumerate(study.train.targets) if target in was_good])
    good = np.array([was_good[target] for target in decided.targets])
    found = curves(outcome(study.evaluator, decided, good).scores, good)
    plus, minus = targets(found.theta, study.evaluator.threshold_, float(good.mean()))
    columns = {"theta": found.theta, "good": found.good, "bad": found.bad, "good_target": plus, "bad_target": minus}
    return [dict(zip(columns, row, strict=True)) for row in np.column_stack(list(columns.values())).tolist()]


def cautions(study: Study) -> list[str]:
    """Sentences on what the data could not support, the gravest first."""
    found = []
    evaluator = study.evaluator
    best = next(row for row in study.rows if row["table"] == 1)
    low = best["delta_netsat_low"]
    if low is None or low <= 0:
        found.append(
            "on conversations it has not seen, the rubric does not separate good from bad beyond chance: do not use it "
            "yet; label more conversations, or try another judge or writer"
        )
    chosen, rarer = len(evaluator.names_), min(evaluator.classes_)
    if rarer < chosen:
        found.append(
            f"{chosen} assertions were chosen and the rarer class has {rarer} conversations to choose them by: ask for "
            "fewer (evaluator: {settings: {budgets: [[3, 3], [10, 10]]}}), or label more"
        )
    shaky = [name for name in evaluator.names_ if study.chosen.get(name, 1.0) < SHAKY]
    if len(shaky) > chosen / 2:
        found.append(
            f"{len(shaky)} of the {chosen} chosen assertions are chosen on fewer than half of the resamples: another "
            "sample would have chosen others of the pool"
        )
    sat, dsat = (sum(question.side is side for question in study.everything.assertions) for side in Side)
    if min(sat, dsat) < 2:
        found.append(f"the pool holds {sat} SAT and {dsat} DSAT assertions: there is hardly anything to choose from")
    if study.sides.contradicted:
        found.append(
            f"{study.sides.contradicted} conversations were called good by some and bad by others; their mean decided"
        )
    if part := study.pool.counts["shown in part"]:
        found.append(f"{part} conversations are longer than the writer's context and were shown to it in part")
    if failed := sum(study.pool.failures.values()):
        why = ", ".join(f"{reason} ({count})" for reason, count in study.pool.failures.most_common())
        found.append(f"{failed} prompts of the writer came to nothing: {why}")
    if flagged := len(study.pool.flagged):
        found.append(f"{flagged} assertions named private details of a conversation and were left out")
    found += [f"{row['system']} came to nothing: {row['failed']}" for row in study.rows if row.get("failed")]
    silent = {row["system"]: row["unanswered"] for row in study.rows if row["unanswered"]}
    found += [
        f"{share:.0%} of the held-out answers for {name} are missing, and count as neutral"
        for name, share in silent.items()
    ]
    return found


def latest_rubric(store: Store) -> dict[str, Any] | None:
    """The findings of the last learned rubric; `None` where none was learned in this store."""
    done = [run for run in store.runs() if run["status"] == "done" and run["command"] == COMMAND]
    return None if not done else dict(done[-1]["results"])


def _assertions(study: Study, good: Flags, systems: list[str], seed: int) -> list[dict[str, Any]]:
    """Each chosen assertion: how it separates, how often it is chosen, how often it fails and for whom, examples."""
    evaluator = study.evaluator
    said = points(study.test, evaluator.names_, evaluator.answers).values / POINT
    clusters = Clusters([subject.conversation.id for subject, _ in study.sides.test])
    counts = clusters.counts(min(DRAWS, 500), seed)
    drawn = [clusters.rows(count) for count in counts]
    subjects = [subject for subject, _ in study.sides.test]
    found = []
    for name, answers in zip(evaluator.names_, said, strict=True):
        question = study.rubric[name]
        assert question.side is not None
        sign = 1.0 if question.side is Side.SAT else -1.0
        gaps = np.array([_gap(sign * answers[rows], good[rows]) for rows in drawn])
        spread = interval(gaps)
        fails = answers < TOP / POINT / 2 if question.side is Side.SAT else answers > TOP / POINT / 2
        found.append(
            {
                "id": name, "text": question.text, "class": question.side.value, "weight": question.weight,
                "separation": _gap(sign * answers, good), "separation_low": spread.low, "separation_high": spread.high,
                "chosen": study.chosen.get(name), "reasons": len(question.reasons), "fails": float(fails.mean()),
                "by_system": _by_system(systems, fails), "examples": _examples(question, subjects, sign * answers),
            }
        )  # fmt: skip
    return sorted(found, key=lambda one: -one["fails"])


def _gap(values: Floats, good: Flags) -> float:
    """How much higher the good ones' mean is; NaN where one class is missing."""
    return float(values[good].mean() - values[~good].mean()) if good.any() and not good.all() else float("nan")


def _by_system(systems: list[str], fails: Floats) -> list[dict[str, Any]]:
    names = np.array(systems)
    each = [
        {"system": name, "fails": float(fails[names == name].mean()), "n": int((names == name).sum())}
        for name in sorted(set(systems))
    ]
    return sorted(each, key=lambda one: -one["fails"])


def _examples(question: Question, subjects: list[Subject], values: Floats) -> list[dict[str, Any]]:
    """Held-out conversations that the judge finds it to speak for most, and against most, with the passages."""
    order = np.argsort(-values, kind="stable")
    kinds = [("for", row) for row in order[:SHOWN]] + [("against", row) for row in order[::-1][:SHOWN]]
    return [
        {"kind": kind, "conversation": subjects[row].conversation.id, "points": float(values[row]),
         "passage": passage(subjects[row].conversation, question)}
        for kind, row in kinds
    ]  # fmt: skip


def _confusion(systems: list[str], good: Flags, said: Any) -> list[dict[str, Any]]:
    """For each system, how many good and bad conversations were called what."""
    names = np.array(systems)
    rows = []
    for name in ["all", *sorted(set(systems))] if len(set(systems)) > 1 else ["all"]:
        of = np.ones(len(names), dtype=bool) if name == "all" else names == name
        counts = {
            f"{was}_{label}": int((of & (good == (was == "good")) & (said == label)).sum())
            for was in ("good", "bad")
            for label in ("good", "uncertain", "bad")
        }
        rows.append({"system": name, **counts})
    return rows
