"""Agreement of annotators, disputed items, and the parts of the disagreement; intervals are over conversations.

The answers to a question form a matrix of items by annotators. Disagreement is the squared difference of two answers to
one item. Each annotator has a level (harsh or lenient) and a width (share of the scale in use); the residual is the
disagreement that remains after both are removed, and no rule about the scale would reduce it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.results import Figure
from accord.statistics import (
    DETAIL_DRAWS,
    STATISTICS,
    Clusters,
    Paired,
    bootstrap,
    estimate_from_draws,
    fold_of,
    number,
    pearson,
    units_alpha,
)
from accord.values import Annotation, Estimate, Question, Target, Value

Floats = NDArray[np.float64]

MIN_ITEMS = 8
"""Minimum number of shared items, or of answers, for statistics of one annotator."""
FOLDS = 5
Unit = tuple[Target, Target | None]
"""An item: a target, and for a pair the second one."""


@dataclass(frozen=True)
class CountedEstimate(Estimate):
    """An estimate from `n` answers or items."""

    n: int = 0


UNDEFINED = CountedEstimate()


@dataclass(frozen=True)
class AnswerMatrix:
    """Answers of several annotators to one question.

    Attributes:
        question: The question.
        units: U items.
        people: P annotators, sorted by name.
        codes: (U, P) index of the option; -1 for no answer.
    """

    question: Question
    units: Sequence[Unit]
    people: Sequence[str]
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, question: Question, annotations: Sequence[Annotation]) -> AnswerMatrix:
        """Return the matrix of a question; "does not apply" counts as no answer."""
        by_unit: dict[Unit, dict[str, int]] = {}
        for each in annotations:
            if each.question == question.id and each.value is not None:
                by_unit.setdefault((each.target, each.against), {})[each.by] = option_index(question, each.value)
        people = sorted({name for answers in by_unit.values() for name in answers})
        codes = np.array([[answers.get(name, -1) for name in people] for answers in by_unit.values()], dtype=np.intp)
        return cls(question, list(by_unit), people, codes.reshape(len(by_unit), len(people)))

    def select(self, units: Sequence[Unit], people: Sequence[str]) -> AnswerMatrix:
        """Return the answers of some annotators to some items, in this order."""
        rows, columns = [self.units.index(unit) for unit in units], [self.people.index(name) for name in people]
        return AnswerMatrix(self.question, list(units), list(people), self.codes[np.ix_(rows, columns)])

    @cached_property
    def clusters(self) -> Clusters:
        """Items grouped by conversation."""
        return Clusters([target.conversation for target, _ in self.units])

    @cached_property
    def given(self) -> NDArray[np.bool_]:
        """(U, P) True for given answers."""
        return self.codes >= 0

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """(U,) True for items with several answers."""
        return np.asarray(self.given.sum(axis=1) > 1)

    @cached_property
    def values(self) -> Floats:
        """(U, P) answers as numbers of the scale; NaN for no answer."""
        options = np.array(option_numbers(self.question))
        return np.where(self.given, options[self.codes], np.nan)

    @cached_property
    def counts(self) -> Floats:
        """(U, K) number of answers for each option that occurs."""
        used = np.unique(self.codes[self.given])
        if not len(used):
            return np.zeros((len(self.units), 0))
        return np.stack([(self.codes == code).sum(axis=1) for code in used], axis=1, dtype=float)

    def weights(self, draws: int = DETAIL_DRAWS, seed: int = 0) -> Floats:
        """(draws, U) number of times that each item is drawn; conversations are drawn as a whole."""
        return np.asarray(self.clusters.counts(draws, seed)[:, self.clusters.of_row])

    def alphas(self, weights: Floats) -> Floats:
        """(D,) Krippendorff's α for (D, U) weights; NaN if undefined."""
        if not self.counts.shape[1]:
            return np.full(len(weights), np.nan)
        return units_alpha(self.counts, weights, self.question.scale.is_ordered)

    def estimate(self, statistic: Callable[[Floats], Floats], n: int) -> CountedEstimate:
        """Return a statistic of (D, U) weights with its interval over conversations."""
        value = number(statistic(np.ones((1, len(self.units))))[0]) if len(self.units) else None
        if value is None or len(self.clusters) < 2:
            return CountedEstimate(value, n=n)
        ends = estimate_from_draws(value, statistic(self.weights()))
        if ends.low == ends.high:  # constant data: resampling cannot estimate the variance
            return CountedEstimate(value, n=n)
        return CountedEstimate(value, ends.low, ends.high, n)


def option_numbers(question: Question) -> tuple[float, ...]:
    """Return the options as increasing numbers; for a nominal scale their indices."""
    scale = question.scale
    return scale.numbers if scale.is_ordered else tuple(map(float, range(len(scale.options))))


