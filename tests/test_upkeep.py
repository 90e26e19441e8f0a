"""Upkeep of a store: copies while others write, their return whole or not at all, old rows, and queries by index."""

from __future__ import annotations

import random
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from commands import accord
from filled_store import fill_tables
from new_project import new_project
from sqlalchemy import event
from waiting import at_once

from accord import Conversation, Store, Turn
from accord.edges import BadInput
from accord.store import (
    Claims,
    ComputedCache,
    IssueAnnotations,
    Item,
    MonitoringTables,
    StoreError,
    Studies,
    backup,
    check_store,
    prune,
    restore,
    vacuum,
)
from accord.store.schema import SCHEMA_VERSION, metadata
from accord.values import Annotation, Label, Target

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def chat(name: str, said: str = "hello") -> Conversation:
    return Conversation(name, (Turn("user", said), Turn("assistant", "Yes — ümlaut, \ud800 half, \0 nul.")))


def fill(store: Store, start: int = 0, count: int = 50) -> None:
    store.add_conversations(chat(f"c{n:05}") for n in range(start, start + count))
    store.add_labels(Label(Target(f"c{n:05}", n % 2), "Q0", f"p{n % 3}", n % 4) for n in range(start, start + count))


def contents(store: Store) -> dict[str, list[tuple[object, ...]]]:
    with store._engine.connect() as connection:
        return {
            table.name: sorted(tuple(map(repr, row)) for row in connection.execute(table.select()))
            for table in metadata.sorted_tables
        }


def test_backup_and_restore_keep_every_row(store: Store, tmp_path: Path) -> None:
    fill(store)
    fill_tables(store)
    before, copy = contents(store), tmp_path / "copies" / "copy.db"
    rows = backup(store.url, copy)
    assert rows["conversations"] == 50 and rows["cache"] == 3 and rows["budgets"] == 1
    fill(store, 50, 7)
    with pytest.raises(BadInput, match="57 conversations.* --replace"):
        restore(store.url, copy)
    assert restore(store.url, copy, replace=True)["conversations"] == 50
    assert contents(store) == before
    assert [path.name for path in copy.parent.iterdir()] == ["copy.db"], "nothing else is left behind"
    with pytest.raises(BadInput, match="there is a file"):
        backup(store.url, copy)


def test_backup_restores_into_the_other_database(store: Store, tmp_path: Path) -> None:
    fill(store)
    fill_tables(store)
    backup(store.url, tmp_path / "copy.db")
    restore(f"sqlite:///{tmp_path}/other.db", tmp_path / "copy.db")
    for name in ("other", "copy"):  # a copy is a store itself
        with closing(Store(f"sqlite:///{tmp_path}/{name}.db")) as other:
            assert contents(other) == contents(store)


def test_backup_during_writes_is_a_snapshot(store: Store, tmp_path: Path) -> None:
    fill(store, 0, 500)
    stop = threading.Event()

    def write() -> None:
        with closing(Store(store.url)) as mine:
            start = 1000
            while not stop.is_set():
                fill(mine, start, 20)
                start += 20

    def copy() -> None:
        try:
            for number in range(3):
                backup(store.url, tmp_path / f"copy{number}.db")
                vacuum(store.url)
                prune(store, timedelta(days=1))
        finally:
            stop.set()

    at_once([write, copy])
    for number in range(3):
        found = check_store(str(tmp_path / f"copy{number}.db"))
        assert found.damage == [] and found.rows["conversations"] >= found.rows["annotations"] >= 500


