"""How people of a study agree, and what their disagreement is made of; every figure with its interval by conversation.

A question's answers are a table of items by people. Disagreement is what two people's answers to one item differ by,
squared. Each person has a level (harsh or lenient) and a width (how much of the scale is used); what differs once both
are taken off is the rest, which no rule about the scale would remove.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.statistics import STATISTICS, Clusters, Paired, bootstrap, estimate_from_draws, fold_of, number, units_alpha
from accord.values import Annotation, Estimate, Question, Target, Value

Floats = NDArray[np.float64]

DRAWS = 1000
FEWEST = 8
"""Items that somebody shares with others, or answers of one person, before a habit is told."""
FOLDS = 5
Unit = tuple[Target, Target | None]


@dataclass(frozen=True)
class CountedEstimate(Estimate):
    """An estimate from `n` answers or items."""

    n: int = 0


NONE = CountedEstimate(None, None, None, 0)


@dataclass(frozen=True)
class Answers:
    """One question's answers of several people.

    Attributes:
        question: Which.
        units: U items.
        people: P names, sorted.
        codes: (U, P) index of the option, -1 where somebody has not answered.
    """

    question: Question
    units: Sequence[Unit]
    people: Sequence[str]
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, question: Question, said: Sequence[Annotation]) -> Answers:
        """The answers to a question; "does not apply" is none."""
        found: dict[Unit, dict[str, int]] = {}
        for each in said:
            if each.question == question.id and each.value is not None:
                found.setdefault((each.target, each.against), {})[each.by] = code_of(question, each.value)
        people = sorted({name for unit in found.values() for name in unit})
        codes = np.array([[unit.get(name, -1) for name in people] for unit in found.values()], dtype=np.intp)
        return cls(question, list(found), people, codes.reshape(len(found), len(people)))

    def only(self, units: Sequence[Unit], people: Sequence[str]) -> Answers:
        """The answers of these people to these items, in this order."""
        rows, columns = [self.units.index(each) for each in units], [self.people.index(name) for name in people]
        return Answers(self.question, list(units), list(people), self.codes[np.ix_(rows, columns)])

    @cached_property
    def clusters(self) -> Clusters:
        """The items of one conversation."""
        return Clusters([target.conversation for target, _ in self.units])

    @cached_property
    def given(self) -> NDArray[np.bool_]:
        """(U, P) who answered what."""
        return self.codes >= 0

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """(U,) which items several people answered."""
        return np.asarray(self.given.sum(axis=1) > 1)

    @cached_property
    def values(self) -> Floats:
        """(U, P) the answers as numbers, in units of the scale; NaN where there is none."""
        options = np.array(numbers_of(self.question))
        return np.where(self.given, options[self.codes], np.nan)

    @cached_property
    def counts(self) -> Floats:
        """(U, K) how many gave each option that anybody gave."""
        used = np.unique(self.codes[self.given])
        return np.stack([(self.codes == code).sum(axis=1) for code in used], axis=1, dtype=float) if len(used) else (
            np.zeros((len(self.units), 0))
        )  # fmt: skip

    def weights(self, draws: int = DRAWS, seed: int = 0) -> Floats:
        """(draws, U) how often each item is drawn, whole conversations together."""
        return np.asarray(self.clusters.counts(draws, seed)[:, self.clusters.of_row])

    def alphas(self, weights: Floats) -> Floats:
        """(D,) Krippendorff's α on draws of items; NaN where it is undefined."""
        if not self.counts.shape[1]:
            return np.full(len(weights), np.nan)
        return units_alpha(self.counts, weights, self.question.scale.is_ordered)


def numbers_of(question: Question) -> tuple[float, ...]:
    """The options as rising numbers; of names, their places."""
    scale = question.scale
    return scale.numbers if scale.is_ordered else tuple(map(float, range(len(scale.options))))


def code_of(question: Question, value: Value) -> int:
    """The place of an answer among the options."""
    if not question.scale.is_ordered:
        return question.scale.options.index(value)
    options = np.array(question.scale.numbers)
    return int(np.searchsorted((options[1:] + options[:-1]) / 2, float(value)))


def _figure(of: Any, answers: Answers, n: int) -> CountedEstimate:
    """A function of (D, U) weights with its interval over conversations."""
    value = number(of(np.ones((1, len(answers.units))))[0]) if len(answers.units) else None
    if value is None or len(answers.clusters) < 2:
        return CountedEstimate(value, None, None, n)
    ends = estimate_from_draws(value, of(answers.weights()))
    if ends.low == ends.high:  # resamples of what is everywhere alike say nothing of what was not seen
        return CountedEstimate(value, None, None, n)
    return CountedEstimate(value, ends.low, ends.high, n)


