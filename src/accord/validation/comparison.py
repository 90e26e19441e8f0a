"""Every method and baseline on the same labels and honest folds: one table, with intervals and paired tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import PMI, PRESETS, Factory, JudgeExpected, RandomDraw, System, held_out, make_head
from accord.methods import LOWEST_SCORE, SCORE
from accord.statistics import (
    DRAWS,
    FOLDS,
    LOWER_IS_BETTER,
    STATISTICS,
    Clusters,
    Groups,
    Interval,
    MeanStatistic,
    PairedTest,
    Split,
    agreement,
    bootstrap,
    grouped_folds,
    holm,
    paired_test,
)
from accord.values import ISSUE, BadInput, Labels, Question, Target, UnknownName

Floats = NDArray[np.float64]

BASELINES = (
    "constant", "annotator-mean", "random", "label-free", "judge-argmax", "judge-expected", "mean-turn", "lowest-turn",
)  # fmt: skip
TESTED = ("rmse", "pearson", "log_loss")
SMECE_DRAWS = 100
"""Draws for the intervals of calibration errors, which take the longest to compute."""


@dataclass(frozen=True)
class Result:
    """One system's line in the table: each statistic with its interval, on `n` ratings."""

    system: str
    n: int
    unscored: int
    values: Mapping[str, float | None]
    intervals: Mapping[str, Interval]
    smece: Sequence[float | None]
    smece_intervals: Sequence[Interval]
    reasons: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """A flat row under the names every benchmark uses."""
        row: dict[str, Any] = {"system": self.system, "n": self.n, "unscored": self.unscored}
        for name, value in self.values.items():
            row |= {name: value, f"{name}_low": self.intervals[name].low, f"{name}_high": self.intervals[name].high}
        row |= {"smece": list(self.smece), "smece_low": [i.low for i in self.smece_intervals]}
        return row | {"smece_high": [i.high for i in self.smece_intervals], "reasons": dict(self.reasons)}


