"""Exports of support desks and chat applications, files with one list of messages, and versions of assistants.

The files in `tests/data/exports` were written for these tests, from public documentation: "Exporting data to a JSON,
CSV, or XML file" and "Tickets", "Ticket comments", "Satisfaction ratings" of the Zendesk API; "Conversations" of the
Intercom REST API; "How to read Slack data exports"; "How do I export my ChatGPT history and data?".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import accord_json, write, write_rows
from new_project import new_project

from accord.edges import BadRow
from accord.formats import Record, convert_row, find_files, formats, read, read_piece, split_files
from accord.project import files_in, import_files
from accord.store import Store
from accord.values import Conversation, Rubric, load_rubric

EXPORTS = Path(__file__).parent / "data" / "exports"


def records(path: Path, skipped: list[str] | None = None) -> dict[str, Record]:
    found = read(path, on_skip=(skipped if skipped is not None else []).append)
    return {record.conversation.id: record for record in found}


def texts(record: Record) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in record.conversation.turns]


def answers(record: Record) -> set[tuple[str, Any, str, str]]:
    labels = {(each.question, each.value, each.annotator, "") for each in record.labels}
    return labels | {(each.question, each.value, each.by, each.comment) for each in record.annotations}


def test_zendesk_tickets_are_read_without_private_notes() -> None:
    skipped: list[str] = []
    found = records(EXPORTS / "zendesk_tickets.jsonl", skipped)
    assert {name: texts(record) for name, record in found.items()} == {
        "35436": [
            ("user", "My parcel has not arrived."), ("assistant", "It arrives on Monday.\nSorry & thanks"),
        ],
        "35438": [("user", "Are you open today?"), ("assistant", "Until six.")],
    }  # fmt: skip
    assert answers(found["35436"]) == {("satisfaction", "good", "20978392", "Quick help.")}
    assert answers(found["35438"]) == {("satisfaction", "bad", "20978400", "")}
    assert found["35436"].conversation.metadata["private_notes"] == 1
    assert sorted(skipped) == ["a private note", "a private note", "a ticket without a public message"]


def test_intercom_conversations_are_read_with_versions_and_ratings() -> None:
    skipped: list[str] = []
    found = records(EXPORTS / "intercom_conversations.json", skipped)
    assert texts(found["515"]) == [
        ("user", "Hello, can I change my address?"), ("assistant", "Yes.\nOpen Settings."),
        ("assistant", "Anything else?"),
    ]  # fmt: skip
    assert texts(found["516"]) == [("user", "Is the shop open?"), ("assistant", "Until six.")]
    assert answers(found["515"]) == {("satisfaction", 4, "6762f0ad", "Fine")}
    assert (found["515"].conversation.version, skipped) == ("7.3.0", ["a private note"])


def test_slack_threads_are_read_over_days_with_thumbs() -> None:
    skipped: list[str] = []
    [folder] = files_in([EXPORTS / "slack"])
    [record] = records(folder, skipped).values()
    assert record.conversation.id == "support-bot-1780217100.000200"
    assert texts(record) == [
        ("user", "How do I reset my password & PIN?"), ("assistant", "Open <https://example.com/reset|this page>."),
        ("user", "It does not work."), ("assistant", "Try another browser."),
    ]  # fmt: skip
    assert {(label.target.turn, label.annotator, label.value) for label in record.labels} == {
        (1, "U01ANNA", 1), (1, "U02BEN", 1), (3, "U01ANNA", 0),
    }  # fmt: skip
    assert sorted(skipped) == ["a Slack event such as a join", "a Slack message outside threads"]
    [of_day] = records(folder / "2026-05-31.json").values()
    assert (of_day.conversation.id, len(of_day.conversation.turns)) == (record.conversation.id, 2)


def test_chatgpt_export_is_read_along_the_current_branch() -> None:
    [record] = records(EXPORTS / "chatgpt_conversations.json").values()
    assert texts(record) == [
        ("user", "What is the capital of France?"), ("assistant", "Paris."), ("user", "And 2 + 3?"),
        ("assistant", ""), ("tool", "5"), ("assistant", "5."),
    ]  # fmt: skip
    assert record.conversation.turns[3].extra["tool_calls"][0]["function"]["name"] == "python"
    assert (record.conversation.metadata["title"], record.conversation.system) == ("Capital of France", "gpt-9")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 'accord.db'}")
    yield opened
    opened.close()


RUBRIC: Rubric = load_rubric("llm-rubric")


def test_exports_are_imported_with_their_ratings(store: Store) -> None:
    done = import_files(store, RUBRIC, files_in([EXPORTS])).to_json()
    assert done["conversations"]["new"] == 8
    assert (done["labels"]["new"], done["annotations"]["new"]) == (4, 2)
    assert done["ignored"]["a private note"] == 3


def test_a_list_of_messages_is_a_conversation_with_the_name_and_the_version_of_its_folder(store: Store) -> None:
    import_files(store, RUBRIC, files_in([EXPORTS / "message_lists"]))
    found = {each.id: (each.version, each.system) for each in store.conversations()}
    assert found == {"order-17": ("v1.2", "v1.2"), "v1.3-order-17": ("v1.3", "v1.3")}
    again = import_files(store, RUBRIC, files_in([EXPORTS / "message_lists"])).to_json()
    assert again["conversations"] == {"new": 0, "known": 2}


def test_a_list_of_lists_of_messages_is_a_list_of_conversations(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}]
    (tmp_path / "chats.json").write_text(json.dumps([chat, chat]), encoding="utf-8")
    assert list(records(tmp_path / "chats.json")) == ["chats-1", "chats-2"]


def test_the_command_imports_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    done = accord_json("import", str(EXPORTS / "slack"), str(EXPORTS / "zendesk_tickets.jsonl"))
    assert done["conversations"]["new"] == 3
    assert done["other_questions"] == {"thumbs": 3, "satisfaction": 2}


# --- bad rows --------------------------------------------------------------------------------------------------------

TICKET: dict[str, Any] = {
    "id": 1, "requester_id": 7, "comments": [{"id": 2, "author_id": 7, "body": "Hi.", "public": True}],
}  # fmt: skip
CHAT: dict[str, Any] = {
    "id": "a", "source": {"author": {"type": "user", "id": "u"}, "body": "Hi."}, "conversation_parts": [],
}  # fmt: skip
SLACK: dict[str, Any] = {"type": "message", "user": "U1", "text": "Hi.", "ts": "1780217100.000200", "thread_ts": "1.2"}
TREE: dict[str, Any] = {
    "id": "t", "current_node": "b", "mapping": {
        "a": {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["Hi."]}}},
        "b": {"parent": "a", "message": {"author": {"role": "assistant"}, "content": {"parts": ["Hello!"]}}},
    },
}  # fmt: skip


@pytest.mark.attack
@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        (TICKET, {"comments": "none"}, "`comments` is a list of objects, got str"),
        (TICKET, {"comments": [3]}, "an entry of `comments` is an object, got int"),
        (TICKET, {"comments": [None]}, "an entry of `comments` is an object, got NoneType"),
        (SLACK, {"bot_id": "B", "reactions": 4.5, "thread_ts": "3.3"}, "are a list of objects"),
        (TICKET, {"requester_id": None}, "no id as `requester_id`, got None"),
        (TICKET, {"comments": [{"id": 9, "body": "Hi."}]}, "comment 9 has no `author_id`"),
        (TICKET, {"comments": [{"id": 9, "author_id": 7, "body": {}}, {"author_id": 7, "body": ["x"]}]}, "is a text"),
        (TICKET, {"satisfaction_rating": {"score": "good"}, "requester_id": {}}, "got {}"),
        (CHAT, {"conversation_parts": {"conversation_parts": 4}}, "`conversation_parts` is a list of objects, got int"),
        (CHAT, {"conversation_parts": [{"body": "x", "author": {"type": "ghost"}}]}, "has the type 'ghost'"),
        (CHAT, {"conversation_parts": [{"body": 4, "author": {"type": "user"}}]}, "is a text, got int"),
        (SLACK, {"ts": "yesterday"}, "not a time"),
        (SLACK, {"text": None, "thread_ts": "3.3"}, "is a NoneType"),
        (SLACK, {"bot_id": "B", "reactions": [{"name": "+1"}], "thread_ts": "3.3"}, "has no list of users"),
        (TREE, {"mapping": []}, "`mapping` is an object"),
        (TREE, {"current_node": "x"}, "no message 'x'"),
        (TREE, {"current_node": 3}, "no message '3'"),
        (TREE, {"current_node": None}, "names no `current_node`"),
        (TREE, {"mapping": {"b": {"parent": "b", "message": {}}}}, "'b' is its own ancestor"),
        (TREE, {"mapping": {"b": {"message": {"author": 3}}}}, "no `author` with a role"),
    ],
)
def test_a_bad_row_of_an_export_is_one_sentence_and_the_others_are_read(
    good: dict[str, Any], bad: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(write_rows("export.jsonl", [good, {**good, **({} if "ts" in good else {"id": "bad"}), **bad}]))
    errors: list[BadRow] = []
    found = [record.conversation for record in read(path, on_bad_row=errors.append)]
    assert [len(each.turns) > 0 for each in found] == [True]
    assert [error.line for error in errors] == [2]
    assert reason in errors[0].reason and "\n" not in errors[0].reason


@pytest.mark.attack
def test_a_long_branch_of_messages_is_read() -> None:
    count = 20_000
    nodes = {
        f"n{place}": {"parent": f"n{place - 1}" if place else None,
                      "message": {"author": {"role": "user"}, "content": {"parts": ["x"]}}}
        for place in range(count)
    }  # fmt: skip
    chat = {"id": "deep", "current_node": f"n{count - 1}", "mapping": nodes}
    assert len(convert_row(chat, "x").conversation.turns) == count


# --- versions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["app_version", "App Version", "release", "version", "modelId", "model_version"])
def test_columns_with_versions_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("chats.csv", f"id,prompt,response,{name}\na,Hi.,Hello!,2.1\n")
    assert [record.conversation.version for record in records(Path("chats.csv")).values()] == ["2.1"]


def test_the_version_of_a_service_is_read_from_spans() -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Hi."}]}]
    span = {
        "traceId": "a" * 32, "spanId": "b" * 16, "name": "chat",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(messages)}},
        ],
    }  # fmt: skip
    resource = {
        "attributes": [
            {"key": "service.name", "value": {"stringValue": "desk"}},
            {"key": "service.version", "value": {"stringValue": "4.2"}},
        ]
    }
    batch = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}
    otel = formats.get("otel")
    assert otel.split is not None
    record = otel.convert(otel.split(batch), "x")
    assert record is not None
    assert (record.conversation.system, record.conversation.version) == ("desk", "4.2")


def test_pieces_of_files_have_the_channels_and_the_versions_of_their_folders(tmp_path: Path) -> None:
    rows = [{"id": "p", "prompt": "Hi.", "response": "Hello!"}]
    (tmp_path / "v2").mkdir()
    pl.DataFrame(rows).write_parquet(tmp_path / "v2" / "chats.parquet")
    for folder, found in ((tmp_path, ("p", "v2")), (EXPORTS / "message_lists" / "v1.2", ("order-17", "v1.2"))):
        [piece] = split_files(find_files(str(folder)))
        [conversation] = read_piece(piece)
        assert isinstance(conversation, Conversation) and (conversation.id, conversation.version) == found
    [piece] = split_files(find_files(str(EXPORTS / "slack" / "support-bot")))
    assert [each.id for each in read_piece(piece) if isinstance(each, Conversation)] == [
        "support-bot-1780217100.000200"
    ]
