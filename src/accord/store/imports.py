"""Imports: the rows that each one brought, and their removal.

Rows of conversations and annotations carry the part of the import that brought them: its id and the place of the file
among the import's files. A row that a later import finds already there is confirmed by that import. Undoing an import
removes its labels and conversations, except those that another import confirms: they pass to that import. Answers given
in the workbench and answers of models are never removed, and neither are conversations that such ratings are about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import Connection, Engine, Table, and_, delete, exists, func, or_, select, update

from accord.edges import BadInput, UnknownName, count_of
from accord.store.engine import database_errors, read_json
from accord.store.rows import TableRow
from accord.store.schema import annotated, assignments, confirmations, conversations, items, predictions, runs
from accord.values import canonical_json

if TYPE_CHECKING:
    from accord.store.store import Store

IMPORT = "import"
"""The command of a run that is an import."""
UNDONE = "undone"
SHORTEST_ID = 4
"""Characters of the beginning of an id that may stand for it."""
_KEYS: Mapping[Table, str] = {conversations: "id", annotated: "key"}


class RemovedCounts(NamedTuple):
    """Counts of an undone import.

    Attributes:
        labels, conversations: The rows that were removed.
        confirmed: Rows that stay because another import has them too.
        kept_conversations: Conversations that stay because of other ratings or a study.
        kept_answers: Answers of models that stay.
    """

    labels: int = 0
    conversations: int = 0
    confirmed: int = 0
    kept_conversations: int = 0
    kept_answers: int = 0

    def plus(self, other: RemovedCounts) -> RemovedCounts:
        """Add two counts."""
        return RemovedCounts(*(one + two for one, two in zip(self, other, strict=True)))


class ImportRecord(NamedTuple):
    """An import that the store knows.

    Attributes:
        id: Its id.
        started: Its start (UTC, ISO).
        status: `done`, `failed`, `interrupted`, `running` or `undone`.
        files: The files that were read.
        undone: Places of files whose rows were removed.
        results: Counts of the rows that it read.
    """

    id: str
    started: str
    status: str
    files: tuple[str, ...]
    undone: tuple[int, ...]
    results: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**self._asdict(), "files": list(self.files), "undone": list(self.undone)}


class Part(NamedTuple):
    """A file of an import under way: its name in the tables, and those of earlier imports of the same file."""

    name: str
    older: tuple[str, ...] = ()


class ImportRun:
    """An import under way.

    Attributes:
        id: Its id; `None` after an import that brought and confirmed nothing.
        results: The import's counts, stored when it ends.
    """

    def __init__(self, store: Store, name: str, files: Sequence[str], earlier: Sequence[ImportRecord]) -> None:
        self.id: str | None = name
        self.results: dict[str, Any] = {}
        self._store, self._name, self._files, self._earlier = store, name, files, earlier

    def begin(self, place: int) -> None:
        """Let the rows that follow belong to the file at this place."""
        older = tuple(
            _part(each.id, at)
            for each in self._earlier
            for at, path in enumerate(each.files)
            if path == self._files[place]
        )
        self._store.part = Part(_part(self._name, place), older)


class Imports:
    """The imports of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @contextmanager
    def recording(self, files: Sequence[str | Path]) -> Iterator[ImportRun]:
        """Record an import; one that brings and confirms nothing leaves no record."""
        store, paths, earlier = self._store, [str(Path(file).absolute()) for file in files], self.known()
        try:
            with store.run(IMPORT, {"files": paths}) as run:
                recording = ImportRun(store, run.id, paths, earlier)
                try:
                    yield recording
                finally:
                    store.part = None
                    run.results.update(recording.results)
        except BadInput:
            self._forget_empty(recording, len(paths))
            raise
        self._forget_empty(recording, len(paths))

    def _forget_empty(self, recording: ImportRun, files: int) -> None:
        """Delete the record of an import that brought and confirmed nothing."""
        if recording.id is None or self._has_rows([_part(recording.id, place) for place in range(files)]):
            return
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            connection.execute(delete(runs).where(runs.c.id == recording.id))
        recording.id = None

    def _has_rows(self, parts: Sequence[str]) -> bool:
        """Return True if parts of an import brought or confirmed a row."""
        columns = [*(table.c["imported"] for table in _KEYS), confirmations.c["import"]]
        return any(self._store._one(select(column).where(column.in_(parts)).limit(1)) for column in columns)

    def known(self) -> list[ImportRecord]:
        """Return all imports, the oldest first."""
        query = select(runs).where(runs.c.command == IMPORT).order_by(runs.c.started, runs.c.id)
        return [_recorded(row) for row in self._store._stream(query)]

    def find(self, name: str | None = None) -> ImportRecord:
        """Return an import by its id or the start of it; by default, the last import that is not undone.

        Raises:
            BadInput: There is no such import, or several ids begin so.
            UnknownName: No id begins so.
        """
        found = [each for each in self.known() if each.status != UNDONE]
        if name is None:
            if not found:
                raise BadInput("there is no import to undo. To see all imports: accord import --list")
            return found[-1]
        mine = [each for each in found if each.id == name or (len(name) >= SHORTEST_ID and each.id.startswith(name))]
        if not mine:
            raise UnknownName(IMPORT, name, [each.id for each in found])
        if len(mine) > 1:
            raise BadInput(f"{len(mine)} imports begin with {name!r}: {', '.join(each.id for each in mine)}; name one")
        return mine[0]

    def undo(self, name: str | None = None) -> tuple[ImportRecord, RemovedCounts]:
        """Remove the rows of one import in one transaction; by default, of the last import.

        Raises:
            BadInput: There is no such import.
        """
        found = self.find(name)
        places = [place for place in range(len(found.files)) if place not in found.undone]
        return found, self._undo(found, places)

    @contextmanager
    def replacing(self, files: Sequence[str | Path]) -> Iterator[RemovedCounts]:
        """Undo the last import of each of these files while the block reads them again, all in one transaction.

        A file is found by its path, or else by its name. Its conversations go even if labels of other imports are
        about them, since the block brings them back; if it does not, or fails, everything stays as it was.

        Raises:
            BadInput: Files of the same name were imported from several folders, or labels would lose their target.
        """
        with one_transaction(self._store):
            removed = RemovedCounts()
            for file in files:
                for found, place in self._last_of(Path(file)):
                    removed = removed.plus(self._undo(found, [place], replaces=True))
            yield removed
            if lost := self._store._one(select(func.count()).select_from(_lost_labels())):
                raise BadInput(
                    f"{count_of(lost, 'label')} of other imports {'is' if lost == 1 else 'are'} about conversations or "
                    "turns that the new files lack; nothing was replaced. "
                    "Name the corrected files of labels too: accord import --replace FILES"
                )

    def _last_of(self, file: Path) -> list[tuple[ImportRecord, int]]:
        """The last import of a file with its place; nothing if it was never imported."""
        known = [
            (each, place, path)
            for each in self.known()
            for place, path in enumerate(each.files)
            if Path(path).name == file.name and place not in each.undone and each.status != UNDONE
        ]
        exact = [each for each in known if each[2] == str(file.absolute())]
        folders = {path for *_, path in known}
        if not exact and len(folders) > 1:
            raise BadInput(
                f"files called {file.name} were imported from several folders: {', '.join(sorted(folders))}. Undo the "
                "wrong import by its id, then import again: accord import --list"
            )
        return [(found, place) for found, place, _ in (exact or known)[-1:]]

    def _undo(self, found: ImportRecord, places: Sequence[int], replaces: bool = False) -> RemovedCounts:
        undone = tuple(sorted({*found.undone, *places}))
        change: dict[str, Any] = {"settings": canonical_json({"files": list(found.files), "undone": list(undone)})}
        if len(undone) == len(found.files):
            change["status"] = UNDONE
        parts = [_part(found.id, place) for place in places]
        before = [_part(each.id, place) for each in self.known() for place in each.undone]
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            removed = _removed(connection, parts, [*before, *parts], replaces)
            connection.execute(update(runs).where(runs.c.id == found.id).values(**change))
        return removed


