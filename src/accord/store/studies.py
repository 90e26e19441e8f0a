"""What the workbench keeps of studies: what they are about, who has which item, what was said and predicted.

An answer is an annotation like any other, under the id that the page made for it, so that one that is sent twice is
kept once. All decisions about who may do what are made inside the transaction that writes, whatever a page believed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, or_, select, update

from accord.edges import BadInput
from accord.store.accounts import Conflict, UserAccounts
from accord.store.answer_history import again, is_same, replaced, said_of, soon, standing
from accord.store.engine import read_json
from accord.store.filters import last_said
from accord.store.group_commit import GroupWriter
from accord.store.rows import BATCH, AnnotationKeys, annotation_from, annotation_row, batches, now, unknown_target
from accord.store.schema import annotated, assignments, conversations, items, predictions, studies
from accord.store.store import PERSON, Store
from accord.values import Annotation, Target, canonical_json, content_hash

State = Literal["open", "done", "skipped"]
ItemKind = Literal["plain", "gold", "check", "repeat"]
ADJUDICATED = "adjudicated"
"""What follows a study's name (`NAME/adjudicated`) in answers of whoever adjudicates."""


class LeaseExpired(Conflict):
    """An item was away too long, and others have completed it."""


@dataclass(frozen=True, slots=True)
class Item:
    """What is rated in one go.

    Attributes:
        study, round: To which it belongs.
        place: Its place in the order of the draw, from 0.
        kind: `plain`; `gold` or `check` where the answer is known; `repeat` where somebody rates it a second time.
        target: A conversation, or a turn.
        against: The other conversation of a pair.
        person: The only one who may have it; `None` for anybody.
    """

    study: str
    round: int
    place: int
    kind: ItemKind
    target: Target
    against: Target | None = None
    person: str | None = None

    @property
    def key(self) -> str:
        """What tells it from all others: the same item drawn again is the same."""
        told = [self.study, self.round, *self.target, *(self.against or ()), self.kind == "repeat", self.person]
        return content_hash(told, length=24)

    @property
    def where(self) -> str:
        """The study and the round as annotations name them; what is rated again is an answer of its own."""
        if self.kind == "repeat":
            return f"{self.study}/{self.round}/again"
        return self.study if self.round == 1 else f"{self.study}/{self.round}"


@dataclass(frozen=True, slots=True)
class Assignment:
    """An item that somebody has, had or passed over.

    Attributes:
        id: Random; whoever does not have it cannot name it.
        stage: Which stage it is at, from 0.
        until: When it becomes anybody's again, unless something is answered before (UTC).
        reason: Why it was skipped.
    """

    id: str
    item: Item
    person: str
    state: State
    stage: int
    until: str
    reason: str | None
    began: str
    ended: str | None


class Candidate(NamedTuple):
    """An item that somebody could be given, and how many have answered it or are at it."""

    item: Item
    taken: int


Choose = Callable[[Sequence[Candidate]], Candidate]


class Prediction(NamedTuple):
    """What an evaluator expected a person to answer: the probability of each option, kept before the answer."""

    item: str
    person: str
    question: str
    evaluator: str
    distribution: Mapping[str, float]
    made: str


