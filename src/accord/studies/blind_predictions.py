"""Predict, rate, reveal: what an evaluator expects of a person is kept before the answer, and held against it after.

Each answer is thereby a test on something that the evaluator has not learned from. How well it does is told by
intervals that hold however often one looks (`accord.statistics.mean_sequence`), with one value per conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.learning import Evaluator
from accord.models import run
from accord.scoring import Perspective, Scorer
from accord.statistics import STATISTICS, Clusters, Paired, bootstrap_all, mean_sequence
from accord.store import Assignment, Item, Prediction, now
from accord.studies.annotator_agreement import CountedEstimate, code_of
from accord.studies.item_order import is_random
from accord.studies.study_session import OpenStudy
from accord.values import INTERVAL_MASS, Annotation, Estimate, Question, Score, central_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Expectations:
    """An evaluator with the evidence of a study's items: what it expects of a person takes no request and no model.

    Attributes:
        study: Of which.
        evaluator: That has learned.
        named: Its name and digest, as predictions carry them.
        evidence: A row per item that is rated.
    """

    study: OpenStudy
    evaluator: Evaluator
    named: str
    evidence: EvidenceTable
    _seen: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def of(cls, study: OpenStudy, evaluator: Evaluator) -> Expectations:
        """Gather what the store holds of the study's items; nobody is asked.

        Raises:
            BadInput: The evaluator does not predict what the study asks.
        """
        question, level = evaluator.question.id, study.settings.level
        asked = {
            name
            for stage in study.settings.stages
            for name in stage.questions or [q.id for q in study.rubric.questions]
        }
        if question not in asked:
            raise BadInput(f"the evaluator predicts {question!r}, which this study does not ask")
        if level != (evaluator.level or level) or level == "pair":
            raise BadInput(f"the evaluator scores a {evaluator.level}, this study rates a {level}")
        targets = dict.fromkeys(item.target for item in study.studies.items(study.name))
        evidence = study.project.measure(evaluator.sources, study.project.samples(targets))
        return cls(study, evaluator, f"{evaluator.name} {evaluator.digest()}", evidence)

    def expected(self, item: Item, person: str) -> Prediction | None:
        """What this person is expected to answer; `None` where nothing is known of the item."""
        [row] = self.evidence.rows_of([item.target])
        if row < 0 or not self.evidence.present[row].any():
            return None
        speaker = person if person in self.evaluator.annotators else None
        scorer = Scorer(self.evaluator, Perspective(speaker))
        flow = scorer.score(self.study.project.samples([item.target]), self.evidence.take([int(row)]))
        [score] = run(flow, self.study.project.stored_models)
        if not isinstance(score, Score):
            return None
        return Prediction(item.key, person, self.evaluator.question.id, self.named, score.distribution, now())

    def keep(self, assignment: Assignment) -> None:
        """Keep what is expected before the answer; where somebody answered already, nothing."""
        studies, question = self.study.studies, self.evaluator.question.id
        if assignment.id in self._seen:  # its page is loaded again
            return
        self._seen.add(assignment.id)
        if any(each.question == question for each in studies.said_in(assignment)):
            return
        found = self.expected(assignment.item, assignment.person)
        if found is not None:
            studies.add_predictions([found])


# --- held against the answers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tested:
    """Answers beside what was expected of them, in the order of the answers.

    Attributes:
        evaluator: Which one expected: the one that did so last, and no other.
        question: Of which answers.
        paired: n answers and predictions.
        conversation: (n,) of which each is.
        counted: Conversations that nothing more is asked of, in the order in which they were complete.
        usual: (n,) each person's mean of their earlier answers, beside which the evaluator has to be better.
        without: Answers that nothing was expected of.
    """

    evaluator: str
    question: Question
    paired: Paired
    conversation: Sequence[str]
    counted: Sequence[str]
    usual: Floats
    without: int

    @property
    def range(self) -> float:
        """How long the scale is."""
        return float(np.ptp(self.paired.options))

    def by_conversation(self, values: Floats) -> Floats:
        """(C,) means of the complete conversations, in their order."""
        names = np.array(self.conversation)
        return np.array([values[names == name].mean() for name in self.counted])

    def figures(self) -> dict[str, CountedEstimate]:
        """Agreement with intervals.

        `rmse`, `covered` (share of answers in the central 80 % of what was expected) and `gain` (absolute error of the
        person's own mean less the evaluator's, in shares of the scale) have intervals that hold at
        every look, over complete conversations; `pearson` has the usual one, by bootstrap of conversations.
        """
        n, paired = len(self.paired), self.paired
        if not n:
            return {}
        squared = (paired.truth - paired.value) ** 2
        inside = np.array([_inside(paired, row) for row in range(n)])
        ahead = (np.abs(paired.truth - self.usual) - np.abs(paired.truth - paired.value)) / self.range
        r = bootstrap_all(Clusters(list(self.conversation)), {"r": STATISTICS["pearson"]}, [paired])["r"]
        rmse = mean_sequence(self.by_conversation(squared), 0, self.range**2)
        root = Estimate(
            float(np.sqrt(squared.mean())),
            *(None if end is None else float(np.sqrt(end)) for end in (rmse.low, rmse.high)),
        )
        found = {
            "rmse": (float(np.sqrt(squared.mean())), root),
            "covered": (float(inside.mean()), mean_sequence(self.by_conversation(inside), 0, 1)),
            "gain": (float(ahead.mean()), mean_sequence(self.by_conversation(ahead), -1, 1)),
            "pearson": (STATISTICS["pearson"](paired), r),
        }
        return {name: CountedEstimate(value, ends.low, ends.high, n) for name, (value, ends) in found.items()}


def _inside(paired: Paired, row: int) -> float:
    low, high = central_interval(paired.options, paired.probabilities[row], INTERVAL_MASS)
    return float(low <= paired.truth[row] <= high)


def better_than_usual(gain: CountedEstimate) -> str:
    """What may be said of the evaluator beside each person's own mean."""
    if gain.low is not None and gain.low > 0:
        return "the evaluator is better than each person's mean"
    if gain.high is not None and gain.high < 0:
        return "the evaluator is worse than each person's mean"
    return "the evaluator is not yet better than each person's mean"


