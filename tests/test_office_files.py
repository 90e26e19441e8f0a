"""Files as offices have them: encodings of spreadsheets, ids that differ in form, and columns that name the assistant."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import accord, printed, refused, write_rows

from accord import Project
from accord.edges import BadInput
from accord.formats import read
from accord.project import Config
from accord.values import Conversation, Turn

CSV = "id,prompt,response\nk1,Schließzeiten?,Täglich bis 18 Uhr – außer „feiertags“\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with Project(Config(store=f"sqlite:///{tmp_path}/accord.db")) as opened:
        yield opened


# --- encodings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize(("name", "change"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t")])
def test_tables_of_spreadsheets_are_read_in_their_encoding(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, encoding: str, name: str, change: str
) -> None:
    (tmp_path / name).write_bytes(CSV.replace(",", change).encode(encoding))
    with caplog.at_level(logging.WARNING, "accord"):
        [record] = read(tmp_path / name)
        list(read(tmp_path / name))
    assert [turn.content for turn in record.conversation.turns] == [
        "Schließzeiten?", "Täglich bis 18 Uhr – außer „feiertags“"
    ]  # fmt: skip
    notes = [each for each in caplog.messages if "Windows-1252 (cp1252)" in each]
    assert len(notes) == (encoding == "cp1252"), "the note comes once, and names the encoding"


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_transcripts_are_read_in_their_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "chat.txt").write_bytes("Kunde: Geht das für Bücher?\nBot: Natürlich.\n".encode(encoding))
    [record] = read(tmp_path / "chat.txt")
    assert [turn.content for turn in record.conversation.turns] == ["Geht das für Bücher?", "Natürlich."]


@pytest.mark.attack
@pytest.mark.parametrize(
    "content",
    [
        CSV.encode()[:60] + b"\xff" + CSV.encode()[60:],
        b"id,prompt,response\nk1,a\x81,b\n",
        b"id,prompt,response\nk1,a\xe9\x00,b\n",
        CSV.encode("utf-16")[:-1],
    ],
    ids=["damaged UTF-8", "no text in cp1252", "NUL", "half a character"],
)
def test_damaged_tables_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(BadInput, match="save it as UTF-8"):
        list(read(tmp_path / "a.csv"))


# --- ids ------------------------------------------------------------------------------------------------------------


def chats(*ids: str) -> list[Conversation]:
    return [Conversation(id, (Turn("user", f"Question {id}"), Turn("assistant", f"Answer {id}"))) for id in ids]


@pytest.mark.parametrize(
    ("stored", "labeled"),
    [(["chat1.txt", "chat2.txt"], ["chat1", "chat2"]), (["chat1", "chat2"], ["chat1.txt", "chat2.JSON"]),
     (["007", "010"], ["7", "10"]), (["7", "10"], ["007", "10"]), (["7", "10"], ["7.0", "10.0"])],
)  # fmt: skip
def test_ids_are_matched_one_to_one_with_a_note(
    project: Project, caplog: pytest.LogCaptureFixture, stored: list[str], labeled: list[str]
) -> None:
    project.store.add_conversations(chats(*stored))
    rows = "".join(f"{id},ann,{place + 1}\n" for place, id in enumerate(labeled))
    Path("labels.csv").write_text(f"conversation,annotator,Q0\n{rows}", encoding="utf-8")
    with caplog.at_level(logging.WARNING, "accord"):
        assert project.import_("labels.csv").labels.new == 2
    assert {label.target.conversation: label.value for label in project.store.labels()} == dict(
        zip(stored, (1, 2), strict=True)
    )
    assert any("matched without file endings and leading zeros" in each for each in caplog.messages)


def test_ids_of_the_store_need_no_match(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    project.store.add_conversations(chats("1", "01", "a.txt"))
    Path("labels.csv").write_text("conversation,annotator,Q0\n1,ann,1\n01,ann,2\na.txt,ann,3\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING, "accord"):
        assert project.import_("labels.csv").labels.new == 3
    assert {label.target.conversation: label.value for label in project.store.labels()} == {"1": 1, "01": 2, "a.txt": 3}
    assert not [each for each in caplog.messages if "matched" in each]


@pytest.mark.attack
@pytest.mark.parametrize(
    ("stored", "labeled", "shown"),
    [
        (["chat1.txt", "chat1.json"], ["chat1"], "'chat1' in the labels, 'chat1.json' and 'chat1.txt' in the store"),
        (["7"], ["07", "007"], "'007' and '07' in the labels, '7' in the store"),
        (["other"], ["chat1"], "no conversation 'chat1' in the store"),
    ],
)
def test_ids_that_are_not_one_to_one_are_refused_with_both_forms(
    project: Project, stored: list[str], labeled: list[str], shown: str
) -> None:
    project.store.add_conversations(chats(*stored))
    Path("labels.csv").write_text(
        "conversation,annotator,Q0\n" + "".join(f"{id},ann,1\n" for id in labeled), encoding="utf-8"
    )
    with pytest.raises(BadInput, match=shown):
        project.import_("labels.csv")
    assert not list(project.store.labels())


def test_a_column_file_of_a_workbook_is_the_id(project: Project) -> None:
    pytest.importorskip("fastexcel")
    content = io.BytesIO()
    try:
        pl.DataFrame({"File": ["call 1.wav", "call 2.wav"], "Rater": ["ann", "ann"], "Q0": [1, 4]}).write_excel(content)
    except ModuleNotFoundError:
        pytest.skip("needs xlsxwriter")
    Path("ratings.xlsx").write_bytes(content.getvalue())
    project.store.add_conversations(chats("call 1", "call 2"))
    assert project.import_("ratings.xlsx").labels.new == 2


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ("File,role,content\na,user,Hi\na,assistant,Hello\nb,user,Hi\nb,assistant,Yes\n", {"a", "b"}),
        ("id,file,role,content\n1,a,user,Hi\n2,a,assistant,Hello\n", {"a"}),
        ("File,prompt,response\na,Hi,Hello\nb,Hi,Yes\n", {"a", "b"}),
        ("id,file,prompt,response\n1,log,Hi,Hello\n2,log,Hi,Yes\n", {"1", "2"}),
        ("conversation,file,role,content\nc,log,user,Hi\nc,log,assistant,Hello\n", {"c"}),
    ],
)
def test_a_column_file_is_the_id_if_no_other_column_is(project: Project, content: str, ids: set[str]) -> None:
    Path("chats.csv").write_text(content, encoding="utf-8")
    project.import_("chats.csv")
    assert set(project.store.conversation_ids()) == ids


# --- name and version of the assistant --------------------------------------------------------------------------------

MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


@pytest.mark.parametrize(
    ("fields", "system"),
    [
        ({"model": "gpt-9"}, "gpt-9"),
        ({"Version": 2}, "2"),
        ({"bot": "helper", "version": "1.4"}, "helper"),
        ({"metadata": {"assistant": "helper-3"}}, "helper-3"),
        ({"system": "shop", "model": "gpt-9"}, "shop"),
        ({"model": {"name": "gpt-9"}}, None),
        ({"model": ""}, None),
        ({"version": "x" * 500}, None),
    ],
)
def test_name_or_version_of_the_assistant_is_the_system(tmp_path: Path, fields: dict[str, Any], system: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "c", "messages": MESSAGES, **fields}), encoding="utf-8")
    [record] = read(tmp_path / "a.jsonl")
    assert record.conversation.system == system
    flat = {name: value for name, value in fields.items() if name != "metadata" and not isinstance(value, dict)}
    if len(flat) == len(fields):
        table = pl.DataFrame(
            {"id": ["c"], "prompt": ["Hi"], "response": ["Hello"], **{k: [v] for k, v in flat.items()}}
        )
        table.write_csv(tmp_path / "a.csv")
        assert next(iter(read(tmp_path / "a.csv"))).conversation.system == system


def test_model_of_all_replies_is_the_system(tmp_path: Path) -> None:
    rows = ["c,user,Hi,", "c,assistant,Hello,gpt-9", "c,user,Thanks,", "c,assistant,Welcome,gpt-9", "d,user,Hi,"]
    (tmp_path / "a.csv").write_text(
        "conversation,role,content,model\n" + "\n".join([*rows, "d,assistant,Yes,a"]), encoding="utf-8"
    )
    assert {each.conversation.id: each.conversation.system for each in read(tmp_path / "a.csv")} == {
        "c": "gpt-9", "d": "a"
    }  # fmt: skip


def test_column_of_the_system_is_named_by_columns(working_folder: Path) -> None:
    write_rows("chats.jsonl", [{"id": "c", "prompt": "Hi", "response": "Hello", "build": "7b"}])
    accord("init")
    printed("import", "chats.jsonl", "--columns", "system=build")
    with Project(Config(store="sqlite:///accord.db")) as opened:
        assert [each.system for each in opened.store.conversations()] == ["7b"]
    assert "Available" in refused("import", "chats.jsonl", "--columns", "sytem=build")
