"""Comparison of evaluators and baselines on the same labels and folds: a table with intervals and paired tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import UnknownName
from accord.evidence import EvidenceTable, Ratings, Tabular, comparison_table
from accord.learning import (
    PMI,
    PRESETS,
    SIMPLE_HEADS,
    Experiment,
    Factory,
    FoldPlan,
    Head,
    JudgeExpected,
    Planned,
    Predictions,
    RandomDraw,
    heads,
    judge_panel,
    make_head,
)
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
    holm,
    paired_test,
)
from accord.validation.metrics_table import (
    CORRELATIONS,
    EvaluatorMetrics,
    Leak,
    MetricsTable,
    Repeats,
    other_people,
    people_alpha,
)
from accord.values import ISSUE, Labels, Question

CONSTANT, JUDGE_ALONE, BEST_COLUMN = "constant", "judge-expected", "best-column"
BASELINES = (
    CONSTANT, "annotator-mean", "random", "label-free", BEST_COLUMN, "judge-argmax", JUDGE_ALONE,
    *judge_panel.PANEL, "mean-turn", "lowest-turn",
)  # fmt: skip
TESTED = ("rmse", "pearson", "log_loss")
MapSystems = Callable[[Callable[[Repeats], EvaluatorMetrics], Sequence[Repeats]], list[EvaluatorMetrics]]
"""Function that computes the metrics of each evaluator, possibly in several processes."""


@dataclass(frozen=True)
class EvaluatorDifference:
    """Paired test of the first evaluator against another on one statistic.

    Attributes:
        evaluator: Name of the first evaluator.
        against: Name of the other one.
        statistic: Name of the statistic.
        test: The test; its difference is the first evaluator's statistic minus the other's.
        p_holm: p of the test, corrected by Holm's method.
    """

    evaluator: str
    against: str
    statistic: str
    test: PairedTest
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """Return a flat row."""
        test = self.test
        return {
            "evaluator": self.evaluator,
            "against": self.against,
            "statistic": self.statistic,
            "difference": test.difference,
            "difference_low": test.low,
            "difference_high": test.high,
            "p": test.p,
            "p_holm": self.p_holm,
        }


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """Metrics of several evaluators on the same ratings, with tests of the first one against each other one.

    Attributes:
        question: Question that is predicted.
        ratings: Ratings that were predicted.
        systems: Predictions of each evaluator.
        results: Metrics of each evaluator, on the ratings that every evaluator scored (`MetricsTable.common`).
        differences: Tests of the first evaluator against each other one.
        people: Metrics of the other annotators as predictors of each rating, or `None` if no target has two annotators.
        alpha: Krippendorff's ordinal α of the annotators.
        folds: Number of folds; 1 if one side was held out.
        seed: Random seed of the folds and the resampling.
        seen: Groups that are learned from and not tested.
        groups: Groups that splits keep together, with the reasons.
        unmade: Evaluators that could not be built, with the reason.
        common: Number of ratings that the results are computed from.
        draws: Number of bootstrap samples and permutations.
        leak: Metrics under folds of single samples, if groups join samples.
        synthetic: Number of rated synthetic conversations.
        others: Predictions of some evaluators in further repetitions of the cross-validation, by name.

    >>> from accord.testing import planted
    >>> corpus = planted(conversations=40, annotators=3)
    >>> table = compare(corpus.evidence, corpus.labels, corpus.question, ["ridge"], folds=2, draws=20)
    >>> table.question.id, table.folds, table.to_polars()["evaluator"][0]
    ('main', 2, 'ridge')
    """

    question: Question
    ratings: Ratings
    systems: Sequence[Predictions]
    results: Sequence[EvaluatorMetrics]
    differences: Sequence[EvaluatorDifference]
    people: EvaluatorMetrics | None
    alpha: float | None
    folds: int
    seed: int
    seen: frozenset[str] = frozenset()
    groups: Groups | None = None
    unmade: Mapping[str, str] = field(default_factory=dict)
    common: int = 0
    draws: int = DRAWS
    leak: Leak | None = None
    synthetic: int = 0
    others: Mapping[str, Repeats] = field(default_factory=dict)

    def repeats(self, system: str) -> list[Predictions]:
        """Return an evaluator's predictions in each repetition of the cross-validation.

        Raises:
            UnknownName: There is no such evaluator.
        """
        first = next((each for each in self.systems if each.name == system), None)
        if first is None:
            raise UnknownName("evaluator", system, (each.name for each in self.systems))
        return [first, *self.others.get(system, ())]

    @property
    def remarks(self) -> list[str]:
        """Sentences on synthetic conversations, left-out ratings, useless probabilities and leaks."""
        remarks = []
        if self.synthetic:
            count = len(set(self.ratings.conversation))
            remarks.append(f"{self.synthetic} of {count} rated conversations are synthetic")
        if self.common < len(self.ratings):
            remarks.append(
                f"compared on the {self.common} of {len(self.ratings)} ratings that every evaluator scored; one with "
                "a smaller n scored only a part of these, and paired tests use the ratings that both scored"
            )
        remarks += [
            f"{row.evaluator}: log loss {loss:.3f} is worse than the constant's {constant:.3f}: its probabilities are "
            "less informative than the frequency of each answer"
            for row in self.results
            if row.evaluator in self.worse_than_constant
            for loss, constant in [self.worse_than_constant[row.evaluator]]
        ]
        if self.leak is not None and self.leak.is_large:
            remarks.append(str(self.leak))
        return remarks

    @property
    def choices(self) -> list[str]:
        """Lines on evaluators that chose something inside the folds, such as the column of `best-column`."""
        lines = []
        for system in self.systems:
            chosen = [
                name if self.folds == 1 else f"{name} ({count} of {self.folds} folds)"
                for name, count in sorted(system.choices.items(), key=lambda item: -item[1])
            ]
            lines += [f"{system.name}: {', '.join(chosen)}"] if chosen else []
        return lines

    @property
    def worse_than_constant(self) -> dict[str, tuple[float, float]]:
        """Log losses of evaluators that are worse than the constant on the same ratings, each with the constant's."""
        constant = next((row for row in self.results if row.evaluator == CONSTANT), None)
        least = None if constant is None else constant.values["log_loss"]
        if constant is None or least is None:
            return {}
        losses = {
            row.evaluator: row.values["log_loss"]
            for row in self.results
            if row.evaluator not in BASELINES and row.n == constant.n
        }
        return {name: (loss, least) for name, loss in losses.items() if loss is not None and loss > least}

    def __getitem__(self, system: str) -> EvaluatorMetrics:
        try:
            return next(result for result in self.results if result.evaluator == system)
        except StopIteration:
            raise UnknownName("evaluator", system, (result.evaluator for result in self.results)) from None

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per evaluator, the best first."""
        return [result.to_json() for result in self.results]

    def summary(self) -> dict[str, Any]:
        """Return the question, the number of ratings and the best evaluator."""
        best = self.results[0].evaluator if self.results else None
        counts = {"ratings": len(self.ratings), "evaluators": len(self.results)}
        return {"question": self.question.id, **counts, "best": best}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the statistics of each evaluator with their intervals."""
        header, rows = comparison_table(self.records())
        return [dict(zip(header, row, strict=True)) for row in rows]

    def to_json(self) -> dict[str, Any]:
        """Return the whole table."""
        return {
            "question": self.question.id,
            "question_name": self.question.shown,
            "ratings": len(self.ratings),
            "conversations": len(set(self.ratings.conversation)),
            "annotators": len(set(self.ratings.annotator)),
            "folds": self.folds,
            "repeats": len(self.repeats(self.systems[0].name)) if self.systems else 1,
            "seed": self.seed,
            "seen": len(self.seen),
            "groups": None if self.groups is None else self.groups.to_json(),
            "unmade": dict(self.unmade),
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


def compare(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    methods: Sequence[str] = ("default",),
    folds: int = FOLDS,
    seed: int = 0,
    draws: int = DRAWS,
    factories: Mapping[str, Factory] | None = None,
    seen: Collection[str] = (),
) -> Comparison:
    """Cross-validate heads and baselines on one table of evidence, on the same folds of groups.

    Args:
        evidence: Evidence of all rated targets.
        labels: All labels, with their groups; those on `question` are predicted.
        question: Main question.
        methods: Names of heads or presets; the first one is tested against all others.
        folds: Number of folds.
        seed: Random seed of the folds, of the resampling, and of the random baseline.
        draws: Number of bootstrap samples and permutations.
        factories: Makers of methods that need settings, by name.
        seen: Conversations whose labels shaped the evidence (a rubric was learned on them); they are learned from in
            every fold and never tested.

    Raises:
        BadInput: Too few rated conversations for the folds, or a label outside the scale.

    >>> from accord.testing import planted
    >>> corpus = planted(conversations=40, annotators=3)
    >>> table = compare(corpus.evidence, corpus.labels, corpus.question, ["ridge"], folds=2, draws=20)
    >>> table["ridge"].estimates["pearson"].value > 0.3
    True
    """
    experiment = Experiment.of(evidence, labels, question, folds, seed, seen)
    given = factories or {}
    systems = [Planned(name, given.get(name) or _factory(name), experiment) for name in methods]
    return compared(experiment, FoldPlan([*systems, *baselines(experiment, without=methods)]).run(), draws)


def _factory(name: str) -> Factory:
    """Return a maker of the head, or of the preset's head, with this name."""
    preset = PRESETS.get(name)
    head, settings = (preset.head, preset.settings) if preset else (name, {})
    return partial(_made, head, settings)


def _made(head: str, settings: Mapping[str, Any], question: Question) -> Head:
    return make_head(head, question, settings)


def baselines(experiment: Experiment, without: Collection[str] = (), with_models: bool = False) -> list[Planned]:
    """Return the baselines that the evidence allows, `with_models` also simple answer models, to be predicted."""
    possible = _possible(experiment.evidence, experiment.question)
    if with_models and BEST_COLUMN in possible:
        is_judged = JUDGE_ALONE in possible
        possible += [name for name in SIMPLE_HEADS if is_judged or "judge" not in name]
    made: dict[str, Factory] = {"random": partial(RandomDraw, random_state=experiment.seed)}
    return [
        Planned(name, made.get(name) or _factory(name), experiment, ["baseline", name, experiment.seed])
        for name in possible
        if name not in without
    ]


def _one_by_one(metrics: Callable[[Repeats], EvaluatorMetrics], systems: Sequence[Repeats]) -> list[EvaluatorMetrics]:
    return [metrics(system) for system in systems]


def compared(
    experiment: Experiment,
    systems: Sequence[Predictions],
    draws: int = DRAWS,
    speakers: NDArray[np.object_] | None = None,
    map_systems: MapSystems = _one_by_one,
    others: Mapping[str, Repeats] = MappingProxyType({}),
) -> Comparison:
    """Return the table of systems that predicted the same experiment; the first one is tested against all others.

    Args:
        experiment: Ratings and folds.
        systems: Predictions of each evaluator.
        draws: Number of bootstrap samples and permutations.
        speakers: (n,) chat system that each rating is about, for agreement within systems.
        map_systems: Computes the metrics of each evaluator, possibly in several processes.
        others: Predictions of some evaluators in further repetitions of the cross-validation, by name.
    """
    rated = experiment.ratings
    table = MetricsTable(rated, experiment.folds, experiment.seed, draws, speakers)
    common = table.common(systems)
    people = other_people(rated)
    repeats = [[system, *others.get(system.name, ())] for system in systems]
    rows = map_systems(partial(table.row, among=common), [*repeats, *([] if people is None else [[people]])])
    return Comparison(
        question=experiment.question,
        ratings=rated,
        systems=systems,
        results=rows[: len(systems)],
        differences=differences_of(repeats, table, common),
        people=None if people is None else rows[-1],
        alpha=people_alpha(rated),
        folds=experiment.folds,
        seed=experiment.seed,
        seen=experiment.always_train,
        common=int(common.sum()),
        draws=draws,
        others=others,
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
    """Compare a system that learns on one side of a split with baselines and rivals, on the ratings of the other side.

    Args:
        name: Name of the system.
        make: Returns the unfitted system.
        question: Question to predict.
        evidence: Evidence of both sides, each row as if its labels had not been seen.
        labels: Labels of both sides.
        split: The two sides.
        rivals: Answers of other systems about the test side by name, used as they are; a rival with the name of a
            baseline gets `name` as a prefix.
        draws: Number of bootstrap samples.
        seed: Random seed of the draws.
        speakers_of: Returns the chat system that each of some ratings is about.

    Raises:
        BadInput: No held-out target is rated.
    """
    experiment = Experiment.on_split(evidence, labels, question, split, seed)
    systems = FoldPlan([Planned(name, make, experiment), *baselines(experiment, without=[name])]).run()
    empty = EvidenceTable.from_rows([], {target: {} for target in evidence.targets})
    taken = {system.name for system in systems}
    for rival, answers in rivals.items():
        # A selector of examples may be named like a baseline, such as `random`.
        rival_name = f"{name}, {rival}" if rival in taken else rival
        answered = Experiment.on_split(empty.join(answers), labels, question, split, seed)
        systems.append(answered.run(rival_name, JudgeExpected))
    return compared(experiment, systems, draws, speakers_of(experiment.ratings))


def _possible(evidence: EvidenceTable, question: Question) -> list[str]:
    """Return the names of the baselines that this evidence allows."""
    columns = {column.name for column in evidence.columns}
    judged = {column.question for column in evidence.columns if column.option is not None}
    is_judged = question.id in judged if question.compares else bool(judged)
    # A higher issue label is worse and a higher turn score is better, so turn scores do not predict issues.
    is_issue = f"{ISSUE}{question.id.removeprefix(ISSUE)}" in columns
    turns = {"mean-turn": SCORE in columns and not is_issue, "lowest-turn": LOWEST_SCORE in columns and not is_issue}
    has_columns = bool(columns) and not question.compares
    judges = 0 if question.compares else len(judge_panel.judges_of(evidence.expected().columns, question.id))
    allowed = {"label-free": PMI in columns and "label-free" in heads, BEST_COLUMN: has_columns, **turns}
    allowed |= dict.fromkeys(judge_panel.PANEL, judges > 1)
    return [name for name in BASELINES if allowed.get(name, is_judged or not name.startswith("judge-"))]


def differences_of(
    systems: Sequence[Repeats], table: MetricsTable, common: NDArray[np.bool_] | None = None
) -> list[EvaluatorDifference]:
    """Test the first system against each other one on the common ratings that both scored; Holm over all tests.

    Differences are averaged over the repetitions that both systems have. Correlations are not tested if one of the two
    systems predicts a constant in each fold.
    """
    rated, [first, *_] = table.rated, systems[0]
    tests: list[tuple[str, str, PairedTest]] = []
    for repeats in systems[1:]:
        other, pairs = repeats[0], list(zip(systems[0], repeats, strict=False))
        both = np.logical_and.reduce([each.scored for pair in pairs for each in pair])
        rows = np.flatnonzero(both if common is None else both & common)
        if not len(rows):
            continue
        ours, theirs = ([each.paired(rated).take(rows) for each in side] for side in zip(*pairs, strict=True))
        clusters = table.clusters(rows)
        is_constant = not (table.varies(first, rows) and table.varies(other, rows))
        for name in TESTED:
            if is_constant and name in CORRELATIONS:
                continue
            statistic = STATISTICS[name]
            assert isinstance(statistic, MeanStatistic)
            test = paired_test(clusters, statistic, ours, theirs, table.draws, table.seed)
            if test is not None:
                tests.append((other.name, name, test))
    corrected = holm([test.p for _, _, test in tests])
    return [
        EvaluatorDifference(first.name, against, statistic, test, p)
        for (against, statistic, test), p in zip(tests, corrected, strict=True)
    ]


def is_better(difference: EvaluatorDifference) -> bool:
    """Return True if the first evaluator's statistic is the better one."""
    return (difference.test.difference < 0) == (difference.statistic in LOWER_IS_BETTER)
