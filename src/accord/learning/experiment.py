"""Experiments: out-of-fold predictions of ratings by heads and evaluators, with a cache.

`compare`, `fit`, learning curves and the report read the predictions of one `Experiment`. This file imports no source
and no model, so that a worker process loads it quickly.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from accord.edges import AccordError, BadInput
from accord.evidence import EvidenceTable, Ratings, in_pairs, ratings
from accord.learning.head import Head, make_head
from accord.learning.presets import Level
from accord.statistics import INNER_FOLDS, Paired, Split, grouped_folds
from accord.values import Labels, Question, Score, Target, Unscored

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
PREDICTED = ("probabilities", "value", "new_value", "scored", "band", "new_probabilities", "new_band")
"""Arrays of `Predictions`, a row for each rating."""


class Predictor(Protocol):
    """A fitted head, or a rival of a benchmark."""

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None], /) -> list[Score | Unscored]:
        """Return one score per row, each for that row's annotator."""
        ...


class Learner(Protocol):
    """An unfitted head, or a choice among several."""

    def fit(self, evidence: EvidenceTable, labels: Labels, /) -> Predictor:
        """Return the fitted predictor."""
        ...


Factory = Callable[[Question], Learner]
Piece = tuple[int, int]
"""Places of a system and of a fold in a plan."""


@dataclass(frozen=True)
class Predictions:
    """One system's predictions of all ratings, each made without that rating's group.

    Attributes:
        name: Name of the system.
        probabilities: (n, K) distribution for the rating's annotator; rows without a prediction are 0.
        value: (n,) predicted value for the rating's annotator.
        new_value: (n,) predicted value for a new annotator; NaN without a prediction.
        scored: (n,) True for rows with a prediction.
        band: (n, 2) ends of the conformal interval; NaN without one.
        new_probabilities: (n, K) distribution for a new annotator; rows without a prediction are 0.
        new_band: (n, 2) ends of the conformal interval for a new annotator; NaN without one.
        reasons: Number of rows without a prediction by reason.
        choices: Number of folds by choice that the system made inside the folds (`Head.choices`).
    """

    name: str
    probabilities: Floats
    value: Floats
    new_value: Floats
    scored: NDArray[np.bool_]
    band: Floats
    new_probabilities: Floats
    new_band: Floats
    reasons: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def missing(cls, name: str, rated: Ratings, reason: str = "") -> Predictions:
        """Return empty predictions; `reason` explains why there are none."""
        n = len(rated)
        shares, band, is_scored = np.zeros((n, len(rated.options))), np.full((n, 2), np.nan), np.zeros(n, dtype=bool)
        reasons = {reason: n} if reason else {}
        return cls(name, shares, np.zeros(n), np.full(n, np.nan), is_scored, band, shares.copy(), band.copy(), reasons)

    @classmethod
    def joined(cls, name: str, rated: Ratings, parts: Iterable[tuple[Rows, Predictions]]) -> Predictions:
        """Return predictions of all ratings, joined from parts with some rows; rows outside all parts have none."""
        whole = cls.missing(name, rated)
        reasons, choices = Counter[str](), Counter[str]()
        for rows, part in parts:
            for array in PREDICTED:
                getattr(whole, array)[rows] = getattr(part, array)
            reasons.update(part.reasons)
            choices.update(part.choices)
        return replace(whole, reasons=dict(reasons), choices=dict(choices))

    def paired(self, rated: Ratings) -> Paired:
        """Return the predictions paired with the ratings, all rows; rows without a prediction hold zeros."""
        return Paired(rated.options, rated.answer, self.probabilities, self.value, self.band)

    def paired_new(self, rated: Ratings) -> Paired:
        """Return the predictions for a new annotator paired with the ratings; rows without one have value NaN.

        `accord score` makes this prediction unless an annotator is named.
        """
        return Paired(rated.options, rated.answer, self.new_probabilities, self.new_value, self.new_band)


