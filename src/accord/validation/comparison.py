"""Every method and baseline on the same labels and honest folds: one table, with intervals and paired tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable, Ratings, Tabular, comparison_table, ratings
from accord.learning import PMI, PRESETS, Factory, JudgeExpected, RandomDraw, System, held_out, make_head
from accord.methods import LOWEST_SCORE, SCORE
from accord.statistics import (
    DRAWS,
    FOLDS,
    LOWER_IS_BETTER,
    STATISTICS,
    Groups,
    MeanStatistic,
    PairedTest,
    Split,
    grouped_folds,
    holm,
    paired_test,
)
from accord.validation.metrics_table import CORRELATIONS, Leak, Result, Table, other_people, people_alpha
from accord.validation.recommendation import BEST_COLUMN, CONSTANT, JUDGE_ALONE, Decision
from accord.values import ISSUE, Labels, Question

BASELINES = (
    CONSTANT, "annotator-mean", "random", "label-free", BEST_COLUMN, "judge-argmax", JUDGE_ALONE, "mean-turn",
    "lowest-turn",
)  # fmt: skip
TESTED = ("rmse", "pearson", "log_loss")
Keep = Callable[[str, Any, Callable[[], System]], System]
"""Predictions by name and by what else they follow from: kept ones, or what the work gives."""
LinesBy = Callable[[Callable[[System], Result], Sequence[System]], list[Result]]
"""Makes the line of each system."""


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


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """What `compare` found: every system on the same ratings, the first tested against all others.

    Attributes:
        question: What is predicted.
        ratings: The ratings that were predicted.
        systems: Their predictions.
        results: A line per system, on the ratings that all of them scored (`Table.common`).
        differences: The first system against each other one.
        people: How well the other people predict each rating; `None` where nobody shares a target.
        alpha: Krippendorff's ordinal α of the annotators.
        folds: Of the cross-validation; 1 where one side was held out.
        seed: Of the folds and the resampling.
        seen: Groups that are learned from and not tested on.
        groups: What splits keep together, and why.
        unmade: Evaluators that could not be made from what is there, with the reason.
        decision: The evaluator to use, and whether the labels support it; `None` if none was asked for.
        common: How many ratings the lines are made from, where every system of them scored these.
        draws: Bootstrap samples and permutations.
        leak: What folds of single samples would have read, where groups join samples.
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
    decision: Decision | None = None
    common: int = 0
    draws: int = DRAWS
    leak: Leak | None = None
    synthetic: int = 0

    @property
    def remarks(self) -> list[str]:
        """Sentences that a reader of the table needs: on its rows, on probabilities worse than none, on leaks."""
        said = []
        if self.synthetic:
            count = len(set(self.ratings.conversation))
            said.append(f"{self.synthetic} of {count} rated conversations are synthetic: nobody held them")
        if self.common < len(self.ratings):
            said.append(
                f"compared on the {self.common} of {len(self.ratings)} ratings that every system scored; a system with "
                "a smaller n scored fewer of them, and paired tests take those that both scored"
            )
        said += [_no_better_than_shares(line, *self.worse_than_constant[line.system]) for line in self.results
                 if line.system in self.worse_than_constant]  # fmt: skip
        if self.leak is not None and self.leak.is_large:
            said.append(str(self.leak))
        return said

    @property
    def choices(self) -> list[str]:
        """A line per system that chose something inside the folds: the column of `best-column`, a judge's question."""
        lines = []
        for each in self.systems:
            chosen = [name if self.folds == 1 else f"{name} ({n} of {self.folds} folds)"
                      for name, n in sorted(each.choices.items(), key=lambda item: -item[1])]  # fmt: skip
            lines += [f"{each.name}: {', '.join(chosen)}"] if chosen else []
        return lines

    @property
    def worse_than_constant(self) -> dict[str, tuple[float, float]]:
        """Evaluators whose log loss is above the constant's on the same ratings, with both."""
        constant = next((line for line in self.results if line.system == BASELINES[0]), None)
        least = None if constant is None else constant.values["log_loss"]
        lines = [line for line in self.results if line.system not in BASELINES and line.n == (constant and constant.n)]
        losses = {line.system: line.values["log_loss"] for line in lines}
        return {} if least is None else {
            name: (loss, least) for name, loss in losses.items() if loss is not None and loss > least
        }  # fmt: skip

    def __getitem__(self, system: str) -> Result:
        try:
            return next(result for result in self.results if result.system == system)
        except StopIteration:
            raise UnknownName("system", system, (result.system for result in self.results)) from None

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per system, the best first."""
        return [result.to_json() for result in self.results]

    def summary(self) -> dict[str, Any]:
        """Return the question, the number of ratings and the best system."""
        best = self.results[0].system if self.results else None
        return {"question": self.question.id, "ratings": len(self.ratings), "systems": len(self.results), "best": best}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the statistics of each system with their intervals."""
        header, lines = comparison_table(self.records())
        return [dict(zip(header, line, strict=True)) for line in lines]

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
            "decision": None if self.decision is None else self.decision.to_json(),
            "common": self.common,
            "draws": self.draws,
            "leak": None if self.leak is None else self.leak.to_json(),
            "choices": self.choices,
            "remarks": self.remarks,
            "alpha": self.alpha,
            "rows": self.records(),
            "people": None if self.people is None else self.people.to_json(),
            "differences": [difference.to_json() for difference in self.differences],
        }