def option_index(question: Question, value: Value) -> int:
    """Return the index of the option of an answer; the nearest option of an ordered scale."""
    if not question.scale.is_ordered:
        return question.scale.options.index(value)
    options = np.array(question.scale.numbers)
    return int(np.searchsorted((options[1:] + options[:-1]) / 2, float(value)))


def agreement_of(answers: AnswerMatrix) -> CountedEstimate:
    """Return Krippendorff's α on items with several answers; ordinal if the scale is ordered."""
    return answers.estimate(answers.alphas, int(answers.shared.sum()))


def agreement_figure(answers: AnswerMatrix, where: str = "", part: str = "") -> Figure:
    """Return Krippendorff's α as a figure, with its number of ratings and the set that they are.

    Args:
        answers: The answers.
        where: End of the set in words, such as "in the study Helpful answers?".
        part: Part of the project that the answers belong to, such as a study.
    """
    alpha, ratings = agreement_of(answers), int(answers.given[answers.shared].sum())
    about = " ".join(filter(None, [f"{count_of(ratings, 'rating')} of {count_of(alpha.n, 'item')}", where]))
    source = "accord.studies.agreement_figure"
    return Figure.measured("alpha", alpha, ratings, about, "people", part=part, source=source)


def agreement_change(
    before: AnswerMatrix, after: AnswerMatrix
) -> tuple[CountedEstimate, CountedEstimate, CountedEstimate]:
    """Return α of the same annotators on the same items in two rounds, and the difference on the same draws."""
    units = [unit for unit in after.units if unit in set(before.units)]
    people = [name for name in after.people if name in set(before.people)]
    if not units or len(people) < 2:
        return UNDEFINED, UNDEFINED, UNDEFINED
    first, second = before.select(units, people), after.select(units, people)
    both = first.given & second.given
    first, second = (
        AnswerMatrix(each.question, units, people, np.where(both, each.codes, -1)) for each in (first, second)
    )
    change = first.estimate(lambda weights: second.alphas(weights) - first.alphas(weights), int(first.shared.sum()))
    return agreement_of(first), agreement_of(second), change


# --- habits of annotators -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnnotatorHabit:
    """Use of the scale by one annotator compared with the others.

    Attributes:
        person: Name of the annotator.
        level: Mean difference to the others' answers on the same items, in units of the scale; below 0 is harsh.
        width: Spread of the answers divided by the others' spread on the same items; below 1 is narrow.
        follows: Pearson's r between this annotator's answers to the main question and to each other question.
    """

    person: str
    level: CountedEstimate
    width: CountedEstimate
    follows: Mapping[str, CountedEstimate]


def annotator_habits(answers: AnswerMatrix, others: Sequence[AnswerMatrix] = ()) -> list[AnnotatorHabit]:
    """Return the habits of each annotator, by name.

    Args:
        answers: Answers to the main question.
        others: Answers to the questions that the main one may follow.
    """
    cache: dict[bytes, Clusters] = {}
    return [
        AnnotatorHabit(name, _level(answers, column), _width(answers, column), {
            other.question.id: _correlation(answers, other, name, cache) for other in others
        })
        for column, name in enumerate(answers.people)
    ]  # fmt: skip


def _compared_with_others(
    answers: AnswerMatrix, column: int, values: Floats
) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Return the items an annotator shares, the annotator's values there, and the mean of the others (else 0)."""
    shared = answers.given[:, column] & answers.shared
    rest = np.delete(values, column, axis=1)
    count = np.maximum(np.isfinite(rest).sum(axis=1), 1)
    return shared, np.where(shared, values[:, column], 0.0), np.where(shared, np.nansum(rest, axis=1) / count, 0.0)


def _level(answers: AnswerMatrix, column: int) -> CountedEstimate:
    shared, own, rest = _compared_with_others(answers, column, answers.values)
    if shared.sum() < MIN_ITEMS:
        return CountedEstimate(n=int(shared.sum()))
    with np.errstate(invalid="ignore", divide="ignore"):
        return answers.estimate(lambda weights: weights @ (own - rest) / (weights @ shared), int(shared.sum()))


def _width(answers: AnswerMatrix, column: int) -> CountedEstimate:
    centered = answers.values - np.nanmean(answers.values, axis=0)
    shared, own, _ = _compared_with_others(answers, column, centered)
    if shared.sum() < MIN_ITEMS:
        return CountedEstimate(n=int(shared.sum()))
    _, _, rest = _compared_with_others(answers, column, centered**2)

    def ratio(weights: Floats) -> Floats:
        total = weights @ shared
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = weights @ own**2 / total - (weights @ own / total) ** 2
            return np.asarray(np.sqrt(variance / (weights @ rest / total)))

    return answers.estimate(ratio, int(shared.sum()))