class Studies:
    """The workbench's part of a store. Any number of threads, and on PostgreSQL of processes, may use one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = GroupWriter(store._engine, store.url)
        self.people = UserAccounts(store, self._writer)

    def close(self) -> None:
        """Finish what is being written."""
        self._writer.close()

    # --- studies and items --------------------------------------------------------------------------------------

    def set_study(self, name: str, content: Mapping[str, Any]) -> None:
        """Keep what a study asks, as it is asked now."""

        def work(connection: Connection) -> None:
            text = canonical_json(dict(content))
            kept = update(studies).where(studies.c.name == name).values(content=text)
            if not connection.execute(kept).rowcount:
                connection.execute(insert(studies).values({"name": name, "content": text, "added": now()}))

        self._writer.run(work)

    def study(self, name: str) -> dict[str, Any] | None:
        """What a study asks; `None` where it has not begun."""
        found = self._store._one(select(studies.c.content).where(studies.c.name == name))
        return None if found is None else dict(read_json(found))

    def add_items(self, found: Iterable[Item]) -> int:
        """Add items to a study; those that it has stay. Returns how many are new.

        Raises:
            BadInput: The store has no such conversation or turn.
        """
        rows = [_item_row(each) for each in found]

        def work(connection: Connection) -> int:
            for row in rows:
                _check_there(connection, row)
            return self._store._add(connection, items, rows)

        return self._writer.run(work)

    def items(self, study: str, round: int | None = None) -> list[Item]:
        """The items of a study, or of one round of it, in the order of the draw."""
        query = select(items).where(items.c.study == study).order_by(items.c.round, items.c.place, items.c.key)
        if round is not None:
            query = query.where(items.c.round == round)
        return [_item(row) for row in self._store._stream(query)]

    def rounds(self, study: str) -> int:
        """The last round of a study that has items; 0 where none has."""
        return self._store._one(select(func.max(items.c.round)).where(items.c.study == study)) or 0

    # --- who has what -------------------------------------------------------------------------------------------

    def take(
        self, study: str, round: int, person: str, per_item: int, until: str, choose: Choose = lambda found: found[0]
    ) -> Assignment | None:
        """What somebody is to rate next: what it is at already, else one of the items that still want somebody.

        An item that somebody began and left longer than its lease is anybody's again, as long as it wants somebody.

        Args:
            study: Its name.
            round: Its round.
            person: For whom.
            per_item: How many people an item wants.
            until: How long it stays theirs (UTC).
            choose: Which of the items, given in the order of the draw.

        Returns:
            The assignment; `None` where nothing is left for this person.
        """

        def work(connection: Connection) -> Assignment | None:
            self._alone(connection, f"take {study}")
            for each in _assignments(connection, _of(study, person), assignments.c.state == "open"):
                if each.item.round != round:
                    continue
                if each.until >= now() or _taken(connection, each.item.key, each.id) < per_item:
                    return _renewed(connection, each, until)
            found = _candidates(connection, study, round, person, per_item)
            if not found:
                return None
            item = choose(found).item
            made = Assignment(secrets.token_urlsafe(18), item, person, "open", 0, until, None, now(), None)
            connection.execute(insert(assignments).values(_assignment_row(made)))
            return made

        return self._writer.run(work)

    def assignment(self, id: str) -> Assignment | None:
        """The assignment with this id."""
        with self._reading() as connection:
            return next(iter(_assignments(connection, assignments.c.id == id)), None)

    def mine(self, study: str, person: str) -> list[Assignment]:
        """Everything somebody was given in a study, the last first."""
        with self._reading() as connection:
            return _assignments(connection, _of(study, person))[::-1]

    def left(self, study: str, round: int, person: str, per_item: int) -> int:
        """How many items somebody could still be given."""
        with self._reading() as connection:
            waiting = _waiting(study, round, person, per_item).subquery()
            return connection.execute(select(func.count()).select_from(waiting)).scalar() or 0

    def everything(self, study: str) -> list[Assignment]:
        """Everything that anybody was given in a study, the first first."""
        with self._reading() as connection:
            return _assignments(connection, assignments.c.study == study)

    def move(self, id: str, person: str, state: State, stage: int, until: str, reason: str | None = None) -> Assignment:
        """Finish an item, skip it for a reason, come back to it, or go on to its next stage.

        Raises:
            BadInput: There is no such assignment of this person.
            Conflict: A stage that is behind.
        """

        def work(connection: Connection) -> Assignment:
            found = self._own(connection, id, person)
            if stage < found.stage:
                raise Conflict("that stage is behind; what was answered there stays as it was")
            ended = None if state == "open" else now()
            changed = replace(found, state=state, stage=stage, until=until, reason=reason, ended=ended)
            row = _assignment_row(changed)
            connection.execute(update(assignments).where(assignments.c.id == id).values(row))
            return changed

        return self._writer.run(work)

    def _own(self, connection: Connection, id: str, person: str) -> Assignment:
        """The assignment, which nobody else writes to until this transaction ends."""
        if connection.dialect.name == "postgresql":
            connection.execute(select(assignments.c.id).where(assignments.c.id == id).with_for_update())
        found = next(iter(_assignments(connection, assignments.c.id == id, assignments.c.person == person)), None)
        if found is None:
            raise BadInput("this page is not yours, or is gone; go back to the list of studies")
        return found

    # --- what is said -------------------------------------------------------------------------------------------

    def keep(
        self, id: str, person: str, said: Callable[[Assignment], Annotation], per_item: int, until: str
    ) -> tuple[Annotation, bool]:
        """Keep an answer. The same again changes nothing, whenever it comes.

        A question has one answer per assignment: another one replaces it, and the first stays in the history. Of marks
        (`issue:KIND`) there may be several; one that `replaces` another and has no value takes it back.

        Args:
            id: The assignment.
            person: Whose it has to be.
            said: What that person said of it, with the `answer` that its page made for it.
            per_item: How many people an item wants: one whose lease is over goes on where nobody took its place.
            until: The lease from now on.

        Returns:
            What is kept, and whether it was kept before.

        Raises:
            LeaseExpired: Others have completed it in the meantime; nothing is kept.
            Conflict: The id was used for something else, or what it replaces was replaced already.
            BadInput: There is no such assignment of this person, or `said` refuses it.
        """

        def work(connection: Connection) -> tuple[Annotation, bool]:
            found = self._own(connection, id, person)
            new = said(found)
            history = said_of(connection, new, history=True, alike=True)
            known = next((each for each in history if each.answer == new.answer), None)
            if known is not None:
                return again(known, new), True
            if found.state == "open":
                if found.until < now() and _taken(connection, found.item.key, id) >= per_item:
                    raise LeaseExpired("this was open for too long; others have answered it, and your text stays here")
                if found.until < soon(until):
                    _renewed(connection, found, until)
            new = replace(new, time=now(), replaces=replaced(new, standing(history)))
            last = select(func.coalesce(func.max(annotated.c.place), 0) + 1).where(annotated.c.kind == PERSON)
            row = {**annotation_row(new, AnnotationKeys().of(new), 0, now()), "place": last.scalar_subquery()}
            if not connection.execute(self._store._insert(annotated).values(row).on_conflict_do_nothing()).rowcount:
                raise Conflict("this answer's id was used for another answer; load the page and answer again")
            return new, False

        return self._writer.run(work)

    def said_in(self, assignment: Assignment, history: bool = False) -> list[Annotation]:
        """What somebody said of an item, in that order: the last of each, or all of it."""
        item = assignment.item
        about = Annotation(item.target, "", assignment.person, "person", against=item.against, study=item.where)
        with self._reading() as connection:
            return said_of(connection, about, history)

    def answers(self, study: str, first: bool = False, question: str | None = None) -> list[Annotation]:
        """What everybody said in a study, its rounds, its repeats and its adjudications, in that order.

        Args:
            study: Its name.
            first: What was said at first, before its author changed anything; else what stands.
            question: Only answers to this question.
        """
        names = sorted(
            {side.conversation for item in self.items(study) for side in (item.target, item.against) if side}
        )
        which = annotated.c.replaces.is_(None) if first else last_said()
        which = which if question is None else and_(which, annotated.c.question == question)
        found: list[Annotation] = []
        for batch in batches(names, BATCH):
            query = select(annotated).where(annotated.c.conversation.in_(batch), annotated.c.answer.is_not(None), which)
            rows = self._store._stream(query.order_by(annotated.c.place, annotated.c.key))
            found += [annotation_from(row) for row in rows if row.kind == PERSON]
        return [each for each in found if each.study == study or each.study.startswith(f"{study}/")]

    def adjudicate(self, said: Annotation) -> Annotation:
        """Keep a lead's answer about an item beside everybody's; another one replaces the lead's own alone.

        Args:
            said: Of the study `NAME/adjudicated`, with the `answer` that its page made; the same changes nothing.

        Raises:
            Conflict: The id was used for something else.
        """

        def work(connection: Connection) -> Annotation:
            row = connection.execute(select(annotated).where(annotated.c.answer == said.answer)).first()
            if row is not None:
                known = annotation_from(row)
                if not is_same(known, said):
                    raise Conflict(
                        "this answer's id was used for another answer; load the page and answer again", known
                    )
                return known
            mine = [each for each in said_of(connection, said) if each.question == said.question]
            new = replace(said, time=now(), replaces=mine[-1].answer if mine else "")
            place = connection.execute(select(func.max(annotated.c.place)).where(annotated.c.kind == PERSON)).scalar()
            connection.execute(
                insert(annotated).values(annotation_row(new, AnnotationKeys().of(new), (place or 0) + 1, now()))
            )
            return new

        return self._writer.run(work)

    # --- predictions --------------------------------------------------------------------------------------------

    def add_predictions(self, found: Iterable[Prediction]) -> int:
        """Keep what an evaluator expects; the first of each stays. Returns how many are new."""
        rows = [
            {**each._asdict(), "content": canonical_json(dict(each.distribution))} for each in found
        ]  # fmt: skip
        for row in rows:
            del row["distribution"]
        return self._writer.run(lambda connection: self._store._add(connection, predictions, rows))

    def predictions(self, study: str, person: str | None = None) -> list[Prediction]:
        """What was expected in a study, in the order it was made."""
        query = select(predictions).join(items, items.c.key == predictions.c.item).where(items.c.study == study)
        if person is not None:
            query = query.where(predictions.c.person == person)
        return [
            Prediction(row.item, row.person, row.question, row.evaluator, read_json(row.content), row.made)
            for row in self._store._stream(query.order_by(predictions.c.made))
        ]

    # --- the database -------------------------------------------------------------------------------------------

    def _reading(self) -> Any:
        return self._store._engine.connect().execution_options(reading=True)

    def _alone(self, connection: Connection, about: str) -> None:
        """Nobody else does the same at this time; SQLite has one writer anyhow."""
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(about, 0))))


def assign(connection: Connection, item: Item, person: str, until: str) -> Assignment:
    """Give somebody an item of their own within a transaction; where they have it already, as it is."""
    there = _assignments(connection, assignments.c.item == item.key, assignments.c.person == person)
    if there:
        return there[0]
    if not connection.execute(select(items.c.key).where(items.c.key == item.key)).first():
        connection.execute(insert(items).values(_item_row(item)))
    made = Assignment(secrets.token_urlsafe(18), item, person, "open", 0, until, None, now(), None)
    connection.execute(insert(assignments).values(_assignment_row(made)))
    return made


def _of(study: str, person: str) -> ColumnElement[bool]:
    return and_(assignments.c.study == study, assignments.c.person == person)


def _assignments(connection: Connection, *conditions: ColumnElement[bool]) -> list[Assignment]:
    own = [column.label("a_" + column.name) for column in assignments.c]
    query = select(*own, *items.c).join(items, items.c.key == assignments.c.item).where(*conditions)
    found = connection.execute(query.order_by(assignments.c.began, assignments.c.id)).all()
    return [
        Assignment(
            row.a_id, _item(row), row.a_person, row.a_state, row.a_stage, row.a_until, row.a_reason, row.a_began,
            row.a_ended,
        )
        for row in found
    ]  # fmt: skip


def _counts() -> ColumnElement[bool]:
    """Whether an assignment takes one of an item's places: it is done, or its lease runs."""
    return or_(assignments.c.state == "done", and_(assignments.c.state == "open", assignments.c.until >= now()))


