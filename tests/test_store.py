"""The store on SQLite and on a real PostgreSQL: concurrent writers lose nothing and store nothing twice."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from commands import accord
from filled_store import fill_tables
from new_project import new_project
from processes import Forked, run
from sqlalchemy import text
from waiting import PATIENCE

from accord import Conversation, Document, Label, Store, Target, Turn
from accord.edges import BadInput
from accord.store import (
    AddedCounts,
    StoreError,
    VectorCache,
    check_store,
    restore,
)
from accord.store.schema import (
    SCHEMA_VERSION,
    metadata,
)


def chat(name: str, words: str = "hello") -> Conversation:
    return Conversation(name, (Turn("user", words), Turn("assistant", "hi")), (Document("d"),), {"system": "s"})


def test_stored_conversations_are_equal(store: Store) -> None:
    odd = chat("odd", "NUL \0, half a pair \ud83d, emoji 🙂, \u202ertl")
    assert store.add_conversations([chat("a"), odd]) == AddedCounts(2, 0)
    assert store.add_conversations([chat("a"), chat("b")]) == AddedCounts(1, 1)
    assert list(store.conversations()) == [chat("a"), chat("b"), odd]
    assert list(store.conversations(["b", "nobody"])) == [chat("b")]
    assert store.count_conversations() == 3


def test_queries_can_run_while_rows_are_streamed(store: Store) -> None:
    with closing(Store("sqlite://")) as in_memory:
        for each in (store, in_memory):
            each.add_conversations([chat("a"), chat("b")])
            assert [(found.id, each.count_conversations()) for found in each.conversations()] == [("a", 2), ("b", 2)]


def execute(store: Store, *statements: str) -> list[Any]:
    """Change a store behind its back; return the rows of the last statement."""
    with store._engine.begin() as connection:
        for each in statements:
            found = connection.execute(text(each))
        return list(found) if found.returns_rows else []


def test_changed_conversation_is_refused_and_others_are_added(store: Store) -> None:
    store.add_conversations([chat("a")])
    with pytest.raises(BadInput, match="'a' is in the store with other content"):
        store.add_conversations([chat("b"), chat("a", "other")])
    assert list(store.conversations()) == [chat("a"), chat("b")]
    changed: list[str] = []
    assert store.add_conversations([chat("a", "other"), chat("c")], changed.append) == AddedCounts(1, 1)
    assert changed == ["a"]


def test_repeated_labels_are_kept_the_last_counts_and_reimport_adds_none(store: Store) -> None:
    store.add_conversations([chat("a"), chat("b")])
    rated = [
        Label(Target("a"), "Q0", "ann", 3),
        Label(Target("a"), "Q0", "ann", 3),
        Label(Target("a", 1), "Q0", "bob", 2, "2026-01-01"),
        Label(Target("b"), "Q2", "ann", None),
        Label(Target("b"), "kind", "ann", "good"),
    ]
    assert store.add_labels(rated) == AddedCounts(5, 0)
    assert store.add_labels(rated) == AddedCounts(0, 5)
    assert list(store.labels()) == rated[1:] and len(list(store.annotations())) == 5
    assert [label.annotator for label in store.labels().on("Q0")] == ["ann", "bob"]
    assert len(store.labels().on("Q2")) == 0, "'does not apply' is no answer"


def test_label_of_unknown_conversation_is_refused_or_reported(store: Store) -> None:
    label = Label(Target("nobody"), "Q0", "ann", 3)
    with pytest.raises(BadInput, match="no conversation 'nobody' in the store; import it first"):
        store.add_labels([label])
    store.add_conversations([chat("a")])
    with pytest.raises(BadInput, match="no turn 2 of a conversation 'a' in the store"):
        store.add_labels([Label(Target("a", 1), "Q0", "ann", 3), Label(Target("a", 2), "Q0", "ann", 3)])
    assert len(store.labels()) == 1, "the good one is kept"
    errors: list[BadInput] = []
    assert store.add_labels([label], errors.append) == AddedCounts(0, 0)
    assert [str(error)[:15] for error in errors] == ["label of 'ann':"]


def answer(key: str) -> dict[str, object]:
    return {
        "key": key, "conversation": "a", "turn": None, "question": "Q0", "judge": "j", "mode": "recorded",
        "probabilities": '{"1":0.5}', "outside": 0.5, "made_from": "{}",
    }  # fmt: skip


def test_answers_and_runs(store: Store) -> None:
    assert store.add_answers([answer("k1"), answer("k1"), answer("k2")]) == AddedCounts(2, 1)
    assert set(store.answers(["k1", "k3"])) == {"k1"}
    run = store.start_run("score", {"seed": 1})
    store.finish_run(run, "done", {"mean": 1.5})
    [kept] = store.runs()
    assert (kept["settings"], kept["results"], kept["status"]) == ({"seed": 1}, {"mean": 1.5}, "done")


def test_first_vector_of_a_key_stays(store: Store) -> None:
    drawn = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    rows = {f"k{place}": vector for place, vector in enumerate(drawn)}
    kept = VectorCache(store)
    assert kept.add("small", rows) == AddedCounts(1200, 0)
    assert kept.add("small", {"k0": np.ones(3), "one": np.ones(2)}) == AddedCounts(1, 1)
    store.close()
    again = VectorCache(Store(store.url))
    found = again.vectors([*rows, "k0", "unknown"])
    assert found.keys() == rows.keys() and all(np.array_equal(found[key], rows[key]) for key in rows)
    assert {vector.dtype for vector in found.values()} == {np.dtype(np.float32)}
    assert again.vectors(["one"])["one"].tolist() == [1, 1] and again.vectors([]) == {}
    again._store.close()


WRITER = """
import sys
from accord import Conversation, Label, Store, Target, Turn
store, name = Store(sys.argv[1]), sys.argv[2]
for i in range(100):
    shared, own = f"shared-{i}", f"{name}-{i}"
    store.add_conversations([Conversation(c, (Turn("user", c),)) for c in (shared, own)])
    store.add_labels([Label(Target(own), "Q0", name, 3)])
