"""Imports: the rows that each import added, and undoing an import.

Rows of conversations and annotations name the part of the import that added them: its ID and the place of the file
among the import's files. An import that repeats a stored row confirms it. Undoing an import
removes its labels and conversations, except those that another import confirms: they pass to that import. Answers from
pages and answers of models are never removed, and neither are conversations with such ratings.
"""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Engine, Table, and_, delete, exists, func, or_, select, true, update
from sqlalchemy.exc import SQLAlchemyError

from accord.edges import AccordError, BadInput, UnknownName, count_of
from accord.store.engine import database_errors, read_json
from accord.store.import_parts import IMPORT, KEYS, RUNNING, UNDONE, ImportPart, check_running, lock_imports, part_name
from accord.store.request_claims import LEASE_SECONDS, Claims
from accord.store.schema import annotation_table, assignments, confirmations, conversations, items, predictions, runs
from accord.store.store import Store
from accord.values import canonical_json

SHORTEST_ID = 4
"""Minimum length of an abbreviated ID."""
INTERRUPTED, _WRITTEN = "interrupted", "written"
RENEWALS = 4
"""Renewals of the claim on an import in progress while one lease lasts."""


class RemovedCounts(NamedTuple):
    """Counts of an undone import: removed labels and conversations, and rows that stay.

    Rows stay because another import confirms them (`confirmed`), because of other ratings or a study
    (`kept_conversations`), or because a model made them (`kept_answers`).
    """

    labels: int = 0
    conversations: int = 0
    confirmed: int = 0
    kept_conversations: int = 0
    kept_answers: int = 0

    def plus(self, other: RemovedCounts) -> RemovedCounts:
        """Return the sum of two counts."""
        return RemovedCounts(*(first + second for first, second in zip(self, other, strict=True)))