def people_agree(answers: Answers) -> CountedEstimate:
    """Krippendorff's α of everybody, ordinal where the scale is; of the items that several answered."""
    return _figure(answers.alphas, answers, int(answers.shared.sum()))


def change_of(before: Answers, after: Answers) -> tuple[CountedEstimate, CountedEstimate, CountedEstimate]:
    """α of the same people on the same items in two rounds, and the second less the first, on the same draws."""
    units = [unit for unit in after.units if unit in set(before.units)]
    people = [name for name in after.people if name in set(before.people)]
    if not units or len(people) < 2:
        return NONE, NONE, NONE
    one, other = before.only(units, people), after.only(units, people)
    both = one.given & other.given
    one, other = (Answers(each.question, units, people, np.where(both, each.codes, -1)) for each in (one, other))
    return people_agree(one), people_agree(other), _figure(
        lambda weights: other.alphas(weights) - one.alphas(weights), one, int(one.shared.sum())
    )  # fmt: skip


# --- habits ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Habit:
    """How one person uses the scale beside the others.

    Attributes:
        person: Who.
        level: Mean of the own answers less the others' to the same items, in units of the scale: below 0 harsh.
        width: Spread of the own answers around their mean, in shares of the others' on the same items: below 1 narrow.
        follows: How far the own answer to the main question follows the own answers to each other one (Pearson's r).
    """

    person: str
    level: CountedEstimate
    width: CountedEstimate
    follows: Mapping[str, CountedEstimate]

    def to_json(self) -> dict[str, Any]:
        """The same by name."""
        follows = {name: found.to_json() for name, found in self.follows.items()}
        return {"person": self.person, "level": self.level.to_json(), "width": self.width.to_json(), "follows": follows}


def habits(answers: Answers, others: Sequence[Answers] = ()) -> list[Habit]:
    """Everybody's habits, by name; `others` are the answers to the questions that the main one may follow."""
    drawn: dict[bytes, Clusters] = {}
    return [
        Habit(name, _level(answers, place), _width(answers, place), {
            each.question.id: _follows(answers, each, name, drawn) for each in others
        })
        for place, name in enumerate(answers.people)
    ]  # fmt: skip


