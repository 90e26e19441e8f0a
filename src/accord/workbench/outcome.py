"""Answers as a table of turns by annotators, and statistics of it with intervals over dialogues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.statistics import (
    RANK_DRAWS,
    Clusters,
    counted,
    fleiss_kappa,
    interval,
    mean_kappa,
    no_fleiss,
    pairwise_kappas,
    pearson,
)
from accord.values import IssueAnnotation, Label, Target, Taxonomy
from accord.workbench.plan import DETECTION, FLOWS, OVERALL, Plan
from accord.workbench.study import stored_answers

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Given = Mapping[tuple[str, Target, str], int]


@dataclass(frozen=True)
class Table:
    """Who answered what.

    Attributes:
        targets: N turns, by conversation and turn.
        annotators: A names, sorted.
        answers: (N, A), NaN where somebody has not answered.
    """

    targets: tuple[Target, ...]
    annotators: tuple[str, ...]
    answers: Floats


def table(given: Given, questions: Sequence[str], known: Iterable[Target]) -> list[Table]:
    """One table per question, of the same turns and annotators; only answers to all questions count."""
    wanted = set(known)
    whole = sorted(
        {(who, turn) for who, turn, _ in given if turn in wanted and all((who, turn, q) in given for q in questions)}
    )
    targets, people = sorted({turn for _, turn in whole}), sorted({who for who, _ in whole})
    row, column = ({name: place for place, name in enumerate(names)} for names in (targets, people))
    tables = []
    for question in questions:
        answers = np.full((len(targets), len(people)), np.nan)
        for who, turn in whole:
            answers[row[turn], column[who]] = given[who, turn, question]
        tables.append(Table(tuple(targets), tuple(people), answers))
    return tables


@dataclass(frozen=True)
class Resampling:
    """Draws of whole dialogues, the same for every statistic.

    Attributes:
        everything: (N,) all rows.
        draws: Row indices of each draw, repeats included.
    """

    everything: Indices
    draws: tuple[Indices, ...]

    @classmethod
    def of(cls, targets: Sequence[Target], draws: int = RANK_DRAWS, seed: int = 0) -> Resampling:
        """Draws of the dialogues of some turns; none where there are fewer than two dialogues."""
        clusters = Clusters([turn.conversation for turn in targets]) if targets else None
        drawn = () if clusters is None or len(clusters) < 2 else tuple(map(clusters.rows, clusters.counts(draws, seed)))
        return cls(np.arange(len(targets)), drawn)

    def figure(self, statistic: Callable[[Indices], float | None]) -> dict[str, Any]:
        """A statistic of rows as JSON: its value, and the ends of its 95 % interval; `None` where undefined."""
        value = statistic(self.everything) if len(self.everything) else None
        if value is None or not self.draws:
            return {"value": value, "low": None, "high": None}
        drawn = [statistic(rows) for rows in self.draws]
        spread = interval(np.array([np.nan if each is None else each for each in drawn]))
        return {"value": value, "low": spread.low, "high": spread.high}

    def share(self, holds: NDArray[np.bool_], among: NDArray[np.bool_]) -> dict[str, Any]:
        """The share of rows `among` (N,) for which something `holds` (N,), as a figure."""

        def of(rows: Indices) -> float | None:
            counted = holds[rows][among[rows]]
            return float(counted.mean()) if len(counted) else None

        return self.figure(of)


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
    assessments: Iterable[IssueAnnotation],
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
    found = {each.target: each for each in assessments if each.signature == plan.signature}
    stage = FLOWS[DETECTION].stages[0]
    [given] = table(stored_answers(labels, plan), [stage.label], found)
    drawn = Resampling.of(given.targets, draws, seed)
    return {
        "flow": DETECTION,
        "signature": plan.signature,
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


def _types(
    given: Table, assessed: Sequence[IssueAnnotation], taxonomy: Taxonomy, drawn: Resampling
) -> list[dict[str, Any]]:
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


def overall_outcome(
    labels: Iterable[Label], plan: Plan, assessments: Iterable[IssueAnnotation], draws: int = RANK_DRAWS, seed: int = 0
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
    found = {each.target: each for each in assessments if each.signature == plan.signature}
    first, second = FLOWS[OVERALL].stages
    given = stored_answers(labels, plan)
    initial, revised = table(given, [first.label, second.label], found)
    drawn = Resampling.of(initial.targets, draws, seed)
    model = np.array([found[turn].score for turn in initial.targets], dtype=float)
    flagged = np.array([bool(found[turn].issues) for turn in initial.targets], dtype=bool)
    ratings = int((~np.isnan(initial.answers)).sum())
    return {
        "flow": OVERALL,
        "signature": plan.signature,
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