def _taken(connection: Connection, item: str, besides: str) -> int:
    query = select(func.count()).where(assignments.c.item == item, assignments.c.id != besides, _counts())
    return connection.execute(query).scalar() or 0


def _waiting(study: str, round: int, person: str, per_item: int) -> Select[Any]:
    """The items that somebody never had and that want somebody, each with how many are `taken`."""
    taken = func.count(assignments.c.id)
    had = select(assignments.c.id).where(assignments.c.item == items.c.key, assignments.c.person == person)
    return (
        select(*items.c, taken.label("taken"))
        .outerjoin(assignments, and_(assignments.c.item == items.c.key, _counts()))
        .where(items.c.study == study, items.c.round == round, or_(items.c.person.is_(None), items.c.person == person))
        .where(~had.correlate(items).exists())
        .group_by(*items.c)
        .having(taken < per_item)
    )


def _candidates(connection: Connection, study: str, round: int, person: str, per_item: int) -> list[Candidate]:
    query = _waiting(study, round, person, per_item).order_by(items.c.place, items.c.key)
    return [Candidate(_item(row), row.taken) for row in connection.execute(query)]


def _renewed(connection: Connection, found: Assignment, until: str) -> Assignment:
    connection.execute(update(assignments).where(assignments.c.id == found.id).values(until=until))
    return replace(found, until=until)


