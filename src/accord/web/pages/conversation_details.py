"""Everything that the store holds about one conversation, by turn: what the reading view and its JSON show.

Only leads see it: answers, predictions and issues beside the text would make whoever rates it no witness of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from accord.edges import AccordError, sendable
from accord.project import Project, issues_of
from accord.store import EvaluatorScores, StoreError, scores_of_conversation
from accord.studies import Passages
from accord.values import (
    ISSUE,
    Annotation,
    Conversation,
    IssueAnnotation,
    Rubric,
    Taxonomy,
    Value,
    issues_from,
    turn_digests,
    with_located_quotes,
)

Place = int | None
"""A turn by its place in the conversation; `None` for the conversation itself."""


_Said = TypeVar("_Said")


class Said(TypedDict):
    """An answer as it was given."""

    value: Value | None
    comment: str
    time: str | None


class Answer(Said):
    """A person's answer that stands; `history` is what they had answered before."""

    person: str
    question: str
    study: str
    against: str | None
    history: list[Said]


class Judgement(TypedDict):
    """A judge's answer to a question; `expected` where its options are ordered."""

    question: str
    text: str
    by: str
    mode: str | None
    shares: dict[str, float]
    outside: float | None
    meanings: dict[str, str]
    expected: float | None


@dataclass(frozen=True)
class Found:
    """What one model found wrong with a turn; `is_old` where the turn, or what was said before it, was another then."""

    annotation: IssueAnnotation
    by: str
    is_old: bool