"""


def run_together(code: str, *arguments: tuple[str, ...]) -> list[str]:
    """Run processes at the same time, and return what they printed."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [Forked(["-c", code, *each], **streams) for each in arguments]
    found = [process.communicate(timeout=PATIENCE) for process in processes]
    assert not any(process.returncode for process in processes), found
    return [output for output, _ in found]


def test_concurrent_processes_lose_no_rows(store: Store) -> None:
    run_together(WRITER, *((store.url, name) for name in "xyz"))
    assert store.count_conversations() == 100 + 3 * 100
    assert len(store.labels()) == 300


REVERSED = """
import sys
from accord import Conversation, Store, Turn
store, order = Store(sys.argv[1]), int(sys.argv[2])
for batch in range(20):
    names = [f"c{batch}-{i}" for i in range(500)][::order]
    store.add_conversations([Conversation(c, (Turn("user", c),)) for c in names])
"""


def test_writers_of_same_rows_in_opposite_order_do_not_deadlock(store: Store) -> None:
    run_together(REVERSED, (store.url, "1"), (store.url, "-1"))
    assert store.count_conversations() == 20 * 500
    assert len(list(store.conversation_ids())) == 20 * 500


CUT_OFF = """
import sys
import psycopg
from accord import Conversation, Store, Turn
from accord.edges import AccordError
store = Store(sys.argv[1])
store.add_conversations(Conversation(f"c{i}", (Turn("user", "x" * 500),)) for i in range(1500))
found = store.conversations()
next(found)
with psycopg.connect(sys.argv[1], autocommit=True) as other:
    other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
try:
    found.close() if sys.argv[2] == "let go" else list(found)
    print("nothing")
except AccordError as error:
    print(error)
"""


@pytest.mark.parametrize(("then", "said"), [("read on", "the store ("), ("let go", "nothing")])
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_lost_connection_is_one_line(database: str, then: str, said: str) -> None:
    ended = run(["-c", CUT_OFF, database, then], text=True, timeout=PATIENCE)
    assert ended.stdout.startswith(said) and ended.stdout.count("\n") == 1 and ended.stderr == ""


def test_run_records_its_status(store: Store) -> None:
    with store.run("compare", {}) as run:
        run.results.update(a=1)
    with pytest.raises(BadInput), store.run("fit", {}):
        raise BadInput("no")
    assert [(kept["command"], kept["status"], kept["results"]) for kept in store.runs()] == [
        ("compare", "done", {"a": 1}), ("fit", "failed", {}),
    ]  # fmt: skip


def test_concurrent_processes_create_tables_once(tmp_path: Path) -> None:
    code = "import sys; from accord import Store; print(Store(sys.argv[1]).count_conversations())"
    assert run_together(code, *[(f"sqlite:///{tmp_path}/new.db",)] * 4) == ["0\n"] * 4