def _part(name: str, place: int) -> str:
    return f"{name}.{place}"


def _recorded(row: Any) -> ImportRecord:
    settings, results = read_json(row.settings), read_json(row.results or "{}")
    files, undone = tuple(settings["files"]), tuple(settings.get("undone", ()))
    return ImportRecord(row.id, row.started, row.status, files, undone, results)


# --- rows ----------------------------------------------------------------------------------------------------------


def is_tracked(table: Table) -> bool:
    """Return True for tables whose rows carry the import that brought them."""
    return table in _KEYS


def confirm(connection: Connection, insert: Any, table: Table, rows: Sequence[TableRow], part: Part) -> None:
    """Note that a file has rows that another import, or another file, brought before.

    Of several imports of one file, the last one confirms its rows: repeated imports of a file add no rows.
    """
    key = table.c[_KEYS[table]]
    columns = [key, table.c["hash"]] if table is conversations else [key]
    given = {tuple(row[column.name] for column in columns) for row in rows}
    query = select(*columns).where(key.in_([each[0] for each in given]), table.c["imported"] != part.name)
    keys = [row[0] for row in connection.execute(query) if tuple(row) in given]
    if not keys:
        return
    if part.older:
        is_older = confirmations.c["import"].in_(part.older)
        about = confirmations.c.about == table.name
        connection.execute(delete(confirmations).where(is_older, about, confirmations.c.key.in_(keys)))
    found = [{"import": part.name, "about": table.name, "key": each} for each in keys]
    connection.execute(insert(confirmations).on_conflict_do_nothing(), found)


