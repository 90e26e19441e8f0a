"""Progress of a study: completed items, answers per question and annotator, agreement, norming rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from accord.results import Figure, agreement_word
from accord.statistics import beta_quantile
from accord.store import ADJUDICATED, Assignment, Item
from accord.studies.agreement.annotators import AnswerMatrix, CountedEstimate, agreement_change, agreement_figure
from accord.studies.blind_predictions import LiveAccuracy, live_accuracy
from accord.studies.study_session import StudySession
from accord.values import ISSUE, Annotation, Question, Value

_RATED = {1: "rated", 2: "rated twice", 3: "rated three times"}


@dataclass(frozen=True)
class AnnotatorProgress:
    """Progress of one annotator: numbers of items and answers, median seconds per item, reasons of skipped items.

    `gold` and `checks` are shares of correct answers to gold items and attention checks; `repeats` is the share of
    equal answers to repeated items.
    """

    person: str
    done: int
    open: int
    skipped: int
    answers: int
    seconds: float | None
    reasons: Sequence[str]
    gold: CountedEstimate
    checks: CountedEstimate
    repeats: CountedEstimate


@dataclass(frozen=True)
class QuestionProgress:
    """Answers to one question, of which `none` are "does not apply", and Krippendorff's α of all annotators.

    `full` is the number of items with all of their answers; `alpha` is the agreement with its set of ratings.
    """

    question: str
    text: str
    answers: int
    none: int
    people: int
    full: int
    agreement: CountedEstimate
    alpha: Figure


@dataclass(frozen=True)
class NormingRound:
    """Norming round (from 2), in which all annotators rate the same items again: α by question, before and after.

    `wanted` is the number of planned assignments, and `done` the number of completed ones.
    """

    round: int
    items: int
    wanted: int
    done: int
    before: Mapping[str, CountedEstimate]
    after: Mapping[str, CountedEstimate]
    change: Mapping[str, CountedEstimate]


class StudyProgress:
    """Progress of a study as leads see it; everything is computed when it is first used."""

    def __init__(self, study: StudySession) -> None:
        self.study = study

    @cached_property
    def items(self) -> list[Item]:
        """Items of all rounds."""
        return self.study.studies.items(self.study.name)

    @cached_property
    def answers(self) -> list[Annotation]:
        """Annotations of all rounds."""
        return self.study.studies.answers(self.study.name)

    @cached_property
    def assignments(self) -> list[Assignment]:
        """Assignments of all rounds."""
        return self.study.studies.all_assignments(self.study.name)

    def annotations_in(self, part: str = "") -> list[Annotation]:
        """Return the annotations of the first round, or of `NAME/PART`."""
        name = f"{self.study.name}/{part}" if part else self.study.name
        return [annotation for annotation in self.answers if annotation.study == name]

    @cached_property
    def first(self) -> list[Annotation]:
        """Annotations of the first round."""
        return self.annotations_in()

    @cached_property
    def questions(self) -> list[Question]:
        """Questions of the study, in the rubric's order."""
        names = {name for stage in self.study.settings.stages for name in stage.questions}
        has_all = any(not stage.questions for stage in self.study.settings.stages)
        level = self.study.settings.level
        questions = (question for question in self.study.rubric.questions if question.suits(level))
        return [question for question in questions if has_all or question.id in names]

    @property
    def main(self) -> Question:
        """Main question of the rubric, or the first question of the study."""
        return next((each for each in self.questions if each.id == self.study.rubric.main), self.questions[0])

    @cached_property
    def matrices(self) -> dict[str, AnswerMatrix]:
        """Answers of the first round by question."""
        return {question.id: AnswerMatrix.of(question, self.first) for question in self.questions}

    @cached_property
    def accuracy(self) -> LiveAccuracy | None:
        """Live accuracy of the evaluator; `None` without predictions."""
        return live_accuracy(self.study)

    @cached_property
    def item_count(self) -> int:
        """Number of items in the first round, without repeated ones."""
        return sum(item.round == 1 and item.kind != "repeat" for item in self.items)

    @cached_property
    def people(self) -> list[str]:
        """Names of current and former annotators."""
        return sorted({*study_annotators(self.study), *(each.person for each in self.assignments)})

    @cached_property
    def synthetic(self) -> set[str]:
        """Synthetic conversations of the study."""
        return self.study.project.store.synthetic_among(item.target.conversation for item in self.items)

    # --- by question and annotator ------------------------------------------------------------------------------

    @cached_property
    def by_question(self) -> list[QuestionProgress]:
        """Progress of each question, in the rubric's order."""
        none = Counter(annotation.question for annotation in self.first if annotation.value is None)
        return [self._question_progress(matrix, none[name]) for name, matrix in self.matrices.items()]

    def _question_progress(self, matrix: AnswerMatrix, none: int) -> QuestionProgress:
        per_item = self.study.settings.annotators_per_item
        full = int((matrix.given.sum(axis=1) >= per_item).sum()) if len(matrix.units) else 0
        question, answers = matrix.question, int(matrix.given.sum()) + none
        part = self.study.name if question.id == self.main.id else f"{self.study.name}: {question.id}"
        alpha = agreement_figure(matrix, f"in the study {self.study.title}", part)
        agreement = CountedEstimate(alpha.value, alpha.low, alpha.high, int(matrix.shared.sum()))
        return QuestionProgress(question.id, question.text, answers, none, len(matrix.people), full, agreement, alpha)

    @cached_property
    def _main_answers(self) -> list[Annotation]:
        """Answers to the main question in all rounds, read without those to other questions."""
        if "answers" in self.__dict__:
            return [each for each in self.answers if each.question == self.main.id]
        return self.study.studies.answers(self.study.name, question=self.main.id)

    @cached_property
    def _main_matrix(self) -> AnswerMatrix:
        return AnswerMatrix.of(self.main, [each for each in self._main_answers if each.study == self.study.name])

    @cached_property
    def main_progress(self) -> QuestionProgress:
        """Progress of the main question, computed without reading other answers."""
        first = [each for each in self._main_answers if each.study == self.study.name]
        return self._question_progress(self._main_matrix, sum(each.value is None for each in first))

    @cached_property
    def by_annotator(self) -> list[AnnotatorProgress]:
        """Progress of each annotator, by name."""
        return [self._annotator_progress(name) for name in self.people]

    def _annotator_progress(self, name: str) -> AnnotatorProgress:
        assignments = [each for each in self.assignments if each.person == name]
        states = Counter(each.state for each in assignments)
        answers = [each for each in self.answers if each.by == name and not each.study.endswith(f"/{ADJUDICATED}")]
        seconds: dict[Any, float] = {}
        for answer in answers:
            if answer.seconds is not None:
                key = answer.target, answer.study
                seconds[key] = seconds.get(key, 0.0) + answer.seconds
        settings = self.study.settings
        return AnnotatorProgress(
            name, states["done"], states["open"], states["skipped"],
            sum(not answer.question.startswith(ISSUE) for answer in answers),
            median(seconds.values()) if seconds else None,
            [each.reason for each in assignments if each.state == "skipped" and each.reason],
            _correct_share(settings.gold, answers), _correct_share(settings.attention_checks, answers),
            self._repeat_share(name),
        )  # fmt: skip

    def _repeat_share(self, name: str) -> CountedEstimate:
        """Return the share of repeated items with the same answer."""
        first = {(each.target, each.against, each.question): each.value for each in self.first if each.by == name}
        repeats = {
            (each.target, each.against, each.question): each.value
            for each in self.annotations_in("1/again")
            if each.by == name and not each.question.startswith(ISSUE)
        }
        equal = [value == first[key] for key, value in repeats.items() if key in first]
        return share_estimate(sum(equal), len(equal))

    @cached_property
    def rounds(self) -> list[NormingRound]:
        """Norming rounds."""
        rounds = []
        for number in range(2, max((item.round for item in self.items), default=1) + 1):
            items = [item for item in self.items if item.round == number]
            before = self.annotations_in(str(number - 1) if number > 2 else "")
            after = self.annotations_in(str(number))
            changes = {
                question.id: agreement_change(AnswerMatrix.of(question, before), AnswerMatrix.of(question, after))
                for question in self.questions
            }
            done = sum(each.item.round == number and each.state == "done" for each in self.assignments)
            columns = [{name: estimates[place] for name, estimates in changes.items()} for place in range(3)]
            units = {(item.target, item.against) for item in items}
            rounds.append(NormingRound(number, len(units), len(items), done, *columns))
        return rounds

    # --- sentences ----------------------------------------------------------------------------------------------

    def sentence(self) -> str:
        """Return the progress of the study in one sentence."""
        if not self.main_progress.answers and not self.first:
            return f"No answers yet; {self.item_count} items to be {self._all_ratings}{self.synthetic_note()}."
        alpha = self.main_progress.alpha
        known = (
            "unknown" if alpha.value is None else f"{agreement_word(alpha.estimate)}, {alpha.short} on {alpha.about}"
        )
        parts = [self.completed(), f"agreement of people: {known}"]
        parts += [self.accuracy.clause()] if self.accuracy is not None else []
        return "; ".join(parts) + f"{self.synthetic_note()}."

    def completed(self) -> str:
        """Return the number of items that have all of their ratings, in words."""
        return f"{self.main_progress.full} of {self.item_count} items {self._all_ratings}"

    def synthetic_note(self) -> str:
        """Return the number of synthetic conversations as the end of a sentence; empty without any."""
        count = len(self.synthetic)
        total = len({item.target.conversation for item in self.items})
        return f"; {count} of {total} conversations are synthetic" if count else ""

    @property
    def _all_ratings(self) -> str:
        per_item = self.study.settings.annotators_per_item
        return _RATED.get(per_item, f"rated {per_item} times")