@dataclass(frozen=True)
class Reading:
    """One conversation with everything that was said of it.

    Attributes:
        conversation: As the log has it.
        answers: What people answered, by place.
        marks: Issues that people marked and did not take back, by turn.
        found: Issues that models found, by turn.
        judged: A judge's answers, by place.
        runs: What runs scored, the latest first, then what was scored live.
        kinds: What kinds of issues mean; `None` where the project's taxonomy cannot be read.
    """

    conversation: Conversation
    answers: Mapping[Place, list[Answer]] = field(default_factory=dict)
    marks: Mapping[Place, list[Annotation]] = field(default_factory=dict)
    found: Mapping[Place, list[Found]] = field(default_factory=dict)
    judged: Mapping[Place, list[Judgement]] = field(default_factory=dict)
    runs: Sequence[EvaluatorScores] = ()
    kinds: Taxonomy | None = None

    def scores(self) -> dict[Place, list[dict[str, Any]]]:
        """Scores by place, the latest run first; each row has its run's `run`, `command`, `evaluator`, `started`."""
        found: dict[Place, list[dict[str, Any]]] = {}
        for each in self.runs:
            made = {"run": each.run, "command": each.command, "evaluator": each.evaluator, "started": each.started}
            for row in each.rows:
                found.setdefault(row.get("turn"), []).append({**row, **made})
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything but what is expected, as plain JSON values."""
        conversation, scores = self.conversation, self.scores()
        passages, replies = Passages(conversation.documents), {id(turn) for turn in conversation.replies}

        def about(place: Place) -> dict[str, list[Any]]:
            return {
                "answers": self.answers.get(place, []),
                "marks": [each.to_json() for each in self.marks.get(place, [])],
                "issues": [{"by": each.by, "is_old": each.is_old, **each.annotation.to_json()}
                           for each in self.found.get(place, [])],
                "judged": self.judged.get(place, []), "scores": scores.get(place, []),
            }  # fmt: skip

        turns = [
            {"turn": place, **turn.to_json(), **about(place),
             "documents": [{"number": each.number, "is_cited": each.is_cited, "spans": each.spans}
                           for each in (passages.used_by(turn) if id(turn) in replies else ())]}
            for place, turn in enumerate(conversation.turns)
        ]  # fmt: skip
        return {
            "conversation": conversation.id, "synthetic": conversation.is_synthetic,
            "metadata": dict(conversation.metadata),
            "documents": [each.to_json() for each in conversation.documents], "turns": turns, "whole": about(None),
        }  # fmt: skip


def reading_of(project: Project, name: str) -> Reading | None:
    """What the store holds of a conversation; `None` where it holds none of that id."""
    conversation = next(project.store.conversations([name]), None)
    if conversation is None:
        return None
    said = list(project.store.annotations(conversations=[name]))
    people = [each for each in said if each.kind == "person"]
    return Reading(
        conversation,
        _by_place(_answers([each for each in people if not each.question.startswith(ISSUE)])),
        _standing_marks([each for each in people if each.question.startswith(ISSUE)]),
        _found(conversation, [each for each in said if each.is_of_issues]),
        _by_place(_judged(project.rubric, said)),
        _scores(project, name),
        _kinds(project),
    )


def _scores(project: Project, name: str) -> list[EvaluatorScores]:
    try:
        return scores_of_conversation(project.store, project.mart, name)
    except StoreError:
        return []  # the board says what is wrong with the mart; a conversation is read without it


def _by_place(rows: Iterable[tuple[Place, _Said]]) -> dict[Place, list[_Said]]:
    found: dict[Place, list[_Said]] = {}
    for place, row in rows:
        found.setdefault(place, []).append(row)
    return found


def _answers(people: Sequence[Annotation]) -> list[tuple[Place, Answer]]:
    """Each answer that stands, with those that its author had given before."""
    by_answer = {(each.by, each.answer): each for each in people if each.answer}
    gone = {(each.by, each.replaces) for each in people if each.replaces}
    found = list[tuple[Place, Answer]]()
    for each in people:
        if each.answer and (each.by, each.answer) in gone:
            continue
        history, last = list[Said](), each
        while (last.by, last.replaces) in by_answer and len(history) < len(people):
            last = by_answer[last.by, last.replaces]
            history.insert(0, _said(last))
        against = None if each.against is None else str(each.against)
        found.append((each.target.turn, {"person": each.by, "question": each.question, **_said(each),
                                         "study": each.study, "against": against, "history": history}))  # fmt: skip
    return found


def _said(each: Annotation) -> Said:
    return {"value": each.value, "comment": each.comment, "time": each.time}


def _standing_marks(marks: Sequence[Annotation]) -> dict[Place, list[Annotation]]:
    gone = {(each.by, each.replaces) for each in marks if each.replaces}
    found: dict[Place, list[Annotation]] = {}
    for each in marks:
        is_gone = bool(each.answer) and (each.by, each.answer) in gone
        if not is_gone and each.value is not None and each.value != 0:
            found.setdefault(each.target.turn, []).append(each)
    return found


def _found(conversation: Conversation, said: Sequence[Annotation]) -> dict[Place, list[Found]]:
    """Issues by turn, each quote looked up in the turn as it is now."""
    now = turn_digests(conversation) if any(each.seen for each in said) else []
    by = {(each.target, each.signature or ""): each.by for each in said}
    found: dict[Place, list[Found]] = {}
    for each in issues_from(said):
        turn = each.target.turn
        if turn is None or not 0 <= turn < len(conversation.turns):
            continue
        is_old = bool(each.said) and each.said != now[turn]
        shown = with_located_quotes(each, sendable(conversation.turns[turn].content))
        found.setdefault(turn, []).append(Found(shown, by[each.target, each.signature], is_old))
    return found


def _judged(rubric: Rubric, said: Sequence[Annotation]) -> list[tuple[Place, Judgement]]:
    """A judge's last answer to each question, in the rubric's order; questions that it lacks come last."""
    last = {(each.target.turn, each.question, each.by, each.mode): each for each in said if each.is_answer}
    order = {question.id: place for place, question in enumerate(rubric.questions)}
    ordered = sorted(last.values(), key=lambda each: order.get(each.question, len(order)))
    return [(each.target.turn, _judgement(rubric, each)) for each in ordered]


def _judgement(rubric: Rubric, each: Annotation) -> Judgement:
    question, shares = rubric.get(each.question), dict(each.distribution or {})
    is_ordered = question is not None and question.scale.is_ordered
    return {
        "question": each.question, "text": "" if question is None else question.text, "by": each.by,
        "mode": each.mode, "shares": shares, "outside": each.outside,
        "meanings": {} if question is None else dict(question.meanings),
        "expected": _expected(shares) if is_ordered else None,
    }  # fmt: skip


def _expected(shares: Mapping[str, float]) -> float | None:
    total = sum(shares.values())
    try:
        return sum(float(option) * share for option, share in shares.items()) / total if total else None
    except ValueError:
        return None


def _kinds(project: Project) -> Taxonomy | None:
    try:
        return issues_of(project).taxonomy
    except AccordError:
        return None
