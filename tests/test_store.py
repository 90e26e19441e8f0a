"""The store on SQLite and on a real PostgreSQL: nothing lost, nothing twice, whoever writes at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from accord import Conversation, Document, Label, Store, Target, Turn
from accord.store import Added, Embedded, StoreError
from accord.values import BadInput


def chat(name: str, words: str = "hello") -> Conversation:
    return Conversation(name, (Turn("user", words), Turn("assistant", "hi")), (Document("d"),), {"system": "s"})


def test_conversations_come_back_as_they_went_in(store: Store) -> None:
    odd = chat("odd", "NUL \0, half a pair \ud83d, emoji 🙂, \u202ertl")
    assert store.add_conversations([chat("a"), odd]) == Added(2, 0)
    assert store.add_conversations([chat("a"), chat("b")]) == Added(1, 1)
    assert list(store.conversations()) == [chat("a"), chat("b"), odd]
    assert list(store.conversations(["b", "nobody"])) == [chat("b")]
    assert store.count_conversations() == 3


def test_the_same_id_with_other_content_is_refused_and_the_others_are_kept(store: Store) -> None:
    store.add_conversations([chat("a")])
    with pytest.raises(BadInput, match="'a' is in the store with other content"):
        store.add_conversations([chat("b"), chat("a", "other")])
    assert list(store.conversations()) == [chat("a"), chat("b")]
    changed: list[str] = []
    assert store.add_conversations([chat("a", "other"), chat("c")], changed.append) == Added(1, 1)
    assert changed == ["a"]


def test_labels_keep_repeats_apart_and_importing_again_adds_none(store: Store) -> None:
    store.add_conversations([chat("a"), chat("b")])
    rated = [
        Label(Target("a"), "Q0", "ann", 3),
        Label(Target("a"), "Q0", "ann", 3),
        Label(Target("a", 1), "Q0", "bob", 2, "2026-01-01"),
        Label(Target("b"), "Q2", "ann", None),
        Label(Target("b"), "kind", "ann", "good"),
    ]
    assert store.add_labels(rated) == Added(5, 0)
    assert store.add_labels(rated) == Added(0, 5)
    assert list(store.labels()) == rated
    assert [label.annotator for label in store.labels().on("Q0")] == ["ann", "ann", "bob"]
    assert len(store.labels().on("Q2")) == 0, "'does not apply' is no answer"


def test_a_label_for_an_unknown_conversation_is_refused_or_said(store: Store) -> None:
    label = Label(Target("nobody"), "Q0", "ann", 3)
    with pytest.raises(BadInput, match="no conversation 'nobody' in the store; import it first"):
        store.add_labels([label])
    store.add_conversations([chat("a")])
    with pytest.raises(BadInput, match="no turn 2 of a conversation 'a' in the store"):
        store.add_labels([Label(Target("a", 1), "Q0", "ann", 3), Label(Target("a", 2), "Q0", "ann", 3)])
    assert len(store.labels()) == 1, "the good one is kept"
    said: list[Label] = []
    assert store.add_labels([label], said.append) == Added(0, 0)
    assert said == [label]


def answer(key: str) -> dict[str, object]:
    return {
        "key": key, "conversation": "a", "turn": None, "question": "Q0", "judge": "j", "mode": "recorded",
        "probabilities": '{"1":0.5}', "outside": 0.5, "made_from": "{}",
    }  # fmt: skip


def test_answers_runs_and_scores(store: Store) -> None:
    assert store.add_answers([answer("k1"), answer("k1"), answer("k2")]) == Added(2, 1)
    assert set(store.answers(["k1", "k3"])) == {"k1"}
    run = store.start_run("score", {"seed": 1})
    rows = [{"conversation": "a", "value": 1.5}, {"conversation": "b", "value": None}]
    store.add_scores(run, rows)
    store.finish_run(run, "done", {"mean": 1.5})
    [kept] = store.runs()
    assert (kept["settings"], kept["results"], kept["status"]) == ({"seed": 1}, {"mean": 1.5}, "done")
    assert list(store.scores(run)) == rows


def test_vectors_come_back_as_they_went_in_and_the_first_of_a_key_stays(store: Store) -> None:
    drawn = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)
    rows = {f"k{place}": vector for place, vector in enumerate(drawn)}
    kept = Embedded(store)
    assert kept.add("small", rows) == Added(1200, 0)
    assert kept.add("small", {"k0": np.ones(3), "one": np.ones(2)}) == Added(1, 1)
    store.close()
    again = Embedded(Store(store.url))
    found = again.vectors([*rows, "k0", "unknown"])
    assert found.keys() == rows.keys() and all(np.array_equal(found[key], rows[key]) for key in rows)
    assert {vector.dtype for vector in found.values()} == {np.dtype(np.float32)}
    assert again.vectors(["one"])["one"].tolist() == [1, 1] and again.vectors([]) == {}
    again._store.close()


def test_a_store_from_before_there_were_vectors_gets_room_for_them(store: Store) -> None:
    store.add_conversations([chat("a")])
    with store._engine.begin() as connection:
        connection.execute(text("DROP TABLE embeddings"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0006'"))
    store.close()
    opened = Store(store.url)
    assert Embedded(opened).add("small", {"k": np.ones(2)}) == Added(1, 0)
    assert list(opened.conversations()) == [chat("a")]
    opened.close()


WRITER = """
import sys
from accord import Conversation, Label, Store, Target, Turn
store, name = Store(sys.argv[1]), sys.argv[2]
for i in range(300):
    shared, own = f"shared-{i}", f"{name}-{i}"
    store.add_conversations([Conversation(c, (Turn("user", c),)) for c in (shared, own)])
    store.add_labels([Label(Target(own), "Q0", name, 3)])