def study_annotators(study: StudySession) -> list[str]:
    """Return the annotators named by a study, or all annotators, by name."""
    accounts = study.studies.accounts.list_users()
    return sorted(study.settings.annotators) or [each.name for each in accounts if each.role == "annotator"]


def share_estimate(count: int, n: int) -> CountedEstimate:
    """Return a share with its exact interval (Clopper and Pearson, 1934)."""
    if not n:
        return CountedEstimate()
    low = beta_quantile(0.025, count, n - count + 1) if count else 0.0
    high = beta_quantile(0.975, count + 1, n - count) if count < n else 1.0
    return CountedEstimate(count / n, low, high, n)


def _correct_share(known: Mapping[str, Mapping[str, Value]], answers: Sequence[Annotation]) -> CountedEstimate:
    """Return the share of correct answers to items with known answers."""
    correct = [
        answer.value == known[str(answer.target)][answer.question]
        for answer in answers
        if answer.question in known.get(str(answer.target), {})
    ]
    return share_estimate(sum(correct), len(correct))


def norming_items(study: StudySession, progress: StudyProgress, count: int, again: bool) -> list[Item]:
    """Return the items of another norming round, the same for all annotators: the `count` most rated ones.

    With `again`, the items of the last norming round are repeated instead, if there is one.
    """
    last = max((item.round for item in progress.items), default=1)
    if again and last > 1:
        units = dict.fromkeys((item.target, item.against) for item in progress.items if item.round == last)
    else:
        ratings = Counter((each.target, each.against) for each in progress.first if each.question == progress.main.id)
        plain = [(item.target, item.against) for item in progress.items if item.round == 1 and item.kind == "plain"]
        units = dict.fromkeys(sorted(plain, key=lambda unit: -ratings[unit])[:count])
    return [
        Item(study.name, last + 1, place, "plain", target, against, person)
        for person in progress.people
        for place, (target, against) in enumerate(units)
    ]
