"""Test of an evaluator on pairwise preferences: do its scores order conversations as people do?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.edges import count_of
from accord.evidence import EvidenceTable, Ratings, connected
from accord.formats import PREFERENCE
from accord.learning import Evaluator, Predictions
from accord.statistics import groups_of, mean_on_scale
from accord.values import Estimate, Labels, Rubric, Sample, Score, Target

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

Pair = tuple[Target, Target]


@dataclass(frozen=True)
class PairTest:
    """Agreement of an evaluator's scores with people's preferences.

    Attributes:
        question: Question of the preferences.
        evaluator: Name of the evaluator.
        pairs: Number of pairs in which people prefer one side, with scores of both.
        ties: Number of pairs in which people prefer neither.
        unscored: Number of pairs that are left out: a side has no score, or a group of samples holds it and training
            data.
        agreement: Share of the pairs whose scores order as people do; equal scores count half.
    """

    question: str
    evaluator: str
    pairs: int
    ties: int
    unscored: int
    agreement: Estimate

    def __str__(self) -> str:
        left = [count_of(self.ties, "tie")] if self.ties else []
        left += [f"{count_of(self.unscored, 'pair')} without held-out scores"] if self.unscored else []
        out = f" (left out: {', '.join(left)})" if left else ""
        if not self.pairs:
            return f"pairs ({self.question}): none can be tested{out}"
        count = count_of(self.pairs, "pair")
        return (
            f"pairs ({self.question}): scores of {self.evaluator} order {self.agreement} of {count} as people do{out}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields and the sentence."""
        return {**vars(self), "agreement": self.agreement.to_json(), "text": str(self)}


def preferences_of(rubric: Rubric, labels: Labels) -> dict[str, dict[Pair, float]]:
    """Return people's mean preference for each pair by question: above 0 for the first side, below 0 for the second."""
    asked = {question.id: question for question in rubric.questions if question.compares}
    said: dict[str, dict[Pair, list[float]]] = {}
    for label in labels:
        if label.against is None or not isinstance(label.value, int | float):
            continue
        question = asked.get(label.question)
        if question is None and label.question != PREFERENCE:
            continue
        numbers = (-1.0, 1.0) if question is None else (question.scale.numbers[0], question.scale.numbers[-1])
        centered = label.value - (numbers[0] + numbers[1]) / 2
        pair, sign = (label.target, label.against), 1.0
        if (label.against, label.target) in said.get(label.question, {}):
            pair, sign = (label.against, label.target), -1.0
        said.setdefault(label.question, {}).setdefault(pair, []).append(sign * centered)
    return {name: {pair: float(np.mean(values)) for pair, values in pairs.items()} for name, pairs in said.items()}


def pair_tests(
    project: Workspace, evaluator: Evaluator, fitted: Evaluator, rated: Ratings, predictions: Sequence[Predictions],
    samples: Sequence[Sample],
) -> list[PairTest]:  # fmt: skip
    """Test an evaluator on the pairs of each comparing question.

    The score of a rated conversation is its held-out prediction for a new annotator. Other conversations are scored by
    the evaluator that learned from all ratings, unless a group joins them with a rated one.

    Args:
        project: The project, with its labels and stored answers of models.
        evaluator: The evaluator.
        fitted: The evaluator, fitted on all ratings.
        rated: Ratings that were predicted.
        predictions: Held-out predictions of the ratings in each repetition.
        samples: Rated samples.
    """
    by_question = preferences_of(project.rubric, project.store.labels())
    if not by_question:
        return []
    scores = _held_out(rated, predictions)
    wanted = {target for pairs in by_question.values() for pair in pairs for target in pair}
    others = project.samples(sorted(wanted - scores.keys(), key=str))
    known = {sample.target for sample in samples}
    groups = groups_of([*samples, *(each for each in others if each.target not in known)], project.config.group_by).of
    trained = {_group(target, groups) for target in known}
    free = [each for each in others if each.target not in known and _group(each.target, groups) not in trained]
    if free:
        table = project.measure(fitted.sources, free)
        for sample, score in zip(free, _scores(fitted, table, len(free)), strict=True):
            if score is not None:
                scores[sample.target] = score
    return [agreement_on_pairs(name, evaluator.name, pairs, scores, groups) for name, pairs in by_question.items()]


def _scores(fitted: Evaluator, table: EvidenceTable, count: int) -> list[float | None]:
    found = fitted.head.predict_each(table, [None] * count)
    return [each.value if isinstance(each, Score) else None for each in found]


def _held_out(rated: Ratings, predictions: Sequence[Predictions]) -> dict[Target, float]:
    """Return the mean held-out prediction for a new annotator of each rated target."""
    found: dict[Target, list[float]] = {}
    for each in predictions:
        for label, value, is_scored in zip(rated.labels, each.new_value.tolist(), each.scored, strict=True):
            if is_scored and np.isfinite(value):
                found.setdefault(label.target, []).append(value)
    return {target: float(np.mean(values)) for target, values in found.items()}


def _group(target: Target, groups: Mapping[Target, str]) -> str:
    return groups.get(target, target.conversation)


def agreement_on_pairs(
    name: str, evaluator: str, pairs: Mapping[Pair, float], scores: Mapping[Target, float], groups: Mapping[Target, str]
) -> PairTest:
    """Return the test of a question's pairs: people's mean preference of each, the scores, and groups of targets."""
    decided = {pair: value for pair, value in pairs.items() if value != 0}
    tested = [pair for pair in decided if scores.keys() >= set(pair)]
    ends = [(_group(first, groups), _group(second, groups)) for first, second in tested]
    agreement = Estimate()
    if tested:
        joined = connected(ends)
        order = [np.sign(scores[first] - scores[second]) * np.sign(decided[first, second]) for first, second in tested]
        agreement = mean_on_scale((1 + np.array(order)) / 2, [str(joined[first]) for first, _ in ends], (0, 1), True)
    return PairTest(name, evaluator, len(tested), len(pairs) - len(decided), len(decided) - len(tested), agreement)
