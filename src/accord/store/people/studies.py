"""Studies: items, assignments with leases, answers and predictions.

An answer is an annotation with the ID that its page made, so that an answer sent twice is stored once. All decisions
about permissions are made inside the writing transaction, not by the page.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, or_, select, update

from accord.edges import BadInput
from accord.store.engine import read_json
from accord.store.erasure.tombstones import of_annotation
from accord.store.group_commit import Conflict, GroupWriter
from accord.store.people.accounts import UserAccounts
from accord.store.rows import (
    BATCH,
    ID_USED,
    PERSON,
    AnnotationKeys,
    annotation_from,
    annotation_row,
    answers_of,
    batches,
    current_answers,
    now,
    replaced_answer,
    same_answer,
)
from accord.store.schema import (
    annotation_table,
    assignments,
    is_current_answer,
    items,
    predictions,
    studies,
)
from accord.store.store import Store
from accord.store.targets import check_target
from accord.values import Annotation, Target, canonical_json, content_hash

State = Literal["open", "done", "skipped"]
ItemKind = Literal["plain", "gold", "check", "repeat"]


class LeaseExpired(Conflict):
    """The lease of an item expired, and other annotators have completed it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A unit of rating.

    Attributes:
        study, round: Its study and round, from 1.
        place: Its place in the sample, from 0.
        kind: `plain`; `gold` or `check` with a known answer; `repeat` for a second rating.
        target: A conversation, or a turn.
        against: The other conversation of a pair.
        person: The only annotator of the item. By default, all annotators rate it.
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
        """Hash of the item, equal for the same item sampled again."""
        fields = [self.study, self.round, *self.target, *(self.against or ()), self.kind == "repeat", self.person]
        return content_hash(fields, length=24)

    @property
    def where(self) -> str:
        """The study and the round as annotations name them; a second rating has a name of its own."""
        if self.kind == "repeat":
            return f"{self.study}/{self.round}/again"
        return self.study if self.round == 1 else f"{self.study}/{self.round}"