@dataclass(frozen=True)
class Difference:
    """The first system against another, on one statistic: the paired test, its p corrected by Holm's method."""

    system: str
    against: str
    statistic: str
    test: PairedTest
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        test = self.test
        ours = {"system": self.system, "against": self.against, "statistic": self.statistic}
        return ours | {
            "difference": test.difference,
            "difference_low": test.low,
            "difference_high": test.high,
            "p": test.p,
            "p_holm": self.p_holm,
        }


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: every system on the same ratings, the first tested against all others.

    Attributes:
        question: What is predicted.
        ratings: The ratings that were predicted.
        systems: Their predictions.
        results: A line per system.
        differences: The first system against each other one.
        people: How well the other people predict each rating; `None` where nobody shares a target.
        alpha: Krippendorff's ordinal α of the annotators.
        folds: Of the cross-validation; 1 where one side was held out.
        seed: Of the folds and the resampling.
        seen: Groups that are learned from and not tested on.
        groups: What splits keep together, and why.
        unmade: Evaluators that could not be made from what is there, with the reason.
        advice: Which evaluator to use, and why.
    """

    question: Question
    ratings: Ratings
    systems: Sequence[System]
    results: Sequence[Result]
    differences: Sequence[Difference]
    people: Result | None
    alpha: float | None
    folds: int
    seed: int
    seen: frozenset[str] = frozenset()
    groups: Groups | None = None
    unmade: Mapping[str, str] = field(default_factory=dict)
    advice: str | None = None

    def __getitem__(self, system: str) -> Result:
        try:
            return next(result for result in self.results if result.system == system)
        except StopIteration:
            raise UnknownName("system", system, (result.system for result in self.results)) from None

    def to_json(self) -> dict[str, Any]:
        """The whole table."""
        return {
            "question": self.question.id,
            "ratings": len(self.ratings),
            "conversations": len(set(self.ratings.conversation)),
            "annotators": len(set(self.ratings.annotator)),
            "folds": self.folds,
            "seed": self.seed,
            "seen": len(self.seen),
            "groups": None if self.groups is None else self.groups.to_json(),
            "unmade": dict(self.unmade),
            "advice": self.advice,
            "alpha": self.alpha,
            "rows": [result.to_json() for result in self.results],
            "people": None if self.people is None else self.people.to_json(),
            "differences": [difference.to_json() for difference in self.differences],
        }


def compare(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    methods: Sequence[str] = ("calibration",),
    folds: int = FOLDS,
    seed: int = 0,
    draws: int = DRAWS,
    factories: Mapping[str, Factory] | None = None,
    seen: Collection[str] = (),
) -> Comparison:
    """Cross-validate heads and baselines on one table of evidence, on the same folds of whole groups.

    Args:
        evidence: Features of everything that is rated.
        labels: All labels, with their groups; those on `question` are predicted.
        question: The main question.
        methods: Names of heads to set beside the baselines; the first is tested against all others.
        folds: Number of folds.
        seed: Of the folds, of the resampling, and of the random baseline.
        draws: Bootstrap samples and permutations.
        factories: How to make a method that needs settings, by its name.
        seen: Conversations whose labels shaped the evidence (a rubric was learned on them): they are learned from in
            every fold, and never tested on.

    Raises:
        BadInput: Too few rated conversations for the folds, or a label outside the scale.
    """
    rated, splits, shaped = folds_of(evidence, labels, question, folds, seed, seen)
    given = factories or {}
    own = [
        held_out(name, given.get(name) or _factory(name), question, evidence, labels, rated, splits) for name in methods
    ]
    others = baselines(evidence, labels, question, rated, splits, seed, without=methods)
    return compared(question, rated, [*own, *others], folds, seed, draws, shaped)


def _factory(name: str) -> Factory:
    """Makes the head of a name, or of the preset of a name."""
    preset = PRESETS.get(name)
    head, settings = (preset.head, preset.settings) if preset else (name, {})
    return lambda question: make_head(head, question, settings)


def folds_of(
    evidence: EvidenceTable, labels: Labels, question: Question, folds: int, seed: int, seen: Collection[str] = ()
) -> tuple[Ratings, list[Split], frozenset[str]]:
    """The ratings that are predicted, the folds of their groups, and the groups that are never tested.

    Raises:
        BadInput: Too few rated groups for the folds, nothing to test, or a label outside the scale.
    """
    everything = ratings(evidence, labels, question)
    if not len(everything):
        raise BadInput(
            f"no label on {question.id!r} has evidence; import labels, or gather evidence for what they rate"
        )
    was_seen = np.array([name in frozenset(seen) for name in everything.conversation], dtype=bool)
    shaped = frozenset(map(str, everything.group[was_seen]))
    rated = everything.take(np.flatnonzero([name not in shaped for name in everything.group]))
    if not len(rated):
        raise BadInput("every rated conversation was seen when the rubric was learned; label others to try it on")
    return rated, list(grouped_folds(list(rated.group), folds, seed, shaped)), shaped


def baselines(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    rated: Ratings,
    splits: Sequence[Split],
    seed: int = 0,
    without: Collection[str] = (),
) -> list[System]:
    """What any evaluator has to beat, as far as the evidence allows, on the same splits."""
    names = [name for name in _possible(evidence, question) if name not in without]
    make: dict[str, Factory] = {"random": partial(RandomDraw, random_state=seed)}
    return [
        held_out(name, make.get(name) or _factory(name), question, evidence, labels, rated, splits) for name in names
    ]


def compared(
    question: Question,
    rated: Ratings,
    systems: Sequence[System],
    folds: int,
    seed: int = 0,
    draws: int = DRAWS,
    seen: frozenset[str] = frozenset(),
) -> Comparison:
    """The table of some systems' predictions of the same ratings; the first is tested against all others."""
    clusters = Clusters(rated.group)
    return Comparison(
        question=question,
        ratings=rated,
        systems=systems,
        results=[result_of(system, rated, clusters, draws, seed) for system in systems],
        differences=differences_of(systems, rated, clusters, draws, seed),
        people=other_people(rated, draws, seed),
        alpha=people_alpha(rated),
        folds=folds,
        seed=seed,
        seen=seen,
    )