def _check_there(connection: Connection, row: Mapping[str, Any]) -> None:
    for name, turn in ((row["conversation"], row["turn"]), (row["against"], row["against_turn"])):
        if name is None:
            continue
        count = connection.execute(select(conversations.c.turns).where(conversations.c.id == name)).scalar()
        if count is None or (turn is not None and not 0 <= turn < count):
            raise BadInput(unknown_target(Annotation(Target(name, turn), "", "the study", "person")))


def _item_row(item: Item) -> dict[str, str | int | None]:
    against = item.against or Target(None, None)  # type: ignore[arg-type]
    return {
        "key": item.key, "study": item.study, "round": item.round, "place": item.place, "kind": item.kind,
        "conversation": item.target.conversation, "turn": item.target.turn, "against": against.conversation,
        "against_turn": against.turn, "person": item.person,
    }  # fmt: skip


def _item(row: Any) -> Item:
    against = None if row.against is None else Target(row.against, row.against_turn)
    target = Target(row.conversation, row.turn)
    return Item(row.study, row.round, row.place, row.kind, target, against, row.person)


def _assignment_row(each: Assignment) -> dict[str, str | int | None]:
    return {
        "id": each.id, "item": each.item.key, "study": each.item.study, "person": each.person, "state": each.state,
        "stage": each.stage, "until": each.until, "reason": each.reason, "began": each.began, "ended": each.ended,
    }  # fmt: skip
