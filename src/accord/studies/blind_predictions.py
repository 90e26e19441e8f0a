"""Predictions saved before annotators answer, and the live accuracy of the evaluator.

Each answer therefore tests the evaluator on unseen data. Intervals are confidence sequences, which
hold at any number of looks (`accord.statistics.mean_sequence`), with one value per conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.learning import Evaluator
from accord.models import run
from accord.scoring import Perspective, Scorer
from accord.statistics import STATISTICS, Clusters, Paired, bootstrap_all, mean_sequence
from accord.store import Assignment, Item, Prediction, now
from accord.studies.agreement.annotators import CountedEstimate, option_index
from accord.studies.item_order import is_random_sample
from accord.studies.study_session import StudySession
from accord.values import INTERVAL_MASS, Annotation, Estimate, Question, Score, Target, central_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BlindPredictor:
    """An evaluator with the evidence of a study's items; predictions need no model.

    Attributes:
        study: The study.
        evaluator: The fitted evaluator.
        signature: Name and digest of the evaluator, saved with each prediction.
        evidence: Evidence of each item.
    """

    study: StudySession
    evaluator: Evaluator
    signature: str
    evidence: EvidenceTable
    _seen: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def create(cls, study: StudySession, evaluator: Evaluator) -> BlindPredictor:
        """Collect the saved evidence of a study's items.

        Raises:
            BadInput: The evaluator does not predict a question of the study, or not at its level.
        """
        question, level = evaluator.question.id, study.settings.level
        questions = {
            name
            for stage in study.settings.stages
            for name in stage.questions or [each.id for each in study.rubric.questions]
        }
        if question not in questions:
            raise BadInput(f"the evaluator predicts {question!r}, which is not a question of this study")
        if level != (evaluator.level or level) or level == "pair":
            raise BadInput(f"the evaluator scores a {evaluator.level}, but this study rates a {level}")
        targets = dict.fromkeys(item.target for item in study.studies.items(study.name))
        evidence = study.project.measure(evaluator.sources, study.project.samples(targets))
        return cls(study, evaluator, f"{evaluator.name} {evaluator.digest()}", evidence)

    def predict(self, item: Item, person: str) -> Prediction | None:
        """Return the predicted answer of a person; `None` without evidence."""
        [row] = self.evidence.rows_of([item.target])
        if row < 0 or not self.evidence.present[row].any():
            return None
        annotator = person if person in self.evaluator.annotators else None
        scorer = Scorer(self.evaluator, Perspective(annotator))
        flow = scorer.score(self.study.project.samples([item.target]), self.evidence.take([int(row)]))
        [score] = run(flow, self.study.project.stored_models)
        if not isinstance(score, Score):
            return None
        return Prediction(item.key, person, self.evaluator.question.id, self.signature, score.distribution, now())

    def save_prediction(self, assignment: Assignment) -> None:
        """Save the prediction for an assignment, unless its question is already answered."""
        studies, question = self.study.studies, self.evaluator.question.id
        if assignment.id in self._seen:
            return
        self._seen.add(assignment.id)
        if any(each.question == question for each in studies.answers_in(assignment)):
            return
        prediction = self.predict(assignment.item, assignment.person)
        if prediction is not None:
            studies.add_predictions([prediction])


# --- accuracy -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LiveAccuracy:
    """Answers with the predictions that were saved before them, in the order of the answers.

    Attributes:
        evaluator: Signature of the latest evaluator; predictions of earlier ones are ignored.
        question: The predicted question.
        paired: n answers and predictions.
        conversation: (n,) conversation of each answer.
        completed: Conversations with all of their answers, in the order of completion.
        own_mean: (n,) mean of each person's earlier answers, the baseline of the evaluator.
        unpredicted: Number of answers without a prediction.
    """

    evaluator: str
    question: Question
    paired: Paired
    conversation: Sequence[str]
    completed: Sequence[str]
    own_mean: Floats
    unpredicted: int

    @property
    def range(self) -> float:
        """Length of the scale."""
        return float(np.ptp(self.paired.options))

    def conversation_means(self, values: Floats) -> Floats:
        """(C,) means of the completed conversations, in their order."""
        names = np.array(self.conversation)
        return np.array([values[names == name].mean() for name in self.completed])

    def estimates(self) -> dict[str, CountedEstimate]:
        """Return accuracy statistics with intervals; empty without answers.

        `rmse`, `covered` (share of answers in the predicted 80% interval) and `gain` (absolute error of the person's
        own mean minus that of the evaluator, as a share of the scale) have confidence sequences over completed
        conversations. `pearson` has a bootstrap interval over conversations.
        """
        n, paired = len(self.paired), self.paired
        if not n:
            return {}
        squared = (paired.truth - paired.value) ** 2
        covered = np.array([_is_covered(paired, row) for row in range(n)])
        gain = (np.abs(paired.truth - self.own_mean) - np.abs(paired.truth - paired.value)) / self.range
        r = bootstrap_all(Clusters(list(self.conversation)), {"r": STATISTICS["pearson"]}, [paired])["r"]
        mean_square = mean_sequence(self.conversation_means(squared), 0, self.range**2)
        low, high = (None if end is None else float(np.sqrt(end)) for end in (mean_square.low, mean_square.high))
        rmse = Estimate(float(np.sqrt(squared.mean())), low, high)
        estimates = {
            "rmse": (float(np.sqrt(squared.mean())), rmse),
            "covered": (float(covered.mean()), mean_sequence(self.conversation_means(covered), 0, 1)),
            "gain": (float(gain.mean()), mean_sequence(self.conversation_means(gain), -1, 1)),
            "pearson": (STATISTICS["pearson"](paired), r),
        }
        return {name: CountedEstimate(value, ends.low, ends.high, n) for name, (value, ends) in estimates.items()}


def _is_covered(paired: Paired, row: int) -> float:
    low, high = central_interval(paired.options, paired.probabilities[row], INTERVAL_MASS)
    return float(low <= paired.truth[row] <= high)


def compare_with_own_mean(gain: CountedEstimate) -> str:
    """Return a sentence about the evaluator and the baseline of each person's own mean."""
    if gain.low is not None and gain.low > 0:
        return "the evaluator is better than each person's mean"
    if gain.high is not None and gain.high < 0:
        return "the evaluator is worse than each person's mean"
    return "the evaluator is not yet better than each person's mean"


