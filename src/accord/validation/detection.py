"""What people say of the issues (SODA-EVAL, section 4.2.1 and table 13): validity by kind, and how far they agree.

An answer calls an example valid where it says fair (1) or good (2), and not valid where it says bad (0). The verdict
is on the example: a turn with issues of two kinds counts for both, and a turn without any for "None". An example is
valid

- by majority ("Maj"), where more than half of its answers call it valid; of an even number a tie is not enough;
- by absolute agreement ("Abs"), unless all its answers say bad.

Kinds that are not objective are counted without a verdict: people are asked about the objective ones alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.assessment import Assessment
from accord.labels import Label
from accord.resampling import RANK_DRAWS
from accord.taxonomy import Taxonomy
from accord.validation.answers import Floats, Indices, Resampling, Table, table
from accord.validation.kappa import counted, fleiss_kappa, mean_kappa, no_fleiss, pairwise_kappas
from accord.validation.plan import Plan
from accord.validation.stages import DETECTION, FLOWS
from accord.validation.study import stored_answers

NONE = "None"
"""The kind of a turn without issues."""
Flags = NDArray[np.bool_]


def majority_valid(answers: Floats) -> Flags:
    """(N,) whether more than half of the answers of (N, A) say fair or good; NaN is no answer."""
    return np.asarray((answers >= 1).sum(axis=1) * 2 > (~np.isnan(answers)).sum(axis=1))


def not_all_bad(answers: Floats) -> Flags:
    """(N,) whether any answer of (N, A) says fair or good: not all agree that the detection was incorrect."""
    return np.asarray((answers >= 1).any(axis=1))


def detection_outcome(
    labels: Iterable[Label],
    plan: Plan,
    assessments: Iterable[Assessment],
    taxonomy: Taxonomy,
    draws: int = RANK_DRAWS,
    seed: int = 0,
) -> dict[str, Any]:
    """The outcome of a `detection` plan, as JSON; figures carry 95 % intervals over dialogues.

    Args:
        labels: Any labels; those of the plan are taken.
        plan: What was validated.
        assessments: Of the plan's maker.
        taxonomy: Says which kinds are objective.
        draws: Bootstrap samples.
        seed: Fixes them.
    """
    found = {each.target: each for each in assessments if each.made_by == plan.made_by}
    stage = FLOWS[DETECTION].stages[0]
    [given] = table(stored_answers(labels, plan), [stage.label], found)
    drawn = Resampling.of(given.targets, draws, seed)
    return {
        "flow": DETECTION,
        "made_by": plan.made_by,
        "planned": len(plan.turns),
        "examples": len(given.targets),
        "answers": int((~np.isnan(given.answers)).sum()),
        "answers_by_value": [
            {"value": value, "word": word, "answers": int((given.answers == value).sum())}
            for value, (word, _) in stage.meanings.items()
        ],
        **_validity(given, drawn),
        "types": _types(given, [found[turn] for turn in given.targets], taxonomy, drawn),
        **_agreement(given, drawn, tuple(stage.meanings)),
    }


def _validity(given: Table, drawn: Resampling) -> dict[str, Any]:
    """Validity as each annotator sees it, and by both rules over all examples."""
    answers, everywhere = given.answers, np.ones(len(given.targets), dtype=bool)
    each_share = [_valid_share(own) for own in answers.T]
    shares = [share for share in each_share if share is not None]
    people = [
        {"annotator": name, "answers": int((~np.isnan(own)).sum()), "valid": share}
        for name, own, share in zip(given.annotators, answers.T, each_share, strict=True)
    ]

    def mean_share(rows: Indices) -> float | None:
        each = [share for own in answers[rows].T if (share := _valid_share(own)) is not None]
        return float(np.mean(each)) if each else None

    return {
        "annotators": people,
        "valid": drawn.figure(mean_share),
        "valid_range": [min(shares), max(shares)] if shares else None,
        "majority": drawn.share(majority_valid(answers), everywhere),
        "all_agree": drawn.share(not_all_bad(answers), everywhere),
    }


def _valid_share(own: Floats) -> float | None:
    said = own[~np.isnan(own)]
    return float((said >= 1).mean()) if len(said) else None


def _types(given: Table, assessed: Sequence[Assessment], taxonomy: Taxonomy, drawn: Resampling) -> list[dict[str, Any]]:
    """Table 13: kinds in the taxonomy's order after "None"; kinds of another taxonomy come last."""
    objective: dict[str, bool | None] = {NONE: True, **{kind.name: kind.objective for kind in taxonomy.issues}}
    kinds = [{issue.type for issue in each.issues} or {NONE} for each in assessed]
    objective |= dict.fromkeys(sorted({name for own in kinds for name in own} - set(objective)), None)
    majority, absolute = majority_valid(given.answers), not_all_bad(given.answers)
    nothing = {"value": None, "low": None, "high": None}
    rows = []
    for name, asked in objective.items():
        among = np.array([name in own for own in kinds], dtype=bool)
        rows.append(
            {
                "type": name,
                "objective": asked,
                "examples": int(among.sum()),
                "share": float(among.mean()) if len(among) else None,
                "majority": drawn.share(majority, among) if asked else nothing,
                "all_agree": drawn.share(absolute, among) if asked else nothing,
            }
        )
    return rows


def _agreement(given: Table, drawn: Resampling, options: tuple[int, ...]) -> dict[str, Any]:
    """How far annotators agree: on the three answers, and on valid or not."""
    answers = given.answers
    valid = np.where(np.isnan(answers), np.nan, (answers >= 1).astype(float))
    counts, people = counted(answers, options), given.annotators
    return {
        "cohen_kappa": drawn.figure(lambda rows: mean_kappa(answers[rows])),
        "cohen_kappa_valid": drawn.figure(lambda rows: mean_kappa(valid[rows])),
        "pairs": [
            {"first": people[one], "second": people[other], "shared": shared, "kappa": kappa}
            for one, other, shared, kappa in pairwise_kappas(answers)
        ],
        "fleiss_kappa": drawn.figure(lambda rows: fleiss_kappa(counts[rows])) | {"undefined": no_fleiss(counts)},
    }
