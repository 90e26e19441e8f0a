"""Imports are recorded, undone and replaced, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from commands import accord, accord_json
from new_project import new_project
from processes import Forked
from sqlalchemy import text

from accord.store import Imports, Store, check_store
from accord.values import Label, Target


@pytest.fixture(autouse=True)
def url(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_STORE", database)
    new_project()
    yield database


def read(*arguments: str) -> dict[str, Any]:
    return dict(accord_json("import", *arguments))


def chats(name: str, ids: str, reply: str = "hi") -> str:
    rows = [
        {"id": each, "messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": reply}]}
        for each in ids
    ]
    return written(name, "".join(json.dumps(row) + "\n" for row in rows))


def labels(name: str, ids: str, value: int = 3, annotator: str = "ann") -> str:
    return written(name, "conversation,annotator,Q0\n" + "".join(f"{each},{annotator},{value}\n" for each in ids))


def written(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


def held(url: str) -> tuple[str, list[tuple[str, Any]]]:
    """The ids of the store's conversations, and its labels as (conversation, value)."""
    store = Store(url)
    try:
        output = sorted((each.target.conversation, each.value) for each in store.labels())
        return "".join(each.id for each in store.conversations()), output
    finally:
        store.close()


def test_undo_removes_the_labels_and_conversations_of_one_import(url: str) -> None:
    first = read(chats("a.jsonl", "ab"), labels("a.csv", "ab"))["id"]
    second = read(chats("b.jsonl", "cd"), labels("b.csv", "cd", 4))["id"]
    listed = {each["id"]: each for each in read("--list")["imports"]}
    assert [Path(file).name for file in listed[first]["files"]] == ["a.jsonl", "a.csv"]
    assert "2 conversations and 2 labels removed" in accord("import", "--undo", first[:6])
    assert held(url) == ("cd", [("c", 4), ("d", 4)])
    undone = read("--undo")
    assert undone["undone"] == second and undone["removed"]["labels"] == 2
    assert held(url) == ("", [])
    assert {each["status"] for each in read("--list")["imports"]} == {"undone"}
    assert "there is no import to undo" in accord("import", "--undo", code=1)
    assert "unknown import" in accord("import", "--undo", first, code=1)


def test_rows_of_another_import_stay(url: str) -> None:
    first = read(chats("a.jsonl", "ab"), labels("a.csv", "ab"))["id"]
    read(chats("b.jsonl", "bc"), labels("b.csv", "b"))
    removed = read("--undo", first)["removed"]
    assert (removed["conversations"], removed["labels"], removed["confirmed"]) == (1, 1, 2)
    assert held(url) == ("bc", [("b", 3)])
    read("--undo")
    assert held(url) == ("", [])


def test_ratings_of_the_workbench_and_answers_of_models_stay(url: str) -> None:
    first = read(chats("a.jsonl", "abc"), labels("a.csv", "abc"))["id"]
    store = Store(url)
    store.add_labels([Label(Target("a"), "Q0", "bob", 1)])  # added by the workbench, without an import
    answer = {
        "key": "k", "conversation": "b", "turn": None, "question": "Q0", "judge": "m", "mode": "logprobs",
        "probabilities": '{"1": 1.0}', "made_from": "{}", "outside": 0.0, "version": "",
    }  # fmt: skip
    store.add_answers([answer])
    removed = read("--undo", first)["removed"]
    assert (removed["conversations"], removed["labels"], removed["kept_conversations"]) == (2, 3, 1)
    assert held(url) == ("a", [("a", 1)])
    assert "k" in store.answers(["k"])
    store.close()


def test_repeated_imports_of_a_file_add_no_rows(url: str) -> None:
    names = chats("a.jsonl", "ab"), labels("a.csv", "ab")
    first = read(*names)["id"]
    for _ in range(3):
        last = read(*names)["id"]
    assert check_store(url).rows["confirmations"] == 4
    assert read("--undo", first)["removed"]["confirmed"] == 4
    assert held(url) == ("ab", [("a", 3), ("b", 3)])
    assert read("--undo", last)["removed"]["labels"] == 2
    assert held(url) == ("", [])


DAY = "2026-01-0{}T10:00:00+00:00"


