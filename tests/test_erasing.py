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
from typing import Any, get_args

import pytest
from commands import accord, accord_json, refused, write_rows
from hypothesis import assume, given
from hypothesis import settings as settings_of_test
from hypothesis import strategies as st
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
from special_files import make_link, make_pipe
from throwaway_postgres import ThrowAwayPostgres
from waiting import until

from accord import Project
from accord.edges import BadInput
from accord.learning import Evaluator
from accord.project import PLACE_WORDS, Selection, erase, expire, plan_erasure
from accord.project.config import config_from
from accord.project.erasing.files import Kind
from accord.project.erasing.inventory import FILE_PLACES, STORE_PLACES
from accord.project.erasing.refit import save_unless_erased
from accord.store import ErasedText, Erasures, Spool, Store, backup, restore
from accord.store.schema import metadata
from accord.testing import ChatServer
from accord.testing.server import Batches
from accord.values import Conversation, Label, Target, Turn


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
    assert "chat-1" in Path("scores.jsonl").read_text(encoding="utf-8") or "new-1" in Path("scores.jsonl").read_text(
        encoding="utf-8"
    )
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
from accord.store.erasure import erasing
from accord.scoring import erased_rows as parts
from accord.store.erasure import erased_rows
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

from accord.store.mart.mart import Mart
from accord.store.store import Store
counted(erasing.Erasures, "bury")
counted(Mart, "erase")
counted(Mart, "_write")
counted(Mart, "compact")
counted(files, "write_atomically")
counted(erased_rows, "write_atomically")
counted(parts, "write_atomically")
counted(erasing.Erasures, "erase")
counted(erasing, "_scrub_json")
counted(erasing, "_scrub_days")
counted(Store, "change_run")
counted(importlib.import_module("accord.store.backup"), "_empty_log")
counted(Store, "finish_run")
counted(erase, "vacuum")
app(["store", "erase", "--conversation", sys.argv[2], "--yes"], prog_name="accord")
"""


@pytest.mark.posix
@pytest.mark.attack
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
def test_erasing_beside_two_servers_and_a_study(project: Path) -> None:
    Path("accord.yaml").write_text(json.dumps({
        "store": "sqlite:///accord.db", "studies": {"look": {"title": "Look", "items": {"sample": 30}}},
    }), encoding="utf-8")  # fmt: skip
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
        Path("accord.yaml").write_text(json.dumps({"models": {"judge": judge}}), encoding="utf-8")
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


def test_run_that_began_before_an_erasure_keeps_no_id(store: Store) -> None:
    store.add_conversations([Conversation("late-conversation", ()), Conversation("other", ())])
    run = store.start_run("gaps", {})
    Erasures(store).bury({"late-conversation": None})
    rows = [{"conversation": "late-conversation", "turn": 1}, {"conversation": "other", "turn": None}]
    store.finish_run(run, "done", {"examples": rows, "text": "such as late-conversation#1", "n": 2})
    [record] = store.runs("gaps")
    assert record["results"] == {"examples": rows[1:], "text": "(erased)", "n": 2}


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
    from accord.store import ErasedNames

    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:  # opening stores what waits
        with closing(Store("sqlite:///accord.db")) as store:
            assert Spool(store).put(rows) is not None
        content = ErasedContent(ErasedText(names=[VICTIM]), ErasedNames.of({VICTIM: None}))
        found = [each for each in erase_in_files(opened, content) if each.kind == "waiting answers"]
    assert [each.rows for each in found] == [2] and before == Path.cwd()
    [left] = (project / "accord.db.unsaved").glob("*.jsonl")
    assert [json.loads(line)["conversations"] for line in left.read_text(encoding="utf-8").splitlines()] == [["chat-1"]]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fit_that_began_before_an_erasure_saves_nothing_of_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    assert marks_in(project / "evaluators" / "shots")
    save = Evaluator.save

    def save_later(store: Store, evaluator: Evaluator, folder: Path) -> None:
        erased_by_command("--conversation", VICTIM)
        save_unless_erased(store, evaluator, folder)

    def erase_and_save(evaluator: Evaluator, folder: Any) -> None:
        erased_by_command("--conversation", VICTIM)
        save(evaluator, folder)

    if moment == "before":
        monkeypatch.setattr("accord.project.evaluators.fitting.save_unless_erased", save_later)
    else:
        monkeypatch.setattr(Evaluator, "save", erase_and_save)
    with Project(config_from(json.loads(Path("accord.yaml").read_text(encoding="utf-8")))) as opened:
        with pytest.raises(BadInput, match="erased during the fit, so the evaluator was not saved"):
            opened.fit("shots")
        assert opened.store.runs("fit")[-1]["status"] == "failed"
    assert marks_in(project) == {}
    assert not Path("evaluators/shots/evaluator.json").exists()
    assert "held texts of conversations that were erased" in refused(
        "score", write_rows("n.jsonl", [chat("n")]), "--evaluator", "evaluators/shots", "--out", "o.jsonl"
    )


# --- kinds of selection and options -----------------------------------------------------------------------------------


def test_a_user_is_erased_with_all_conversations(project: Path) -> None:
    assert erased_by_command("--user", USER)["conversations"] == 1
    assert marks_in(project) == {}
    assert "no conversation by user 'nobody'" in refused("store", "erase", "--user", "nobody", "--yes")


def test_conversations_before_a_day_are_erased(project: Path) -> None:
    receipt = erased_by_command("--before", "2026-03-10")
    with closing(Store("sqlite:///accord.db")) as store:
        left = {each.metadata["time"] for each in store.conversations()}
    assert receipt["conversations"] == 11, "10 stored ones, and one that was only scored"
    assert left and min(left) >= "2026-03-10"


def test_kept_scores_have_a_pseudonym_and_no_text(project: Path) -> None:
    erased_by_command("--conversation", VICTIM, "--keep-scores")
    assert marks_in(project) == {}
    rows = [json.loads(line) for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines()]
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
        assert sorted(len(values) for by, values in after.items() if by != "cleo") == ([25, 25] if keeps else [25])
        texts = [str(tuple(row)) for table in metadata.tables.values() for row in store._stream(table.select())]
    if keeps:
        assert next(values for by, values in after.items() if by not in {"bob", "cleo"}) == before
    assert not [text for text in texts if "'ann'" in text or '"ann"' in text]
    assert '"ann"' not in Path("evaluators/default/evaluator.json").read_text(encoding="utf-8")
    assert '"ann"' not in Path("annotations.jsonl").read_text(encoding="utf-8")
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
    assert accord_json("gate", "--require-refit", "--allow-unproven")["checks"][-1]["passed"]
    receipt = erased_by_command("--conversation", VICTIM)
    assert receipt["refit"]["default"].startswith("accord fit default")
    said = "metrics learned from 1 conversation that was erased since; fit it again: accord fit metrics"
    for out in ("b.jsonl", "more-parts"):
        caplog.clear()
        accord(*score, out)
        assert said in caplog.text
    assert "erased since" in accord("gate", "--require-refit", "--allow-unproven", code=3)
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
        assert {label.annotator for label in store.labels()} == {"ann", "cleo"}
        assert len(list(store.conversation_ids())) == 24


def test_store_of_the_first_version_is_upgraded(project: Path) -> None:
    with closing(sqlite3.connect("accord.db")) as store, store:
        store.executescript("DROP TABLE erased; DROP TABLE cache_conversations; UPDATE schema_version SET version = 1")
    shown = accord("store", "check", code=1)
    assert "was not checked: its schema version is 1" in shown and "adds the new tables" in shown
    assert "damaged" not in shown
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
    assert SAID in Path("user/conversations.jsonl").read_text(encoding="utf-8")
    assert "not an empty folder" in refused("store", "person", "ann", "--export", "user")
    assert "has nothing of 'nobody'" in refused("store", "person", "nobody", "--export", "empty")
    assert not Path("empty").exists()


def test_receipts_name_every_table_and_kind_of_file_that_an_erasure_changes() -> None:
    kinds = set(get_args(Kind)) - {"yours", "unreadable"}
    assert PLACE_WORDS.keys() == kinds | (metadata.tables.keys() - {"erased", "claims", "budgets", "schema_version"})


def test_the_inventory_names_every_table_and_folder() -> None:
    assert [each.place for each in STORE_PLACES] and {each.place for each in STORE_PLACES} == metadata.tables.keys()
    named = " ".join(each.place for each in FILE_PLACES)
    for folder in ("STORE.scores/", "STORE.unsaved/", "evaluators/", "judgments/", "uploads/"):
        assert folder in named


def test_every_cached_reply_names_its_conversations(filled: Path) -> None:
    with closing(sqlite3.connect(filled / "accord.db")) as store:
        unknown = store.execute("SELECT count(*) FROM cache_conversations WHERE conversation = ''").fetchone()[0]
        named = store.execute(
            "SELECT count(*) FROM cache WHERE kind NOT IN ('computed', 'position') AND (kind, key) NOT IN "
            "(SELECT kind, key FROM cache_conversations)"
        ).fetchone()[0]
    assert (unknown, named) == (0, 0)


# --- rules of mentions ------------------------------------------------------------------------------------------------

SHOP = "Open https://shop.example/v2/returns and enter the number of your parcel below the picture of the box"


def told(name: str, *texts: str, **more: Any) -> Conversation:
    """A conversation in which user and assistant alternate."""
    roles = ("user", "assistant")
    return Conversation(name, tuple(Turn(roles[place % 2], text) for place, text in enumerate(texts)), **more)


@pytest.mark.parametrize(
    ("text", "is_mentioned"),
    [
        ("worst: chat-77#3", True),
        ("see CHAT-77.", True),
        ("chat-771 and mychat-77", False),
        ("He wrote from jo@example.org", True),
        (json.dumps("απόψε το δέμα μου δεν έφτασε ακόμη στο σπίτι"), True),
        (json.dumps("نحن لم نستلم الطرد حتى الآن من فضلكم ساعدونا"), True),
        ("「荷物の番号は何ですか。東京へ届きますか」", True),
        ("荷物の番号", False),
        ("Open https://shop.example/v2/returns in the app", False),
        (SHOP, False),
        ("Where is my parcel? The release 2.13.4-beta is out", False),
    ],
)
def test_a_text_mentions_a_conversation_only_by_what_is_its_own(text: str, is_mentioned: bool) -> None:
    own = told("chat-77", "Mail me at jo@example.org about 2.13.4-beta", SHOP, "απόψε το δέμα μου δεν έφτασε ακόμη στο σπίτι",
               "Hm.", "نحن لم نستلم الطرد حتى الآن من فضلكم ساعدونا", "Hm.", "荷物の番号は何ですか。東京へ届きますか？")  # fmt: skip
    found = ErasedText([own])
    found.keep_own([told("chat-78", "What about 2.13.4-beta?", SHOP), told("chat-771", "Where is my parcel?")])
    assert found.mentions(text) is is_mentioned


@pytest.mark.parametrize("name", ["new\nline", 'q"uo\\te', "😀 smile", "../up", "100% sure_", "h#1-x", "a" * 10_000])
def test_unusual_ids_are_found_in_json_and_pages(name: str) -> None:
    found = ErasedText([told(name, "Hello")])
    assert found.mentions(json.dumps({"conversation": name, "turn": 1}))
    assert found.mentions(f"<td>{name}</td>") and found.mentions(f"{name}#2")
    assert found.scrub({"worst": [[name, 1], ["other", 2]], name: 1}) == {"worst": [["other", 2]]}


@pytest.mark.parametrize("name", ["a", "help", "7", "1000", "Q0", "bot-1", "default", "annette"])
def test_ordinary_ids_are_found_only_where_a_conversation_is_named(name: str) -> None:
    found = ErasedText([told(name, "Hello")])
    found.keep_own([told("other", "No.", metadata={"system": "bot-1"})], ["Q0", "default", "annette"])
    settings = {"question": "Q0", "evaluator": "default", "text": "a help for 7 of 1000: bot-1, annette", "ids": [name]}
    assert found.scrub(settings) == settings
    assert found.scrub({"examples": [{"conversation": name}, {"conversation": "other"}], "worst": f"{name}#3"}) == {
        "examples": [{"conversation": "other"}], "worst": "(erased)",
    }  # fmt: skip
    assert found.has_cell(f'{{"conversation": "{name}", "value": 1}}\n') and found.has_cell(f"{name},Q0,ann,3\n")
    assert not found.has_cell(f"no {name}x here")


NAMES = [
    "a",
    "help",
    "Q0",
    "bot-1",
    "ann",
    "100%",
    "7",
    "new\nline",
    "chat-1",
    "chat-10",
    "../up",
    'q"uo\\te',
    "会話",
    "x" * 3000,
]


def test_erasing_hostile_ids_one_by_one_keeps_reports_runs_and_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("accord.yaml").write_text(
        json.dumps({"draws": 20, "metrics": ["words"], "evaluators": {"default": {"head": "mixed"}}}), encoding="utf-8"
    )
    people = ("ann", "annette", "Q0", "bot-1")
    accord(
        "import",
        write_rows("in/chats.jsonl", [{**chat(name, n), "user": name} for n, name in enumerate(NAMES)]),
        write_rows("in/labels.jsonl", [
            {"conversation": name, "question": "Q0", "annotator": by, "value": 1 + (n + shift) % 4}
            for n, name in enumerate(NAMES) for shift, by in enumerate(people)
        ]),
    )  # fmt: skip
    accord("fit")
    accord("report", "--out", "report.html")
    accord("score", "in/chats.jsonl", "--out", "scores.jsonl")
    with closing(Store("sqlite:///accord.db")) as store:
        runs = {run["id"]: (run["settings"], run["results"]) for run in store.runs("fit", "report", "score")}
    left = list(NAMES)
    for place, name in enumerate(NAMES[:-2]):
        selector = f"--conversation={name}" if place % 2 else f"--user={name}"
        erased_by_command(selector)
        left.remove(name)
        with closing(Store("sqlite:///accord.db")) as store:
            assert sorted(each.id for each in store.conversations()) == sorted(left)
            named = [each.target.conversation for each in store.annotations({"person"})]
            assert sorted(named) == sorted(left * len(people))
            assert {
                run["id"]: (run["settings"], run["results"]) for run in store.runs("fit", "report", "score")
            } == runs
        rows = [
            json.loads(line) for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines() if line.strip()
        ]
        assert [row["conversation"] for row in rows] == left
    assert Path("evaluators/default/evaluator.json").is_file()


@pytest.mark.parametrize("name", ["Q0", "default", "name", "auto"])
def test_an_annotator_named_like_a_setting_is_erased_without_damage(project: Path, name: str) -> None:
    rows = [{"conversation": f"chat-{n}", "question": "Q0", "annotator": name, "value": 1 + n % 4} for n in range(20)]
    accord("import", write_rows("in/more.jsonl", rows))
    accord("fit", "default", "--set", f"evaluators.default.head={'auto' if name == 'auto' else 'mixed'}")
    card = json.loads(Path("evaluators/default/evaluator.json").read_text(encoding="utf-8"))
    with closing(Store("sqlite:///accord.db")) as store:
        before = [run for run in store.runs("fit", "judge", "compare") if run["status"] == "done"]
    erased_by_command("--annotator", name)
    after = json.loads(Path("evaluators/default/evaluator.json").read_text(encoding="utf-8"))
    for field in ("name", "question", "sources", "level"):
        assert after[field] == card[field]
    assert after["head"]["name"] == card["head"]["name"] and after["head"] != card["head"]
    accord("score", write_rows("n.jsonl", [chat("n")]), "--evaluator", "evaluators/default", "--out", "o.jsonl")
    with closing(Store("sqlite:///accord.db")) as store:
        assert {label.annotator for label in store.labels()} == {"ann", "bob", "cleo"}
        settings = {run["id"]: run["settings"] for run in store.runs()}
    assert [settings[run["id"]] for run in before] == [run["settings"] for run in before]


def test_odd_files_and_folders_are_listed_or_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "far.txt").write_text(VICTIM, encoding="utf-8")
    monkeypatch.chdir(project)
    Path("accord.yaml").write_text("{}", encoding="utf-8")
    accord("import", write_rows(str(outside / "chats.jsonl"), [victim(), chat("chat-1")]))
    make_link(Path("link"), outside)
    make_link(Path("loop"), ".")
    for name in ("judgments", "uploads", "evaluators/bad", "parts"):
        Path(name).mkdir(parents=True)
    make_pipe("pipe.jsonl")
    Path("judgments/bad.jsonl").write_bytes(b"\xff\xfe")
    Path("uploads/other.jsonl").write_text("nothing of it", encoding="utf-8")
    Path("evaluators/bad/evaluator.json").write_bytes(b"\xff{")
    Path("parts/manifest.json").write_text("{}", encoding="utf-8")
    Path("parts/part-1.parquet").touch()
    Path("latin.csv").write_bytes(b"conversation,value,signature\n\xff,1,x\n")
    Path("line.txt").write_text("a" * 3_000_000 + f" {VICTIM} " + "b" * 3_000_000, encoding="utf-8")
    Path("/".join(["d"] * 300)).mkdir(parents=True)
    receipt = erased_by_command("--conversation", VICTIM)
    listed = {str(Path(each["path"]).relative_to(project)): each["kind"] for each in receipt["files"]}
    assert listed == {
        "judgments/bad.jsonl": "unreadable", "parts": "unreadable", "latin.csv": "unreadable", "line.txt": "yours",
        "link": "unreadable",
    }  # fmt: skip
    assert Path("uploads/other.jsonl").exists() and (outside / "far.txt").read_text(encoding="utf-8") == VICTIM


def test_other_folders_of_a_home_folder_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("accord.yaml").write_text("{}", encoding="utf-8")
    accord("import", write_rows("documents/chats.jsonl", [victim()]))
    for folder in ("evaluators", "uploads"):
        write_rows(f"{folder}/chats.jsonl", [victim()])
    text = accord("store", "erase", "--conversation", VICTIM, "--yes")
    assert f"could not be searched; look into it yourself: {tmp_path}\n" in text
    assert f"remove it there: {tmp_path}/evaluators/chats.jsonl" in text and "documents" not in text
    assert not Path("uploads/chats.jsonl").exists()


# --- any store --------------------------------------------------------------------------------------------------------

WORDS = st.lists(
    st.sampled_from(["where", "is", "my", "parcel", "today", "2.13.4-beta", "jo@example.org", "荷物", "δέμα"]),
    max_size=14,
)


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Conversation], list[dict[str, Any]]]:
    """Conversations, some with the same texts, and rows that name one or two of them."""
    names = draw(
        st.lists(
            st.sampled_from(["a", "ab", "chat-1", "chat-10", "Q0", "bot-1", "7", "x y", "%_"]), unique=True, min_size=2
        )
    )
    chats = [told(name, *(" ".join(draw(WORDS)) for _ in range(draw(st.integers(0, 3)))),
                  metadata={"system": draw(st.sampled_from(["bot-1", "bot-2"]))}) for name in names]  # fmt: skip
    pick = st.sampled_from(names)
    rows = draw(st.lists(st.fixed_dictionaries({
        "kind": st.sampled_from(["label", "pair", "reply", "run", "row"]), "first": pick, "second": pick,
        "by": st.sampled_from(["ann", "Q0", "bot-1"]), "value": st.integers(1, 4),
    }), max_size=12))  # fmt: skip
    return chats, rows


@settings_of_test(max_examples=40, deadline=None)
@given(stores(), st.data())
def test_erasing_keeps_everything_that_does_not_name_the_conversation(
    made: tuple[list[Conversation], list[dict[str, Any]]], data: st.DataObject
) -> None:
    chats, rows = made
    gone = data.draw(st.sampled_from([each.id for each in chats]))
    # A name in a run is known to mean something else only if a label or another conversation uses it.
    known = {each.system for each in chats if each.id != gone} | {
        row["by"] for row in rows if row["kind"] in {"label", "pair"}
    }
    assume(gone in known or gone not in {"bot-1", *(row["by"] for row in rows)})
    with closing(Store("sqlite:///:memory:")) as store:
        store.add_conversations(chats)
        for n, row in enumerate(rows):
            against = Target(row["second"]) if row["kind"] == "pair" and row["second"] != row["first"] else None
            if row["kind"] in {"label", "pair"}:
                store.add_labels([Label(Target(row["first"]), "Q0", row["by"], row["value"], against=against)])
            elif row["kind"] == "reply":
                names = sorted({row["first"], row["second"]})
                store.add_replies([{"key": f"k{n}", "maker": "m", "content": "{}", "conversations": names}])
            else:
                text = next(each for each in chats if each.id == row["first"]).turns
                found = {"examples": [{"conversation": row["first"]}], "says": " ".join(turn.content for turn in text),
                         "by": row["by"], "rows": [["bot-1", row["value"]]]}  # fmt: skip
                store.finish_run(store.start_run("gaps", {"n": n, "question": "Q0"}), "done", found)

        def content() -> tuple[Any, ...]:
            labels = [each.to_json() for each in store.annotations()]
            return (
                {each.id: each.to_json() for each in store.conversations()},
                [row for row in labels if gone not in (row["conversation"], row.get("against"))],
                store.replies([f"k{n}" for n in range(len(rows))]),
                {run["settings"]["n"]: (run["settings"], run["results"]) for run in store.runs("gaps")},
            )

        before, erasures = content(), Erasures(store)
        found = ErasedText(store.conversations([gone]), [gone])
        found.keep_own((each for each in store.conversations() if each.id != gone), erasures.common_names())
        erasures.bury({gone: None})
        erasures.erase(found, [gone])
        after = content()
    assert after[0] == {name: each for name, each in before[0].items() if name != gone}
    assert after[1] == before[1]
    kept = {
        f"k{n}" for n, row in enumerate(rows) if row["kind"] == "reply" and gone not in (row["first"], row["second"])
    }
    assert after[2].keys() == kept
    for n, (settings_, results) in after[3].items():
        assert settings_ == before[3][n][0] and results["by"] == before[3][n][1]["by"]
        if rows[n]["first"] != gone:
            assert results == before[3][n][1]
        else:
            assert results["examples"] == []


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
        with Project(config_from(json.loads(Path("accord.yaml").read_text(encoding="utf-8")))) as opened:
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
    Path("accord.yaml").write_text(
        json.dumps({"store": "sqlite:///accord.db", "privacy": {"retention": retention}}), encoding="utf-8"
    )
    accord("import", write_rows(str(tmp_path / "chats.jsonl"), [chat("old")]))
    with serving(tmp_path) as server:
        until(lambda: "retention: 1 conversation" in server.log, lambda: server.log)
    with closing(Store("sqlite:///accord.db")) as store:
        assert store.count_conversations() == 0