class ImportRecord(NamedTuple):
    """A recorded import: its ID, start (UTC, ISO), files and counts of rows.

    Its status is `done`, `failed`, `interrupted`, `running` or `undone`; `undone` has the places of files whose rows
    were removed. `claim` is the key of the claim that a running import renews, `process` its machine and process ID.
    """

    id: str
    started: str
    status: str
    files: tuple[str, ...]
    undone: tuple[int, ...]
    results: Mapping[str, Any]
    claim: str = ""
    process: str = ""

    def is_alive(self, held: Collection[str]) -> bool:
        """Return True if a running import's claim is valid and its process is not known to have ended."""
        return self.claim in held and not _has_ended(self.process)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, except the fields about its writer."""
        fields = {**self._asdict(), "files": list(self.files), "undone": list(self.undone)}
        return {name: value for name, value in fields.items() if name not in {"claim", "process"}}


class ImportRun:
    """An import in progress.

    Attributes:
        id: Its ID; None after an import that added and confirmed no row.
        results: Counts, stored when the import ends.
    """

    def __init__(self, store: Store, name: str, files: Sequence[str], earlier: Sequence[ImportRecord]) -> None:
        self.id: str | None = name
        self.results: dict[str, Any] = {}
        self._store, self._name, self._files, self._earlier = store, name, files, earlier

    def begin(self, place: int) -> None:
        """Assign the following rows to the file at a place."""
        older = tuple(
            part_name(record.id, at)
            for record in self._earlier
            for at, path in enumerate(record.files)
            if path == self._files[place]
        )
        part = ImportPart(part_name(self._name, place), older)
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            check_running(connection, part)  # rows that are read from here on stay while the import runs
        self._store.import_part = part


class Imports:
    """Imports of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def recording(self, files: Sequence[str | Path]) -> Iterator[ImportRun]:
        """Record an import; one that adds and confirms no row, and reads no answer of a judge, leaves no record.

        Other processes cannot undo it until the block ends or this process has died.
        """
        store, paths, earlier = self._store, [str(Path(file).absolute()) for file in files], self.known()
        try:
            with _claimed(store) as claim, store.run(IMPORT, {"files": paths, **claim}) as run:
                recording = ImportRun(store, run.id, paths, earlier)
                try:
                    yield recording
                except BaseException:
                    run.results.update(self._added(run.id, len(paths)))
                    raise
                finally:
                    store.import_part = None
                    run.results.update(recording.results)
        except BadInput:
            self._forget_empty(recording, len(paths))
            raise
        self._forget_empty(recording, len(paths))

    def _forget_empty(self, recording: ImportRun, files: int) -> None:
        """Delete the record of an import that added and confirmed no row, and read no answer of a judge."""
        name, has_answers = recording.id, recording.results.get("judges")
        if name is None or has_answers or self._has_rows([part_name(name, place) for place in range(files)]):
            return
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            connection.execute(delete(runs).where(runs.c.id == recording.id, runs.c.status != UNDONE))
        recording.id = None

    def _has_rows(self, parts: Sequence[str]) -> bool:
        """Return True if parts of an import added or confirmed a row."""
        columns = [*(table.c["imported"] for table in KEYS), confirmations.c["import"]]
        return any(self._store._one(select(column).where(column.in_(parts)).limit(1)) for column in columns)

    def _added(self, name: str, files: int) -> dict[str, Any]:
        """Return the numbers of conversations and labels that an import has added so far."""
        parts = [part_name(name, place) for place in range(files)]
        rows = select(func.count()).where(conversations.c.imported.in_(parts))
        labels = select(func.count()).where(annotation_table.c.imported.in_(parts), annotation_table.c.kind == "person")
        return {kind: {"new": self._store._one(query)} for kind, query in (("conversations", rows), ("labels", labels))}

    def known(self) -> list[ImportRecord]:
        """Return all imports, the oldest first; a running one whose process has died is `interrupted`."""
        records = [_recorded(row) for row in self._store._stream(_IMPORTS)]
        running = [record for record in records if record.status == RUNNING]
        held = Claims(self._store).held([record.claim for record in running if record.claim]) if running else set()
        return [
            record._replace(status=INTERRUPTED) if record in running and not record.is_alive(held) else record
            for record in records
        ]

    def find(self, name: str | None = None) -> ImportRecord:
        """Return an import by its ID or the start of its ID; by default, the last import that is not undone.

        Raises:
            BadInput: The store has no imports, or several IDs begin with the name.
            UnknownName: No ID begins with the name.
        """
        records = [record for record in self.known() if record.status != UNDONE]
        if name is None:
            if not records:
                raise BadInput("there is no import to undo. To see all imports: accord import --list")
            return records[-1]
        is_long = len(name) >= SHORTEST_ID
        matches = [record for record in records if record.id == name or (is_long and record.id.startswith(name))]
        if not matches:
            raise UnknownName(IMPORT, name, [record.id for record in records])
        if len(matches) > 1:
            ids = ", ".join(record.id for record in matches)
            raise BadInput(f"{len(matches)} imports begin with {name!r}: {ids}; name one")
        return matches[0]

    def note_files(self, name: str, written: Mapping[str, str]) -> None:
        """Record the files that an import wrote next to the project file: paths with the hashes of their contents."""
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            results = connection.execute(select(runs.c.results).where(runs.c.id == name)).scalar()
            results = {**read_json(results or "{}"), _WRITTEN: dict(written)}
            connection.execute(update(runs).where(runs.c.id == name).values(results=canonical_json(results)))

    def files_of(self, record: ImportRecord) -> dict[str, str]:
        """Return the files that an import wrote and no other import that is not undone wrote too, with their hashes."""
        others = (each.results for each in self.known() if each.id != record.id and each.status != UNDONE)
        kept = {path for results in others for path in results.get(_WRITTEN, ())}
        return {path: made for path, made in record.results.get(_WRITTEN, {}).items() if path not in kept}

    def undo(self, name: str | None = None) -> tuple[ImportRecord, RemovedCounts]:
        """Remove the rows of one import in one transaction; by default, of the last import.

        Raises:
            BadInput: There is no such import, or an import is running.
        """
        record = self.find(name)
        places = [place for place in range(len(record.files)) if place not in record.undone]
        return record, self._undo(record, places)

    @contextmanager
    def replacing(self, files: Sequence[str | Path]) -> Iterator[RemovedCounts]:
        """Undo the last import of each of these files while the block reads them again, all in one transaction.

        A file is found by its path, or else by its name. Its conversations are removed even if they have labels of
        other imports, because the block adds them again; if it does not, or fails, the store stays unchanged.

        Raises:
            BadInput: Files of the same name were imported from several folders, labels would lose their target, or an
                import is running.
        """
        with one_transaction(self._store):
            removed = RemovedCounts()
            for file in files:
                for record, place in self._last_of(Path(file)):
                    removed = removed.plus(self._undo(record, [place], replaces=True))
            yield removed
            if lost := self._store._one(select(func.count()).select_from(_lost_labels())):
                raise BadInput(
                    f"{count_of(lost, 'label')} of other imports {'is' if lost == 1 else 'are'} about conversations or "
                    "turns that the new files lack; nothing was replaced. "
                    "Name the corrected files of labels too: accord import --replace FILES"
                )

    def _last_of(self, file: Path) -> list[tuple[ImportRecord, int]]:
        """Return the last import of a file with its place; an empty list if it was never imported."""
        imports = [
            (record, place, path)
            for record in self.known()
            for place, path in enumerate(record.files)
            if Path(path).name == file.name and place not in record.undone and record.status != UNDONE
        ]
        exact = [entry for entry in imports if entry[2] == str(file.absolute())]
        folders = {path for *_, path in imports}
        if not exact and len(folders) > 1:
            raise BadInput(
                f"files called {file.name} were imported from several folders: {', '.join(sorted(folders))}. Undo the "
                "wrong import by its ID, then import again: accord import --list"
            )
        return [(record, place) for record, place, _ in (exact or imports)[-1:]]

    def _undo(self, record: ImportRecord, places: Sequence[int], replaces: bool = False) -> RemovedCounts:
        undone = tuple(sorted({*record.undone, *places}))
        change: dict[str, Any] = {"settings": canonical_json({"files": list(record.files), "undone": list(undone)})}
        if len(undone) == len(record.files):
            change["status"] = UNDONE
        parts = [part_name(record.id, place) for place in places]
        with self._alone() as (connection, known):
            before = [part_name(other.id, place) for other in known for place in other.undone]
            if all(other != record for other in known):
                raise BadInput(f"import {record.id} has just changed. To see all imports: accord import --list")
            removed = _removed(connection, parts, [*before, *parts], replaces)
            connection.execute(update(runs).where(runs.c.id == record.id).values(**change))
        return removed

    @contextmanager
    def _alone(self) -> Iterator[tuple[Connection, list[ImportRecord]]]:
        """Yield a transaction during which no import writes, and all imports.

        Imports whose process has died are stored as `interrupted`, so that one that still writes stops.

        Raises:
            BadInput: An import is running.
        """
        dead = {record.id for record in self.known() if record.status == INTERRUPTED}
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            lock_imports(connection)
            is_running = and_(runs.c.status == RUNNING, runs.c.id.in_(dead))
            connection.execute(update(runs).where(is_running).values(status=INTERRUPTED))
            known = [_recorded(row) for row in connection.execute(_IMPORTS).all()]
            if running := [record.id for record in known if record.status == RUNNING]:
                raise BadInput(
                    f"import {running[0]} is running, so nothing was changed. Wait until it ends, or stop it. "
                    f"If its process was killed on another machine, try again in {LEASE_SECONDS:.0f} seconds"
                )
            yield connection, known

    def remove_orphans(self) -> Orphans:
        """Remove the rows that undone imports left, and imported labels without a conversation.

        Raises:
            BadInput: An import is running.
        """
        with self._alone() as (connection, known):
            undone = [part_name(record.id, place) for record in known for place in record.undone]
            removed = _removed(connection, undone, undone, replaces=False)
            _, is_lost = _orphaned(undone)
            lost = connection.execute(delete(annotation_table).where(is_lost)).rowcount
        return Orphans(removed.conversations, removed.labels + lost)