def _correlation(main: AnswerMatrix, other: AnswerMatrix, name: str, cache: dict[bytes, Clusters]) -> CountedEstimate:
    """Return Pearson's r of one annotator's answers to two questions; `cache` shares draws of the same items."""
    rows_of = {unit: row for row, unit in enumerate(other.units)}
    column = other.people.index(name) if name in other.people else -1
    if column < 0:
        return UNDEFINED
    given = main.given[:, main.people.index(name)]
    rows = np.array([row for row, unit in enumerate(main.units) if given[row] and unit in rows_of], dtype=np.intp)
    values = other.values[np.array([rows_of[main.units[int(row)]] for row in rows], dtype=np.intp), column]
    rows, values = rows[np.isfinite(values)], values[np.isfinite(values)]
    if len(rows) < MIN_ITEMS:
        return CountedEstimate(n=len(rows))
    codes = main.codes[rows, main.people.index(name)]
    paired = Paired(np.array(option_numbers(main.question)), codes, np.zeros((len(rows), 0)), values)
    if (key := rows.tobytes()) not in cache:
        cache[key] = Clusters([main.units[int(row)][0].conversation for row in rows])
    ends = bootstrap(cache[key], STATISTICS["pearson"], [paired], DETAIL_DRAWS)
    return CountedEstimate(ends.value, ends.low, ends.high, len(rows))


# --- parts of the disagreement --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DisagreementParts:
    """Shares of the disagreement: explained by levels, by widths in addition, and the residual; they sum to 1.

    Levels and widths are estimated by cross-validation over conversations, so that noise is not taken for a habit. A
    habit that predicts new conversations worse than its absence has the share 0.
    """

    level: CountedEstimate
    width: CountedEstimate
    residual: CountedEstimate


def decompose_disagreement(answers: AnswerMatrix) -> DisagreementParts | None:
    """Return the parts of the disagreement; `None` with too few shared items or without disagreement."""
    n = int(answers.shared.sum())
    if n < 2 * FOLDS or len(answers.clusters) < FOLDS or not answers.question.scale.is_ordered:
        return None
    total = _disagreement(answers.values)
    if not total.sum():
        return None
    fold = fold_of((target.conversation for target, _ in answers.units), FOLDS)
    fold_of_row = np.array([fold[target.conversation] for target, _ in answers.units])
    without_level, without_both = answers.values.copy(), answers.values.copy()
    for number_of_fold in range(FOLDS):
        train, test = (fold_of_row != number_of_fold) & answers.shared, fold_of_row == number_of_fold
        without_level[test] -= _fit_habits(answers.values[train], False)[0]
        offset, slope = _fit_habits(answers.values[train], True)
        without_both[test] -= offset + slope * _consensus(answers.values[test] - offset)
    after_level, after_both = _disagreement(without_level), _disagreement(without_both)

    def shares(weights: Floats) -> Floats:
        """(3, D) shares: the part that the better model explains, at least 0, and the residual."""
        with np.errstate(invalid="ignore", divide="ignore"):
            level, both = (np.clip(1 - weights @ part / (weights @ total), 0, 1) for part in (after_level, after_both))
        both = np.maximum(level, both)
        return np.stack([level, both - level, 1 - both])

    return DisagreementParts(*(answers.estimate(lambda weights, row=row: shares(weights)[row], n) for row in range(3)))  # type: ignore[misc]


def _disagreement(values: Floats) -> Floats:
    """(U,) mean of (y_p - y_q)² over pairs of annotators; 0 for items with fewer than two answers."""
    m = np.isfinite(values).sum(axis=1)
    total, squares = np.nansum(values, axis=1), np.nansum(values**2, axis=1)
    return np.where(m > 1, (m * squares - total**2) / np.maximum(m * (m - 1) / 2, 1), 0.0)


def _consensus(values: Floats) -> Floats:
    """(U, 1) centered means of the items."""
    mean = np.nansum(values, axis=1) / np.maximum(np.isfinite(values).sum(axis=1), 1)
    return np.asarray(mean - mean.mean())[:, None]


def _fit_habits(values: Floats, with_width: bool) -> tuple[Floats, Floats]:
    """(P,) levels, and (P,) slopes on the consensus of the items, by least squares within items."""
    people = values.shape[1]
    design = np.eye(people)[None] * np.ones((len(values), 1, 1))
    offset = _least_squares_within_items(values, design)
    if not with_width:
        return offset, np.zeros(people)
    consensus = _consensus(values - offset)
    both = np.concatenate([design, np.eye(people) * consensus[:, :, None]], 2)
    coefficients = _least_squares_within_items(values, both)
    return coefficients[:people], coefficients[people:]