@pytest.mark.attack
def test_damaged_copy_is_refused_and_store_is_unchanged(store: Store, tmp_path: Path) -> None:
    fill(store)
    for name in ("cut.db", "old.db"):
        backup(store.url, tmp_path / name)
    before, whole = contents(store), (tmp_path / "cut.db").read_bytes()
    (tmp_path / "cut.db").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.db").write_text("no store at all, " * 100, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "old.db")) as copy, copy:
        copy.execute(f"UPDATE schema_version SET version = {SCHEMA_VERSION + 1}")
    for name, reason in {
        "cut.db": "cannot be restored",
        "none.db": "there is no store",
        "text.db": "cannot be restored",
        "old.db": f"its schema version is {SCHEMA_VERSION + 1}, this Accord reads version {SCHEMA_VERSION}",
    }.items():
        with pytest.raises(BadInput, match=reason):
            restore(store.url, tmp_path / name, replace=True)
    assert contents(store) == before


def test_failed_backup_leaves_no_file(store: Store, tmp_path: Path) -> None:
    fill(store)
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises((StoreError, OSError)):
        backup(store.url, tmp_path / "file" / "copy.db")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_prune_deletes_old_rows_and_keeps_ratings_and_paid_answers(store: Store) -> None:
    fill(store)
    fill_tables(store)
    first, later = store.runs()[0]["id"], datetime.now(UTC) + timedelta(days=100)
    for command in ("score", "compare"):
        store.finish_run(store.start_run(command, {}), "done", {})
    running = store.start_run("batch", {})
    MonitoringTables(store).mark_sent(["alarm"])
    counted = prune(store, timedelta(days=90), dry_run=True, now=later)
    assert counted == {"runs": 1, "days": 1, "alarms": 1, "claims": 1, "cache": 1}
    assert prune(store, timedelta(days=90), now=later) == counted
    left = [run["id"] for run in store.runs()]
    assert first not in left and running in left and len(left) == 3
    assert store.reply("r1") and store.count_conversations() == 50 and len(store.labels()) == 50
    assert set(prune(store, timedelta(days=90), now=later).values()) == {0}
    assert prune(store, timedelta(days=90), with_cache=True, now=later)["cache"] == 2


def test_prune_keeps_recent_rows(store: Store) -> None:
    fill(store)
    fill_tables(store)
    before = contents(store)
    prune(store, timedelta(days=400), with_cache=True, now=NOW)
    assert contents(store) == before


def test_prune_deletes_more_rows_than_one_batch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["accord.store.backup"], "COPY_BATCH", 10)
    for _ in range(35):
        store.finish_run(store.start_run("score", {}), "failed", {})
    assert prune(store, timedelta(0), now=datetime.now(UTC) + timedelta(days=1))["runs"] == 35
    assert store.runs() == []


def test_vacuum_frees_space(store: Store) -> None:
    for _ in range(60):
        store.finish_run(store.start_run("score", {}), "failed", {"text": [random.random() for _ in range(3000)]})
    prune(store, timedelta(0), now=datetime.now(UTC) + timedelta(days=1))
    before, after = vacuum(store.url)
    assert after < before / 2