def held_against(study: OpenStudy) -> Tested | None:
    """The answers of the first round that something was expected of; `None` without any.

    Of a person's answers to an item the first one counts: a later one may have seen the prediction. In the informative
    order only the items that were drawn at random count, since the others are like nothing else.
    """
    predictions = study.studies.predictions(study.name)
    if not predictions:
        return None
    last = predictions[-1]
    question = study.rubric[last.question]
    items = {
        (item.target, item.against): item
        for item in study.studies.items(study.name, 1)
        if item.kind != "repeat" and is_random(study.settings, item)
    }
    expected = {(each.item, each.person): each for each in predictions if each.evaluator == last.evaluator}
    first = study.studies.answers(study.name, first=True, question=question.id)
    said = [each for each in first if each.study == study.name and each.value is not None]
    own = [(each, items[each.target, each.against]) for each in said if (each.target, each.against) in items]
    rows = [(each, expected[item.key, each.by]) for each, item in own if (item.key, each.by) in expected]
    known = {(each.item, each.person) for each in predictions}
    return Tested(
        last.evaluator, question, _paired(question, rows), [each.target.conversation for each, _ in rows],
        _complete(study, own, {each.target.conversation for each, _ in rows}), _usual(question, said, rows),
        sum((item.key, each.by) not in known for each, item in own),
    )  # fmt: skip


def _paired(question: Question, rows: Sequence[tuple[Annotation, Prediction]]) -> Paired:
    options = np.array(question.scale.numbers)
    shares = np.zeros((len(rows), len(options)))
    for row, (_, found) in enumerate(rows):
        for option, chance in found.distribution.items():
            shares[row, int(np.abs(options - float(option)).argmin())] += chance
    answer = np.array([code_of(question, each.value) for each, _ in rows], dtype=np.intp)  # type: ignore[arg-type]
    return Paired(options, answer, shares, shares @ options)


def _complete(study: OpenStudy, own: Sequence[tuple[Annotation, Item]], tested: set[str]) -> list[str]:
    """Conversations whose items have all their answers, by the time of the last one."""
    left: dict[str, int] = {}
    for item in study.studies.items(study.name, 1):
        if item.kind != "repeat" and is_random(study.settings, item):
            name = item.target.conversation
            left[name] = left.get(name, 0) + study.settings.annotators_per_item
    found = []
    for each, _ in own:
        name = each.target.conversation
        left[name] -= 1
        if left[name] == 0 and name in tested:
            found.append(name)
    return found


def _usual(question: Question, said: Sequence[Annotation], rows: Sequence[tuple[Annotation, Any]]) -> Floats:
    """Each person's mean before each answer; everybody's before the first, and before that the middle of the scale."""
    options, wanted = question.scale.numbers, {each.answer for each, _ in rows}
    sums: dict[str, tuple[float, int]] = {}
    found = []
    for each in said:
        value = options[code_of(question, each.value)]  # type: ignore[arg-type]
        if each.answer in wanted:
            everybody = tuple(map(sum, zip(*sums.values(), strict=True))) if sums else (0.0, 0)
            total, count = sums.get(each.by, everybody)
            found.append(total / count if count else (options[0] + options[-1]) / 2)
        total, count = sums.get(each.by, (0.0, 0))
        sums[each.by] = total + value, count + 1
    return np.array(found)
