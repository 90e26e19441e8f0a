"""What a person gets to see of a task: a value without what must stay hidden.

It is made from a conversation, and from the issues only where the stage shows them. The score, its comment and the
name of the model never enter it, so that no page and no answer in JSON can give them away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

from accord.store import IssueAnnotations, Store, now
from accord.values import BadInput, Conversation, Issue, IssueAnnotation, Label, Span, Target, Taxonomy, sendable
from accord.workbench.participants import Participant
from accord.workbench.plan import FlowOfStages, Plan, Stage, flow_named


class At(NamedTuple):
    """A step of a person: which of its turns, from 1, and which stage."""

    place: int
    stage: str


class Part(NamedTuple):
    """Words of a turn, and whether an issue quotes them."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class ShownTurn:
    """One turn: who speaks, what is said, and whether it is the one to judge."""

    speaker: str
    parts: tuple[Part, ...]
    judged: bool


@dataclass(frozen=True)
class ShownIssue:
    """One issue; `objective` and `definition` are `None` and empty for kinds that the taxonomy does not have."""

    type: str
    objective: bool | None
    definition: str
    comment: str
    quote: str
    is_made_up: bool


@dataclass(frozen=True)
class Task:
    """What is shown, and what is asked.

    Attributes:
        at: Which step it is.
        of: How many turns the person has.
        stage: The question and its answers.
        turns: All turns up to the judged one, which is the last.
        issues: What was found; `None` where the stage does not show it.
        before: What the person itself answered at the stage before; `None` at the first.
    """

    at: At
    of: int
    stage: Stage
    turns: tuple[ShownTurn, ...]
    issues: tuple[ShownIssue, ...] | None
    before: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        row: dict[str, Any] = {
            "place": self.at.place,
            "of": self.of,
            "stage": self.stage.id,
            "before": self.before,
            "question": self.stage.question,
            "answers": [{"value": v, "word": word, "meaning": told} for v, (word, told) in self.stage.meanings.items()],
            "turns": [
                {"speaker": turn.speaker, "text": "".join(part.text for part in turn.parts), "judged": turn.judged}
                for turn in self.turns
            ],
        }
        if self.issues is not None:
            row["issues"] = [
                {"type": each.type, "objective": each.objective, "definition": each.definition,
                 "comment": each.comment, "quote": each.quote} for each in self.issues
            ]  # fmt: skip
        return row


def task(
    at: At, of: int, stage: Stage, conversation: Conversation, turn: int, issues: Sequence[Issue], taxonomy: Taxonomy
) -> Task:
    """The task of judging one turn of a conversation; `issues` are left out where the stage does not show them."""
    seen = tuple(issues) if stage.shows_issues else ()
    spans = [issue.span for issue in seen if issue.span is not None]
    turns = tuple(
        ShownTurn(
            sendable(each.name or each.role),
            parts(each.content, spans if place == turn else []),
            place == turn,
        )
        for place, each in enumerate(conversation.up_to(turn))
    )
    shown = tuple(_shown(issue, taxonomy) for issue in seen) if stage.shows_issues else None
    return Task(at, of, stage, turns, shown)


def _shown(issue: Issue, taxonomy: Taxonomy) -> ShownIssue:
    kind = next((kind for kind in taxonomy.issues if kind.name == issue.type), None)
    objective, definition = (None, "") if kind is None else (kind.objective, kind.definition)
    name, comment, quote = map(sendable, (issue.type, issue.comment, issue.quote))
    return ShownIssue(name, objective, definition, comment, quote, issue.is_made_up)


def parts(text: str, spans: Sequence[Span]) -> tuple[Part, ...]:
    """A text cut where quoted words begin and end; spans that overlap or touch become one.

    >>> parts("It is much better.", [(6, 10), (8, 17)])
    (Part(text='It is ', quoted=False), Part(text='much better', quoted=True), Part(text='.', quoted=False))
    """
    found, done = [], 0
    for start, end in _joined(text, spans):
        found += [Part(text[done:start], False), Part(text[start:end], True)]
        done = end
    found.append(Part(text[done:], False))
    return tuple(Part(sendable(part.text), part.quoted) for part in found if part.text)