@dataclass(frozen=True)
class HeldOutAnswers:
    """Out-of-fold distributions that are saved with an evaluator.

    A rating has a row for each repetition of the cross-validation.

    Attributes:
        known: (n, K) distribution for the rating's annotator.
        new: (n, K) distribution for a new annotator.
        answer: (n,) index of the chosen option.
        group: (n,) index of the group.
        options: (K,) options of the question.
        rating: (n,) index of the rating.
    """

    known: Floats
    new: Floats
    answer: NDArray[np.intp]
    group: NDArray[np.intp]
    options: Floats
    rating: NDArray[np.intp]

    @classmethod
    def of(cls, repeats: Sequence[Predictions], rated: Ratings) -> HeldOutAnswers:
        """Return the ratings that have predictions, from each repetition of the cross-validation."""
        known, new = (
            np.concatenate([getattr(each, name) for each in repeats]) for name in ("probabilities", "new_probabilities")
        )
        is_scored = np.concatenate([each.scored for each in repeats])
        rows = np.flatnonzero(is_scored & (new.sum(axis=1) > 0))
        rating = rows % len(rated)
        group = np.unique(rated.group.astype(str), return_inverse=True)[1].astype(np.intp)[rating]
        return cls(known[rows], new[rows], rated.answer[rating], group, rated.options, rating)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays to save."""
        return {name: np.asarray(array) for name, array in vars(self).items()}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> HeldOutAnswers:
        """Return the answers from `arrays`.

        Accord 0.1 saved one repetition without `rating`: each row is a rating.

        Raises:
            ValueError: The shapes do not match, or an answer is not an option.
        """
        saved = {"rating": np.arange(len(arrays["answer"])), **arrays}
        answers = cls(**{name: saved[name] for name in cls.__dataclass_fields__})
        n, options = len(answers.answer), len(answers.options)
        shapes = (answers.known.shape, answers.new.shape, answers.group.shape, answers.rating.shape)
        if shapes != ((n, options), (n, options), (n,), (n,)):
            raise ValueError("held-out predictions have different shapes")
        if answers.answer.dtype.kind not in "iu" or ((answers.answer < 0) | (answers.answer >= options)).any():
            raise ValueError("held-out answers are not options of the scale")
        return answers


class Pool(Protocol):
    """Function that does pieces of work in order, possibly in several processes (`accord.runtime.WorkerPool`)."""

    def __call__(
        self,
        work: Callable[[Piece], Predictions],
        pieces: Sequence[Piece],
        on_begin: Callable[[Piece], None],
        /,
    ) -> list[Predictions]:
        """Return the result of the work for each piece, in order; `on_begin` gets each piece that begins here."""
        ...


class PredictionCache(Protocol):
    """Store of predictions by experiment and key."""

    def get(self, experiment: Experiment, key: Any) -> Predictions | None:
        """Return cached predictions, or None."""
        ...

    def put(self, experiment: Experiment, key: Any, predictions: Predictions) -> None:
        """Store predictions."""
        ...


@dataclass(frozen=True)
class Experiment:
    """Ratings to predict, training data and folds.

    Attributes:
        question: Question that is predicted.
        evidence: Evidence of all rated targets, and of targets with answers to other questions.
        labels: All labels, with their groups.
        ratings: n ratings to predict.
        splits: Train and test groups of each fold.
        folds: Number of folds; 1 if one side is held out.
        seed: Random seed of the folds.
        always_train: Groups that shaped the evidence (a rubric was learned on them) and are never tested.
        cache: Cache of predictions; None computes them each time.
    """

    question: Question
    evidence: EvidenceTable
    labels: Labels
    ratings: Ratings
    splits: Sequence[Split]
    folds: int
    seed: int = 0
    always_train: frozenset[str] = frozenset()
    cache: PredictionCache | None = None

    @classmethod
    def of(
        cls,
        evidence: EvidenceTable,
        labels: Labels,
        question: Question,
        folds: int,
        seed: int = 0,
        seen: Collection[str] = (),
        cache: PredictionCache | None = None,
    ) -> Experiment:
        """Return the cross-validation over groups of a question's ratings.

        Args:
            evidence: Evidence of all targets.
            labels: All labels, with their groups.
            question: Question to predict.
            folds: Number of folds.
            seed: Random seed of the folds.
            seen: Conversations that shaped the evidence; they are learned from in every fold and never tested.
            cache: Cache of predictions.

        Raises:
            BadInput: Too few rated groups for the folds, nothing to test, or a label outside the scale.
        """
        everything = ratings(evidence, labels, question)
        if not len(everything):
            raise BadInput(
                f"no label on {question.id!r} has evidence; import labels, or gather evidence for the targets they rate"
            )
        was_seen = np.array([name in frozenset(seen) for name in everything.conversation], dtype=bool)
        shaped = frozenset(map(str, everything.group[was_seen]))
        rated = everything.take(np.flatnonzero([name not in shaped for name in everything.group]))
        if not len(rated):
            raise BadInput("every rated conversation was used to learn the rubric; label others to test it on")
        always = untested_groups(evidence, labels, question, shaped)
        splits = tuple(grouped_folds(list(rated.group), folds, seed, always))
        return cls(question, evidence, labels, rated, splits, folds, seed, shaped, cache)

    @classmethod
    def on_split(
        cls, evidence: EvidenceTable, labels: Labels, question: Question, split: Split, seed: int = 0
    ) -> Experiment:
        """Return the experiment that tests the held-out side of one split.

        Raises:
            BadInput: No target on the test side is rated.
        """
        everything = ratings(evidence, labels, question)
        rated = everything.take(np.flatnonzero([group in split.test for group in everything.group]))
        if not len(rated):
            raise BadInput(f"no held-out target has a rating of {question.id!r}")
        return cls(question, evidence, labels, rated, (split,), 1, seed)

    def run(self, name: str, make: Factory, key: Any = None) -> Predictions:
        """Predict each rating without its group, for its own annotator and for a new one.

        Rows of a fold in which nothing can be learned stay unscored with the reason.

        Args:
            name: Name of the system.
            make: Returns the unfitted system.
            key: Key of the predictions in the cache; None does not use the cache.
        """
        return FoldPlan([Planned(name, make, self, key)]).run()[0]

    def rows_of(self, split: Split) -> Rows:
        """Return the indices of the ratings on the test side of a split."""
        return np.flatnonzero([group in split.test for group in self.ratings.group])

    def thinned(self, share: float, number: int = 0) -> Experiment:
        """Return the experiment with a random share of each fold's training groups; `number` selects the draw."""
        splits = []
        for place, split in enumerate(self.splits):
            groups = sorted(split.train)
            chosen = random.Random(self.seed + place + number * len(self.splits)).sample(
                groups, max(1, round(share * len(groups)))
            )
            splits.append(Split(frozenset(chosen), split.test))
        return replace(self, splits=tuple(splits))

    def repeats(self, count: int) -> list[Experiment]:
        """Return this experiment and others with folds of the next seeds, `count` in all.

        Returns this experiment alone if one side is held out, or if each group is a fold, which no seed changes.
        """
        tested = frozenset[str]().union(*(split.test for split in self.splits))
        if self.folds < 2 or len(tested) <= self.folds:
            return [self]
        always = self.splits[0].train - tested
        names = list(map(str, self.ratings.group))
        return [self] + [
            replace(self, seed=seed, splits=tuple(grouped_folds(names, self.folds, seed, always)))
            for seed in range(self.seed + 1, self.seed + count)
        ]


