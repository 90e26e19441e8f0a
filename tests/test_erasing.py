"""Erasing: a canary is written into every place by the real commands, erased, and looked for in all bytes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from commands import accord, accord_json, refused, write_rows
from misbehaving_endpoint import answer_any
from planted_canary import (
    MARKS,
    REPLIED,
    SAID,
    USER,
    VICTIM,
    answered,
    chat,
    fill,
    marks_in,
    others,
    victim,
)
from processes import Forked
from serving import TOKEN, serving
from throwaway_postgres import ThrowAwayPostgres
from waiting import until

from accord.edges import BadInput
from accord.project import Project, Selection, erase, expire, plan_erasure
from accord.project.config import config_from
from accord.project.erasing.inventory import FILE_PLACES, STORE_PLACES
from accord.store import ErasedText, Erasures, Spool, Store, backup, restore
from accord.store.schema import metadata
from accord.testing import ChatServer
from accord.testing.server import Batches
from accord.values import Conversation, Turn


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A filled project, which each test copies."""
    folder, inputs = tmp_path_factory.mktemp("filled"), tmp_path_factory.mktemp("inputs")
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch, ChatServer(answered) as server:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        patch.chdir(folder)
        fill(folder, inputs, server.url, "sqlite:///accord.db")
    os.chdir(before)
    yield folder


