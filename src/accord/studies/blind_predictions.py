"""Blind test: predictions saved before annotators answer, and the live accuracy of the evaluator.

An answer is a blind test if its prediction was saved before it, and if the evaluator learned nothing from its
conversation, by any person; other answers are left out and counted. Intervals are confidence sequences, which hold at
any number of looks (`accord.statistics.mean_sequence`), with one value per conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, count_of
from accord.evidence import EvidenceTable
from accord.learning import CARD, Evaluator, TrainingSet, load_evaluator
from accord.models import run
from accord.project import Workspace, fitted_evaluators, modified_at
from accord.results import Figure, Ledger
from accord.scoring import Perspective, Scorer
from accord.statistics import STATISTICS, Clusters, Paired, bootstrap_all, mean_sequence
from accord.store import Assignment, Item, LabelCounts, Prediction, now
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
        learned: Conversations of the study that the evaluator learned from.
    """

    study: StudySession
    evaluator: Evaluator
    signature: str
    evidence: EvidenceTable
    learned: frozenset[str] = frozenset()
    _seen: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def create(cls, study: StudySession, evaluator: Evaluator, fitted: str) -> BlindPredictor:
        """Collect the saved evidence of a study's items.

        Args:
            study: The study.
            evaluator: The evaluator in use.
            fitted: Time at which it was saved, in ISO format (UTC).

        Raises:
            BadInput: The evaluator does not predict a question of the study, or not at its level.
        """
        question, level = evaluator.question.id, study.settings.level
        if question not in _asked(study):
            raise BadInput(f"the evaluator predicts {question!r}, which is not a question of this study")
        if level != (evaluator.level or level) or level == "pair":
            raise BadInput(f"the evaluator scores a {evaluator.level}, but this study rates a {level}")
        targets = dict.fromkeys(item.target for item in study.studies.items(study.name))
        evidence = study.project.measure(evaluator.sources, study.project.samples(targets))
        signature = signature_of(evaluator)
        known = _Known(signature, question, evaluator.level, evaluator.training_set, fitted)
        learned = known.learned(study.project, {target.conversation for target in targets})
        return cls(study, evaluator, signature, evidence, frozenset(learned))

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
        """Save the prediction for an assignment, unless it is about training data or its question is answered."""
        studies, question = self.study.studies, self.evaluator.question.id
        if assignment.id in self._seen or assignment.item.target.conversation in self.learned:
            return
        self._seen.add(assignment.id)
        if any(each.question == question for each in studies.answers_in(assignment)):
            return
        prediction = self.predict(assignment.item, assignment.person)
        if prediction is not None:
            studies.add_predictions([prediction])


def signature_of(evaluator: Evaluator) -> str:
    """Return the name and the digest of an evaluator, as each prediction has them."""
    return f"{evaluator.name} {evaluator.digest()}"


def _asked(study: StudySession) -> set[str]:
    """Return the questions of a study."""
    stages = study.settings.stages
    return {name for stage in stages for name in stage.questions or [each.id for each in study.rubric.questions]}


# --- training data --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Known:
    """Evaluator whose predictions were saved: signature, question, level, training set, and the time of its fit."""

    signature: str
    question: str
    level: str | None
    training: TrainingSet | None
    fitted: str

    def learned(self, project: Workspace, conversations: Collection[str]) -> set[str]:
        """Return the conversations, among some, that the evaluator learned from or that had a rating before its fit."""
        learned = LabelCounts(project.store).rated_before(self.question, self.fitted, sorted(conversations))
        if (training := self.training) is not None and (others := set(conversations) - learned):
            for each in project.store.conversations(others):
                place = training.place(each)
                if place is not None and training.used[place]:
                    learned.add(each.id)
        return learned


@lru_cache(maxsize=32)
def _saved(folder: Path, time: str) -> _Known | None:
    """Read a saved evaluator, or return `None` if it is damaged. `time` is part of the key of the cache."""
    try:
        evaluator = load_evaluator(folder)
    except (BadInput, FileNotFoundError):
        return None
    level = None if evaluator.level is None else str(evaluator.level)
    return _Known(signature_of(evaluator), evaluator.question.id, level, evaluator.training_set, time)


def _saved_evaluators(project: Workspace, question: str) -> Iterator[_Known]:
    """Yield the saved evaluators of a question: the one in use, then the others from the last version on."""
    in_use = project.folder()
    others = sorted(fitted_evaluators(project.evaluators_folder, question), reverse=True)
    for folder in dict.fromkeys([in_use, *(project.folder(name) for name in others)]):
        if (folder / CARD).is_file() and (known := _saved(folder.absolute(), modified_at(folder))) is not None:
            yield known


# --- accuracy -------------------------------------------------------------------------------------------------------

BLIND = "accord.studies.blind_predictions.live_accuracy"
"""Function behind the figures of a blind test."""