def _least_squares_within_items(values: Floats, design: Floats) -> Floats:
    """(q,) least squares of (U, P) answers on a (U, P, q) design, both centered within items."""
    given = np.isfinite(values)
    count = np.maximum(given.sum(axis=1), 1)
    masked = np.where(given[:, :, None], design, 0.0)
    y = np.where(given, values - (np.nansum(values, axis=1) / count)[:, None], 0.0)
    X = np.where(given[:, :, None], masked - (masked.sum(axis=1) / count[:, None])[:, None, :], 0.0)
    return np.asarray(np.linalg.lstsq(X[given], y[given], rcond=1e-8)[0])


def smallest_dispute(question: Question) -> float:
    """Return the smallest difference of two answers that is a dispute, in units of the scale.

    It is two steps between neighboring options, or a quarter of the scale where that is more (from ten options on).
    With two options, or without an order, any two different answers are a dispute.

    >>> from accord.values import Scale
    >>> for options in ((1, 2, 3, 4, 5), (0, 1), tuple(range(11)), (0, 0.5, 1)):
    ...     print(smallest_dispute(Question(id="q", text="Good?", scale=Scale(options=options))))
    2.0
    1.0
    2.5
    1.0
    """
    numbers = option_numbers(question)
    length, steps = numbers[-1] - numbers[0], len(numbers) - 1
    if steps < 2 or not question.scale.is_ordered:
        return float(min(np.diff(numbers), default=1.0))
    return max(2 * length / steps, length / 4)


def disputed_units(answers: AnswerMatrix) -> set[Unit]:
    """Return the items on which two people are at least `smallest_dispute` apart."""
    rows = np.flatnonzero(answers.shared)
    if not len(rows):
        return set()
    values = answers.values[rows]
    is_apart = np.nanmax(values, axis=1) - np.nanmin(values, axis=1) >= smallest_dispute(answers.question) - 1e-9
    return {answers.units[int(row)] for row in rows[is_apart]}


def most_disputed(answers: AnswerMatrix, count: int = 10) -> list[tuple[Unit, float]]:
    """Return the items with the largest disagreement.

    Disagreement is the mean squared difference of two annotators in units of the scale; for a nominal scale it is the
    share of pairs of annotators with different answers.
    """
    disagreement = np.zeros(0)
    if len(answers.units) and answers.question.scale.is_ordered:
        disagreement = _disagreement(answers.values)
    elif len(answers.units):
        m = np.maximum(answers.counts.sum(axis=1), 2)
        same = ((answers.counts**2).sum(axis=1) - answers.counts.sum(axis=1)) / (m * (m - 1))
        disagreement = np.where(answers.shared, 1 - same, 0.0)
    rows = np.flatnonzero(disagreement > 0).tolist()
    order = sorted(rows, key=lambda row: (-disagreement[row], answers.units[row][0]))
    return [(answers.units[row], float(disagreement[row])) for row in order[:count]]


# --- rank correlation of ratings -----------------------------------------------------------------------------------


def spearman(first: Floats, second: Floats) -> float | None:
    """Return Spearman's ρ of two (n,) arrays, with mean ranks for ties; `None` if one is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(first), rankdata(second)) if len(first) > 1 else None


def agreement_with_all(ratings: Floats) -> float | None:
    """Return the paper's IAA: mean over annotators of ρ between own ratings and the mean of all, of (N, A) ratings."""
    return _mean_rho(ratings, lambda column: _row_means(ratings))


def agreement_with_others(ratings: Floats) -> float | None:
    """Return the mean over annotators of ρ between own ratings and the mean of the others, of (N, A) ratings."""
    return _mean_rho(ratings, lambda column: _row_means(np.delete(ratings, column, axis=1)))


def agreement_with_model(ratings: Floats, model: Floats) -> float | None:
    """Return ρ between the mean of (N, A) ratings and the (N,) scores of the model."""
    means = _row_means(ratings)
    rated = ~np.isnan(means)
    return spearman(means[rated], model[rated])


def _mean_rho(ratings: Floats, reference: Callable[[int], Floats]) -> float | None:
    rhos = []
    for column in range(ratings.shape[1]):
        own, mean = ratings[:, column], reference(column)
        both = ~np.isnan(own) & ~np.isnan(mean)
        rho = spearman(own[both], mean[both])
        if rho is not None:
            rhos.append(rho)
    return float(np.mean(rhos)) if ratings.shape[1] > 1 and rhos else None


def _row_means(ratings: Floats) -> Floats:
    """(N,) means of (N, A) ratings; NaN for rows without ratings."""
    count = (~np.isnan(ratings)).sum(axis=1)
    return np.where(count > 0, np.nansum(ratings, axis=1) / np.maximum(count, 1), np.nan)