@dataclass(frozen=True, slots=True)
class Assignment:
    """An item of an annotator: open, done or skipped for a reason.

    `id` is random and known to its annotator only; `stage` counts from 0; answers extend the lease, which ends at
    `until` (UTC).
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
    """An item that can be assigned, and the number of annotators who have it or have answered it."""

    item: Item
    taken: int


Choose = Callable[[Sequence[Candidate]], Candidate]


class Prediction(NamedTuple):
    """Predicted probability of each option, stored before the annotator answers."""

    item: str
    person: str
    question: str
    evaluator: str
    distribution: Mapping[str, float]
    made: str


class Studies:
    """Studies of a store, for any number of threads, and on PostgreSQL of processes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = GroupWriter(store._engine, store.url)
        self.accounts = UserAccounts(store, self._writer)

    def close(self) -> None:
        """Finish waiting writes."""
        self._writer.close()

    # --- studies and items --------------------------------------------------------------------------------------

    def set_study(self, name: str, content: Mapping[str, Any]) -> None:
        """Store the settings of a study."""

        def work(connection: Connection) -> None:
            text = canonical_json(dict(content))
            change = update(studies).where(studies.c.name == name).values(content=text)
            if not connection.execute(change).rowcount:
                connection.execute(insert(studies).values({"name": name, "content": text, "added": now()}))

        self._writer.run(work)

    def study(self, name: str) -> dict[str, Any] | None:
        """Return the settings of a study, or `None` if the study has not begun."""
        content = self._store._one(select(studies.c.content).where(studies.c.name == name))
        return None if content is None else dict(read_json(content))

    def add_items(self, new: Iterable[Item]) -> int:
        """Add items to a study, and return the number of new ones.

        Raises:
            BadInput: The store has no such conversation or turn.
        """
        rows = [_item_row(item) for item in new]

        def work(connection: Connection) -> int:
            for row in rows:
                check_target(connection, row)
            return self._store._add(connection, items, rows)

        return self._writer.run(work)

    def items(self, study: str, round: int | None = None) -> list[Item]:
        """Return the items of a study, or of one of its rounds, in the order of the sample."""
        query = select(items).where(items.c.study == study).order_by(items.c.round, items.c.place, items.c.key)
        if round is not None:
            query = query.where(items.c.round == round)
        return [_item(row) for row in self._store._stream(query)]

    def rounds(self, study: str) -> int:
        """Return the last round of a study with items; 0 if there is none."""
        return self._store._one(select(func.max(items.c.round)).where(items.c.study == study)) or 0

    # --- assignments --------------------------------------------------------------------------------------------

    def take(
        self, study: str, round: int, person: str, per_item: int, until: str, choose: Choose = lambda found: found[0]
    ) -> Assignment | None:
        """Return an annotator's open assignment, or assign an item that fewer than `per_item` annotators have.

        An item whose lease has expired can be assigned to others, as long as it needs more annotators.

        Args:
            study: The study.
            round: The round.
            person: The annotator.
            per_item: Number of annotators per item.
            until: End of the lease (UTC).
            choose: Function that chooses one of the candidates, which have the order of the sample.

        Returns:
            The assignment, or `None` if no item is left for this annotator.
        """

        def work(connection: Connection) -> Assignment | None:
            self._lock(connection, f"take {study}")
            for assignment in _assignments(connection, _of(study, person), assignments.c.state == "open"):
                if assignment.item.round != round:
                    continue
                if assignment.until >= now() or _taken(connection, assignment.item.key, assignment.id) < per_item:
                    return _renewed(connection, assignment, until)
            query = _unfinished(study, round, person, per_item).order_by(items.c.place, items.c.key)
            candidates = [Candidate(_item(row), row.taken) for row in connection.execute(query)]
            return _new_assignment(connection, choose(candidates).item, person, until) if candidates else None

        return self._writer.run(work)

    def assignment(self, id: str) -> Assignment | None:
        """Return an assignment by its ID."""
        with self._reading() as connection:
            return next(iter(_assignments(connection, assignments.c.id == id)), None)

    def assignments_of(self, study: str, person: str) -> list[Assignment]:
        """Return an annotator's assignments in a study, the last first."""
        with self._reading() as connection:
            return _assignments(connection, _of(study, person))[::-1]

    def left(self, study: str, round: int, person: str, per_item: int) -> int:
        """Return the number of items that can still be assigned to an annotator."""
        with self._reading() as connection:
            unfinished = _unfinished(study, round, person, per_item).subquery()
            return connection.execute(select(func.count()).select_from(unfinished)).scalar() or 0

    def all_assignments(self, study: str) -> list[Assignment]:
        """Return all assignments of a study, the first first."""
        with self._reading() as connection:
            return _assignments(connection, assignments.c.study == study)

    def move(self, id: str, person: str, state: State, stage: int, until: str, reason: str | None = None) -> Assignment:
        """Finish an item, skip it for a reason, reopen it, or move to its next stage.

        Raises:
            BadInput: The annotator has no such assignment.
            Conflict: The stage precedes the current one.
        """

        def work(connection: Connection) -> Assignment:
            assignment = self._own(connection, id, person)
            if stage < assignment.stage:
                raise Conflict("that stage is finished; its answers stay as they are")
            ended = None if state == "open" else now()
            changed = replace(assignment, state=state, stage=stage, until=until, reason=reason, ended=ended)
            row = _assignment_row(changed)
            connection.execute(update(assignments).where(assignments.c.id == id).values(row))
            return changed

        return self._writer.run(work)

    def _own(self, connection: Connection, id: str, person: str) -> Assignment:
        """Return an annotator's assignment, locked against other writers until the transaction ends."""
        if connection.dialect.name == "postgresql":
            connection.execute(select(assignments.c.id).where(assignments.c.id == id).with_for_update())
        own = _assignments(connection, assignments.c.id == id, assignments.c.person == person)
        if not own:
            raise BadInput("this page is not yours, or is gone; go back to the list of studies")
        return own[0]

    # --- answers ------------------------------------------------------------------------------------------------

    def keep_each(
        self,
        new: Sequence[tuple[str, Callable[[Assignment], Annotation]]],
        person: str,
        per_item: int,
        until: str,
        stops: bool = False,
    ) -> list[tuple[Annotation, bool] | BadInput]:
        """Store answers of an annotator in order and in one transaction; a repeated one changes nothing.

        A question has one answer per assignment: a new one replaces it, and the old one stays in the history. Of marks
        (`issue:KIND`) there may be several; one that `replaces` another and has no value withdraws it.

        Args:
            new: Assignments, each with a function that validates the page's form inside the transaction and returns the
                answer, with the `answer` ID that the page made.
            person: Their annotator.
            per_item: Number of annotators per item; an expired lease is renewed if no other annotator took the item.
            until: End of the renewed lease (UTC).
            stops: True to store nothing after the first rejected answer.

        Returns:
            Each stored answer, and True if it was stored before; or the error of a rejected one: LeaseExpired if other
            annotators have completed the item, Conflict if the ID was used for another answer or the replaced answer
            was replaced already, BadInput if the annotator has no such assignment, or if the function raised it.
        """
        rejected: list[Exception] = []

        def work(id: str, read_answer: Callable[[Assignment], Annotation], connection: Connection) -> Any:
            if stops and rejected:
                raise Conflict("not saved, because an answer before this one was rejected")
            try:
                return self._keep(connection, id, person, read_answer, per_item, until)
            except BadInput as error:
                rejected.append(error)
                raise

        return self._writer.run_each([partial(work, *each) for each in new])

    def _keep(
        self,
        connection: Connection,
        id: str,
        person: str,
        read_answer: Callable[[Assignment], Annotation],
        per_item: int,
        until: str,
    ) -> tuple[Annotation, bool]:
        assignment = self._own(connection, id, person)
        new = read_answer(assignment)
        history = answers_of(connection, new, only_related=True)
        known = next((answer for answer in history if answer.answer == new.answer), None)
        if known is not None:
            return same_answer(known, new), True
        if assignment.state == "open":
            if assignment.until < now() and _taken(connection, assignment.item.key, id) >= per_item:
                raise LeaseExpired("this was open for too long; others have answered it, and your text stays here")
            if assignment.until < renewal_limit(until):
                _renewed(connection, assignment, until)
        new = replace(new, time=now(), replaces=replaced_answer(new, current_answers(history)))
        if not self._insert_answer(connection, new):
            raise Conflict(ID_USED)
        return new, False

    def _insert_answer(self, connection: Connection, answer: Annotation) -> int:
        """Insert an answer at the last place; return 0 if its ID exists."""
        last = select(func.coalesce(func.max(annotation_table.c.place), 0) + 1).where(annotation_table.c.kind == PERSON)
        row = {**annotation_row(answer, AnnotationKeys().of(answer), now()), "place": last.scalar_subquery()}
        if not self._store.without_erased(connection, [row], of_annotation):
            raise BadInput("this conversation, or your account, was erased; go back to the list of studies")
        return connection.execute(self._store._insert(annotation_table).values(row).on_conflict_do_nothing()).rowcount

    def answers_in(self, assignment: Assignment, history: bool = False) -> list[Annotation]:
        """Return the answers of an assignment in order: the current ones, or with `history` all."""
        item = assignment.item
        example = Annotation(item.target, "", assignment.person, "person", against=item.against, study=item.where)
        with self._reading() as connection:
            answers = answers_of(connection, example)
            return answers if history else current_answers(answers)

    def answers(self, study: str, first: bool = False, question: str | None = None) -> list[Annotation]:
        """Return the answers of a study, with its rounds, repeats and adjudications, in order.

        The answers are the current ones, or with `first` those before any change; with `question` those to one
        question.
        """
        names = sorted(
            {side.conversation for item in self.items(study) for side in (item.target, item.against) if side}
        )
        condition = annotation_table.c.replaces.is_(None) if first else is_current_answer()
        if question is not None:
            condition = and_(condition, annotation_table.c.question == question)
        query = select(annotation_table).where(annotation_table.c.answer.is_not(None), condition)
        query = query.order_by(annotation_table.c.place, annotation_table.c.key)
        answers: list[Annotation] = []
        for batch in batches(names, BATCH):
            rows = self._store._stream(query.where(annotation_table.c.conversation.in_(batch)))
            answers += [annotation_from(row) for row in rows if row.kind == PERSON]
        return [answer for answer in answers if answer.study == study or answer.study.startswith(f"{study}/")]

    def adjudicate(self, new: Sequence[Annotation]) -> list[Annotation]:
        """Store answers of the annotator `adjudicated` in the study `NAME/adjudicated`, in a single transaction.

        Each answer names in `replaces` the adjudication of its question that the page showed, if there was one.

        Raises:
            Conflict: Another adjudication was saved since then, or an ID was used for another answer.
        """

        def work(connection: Connection) -> list[Annotation]:
            return [self._adjudicate(connection, each) for each in new]

        return self._writer.run(work)

    def _adjudicate(self, connection: Connection, new: Annotation) -> Annotation:
        row = connection.execute(select(annotation_table).where(annotation_table.c.answer == new.answer)).first()
        if row is not None:
            return same_answer(annotation_from(row), new)
        history = [each for each in answers_of(connection, new) if each.question == new.question]
        current = [each.answer for each in current_answers(history)]
        if (current[-1] if current else "") != new.replaces:
            raise Conflict("somebody else has adjudicated this item since you opened it, so nothing was saved. Open "
                           "the item again")  # fmt: skip
        stored = replace(new, time=now())
        if not self._insert_answer(connection, stored):
            raise Conflict(ID_USED)
        return stored

    # --- predictions --------------------------------------------------------------------------------------------

    def add_predictions(self, new: Iterable[Prediction]) -> int:
        """Add predictions, of which the first stays, and return the number of new ones."""
        rows = [{**item._asdict(), "content": canonical_json(dict(item.distribution))} for item in new]
        for row in rows:
            del row["distribution"]
        return self._writer.run(lambda connection: self._store._add(connection, predictions, rows))

    def predictions(self, study: str, person: str | None = None) -> list[Prediction]:
        """Return the predictions of a study, for one annotator or all, in the order they were made."""
        query = select(predictions).join(items, items.c.key == predictions.c.item).where(items.c.study == study)
        if person is not None:
            query = query.where(predictions.c.person == person)
        return [
            Prediction(row.item, row.person, row.question, row.evaluator, read_json(row.content), row.made)
            for row in self._store._stream(query.order_by(predictions.c.made))
        ]

    # --- database access ----------------------------------------------------------------------------------------

    def _reading(self) -> Any:
        return self._store._engine.connect().execution_options(reading=True)

    def _lock(self, connection: Connection, name: str) -> None:
        """Exclude other transactions with the same name; SQLite has one writer anyway."""
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))