@pytest.mark.parametrize("annotator", ["ann", ""])
@pytest.mark.parametrize(
    "names", [["bare.csv", "timed.csv"], ["timed.csv", "bare.csv"], ["timed.csv", "seconds.csv", "bare.csv"]]
)
def test_labels_with_and_without_times_are_the_same_labels(url: str, names: list[str], annotator: str) -> None:
    rated = [("a", 3), ("a", 3), ("a", 4), ("b", 2)]  # one conversation is rated three times, twice alike
    head = "conversation,Q0,annotator" if annotator else "conversation,Q0"
    rows = [f"{name},{value}{',' if annotator else ''}{annotator}" for name, value in rated]
    times = [DAY.format(place + 1) for place in range(len(rated))]
    moments = [str(int(datetime.fromisoformat(each).timestamp())) for each in times]
    files = {
        "bare.csv": [head, *rows], "timed.csv": [f"{head},time", *map(",".join, zip(rows, times, strict=True))],
        "seconds.csv": [f"{head},time", *map(",".join, zip(rows, moments, strict=True))],
    }  # fmt: skip
    for name, lines in files.items():
        written(name, "\n".join(lines) + "\n")
    done = [read(chats("a.jsonl", "ab"), names[0]), *(read(name) for name in names[1:])]
    assert [each["labels"]["new"] for each in done] == [4] + [0] * (len(names) - 1)
    assert [read(name)["labels"] for name in names] == [{"new": 0, "known": 4}] * len(names)
    with closing(Store(url)) as store:
        stored = list(store.annotations({"person"}))
    assert sorted((each.target.conversation, each.value) for each in stored) == rated
    assert sorted(str(each.time) for each in stored) == times
    read("--undo", done[0]["id"])
    assert held(url)[1] == (rated[2:] if annotator else rated), "the other import has these labels too"


def test_ratings_of_one_file_are_never_joined(url: str) -> None:
    content = f"conversation,Q0,annotator,time\na,3,ann,\na,3,ann,{DAY.format(1)}\na,3,ann,{DAY.format(2)}\n"
    assert read(chats("a.jsonl", "a"), written("mixed.csv", content))["labels"]["new"] == 3
    assert read("mixed.csv")["labels"]["new"] == 0


def test_a_corrected_file_replaces_the_wrong_one(url: str) -> None:
    read(chats("a.jsonl", "ab"), labels("a.csv", "ab"))
    labels("a.csv", "a", 4)
    assert "replaced the earlier import" in accord("import", "--replace", "a.csv")
    assert held(url) == ("ab", [("a", 4)])
    chats("elsewhere/a.jsonl", "a", "corrected")
    assert read("--replace", "elsewhere/a.jsonl")["replaced"]["conversations"] == 2
    store = Store(url)
    assert [each.turns[1].content for each in store.conversations()] == ["corrected"]
    store.close()
    assert held(url) == ("a", [("a", 4)]), "labels of another file stay"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "conversation,annotator,Q0\na,ann,77\n", "77"),
        ("a.jsonl", '{"id": "b", "messages": [{"role": "user", "content": "x"}]}\n', "1 label of other imports"),
    ],
)
def test_a_replacement_that_fails_leaves_everything(url: str, name: str, content: str, says: str) -> None:
    read(chats("a.jsonl", "a"), labels("a.csv", "a"))
    before = held(url), read("--list")
    written(name, content)
    assert says in accord("import", "--replace", name, code=1)
    assert (held(url), read("--list")) == before


def test_replacing_a_name_used_in_several_folders_is_refused(url: str) -> None:
    read(chats("a/x.jsonl", "a"))
    read(chats("b/x.jsonl", "b"))
    assert "from several folders" in accord("import", "--replace", chats("c/x.jsonl", "c"), code=1)
    assert held(url)[0] == "ab"
    read("--replace", chats("b/x.jsonl", "d"))
    assert held(url)[0] == "ad"


def test_a_failed_import_without_rows_leaves_no_record(url: str) -> None:
    read(chats("a.jsonl", "a"))
    before = read("--list")
    output = accord("import", written("a.csv", "conversation,annotator,Q0\na,ann,77\n"), code=1)
    assert "77" in output and "--undo" not in output
    assert read("--list") == before


def test_files_of_one_name_in_two_folders_keep_their_conversations_apart(url: str) -> None:
    """Conversations without an ID are named after their file; a file that was moved keeps its names."""
    one, other = (written(f"{folder}/x.csv", f"prompt,response\n{folder},hi\n") for folder in "ab")
    assert read(one, other)["conversations"]["new"] == 2
    assert read(other)["conversations"] == {"new": 0, "known": 1}
    assert read(written("moved/x.csv", "prompt,response\na,hi\n"))["conversations"]["new"] == 0
    store = Store(url)
    assert {each.id: each.turns[0].content for each in store.conversations()} == {"x-2": "a", "b-x-2": "b"}
    store.close()
    written("a/x.csv", "prompt,response\nedited,hi\n")
    assert "'x-2' is in the store with other content" in accord("import", one, code=1)


def test_the_error_about_a_bad_row_names_the_rows_that_stay(url: str) -> None:
    path = Path(chats("chats.jsonl", "abcd"))
    lines = path.read_text(encoding="utf-8").splitlines()
    output = accord("import", written("chats.jsonl", "\n".join([*lines[:2], "{broken", lines[3]])), code=1)
    [failed] = read("--list")["imports"]
    assert f"the rows before the bad one are import {failed['id']} (2 conversations). Correct it" in output
    assert f"remove them: accord import --undo {failed['id']}" in output


def test_the_rows_before_a_bad_one_can_be_undone(url: str) -> None:
    read(chats("a.jsonl", "ab"))
    output = accord("import", written("a.csv", "conversation,annotator,Q0\na,ann,3\nb,ann,77\n"), code=1)
    failed = read("--list")["imports"][-1]
    assert (failed["results"]["conversations"], failed["results"]["labels"]) == ({"new": 0}, {"new": 1})
    assert failed["status"] == "failed" and f"accord import --undo {failed['id']}" in output
    assert held(url) == ("ab", [("a", 3)])
    read("--undo")
    assert held(url) == ("ab", [])


