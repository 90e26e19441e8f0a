"""What people think of the replies before and after they see the issues (SODA-EVAL, section 4.2.2 and table 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from accord.agreement import pearson
from accord.assessment import Assessment
from accord.labels import Label
from accord.resampling import RANK_DRAWS
from accord.validation.answers import Floats, Indices, Resampling, Table, table
from accord.validation.plan import Plan
from accord.validation.stages import FLOWS, OVERALL
from accord.validation.study import stored_answers


def overall_outcome(
    labels: Iterable[Label], plan: Plan, assessments: Iterable[Assessment], draws: int = RANK_DRAWS, seed: int = 0
) -> dict[str, Any]:
    """The outcome of an `overall` plan, as JSON; figures carry 95 % intervals over dialogues.

    Only ratings with both stages count, so that before and after compare the same people on the same turns.

    Args:
        labels: Any labels; those of the plan are taken.
        plan: What was validated.
        assessments: Of the plan's maker.
        draws: Bootstrap samples.
        seed: Fixes them.
    """
    found = {each.target: each for each in assessments if each.made_by == plan.made_by}
    first, second = FLOWS[OVERALL].stages
    given = stored_answers(labels, plan)
    initial, revised = table(given, [first.label, second.label], found)
    drawn = Resampling.of(initial.targets, draws, seed)
    model = np.array([found[turn].score for turn in initial.targets], dtype=float)
    flagged = np.array([bool(found[turn].issues) for turn in initial.targets], dtype=bool)
    ratings = int((~np.isnan(initial.answers)).sum())
    return {
        "flow": OVERALL,
        "made_by": plan.made_by,
        "planned": len(plan.turns),
        "examples": len(initial.targets),
        "ratings": ratings,
        "without_second": sum(question == first.label for _, _, question in given) - ratings,
        "initial": _stage(initial, model, drawn),
        "revised": _stage(revised, model, drawn),
        "change": _change(initial, revised, model, drawn),
        "revisions": _revisions(initial, revised, flagged, drawn),
    }


def spearman(first: Floats, second: Floats) -> float | None:
    """Spearman's ρ of two (n,) arrays: Pearson's r of ranks, ties at their mean rank; `None` where one is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(first), rankdata(second)) if len(first) > 1 else None


def agreement_with_all(ratings: Floats) -> float | None:
    """The paper's IAA: mean over annotators of ρ(own ratings, mean of all ratings of the same items).

    Args:
        ratings: (N, A), NaN where somebody has not rated.
    """
    return _mean_rho(ratings, lambda column: _row_means(ratings))


def agreement_with_others(ratings: Floats) -> float | None:
    """The same with the mean of all others' ratings, which one's own do not lift; (N, A) as above."""
    return _mean_rho(ratings, lambda column: _row_means(np.delete(ratings, column, axis=1)))


def agreement_with_model(ratings: Floats, model: Floats) -> float | None:
    """ρ(mean rating of an item, the model's score of it), of (N, A) and (N,)."""
    means = _row_means(ratings)
    rated = ~np.isnan(means)
    return spearman(means[rated], model[rated])


def _mean_rho(ratings: Floats, reference: Callable[[int], Floats]) -> float | None:
    found = []
    for column in range(ratings.shape[1]):
        own, mean = ratings[:, column], reference(column)
        both = ~np.isnan(own) & ~np.isnan(mean)
        rho = spearman(own[both], mean[both])
        if rho is not None:
            found.append(rho)
    return float(np.mean(found)) if ratings.shape[1] > 1 and found else None


def _row_means(ratings: Floats) -> Floats:
    """(N,) means of (N, A), of what is there; NaN where nothing is."""
    there = (~np.isnan(ratings)).sum(axis=1)
    return np.where(there > 0, np.nansum(ratings, axis=1) / np.maximum(there, 1), np.nan)


def _distance(ratings: Floats, model: Floats) -> float | None:
    """Mean |rating - model's score| over all ratings, in points."""
    away = np.abs(ratings - model[:, None])
    return float(np.nanmean(away)) if (~np.isnan(away)).any() else None


def _stage(given: Table, model: Floats, drawn: Resampling) -> dict[str, Any]:
    ratings = given.answers
    return {
        "mean": drawn.figure(lambda rows: _present_mean(ratings[rows])),
        "agreement_with_all": drawn.figure(lambda rows: agreement_with_all(ratings[rows])),
        "agreement_with_others": drawn.figure(lambda rows: agreement_with_others(ratings[rows])),
        "agreement_with_model": drawn.figure(lambda rows: agreement_with_model(ratings[rows], model[rows])),
        "distance_to_model": drawn.figure(lambda rows: _distance(ratings[rows], model[rows])),
    }


def _present_mean(values: Floats) -> float | None:
    return float(np.nanmean(values)) if (~np.isnan(values)).any() else None


def _change(initial: Table, revised: Table, model: Floats, drawn: Resampling) -> dict[str, Any]:
    """Revised minus initial, of what is drawn together: the interval of a difference, not of two figures."""

    def difference(of: Callable[[Floats, Floats], float | None]) -> dict[str, Any]:
        def both(rows: Indices) -> float | None:
            before, after = (of(each.answers[rows], model[rows]) for each in (initial, revised))
            return None if before is None or after is None else after - before

        return drawn.figure(both)

    return {
        "agreement_with_all": difference(lambda ratings, _: agreement_with_all(ratings)),
        "agreement_with_others": difference(lambda ratings, _: agreement_with_others(ratings)),
        "agreement_with_model": difference(agreement_with_model),
        "distance_to_model": difference(_distance),
    }


def _revisions(initial: Table, revised: Table, flagged: np.ndarray[Any, Any], drawn: Resampling) -> dict[str, Any]:
    """How many ratings changed, which way, and whether issues were shown."""
    step = revised.answers - initial.answers
    there, moved = ~np.isnan(step), ~np.isnan(step) & (step != 0)

    def share(rows: Indices) -> float | None:
        return float(moved[rows].sum() / there[rows].sum()) if there[rows].any() else None

    return {
        "revised": int(moved.sum()),
        "share": drawn.figure(share),
        "lower": int((step < 0).sum()),
        "higher": int((step > 0).sum()),
        "unchanged": int((step == 0).sum()),
        "mean_step": drawn.figure(lambda rows: _present_mean(step[rows])),
        "revised_with_issues": int(moved[flagged].sum()),
        "revised_without_issues": int(moved[~flagged].sum()),
    }
