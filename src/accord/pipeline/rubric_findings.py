"""What learning a rubric would cost: the run itself, with a writer that counts in place of asking.

Replies that the store holds are used as they are; for the others something of the expected form and length stands in,
so that what follows from them is counted too. What a judge will be asked depends on what will be written: it is an
upper bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from accord.config import Config
from accord.methods import (
    MOST_A_BATCH,
    POINT,
    SHAKY,
    TOP,
    Flags,
    Floats,
    curves,
    passage,
    points,
    questions_of,
    rubric_of,
    targets,
)
from accord.models import Budget, Judge, Prompt, Reply
from accord.pipeline.collecting import judging_options
from accord.pipeline.models import Models
from accord.pipeline.planning import Counting, Plan, plan_asking
from accord.pipeline.rubric_pool import guidance_of, write_pool
from accord.pipeline.rubric_study import ABLATIONS, NO_WRITER, Study, checked_given, outcome, tried_on
from accord.statistics import DRAWS, Clusters, interval
from accord.store import Store
from accord.values import BadInput, Question, Rubric, Sample, Side

REASON = "the {} replies to what the other one has asked before and gives enough of an answer to go on with the task"
ASSERTION = "The assistant gives the {} kind of answer that is asked for."


class _StandIn:
    """Lists of the form and length that a writer is asked for."""

    def __init__(self, reasons: int) -> None:
        self._reasons, self._written = reasons, 0

    def __call__(self, prompt: Prompt) -> Reply:
        """What stands in for a reply."""
        return Reply(self._list(prompt))

    def _list(self, prompt: Prompt) -> str:
        keys = prompt.schema["properties"] if prompt.schema else {"reasons": None}
        if "reasons" in keys:
            return "\n".join(f"- {REASON.format(self._next())}" for _ in range(self._reasons))
        if "assertions" in keys:
            return "\n".join(f"- {ASSERTION.format(self._next())}" for _ in range(MOST_A_BATCH))
        return json.dumps({"repeats": []})

    def _next(self) -> str:
        """A word that was not used before."""
        self._written += 1
        return "".join(chr(ord("a") + int(digit)) for digit in str(self._written))


def plan_rubric(
    store: Store,
    config: Config,
    rubric: Rubric,
    endpoint: str,
    judge_for: Callable[[Rubric], Judge],
    budget: Budget,
    given: Mapping[str, Rubric] | None = None,
    pool: Rubric | None = None,
    tables: bool = False,
) -> Plan:
    """What `learn_rubric` would cost with the same arguments; more only where models have to be asked again.

    Raises:
        BadInput: As `learn_rubric`.
    """
    named = {name: checked_given(name, other, rubric) for name, other in (given or {}).items()}
    writes = tables or pool is None
    if config.writer is None and writes:
        raise BadInput(NO_WRITER)
    sides, plan = tried_on(store, config, rubric, pool, named), Plan()
    samples = [*(sample for sample, _ in (*sides.train, *sides.test)), *sides.between]
    asked = [*named.values()] + ([] if pool is None else [pool])
    if config.writer is not None and writes:
        told = config.writer.model_copy(update={"deduplicate": "model"})
        guidance, model = guidance_of(told), Counting(told.model, endpoint, store, plan, _StandIn(told.reasons))
        versions = [] if pool is not None else [guidance]
        versions += [replace(guidance, **less) for less in ABLATIONS.values()] if tables else []
        for each in versions:
            written = questions_of(write_pool(model, sides.train, each, told).assertions, main=rubric.main)
            asked.append(rubric_of(written, rubric.main_question, "pool", each.instructions(), ()))
        if tables:
            written = questions_of(
                write_pool(model, sides.train, guidance, told, as_spur=True).assertions, main=rubric.main
            )
            asked.append(rubric_of(written, rubric.main_question, "spur", "", ()))
    for one in asked:
        plan.plus(plan_asking(Models(judge_for(one)), one, samples, store, budget, judging_options(config)[1]))
    plan.samples = len(samples)
    plan.price(budget)
    return plan


COMMAND = "learn-rubric"
SHOWN = 2
"""Examples of each kind."""


def findings(study: Study, spent: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
    """Everything a report shows of a learned rubric, as JSON."""
    evaluator, good = study.evaluator, np.array([good for _, good in study.sides.test])
    sides = outcome(evaluator, study.test, good)
    systems = [sample.conversation.system or "not said" for sample, _ in study.sides.test]
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
    was_good = {sample.target: good for sample, good in study.sides.train}
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
    clusters = Clusters([sample.conversation.id for sample, _ in study.sides.test])
    counts = clusters.counts(min(DRAWS, 500), seed)
    drawn = [clusters.rows(count) for count in counts]
    samples = [sample for sample, _ in study.sides.test]
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
                "by_system": _by_system(systems, fails), "examples": _examples(question, samples, sign * answers),
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


def _examples(question: Question, samples: list[Sample], values: Floats) -> list[dict[str, Any]]:
    """Held-out conversations that the judge finds it to speak for most, and against most, with the passages."""
    order = np.argsort(-values, kind="stable")
    kinds = [("for", row) for row in order[:SHOWN]] + [("against", row) for row in order[::-1][:SHOWN]]
    return [
        {"kind": kind, "conversation": samples[row].conversation.id, "points": float(values[row]),
         "passage": passage(samples[row].conversation, question)}
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