class Planned(NamedTuple):
    """A system that predicts the ratings of an experiment.

    Attributes:
        name: Name of the system.
        make: Returns the unfitted system.
        experiment: Ratings and folds.
        key: Key of the predictions in the experiment's cache; None does not use the cache.
    """

    name: str
    make: Factory
    experiment: Experiment
    key: Any = None


def _in_order(
    work: Callable[[Piece], Predictions], pieces: Sequence[Piece], on_begin: Callable[[Piece], None]
) -> list[Predictions]:
    """Do the pieces of work one after the other in this process."""
    results = []
    for piece in pieces:
        on_begin(piece)
        results.append(work(piece))
    return results


class FoldPlan:
    """The folds of several systems, each predicted once, for one or for all repetitions of the cross-validation.

    Predictions in the cache are read, and systems with equal keys and folds share theirs. The systems of a fold follow
    each other, so that they share its evidence, its labels, and identical steps of learning (`TreeAnswers`).

    Args:
        systems: Systems to predict.

    Attributes:
        known: Predictions from the cache, by place of the system.
        pieces: (system, fold) to compute, by their places.
    """

    def __init__(self, systems: Sequence[Planned]) -> None:
        self.systems = systems
        self.known: dict[int, Predictions] = {}
        self._twin: dict[int, int] = {}
        folds: dict[Any, list[Piece]] = {}
        first: dict[Any, int] = {}
        for place, (name, _, experiment, key) in enumerate(systems):
            splits = tuple(experiment.splits)
            if key is not None:
                same = (id(experiment.evidence), id(experiment.labels), splits, repr(key))
                if first.setdefault(same, place) != place:
                    self._twin[place] = first[same]
                    continue
                cached = None if experiment.cache is None else experiment.cache.get(experiment, key)
                if cached is not None:
                    self.known[place] = replace(cached, name=name)
                    continue
            for number in range(len(splits)):
                folds.setdefault((splits, number), []).append((place, number))
        self.pieces = [piece for pieces in folds.values() for piece in pieces]

    def run(self, pool: Pool | None = None, on_fold: Callable[[int], None] = lambda number: None) -> list[Predictions]:
        """Return the predictions of each system, and store the new ones that a cache takes.

        Rows of a fold in which nothing can be learned stay unscored with the reason.

        Args:
            pool: Does the pieces of work in several processes; None does them in this one.
            on_fold: Called with the number of a fold, from 0, when this process begins a system on it.
        """
        found = dict(self.known)
        work = _FoldWork([each._replace(experiment=replace(each.experiment, cache=None)) for each in self.systems])
        parts: dict[int, list[tuple[Rows, Predictions]]] = {}
        do = _in_order if pool is None else pool
        computed = do(work, self.pieces, lambda piece: on_fold(piece[1])) if self.pieces else []
        for (place, number), part in zip(self.pieces, computed, strict=True):
            experiment = self.systems[place].experiment
            parts.setdefault(place, []).append((experiment.rows_of(experiment.splits[number]), part))
        for place, of_system in parts.items():
            name, _, experiment, key = self.systems[place]
            found[place] = Predictions.joined(name, experiment.ratings, of_system)
            if experiment.cache is not None and key is not None and found[place].scored.any():
                experiment.cache.put(experiment, key, found[place])
        places = [self._twin.get(place, place) for place in range(len(self.systems))]
        return [replace(found[place], name=each.name) for place, each in zip(places, self.systems, strict=True)]


