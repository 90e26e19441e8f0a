"""Large imports: several workers store the same rows as one, and fast JSON paths give the same results."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord import Conversation, Store, Turn
from accord.edges import AccordError, BadInput, BadRow
from accord.formats import WrongShape, decoded_json, rating_cells, rating_labels, read, read_rows
from accord.project import Imported, ImportOptions, import_files
from accord.project.importing import worker as preparing
from accord.store import AnnotationKeys, StoreError, conversation_row, label_row
from accord.values import GrowingTurns, Label, PlainTurns, Rubric, Target, canonical_json, content_hash

USER, REPLY = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}


def rated(name: str, *messages: dict[str, Any], value: Any = 3, **more: Any) -> dict[str, Any]:
    rating = {"annotator": "p1", "question": "Q0", "value": value}
    return {"id": name, "level": "dialogue", "messages": messages or [USER, REPLY], "ratings": [rating], **more}


ODD: list[Any] = [
    rated("plain"),
    rated("ümlaut", {"role": "user", "content": "Grüße 🙂"}, {"role": "assistant", "content": '\x7f \0 \u2028 \\ " /'}),
    rated("roles", {"role": "Human", "content": "hi"}, {"role": "bot", "content": "ho"}),
    rated("tools", USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "n": 1e22}]}),
    rated("parts", USER, {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}),
    rated("floats", meta={"score": 0.1, "large": 1e16, "small": 1e-7, "big": 2**70}),
    rated("named", {**USER, "name": "ann", "time": "2026-01-01"}, REPLY),
    rated("no text", value=2) | {"messages": []},
    rated("off the scale", value=99),
    rated("a number as a role", {"role": 4, "content": "x"}),
    rated("a list as a role", USER, {"role": ["user"], "content": "x"}),
    rated("a number as a text", USER, {"role": "assistant", "content": 3}),
    rated("a text as a message") | {"messages": ["Why?"]},
    rated("a list as a rating") | {"ratings": [["annotator", "question", "value"]]},
    rated("nobody's answer", meta={"not_applicable": ["Q1", ["p9", "Q2"]]}),
    rated("deep", meta={"a": json.loads("[" * 99 + "]" * 99)}),
    rated("too deep", meta={"a": json.loads("[" * 101 + "]" * 101)}),
    rated("plain"),
    {**rated("plain"), "messages": [REPLY, USER]},
    rated("another question") | {"ratings": [{"annotator": "p2", "question": "tone", "value": 1}]},
    rated("two alike") | {"ratings": [{"annotator": "p2", "question": "Q0", "value": 1}] * 2},
    rated("with documents", knowledge=["a text", {"text": "b", "id": 7}]),
    {"id": "not of the format"},
    [1, 2],
]
LINES = [json.dumps(row) for row in ODD]
LINES += ['{"id": "nan", "level": "d", "messages": [], "ratings": [], "x": NaN}', "{broken", "", "   ", '"text"']
LINES += ['{"id": "half", "level": "d", "ratings": [], "messages": [{"role": "user", "content": "\\ud800"}]}']
LINES += [json.dumps(rated(f"c{n}", value=1 + n % 4)) for n in range(1200)]


def contents(store: Store) -> list[tuple[Any, ...]]:
    with store._engine.connect() as connection:
        chats = connection.exec_driver_sql("SELECT id, hash, system, turns, content FROM conversations ORDER BY id")
        output = connection.exec_driver_sql(
            'SELECT key, conversation, turn, question, "by", value, wording, place FROM annotations ORDER BY place'
        )
        return [*map(tuple, chats.all()), *map(tuple, output.all())]


def imported(path: Path, rubric: Rubric, workers: int, skip: bool = True) -> tuple[Imported, list[Any]]:
    store = Store(f"sqlite:///{path.with_suffix('')}-{workers}-{skip}.db")
    try:
        done = import_files(store, rubric, [path], skip_bad_rows=skip, workers=workers)
        return done, contents(store)
    finally:
        store.close()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(preparing, "LARGE_BYTES", 1)
    monkeypatch.setattr(preparing, "BATCH_ROWS", 100)
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_several_workers_store_the_same_rows_as_one(file: Path, rubric: Rubric) -> None:
    alone, rows = imported(file, rubric, 1)
    together, same = imported(file, rubric, 2)
    assert same == rows and len(rows) > 2400
    bad = [sorted(done.to_json().pop("bad_rows")) for done in (alone, together)]
    assert bad[0] == bad[1] and 6 < alone.skipped < 20
    assert {**together.to_json(), "bad_rows": [], "id": ""} == {**alone.to_json(), "bad_rows": [], "id": ""}


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_before_a_bad_row_stay_and_the_row_is_named(file: Path, rubric: Rubric, workers: int) -> None:
    good = [json.dumps(rated(f"c{n}")) for n in range(350)]
    file.write_text("\n".join([*good, "{broken", *good]) + "\n", encoding="utf-8")
    with pytest.raises(BadRow, match="line 351: not JSON"):
        imported(file, rubric, workers, skip=False)
    store = Store(f"sqlite:///{file.with_suffix('')}-{workers}-False.db")
    assert store.count_conversations() == 350 and len(store.labels()) == 350
    store.close()


def test_a_killed_worker_is_a_one_line_error(file: Path, rubric: Rubric) -> None:
    class Kills(dict[str, str]):
        def __reduce__(self) -> Any:
            return os._exit, (9,)

    store = Store("sqlite:///:memory:")
    with pytest.raises(AccordError, match="a worker that read .* was killed.* --workers 1"):
        import_files(store, rubric, [file], workers=2, options=ImportOptions(roles=Kills()))
    store.close()


LONG = """
import sys
from pathlib import Path
from accord.project import import_files
from accord.project.importing import worker as preparing
from accord.store import Store
from accord.values import load_rubric
preparing.LARGE_BYTES, preparing.BATCH_ROWS = 1, 100
if __name__ == "__main__":
    def on_progress(seen):
        print(seen, flush=True)
        sys.stdin.readline()  # until the test is done with it
    import_files(Store("sqlite:///:memory:"), load_rubric("llm-rubric"), [sys.argv[1]], on_progress=on_progress,
                 skip_bad_rows=True, workers=2)