# --- rows -----------------------------------------------------------------------------------------------------------


def renewal_limit(until: str) -> str:
    """Return the time before which a lease is renewed until a later time: a minute less saves writes."""
    return (datetime.fromisoformat(until) - timedelta(minutes=1)).isoformat(timespec="milliseconds")


def assign(connection: Connection, item: Item, person: str, until: str) -> Assignment:
    """Assign an item to an annotator within a transaction, or return the existing assignment."""
    existing = _assignments(connection, assignments.c.item == item.key, assignments.c.person == person)
    if existing:
        return existing[0]
    if not connection.execute(select(items.c.key).where(items.c.key == item.key)).first():
        connection.execute(insert(items).values(_item_row(item)))
    return _new_assignment(connection, item, person, until)


def _new_assignment(connection: Connection, item: Item, person: str, until: str) -> Assignment:
    assignment = Assignment(secrets.token_urlsafe(18), item, person, "open", 0, until, None, now(), None)
    connection.execute(insert(assignments).values(_assignment_row(assignment)))
    return assignment


def _of(study: str, person: str) -> ColumnElement[bool]:
    return and_(assignments.c.study == study, assignments.c.person == person)


def _assignments(connection: Connection, *conditions: ColumnElement[bool]) -> list[Assignment]:
    query = select(assignments, items).join(items, items.c.key == assignments.c.item).where(*conditions)
    rows = connection.execute(query.order_by(assignments.c.began, assignments.c.id)).all()
    return [Assignment(row[0], _item(row[len(assignments.c) :]), *row[3 : len(assignments.c)]) for row in rows]