"""


def test_processes_that_write_at_once_lose_nothing(store: Store) -> None:
    url = store.url
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, url, name], stderr=subprocess.PIPE) for name in "xyz"]
    for writer in writers:
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0, errors.decode()
    assert store.count_conversations() == 300 + 3 * 300
    assert len(store.labels()) == 900


REVERSED = """
import sys
from accord import Conversation, Store, Turn
store, order = Store(sys.argv[1]), int(sys.argv[2])
for batch in range(20):
    names = [f"c{batch}-{i}" for i in range(500)][::order]
    store.add_conversations([Conversation(c, (Turn("user", c),)) for c in names])
"""


def test_writers_of_the_same_rows_in_opposite_order_do_not_lock_each_other_out(store: Store) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", REVERSED, store.url, order], stderr=subprocess.PIPE)
        for order in ("1", "-1")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0, errors.decode()
    assert store.count_conversations() == 20 * 500
    assert len(list(store.conversation_ids())) == 20 * 500


def test_a_run_keeps_how_it_ended(store: Store) -> None:
    with store.run("compare", {}) as run:
        run.results.update(a=1)
    with pytest.raises(BadInput), store.run("fit", {}):
        raise BadInput("no")
    assert [(kept["command"], kept["status"], kept["results"]) for kept in store.runs()] == [
        ("compare", "done", {"a": 1}), ("fit", "failed", {}),
    ]  # fmt: skip


def test_processes_that_open_a_new_store_at_once_migrate_it_once(tmp_path: Path) -> None:
    code = "import sys; from accord import Store; print(Store(sys.argv[1]).count_conversations())"
    url = f"sqlite:///{tmp_path}/new.db"
    opened = [
        subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in opened:
        out, errors = process.communicate(timeout=120)
        assert out == b"0\n", errors.decode()


def test_a_full_disk_is_one_clear_line_and_keeps_what_was_written(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/small.db")
    store.add_conversations([chat("a")])

    def shrink(connection: object, _: object) -> None:
        connection.execute("PRAGMA max_page_count=40")  # type: ignore[attr-defined]

    from sqlalchemy import event

    event.listen(store._engine, "connect", shrink)
    store.close()
    with pytest.raises(StoreError, match=r"database or disk is full. What was written before is kept"):
        store.add_conversations(chat(f"c{i}", "long " * 2000) for i in range(5000))
    assert list(store.conversations(["a"])) == [chat("a")]


@pytest.mark.parametrize(
    ("url", "reason"),
    [("mysql://u:secret@h/d", "a store is SQLite or PostgreSQL, got mysql"), ("://", "the store is no database URL")],
)
def test_a_url_that_names_no_store_is_refused_without_showing_it(url: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason) as caught:
        Store(url)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_and_a_store_from_the_future(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, just text" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(f"sqlite:///{tmp_path}/text.db")
    store = Store(f"sqlite:///{tmp_path}/new.db")
    with store._engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(BadInput, match="written by a newer Accord"):
        Store(f"sqlite:///{tmp_path}/new.db")


def test_tables_after_migration_are_those_of_the_schema(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from accord.store import metadata

    with store._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_clock_that_was_set_back_changes_no_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import datetime, timedelta

    from accord.store import store as rows

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now(tz) - timedelta(days=1)  # type: ignore[arg-type]

    with store.run("first", {}):
        pass
    monkeypatch.setattr(rows, "datetime", SetBack)
    for name in ("second", "third"):
        with store.run(name, {}):
            pass
    assert [run["command"] for run in store.runs()] == ["first", "second", "third"]