"""


@pytest.mark.linux
def test_workers_end_with_their_parent(file: Path, tmp_path: Path) -> None:
    mark = f"ACCORD_TEST_MARK={tmp_path.name}"
    (tmp_path / "long.py").write_text(LONG, encoding="utf-8")

    def left() -> list[str]:
        result = []
        for each in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                result += [each.parent.name] if mark.encode() in each.read_bytes() else []
        return result

    environment = {**os.environ, "ACCORD_TEST_MARK": tmp_path.name}
    command = [sys.executable, str(tmp_path / "long.py"), str(file)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and int(running.stdout.readline()) > 0
        assert len(left()) >= 3, "itself and two workers"
        running.kill()
    until = time.monotonic() + 60
    while left() and time.monotonic() < until:
        time.sleep(0.1)
    assert left() == []


def test_a_file_of_only_bad_rows_is_refused(file: Path, rubric: Rubric) -> None:
    file.write_text(json.dumps(rated("first")) + "\n" + "{broken\n" * 11_000, encoding="utf-8")
    with pytest.raises(BadInput, match="bad rows in succession"):
        imported(file, rubric, 2)


@pytest.mark.parametrize("name", ["array.jsonl", "wrapped.json", "table.csv", "turns.jsonl"])
def test_files_without_a_conversation_per_line_use_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rubric: Rubric, name: str
) -> None:
    monkeypatch.setattr(preparing, "LARGE_BYTES", 1)
    rows = [{"id": f"c{n}", "messages": [USER, REPLY]} for n in range(3)]
    turns = [
        {"conversation": f"c{n}", "role": role, "content": "x"} for n in range(3) for role in ("user", "assistant")
    ]
    texts = {
        "array.jsonl": json.dumps(rows),
        "wrapped.json": json.dumps({"data": rows}),
        "table.csv": "id,prompt,response\n" + "".join(f"c{n},why,so\n" for n in range(3)),
        "turns.jsonl": "\n".join(map(json.dumps, turns)),
    }
    (tmp_path / name).write_text(texts[name], encoding="utf-8")
    monkeypatch.setattr(preparing, "_parallel", None)  # not called
    done, _ = imported(tmp_path / name, rubric, 4)
    assert done.conversations.new == 3


ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@ANY_SPEED
@given(JSON)
def test_the_fast_decoder_agrees_with_json(value: Any) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        raw = written.encode("utf-8", "surrogatepass")
        assert repr(decoded_json(raw)) == repr(json.loads(written))


@pytest.mark.parametrize("raw", [b"[1e999]", b"[01]", b"[NaN]", b'["\\ud800x"]', b"[1]x", b"[\x0b1]", b'["\x01"]',
                                 b"[" * 3000, b"[" + b"9" * 5000 + b"]", b'{"a":1,"a":2}', b"[-0]", b"[1E400]", b""])  # fmt: skip
def test_json_decides_on_text_that_the_fast_decoder_rejects(raw: bytes) -> None:
    def said(decode: Any) -> str:
        try:
            return repr(decode())
        except (ValueError, RecursionError) as error:
            return type(error).__name__

    assert said(lambda: decoded_json(raw)) == said(lambda: json.loads(raw.decode()))


@ANY_SPEED
@given(
    st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()})),
    st.dictionaries(st.text(), JSON.filter(lambda value: value == value), max_size=3),
    st.booleans(),
)
def test_conversations_are_stored_as_canonical_json(
    messages: list[dict[str, str]], metadata: dict[str, Any], plain: bool
) -> None:
    turns = PlainTurns(messages) if plain else tuple(Turn(each["role"], each["content"]) for each in messages)
    conversation = Conversation("c", turns, metadata=metadata)
    assert conversation_row(conversation, "now")["content"] == canonical_json(conversation.to_json())


@ANY_SPEED
@given(st.text(), st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.none() | st.text())
def test_the_key_of_a_label_is_the_hash_of_its_canonical_list(name: str, value: Any, time: str | None) -> None:
    keys, output = AnnotationKeys(), [name, 2, "Q0", name, value, time]
    for count in (1, 2):
        row = label_row(Label(Target(name, 2), "Q0", name, value, time), keys, "now", "wording")
        assert row["key"] == content_hash([*output, count], length=40) and row["value"] == canonical_json(value)
        assert row["wording"] == "wording" and row["by"] == name


NAMES = ["Q0", "rating", "ratings", "tone", "annotator", "rater1", "Q0_r2", "system"]
CELLS = st.integers() | st.text() | st.lists(st.integers(), max_size=2) | st.dictionaries(st.sampled_from(NAMES), JSON)


@ANY_SPEED
@given(st.dictionaries(st.sampled_from(NAMES), CELLS, max_size=4), st.booleans())
def test_rating_labels_match_a_full_search(metadata: dict[str, Any], plain: bool) -> None:
    turns = PlainTurns([USER, REPLY]) if plain else (Turn("user", "Why?", extra={"Q0": 3}),)
    conversation, asked = Conversation("c", turns, metadata=metadata), {"Q0", "rating"}
    try:
        result = {each.question for each in rating_cells(conversation)}
    except WrongShape:
        return
    try:
        labels = rating_labels(conversation, asked)
    except WrongShape as error:
        assert "cannot be stored as text" in str(error)  # NUL in the name of an annotator
        return
    assert {label.question for label in labels} == result & asked


@pytest.mark.parametrize("value", [99, "five", 2.5, [3], True])
def test_an_answer_off_the_scale_is_refused_after_valid_ones(tmp_path: Path, rubric: Rubric, value: Any) -> None:
    rows = [rated(f"c{n}", value=1 + n % 4) for n in range(50)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, rated("wrong", value=value), *rows[:9]])), encoding="utf-8")
    done, _ = imported(path, rubric, 1)
    assert done.skipped == 1 and done.labels.new == 59 and "a.jsonl" in done.bad_rows[0]


def test_labels_of_an_interrupted_import_are_added_by_the_next(
    file: Path, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("\n".join(json.dumps(rated(f"c{n}")) for n in range(650)), encoding="utf-8")

    def fails(*_: Any) -> None:
        raise StoreError("no room")

    with monkeypatch.context() as broken, pytest.raises(StoreError, match="no room"):
        broken.setattr(Store, "add_annotation_rows", fails)
        imported(file, rubric, 1)
    done, rows = imported(file, rubric, 1)
    assert (done.conversations.known, done.labels.new, len(rows)) == (400, 650, 1300)  # four parts of a hundred


def test_plain_turns_equal_full_turns(tmp_path: Path) -> None:
    turns = PlainTurns([USER, REPLY])
    same = (Turn("user", "Why?"), Turn("assistant", "So."))
    growing = GrowingTurns().plus(same[0]).plus(same[1])
    assert turns == same and same == turns and turns == growing and growing == turns and hash(turns) == hash(same)
    assert turns[1] == same[1] and turns[:1] == same[:1] and list(turns) == list(same) and len(turns) == 2
    assert turns != same[:1] and repr(turns) == repr(same) and pickle.loads(pickle.dumps(turns)) == turns
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "c", "messages": [USER, REPLY]}), encoding="utf-8")
    [record] = read(tmp_path / "a.jsonl")
    assert isinstance(record.conversation.turns, PlainTurns) and record.conversation.by("user") == same[:1]


def test_brackets_in_a_text_do_not_count_as_depth(tmp_path: Path) -> None:
    row = {"id": "c", "messages": [{"role": "user", "content": "[" * 500}, REPLY]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert [type(each).__name__ for each in read_rows(tmp_path / "a.jsonl")] == ["Row"]


SLOW_TO_LOAD = ["sklearn", "scipy.stats", "scipy.optimize", "scipy.special", "polars", "httpx2", "jax", "torch",
                "fastapi", "sqlalchemy.dialects.postgresql.asyncpg"]  # fmt: skip


@pytest.mark.parametrize("command", [["store", "check"], ["watch"], ["plugins"], ["import", "chats.jsonl"]])
def test_import_loads_no_slow_modules(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "accord.yaml").write_text("store: sqlite:///a.db\n", encoding="utf-8")
    (tmp_path / "chats.jsonl").write_text(json.dumps({"id": "c", "messages": [USER, REPLY]}) + "\n", encoding="utf-8")
    Store(f"sqlite:///{tmp_path}/a.db").close()
    code = "import sys; sys.argv = ['accord', *sys.argv[1:]]\nfrom accord.cli import main\ntry:\n    main()\nfinally:\n"
    code += f"    print([name for name in {SLOW_TO_LOAD} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "[]", ran.stdout + ran.stderr