def _joined(text: str, spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted((max(0, start), min(end, len(text))) for start, end in spans):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


Answered = dict[tuple[str, Target, str], int]
"""Answers by annotator, turn and question."""


class NotNow(BadInput):
    """A step that is not the one to take: answered already, or not yet reached.

    Attributes:
        stored: What the person answered there; `None` where it has not.
    """

    def __init__(self, reason: str, stored: int | None = None) -> None:
        super().__init__(reason)
        self.stored = stored


def stored_answers(labels: Iterable[Label], plan: Plan) -> Answered:
    """The answers among some labels that belong to a plan; of several to one question the first counts."""
    questions = {stage.label for stage in flow_named(plan.flow).stages}
    found: Answered = {}
    for label in labels:
        if label.question in questions and label.wording == plan.key and isinstance(label.value, int):
            found.setdefault((label.annotator, label.target, label.question), label.value)
    return found


class Study:
    """A plan with its answers, in a store. One process at a time takes answers of a plan; in it, any thread may."""

    def __init__(self, plan: Plan, store: Store, taxonomy: Taxonomy) -> None:
        """Read what is validated, and what is answered already.

        Raises:
            BadInput: The store lacks a turn or its assessment, or the taxonomy is not the plan's.
        """
        if plan.taxonomy != taxonomy.hash:
            raise BadInput(
                f"the plan was drawn with taxonomy {plan.taxonomy}, got {taxonomy.name!r} {taxonomy.hash}; "
                "name the taxonomy of the plan"
            )
        self.plan, self.taxonomy, self._store = plan, taxonomy, store
        self.flow: FlowOfStages = flow_named(plan.flow)
        names = {turn.conversation for turn in plan.turns}
        self._conversations = {each.id: each for each in store.conversations(names)}
        found = {each.target: each for each in IssueAnnotations(store).of(self._conversations.values(), plan.signature)}
        self.assessments: dict[Target, IssueAnnotation] = {turn: found[turn] for turn in plan.turns if turn in found}
        self._check_there()
        self._answered = stored_answers(store.labels(), plan)
        self._lock = Lock()

    def _check_there(self) -> None:
        for turn in self.plan.turns:
            said = self._conversations.get(turn.conversation)
            if turn not in self.assessments or said is None or not 0 <= (turn.turn or 0) < len(said.turns):
                raise BadInput(f"turn {turn} of the plan is not in the store, or not assessed; name the plan's store")

    def turns(self, seat: Participant) -> tuple[Target, ...]:
        """The turns of a person, in order."""
        return self.plan.slots[seat.slot]

    def current(self, seat: Participant) -> At | None:
        """The step a person is at; `None` when it is done."""
        for place, turn in enumerate(self.turns(seat), 1):
            for stage in self.flow.stages:
                if (seat.name, turn, stage.label) not in self._answered:
                    return At(place, stage.id)
        return None

    def answer_at(self, seat: Participant, at: At) -> int | None:
        """What a person answered at a step; `None` where it has not, or has no such step."""
        stage = self._stage(at.stage)
        if stage is None or not 1 <= at.place <= len(self.turns(seat)):
            return None
        return self._answered.get((seat.name, self.turns(seat)[at.place - 1], stage.label))

    def task(self, seat: Participant, at: At) -> Task:
        """What a person sees at a step.

        Raises:
            NotNow: The person is not at this step.
        """
        stage, turn = self._step(seat, at)
        conversation, issues = self._conversations[turn.conversation], self.assessments[turn].issues
        shown = task(at, len(self.turns(seat)), stage, conversation, turn.turn or 0, issues, self.taxonomy)
        earlier = self.flow.stages[: self.flow.stages.index(stage)]
        before = self._answered.get((seat.name, turn, earlier[-1].label)) if earlier else None
        return replace(shown, before=before)

    def answer(self, seat: Participant, at: At, value: int) -> Label:
        """Store a person's answer to the step it is at.

        Raises:
            BadInput: The value is none of the allowed; nothing is stored.
            NotNow: The person is not at this step; nothing is stored.
        """
        with self._lock:
            stage, turn = self._step(seat, at)
            if isinstance(value, bool) or value not in stage.meanings:
                raise BadInput(f"the answer {value!r}; allowed: {', '.join(map(str, stage.meanings))}. Choose one.")
            label = Label(turn, stage.label, seat.name, value, now(), self.plan.key)
            self._store.add_labels([label])
            self._answered[seat.name, turn, stage.label] = value
            return label

    def _stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.flow.stages if stage.id == name), None)

    def _step(self, seat: Participant, at: At) -> tuple[Stage, Target]:
        """The stage and the turn of the step a person is at."""
        stage, turns, here = self._stage(at.stage), self.turns(seat), self.current(seat)
        if stage is None or not 1 <= at.place <= len(turns):
            stages = " or ".join(each.id for each in self.flow.stages)
            raise BadInput(f"step {at.place} {at.stage[:40]!r}; yours are 1 to {len(turns)}, {stages}")
        if at == here:
            return stage, turns[at.place - 1]
        stored = self.answer_at(seat, at)
        if stored is not None:
            raise NotNow(f"turn {at.place} is answered with {stored}, and an answer stays; go on with the next", stored)
        order = "rate it with the dialogue alone first" if here is not None and here.place == at.place else (
            "turns are answered in their order"
        )  # fmt: skip
        raise NotNow(f"step {at.stage!r} of turn {at.place} is not reached; {order}")

    def progress(self) -> list[dict[str, int | str]]:
        """For everybody who has answered: how many answers of how many there are to give, by name."""
        given: dict[str, int] = {}
        for name, _, _ in list(self._answered):
            given[name] = given.get(name, 0) + 1
        return [{"annotator": name, "answers": count} for name, count in sorted(given.items())]