def test_new_store_waits_for_another_creating_process(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    done = Timer(0.3, other.rollback)
    done.start()
    with closing(Store(f"sqlite:///{tmp_path}/new.db")) as store:
        assert store.count_conversations() == 0 and done.finished.is_set()
    done.join()
    other.close()


def test_full_disk_is_one_line_and_keeps_earlier_writes(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/small.db")
    store.add_conversations([chat("a")])

    def shrink(connection: object, _: object) -> None:
        connection.execute("PRAGMA max_page_count=40")

    from sqlalchemy import event

    event.listen(store._engine, "connect", shrink)
    store.close()
    with pytest.raises(StoreError, match=r"database or disk is full. Earlier writes are kept"):
        store.add_conversations(chat(f"c{i}", "long " * 2000) for i in range(5000))
    assert list(store.conversations(["a"])) == [chat("a")]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://u:secret@h/d", "a store is SQLite or PostgreSQL, got mysql"),
        ("://", "the store is not a database URL"),
        ("postgresql://secret@127.0.0.1:9:9/d", "the store is not a database URL"),
        ("sqlite://secret/d.db", "a SQLite store is a file and has no host"),
        ("sqlite://:secret@/d.db", "a SQLite store is a file and has no host"),
    ],
)
@pytest.mark.parametrize("use", [Store, check_store])
@pytest.mark.attack
def test_invalid_url_is_refused_without_showing_it(url: str, reason: str, use: Callable[[str], object]) -> None:
    with pytest.raises(BadInput, match=reason) as caught:
        use(url)
    assert "secret" not in str(caught.value)


@pytest.mark.attack
def test_other_files_and_other_schema_versions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, just text" * 100, encoding="utf-8")
    with pytest.raises(StoreError, match="not a database"):
        Store(f"sqlite:///{tmp_path}/text.db")
    store = Store(f"sqlite:///{tmp_path}/new.db")
    execute(store, "UPDATE schema_version SET version = 9999")
    with pytest.raises(
        BadInput, match=f"the store has schema version 9999, this Accord reads version {SCHEMA_VERSION}"
    ):
        Store(store.url)
    execute(store, "DROP TABLE schema_version", "CREATE TABLE schema_version AS SELECT char(27) || '[2J' AS version")
    store.close()
    with pytest.raises(BadInput, match=r"schema version \?\[2J, this Accord"):
        Store(store.url)
    [damage] = check_store(store.url).damage
    assert damage.what.startswith(f"its schema version is ?[2J, this Accord reads version {SCHEMA_VERSION}")


