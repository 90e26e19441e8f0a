"""SODA-EVAL, figures 6 and 7 (appendix D.2): effect of a model's issues on the ratings of each annotator.

The error of a rating is its distance from the model's score. Figure 6 is read as the error before and after the issues
are shown. Figure 7 is read as the error that the issues save, as the available text describes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from accord.charts import Axis, ChartRow, interval_plot
from accord.statistics import RANK_DRAWS
from accord.studies.human_studies import (
    INITIAL,
    REVISED,
    Answers,
    DialogueResampling,
    ValidatedTurns,
    answer_tables,
)
from accord.values import IssueAnnotation
from accord_papers.study import Row, columns_of, estimate_of

Floats = NDArray[np.float64]
EVERYONE = "all"
REVISION_STATISTICS = ("initial_error", "revised_error", "reduction", "step", "revised")


def revision_rows(
    answers: Answers,
    turns: ValidatedTurns,
    assessments: Iterable[IssueAnnotation],
    draws: int = RANK_DRAWS,
    seed: int = 0,
) -> list[Row]:
    """Return the data of figures 6 and 7: a row per `annotator` and `score` of the model, and of each over all (None).

    Each statistic is a mean over ratings with both stages: `initial_error` and `revised_error`, the distances from the
    model's score (figure 6); `reduction`, their difference (figure 7); `step`, revised minus initial rating; and
    `revised`, the share of changed ratings. Intervals are from a bootstrap of dialogues.

    Args:
        answers: Answers of the annotators in the study `overall`.
        turns: Sampled turns of the study.
        assessments: Scores of the model.
        draws: Number of bootstrap samples.
        seed: Seed of the samples.
    """
    assessed = {each.target: each.score for each in assessments if each.signature == turns.signature}
    initial, revised = answer_tables(answers, [INITIAL, REVISED], assessed)
    model = np.array([assessed[turn] for turn in initial.targets], dtype=float)
    before, after = (np.abs(table.answers - model[:, None]) for table in (initial, revised))
    step = revised.answers - initial.answers
    changed = np.where(np.isnan(step), np.nan, step != 0)
    values = dict(zip(REVISION_STATISTICS, (before, after, before - after, step, changed), strict=True))
    resampling = DialogueResampling.of(initial.targets, draws, seed)
    people = [(EVERYONE, slice(None)), *((name, slice(at, at + 1)) for at, name in enumerate(initial.annotators))]
    rows: list[Row] = []
    for name, columns in people:
        for score in (None, *sorted(set(model.tolist()))):
            among = np.ones(len(model), dtype=bool) if score is None else model == score
            count = int((~np.isnan(step[among][:, columns])).sum())
            row: Row = {"annotator": name, "score": None if score is None else int(score), "ratings": count}
            for statistic, matrix in values.items() if count else ():
                row |= _mean(statistic, matrix[:, columns], among, resampling)
            rows.append(row)
    return rows


def _mean(name: str, matrix: Floats, among: NDArray[np.bool_], resampling: DialogueResampling) -> Row:
    """Return the mean of the ratings (N, A) in some rows (N,), with its interval."""

    def mean(rows: NDArray[np.intp]) -> float | None:
        drawn = matrix[rows[among[rows]]]
        return float(np.nanmean(drawn)) if (~np.isnan(drawn)).any() else None

    return columns_of(name, resampling.estimate(mean))


def error_chart(rows: Sequence[Row]) -> Markup:
    """Draw figure 6: the error of each annotator before and after the issues are shown."""
    stages = (("initial_error", "alone"), ("revised_error", "with issues"))
    shown = [
        ChartRow(
            f"{row['annotator']}, {words}", estimate_of(row, name), "model" if name == "revised_error" else "people"
        )
        for row in _over_scores(rows)
        for name, words in stages
    ]
    return interval_plot(shown, Axis("distance from the model's score", low=0), "Error per annotator")


def reduction_chart(rows: Sequence[Row]) -> Markup:
    """Draw figure 7: the error of each annotator that the issues save."""
    shown = [ChartRow(row["annotator"], estimate_of(row, "reduction")) for row in _over_scores(rows)]
    return interval_plot(shown, Axis("error before minus after"), "Error reduction per annotator", reference=0.0)


def _over_scores(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["score"] is None and row["ratings"]]