@dataclass(frozen=True)
class LiveAccuracy:
    """Blind test: answers with the predictions that were saved before them, in the order of the answers.

    Attributes:
        evaluator: Signature of the latest evaluator with predictions, or else of the one in use; predictions of
            earlier ones are ignored.
        question: The predicted question.
        paired: n answers and predictions.
        conversation: (n,) conversation of each answer.
        completed: Conversations with all of their answers, in the order of completion.
        own_mean: (n,) mean of each person's earlier answers, the baseline of the evaluator.
        unpredicted: Number of answers without a prediction.
        left_out: Number of answers about conversations that the evaluator learned from.
    """

    evaluator: str
    question: Question
    paired: Paired
    conversation: Sequence[str]
    completed: Sequence[str]
    own_mean: Floats
    unpredicted: int
    left_out: int = 0

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
        own mean minus the error of the evaluator, as a share of the scale) have confidence sequences over completed
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

    @property
    def about(self) -> str:
        """Set of answers of the test, in words."""
        count = len(set(self.conversation))
        return (
            f"{count_of(len(self.paired), 'answer')} about {count_of(count, 'conversation')} that it did not learn from"
        )

    def ledger(self) -> Ledger:
        """Return the number of tested answers, and the typical error of the predictions if there are any."""
        n = len(self.paired)
        about = f"{count_of(n + self.left_out, 'answer')} given after the evaluator was fitted"
        counted = Figure("blind_answers", n, n=n + self.left_out, about=about, source=BLIND)
        if not n:
            return Ledger([counted])
        error = Figure.measured("blind_error", self.estimates()["rmse"], n, self.about, source=BLIND)
        return Ledger([counted, error])

    def sentence(self) -> str:
        """Return the number of tested answers and of those that are left out as a sentence."""
        n, left = len(self.paired), self.left_out
        known = (
            f"{left:,} of {count_of(n + left, 'answer')} {'is' if left == 1 else 'are'} about conversations that the "
            "evaluator learned from"
        )
        if not n:
            return f"No answer is a blind test yet: {known}. Answers about new conversations will be blind tests."
        tested = f"{self.about[0].upper()}{self.about[1:]}, each predicted before it was given"
        return f"{tested}." if not left else f"{tested}; {known} and {'is' if left == 1 else 'are'} left out."

    def clause(self) -> str:
        """Return the result of the test as a clause, with its number of answers."""
        n, left = len(self.paired), self.left_out
        without = f", {left:,} about training data left out" if left else ""
        if not n:
            return f"no blind test of the evaluator yet{without and f' ({without[2:]})'}"
        result = compare_with_own_mean(self.estimates()["gain"])
        return f"{result} (blind test of {count_of(n, 'answer')}{without})"


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
    """Return the blind test of the first round; `None` without predictions and without answers that are left out.

    The first answer of a person to an item counts; a later one may have been given after the prediction was shown. In
    the informative order only items of the random sample count. Answers about conversations in the evaluator's training
    data are left out, even if their predictions were saved.
    """
    predictions = study.studies.predictions(study.name)
    known = _evaluator_of(study, predictions)
    if known is None:
        return None
    question, items = study.rubric[known.question], _sampled_items(study)
    current = {(each.item, each.person): each for each in predictions if each.evaluator == known.signature}
    first = study.studies.answers(study.name, first=True, question=question.id)
    answers = [each for each in first if each.study == study.name and each.value is not None]
    sampled = [(each, items[each.target, each.against]) for each in answers if (each.target, each.against) in items]
    learned = known.learned(study.project, {each.target.conversation for each, _ in sampled})

    def is_left_out(answer: Annotation, item: Item) -> bool:
        is_tested = (item.key, answer.by) in current or ((answer.time or "") > known.fitted)
        return is_tested and answer.target.conversation in learned

    left_out = {(item.key, each.by) for each, item in sampled if is_left_out(each, item)}
    kept = [(each, item) for each, item in sampled if (item.key, each.by) not in left_out]
    rows = [(each, current[item.key, each.by]) for each, item in kept if (item.key, each.by) in current]
    if not predictions and not left_out:
        return None
    predicted = {(each.item, each.person) for each in predictions}
    return LiveAccuracy(
        known.signature, question, _paired(question, rows), [answer.target.conversation for answer, _ in rows],
        _completed(study, sampled, {answer.target.conversation for answer, _ in rows}),
        _own_means(question, answers, rows), sum((item.key, answer.by) not in predicted for answer, item in kept),
        len(left_out),
    )  # fmt: skip


def _evaluator_of(study: StudySession, predictions: Sequence[Prediction]) -> _Known | None:
    """Return the evaluator of the last prediction, or else the one in use if it predicts a question of the study.

    If the evaluator of the predictions is gone, it was fitted before the first prediction.
    """
    project = study.project
    if not predictions:
        level = study.settings.level
        known = next(_saved_evaluators(project, project.question.id), None)
        fits = known is not None and known.question in _asked(study) and level == (known.level or level) != "pair"
        return known if fits else None
    last = predictions[-1]
    made = next(each.made for each in predictions if each.evaluator == last.evaluator)
    saved = (each for each in _saved_evaluators(project, last.question) if each.signature == last.evaluator)
    if (found := next(saved, None)) is None:
        return _Known(last.evaluator, last.question, None, None, made)
    return replace(found, fitted=min(found.fitted, made))


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