def _removed(connection: Connection, parts: Sequence[str], undone: Sequence[str], replaces: bool) -> RemovedCounts:
    """Remove the rows of some parts, and conversations of parts `undone` before that nothing uses any more."""
    connection.execute(delete(confirmations).where(confirmations.c["import"].in_(undone)))
    confirmed = sum(_passed_on(connection, table, undone) for table in _KEYS)
    mine = annotated.c.imported.in_(parts)
    labels = connection.execute(delete(annotated).where(mine, annotated.c.kind == "person")).rowcount
    answers = connection.execute(update(annotated).where(mine).values(imported=None)).rowcount
    brought = conversations.c.imported.in_(undone)
    removed = connection.execute(delete(conversations).where(brought, ~_in_use(replaces))).rowcount
    kept = select(func.count()).select_from(conversations).where(conversations.c.imported.in_(parts))
    if removed and not replaces:
        _remove_items(connection)
    return RemovedCounts(labels, removed, confirmed, connection.execute(kept).scalar() or 0, answers)


def _passed_on(connection: Connection, table: Table, undone: Sequence[str]) -> int:
    """Let rows of undone imports belong to an import that confirms them; returns how many."""
    confirms = and_(confirmations.c.key == table.c[_KEYS[table]], confirmations.c.about == table.name)
    heir = select(func.min(confirmations.c["import"])).where(confirms).scalar_subquery()
    passed = update(table).where(table.c["imported"].in_(undone), exists().where(confirms)).values(imported=heir)
    return connection.execute(passed).rowcount


def _in_use(replaces: bool) -> Any:
    """Return the condition that a conversation has a person's rating, or is assigned to a person in a study.

    While a file is replaced, labels of other imports do not count.
    """
    name, is_rating = conversations.c.id, annotated.c.kind == "person"
    if replaces:
        is_rating = and_(is_rating, annotated.c.imported.is_(None))
    given = assignments.c.item == items.c.key
    return or_(
        exists().where(is_rating, annotated.c.conversation == name),
        name.in_(select(annotated.c.against).where(is_rating, annotated.c.against.is_not(None))),
        name.in_(select(items.c.conversation).where(given)),
        name.in_(select(items.c.against).where(given, items.c.against.is_not(None))),
    )


def _lost_labels() -> Any:
    """Return a query for imported labels of conversations, or of turns, that the store lacks."""
    of, label = conversations.c, annotated.c
    has_turn = or_(label.turn.is_(None), of.turns == 0, label.turn < of.turns)
    is_there = exists().where(of.id == label.conversation, has_turn)
    is_lost = or_(~is_there, and_(label.against.is_not(None), label.against.not_in(select(of.id))))
    return select(label.key).where(label.kind == "person", label.imported.is_not(None), is_lost).subquery()


def _remove_items(connection: Connection) -> None:
    """Remove items of studies, and predictions for them, without an assignment whose conversations are gone."""
    known = select(conversations.c.id)
    gone = or_(items.c.conversation.not_in(known), and_(items.c.against.is_not(None), items.c.against.not_in(known)))
    lost = and_(gone, ~exists().where(assignments.c.item == items.c.key))
    connection.execute(delete(predictions).where(predictions.c.item.in_(select(items.c.key).where(lost))))
    connection.execute(delete(items).where(lost))


# --- one transaction -------------------------------------------------------------------------------------------------


@contextmanager
def one_transaction(store: Store) -> Iterator[None]:
    """Run all reads and writes of the store in one transaction, which a failure rolls back."""
    engine = store._engine
    with database_errors(store.url), engine.begin() as connection:
        store._engine = cast(Engine, _Joined(engine, connection))
        try:
            yield
        finally:
            store._engine = engine


class _Joined:
    """An engine whose transactions and connections are all the same one."""

    def __init__(self, engine: Engine, connection: Connection) -> None:
        self.dialect, self.url, self.pool = engine.dialect, engine.url, engine.pool
        self._connection = connection

    def begin(self) -> AbstractContextManager[Connection]:
        return _yielded(self._connection)

    def connect(self) -> AbstractContextManager[Any]:
        return _yielded(_Reader(self._connection))


class _Reader:
    """A connection for reading that stays open, and whose rows are read at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execution_options(self, **_: Any) -> _Reader:
        return self

    def execute(self, query: Any) -> Any:
        return self._connection.execute(query).freeze()()

    def close(self) -> None:
        """Keep the connection: it is the transaction's."""


@contextmanager
def _yielded(value: Any) -> Iterator[Any]:
    yield value