_IMPORTS = select(runs).where(runs.c.command == IMPORT).order_by(runs.c.started, runs.c.id)


def _recorded(row: Any) -> ImportRecord:
    settings, results = read_json(row.settings), read_json(row.results or "{}")
    files, undone = tuple(settings["files"]), tuple(settings.get("undone", ()))
    writer = settings.get("claim", ""), settings.get("process", "")
    return ImportRecord(row.id, row.started, row.status, files, undone, results, *writer)


# --- claims ---------------------------------------------------------------------------------------------------------


@contextmanager
def _claimed(store: Store) -> Iterator[dict[str, str]]:
    """Claim an import until the block ends, and yield the claim's key and the process as settings of its run.

    A thread renews the claim. An import in one transaction is invisible to other processes and needs no claim.
    """
    if isinstance(store._engine, _Joined):
        yield {}
        return
    claims, key, ended = Claims(store), f"import {uuid.uuid4().hex}", Event()
    claims.exchange((), [key])

    def renew() -> None:
        while not ended.wait(LEASE_SECONDS / RENEWALS):
            with suppress(AccordError, SQLAlchemyError):  # the next renewal may succeed
                claims.exchange((), (), renew=True)

    thread = Thread(target=renew, name="accord-import-claim", daemon=True)
    thread.start()
    try:
        yield {"claim": key, "process": f"{platform.node()} {os.getpid()}"}
    finally:
        ended.set()
        thread.join()
        with suppress(AccordError):
            claims.exchange([key], ())