def _no_better_than_shares(line: Result, loss: float, least: float) -> str:
    return (
        f"{line.system}: log loss {loss:.3f} is worse than the constant's {least:.3f}: its probabilities say less than "
        "how often each answer was given"
    )


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
    always = always_learned(evidence, labels, question, shaped)
    return rated, list(grouped_folds(list(rated.group), folds, seed, always)), shaped


def always_learned(
    evidence: EvidenceTable, labels: Labels, question: Question, shaped: Collection[str]
) -> frozenset[str]:
    """The groups that are never tested: those of `shaped`, and those that nobody rated on the question."""
    rated = {labels.group_of(target) for target in labels.on(question.id).targets}
    return frozenset(shaped) | ({labels.group_of(target) for target in evidence.targets} - rated)


def baselines(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    rated: Ratings,
    splits: Sequence[Split],
    seed: int = 0,
    without: Collection[str] = (),
    keep: Keep = lambda name, about, work: work(),
) -> list[System]:
    """What any evaluator has to beat, as far as the evidence allows, on the same splits."""
    names = [name for name in _possible(evidence, question) if name not in without]
    make: dict[str, Factory] = {"random": partial(RandomDraw, random_state=seed)}

    def predicted(name: str) -> System:
        return held_out(name, make.get(name) or _factory(name), question, evidence, labels, rated, splits)

    return [keep(name, ["baseline", name, seed], partial(predicted, name)) for name in names]


def one_by_one(make: Callable[[System], Result], systems: Sequence[System]) -> list[Result]:
    """The line of each system."""
    return [make(system) for system in systems]


def compared(
    question: Question,
    rated: Ratings,
    systems: Sequence[System],
    folds: int,
    seed: int = 0,
    draws: int = DRAWS,
    seen: frozenset[str] = frozenset(),
    speakers: NDArray[np.object_] | None = None,
    lines_by: LinesBy = one_by_one,
) -> Comparison:
    """The table of some systems' predictions of the same ratings; the first is tested against all others.

    `speakers` (n,) says which system each rating is about, for agreement within systems; `lines_by` makes the lines,
    perhaps several at the same time.
    """
    table = Table(rated, folds, seed, draws, speakers)
    common = table.common(systems)
    people = other_people(rated)
    lines = lines_by(partial(table.line, among=common), [*systems, *([] if people is None else [people])])
    return Comparison(
        question=question,
        ratings=rated,
        systems=systems,
        results=lines[: len(systems)],
        differences=differences_of(systems, table, common),
        people=None if people is None else lines[-1],
        alpha=people_alpha(rated),
        folds=folds,
        seed=seed,
        seen=seen,
        common=int(common.sum()),
        draws=draws,
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
    speakers_of: Callable[[Ratings], NDArray[np.object_] | None] = lambda rated: None,
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
        speakers_of: Which system each of some ratings is about.

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
    return compared(question, rated, systems, 1, seed, draws, speakers=speakers_of(rated))


def _possible(evidence: EvidenceTable, question: Question) -> list[str]:
    """The baselines that have something to go by in this evidence."""
    columns = {column.name for column in evidence.columns}
    judged = {column.question for column in evidence.columns if column.option is not None}
    asked = question.id in judged if question.compares else bool(judged)
    is_mark = f"{ISSUE}{question.id.removeprefix(ISSUE)}" in columns  # more is worse: no score of turns says it
    turns = {"mean-turn": SCORE in columns and not is_mark, "lowest-turn": LOWEST_SCORE in columns and not is_mark}
    has_columns = bool(columns) and not question.compares
    needed = {"label-free": PMI in columns, BEST_COLUMN: has_columns, **turns}
    return [name for name in BASELINES if needed.get(name, asked or not name.startswith("judge-"))]


def differences_of(
    systems: Sequence[System], table: Table, common: NDArray[np.bool_] | None = None
) -> list[Difference]:
    """The first system against each other one, on the common rows that both scored; Holm over all of these tests.

    Correlations are not tested where one of the two predicts the same for everything in a fold.
    """
    first, rated = systems[0], table.rated
    tests: list[tuple[str, str, PairedTest]] = []
    for other in systems[1:]:
        both = first.scored & other.scored
        rows = np.flatnonzero(both if common is None else both & common)
        if not len(rows):
            continue
        ours, theirs = first.paired(rated).take(rows), other.paired(rated).take(rows)
        clusters = table.clusters(rows)
        constant = not (table.moves(first, rows) and table.moves(other, rows))
        for name in TESTED:
            if constant and name in CORRELATIONS:
                continue
            statistic = STATISTICS[name]
            assert isinstance(statistic, MeanStatistic)
            test = paired_test(clusters, statistic, [ours], [theirs], table.draws, table.seed)
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