def compare_held_out(
    name: str,
    make: Factory,
    question: Question,
    evidence: EvidenceTable,
    labels: Labels,
    split: Split,
    rivals: Mapping[str, EvidenceTable] = MappingProxyType({}),
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """What learned on one side of a split, on the ratings of the other; the baselines and its rivals beside it.

    Args:
        name: Of what is compared.
        make: Learns from the evidence of the one side.
        question: Whose answers are predicted.
        evidence: Of both sides, each row as if it had not been seen.
        labels: What people said of both.
        split: The two sides.
        rivals: Other systems' answers about the other side, by name, taken as they are; one that is called like a
            baseline gets `name` before its own.
        draws: Of the intervals.
        seed: Of the draws.

    Raises:
        BadInput: Nothing that was held out is rated.
    """
    everything = ratings(evidence, labels, question)
    rated = everything.take(np.flatnonzero([group in split.test for group in everything.group]))
    if not len(rated):
        raise BadInput(f"nothing that was held out has a rating of {question.id!r}")
    systems = [held_out(name, make, question, evidence, labels, rated, [split])]
    systems += baselines(evidence, labels, question, rated, [split], seed, without=[name])
    rows = EvidenceTable.from_rows([], {target: {} for target in evidence.targets})
    taken = {system.name for system in systems}
    for rival, answers in rivals.items():
        called = f"{name}, {rival}" if rival in taken else rival  # a way to pick examples is called random, too
        systems.append(held_out(called, JudgeExpected, question, rows.join(answers), labels, rated, [split]))
    return compared(question, rated, systems, 1, seed, draws)


def _possible(evidence: EvidenceTable, question: Question) -> list[str]:
    """The baselines that have something to go by in this evidence."""
    columns = {column.name for column in evidence.columns}
    asked = any(column.question == question.id and column.option is not None for column in evidence.columns)
    is_mark = f"{ISSUE}{question.id.removeprefix(ISSUE)}" in columns  # more is worse: no score of turns says it
    turns = {"mean-turn": SCORE in columns and not is_mark, "lowest-turn": LOWEST_SCORE in columns and not is_mark}
    needed = {"label-free": PMI in columns, **turns}
    return [name for name in BASELINES if needed.get(name, asked or not name.startswith("judge-"))]


def result_of(system: System, rated: Ratings, clusters: Clusters, draws: int, seed: int) -> Result:
    """The statistics of one system with bootstrap intervals over conversations."""
    rows = np.flatnonzero(system.scored)
    paired = system.paired(rated).take(rows)
    shown = paired.in_ranges()
    own = clusters if len(rows) == len(rated) else Clusters(rated.group[rows])
    intervals = {name: bootstrap(own, statistic, [paired], draws, seed) for name, statistic in STATISTICS.items()}
    return Result(
        system=system.name,
        n=len(rows),
        unscored=len(rated) - len(rows),
        values=agreement.summary(paired),
        intervals=intervals,
        smece=agreement.smece_by_option(paired),
        smece_intervals=[
            bootstrap(own, agreement.smece_of(option), [shown], min(draws, SMECE_DRAWS), seed)
            for option in range(len(shown.options))
        ],
        reasons=system.reasons,
    )


def differences_of(
    systems: Sequence[System], rated: Ratings, clusters: Clusters, draws: int, seed: int
) -> list[Difference]:
    """The first system against each other one, on the rows that both scored; Holm over all of these tests."""
    first = systems[0]
    tests: list[tuple[str, str, PairedTest]] = []
    for other in systems[1:]:
        rows = np.flatnonzero(first.scored & other.scored)
        if not len(rows):
            continue
        ours, theirs = first.paired(rated).take(rows), other.paired(rated).take(rows)
        own = clusters if len(rows) == len(rated) else Clusters(rated.group[rows])
        for name in TESTED:
            statistic = STATISTICS[name]
            assert isinstance(statistic, MeanStatistic)
            test = paired_test(own, statistic, [ours], [theirs], draws, seed)
            if test is not None:
                tests.append((other.name, name, test))
    corrected = holm([test.p for _, _, test in tests])
    return [
        Difference(first.name, against, statistic, test, p)
        for (against, statistic, test), p in zip(tests, corrected, strict=True)
    ]


def is_better(difference: Difference) -> bool:
    """Whether the first system's statistic is the better one."""
    return (difference.test.difference < 0) == (difference.statistic in LOWER_IS_BETTER)


# --- people among themselves --------------------------------------------------------------------------------------


def other_people(rated: Ratings, draws: int, seed: int) -> Result | None:
    """How well the other annotators of the same target predict each rating.

    Each rating is predicted by the mean of the other people's ratings of its target, and its distribution by theirs
    with one rating's worth of everyone's habit (its own rating left out). A few noisy ratings are no ceiling where
    people differ by habit: an evaluator that knows the habits can pass it. `None` where nobody shares a target.
    """
    by_target: dict[Target, list[int]] = {}
    for row, target in enumerate(rated.target):
        by_target.setdefault(target, []).append(row)
    options = len(rated.options)
    everyone = np.bincount(rated.answer, minlength=options)
    probabilities, value, scored = (
        np.zeros((len(rated), options)),
        np.zeros(len(rated)),
        np.zeros(len(rated), dtype=bool),
    )
    annotator = rated.annotator
    for rows in by_target.values():
        for row in rows:
            others = [other for other in rows if annotator[other] != annotator[row]]
            if others:
                counts = np.bincount(rated.answer[others], minlength=options)
                rest = everyone - (np.arange(options) == rated.answer[row])
                probabilities[row] = (counts + rest / rest.sum()) / (len(others) + 1.0)
                value[row], scored[row] = rated.value[others].mean(), True
    if not scored.any():
        return None
    nobody, band = np.full(len(rated), np.nan), np.full((len(rated), 2), np.nan)
    system = System("other people", probabilities, value, nobody, scored, band)
    return result_of(system, rated, Clusters(rated.group), draws, seed)


def people_alpha(rated: Ratings) -> float | None:
    """Krippendorff's ordinal α of the annotators on the main question."""
    units: dict[Target, dict[str, float]] = {}
    for label, value in zip(rated.labels, rated.value, strict=True):
        unit = units.setdefault(label.target, {})
        again = sum(name.split("\0")[0] == label.annotator for name in unit)
        unit[f"{label.annotator}\0{again}"] = float(value)
    return agreement.krippendorff_alpha(list(units.values()))