class _FoldWork:
    """Work for a process: the predictions of one system for the test side of one fold."""

    def __init__(self, systems: Sequence[Planned]) -> None:
        self.systems = systems
        self._sides: tuple[Any, Any] = (None, None)

    def __call__(self, piece: Piece) -> Predictions:
        place, number = piece
        name, make, experiment, _ = self.systems[place]
        split = experiment.splits[number]
        key = (id(experiment.evidence), id(experiment.labels), id(experiment.ratings), split)
        if self._sides[0] != key:
            self._sides = key, _sides_of(experiment, split)
        seen, labels, unseen, rated = self._sides[1]
        predictions, reasons = Predictions.missing(name, rated), Counter[str]()
        try:
            fitted = make(experiment.question).fit(seen, labels)
            scores = fitted.predict_each(unseen, list(rated.annotator))
            new_scores = fitted.predict_each(unseen, [None] * len(rated))
        except AccordError as error:
            return Predictions.missing(name, rated, str(error))
        for row, (score, new_score) in enumerate(zip(scores, new_scores, strict=True)):
            if isinstance(new_score, Score):
                predictions.new_value[row] = new_score.value
                predictions.new_probabilities[row] = new_score.probabilities
                predictions.new_band[row] = new_score.band or (np.nan, np.nan)
            if isinstance(score, Score):
                predictions.probabilities[row], predictions.value[row] = score.probabilities, score.value
                predictions.band[row] = score.band or (np.nan, np.nan)
                predictions.scored[row] = True
            else:
                reasons[score.reason] += 1
        return replace(predictions, reasons=reasons, choices=Counter(getattr(fitted, "choices", tuple)()))


def _sides_of(experiment: Experiment, split: Split) -> tuple[EvidenceTable, Labels, EvidenceTable, Ratings]:
    """Return evidence and labels of the training side, and evidence and ratings of the test side."""
    rated = experiment.ratings.take(experiment.rows_of(split))
    seen = experiment.evidence.filter(split.train, experiment.labels.group_of)
    return seen, experiment.labels.filter(split.train), experiment.evidence.take(rated.row), rated


def untested_groups(
    evidence: EvidenceTable, labels: Labels, question: Question, shaped: Collection[str]
) -> frozenset[str]:
    """Return the groups that are learned from and never tested: the groups in `shaped`, and groups without ratings."""
    rated = {labels.group_of(target) for target in labels.on(question.id).targets}
    return frozenset(shaped) | ({labels.group_of(target) for target in evidence.targets} - rated)