def test_conversations_are_removed_with_their_last_labels(url: str) -> None:
    first = read(chats("a.jsonl", "ab"))["id"]
    read(labels("a.csv", "a"))
    assert read("--undo", first)["removed"] == {
        "labels": 0, "conversations": 1, "confirmed": 0, "kept_conversations": 1, "kept_answers": 0,
    }  # fmt: skip
    assert held(url) == ("a", [("a", 3)])
    read("--undo")
    assert held(url) == ("", [])


# --- several processes ----------------------------------------------------------------------------------------------

WRITER = """
import sys
from accord.store import Imports, Store
from accord.values import Conversation, Label, Target, Turn

store = Store(sys.argv[1])
with Imports(store).recording(["slow.jsonl", "slow.csv"]) as recording:
    recording.begin(0)
    store.add_conversations(Conversation(name, (Turn("user", "hello"),)) for name in "xy")
    print(recording.id, flush=True)
    sys.stdin.readline()
    recording.begin(1)
    store.add_labels([Label(Target("x"), "Q0", "ann", 3)])
    store.add_conversations([Conversation("z", (Turn("user", "hello"),))])
"""


@pytest.fixture()
def writer(url: str) -> Iterator[subprocess.Popen[str]]:
    """An import of another process that has written two conversations and waits for a line of input."""
    process = Forked(
        ["-c", WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def executed(url: str, statement: str) -> None:
    store = Store(url)
    with store._engine.begin() as connection:
        connection.execute(text(statement))
    store.close()


@pytest.mark.attack
@pytest.mark.parametrize("which", ["", "running", "other"])
def test_undo_during_an_import_is_refused(url: str, writer: subprocess.Popen[str], which: str) -> None:
    name = first_line(writer)
    other = read(chats("a.jsonl", "ab"))["id"]
    names = {"": (), "running": (name,), "other": (other,)}[which]
    assert f"import {name} is running" in accord("import", "--undo", *names, code=1)
    assert f"import {name} is running" in accord("import", "--replace", "a.jsonl", code=1)
    _, errors = writer.communicate("go on\n")
    assert writer.returncode == 0, errors
    assert held(url) == ("abxyz", [("x", 3)])
    read("--undo", name)
    assert held(url) == ("ab", []) and check_store(url).damage == []


@pytest.mark.attack
def test_killed_import_is_interrupted_and_can_be_undone(url: str, writer: subprocess.Popen[str]) -> None:
    name = first_line(writer)
    assert [each["status"] for each in read("--list")["imports"]] == ["running"]
    writer.kill()
    writer.wait()
    assert [each["status"] for each in read("--list")["imports"]] == ["interrupted"]
    assert read("--undo")["undone"] == name
    assert held(url) == ("", []) and check_store(url).damage == []


@pytest.mark.attack
def test_import_that_lost_its_claim_stops_when_it_was_undone(url: str, writer: subprocess.Popen[str]) -> None:
    name = first_line(writer)
    executed(url, "UPDATE claims SET until = '2000-01-01T00:00:00.000+00:00'")  # as if its machine had slept
    assert read("--undo")["undone"] == name
    _, errors = writer.communicate("go on\n")
    assert writer.returncode != 0 and f"import {name} was ended by another process (undone)" in errors
    assert held(url) == ("", []) and check_store(url).damage == []
    assert [each["status"] for each in read("--list")["imports"]] == ["undone"]


@pytest.mark.attack
def test_check_finds_and_repairs_rows_that_belong_to_nothing(url: str) -> None:
    read(chats("a.jsonl", "abc"), labels("a.csv", "abc"))
    read(chats("b.jsonl", "de"), labels("b.csv", "ade"))
    store = Store(url)
    store.add_labels([Label(Target("b"), "Q0", "bob", 1)])  # added by the workbench: its conversation stays
    parts = store.runs("import")[0]["settings"]
    store.change_run(store.runs("import")[0]["id"], {**parts, "undone": [0, 1]})
    store.close()
    executed(url, "DELETE FROM conversations WHERE id = 'd'")
    output = accord("store", "check", code=1)
    assert "1 conversation and 3 labels belong to undone imports" in output and "--repair" in output
    assert "1 conversation and 3 labels removed" in accord("store", "check", "--repair")
    assert held(url) == ("abe", [("a", 3), ("b", 1), ("e", 3)])
    assert "0 conversations and 0 labels removed" in accord("store", "check", "--repair")


def test_recording_is_visible_as_running_in_its_own_process(url: str) -> None:
    store = Store(url)
    with Imports(store).recording(["a.jsonl"]) as recording:
        recording.begin(0)
        assert [each.status for each in Imports(store).known()] == ["running"]
    assert recording.id is None and Imports(store).known() == []
    store.close()
