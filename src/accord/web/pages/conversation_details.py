"""Annotations, predictions, scores and issues of one conversation by turn and question, for its page and JSON.

Only leads see these details, because answers and predictions would bias annotators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeVar

from accord.edges import AccordError, sendable
from accord.project import Corrections, corrected, correction_of, current_corrections, issues_of
from accord.store import ADJUDICATED, EvaluatorScores, StoreError, scores_of_conversation
from accord.studies import CitationFinder, ConversationPredictions
from accord.values import (
    ISSUE,
    Annotation,
    Conversation,
    IssueAnnotation,
    Question,
    Rubric,
    Taxonomy,
    issues_from,
    turn_digests,
    with_located_quotes,
)  # fmt: skip
from accord.verbs import Project

Place = int | None
"""Index of a turn; `None` for the whole conversation."""
_T = TypeVar("_T")


Row = dict[str, Any]
"""JSON object of an answer."""


@dataclass(frozen=True)
class ModelIssues:
    """Issues that a model found in a turn.

    Attributes:
        annotation: The issues as the model found them.
        by: The model.
        is_old: True if the turn or an earlier one has changed since.
        corrections: Corrections by people, by number of the issue.
    """

    annotation: IssueAnnotation
    by: str
    is_old: bool
    corrections: Mapping[int, Annotation] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the corrected issues, and the corrections."""
        found = corrected(self.annotation, {
            (self.annotation.target, self.annotation.signature, self.annotation.said, part): each
            for part, each in self.corrections.items()
        })  # fmt: skip
        corrections = [each.to_json() for each in self.corrections.values()]
        return {"by": self.by, "is_old": self.is_old, **found.to_json(), "corrections": corrections}


@dataclass(frozen=True)
class ConversationDetails:
    """A conversation with all annotations by turn, and the scores of runs, the latest first."""

    conversation: Conversation
    rubric: Rubric
    answers: Mapping[Place, list[Row]] = field(default_factory=dict)
    marks: Mapping[Place, list[Annotation]] = field(default_factory=dict)
    issues: Mapping[Place, list[ModelIssues]] = field(default_factory=dict)
    judged: Mapping[Place, list[Row]] = field(default_factory=dict)
    runs: Sequence[EvaluatorScores] = ()
    kinds: Taxonomy | None = None

    def scores(self) -> dict[Place, list[dict[str, Any]]]:
        """Return scores by turn, the latest run first, with `run`, `command`, `evaluator` and `started` of the run."""
        scores: dict[Place, list[dict[str, Any]]] = {}
        for run in self.runs:
            origin = {"run": run.run, "command": run.command, "evaluator": run.evaluator, "started": run.started}
            for row in run.rows:
                scores.setdefault(row.get("turn"), []).append({**row, **origin})
        return scores

    def questions(self, place: Place, predictions: ConversationPredictions) -> list[Row]:
        """Return the questions of a turn or of the whole conversation with predictions, ratings and judges' answers.

        The main question comes first, then the others in the rubric's order; questions of other rubrics come last.
        """
        predicted = predictions.scores.get(place)
        others = ((predicted or {}).get("notes") or {}).get("other_questions") or {}
        ratings, judged = _by_question(self.answers.get(place, ())), _by_question(self.judged.get(place, ()))
        main = predictions.question or self.rubric.main
        known = [main, *(question.id for question in self.rubric.questions)]
        found = {*others, *ratings, *judged, *([main] if predicted else [])}
        rows = []
        for name in dict.fromkeys([*(each for each in known if each in found), *ratings, *judged, *others]):
            question, is_main = self.rubric.get(name), name == main
            rows.append({
                "question": name, "text": "" if question is None else question.text, "is_main": is_main,
                "meanings": {} if question is None else dict(question.meanings),
                "prediction": predicted if is_main else others.get(name),
                "predicted_ratings": dict(predictions.people.get(place, {})) if is_main else {},
                "ratings": ratings.get(name, []), "mean": _mean_rating(question, ratings.get(name, [])),
                "judge": judged.get(name, []),
            })  # fmt: skip
        return rows

    def to_json(self, predictions: ConversationPredictions) -> dict[str, Any]:
        """Return all details with the predictions."""
        conversation, scores = self.conversation, self.scores()
        citations, replies = CitationFinder(conversation.documents), {id(turn) for turn in conversation.replies}

        def details(place: Place) -> dict[str, list[Any]]:
            return {
                "questions": self.questions(place, predictions),
                "marks": [mark.to_json() for mark in self.marks.get(place, [])],
                "issues": [each.to_json() for each in self.issues.get(place, [])],
                "scores": scores.get(place, []),
            }  # fmt: skip

        turns = [
            {"turn": place, **turn.to_json(), **details(place),
             "documents": [{"number": use.number, "is_cited": use.is_cited, "spans": use.spans}
                           for use in (citations.uses(turn) if id(turn) in replies else ())]}
            for place, turn in enumerate(conversation.turns)
        ]  # fmt: skip
        return {
            "conversation": conversation.id, "synthetic": conversation.is_synthetic,
            "metadata": dict(conversation.metadata),
            "documents": [each.to_json() for each in conversation.documents], "turns": turns, "whole": details(None),
            "predictions": predictions.to_json(),
        }  # fmt: skip