def _is_counted() -> ColumnElement[bool]:
    """Return the condition that an assignment is done or has a valid lease."""
    return or_(assignments.c.state == "done", and_(assignments.c.state == "open", assignments.c.until >= now()))


def _taken(connection: Connection, item: str, except_id: str) -> int:
    query = select(func.count()).where(assignments.c.item == item, assignments.c.id != except_id, _is_counted())
    return connection.execute(query).scalar() or 0


def _unfinished(study: str, round: int, person: str, per_item: int) -> Select[Any]:
    """Return the query for items that need more annotators and that an annotator never had, with `taken` counts."""
    taken = func.count(assignments.c.id)
    had = select(assignments.c.id).where(assignments.c.item == items.c.key, assignments.c.person == person)
    return (
        select(*items.c, taken.label("taken"))
        .outerjoin(assignments, and_(assignments.c.item == items.c.key, _is_counted()))
        .where(items.c.study == study, items.c.round == round, or_(items.c.person.is_(None), items.c.person == person))
        .where(~had.correlate(items).exists())
        .group_by(*items.c)
        .having(taken < per_item)
    )


def _renewed(connection: Connection, assignment: Assignment, until: str) -> Assignment:
    connection.execute(update(assignments).where(assignments.c.id == assignment.id).values(until=until))
    return replace(assignment, until=until)


def _item_row(item: Item) -> dict[str, str | int | None]:
    against = item.against or Target(None, None)  # type: ignore[arg-type]
    return {
        "key": item.key, "study": item.study, "round": item.round, "place": item.place, "kind": item.kind,
        "conversation": item.target.conversation, "turn": item.target.turn, "against": against.conversation,
        "against_turn": against.turn, "person": item.person,
    }  # fmt: skip


def _item(row: Sequence[Any]) -> Item:
    """Return the item of a row that begins with the columns of `items`."""
    _, study, round, place, kind, name, turn, other, other_turn, person, *_ = row
    against = None if other is None else Target(other, other_turn)
    return Item(study, round, place, kind, Target(name, turn), against, person)


def _assignment_row(assignment: Assignment) -> dict[str, str | int | None]:
    names = ("id", "person", "state", "stage", "until", "reason", "began", "ended")
    row = {name: getattr(assignment, name) for name in names}
    return {**row, "item": assignment.item.key, "study": assignment.item.study}