def live_accuracy(study: StudySession) -> LiveAccuracy | None:
    """Return the predicted answers of the first round; `None` without predictions.

    The first answer of a person to an item counts; a later one may have been given after the prediction was shown. In
    the informative order only items of the random sample count.
    """
    predictions = study.studies.predictions(study.name)
    if not predictions:
        return None
    last = predictions[-1]
    question = study.rubric[last.question]
    items = _sampled_items(study)
    current = {(each.item, each.person): each for each in predictions if each.evaluator == last.evaluator}
    first = study.studies.answers(study.name, first=True, question=question.id)
    answers = [each for each in first if each.study == study.name and each.value is not None]
    sampled = [(each, items[each.target, each.against]) for each in answers if (each.target, each.against) in items]
    rows = [(each, current[item.key, each.by]) for each, item in sampled if (item.key, each.by) in current]
    predicted = {(each.item, each.person) for each in predictions}
    return LiveAccuracy(
        last.evaluator, question, _paired(question, rows), [answer.target.conversation for answer, _ in rows],
        _completed(study, sampled, {answer.target.conversation for answer, _ in rows}),
        _own_means(question, answers, rows),
        sum((item.key, answer.by) not in predicted for answer, item in sampled),
    )  # fmt: skip


def _sampled_items(study: StudySession) -> dict[tuple[Target, Target | None], Item]:
    """Return the items of the random sample in the first round, without repeats."""
    return {
        (item.target, item.against): item
        for item in study.studies.items(study.name, 1)
        if item.kind != "repeat" and is_random_sample(study.settings, item)
    }


def _paired(question: Question, rows: Sequence[tuple[Annotation, Prediction]]) -> Paired:
    options = np.array(question.scale.numbers)
    shares = np.zeros((len(rows), len(options)))
    for row, (_, prediction) in enumerate(rows):
        for option, share in prediction.distribution.items():
            shares[row, int(np.abs(options - float(option)).argmin())] += share
    codes = [option_index(question, answer.value) for answer, _ in rows]  # type: ignore[arg-type]
    return Paired(options, np.array(codes, dtype=np.intp), shares, shares @ options)


def _completed(study: StudySession, answers: Sequence[tuple[Annotation, Item]], predicted: set[str]) -> list[str]:
    """Return the conversations whose items have all their answers, by the time of the last answer."""
    missing: dict[str, int] = {}
    for item in study.studies.items(study.name, 1):
        if item.kind != "repeat" and is_random_sample(study.settings, item):
            name = item.target.conversation
            missing[name] = missing.get(name, 0) + study.settings.annotators_per_item
    completed = []
    for answer, _ in answers:
        name = answer.target.conversation
        missing[name] -= 1
        if missing[name] == 0 and name in predicted:
            completed.append(name)
    return completed


def _own_means(
    question: Question, answers: Sequence[Annotation], rows: Sequence[tuple[Annotation, Prediction]]
) -> Floats:
    """(n,) mean of a person's earlier answers; before the first one the mean of all, else the middle of the scale."""
    options, predicted = question.scale.numbers, {answer.answer for answer, _ in rows}
    sums: dict[str, tuple[float, int]] = {}
    means = []
    for answer in answers:
        value = options[option_index(question, answer.value)]  # type: ignore[arg-type]
        if answer.answer in predicted:
            overall = tuple(map(sum, zip(*sums.values(), strict=True))) if sums else (0.0, 0)
            total, count = sums.get(answer.by, overall)
            means.append(total / count if count else (options[0] + options[-1]) / 2)
        total, count = sums.get(answer.by, (0.0, 0))
        sums[answer.by] = total + value, count + 1
    return np.array(means)
