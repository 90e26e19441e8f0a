"""Ratings before and after the issues are shown: the outcome of the study `overall` (SODA-EVAL, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics import RANK_DRAWS, pearson
from accord.studies.study_outcome import Floats, Given, Indices, Outcome, Resampling, Table, Validated, table
from accord.values import Estimate, IssueAnnotation, text_table

OVERALL, INITIAL, REVISED = "overall", "validation:initial", "validation:revised"


@dataclass(frozen=True)
class Agreements:
    """How far ratings agree: Spearman's ρ of people with each other and with the model, and their distance to it."""

    agreement_with_all: Estimate
    agreement_with_others: Estimate
    agreement_with_model: Estimate
    distance_to_model: Estimate


@dataclass(frozen=True, kw_only=True)
class StageRatings(Agreements):
    """The ratings of one stage, with their mean."""

    mean: Estimate


@dataclass(frozen=True)
class Revisions:
    """How many ratings changed, which way, by how much on average, and whether issues were shown."""

    revised: int
    share: Estimate
    lower: int
    higher: int
    unchanged: int
    mean_step: Estimate
    revised_with_issues: int
    revised_without_issues: int


@dataclass(frozen=True, kw_only=True)
class OverallOutcome(Outcome):
    """Ratings alone (`initial`) and with the issues shown (`revised`), the change between them, and the revisions.

    Only ratings with both stages count; `without_second` lack the other one.
    """

    ratings: int
    without_second: int
    initial: StageRatings
    revised: StageRatings
    change: Agreements
    revisions: Revisions

    def lines(self) -> list[str]:
        """Agreement alone and with the issues shown, and the revisions."""
        stages, moved = (self.initial, self.revised), self.revisions
        rows = [
            ["a person with the mean of all", *(each.agreement_with_all.text() for each in stages)],
            ["a person with the mean of the others", *(each.agreement_with_others.text() for each in stages)],
            ["the mean of all with the model", *(each.agreement_with_model.text() for each in stages)],
        ]
        return [
            text_table(["Spearman", "alone", "with the issues shown"], rows),
            f"{moved.share.text()} of {self.ratings} ratings revised: {moved.lower} down, {moved.higher} up",
        ]


def overall_outcome(
    given: Given, about: Validated, assessments: Iterable[IssueAnnotation], draws: int = RANK_DRAWS, seed: int = 0
) -> OverallOutcome:
    """The outcome of the study `overall`.

    Only ratings with both stages count, so that before and after compare the same people on the same turns.

    Args:
        given: What people answered.
        about: What was validated.
        assessments: Of the turns, by that maker.
        draws: Bootstrap samples.
        seed: Fixes them.
    """
    found = {each.target: each for each in assessments if each.signature == about.signature}
    initial, revised = table(given, [INITIAL, REVISED], found)
    drawn = Resampling.of(initial.targets, draws, seed)
    model = np.array([found[turn].score for turn in initial.targets], dtype=float)
    flagged = np.array([bool(found[turn].issues) for turn in initial.targets], dtype=bool)
    ratings = int((~np.isnan(initial.answers)).sum())
    return OverallOutcome(
        flow=OVERALL,
        signature=about.signature,
        planned=len(about.turns),
        examples=len(initial.targets),
        ratings=ratings,
        without_second=sum(question == INITIAL for _, _, question in given) - ratings,
        initial=_stage(initial, model, drawn),
        revised=_stage(revised, model, drawn),
        change=_change(initial, revised, model, drawn),
        revisions=_revisions(initial, revised, flagged, drawn),
    )


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


def _agreements(figure: Callable[[Callable[[Floats, Floats], float | None]], Estimate]) -> Agreements:
    """Each figure, of a statistic of ratings (N, A) and the model's scores (N,)."""
    return Agreements(
        figure(lambda ratings, _: agreement_with_all(ratings)),
        figure(lambda ratings, _: agreement_with_others(ratings)),
        figure(agreement_with_model),
        figure(_distance),
    )


def _stage(given: Table, model: Floats, drawn: Resampling) -> StageRatings:
    ratings = given.answers
    found = _agreements(lambda of: drawn.figure(lambda rows: of(ratings[rows], model[rows])))
    return StageRatings(**vars(found), mean=drawn.figure(lambda rows: _present_mean(ratings[rows])))


def _present_mean(values: Floats) -> float | None:
    return float(np.nanmean(values)) if (~np.isnan(values)).any() else None


def _change(initial: Table, revised: Table, model: Floats, drawn: Resampling) -> Agreements:
    """Revised minus initial, of what is drawn together: the interval of a difference, not of two figures."""

    def difference(of: Callable[[Floats, Floats], float | None]) -> Estimate:
        def both(rows: Indices) -> float | None:
            before, after = (of(each.answers[rows], model[rows]) for each in (initial, revised))
            return None if before is None or after is None else after - before

        return drawn.figure(both)

    return _agreements(difference)


def _revisions(initial: Table, revised: Table, flagged: NDArray[np.bool_], drawn: Resampling) -> Revisions:
    step = revised.answers - initial.answers
    there, moved = ~np.isnan(step), ~np.isnan(step) & (step != 0)

    def share(rows: Indices) -> float | None:
        return float(moved[rows].sum() / there[rows].sum()) if there[rows].any() else None

    return Revisions(
        revised=int(moved.sum()),
        share=drawn.figure(share),
        lower=int((step < 0).sum()),
        higher=int((step > 0).sum()),
        unchanged=int((step == 0).sum()),
        mean_step=drawn.figure(lambda rows: _present_mean(step[rows])),
        revised_with_issues=int(moved[flagged].sum()),
        revised_without_issues=int(moved[~flagged].sum()),
    )