def _has_ended(process: str) -> bool:
    """Return True if a process of this machine has ended; False for other machines and systems without signals."""
    host, _, number = process.rpartition(" ")
    if os.name != "posix" or host != platform.node() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


# --- rows ----------------------------------------------------------------------------------------------------------


def _removed(connection: Connection, parts: Sequence[str], undone: Sequence[str], replaces: bool) -> RemovedCounts:
    """Remove the rows of some parts, and unused conversations of parts that were undone before."""
    connection.execute(delete(confirmations).where(confirmations.c["import"].in_(undone)))
    confirmed = sum(_passed_on(connection, table, undone) for table in KEYS)
    is_in_parts = annotation_table.c.imported.in_(parts)
    labels = connection.execute(
        delete(annotation_table).where(is_in_parts, annotation_table.c.kind == "person")
    ).rowcount
    answers = connection.execute(update(annotation_table).where(is_in_parts).values(imported=None)).rowcount
    is_undone = conversations.c.imported.in_(undone)
    is_counted = annotation_table.c.imported.is_(None) if replaces else true()  # the block adds the conversation again
    removed = connection.execute(delete(conversations).where(is_undone, ~_in_use(is_counted))).rowcount
    kept = select(func.count()).select_from(conversations).where(conversations.c.imported.in_(parts))
    if removed and not replaces:
        _remove_items(connection)
    return RemovedCounts(labels, removed, confirmed, connection.execute(kept).scalar() or 0, answers)


def _passed_on(connection: Connection, table: Table, undone: Sequence[str]) -> int:
    """Assign rows of undone imports to an import that confirms them, and return their number."""
    confirms = and_(confirmations.c.key == table.c[KEYS[table]], confirmations.c.table_name == table.name)
    heir = select(func.min(confirmations.c["import"])).where(confirms).scalar_subquery()
    passed = update(table).where(table.c["imported"].in_(undone), exists().where(confirms)).values(imported=heir)
    return connection.execute(passed).rowcount


def _in_use(is_counted: Any) -> Any:
    """Return the condition that a conversation has a rating that counts, or an assignment in a study."""
    name, is_rating = conversations.c.id, and_(annotation_table.c.kind == "person", is_counted)
    is_assigned = assignments.c.item == items.c.key
    return or_(
        exists().where(is_rating, annotation_table.c.conversation == name),
        name.in_(select(annotation_table.c.against).where(is_rating, annotation_table.c.against.is_not(None))),
        name.in_(select(items.c.conversation).where(is_assigned)),
        name.in_(select(items.c.against).where(is_assigned, items.c.against.is_not(None))),
    )