def _beside(answers: Answers, place: int, values: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which items somebody shares, the own values there (0 elsewhere), and of the others their sum of 1/(m - 1)."""
    mine = answers.given[:, place] & answers.shared
    rest = np.delete(values, place, axis=1)
    count = np.maximum(np.isfinite(rest).sum(axis=1), 1)
    return mine, np.where(mine, values[:, place], 0.0), np.where(mine, np.nansum(rest, axis=1) / count, 0.0)


def _level(answers: Answers, place: int) -> CountedEstimate:
    mine, own, rest = _beside(answers, place, answers.values)
    if mine.sum() < FEWEST:
        return CountedEstimate(None, None, None, int(mine.sum()))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _figure(lambda weights: weights @ (own - rest) / (weights @ mine), answers, int(mine.sum()))


def _width(answers: Answers, place: int) -> CountedEstimate:
    centred = answers.values - np.nanmean(answers.values, axis=0)
    mine, own, _ = _beside(answers, place, centred)
    if mine.sum() < FEWEST:
        return CountedEstimate(None, None, None, int(mine.sum()))
    _, _, rest = _beside(answers, place, centred**2)

    def ratio(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = weights @ own / (weights @ mine)
            found = np.sqrt((weights @ own**2 / (weights @ mine) - mean**2) / (weights @ rest / (weights @ mine)))
        return np.asarray(found)

    return _figure(ratio, answers, int(mine.sum()))


def _follows(main: Answers, other: Answers, name: str, drawn: dict[bytes, Clusters]) -> CountedEstimate:
    """Pearson's r of one person's answers to two questions; `drawn` keeps draws of the same items for all."""
    place = {unit: row for row, unit in enumerate(other.units)}
    column = other.people.index(name) if name in other.people else -1
    if column < 0:
        return NONE
    given = main.given[:, main.people.index(name)]
    rows = np.array([row for row, unit in enumerate(main.units) if given[row] and unit in place], dtype=np.intp)
    theirs = other.values[np.array([place[main.units[int(row)]] for row in rows], dtype=np.intp), column]
    rows, theirs = rows[np.isfinite(theirs)], theirs[np.isfinite(theirs)]
    if len(rows) < FEWEST:
        return CountedEstimate(None, None, None, len(rows))
    codes = main.codes[rows, main.people.index(name)]
    paired = Paired(np.array(numbers_of(main.question)), codes, np.zeros((len(rows), 0)), theirs)
    if (key := rows.tobytes()) not in drawn:
        drawn[key] = Clusters([main.units[int(row)][0].conversation for row in rows])
    clusters = drawn[key]
    ends = bootstrap(clusters, STATISTICS["pearson"], [paired], DRAWS)
    return CountedEstimate(ends.value, ends.low, ends.high, len(rows))


@dataclass(frozen=True)
class Apart:
    """Shares of the disagreement: what levels explain, what widths add to that, and the rest; they sum to 1.

    Levels and widths are learned on four fifths of the conversations and taken off the last fifth, in turn, so that
    people who do not differ are not said to: a share may come out below 0.
    """

    level: CountedEstimate
    width: CountedEstimate
    rest: CountedEstimate

    def to_json(self) -> dict[str, Any]:
        """The same by name."""
        return {"level": self.level.to_json(), "width": self.width.to_json(), "rest": self.rest.to_json()}


def taken_apart(answers: Answers) -> Apart | None:
    """What the disagreement is made of; `None` where too few items are shared or nobody disagrees."""
    n = int(answers.shared.sum())
    if n < 2 * FOLDS or len(answers.clusters) < FOLDS or not answers.question.scale.is_ordered:
        return None
    before = _differences(answers.values)
    if not before.sum():
        return None
    fold = fold_of((target.conversation for target, _ in answers.units), FOLDS)
    mine = np.array([fold[target.conversation] for target, _ in answers.units])
    level, both = answers.values.copy(), answers.values.copy()
    for each in range(FOLDS):
        train, test = (mine != each) & answers.shared, mine == each
        level[test] -= _fitted(answers.values[train], False)[0]
        offset, slope = _fitted(answers.values[train], True)
        both[test] -= offset + slope * _consensus(answers.values[test] - offset)
    middle, after = _differences(level), _differences(both)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = [
            _figure(lambda weights, left=left: weights @ left / (weights @ before), answers, n)
            for left in (before - middle, middle - after, after)
        ]
    return Apart(*parts)


def _differences(values: Floats) -> Floats:
    """(U,) mean over pairs of people of (y_p - y_q)², times 1 per item; 0 where nobody else answered."""
    m = np.isfinite(values).sum(axis=1)
    whole, squares = np.nansum(values, axis=1), np.nansum(values**2, axis=1)
    return np.where(m > 1, (m * squares - whole**2) / np.maximum(m * (m - 1) / 2, 1), 0.0)


def _consensus(values: Floats) -> Floats:
    """(U, 1) the items' means, centred."""
    mean = np.nansum(values, axis=1) / np.maximum(np.isfinite(values).sum(axis=1), 1)
    return np.asarray(mean - mean.mean())[:, None]


def _fitted(values: Floats, with_width: bool) -> tuple[Floats, Floats]:
    """(P,) levels, and how much more than others each moves with the items' consensus, by least squares in items."""
    people = values.shape[1]
    offset = _solved(values, np.eye(people)[None] * np.ones((len(values), 1, 1)))
    if not with_width:
        return offset, np.zeros(people)
    consensus = _consensus(values - offset)
    both = np.concatenate(
        [np.eye(people)[None] * np.ones((len(values), 1, 1)), np.eye(people) * consensus[:, :, None]], 2
    )
    found = _solved(values, both)
    return found[:people], found[people:]


def _solved(values: Floats, design: Floats) -> Floats:
    """Least squares of (U, P) answers on a (U, P, q) design, each item's mean taken off both."""
    given = np.isfinite(values)
    count = np.maximum(given.sum(axis=1), 1)
    shown = np.where(given[:, :, None], design, 0.0)
    y = np.where(given, values - (np.nansum(values, axis=1) / count)[:, None], 0.0)
    X = np.where(given[:, :, None], shown - (shown.sum(axis=1) / count[:, None])[:, None, :], 0.0)
    return np.asarray(np.linalg.lstsq(X[given], y[given], rcond=1e-8)[0])


def worst(answers: Answers, count: int = 10) -> list[tuple[Unit, float]]:
    """The items on which people differ most: the mean squared difference of two of them, in units of the scale.

    Of answers that are names it is the share of pairs of people who differ.
    """
    found = np.zeros(0)
    if len(answers.units) and answers.question.scale.is_ordered:
        found = _differences(answers.values)
    elif len(answers.units):
        m = np.maximum(answers.counts.sum(axis=1), 2)
        found = 1 - ((answers.counts**2).sum(axis=1) - answers.counts.sum(axis=1)) / (m * (m - 1))
        found = np.where(answers.shared, found, 0.0)
    order = sorted(np.flatnonzero(found > 0).tolist(), key=lambda row: (-found[row], answers.units[row][0]))
    return [(answers.units[row], float(found[row])) for row in order[:count]]