def load_details(project: Project, name: str) -> ConversationDetails | None:
    """Return the details of a conversation; `None` if the store does not hold it."""
    conversation = next(project.store.conversations([name]), None)
    if conversation is None:
        return None
    annotations = list(project.store.annotations(conversations=[name]))
    people = [each for each in annotations if each.kind == "person"]
    return ConversationDetails(
        conversation,
        project.rubric,
        _by_place(_current_answers([each for each in people if not each.question.startswith(ISSUE)])),
        _current_marks([each for each in people if each.question.startswith(ISSUE) and not each.is_correction]),
        _model_issues(conversation, [each for each in annotations if each.is_of_issues], current_corrections(people)),
        _by_place(_judge_answers(project.rubric, annotations)),
        _scores(project, name),
        _taxonomy(project),
    )


def _scores(project: Project, name: str) -> list[EvaluatorScores]:
    try:
        return scores_of_conversation(project.store, project.mart, name)
    except StoreError:
        return []  # the board reports errors of the mart


def _by_place(rows: Iterable[tuple[Place, _T]]) -> dict[Place, list[_T]]:
    by_place: dict[Place, list[_T]] = {}
    for place, row in rows:
        by_place.setdefault(place, []).append(row)
    return by_place


def _by_question(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by their question, without its name."""
    by_question: dict[str, list[Row]] = {}
    for row in rows:
        by_question.setdefault(row["question"], []).append({k: v for k, v in row.items() if k != "question"})
    return by_question


def _mean_rating(question: Question | None, ratings: Sequence[Row]) -> float | None:
    """Return the mean of the ratings that are numbers; `None` for an unordered scale."""
    ratings = [row for row in ratings if row["person"] != ADJUDICATED]
    values = [row["value"] for row in ratings if isinstance(row["value"], int | float)]
    is_ordered = question is None or question.scale.is_ordered
    return fmean(values) if values and is_ordered else None


def _current_answers(annotations: Sequence[Annotation]) -> list[tuple[Place, Row]]:
    """Return each current answer with the earlier answers of the same person."""
    by_id = {(each.by, each.answer): each for each in annotations if each.answer}
    replaced = {(each.by, each.replaces) for each in annotations if each.replaces}
    answers = list[tuple[Place, Row]]()
    for each in annotations:
        if each.answer and (each.by, each.answer) in replaced:
            continue
        if each.by == ADJUDICATED and each.answer and each.value is None:
            continue  # a withdrawn adjudication, or one without an answer
        history, last = list[Row](), each
        while (last.by, last.replaces) in by_id and len(history) < len(annotations):
            last = by_id[last.by, last.replaces]
            history.insert(0, _past_answer(last))
        against = None if each.against is None else str(each.against)
        answers.append((each.target.turn, {"person": each.by, "question": each.question, **_past_answer(each),
                                           "study": each.study, "against": against, "history": history}))  # fmt: skip
    return answers


def _past_answer(annotation: Annotation) -> Row:
    return {"value": annotation.value, "comment": annotation.comment, "time": annotation.time}


def _current_marks(marks: Sequence[Annotation]) -> dict[Place, list[Annotation]]:
    replaced = {(mark.by, mark.replaces) for mark in marks if mark.replaces}
    current = [
        (mark.target.turn, mark)
        for mark in marks
        if mark.value not in (None, 0) and not (mark.answer and (mark.by, mark.answer) in replaced)
    ]
    return _by_place(current)


def _model_issues(
    conversation: Conversation, annotations: Sequence[Annotation], corrections: Corrections
) -> dict[Place, list[ModelIssues]]:
    """Return issues by turn, with each quote located in the current text of the turn."""
    current = turn_digests(conversation) if any(each.seen for each in annotations) else []
    makers = {(each.target, each.signature or ""): each.by for each in annotations}
    issues: dict[Place, list[ModelIssues]] = {}
    for each in issues_from(annotations):
        turn = each.target.turn
        if turn is None or not 0 <= turn < len(conversation.turns):
            continue
        is_old = bool(each.said) and each.said != current[turn]
        annotation = with_located_quotes(each, sendable(conversation.turns[turn].content))
        given = {part: correction_of(corrections, each, part) for part in range(1, len(each.issues) + 1)}
        known = {part: correction for part, correction in given.items() if correction is not None}
        issues.setdefault(turn, []).append(ModelIssues(annotation, makers[each.target, each.signature], is_old, known))
    return issues


def _judge_answers(rubric: Rubric, annotations: Sequence[Annotation]) -> list[tuple[Place, Row]]:
    """Return the latest answer of each judge, in the rubric's order; questions of other rubrics come last."""
    latest = {(each.target.turn, each.question, each.by, each.mode): each for each in annotations if each.is_answer}
    order = {question.id: place for place, question in enumerate(rubric.questions)}
    ordered = sorted(latest.values(), key=lambda each: order.get(each.question, len(order)))
    return [(each.target.turn, _judge_answer(rubric, each)) for each in ordered]


def _judge_answer(rubric: Rubric, annotation: Annotation) -> Row:
    question, shares = rubric.get(annotation.question), dict(annotation.distribution or {})
    is_ordered = question is not None and question.scale.is_ordered
    return {
        "question": annotation.question, "by": annotation.by, "mode": annotation.mode, "shares": shares,
        "outside": annotation.outside, "expected": _mean(shares) if is_ordered else None,
    }  # fmt: skip


def _mean(shares: Mapping[str, float]) -> float | None:
    total = sum(shares.values())
    try:
        return sum(float(option) * share for option, share in shares.items()) / total if total else None
    except ValueError:
        return None


def _taxonomy(project: Project) -> Taxonomy | None:
    try:
        return issues_of(project).taxonomy
    except AccordError:
        return None
