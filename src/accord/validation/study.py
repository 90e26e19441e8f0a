"""A study under way: who has answered what, what each person is asked next, and which answers are taken.

A person goes through its turns in order, and through the stages of each turn in order. Only the step it is at can be
answered, once; so guidance is never seen before the first rating is stored, and the first rating never changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from threading import Lock

from accord.assessment import Assessment
from accord.conversation import Target
from accord.errors import BadInput
from accord.labels import Label
from accord.store import Store
from accord.store.assessed import Assessed
from accord.store.rows import now
from accord.taxonomy import Taxonomy
from accord.validation.plan import Plan
from accord.validation.seats import Seat
from accord.validation.stages import FlowOfStages, Stage, flow_named
from accord.validation.tasks import At, Task, task

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
        found = {each.target: each for each in Assessed(store).of(self._conversations.values(), plan.made_by)}
        self.assessments: dict[Target, Assessment] = {turn: found[turn] for turn in plan.turns if turn in found}
        self._check_there()
        self._answered = stored_answers(store.labels(), plan)
        self._lock = Lock()

    def _check_there(self) -> None:
        for turn in self.plan.turns:
            said = self._conversations.get(turn.conversation)
            if turn not in self.assessments or said is None or not 0 <= (turn.turn or 0) < len(said.turns):
                raise BadInput(f"turn {turn} of the plan is not in the store, or not assessed; name the plan's store")

    def turns(self, seat: Seat) -> tuple[Target, ...]:
        """The turns of a person, in order."""
        return self.plan.slots[seat.slot]

    def current(self, seat: Seat) -> At | None:
        """The step a person is at; `None` when it is done."""
        for place, turn in enumerate(self.turns(seat), 1):
            for stage in self.flow.stages:
                if (seat.name, turn, stage.label) not in self._answered:
                    return At(place, stage.id)
        return None

    def answer_at(self, seat: Seat, at: At) -> int | None:
        """What a person answered at a step; `None` where it has not, or has no such step."""
        stage = self._stage(at.stage)
        if stage is None or not 1 <= at.place <= len(self.turns(seat)):
            return None
        return self._answered.get((seat.name, self.turns(seat)[at.place - 1], stage.label))

    def task(self, seat: Seat, at: At) -> Task:
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

    def answer(self, seat: Seat, at: At, value: int) -> Label:
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

    def _step(self, seat: Seat, at: At) -> tuple[Stage, Target]:
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