def test_store_commands_print_their_results(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project(f"store: {store.url}\n")
    fill(store)
    store.close()
    assert "copy.db: 50 conversations, 50 annotations" in accord("store", "backup", "copy.db")
    assert "bytes before" in accord("store", "vacuum")
    assert "removed: no rows" in accord("store", "prune", "--older-than", "90d")
    assert "for example 90d" in accord("store", "prune", "--older-than", "soon", code=1)
    assert "--replace" in accord("store", "restore", "copy.db", code=1)
    assert "restored: 50 annotations, 50 conversations" in accord("store", "restore", "copy.db", "--replace")


# --- queries of pages and commands over many rows --------------------------------------------------------------------

ASKED: dict[str, Callable[[Store], object]] = {
    "annotations of conversations": lambda store: list(store.annotations(conversations=["c00001", "c00002"])),
    "people's labels": lambda store: store.labels(),
    "labels on a question": lambda store: store.labels("Q0"),
    "a study's answers": lambda store: Studies(store).answers("look"),
    "a study's answers to a question, as they were at first": lambda store: Studies(store).answers("look", True, "Q0"),
    "what models answered": lambda store: store.answered(),
    "answers by key": lambda store: store.answers(["k1", "k2"]),
    "replies by key": lambda store: store.replies(["k1", "k2"]),
    "issues of a maker": lambda store: list(IssueAnnotations(store).of([chat("c00001")], "maker|model:m")),
    "conversations of a maker": lambda store: IssueAnnotations(store).conversations("maker|model:m"),
    "days": lambda store: list(MonitoringTables(store).days("2026-01-01")),
    "conversations by id": lambda store: list(store.conversations(["c00001"])),
    "ids": lambda store: next(store.conversation_ids()),
    "where labels end": lambda store: store._last_places(),
    "new labels": lambda store: store.add_labels([Label(Target("c00001"), "Q0", "new", 1)]),
    "what is computed": lambda store: ComputedCache(store).add("new", "fit", {}, {"x": np.ones(1)}),
    "claims": lambda store: Claims(store).exchange(["a"], ["b", "c"], renew=True),
}
LARGE = ("annotations", "conversations", "cache", "claims")


@pytest.fixture
def large(store: Store) -> Iterator[Store]:
    """A store with enough rows for its database to plan by."""
    fill(store, 0, 3000)
    store.add_annotations(
        Annotation(Target(f"c{n:05}", 1), "overall", "m", "model", 1, signature="maker|model:m") for n in range(300)
    )
    store.add_replies({"key": f"r{n}", "maker": "m", "content": "{}"} for n in range(2000))
    studies = Studies(store)
    studies.add_items(Item("look", 1, n, "plain", Target(f"c{n:05}")) for n in range(9))
    studies.close()
    vacuum(store.url)
    yield store


def test_queries_over_many_rows_use_an_index(large: Store) -> None:
    plans: list[str] = []
    is_file = large._engine.dialect.name == "sqlite"

    def explain(connection: object, cursor: object, statement: str, parameters: object, *_: object) -> None:
        if statement.split()[0] not in ("SELECT", "UPDATE", "DELETE"):
            return
        own = cursor.connection.cursor()
        if not is_file:
            own.execute("SET LOCAL enable_seqscan = off")  # the rest of the query needs no index
        own.execute(("EXPLAIN QUERY PLAN " if is_file else "EXPLAIN ") + statement, parameters)
        plans.append(f"{statement}\n" + "\n".join(str(row[-1]) for row in own.fetchall()))
        own.close()

    event.listen(large._engine, "before_cursor_execute", explain)
    for asked, ask in ASKED.items():
        plans.clear()
        ask(large)
        assert plans, asked
        for plan in plans:
            for table in LARGE:
                scans = [
                    line for line in plan.splitlines() if f"SCAN {table}" in line or f"Seq Scan on {table}" in line
                ]
                assert all("USING" in line for line in scans), f"{asked}: {plan}"
    event.remove(large._engine, "before_cursor_execute", explain)


# --- objects that Accord did not create -----------------------------------------------------------------------------------

SQLITE_OBJECTS = {
    "trigger": "CREATE TRIGGER forget AFTER INSERT ON runs BEGIN DELETE FROM annotations; END",
    "unique index": "CREATE UNIQUE INDEX one ON annotations (question)",
    "view": "CREATE VIEW everything AS SELECT * FROM conversations",
    "table": "CREATE TABLE other (name TEXT)",
    "index": "CREATE INDEX mine ON runs (command)",
}
POSTGRESQL_OBJECTS = {
    "trigger": "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DELETE FROM annotations; RETURN NEW; "
    "END'; CREATE TRIGGER forget AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION forget()",
    "rule": "CREATE RULE forget AS ON INSERT TO runs DO ALSO DELETE FROM annotations",
    "policy": "CREATE POLICY hidden ON annotations USING (false)",
    "unique index": "CREATE UNIQUE INDEX one ON annotations (question)",
    "view": "CREATE VIEW everything AS SELECT * FROM conversations",
    "table": "CREATE TABLE other (name TEXT)",
    "function": "CREATE FUNCTION forget() RETURNS int LANGUAGE sql AS 'SELECT 1'",
}
ACTIVE = {"trigger", "rule", "policy", "unique index"}


def add_object(store: Store, kind: str) -> None:
    made = SQLITE_OBJECTS if store.url.startswith("sqlite") else POSTGRESQL_OBJECTS
    if kind not in made:
        pytest.skip(f"this database has no {kind}")
    with store._engine.begin() as connection:
        if kind == "unique index":
            connection.exec_driver_sql("DELETE FROM annotations")
        connection.exec_driver_sql(made[kind])


@pytest.mark.parametrize("kind", sorted({*SQLITE_OBJECTS, *POSTGRESQL_OBJECTS}))
@pytest.mark.attack
def test_foreign_objects_are_reported_and_active_ones_refused(
    store: Store, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(store, 0, 5)
    add_object(store, kind)
    found = check_store(store.url)
    named = [each.what for each in found.damage] if kind in ACTIVE else found.foreign
    assert any(each.startswith(f"{kind} ") for each in named), found
    if kind in ACTIVE:
        assert any("DROP" in each.repair for each in found.damage)
        with pytest.raises(StoreError, match=f"change its rows: {kind} .*accord store check"):
            Store(store.url)
    else:
        Store(store.url).close()
        assert (f"did not create: {kind} everything" in caplog.text) == (kind == "view")


@pytest.mark.parametrize("kind", ["trigger", "view", "unique index", "table"])
@pytest.mark.attack
def test_restore_copies_rows_without_foreign_objects(store: Store, tmp_path: Path, kind: str) -> None:
    copy = tmp_path / "copy.db"
    forged = Store(f"sqlite:///{copy}")
    if kind != "unique index":
        fill(forged)
    add_object(forged, kind)
    forged.close()
    fill(store, 100, 3)
    restore(store.url, copy, replace=True)
    found = check_store(store.url)
    assert found.damage == [] and found.foreign == []
    again = Store(store.url)
    fill(again, 200, 4)
    again.start_run("score", {})
    assert len(again.labels()) == (4 if kind == "unique index" else 54)
    again.close()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE annotations SET turn = 'x'", "column turn holds str, not int"),
        ("UPDATE runs SET settings = '{'", "table runs: 1 rows cannot be read"),
        ("INSERT INTO studies VALUES ('s', '{', 't')", "table studies: 1 rows cannot be read"),
        ("INSERT INTO users VALUES ('eve', 'king', 'd', 't')", "column role holds another value than annotator, lead, admin"),
        ("INSERT INTO chat_messages VALUES ('t', 0, NULL, 'user', 'x', 'gone', NULL, NULL, 't', '{}')", "column state"),
        ("DROP TABLE runs; CREATE VIEW runs AS SELECT 1 AS id", "view runs was not created by Accord"),
        ("CREATE TABLE d AS SELECT * FROM days; DROP TABLE days; ALTER TABLE d RENAME TO days; "
         "INSERT INTO days SELECT * FROM days", "several rows with the same key"),
    ],
)  # fmt: skip
@pytest.mark.attack
def test_copy_with_invalid_rows_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    with closing(Store(f"sqlite:///{tmp_path}/copy.db")) as forged:
        fill(forged, 0, 3)
        fill_tables(forged)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        connection.executescript(statement)
    target = f"sqlite:///{tmp_path}/store.db"
    with pytest.raises((BadInput, StoreError), match=reason):
        restore(target, tmp_path / "copy.db")
    with closing(Store(target)) as opened:
        assert opened.count_conversations() == 0
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")], "no part is left"


def test_sessions_are_not_restored(store: Store, tmp_path: Path) -> None:
    people = Studies(store)
    people.accounts.start_session("digest", "@local", "2999-01-01T00:00:00.000+00:00")
    people.close()
    backup(store.url, tmp_path / "copy.db")
    assert restore(store.url, tmp_path / "copy.db", replace=True)["sessions"] == 0