@dataclass(frozen=True)
class Choice:
    """Chooses the candidate with the lowest log loss on inner folds, and fits it on everything.

    Inside an experiment this is nested cross-validation: the choice never sees a conversation that it is tested on.

    Attributes:
        question: Main question.
        candidates: Makers of unfitted heads, simplest first; a tie goes to the simpler one.
        seed: Random seed of the inner folds.
    """

    question: Question
    candidates: Sequence[Callable[[Question], Head]]
    seed: int = 0

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Head:
        """Return the best candidate, fitted on everything.

        Raises:
            BadInput: Too few rated conversations for the inner folds, or for every candidate.
        """
        losses = [self._loss(make, evidence, labels) for make in self.candidates]
        return self.candidates[int(np.argmin(losses))](self.question).fit(evidence, labels)

    def _loss(self, make: Callable[[Question], Head], evidence: EvidenceTable, labels: Labels) -> float:
        """Return the mean -log probability of the ratings that a candidate scores, predicted without their groups."""
        rated = ratings(evidence, labels, self.question)
        splits = tuple(grouped_folds(list(rated.group), INNER_FOLDS, self.seed))
        experiment = Experiment(self.question, evidence, labels, rated, splits, INNER_FOLDS, self.seed)
        chances = experiment.run("candidate", make).probabilities[np.arange(len(rated)), rated.answer]
        return float(-np.log(chances[chances > 0]).mean()) if (chances > 0).any() else np.inf


@dataclass(frozen=True)
class HeadLearner:
    """An unfitted head and how it learns.

    Attributes:
        question: Question that is predicted.
        head: Unfitted head with its settings.
        head_name: Registered name of the head.
        choose: Settings to choose on inner folds: values by name, simplest first.
        seed: Random seed of the inner folds.
    """

    question: Question
    head: Head
    head_name: str
    choose: Mapping[str, Sequence[Any]]
    seed: int

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Head:
        """Return the fitted head.

        Raises:
            BadInput: There is too little to learn from, or both turns and conversations are rated.
        """
        return self.fit_prepared(*self.prepare(evidence, labels))

    def prepare(self, evidence: EvidenceTable, labels: Labels) -> tuple[EvidenceTable, Labels]:
        """Return the columns that have values and the labels; for a comparison, the differences of pairs.

        Raises:
            BadInput: No sample has evidence.
        """
        known = self.known(evidence)
        if evidence.columns and not known.columns:
            reason = "".join(f": {reason}" for reason, _ in Counter(evidence.absences.values()).most_common(1))
            raise BadInput(f"no training sample of {len(evidence)} has evidence{reason}; ask the judge: accord judge")
        if self.question.compares and all(column.centre is None for column in known.columns):
            return in_pairs(known, labels, self.question)
        return known, labels

    def known(self, evidence: EvidenceTable) -> EvidenceTable:
        """Return the columns with a value in at least one row; all columns if the head needs no labels."""
        if not self.head.needs_labels:
            return evidence
        return evidence.select(np.flatnonzero(evidence.present.any(axis=0)).tolist())

    def fit_prepared(self, evidence: EvidenceTable, labels: Labels) -> Head:
        """Return the head fitted on prepared evidence, with the settings that predict inner folds best."""
        level_of(labels.on(self.question.id).targets)
        given = self.head.settings()
        tried = [{**given, **dict(zip(self.choose, values, strict=True))} for values in product(*self.choose.values())]
        candidates = [partial(make_head, self.head_name, settings=settings) for settings in tried]
        if len(candidates) == 1:
            return candidates[0](self.question).fit(evidence, labels)
        return Choice(self.question, candidates, self.seed).fit(evidence, labels)


def level_of(targets: Iterable[Target], question: Question | None = None) -> Level | None:
    """Return the level of targets; without any, `step` if the question is about steps, else None.

    Raises:
        BadInput: They are turns and whole conversations.
    """
    of_turns: Level = "step" if question is not None and question.is_about_steps else "turn"
    levels: set[Level] = {"conversation" if target.turn is None else of_turns for target in targets}
    if not levels and of_turns == "step":
        return of_turns
    if len(levels) > 1:
        raise BadInput(
            "both turns and whole conversations are rated on one question; an evaluator learns from one of them: set "
            "level: turn or level: conversation in evaluators:"
        )
    return next(iter(levels), None)