def damaged_copies(path: Path) -> dict[str, bytes]:
    """Write a store of 300 conversations, and return its bytes with different damage."""
    with closing(Store(str(path))) as store:
        store.add_conversations([chat(f"c{place}", f"secret {place} " * 50) for place in range(300)])
    whole = path.read_bytes()
    first = whole.index(b"secret 7 ")
    return {
        "cut off": whole[: len(whole) // 2],
        "overwritten at the beginning": bytes(4096) + whole[4096:],
        "overwritten after it": whole[:4096] + bytes(len(whole) - 4096),
        "overwritten in a text": whole[:first] + b"\xff" * 60 + whole[first + 60 :],
    }


@pytest.mark.attack
def test_damaged_file_is_one_line_that_names_the_check(tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    copies = damaged_copies(path)
    for how, content in {**copies, "only its beginning": path.read_bytes()[:100]}.items():
        path.write_bytes(content)
        with pytest.raises(StoreError, match="is damaged: .*accord store check") as caught:
            list(Store(f"sqlite:///{path}").conversations())
        said = str(caught.value)
        assert "\n" not in said and len(said) < 600 and "secret" not in said, how


@pytest.mark.attack
def test_overwritten_row_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    with closing(Store(str(path))) as store:
        store.add_conversations([chat("c", "secret words")])
    path.write_bytes(path.read_bytes().replace(b'"secret words"', b'"secret"words"'))
    with pytest.raises(StoreError, match="a row is not valid JSON"):
        list(Store(str(path)).conversations())


# --- accord store check ---------------------------------------------------------------------------------------------


def filled(store: Store) -> None:
    store.add_conversations([chat("a", "It's"), chat("b")])
    store.add_labels([Label(Target("a"), "Q0", "ann", 3)])
    store.add_answers([answer("k1")])
    fill_tables(store)


def test_intact_store_has_no_damage(store: Store) -> None:
    filled(store)
    found = check_store(store.url)
    assert found.damage == [] and found.notes == [] and found.version == SCHEMA_VERSION
    assert found.rows == {
        "conversations": 2, "annotations": 2, "cache": 3, "cache_conversations": 2, "erased": 1, "claims": 1, "budgets": 1, "runs": 1, "days": 1,
        "alarms": 1, "anchors": 1, **dict.fromkeys(
            ("assignments", "chat_messages", "chats", "confirmations", "items", "predictions", "sessions", "studies",
             "users"), 0
        ),
    }  # fmt: skip


BROKEN = {
    "conversations": ("content = 'oops'", "id"),
    "annotations": ("distribution = '{\"1\":'", "key"),
    "cache": ("content = 'oops', bytes = NULL", "key"),
    "claims": ("until = 'soon'", "key"),
    "runs": ("settings = '['", "id"),
    "days": ("content = '{'", "key"),
    "alarms": ("content = '{'", "key"),
    "anchors": ("content = '{}'", "key"),
}


@pytest.mark.parametrize("table", BROKEN)
@pytest.mark.attack
def test_unreadable_rows_are_reported_with_a_working_repair(store: Store, table: str) -> None:
    filled(store)
    change, key = BROKEN[table]
    keys = [str(name) for (name,) in execute(store, f"UPDATE {table} SET {change}", f"SELECT {key} FROM {table}")]
    [damage] = check_store(store.url).damage
    assert damage.what.startswith(f"table {table}: {len(keys)} rows cannot be read") and keys[0] in damage.what
    [removal] = re.findall(r"DELETE FROM .*?(?=;)", damage.repair)
    execute(store, removal)
    found = check_store(store.url)
    assert found.damage == [] and found.rows[table] == 0, "what it says repairs it"


@pytest.mark.attack
def test_changed_conversation_text_is_damage(store: Store) -> None:
    filled(store)
    execute(store, "UPDATE conversations SET content = replace(content, 'hello', 'other')")
    [damage] = check_store(store.url).damage
    assert "1 rows cannot be read: b (ValueError: its content does not match its hash)" in damage.what


@pytest.mark.attack
def test_missing_tables_columns_and_versions_are_damage(store: Store) -> None:
    execute(store, "ALTER TABLE alarms DROP COLUMN sent", "DROP TABLE claims")
    found = {each.what for each in check_store(store.url).damage}
    assert found == {"table alarms has no sent", "table claims is missing"}
    execute(store, "UPDATE schema_version SET version = 9999")
    [damage] = check_store(store.url).damage
    assert damage.what.startswith(f"its schema version is 9999, this Accord reads version {SCHEMA_VERSION}")
    execute(store, "DROP TABLE schema_version")
    [damage] = check_store(store.url).damage
    assert "it is no store of Accord" in damage.what


def test_missing_version_is_damage_with_a_working_repair(store: Store) -> None:
    filled(store)
    execute(store, "DELETE FROM schema_version")
    [damage] = check_store(store.url).damage
    assert damage.what == "its schema version is missing"
    with pytest.raises(StoreError, match=r"has tables but no schema version.*accord store check"):
        Store(store.url)
    [repair] = re.findall(r"INSERT INTO schema_version [^;]*", damage.repair)
    execute(store, repair)
    assert check_store(store.url).damage == []
    execute(store, "DROP TABLE claims", "DELETE FROM schema_version")
    [damage] = check_store(store.url).damage
    assert damage.repair == "restore a backup: accord store restore FILE"


CHANGED_COLUMNS = [
    "VARCHAR NOT NULL COLLATE NOCASE",
    "VARCHAR NOT NULL CHECK (id <> 'x')",
    "VARCHAR",
    "VARCHAR NOT NULL DEFAULT 'x'",
    "VARCHAR NOT NULL, twice AS (id || id)",
    "VARCHAR PRIMARY KEY ON CONFLICT REPLACE NOT NULL",
]


@pytest.mark.parametrize("definition", CHANGED_COLUMNS)
@pytest.mark.attack
def test_changed_table_definition_is_damage_and_is_not_opened(tmp_path: Path, definition: str) -> None:
    url = str(tmp_path / "a.db")
    store = Store(url)
    filled(store)
    store.close()
    with closing(sqlite3.connect(url)) as connection:
        [(sql,)] = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'conversations'")
        changed = sql.replace("id VARCHAR NOT NULL", f"id {definition}")
        if "PRIMARY KEY" in definition:
            changed = re.sub(r",\s*PRIMARY KEY \(id\)", "", changed)
        connection.executescript(
            "ALTER TABLE conversations RENAME TO old; DROP INDEX conversations_synthetic; " + changed + ";"
            "INSERT INTO conversations (id, hash, system, turns, content, added, synthetic, imported) SELECT * FROM old;"
            "DROP TABLE old; CREATE INDEX conversations_synthetic ON conversations (id) WHERE synthetic IS NOT NULL"
        )
    [damage] = [each for each in check_store(url).damage if each.what.startswith("table conversations has")]
    assert "has another definition than Accord's" in damage.what and "accord store restore FILE" in damage.repair
    with pytest.raises(
        StoreError, match="definition of conversations differs from Accord's.*accord store restore FILE"
    ):
        Store(url)
    new = str(tmp_path / "new.db")
    restore(new, Path(url))
    found = check_store(new)
    assert found.damage == [] and found.rows["conversations"] == 2


def test_duplicate_keys_are_reported_with_a_working_repair(store: Store) -> None:
    filled(store)
    execute(store, "CREATE TABLE copied AS SELECT * FROM runs", "DROP TABLE runs",
            "ALTER TABLE copied RENAME TO runs", "INSERT INTO runs SELECT * FROM runs")  # fmt: skip
    damage = {each.what: each.repair for each in check_store(store.url).damage}
    assert any(each.startswith("table runs has another definition than Accord's") for each in damage)
    [(what, repair)] = [each for each in damage.items() if "same key" in each[0]]
    assert re.search(r"table runs has several rows with the same key: \w+ \(2 rows\)", what)
    with pytest.raises(StoreError, match="definition of runs differs from Accord's"):
        Store(store.url)
    assert execute(store, repair.partition(": ")[2], "SELECT count(*) FROM runs") == [(1,)]


def test_missing_indexes_are_reported(store: Store) -> None:
    execute(store, "DROP INDEX annotations_by_answer", "DROP INDEX days_by_day")
    found = check_store(store.url)
    assert [each.what for each in found.damage] == ["unique index annotations_by_answer is missing"]
    assert [each.split(",")[0] for each in found.notes] == ["index days_by_day is missing"]


def test_labels_without_their_conversation_are_counted(store: Store) -> None:
    filled(store)
    execute(store, "DELETE FROM conversations WHERE id = 'a'")
    found = check_store(store.url)
    assert found.damage == [] and found.notes[0].startswith("1 labels name a conversation that the store does not hold")


@pytest.mark.attack
def test_check_command_prints_repairs_of_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    assert "there is no store sqlite:///accord.db yet" in accord("store", "check", code=1)
    copies = damaged_copies(tmp_path / "accord.db")
    assert "300 conversations\nnothing is damaged" in accord("store", "check")
    for how, content in copies.items():
        (tmp_path / "accord.db").write_bytes(content)
        said = accord("store", "check", code=1)
        assert re.search(r"repair: restore a backup, or save .* sqlite3 .*accord.db .recover", said), how
        assert "secret" not in said, how


def test_clock_set_back_keeps_the_order_of_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import datetime, timedelta

    from accord.store import rows

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now(tz) - timedelta(days=1)

    with store.run("first", {}):
        pass
    monkeypatch.setattr(rows, "datetime", SetBack)
    for name in ("second", "third"):
        with store.run(name, {}):
            pass
    assert [run["command"] for run in store.runs()] == ["first", "second", "third"]


@pytest.mark.parametrize("count", [3, 60])
def test_bulk_insert_returns_number_of_new_rows(store: Store, count: int) -> None:
    rows = [{"key": f"k{n}", "kind": "reply", "maker": "m\t\\N\n", "content": f"{{{n}}}", "bytes": bytes([0, 9, 10, 92]),
             "added": "now"} for n in range(count)]  # fmt: skip
    with store._engine.begin() as connection:
        assert store._add(connection, metadata.tables["cache"], rows[1:]) == count - 1
        assert store._add(connection, metadata.tables["cache"], rows) == 1
        without = [
            {name: row[name] for name in ("key", "kind", "maker", "added")} | {"key": f"x{row['key']}"} for row in rows
        ]
        assert store._add(connection, metadata.tables["cache"], without) == count
        found = connection.execute(metadata.tables["cache"].select()).mappings().all()
    assert sorted((dict(row) for row in found if row["content"]), key=repr) == sorted(rows, key=repr)
    assert sum(row["bytes"] is None for row in found) == count


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_failed_copy_is_one_line(store: Store) -> None:
    rows = [{"key": f"k{n}", "maker": "m", "content": "a \0 nul"} for n in range(60)]
    with pytest.raises(StoreError, match="the store .* failed"):
        store.add_replies(rows)
    store.add_replies([{**row, "content": "{}"} for row in rows])
    assert len(store.replies(row["key"] for row in rows)) == 60, "the connection is as good as new"
