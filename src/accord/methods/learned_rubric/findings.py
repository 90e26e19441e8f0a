"""Everything that a report shows of a learned rubric, as JSON, and what the data could not support."""

from __future__ import annotations

from typing import Any

import numpy as np

from accord.evidence import Training
from accord.methods.learned_rubric.experiment import ExperimentResult, RubricFit, clusters_of
from accord.methods.learned_rubric.figures import SHAKY
from accord.methods.learned_rubric.fitting import AssertionSelector
from accord.methods.learned_rubric.likert import passage, points
from accord.methods.learned_rubric.sharpness import POINT, TOP, Flags, Floats, curves, targets
from accord.models import PROSE
from accord.statistics import DRAWS, interval
from accord.values import Question, Sample, Side

SHOWN = 2
"""Examples of each kind."""
MOST_DRAWS = 500
"""Of an assertion's interval."""


def findings(fit: RubricFit, result: ExperimentResult, test: Training) -> dict[str, Any]:
    """Everything a report shows of a learned rubric, as JSON; what it cost is the caller's to add."""
    selector, good = fit.selector, result.decided.good
    scored = selector.outcome(result.answers, good)
    systems = [sample.conversation.system or "not said" for sample in result.decided.samples]
    said = selector.window_.says(scored.scores)
    return {
        "rows": result.rows,
        "assertions": _assertions(fit, result, test, systems),
        "scores": [
            {"score": float(score), "good": bool(is_good), "said": str(label)}
            for score, is_good, label in zip(scored.scores, good, said, strict=True)
        ],
        "threshold": selector.threshold_,
        "precision": selector.settings.precision,
        "curves": _curves(fit),
        "confusion": _confusion(systems, good, said),
        "cautions": cautions(fit, result),
        "tested": len(good),
        "again": sum(count for why, count in fit.written.to_json()["failures"].items() if why != PROSE)
        + sum(row["unanswered"] for row in result.rows),
        **learned(fit),
    }


def learned(fit: RubricFit) -> dict[str, Any]:
    """The part of the findings that needs no held-out side."""
    evaluator = fit.selector.describe()
    return {
        "window": evaluator["window"],
        "pool": {**fit.written.to_json(), "assertions": len(fit.everything.assertions)},
        "trained": len(fit.decided.pairs),
        "evaluator": evaluator,
    }


def _curves(fit: RubricFit) -> list[dict[str, float]]:
    """The training side's precision at each threshold, and the targets that it is held against."""
    good = fit.decided.good
    found = curves(fit.selector.outcome(fit.answers, good).scores, good)
    plus, minus = targets(found.theta, fit.selector.threshold_, float(good.mean()))
    columns = {"theta": found.theta, "good": found.good, "bad": found.bad, "good_target": plus, "bad_target": minus}
    return [dict(zip(columns, row, strict=True)) for row in np.column_stack(list(columns.values())).tolist()]


def cautions(fit: RubricFit, result: ExperimentResult) -> list[str]:
    """Sentences on what the data could not support, the gravest first."""
    low = next(row for row in result.rows if row["table"] == 1)["delta_netsat_low"]
    found = []
    if low is None or low <= 0:
        found.append(
            "on conversations it has not seen, the rubric does not separate good from bad beyond chance: do not use it "
            "yet; label more conversations, or try another judge or writer"
        )
    found += _of_selection(fit.selector, result)
    sat, dsat = (sum(question.side is side for question in fit.everything.assertions) for side in Side)
    if min(sat, dsat) < 2:
        found.append(f"the pool holds {sat} SAT and {dsat} DSAT assertions: there is hardly anything to choose from")
    if contradicted := fit.decided.contradicted + result.decided.contradicted:
        found.append(f"{contradicted} conversations were called good by some and bad by others; their mean decided")
    found += _of_writing(fit)
    found += [f"{row['system']} came to nothing: {row['failed']}" for row in result.rows if row.get("failed")]
    silent = {row["system"]: row["unanswered"] for row in result.rows if row["unanswered"]}
    found += [
        f"{share:.0%} of the held-out answers for {name} are missing, and count as neutral"
        for name, share in silent.items()
    ]
    return found


def _of_selection(selector: AssertionSelector, result: ExperimentResult) -> list[str]:
    """What is said of the number of chosen assertions, and of how they would be chosen again."""
    found = []
    chosen, rarer = len(selector.names_), min(selector.classes_)
    if rarer < chosen:
        found.append(
            f"{chosen} assertions were chosen and the rarer class has {rarer} conversations to choose them by: ask for "
            "fewer (learned-rubric: {budgets: [[3, 3], [10, 10]]}), or label more"
        )
    shaky = [name for name in selector.names_ if result.chosen.get(name, 1.0) < SHAKY]
    if len(shaky) > chosen / 2:
        found.append(
            f"{len(shaky)} of the {chosen} chosen assertions are chosen on fewer than half of the resamples: another "
            "sample would have chosen others of the pool"
        )
    return found


def _of_writing(fit: RubricFit) -> list[str]:
    """What is said of how the pool was written."""
    found, written = [], fit.written
    if part := written.counts["shown in part"]:
        found.append(f"{part} conversations are longer than the writer's context and were shown to it in part")
    if failed := sum(written.failures.values()):
        why = ", ".join(f"{reason} ({count})" for reason, count in written.failures.most_common())
        found.append(f"{failed} prompts of the writer came to nothing: {why}")
    if flagged := len(written.flagged):
        found.append(f"{flagged} assertions named private details of a conversation and were left out")
    return found


def _assertions(fit: RubricFit, result: ExperimentResult, test: Training, systems: list[str]) -> list[dict[str, Any]]:
    """Each chosen assertion: how it separates, how often it is chosen, how often it fails and for whom, examples."""
    selector, good, samples = fit.selector, result.decided.good, result.decided.samples
    said = points(result.answers, selector.names_, selector.settings.answers).values / POINT
    clusters = clusters_of(test, result.decided)
    drawn = [clusters.rows(count) for count in clusters.counts(min(DRAWS, MOST_DRAWS), test.seed)]
    found = []
    for name, answers in zip(selector.names_, said, strict=True):
        question = fit.rubric[name]
        assert question.side is not None
        sign = 1.0 if question.side is Side.SAT else -1.0
        spread = interval(np.array([_gap(sign * answers[rows], good[rows]) for rows in drawn]))
        fails = answers < TOP / POINT / 2 if question.side is Side.SAT else answers > TOP / POINT / 2
        found.append(
            {
                "id": name, "text": question.text, "class": question.side.value, "weight": question.weight,
                "separation": _gap(sign * answers, good), "separation_low": spread.low, "separation_high": spread.high,
                "chosen": result.chosen.get(name), "reasons": len(question.reasons), "fails": float(fails.mean()),
                "by_system": _by_system(systems, fails), "examples": _examples(question, samples, sign * answers),
            }
        )  # fmt: skip
    return sorted(found, key=lambda one: -one["fails"])


def _gap(values: Floats, good: Flags) -> float:
    """How much higher the good ones' mean is; NaN where one class is missing."""
    return float(values[good].mean() - values[~good].mean()) if good.any() and not good.all() else float("nan")


def _by_system(systems: list[str], fails: Flags) -> list[dict[str, Any]]:
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