@pytest.fixture
def project(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(filled, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    return folder


def test_the_project_has_the_canary_in_every_place(project: Path) -> None:
    found = {Path(path).relative_to(project).parts[0] for path in marks_in(project)}
    assert {"accord.db", "accord.db.scores", "evaluators", "scores.jsonl", "scores.csv", "scores.parquet", "parts",
            "report.html", "annotations.jsonl", "judgments", "uploads", "copies", "push-spool"} <= found  # fmt: skip
    with closing(Store("sqlite:///accord.db")) as store:
        store.finish_run(store.start_run("gaps", {}), "done", {"examples": [{"conversation": VICTIM, "turn": 1}]})
        tables = {name for name, table in metadata.tables.items()
                  if any(mark.decode() in str(tuple(row)) for row in store._stream(table.select()) for mark in MARKS)}  # fmt: skip
    assert {"conversations", "annotations", "cache", "cache_conversations", "runs"} <= tables


def test_erasing_a_conversation_leaves_no_byte_of_it_and_all_others(project: Path) -> None:
    before, counts = others(), plan_erasure_json()
    result = accord_json("store", "erase", "--conversation", VICTIM, "--yes")
    assert marks_in(project) == {}
    assert others() == before
    assert result["conversations"] == 1 and result["rows"]["conversations"] == 1 and result["scores"] > 0
    assert {each["kind"] for each in result["files"]} >= {
        "scores",
        "report",
        "store",
        "judgements",
        "upload",
        "evaluator",
    }
    assert counts["rows"]["annotations"] == result["rows"]["annotations"]
    assert "chat-1" in Path("scores.jsonl").read_text() or "new-1" in Path("scores.jsonl").read_text()
    assert "nothing is damaged" in accord("store", "check")
    assert "nothing is damaged" in accord("store", "check", "--set", "store=sqlite:///copies/backup.db")


def plan_erasure_json() -> dict[str, Any]:
    found = accord_json("store", "erase", "--conversation", VICTIM, "--plan")
    assert marks_in(Path())
    return dict(found)


def erased_by_command(*options: str) -> dict[str, Any]:
    return dict(accord_json("store", "erase", *options, "--yes"))


# --- interrupted ----------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from accord.cli import commands
from accord.cli.app import app
from accord.project.erasing import erase, files
from accord.store import erasing
from accord.scoring import erased_rows
import importlib

left = int(sys.argv[1])
def counted(owner, name):
    real = getattr(owner, name)
    def call(*given, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **more)
    setattr(owner, name, call)

import accord.store.mart.erasing
from accord.store.mart.mart import Mart
from accord.store.store import Store
counted(erasing.Erasures, "bury")
counted(erase, "erase_scores")
counted(Mart, "_write")
counted(Mart, "compact")
counted(files, "write_atomically")
counted(erased_rows, "write_atomically")
counted(erasing.Erasures, "erase")
counted(erasing, "_scrub_json")
counted(erasing, "_scrub_days")
counted(Store, "change_run")
counted(importlib.import_module("accord.store.backup"), "_empty_log")
counted(Store, "finish_run")
counted(erase, "vacuum")
app(["store", "erase", "--conversation", sys.argv[2], "--yes"], prog_name="accord")
"""


@pytest.mark.attack
@pytest.mark.slow
@pytest.mark.parametrize("point", [0, 1, 2, 3, 4, 6, 8, 10, 13, 16, 18, 20, 22, 24, 26])
def test_killed_erasure_is_continued(project: Path, point: int) -> None:
    before = others()
    killed = Forked(["-c", KILLED, str(point), VICTIM], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, errors = killed.communicate()
    assert killed.returncode in (-signal.SIGKILL, 0), errors
    if killed.returncode:
        with closing(Store("sqlite:///accord.db")) as store:
            was_begun = bool(store.runs("erase"))
        if was_begun:
            assert "accord store erase --resume" in accord("store", "check")
            accord("store", "erase", "--resume")
        else:
            erased_by_command("--conversation", VICTIM)
    assert marks_in(project) == {}
    assert others() == before
    assert accord("store", "erase", "--resume").strip() == "no erasure was interrupted"
    assert "nothing is damaged" in accord("store", "check")


# --- while others work ----------------------------------------------------------------------------------------------


def live_message(port: int, name: str, text: str) -> int:
    message = {"conversation": name, "role": "assistant", "content": text, "system": "bot-1"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/scores", json.dumps(message), headers)
        return connection.getresponse().status


@pytest.mark.attack
@pytest.mark.slow
def test_erasing_beside_two_servers_and_a_study(project: Path) -> None:
    Path("accord.yaml").write_text(json.dumps({
        "store": "sqlite:///accord.db", "studies": {"look": {"title": "Look", "items": {"sample": 30}}},
    }))  # fmt: skip
    with (
        serving(project, "--evaluator", "evaluators/metrics") as first,
        serving(project, "--evaluator", "evaluators/metrics") as second,
    ):
        for server in (first, second):
            assert live_message(server.port, VICTIM, f"Here is {REPLIED}.") == 200
            assert live_message(server.port, "live-other", "Nothing special.") == 200
        with closing(Store("sqlite:///accord.db")) as store:
            items = metadata.tables["items"]
            assert any(row.conversation == VICTIM for row in store._stream(items.select()))
        assert any(marks_in(project / "accord.db.scores").values())
        erased_by_command("--conversation", VICTIM)
        logs = {"serve.log"}
        assert {Path(path).name for path in marks_in(project)} <= logs
        for server in (first, second):  # a client goes on in the erased conversation
            assert live_message(server.port, VICTIM, f"Here is {REPLIED}.") == 200
            assert live_message(server.port, "live-other", "Something else.") == 200
    assert {Path(path).name for path in marks_in(project)} <= logs
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        names = opened.mart.read(lambda rows: rows.select("conversation").collect())[0]["conversation"].to_list()
    assert "live-other" in names and VICTIM not in names


def test_pending_batch_brings_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None) -> None:
    monkeypatch.chdir(tmp_path)
    with ChatServer(Batches(answer_any, looks=0)) as server:
        judge = {"mode": "sampling", "samples": 2, "model": "m1", "base_url": server.url}
        Path("accord.yaml").write_text(json.dumps({"models": {"judge": judge}}))
        accord("import", write_rows("chats.jsonl", [victim(), chat("chat-1")]))
        accord("judge", "--batch", "--all", code=5)
        receipt = erased_by_command("--conversation", VICTIM)
        assert receipt["batches"] and "batch-0 at" in receipt["batches"][0]
        accord("judge", "--batch", "--all", code=None)
        accord("judge", "--batch", "--all", code=None)
    with closing(Store("sqlite:///accord.db")) as store:
        answers = {each.target.conversation for each in store.annotations({"model"})}
    Path("chats.jsonl").unlink()
    assert answers == {"chat-1"} and marks_in(tmp_path) == {}


def test_late_answers_about_an_erased_conversation_are_not_stored(store: Store) -> None:
    name = "late"
    store.add_conversations([Conversation(name, (Turn("user", SAID),)), Conversation("other", ())])
    Erasures(store).bury({name: None})
    Erasures(store).erase(ErasedText(store.conversations([name])), [name])
    answer = {
        "conversation": name, "turn": None, "question": "Q0", "judge": "m1", "mode": "logprobs", "outside": 0.0,
        "probabilities": '{"1":1.0}', "made_from": '{"a":1}', "version": None,
    }  # fmt: skip
    store.add_answers([{**answer, "key": "k1"}, {**answer, "key": "k2", "conversation": "other"}])
    reply = {"maker": "m1", "content": "{}"}
    store.add_replies([
        {**reply, "key": "r1", "conversations": [name, "other"]}, {**reply, "key": "r2", "conversations": ["other"]},
    ])  # fmt: skip
    counts = store.add_conversations([Conversation(name, (Turn("user", SAID),))])
    assert (counts.new, counts.erased) == (0, 1)
    assert [each.target.conversation for each in store.annotations()] == ["other"]
    assert store.replies(["r1", "r2"]).keys() == {"r2"}


def test_waiting_answers_are_erased(project: Path) -> None:
    with closing(Store("sqlite:///accord.db")) as store:
        rows = [
            {"kind": "reply", "key": f"k{n}", "maker": "m1", "conversations": names,
             "content": json.dumps({"text": SAID, "model": "m1", "first_token": None, "usage": {}})}
            for n, names in enumerate([[VICTIM], ["chat-1"], None])
        ]  # fmt: skip
        folder = Spool(store).put(rows)
    assert folder is not None
    held = folder.rename(project / "held.unsaved")
    before = Path.cwd()
    (project / "accord.db.unsaved").mkdir()
    for path in held.iterdir():
        shutil.move(path, project / "accord.db.unsaved")
    held.rmdir()
    from accord.project.erasing.files import ErasedContent, erase_in_files
    from accord.scoring import ErasedNames

    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:  # opening stores what waits
        with closing(Store("sqlite:///accord.db")) as store:
            assert Spool(store).put(rows) is not None
        content = ErasedContent(ErasedText(names=[VICTIM]), ErasedNames({VICTIM: None}))
        found = [each for each in erase_in_files(opened, content) if each.kind == "waiting answers"]
    assert [each.rows for each in found] == [2] and before == Path.cwd()
    [left] = (project / "accord.db.unsaved").glob("*.jsonl")
    assert [json.loads(line)["conversations"] for line in left.read_text().splitlines()] == [["chat-1"]]


# --- kinds of selection and options -----------------------------------------------------------------------------------


def test_a_user_is_erased_with_all_conversations(project: Path) -> None:
    assert erased_by_command("--user", USER)["conversations"] == 1
    assert marks_in(project) == {}
    assert "no conversation by user 'nobody'" in refused("store", "erase", "--user", "nobody", "--yes")


def test_conversations_before_a_day_are_erased(project: Path) -> None:
    receipt = erased_by_command("--before", "2026-03-10")
    with closing(Store("sqlite:///accord.db")) as store:
        left = {each.metadata["time"] for each in store.conversations()}
    assert receipt["conversations"] == 10 and left and min(left) >= "2026-03-10"


def test_kept_scores_have_a_pseudonym_and_no_text(project: Path) -> None:
    erased_by_command("--conversation", VICTIM, "--keep-scores")
    assert marks_in(project) == {}
    rows = [json.loads(line) for line in Path("scores.jsonl").read_text().splitlines()]
    assert [row["conversation"].startswith("erased-") for row in rows] == [True, False] and rows[0]["value"]
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        frame, _ = opened.mart.read(lambda rows: rows.collect())
    kept = frame.filter(frame["conversation"].str.starts_with("erased-"))
    assert len(kept) and kept["value"].is_not_null().all() and kept["notes"].is_null().all()


@pytest.mark.parametrize("keeps", [True, False])
def test_an_annotator_is_erased(project: Path, keeps: bool) -> None:
    accord("users", "add", "ann")
    with closing(Store("sqlite:///accord.db")) as store:
        before = [label.value for label in store.labels() if label.annotator == "ann"]
    erased_by_command("--annotator", "ann", *(["--keep-labels"] if keeps else []))
    with closing(Store("sqlite:///accord.db")) as store:
        after = {by: [label.value for label in store.labels() if label.annotator == by]
                 for by in {label.annotator for label in store.labels()}}  # fmt: skip
        assert "ann" not in after and len(after["bob"]) == 25
        assert sorted(map(len, after.values())) == ([25, 25] if keeps else [25])
        texts = [str(tuple(row)) for table in metadata.tables.values() for row in store._stream(table.select())]
    if keeps:
        assert next(values for by, values in after.items() if by != "bob") == before
    assert not [text for text in texts if "'ann'" in text or '"ann"' in text]
    assert '"ann"' not in Path("evaluators/default/evaluator.json").read_text()
    assert '"ann"' not in Path("annotations.jsonl").read_text()
    assert "ann" not in accord("users", "list")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing is selected"),
        (["--conversation", "nope"], "no conversation 'nope'"),
        (["--annotator", "nope"], "unknown annotator 'nope'"),
        (["--before", "yesterday"], "--before is a day or an ISO time, got 'yesterday'"),
        (["--conversation", VICTIM], "there is no terminal here"),
    ],
)
def test_wrong_input_erases_nothing(project: Path, options: list[str], message: str) -> None:
    yes = [] if options == ["--conversation", VICTIM] else ["--yes"]
    assert message in refused("store", "erase", *options, *yes)
    assert marks_in(project).keys() >= {str(project / "accord.db")}


def test_own_files_are_listed_and_never_changed(project: Path) -> None:
    own = Path(write_rows("logs/chats.jsonl", [victim()]))
    content = own.read_bytes()
    text = accord("store", "erase", "--conversation", VICTIM, "--yes")
    assert f"your own file still mentions it; remove it there: {own.resolve()}" in text
    assert own.read_bytes() == content


# --- evaluators, imports, copies --------------------------------------------------------------------------------------


def test_an_evaluator_says_that_it_needs_a_refit(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    score = ("score", write_rows("new.jsonl", [chat("n")]), "--evaluator", "evaluators/metrics", "--out")
    accord(*score, "a.jsonl")
    accord(*score, "parts-of-new")
    assert "erased since" not in caplog.text
    assert accord_json("gate", "--require-refit")["checks"][0]["passed"]
    receipt = erased_by_command("--conversation", VICTIM)
    assert receipt["refit"]["default"].startswith("accord fit default")
    said = "metrics learned from 1 conversation that was erased since; fit it again: accord fit metrics"
    for out in ("b.jsonl", "more-parts"):
        caplog.clear()
        accord(*score, out)
        assert said in caplog.text
    assert "erased since" in accord("gate", "--require-refit", code=3)
    assert "held texts of conversations that were erased" in refused(
        "score", "new.jsonl", "--out", "c.jsonl", "--evaluator", "evaluators/shots"
    )


def test_erased_rows_are_imported_again_only_if_asked(project: Path) -> None:
    files = [write_rows("in/chats.jsonl", [victim(), chat("extra")]),
             write_rows("in/labels.jsonl", [{"conversation": VICTIM, "question": "Q0", "annotator": "ann", "value": 2}])]  # fmt: skip
    erased_by_command("--conversation", VICTIM)
    done = accord_json("import", *files)
    assert done["conversations"] == {"new": 1, "known": 0, "erased": 1} and done["labels"]["erased"] == 1
    assert done["skipped"] == 0
    done = accord_json("import", "--with-erased", *files)
    assert done["conversations"]["new"] == 1 and done["labels"]["new"] == 1
    accord("score", files[0], "--out", "again.jsonl", "--evaluator", "evaluators/metrics")
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        names = opened.mart.read(lambda rows: rows.select("conversation").collect())[0]["conversation"].to_list()
    assert VICTIM in names


def test_a_restored_copy_is_erased_again(project: Path, tmp_path: Path) -> None:
    backup("sqlite:///accord.db", tmp_path / "elsewhere.db")
    erased_by_command("--conversation", VICTIM)
    erased_by_command("--annotator", "bob")
    restore("sqlite:///accord.db", tmp_path / "elsewhere.db", replace=True)
    assert marks_in(project) == {}
    with closing(Store("sqlite:///accord.db")) as store:
        assert {label.annotator for label in store.labels()} == {"ann"}
        assert len(list(store.conversation_ids())) == 24


def test_store_of_the_first_version_is_upgraded(project: Path) -> None:
    with closing(sqlite3.connect("accord.db")) as store, store:
        store.executescript("DROP TABLE erased; DROP TABLE cache_conversations; UPDATE schema_version SET version = 1")
    assert "adds the new tables" in accord("store", "check", code=1)
    erased_by_command("--conversation", VICTIM)
    assert marks_in(project / "evaluators", project / "accord.db.scores") == {}
    assert not [path for path in marks_in(project) if path.endswith("accord.db")]


# --- retention, one person, inventory ---------------------------------------------------------------------------------


def test_retention_erases_by_age_and_keeps_rated_ones_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    monkeypatch.chdir(tmp_path)
    retention = {"conversations": "10 days", "rated": "1 year", "replies": "3 days"}
    config = config_from({"store": "sqlite:///accord.db", "privacy": {"retention": retention}})
    with Project(config) as project:
        project.import_([{**chat("old"), "time": "2026-01-01"}, {**chat("rated"), "time": "2026-01-01"},
                         {**chat("new"), "time": "2026-03-01"}])  # fmt: skip
        project.import_([{"conversation": "rated", "question": "Q0", "annotator": "ann", "value": 2}])
        project.store.add_replies([{"key": "r", "maker": "m", "content": "{}", "conversations": ["new"]}])
        now = datetime(2026, 3, 5, tzinfo=UTC)
        planned = expire(project, plan=True, now=now)
        assert planned.conversations == 1 and len(list(project.store.conversation_ids())) == 3
        expire(project, now=now)
        assert list(project.store.conversation_ids()) == ["new", "rated"]
        assert project.store.reply("r") == "{}", "stored today, later than the test's time"
        expire(project, now=datetime(2027, 3, 5, tzinfo=UTC))
        assert list(project.store.conversation_ids()) == [] and project.store.reply("r") is None


@pytest.mark.parametrize(
    ("text", "hours"), [("90 days", 2160), ("1 day", 24), ("8 weeks", 1344), ("12 hours", 12), ("2 years", 17532)]
)
def test_periods_are_read_and_written(text: str, hours: int) -> None:
    config = config_from({"privacy": {"retention": {"replies": text}}})
    period = config.privacy.retention.replies
    assert period is not None and period.total_seconds() == hours * 3600
    shown = config.model_dump(mode="json")["privacy"]["retention"]["replies"]
    assert config_from({"privacy": {"retention": {"replies": shown}}}).privacy.retention.replies == period


@pytest.mark.parametrize("text", ["soon", "0 days", "-1 days", "90", 90, "1 month", "٣ days"])
def test_other_periods_are_refused(text: Any) -> None:
    with pytest.raises(BadInput, match=r"privacy.retention.replies.*a time such as 90 days"):
        config_from({"privacy": {"retention": {"replies": text}}})


def test_data_of_a_person_are_exported(project: Path) -> None:
    accord("users", "add", "ann")
    done = accord_json("store", "person", "ann", "--export", "ann")
    assert done["rows"]["ratings"] == 25 and done["rows"]["account"] == 1
    done = accord_json("store", "person", USER, "--export", "user")
    assert done["rows"]["conversations"] == 1 and done["rows"]["judgements"] > 3 and done["rows"]["scores"] > 0
    assert SAID in Path("user/conversations.jsonl").read_text()
    assert "not an empty folder" in refused("store", "person", "ann", "--export", "user")
    assert "has nothing of 'nobody'" in refused("store", "person", "nobody", "--export", "empty")
    assert not Path("empty").exists()


def test_the_inventory_names_every_table_and_folder() -> None:
    assert [each.place for each in STORE_PLACES] and {each.place for each in STORE_PLACES} == metadata.tables.keys()
    named = " ".join(each.place for each in FILE_PLACES)
    for folder in ("STORE.scores/", "STORE.unsaved/", "evaluators/", "judgments/", "uploads/"):
        assert folder in named


def test_every_cached_reply_names_its_conversations(filled: Path) -> None:
    with closing(sqlite3.connect(filled / "accord.db")) as store:
        unknown = store.execute("SELECT count(*) FROM cache_conversations WHERE conversation = ''").fetchone()[0]
        named = store.execute(
            "SELECT count(*) FROM cache WHERE kind <> 'computed' AND (kind, key) NOT IN "
            "(SELECT kind, key FROM cache_conversations)"
        ).fetchone()[0]
    assert (unknown, named) == (0, 0)


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


def test_erasing_in_postgresql_leaves_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None) -> None:
    project, inputs = tmp_path / "project", tmp_path / "inputs"
    project.mkdir()
    monkeypatch.chdir(project)
    try:
        cluster = ThrowAwayPostgres()
    except BadInput as error:
        pytest.skip(str(error))
    with cluster, ChatServer(answered) as server:
        fill(project, inputs, server.url, cluster.url)
        data = Path(cluster.url.partition("host=")[2]) / "db"
        before = others(cluster.url)
        with Project(config_from(json.loads(Path("accord.yaml").read_text()))) as opened:
            assert plan_erasure(opened, Selection(conversations=(VICTIM,))).conversations == 1
            erase(opened, Selection(conversations=(VICTIM,)))
        assert others(cluster.url) == before
        assert marks_in(project) == {}
        with closing(Store(cluster.url)) as store, store._engine.connect() as connection:
            autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
            for statement in ("SELECT pg_switch_wal()", "CHECKPOINT", "SELECT pg_switch_wal()", "CHECKPOINT"):
                autocommit.exec_driver_sql(statement)
        heap = {path: marks for path, marks in marks_in(data).items() if "/pg_wal/" not in path}
        assert heap == {}


def test_server_erases_expired_data_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    retention = {"conversations": "10 days"}
    Path("accord.yaml").write_text(json.dumps({"store": "sqlite:///accord.db", "privacy": {"retention": retention}}))
    accord("import", write_rows(str(tmp_path / "chats.jsonl"), [chat("old")]))
    with serving(tmp_path) as server:
        until(lambda: "retention: 1 conversation" in server.log, lambda: server.log)
    with closing(Store("sqlite:///accord.db")) as store:
        assert store.count_conversations() == 0