def _lost_labels() -> Any:
    """Return a query for imported labels whose conversation or turn is missing."""
    of, label = conversations.c, annotation_table.c
    has_turn = or_(label.turn.is_(None), of.turns == 0, label.turn < of.turns)
    is_there = exists().where(of.id == label.conversation, has_turn)
    is_lost = or_(~is_there, and_(label.against.is_not(None), label.against.not_in(select(of.id))))
    return select(label.key).where(label.kind == "person", label.imported.is_not(None), is_lost).subquery()


def _remove_items(connection: Connection) -> None:
    """Remove unassigned items of studies whose conversations are gone, and their predictions."""
    known = select(conversations.c.id)
    gone = or_(items.c.conversation.not_in(known), and_(items.c.against.is_not(None), items.c.against.not_in(known)))
    lost = and_(gone, ~exists().where(assignments.c.item == items.c.key))
    connection.execute(delete(predictions).where(predictions.c.item.in_(select(items.c.key).where(lost))))
    connection.execute(delete(items).where(lost))


# --- orphans --------------------------------------------------------------------------------------------------------


class Orphans(NamedTuple):
    """Rows that belong to nothing: of undone imports, and imported labels without a conversation or turn."""

    conversations: int
    labels: int


def _orphaned(undone: Sequence[str]) -> tuple[Any, Any]:
    """Return the conditions of orphaned conversations and labels."""
    label, of = annotation_table.c, conversations.c
    is_left = and_(label.imported.in_(undone), ~_is_confirmed(annotation_table, undone))
    is_counted = or_(label.imported.is_(None), ~is_left)
    is_unused = and_(of.imported.in_(undone), ~_in_use(is_counted), ~_is_confirmed(conversations, undone))
    is_lost = label.key.in_(select(_lost_labels().c.key))
    return is_unused, and_(label.kind == "person", or_(is_left, is_lost))


def _is_confirmed(table: Table, undone: Sequence[str]) -> Any:
    """Return the condition that an import that is not undone confirms a row."""
    of = confirmations.c
    return exists().where(of.key == table.c[KEYS[table]], of.table_name == table.name, of["import"].not_in(undone))


def find_orphans(connection: Connection) -> Orphans:
    """Count the rows that `Imports.remove_orphans` removes."""
    records = [_recorded(row) for row in connection.execute(_IMPORTS).all()]
    undone = [part_name(record.id, place) for record in records for place in record.undone]
    conditions = zip((conversations, annotation_table), _orphaned(undone), strict=True)
    counts = [select(func.count()).select_from(table).where(condition) for table, condition in conditions]
    return Orphans(*(connection.execute(query).scalar() or 0 for query in counts))


# --- one transaction -------------------------------------------------------------------------------------------------


@contextmanager
def one_transaction(store: Store) -> Iterator[None]:
    """Run all reads and writes of a store in one transaction; an error rolls it back."""
    engine = store._engine
    with database_errors(store.url), engine.begin() as connection:
        store._engine = cast(Engine, _Joined(engine, connection))
        try:
            yield
        finally:
            store._engine = engine


class _Joined:
    """An engine with a single connection and transaction."""

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self.dialect, self.url, self.pool = engine.dialect, engine.url, engine.pool
        self._connection = connection

    def begin(self) -> AbstractContextManager[Connection]:
        return _yielded(self._connection)

    def connect(self) -> AbstractContextManager[Any]:
        return _yielded(_Reader(self._connection))


class _Reader:
    """A connection for reading that stays open and reads all rows of a query at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execution_options(self, **_: Any) -> _Reader:
        return self

    def execute(self, query: Any) -> Any:
        return self._connection.execute(query).freeze()()

    def close(self) -> None:
        """Leave the connection open: the transaction uses it."""


@contextmanager
def _yielded(value: Any) -> Iterator[Any]:
    yield value
