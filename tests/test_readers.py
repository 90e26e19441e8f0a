"""Readers of all formats, and errors of invalid rows and files."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from special_files import make_link, make_pipe

from accord import Conversation, Rubric, Target, Turn, read, read_labels
from accord.edges import BadInput, BadRow, UnknownName
from accord.formats import UNNAMED, detect, find_files, formats, rating_labels, read_piece, sniff, split_files
from accord.formats.labels.rating_columns import answers_in
from accord.values import SYNTHETIC, Question, Scale, ScaleKind


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def only(path: Path, **options: Any) -> Conversation:
    [record] = read(path, **options)
    return record.conversation


def refused(path: Path, reason: str, error: type[BadInput] = BadInput, **options: Any) -> BadInput:
    """Check that a file is refused in one line."""
    with pytest.raises(error, match=reason) as caught:
        for _ in read(path, **options):
            pass
    assert "\n" not in str(caught.value)
    return caught.value


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(conversation: Conversation) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in conversation.turns]


HELLO = [("user", "hello"), ("assistant", "hi there")]
MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi there"}]
CHAT = json.dumps({"messages": MESSAGES}).encode() + b"\n"


def test_openai_messages_keep_unknown_keys_tool_calls_and_parts(tmp_path: Path) -> None:
    call = [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    ask = [{"type": "text", "text": "what is"}, image, {"type": "text", "text": "this?"}]
    row = {
        "id": 7, "model": "m1", "metadata": {"system": "a"},
        "messages": [
            {"role": "user", "content": ask},
            {"role": "assistant", "content": None, "tool_calls": call},
            {"role": "tool", "content": "a cat", "tool_call_id": "t1", "name": "look"},
        ],
        "documents": ["plain", {"title": "Cats", "page_content": "purr", "id": 3}],
    }  # fmt: skip
    conversation = only(lines(tmp_path / "chats.jsonl", row))
    assert conversation.id == "7"
    assert texts(conversation) == [("user", "what is\nthis?"), ("assistant", ""), ("tool", "a cat")]
    extras = [{"parts": [image]}, {"tool_calls": call}, {"tool_call_id": "t1"}]
    assert [turn.extra for turn in conversation.turns] == extras and conversation.turns[2].name == "look"
    assert [(d.text, d.title, d.id) for d in conversation.documents] == [("plain", None, None), ("purr", "Cats", "3")]
    assert conversation.metadata == {"system": "a", "model": "m1"} and conversation.system == "a"


def test_a_synthetic_conversation_is_marked() -> None:
    created = Conversation("1", (Turn("user", "Hello"),), metadata={SYNTHETIC: {"how": "DS1"}})
    assert created.is_synthetic and Conversation.from_json(created.to_json()).is_synthetic
    assert not any(replace(created, metadata=about).is_synthetic for about in ({SYNTHETIC: None}, {}))


def test_a_conversation_round_trips_through_json(tmp_path: Path) -> None:
    conversation = only(lines(tmp_path / "c.jsonl", {"messages": MESSAGES, "documents": ["d"], "odd": [1]}))
    assert Conversation.from_json(json.loads(json.dumps(conversation.to_json()))) == conversation


LONGER = [*HELLO, ("user", "bye"), ("assistant", "see you")]
BYE = {"role": "user", "content": "bye"}


def span(conversation: str, start: int, sent: list[Any], received: list[Any], text: bool = True) -> dict[str, Any]:
    pack = json.dumps if text else (lambda value: value)
    attributes = {
        "gen_ai.conversation.id": conversation, "gen_ai.request.model": "m1",
        "gen_ai.input.messages": pack(sent), "gen_ai.output.messages": pack(received),
    }  # fmt: skip
    ids = {"span_id": str(start), "trace_id": "t", "start_time": f"2026-01-01T00:00:{start:02d}Z"}
    return {**ids, "attributes": attributes}


def part(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


USER, REPLY, MORE, LAST = (part(role, text) for role, text in LONGER)
INSTRUCTIONS = json.dumps([{"type": "text", "content": "be kind"}])
OTLP = [
    {"key": f"gen_ai.{name}", "value": {"stringValue": text}}
    for name, text in {
        "conversation.id": "c1", "system_instructions": INSTRUCTIONS, "input.messages": json.dumps([USER]),
        "output.messages": json.dumps([REPLY]),
    }.items()
]  # fmt: skip
GENERATION = {"traceId": "t1", "type": "GENERATION"}


def trace(name: str, sent: Any, received: Any) -> dict[str, Any]:
    return {"id": name, "sessionId": None, "scores": "[]", "input": sent, "output": received}


def messages(*turns: tuple[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in turns]}


CONVERSATIONS: dict[str, tuple[str, Any, dict[str, list[tuple[str, str]]]]] = {
    "sharegpt": ("s.jsonl", [
        {"conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hi there"}]}], {"s-1": HELLO}),
    "roles and tool results": ("m.jsonl", [{"messages": [
        {"role": "Human", "content": "hi"}, {"role": "AI", "content": "yo"},
        {"role": "tool", "parts": [{"type": "tool_call_response", "response": {"sum": 42}}]}]}],
        {"m-1": [("user", "hi"), ("assistant", "yo"), ("tool", '{"sum": 42}')]}),
    "speakers of support desks": ("c.jsonl", [{"messages": [{"speaker": who, "text": "a"} for who in (
        "end-user", "Operator", "End User", "chatbot", "speaker_a")]}],
        {"c-1": [(who, "a") for who in ("user", "assistant", "user", "assistant", "speaker_a")]}),
    "a transcript in a cell": ("calls.csv", 'id,transcript\nx,"Kunde: Wo ist es?\nUnd wann?\nBerater: Morgen."\n',
        {"x": [("user", "Wo ist es?\nUnd wann?"), ("assistant", "Morgen.")]}),
    "a named separator": ("t.csv", "\ufeffsep=;\nconversation; role ;content\na;user;hello\n", {"a": HELLO[:1]}),
    "an empty last column": ("t.csv", "\ufeffconversation,role,content\na,user,hello,\n", {"a": HELLO[:1]}),
    "turns apart": ("t.csv", '\ufeffconversation_id,role,content\na,user,hello\nb,user,"two\nlines"\na,assistant,hi there\n',
        {"a": HELLO, "b": [("user", "two\nlines")]}),
    "turns by tabs": ("t.tsv", "conversation_id\trole\tcontent\na\tuser\thello\na\tassistant\thi there\n", {"a": HELLO}),
    "turns by semicolons": ("t.csv", "conversation_id;role;content\na;user;hello\na;assistant;hi there\n", {"a": HELLO}),
    "history in each row": ("calls.jsonl", [
        {"id": "c", "prompt": MESSAGES[:1], "completion": "hi there"},
        {"id": "c", "prompt": [*MESSAGES, BYE], "completion": "see you"}], {"c": LONGER}),
    "generations of a trace": ("observations.jsonl", [
        {**GENERATION, "id": "o2", "startTime": "2026-01-01T00:00:02Z", "input": [*MESSAGES, BYE],
         "output": {"role": "assistant", "content": "see you"}},
        {**GENERATION, "id": "o1", "startTime": "2026-01-01T00:00:01Z", "input": MESSAGES[:1], "output": MESSAGES[1]},
        {**GENERATION, "id": "o0", "type": "SPAN", "startTime": "2026-01-01T00:00:00Z", "input": {"x": 1}, "output": "y"}],
        {"t1": LONGER}),
    "JSON that a user typed": ("lf.jsonl", [
        trace("a", '["a","b"]', '"quoted"'), trace("b", '{"a":1}', json.dumps(MESSAGES[1])),
        trace("c", {"input": "q", "chat_history": MESSAGES}, "x")],
        {"a": [("user", '["a","b"]'), ("assistant", '"quoted"')], "b": [("user", '{"a":1}'), HELLO[1]],
         "c": [*HELLO, ("user", "q"), ("assistant", "x")]}),
    "spans with and without history": ("spans.jsonl", [
        span("long", 2, [USER, REPLY, MORE], [LAST]), span("short", 3, [USER], [REPLY], text=False),
        span("long", 1, [USER], [REPLY]), span("short", 4, [MORE], [LAST])], {"short": LONGER, "long": LONGER}),
    "an agent's span and a model's": ("spans.jsonl", [
        {**span("agent", 1, [USER], [REPLY]), "span_id": "root"},
        {**span("agent", 2, [USER], [REPLY]), "parent_span_id": "root"},
        {"span_id": "z", "trace_id": "other", "attributes": {"http.method": "GET"}}], {"agent": HELLO}),
    "spans with a window of the history": ("spans.jsonl", [
        span("w", 1, [USER], [REPLY]), span("w", 2, [USER, REPLY, MORE], [LAST]),
        span("w", 3, [MORE, LAST, USER], [REPLY])], {"w": [*LONGER, *HELLO]}),
    "a reply that was generated again": ("spans.jsonl", [span("a", 1, [USER], [REPLY]), span("a", 2, [USER], [LAST])],
        {"a": [HELLO[0], LONGER[3]]}),
    "a reply with a blank at its end": ("spans.jsonl", [
        span("s", 1, [USER], [part("assistant", "hi there ")]), span("s", 2, [USER, REPLY, MORE], [LAST])], {"s": LONGER}),
    "an OTLP batch": ("otlp.jsonl", [{"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "t", "spanId": "s1", "startTimeUnixNano": "1", "attributes": OTLP},
        {"traceId": "t", "spanId": "s2", "startTimeUnixNano": "5", "attributes": OTLP[:1]}]}]}]}],
        {"c1": [("system", "be kind"), *HELLO]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_files_become_conversations(tmp_path: Path, name: str) -> None:
    file, content, expected = CONVERSATIONS[name]
    path = written(tmp_path / file, content) if isinstance(content, str) else lines(tmp_path / file, *content)
    assert {record.conversation.id: texts(record.conversation) for record in read(path)} == expected


def test_a_table_of_exchanges_is_read_with_a_column_map(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("chat,asked,replied,bot\nx,hello,hi there,b1\nx,bye,see you,b1\n", encoding="utf-8")
    columns = {"conversation": "chat", "prompt": "asked", "response": "replied", "system": "bot"}
    found = only(path, columns=columns)
    assert texts(found) == [*HELLO, ("user", "bye"), ("assistant", "see you")]
    assert found.system == "b1"
    with pytest.raises(BadInput, match="no column 'nothere'; it has chat, asked, replied, bot"):
        list(read(path, columns={"prompt": "nothere"}))


CONVENTIONS: dict[str, dict[str, Any]] = {
    "openinference": {
        "openinference.span.kind": "LLM", "llm.model_name": "m1", "session.id": "s",
        "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "be kind",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "hello",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "hi there",
    },
    "openinference, values alone": {
        "openinference.span.kind": "LLM", "llm.model_name": "m1", "session.id": "s", "input.mime_type": "application/json",
        "input.value": json.dumps({"messages": [{"role": "system", "content": "be kind"}, MESSAGES[0]]}),
        "output.mime_type": "application/json", "output.value": json.dumps({"choices": [{"message": MESSAGES[1]}]}),
    },
    "openllmetry": {
        "gen_ai.request.model": "m1", "session.id": "s", "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "be kind", "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": "hello"}]),
        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "hi there",
    },
    "the AI SDK": {
        "ai.model.id": "m1", "session.id": "s", "ai.response.text": "hi there",
        "ai.prompt.messages": json.dumps([{"role": "system", "content": "be kind"}, MESSAGES[0]]),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CONVENTIONS)
def test_messages_are_read_under_each_span_convention(name: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "spans.jsonl", {"span_id": "1", "trace_id": "t", "attributes": CONVENTIONS[name]})
    conversation = only(path)
    assert texts(conversation) == [("system", "be kind"), *HELLO]
    assert (conversation.id, conversation.metadata["model"]) == ("s", "m1")


def test_openinference_spans_keep_tool_calls_and_documents(tmp_path: Path) -> None:
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    spans: list[tuple[str, dict[str, Any]]] = [
        ("CHAIN", {"input.value": "hello", "output.value": "hi there"}),
        ("RETRIEVER", {"retrieval.documents.0.document.content": "Herons eat fish.",
                       "retrieval.documents.0.document.id": "d1"}),
        ("LLM", {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hello",
                 f"{call}.function.name": "look", f"{call}.function.arguments": "{}"}),
        ("CHAIN", {"input.value": '{"question": "hello"}', "output.value": "a prompt"}),
    ]  # fmt: skip
    rows = [
        {"span_id": str(index), "trace_id": "t", "parent_id": None if index == 0 else "0", "start_time": str(index),
         "attributes": {"openinference.span.kind": kind, **own}}
        for index, (kind, own) in enumerate(spans)
    ]  # fmt: skip
    conversation = only(lines(tmp_path / "a.jsonl", *rows))
    assert texts(conversation) == [("user", "hello"), ("assistant", "")]
    assert conversation.turns[1].extra["tool_calls"] == [{"function": {"name": "look", "arguments": "{}"}}]
    assert [(each.id, each.text) for each in conversation.documents] == [("d1", "Herons eat fish.")]
    # Without a model call the root span has the messages.
    assert texts(only(lines(tmp_path / "b.jsonl", rows[0], rows[3]))) == HELLO


def test_messages_are_read_from_events_and_log_records(tmp_path: Path) -> None:
    user, reply, choice = json.dumps(MESSAGES[0]), json.dumps(MESSAGES[1]), json.dumps({"message": MESSAGES[1]})
    kinds = [
        [("gen_ai.user.message", {"content": "hello"}), ("gen_ai.choice", {"message": reply})],
        [("gen_ai.content.prompt", {"gen_ai.prompt": f"[{user}]"}),
         ("gen_ai.content.completion", {"gen_ai.completion": f"[{reply}]"})],
        [("gen_ai.user.message", {"gen_ai.event.content": user}), ("gen_ai.choice", {"gen_ai.event.content": choice})],
    ]  # fmt: skip
    for place, events in enumerate(kinds):
        listed = [{"name": n, "timeUnixNano": str(at), "attributes": a} for at, (n, a) in enumerate(events)]
        row = {"span_id": "1", "trace_id": "t", "attributes": {"gen_ai.system": "openai"}, "events": listed}
        assert texts(only(lines(tmp_path / f"{place}.jsonl", row))) == HELLO
    records = [
        {"traceId": "t", "spanId": span, "timeUnixNano": str(place), "eventName": f"gen_ai.{name}", "body": body}
        for place, (span, name, body) in enumerate([
            ("1", "user.message", MESSAGES[0]), ("1", "choice", {"message": MESSAGES[1]}),
            ("2", "user.message", MESSAGES[0]), ("2", "assistant.message", MESSAGES[1]),
            ("2", "user.message", BYE), ("2", "choice", {"message": {"content": "see you"}}),
        ])
    ]  # fmt: skip
    assert texts(only(lines(tmp_path / "logs.jsonl", *records))) == LONGER  # the second call repeats the first
    export = {"resourceLogs": [{"scopeLogs": [{"logRecords": list(reversed(records))}]}]}
    assert texts(only(lines(tmp_path / "otlp.jsonl", export))) == LONGER


def test_spans_without_content_are_skipped_with_the_reason(tmp_path: Path) -> None:
    rows = [
        {"span_id": "1", "trace_id": "t", "attributes": {"http.method": "GET"}},
        {"span_id": "2", "trace_id": "t", "attributes": {"gen_ai.operation.name": "chat"}},
        {"span_id": "3", "trace_id": "t", "attributes": {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"}},
        {"span_id": "4", "trace_id": "t", "attributes": {"openinference.span.kind": "LLM"}},
        {"traceId": "t", "spanId": "5", "eventName": "gen_ai.user.message", "body": {}},
    ]  # fmt: skip
    reasons: list[str] = []
    path = lines(tmp_path / "spans.jsonl", *rows)
    assert list(read(path, on_skip=reasons.append)) == []
    lost = "a model call without its messages"
    assert reasons == ["no model call", lost, "no model call", lost, lost]


def test_langfuse_sessions_keep_human_scores_only(tmp_path: Path) -> None:
    scores = [
        {"name": "Q0", "value": 3.0, "source": "ANNOTATION", "authorUserId": "ann"},
        {"name": "Q0", "value": 1.0, "source": "EVAL"},
    ]
    later = {"timestamp": "2", "input": "bye", "output": {"content": "see you"}, "scores": scores}
    first = {"timestamp": "1", "input": {"messages": MESSAGES[:1]}, "output": "hi there"}
    rows = [{"id": "t2", "sessionId": "s1", **later}, {"id": "t1", "sessionId": "s1", **first}]
    [record] = read(lines(tmp_path / "lf.jsonl", *rows))
    assert texts(record.conversation) == LONGER
    labels = [(label.target, label.question, label.annotator, label.value) for label in record.labels]
    assert labels == [(Target("s1", 3), "Q0", "ann", 3)]


def test_mlflow_traces_keep_human_assessments_only(tmp_path: Path) -> None:
    def assessment(kind: str, value: Any) -> dict[str, Any]:
        source = {"source_type": kind, "source_id": "ann"}
        return {"assessment_name": "Q0", "source": source, "feedback": {"value": value}, "create_time": "2026-01-01"}

    attributes = {
        "mlflow.spanInputs": json.dumps({"messages": MESSAGES[:1]}),
        "mlflow.spanOutputs": json.dumps({"choices": [{"message": MESSAGES[1]}]}),
    }
    row = {
        "info": {
            "trace_id": "tr1", "trace_metadata": {"mlflow.trace.session": "s9"}, "tags": {"system": "a"},
            "assessments": [assessment("HUMAN", 4), assessment("LLM_JUDGE", 1)],
        },
        "data": {"spans": [{"span_id": "1", "parent_span_id": None, "attributes": attributes}]},
    }  # fmt: skip
    [record] = read(lines(tmp_path / "ml.jsonl", row))
    assert record.conversation.id == "s9" and record.conversation.system == "a"
    assert texts(record.conversation) == HELLO
    assert [(label.annotator, label.value) for label in record.labels] == [("ann", 4)]


def test_benchmark_rows_keep_ratings_and_not_applicable(tmp_path: Path) -> None:
    rating = {"annotator": "ann", "question": "Q0", "value": 2, "scale": [1, 4]}
    row = {
        "id": "b1", "dataset": "d", "level": "turn", "system": "s", "messages": MESSAGES, "response_index": 1,
        "knowledge": ["fact"], "references": [], "meta": {"not_applicable": [["ann", "Q2"]]}, "ratings": [rating] * 2,
    }  # fmt: skip
    [record] = read(lines(tmp_path / "items.jsonl", row))
    labels = [(label.target, label.question, label.value) for label in record.labels]
    assert labels == [(Target("b1", 1), *each) for each in (("Q0", 2), ("Q0", 2), ("Q2", None))]
    assert record.conversation.metadata["dataset"] == "d"


def test_published_benchmark_files_are_read(data: Path) -> None:
    counts = {name: [0, 0] for name in ("llm_rubric_real", "llm_rubric_synth", "topical_usr", "abc_eval")}
    for name, count in counts.items():
        for record in read(data / name):
            count[0] += 1
            count[1] += sum(label.value is not None for label in record.labels)
    assert counts == {
        "llm_rubric_real": [223, 1701],
        "llm_rubric_synth": [250, 8159],
        "topical_usr": [360, 6480],
        "abc_eval": [1634, 29412],
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_read_in_every_layout(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "chats.json"
    rows = [{"id": f"c{i}", "messages": [{"role": "user", "content": "x" * 40_000}]} for i in range(9)]
    path.write_text(json.dumps(rows, indent=indent), encoding="utf-8")
    assert [record.conversation.id for record in read(path)] == [f"c{i}" for i in range(9)]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_compressed_files_are_read(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    path, table = tmp_path / f"one.json{ending}", tmp_path / f"two.csv{ending}"
    path.write_bytes(pack(json.dumps({"messages": MESSAGES}, indent=1).encode()))
    assert texts(only(path)) == HELLO
    table.write_bytes(pack(b"prompt,response\nhello,hi\n"))
    assert len(list(read(table))) == 1


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{not json", "not JSON"),
        (b'{"messages": "\xe9"}', "line 3: not UTF-8"),
        ("[1]", "expected a JSON object, got list"),
        ('{"messages": []}', "the conversation has no messages"),
        (
            '{"messages": [{"rolle": "x"}]}',
            r"a message has no role; its keys are \['rolle'\], and those of speaker and",
        ),
        ('{"messages": [{"role": "user", "content": 5}]}', "content is a string or a list of parts, got int"),
        ('{"id": "a\\u0000b", "messages": [{"role": "user", "content": "x"}]}', "cannot be an id"),
        ('{"messages": 5}', "messages are a list, got int"),
    ],
)
def test_a_bad_row_is_reported_with_file_line_and_reason(tmp_path: Path, bad: str | bytes, reason: str) -> None:
    row = bad if isinstance(bad, bytes) else bad.encode()
    path = written(tmp_path / "chats.jsonl", CHAT + b"\n" + row + b"\n" + CHAT)
    error = refused(path, reason, BadRow, format="openai-messages")
    assert error.line == 3 and str(path) in str(error)
    skipped: list[BadRow] = []
    assert len(list(read(path, on_bad_row=skipped.append))) == 2
    assert [error.line for error in skipped] == [3]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", "{}".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("a.csv", b"role,content\nuser,\xe9\x81\n", "is not UTF-8"),
        ("a.json", b'[{"messages": []', "not JSON"),
        ("a.json", b"[" + CHAT + b"]garbage", "not JSON"),
        ("a.json", b"[" + CHAT + CHAT + b"]", "not JSON"),
        ("a.json", b"[" + CHAT + b"],", "not JSON"),
        ("a.parquet", b"no parquet at all", "is not a Parquet file"),
        ("a.jsonl.gz", gzip.compress(b'{"messages": []}' * 99, mtime=0)[:-9], "broken gzip"),
        ("a.jsonl.bz2", bz2.compress(b'{"messages": []}' * 99)[:-9], "broken bzip2 file: it ends too early"),
        ("a.jsonl.xz", lzma.compress(b'{"messages": []}' * 99)[:40] + bytes(40), "broken xz file"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd" + bytes(40), "unsupported packing .*; unpack it: unzstd"),
        ("a.zip", b"PK\x03\x04" + bytes(40), "unsupported packing .*; unpack it: unzip"),
        ("a.jsonl", b'{"strange": 1}\n', "cannot tell the format"),
        ("t.csv", b"role,content\nuser,hello\nassistant,hi\n", "a turn names no conversation"),
        ("t.csv", b"conversation,role,content,role\na,user,b,c\n", "two columns called 'role'"),
        ("t.csv", b'conversation,role,content\na,user,"b\n', "is not CSV"),
        ("t.csv", b"conversation,role,content\na,user\n", "2 columns, the header has 3"),
        ("wide.csv", b",".join(b"c%d" % i for i in range(300_000)) + b"\n", "more than 10,000 columns"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unreadable_file_gives_the_reason(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    refused(written(tmp_path / name, content), reason)


def test_unknown_files_and_formats_are_errors() -> None:
    with pytest.raises(BadInput, match="no file nowhere.jsonl"):
        list(read("nowhere.jsonl"))
    with pytest.raises(UnknownName, match="Did you mean 'sharegpt'"):
        formats.get("sharegtp")
    assert detect({"conversations": []}, "x") == "sharegpt"


@pytest.mark.parametrize(
    "row",
    [
        {"resourceSpans": [1]}, {"resourceSpans": [{"scopeSpans": [{"spans": [3]}]}]},
        {"span_id": "1", "attributes": "oops"}, {"span_id": "1", "attributes": [{"value": {}}]},
        {"span_id": "1", "attributes": {}, "events": [None]},
    ],
)  # fmt: skip
def test_malformed_spans_are_bad_rows(tmp_path: Path, row: dict[str, Any]) -> None:
    path = lines(tmp_path / "s.jsonl", row, span("c", 1, [part("user", "hello")], [part("assistant", "hi there")]))
    skipped: list[BadRow] = []
    [record] = read(path, format="otel", on_bad_row=skipped.append)
    assert texts(record.conversation) == HELLO and [error.line for error in skipped] == [1]


def test_tables_are_sorted_by_turn_and_keep_all_documents(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "conversation,turn,role,content,context,system,tokens\n"
        'a,2,AI,hi there,"[""d1"",""d2""]",s1,7\na,1,Human,hello,d3,s1,5\n',
        encoding="utf-8",
    )
    found = only(path)
    assert texts(found) == HELLO
    assert sorted(document.text for document in found.documents) == ["d1", "d2", "d3"]
    assert found.metadata == {"system": "s1"} and found.turns[0].extra == {"tokens": "5"}


@pytest.mark.parametrize("lead", ["\ufeff", "\n\n", ""])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_wrapper_around_rows_is_read_in_every_layout(tmp_path: Path, lead: str, indent: int | None) -> None:
    path = tmp_path / "export.json"
    path.write_text(lead + json.dumps({"data": [{"messages": MESSAGES}] * 2}, indent=indent), encoding="utf-8")
    assert len(list(read(path))) == 2


@pytest.mark.attack
def test_a_truncated_archive_gives_the_rows_before_the_end(tmp_path: Path) -> None:
    rows = [{"id": str(i), **messages(("user", str(random.Random(i).random()) * 20))} for i in range(2000)]
    whole = gzip.compress(lines(tmp_path / "whole.jsonl", *rows).read_bytes())
    records, result = read(written(tmp_path / "c.jsonl", whole[: len(whole) // 2])), 0
    with pytest.raises(BadInput, match="broken gzip"):
        for _ in records:
            result += 1
    assert 500 < result < 1500


def test_a_bad_first_row_is_skipped(tmp_path: Path) -> None:
    path = lines(tmp_path / "c.jsonl", {"foo": 1}, {"messages": MESSAGES})
    skipped: list[BadRow] = []
    assert len(list(read(path, on_bad_row=skipped.append))) == 1
    assert "cannot tell the format" in str(skipped[0])


# --- labels -------------------------------------------------------------------------------------------------------


def test_labels_are_read_from_long_and_wide_tables(tmp_path: Path, rubric: Rubric) -> None:
    long = "item_id,rater,question,rating,turn,rated_at\nc1,ann,Q0,4,,\nc1,ann,Q2,NA,3,2026-01-01\n"
    wide = "conversation,annotator,Q0,Q2\nc1,ann,4.0,NA\nc2,bob,,3\n"
    among_others = "conversation, annotator ,score,Q0\nc0 ,b,1,3\n"
    tables = {
        long: [(Target("c1"), "ann", "Q0", 4, None), (Target("c1", 3), "ann", "Q2", None, "2026-01-01")],
        wide: [(Target(c), who, question, value, None) for c, who, question, value in (
            ("c1", "ann", "Q2", None), ("c1", "ann", "Q0", 4), ("c2", "bob", "Q2", 3))],
        among_others: [(Target("c0"), "b", "Q0", 3, None)],
    }  # fmt: skip
    for text, expected in tables.items():
        path = written(tmp_path / "labels.csv", text)
        found = [(x.target, x.annotator, x.question, x.value, x.time) for x in read_labels(path, rubric)]
        assert found == expected and sniff(path).content == "labels"


def test_a_label_off_its_scale_is_a_bad_row(tmp_path: Path, rubric: Rubric) -> None:
    text = "conversation,annotator,question,value\nc1,ann,Q0,4\nc1,ann,Q0,5\n"
    path, skipped = written(tmp_path / "labels.csv", text), list[BadRow]()
    with pytest.raises(BadRow, match=r"line 3: label of 'ann' on c1, question 'Q0': got 5, allowed: 1, 2, 3, 4"):
        list(read_labels(path, rubric))
    assert len(list(read_labels(path, rubric, on_bad_row=skipped.append))) == len(skipped) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"annotator": {"id": 1}, "value": 3}, "cannot be an id"),
        ({"annotator": "b", "value": True}, "True is not an answer to 'Q0'"),
        ({"annotator": "b", "question": "other", "value": {"a": 1}}, "is not an answer"),
        ({"annotator": "b", "question": "other", "value": float("nan")}, "is not an answer"),
        ({"annotator": "b", "value": 3, "turn": "²"}, "is not an index"),
        ({"annotator": "b", "value": 3, "turn": 99999999999999999999}, "is not an index"),
        ({"annotator": "b", "value": "٣"}, "allowed: 1, 2, 3, 4"),
        ({"annotator": "b", "value": 3, "question": "\ud800"}, "cannot be an id"),
    ],
)
def test_invalid_labels_are_bad_rows(tmp_path: Path, rubric: Rubric, row: dict[str, Any], reason: str) -> None:
    path = lines(tmp_path / "labels.jsonl", {"conversation": 0, **row})
    with pytest.raises(BadRow, match=reason):
        list(read_labels(path, rubric))


def test_transcripts_and_labels_of_one_table_are_both_read(tmp_path: Path) -> None:
    row = {"conversation": "c", "annotator": "b", "prompt": "hello", "response": "hi there", "Q0": 3}
    path = lines(tmp_path / "both.jsonl", row)
    assert sniff(path).content != "labels"
    found = only(path)
    assert texts(found) == HELLO
    [label] = rating_labels(found, ["Q0"])
    assert (label.target, label.annotator, label.value) == (Target("c"), "b", 3)


# --- cells of messages, transcripts in plain text, traces ---------------------------------------------------------


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(("asked", "replied"), [("prompt", "completion"), ("input", "output"), ("question", "answer")])
def test_messages_in_cells_of_an_exchange_become_turns(tmp_path: Path, asked: str, replied: str, as_text: bool) -> None:
    before = [{"role": "system", "content": "be kind"}, MESSAGES[0]]
    cells = {asked: before, replied: [MESSAGES[1]]}
    row = {name: json.dumps(cell) for name, cell in cells.items()} if as_text else cells
    conversation = only(lines(tmp_path / "pairs.jsonl", {"id": "c", **row}), format="table")
    assert texts(conversation) == [("system", "be kind"), *HELLO]
    one = only(lines(tmp_path / "one.jsonl", {"id": "c", asked: "hello", replied: MESSAGES[1]}), format="table")
    assert texts(one) == HELLO


@pytest.mark.attack
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parts"])
def test_only_a_cell_of_a_table_can_be_a_reply_of_messages(tmp_path: Path, ending: str) -> None:
    row = {"prompt": "hello", "response": json.dumps(MESSAGES)}
    if ending == "csv":
        path = tmp_path / "pairs.csv"
        pl.DataFrame([row]).write_csv(path)
    else:
        path = lines(tmp_path / "pairs.jsonl", row, row)
    if ending == "parts":
        [piece] = split_files(find_files(str(path)))
        found = next(read_piece(piece))
        assert isinstance(found, Conversation)
    else:
        found = next(read(path)).conversation
    replied = HELLO if ending == "csv" else [("assistant", row["response"])]
    assert texts(found) == [("user", "hello"), *replied]


@pytest.mark.parametrize("cell", [5, True, ["a", "b"], {"a": 1}, [{"x": 1}]])
def test_a_cell_that_is_neither_text_nor_messages_is_refused(tmp_path: Path, cell: Any) -> None:
    path = lines(tmp_path / "pairs.jsonl", {"id": "c", "prompt": "hello", "completion": cell})
    with pytest.raises(BadRow, match="line 1: a prompt or a response is a text or messages, got"):
        list(read(path))


def test_span_ids_are_equal_in_protobuf_json_and_otlp_json(tmp_path: Path) -> None:
    trace, span_id = bytes(range(16)), bytes(range(8))
    attributes = {
        "gen_ai.input.messages": json.dumps([part("user", "hello")]),
        "gen_ai.output.messages": json.dumps([part("assistant", "hi there")]),
        "gen_ai.request.model": "m1",
    }

    def export(trace_id: str, id_: str, resource: dict[str, Any]) -> dict[str, Any]:
        spans = [{"traceId": trace_id, "spanId": id_, "startTimeUnixNano": "1", "attributes": attributes}]
        return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}

    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop-bot"}}]}
    in_base64 = [base64.b64encode(each).decode() for each in (trace, span_id)]
    first = only(lines(tmp_path / "protobuf.jsonl", export(*in_base64, service)))
    second = only(lines(tmp_path / "json.jsonl", export(trace.hex(), span_id.hex(), {})))
    assert first.id == second.id == trace.hex()
    assert (first.system, second.system) == ("shop-bot", "m1")


def test_a_cell_without_speakers_is_no_transcript(tmp_path: Path) -> None:
    path = written(tmp_path / "calls.csv", "id,transcript,score\nx,no speaker here,70\n")
    refused(path, "lines that begin with the speaker", BadRow)


# --- ratings in columns and metadata --------------------------------------------------------------------------------------


def test_rows_of_several_raters_are_one_conversation_with_a_label_each(tmp_path: Path) -> None:
    rows = ["q1,hello,hi there,4,ann", "q1,hello,hi there,4,ben", "q2,hello,hi again,2,ann"]
    path = written(tmp_path / "rated.csv", "\n".join(["id,question,answer,rating,rater", *rows, ""]))
    assert sniff(path).content != "labels"
    first, second = (record.conversation for record in read(path))
    assert texts(first) == HELLO and second.id == "q2"
    labels = [label for each in (first, second) for label in rating_labels(each, ["rating"])]
    expected = [("q1", "ann", "4"), ("q1", "ben", "4"), ("q2", "ann", "2")]
    assert [(str(label.target), label.annotator, label.value) for label in labels] == expected


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        ({"rating": 4}, [(None, UNNAMED, 4)]),
        ({"rating": 4, "rater": "ann"}, [(None, "ann", 4)]),
        ({"ratings": [4, 5]}, [(None, "r1", 4), (None, "r2", 5)]),
        ({"rating_r1": 4, "rating_r2": 5}, [(None, "r1", 4), (None, "r2", 5)]),
        ({"metadata": {"feedback": {"rating": 3}}}, [(None, UNNAMED, 3)]),
        ({"annotations": [{"annotator": "ann", "question": "rating", "value": 2, "turn": 1}]}, [(1, "ann", 2)]),
        ({"annotations": [{"annotator": "ann", "rating": 2}, {"annotator": "ben", "rating": 3}]},
         [(None, "ann", 2), (None, "ben", 3)]),
        ({"ratings": {"rating": {"score": 1, "rater": "ann"}}}, [(None, "ann", 1)]),
        ({"ratings": {"r1": {"rating": 1}}}, [(None, "r1", 1)]),
        ({"ratings": {"rating": {"ann": 1, "ben": 5}}}, [(None, "ann", 1), (None, "ben", 5)]),
        ({"annotations": {"ann": {"rating": 1}, "ben": {"rating": 5}}}, [(None, "ann", 1), (None, "ben", 5)]),
        ({"other": 4}, []),
    ],
)  # fmt: skip
def test_ratings_in_columns_and_metadata_are_found(
    tmp_path: Path, beside: dict[str, Any], expected: list[tuple[int | None, str, Any]]
) -> None:
    conversation = only(lines(tmp_path / "c.jsonl", {"id": "c", "messages": MESSAGES, **beside}))
    labels = rating_labels(conversation, ["rating"])
    assert [(label.target.turn, label.annotator, label.value) for label in labels] == expected


def test_a_rating_of_a_message_is_about_that_turn(tmp_path: Path) -> None:
    rated = [MESSAGES[0], {**MESSAGES[1], "rating": 5}]
    [label] = rating_labels(only(lines(tmp_path / "c.jsonl", {"id": "c", "messages": rated})), ["rating"])
    assert label.target == Target("c", 1) and label.value == 5
    table = tmp_path / "turns.csv"
    table.write_text("conversation,role,content,rating\nc,user,hello,\nc,assistant,hi there,5\n", encoding="utf-8")
    [label] = rating_labels(only(table), ["rating"])
    assert label.target == Target("c", 1) and label.value == "5"


def test_a_label_may_be_the_meaning_of_an_option(tmp_path: Path) -> None:
    scale = Scale(kind=ScaleKind.BINARY, options=(0, 1))
    thumbs = Question(id="thumbs", text="?", scale=scale, meanings={"0": "down", "1": "up"})
    asks = Rubric(name="r", questions=(thumbs,), main="thumbs")
    path = lines(tmp_path / "l.jsonl", *({"id": "c", "thumbs": value} for value in ("up", "Down", True, 0, "n/a")))
    assert [label.value for label in read_labels(path, asks)] == [1, 0, 1, 0, None]


def test_labels_are_read_without_raters_and_with_one_per_column(tmp_path: Path, rubric: Rubric) -> None:
    path = lines(tmp_path / "l.jsonl", {"chat_id": "c", "Q0": 3})
    assert sniff(path).content == "labels"
    assert [(label.annotator, label.value) for label in read_labels(path, rubric)] == [(UNNAMED, 3)]
    path = lines(tmp_path / "wide.jsonl", {"chat_id": "c", "Q0_rater1": 3, "Q0_rater2": 4})
    assert [(label.annotator, label.value) for label in read_labels(path, rubric)] == [("rater1", 3), ("rater2", 4)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Nora Clarity", "Nora Tone", "Ben Clarity", "Ben Tone"],
         [("Clarity", "Nora"), ("Tone", "Nora"), ("Clarity", "Ben"), ("Tone", "Ben")]),
        (["clarity_nora", "clarity_ben", "tone_nora", "tone_ben"],
         [("clarity", "nora"), ("clarity", "ben"), ("tone", "nora"), ("tone", "ben")]),
        (["Anna Lee Clarity", "Anna Lee Depth", "Ben Day Clarity", "Ben Day Depth"],
         [("Clarity", "Anna Lee"), ("Depth", "Anna Lee"), ("Clarity", "Ben Day"), ("Depth", "Ben Day")]),
        (["May sales", "May costs", "June sales", "June costs"],
         [(name, None) for name in ("May sales", "May costs", "June sales", "June costs")]),
        (["Nora Clarity", "Nora Tone"], [("Nora Clarity", None), ("Nora Tone", None)]),
    ],
)  # fmt: skip
def test_columns_of_annotators_and_questions_are_split(
    names: list[str], expected: list[tuple[str, str | None]]
) -> None:
    cells = answers_in({"_nora": None, " ": 1, **dict.fromkeys(names, 4)})
    assert [(cell.question, cell.annotator) for cell in cells] == expected


@pytest.mark.parametrize("name", ["conversations", "dialogues"])
def test_conversations_are_read_from_a_list_or_an_object_by_id(tmp_path: Path, name: str) -> None:
    rows = [{"id": f"c{index}", "messages": MESSAGES, "rating": index} for index in range(3)]
    listed = lines(tmp_path / "list.json", {name: rows})
    by_id = lines(tmp_path / "ids.json", {row["id"]: {"messages": MESSAGES, "rating": row["rating"]} for row in rows})
    for path in (listed, by_id):
        result = [record.conversation for record in read(path)]
        assert [(each.id, each.metadata["rating"]) for each in result] == [("c0", 0), ("c1", 1), ("c2", 2)]


def test_a_decimal_comma_is_read(tmp_path: Path) -> None:
    scale = Scale(kind=ScaleKind.REAL, low=1.0, high=5.0)
    asks = Rubric(name="r", questions=(Question(id="note", text="?", scale=scale),), main="note")
    path = tmp_path / "l.csv"
    path.write_text("id;note\nc;3,5\nd;4\n", encoding="utf-8")
    assert [label.value for label in read_labels(path, asks)] == [3.5, 4]


def sparse(head: bytes) -> Callable[[Path], None]:
    """Create a sparse file of one gigabyte."""

    def make(path: Path) -> None:
        with path.open("wb") as stream:
            stream.write(head)
            stream.truncate(1 << 30)

    return make


def bomb(head: bytes, unit: bytes) -> Callable[[Path], None]:
    """Compress half a gigabyte of one repeated piece."""

    def make(path: Path) -> None:
        packer, piece = zlib.compressobj(1, wbits=31), unit * ((1 << 22) // len(unit))
        first = packer.compress(head + piece) + packer.flush(zlib.Z_FULL_FLUSH)
        again = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)  # a whole conversation in one row
        path.write_bytes(first + again * 127)  # is never read to the end

    return make


HOSTILE = {
    "zeros.jsonl": (sparse(b""), "line 1: longer than 128 MB"),
    "zeros.csv": (sparse(b""), "begins with a line of 1,048,576 characters or more"),
    "cell.csv": (sparse(b'role,content\nuser,"'), "line 2: a row is longer than 8 MB"),
    "after.jsonl": (sparse(CHAT), "line 2: longer than 128 MB"),
    "array.json": (sparse(b'[{"messages": "'), "an element is longer than 8 MB"),
    "wrapper.json": (sparse(b'{\n"data": ['), "an element is longer than 8 MB"),
    "object.json": (sparse(b'{\n"strange": ['), "one JSON value of more than 32 MB"),
    "zeros.jsonl.gz": (bomb(b"", b"\0"), "line 1: longer than 128 MB"),
    "spaces.json.gz": (bomb(b"[", b" "), "200 times its size"),
    "lines.jsonl.gz": (bomb(b"", b"\n"), "empty lines in succession"),
    "lists.json.gz": (bomb(b"[", b"[],"), "10,000 bad rows in succession"),
    "commas.csv.gz": (bomb(b"role,content\n", b","), "holds more than 2,000,000 values"),
    "row.jsonl.gz": (bomb(b'{"messages": [', b"[],"), "line 1: longer than 128 MB"),
}
MEASURED = """
import sys
from accord import read
from accord.edges import BadInput
for path in sys.argv[1:]:
    try:
        for _ in read(path, on_bad_row=lambda row: None):
            pass
    except BadInput as error:
        print(error)
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux how much memory was used")
@pytest.mark.attack
def test_refusing_a_hostile_file_takes_at_most_300_mb(tmp_path: Path) -> None:
    for name, (make, _) in HOSTILE.items():
        make(tmp_path / name)
    files = [str(tmp_path / name) for name in HOSTILE]
    done = subprocess.run([sys.executable, "-c", MEASURED, *files], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(HOSTILE)
    for (name, (_, reason)), output, most in zip(HOSTILE.items(), lines[::2], lines[1::2], strict=True):
        assert reason in output and int(most) < 300 * 1024, name  # the maximum so far, of this file or an earlier one


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_a_broken_archive_is_a_one_line_error(tmp_path: Path, kind: str) -> None:
    content = {"jsonl": CHAT * 3, "json": b"[" + CHAT + b"]", "csv": b"prompt,response\nhello,hi\n"}[kind]
    packed = gzip.compress(content, mtime=0)
    path = written(tmp_path / f"a.{kind}.gz", packed)
    assert len(list(read(path))) == (3 if kind == "jsonl" else 1)
    broken = {
        "it ends too early": packed[:-8],  # without its checksum
        "CRC check failed": packed[:-8] + bytes(8),
        "Incorrect length": packed[:-4] + bytes(4),
        "invalid": packed[:10] + b"\xff" * 20 + packed[30:],
        "Not a gzipped file": packed + b"something else",
    }
    for reason, damaged in broken.items():
        refused(written(path, damaged), f"broken gzip file: .*{reason}")


@pytest.mark.attack
def test_a_truncated_archive_of_one_large_object_is_refused(tmp_path: Path) -> None:
    """A list of rows in an object is read through a window, which ends with the list."""
    chat = messages(("user", "Is it? " * 100), ("assistant", "It is."))
    packed = gzip.compress(json.dumps({"data": [chat] * 40_000, "more": 1}).encode(), 1, mtime=0)
    path = written(tmp_path / "a.json.gz", packed)
    assert sum(1 for _ in read(path)) == 40_000
    refused(written(path, packed[:-8]), "a.json.gz is a broken gzip file: it ends too early")


@pytest.mark.attack
def test_rows_over_the_limits_are_refused(tmp_path: Path) -> None:
    deep = b'{"messages": ' + b"[" * 120 + b"]" * 120 + b"}\n"
    crowded = b'{"messages": [' + b"[]," * 2_000_000 + b"[]]}\n"
    long = b'{"messages": "' + b"x" * (33 << 20) + b'"}\n'
    path, bad = written(tmp_path / "rows.jsonl", CHAT + deep + crowded + long + CHAT), list[BadRow]()
    assert [record.conversation.id for record in read(path, on_bad_row=bad.append)] == ["rows-1", "rows-5"]
    large = "a row is longer than 8 MB or holds more than 2,000,000 values"
    assert [(row.line, row.reason) for row in bad] == [(2, "nested deeper than 100 levels"), (3, large), (4, large)]


def test_a_document_of_many_rows_may_be_longer_than_a_row(tmp_path: Path) -> None:
    path, inner = tmp_path / "export.json", messages(("user", "word " * 1_000_000))
    written(path, json.dumps({"a": inner, "b": inner}))
    assert [record.conversation.id for record in read(path)] == ["a", "b"]
    refused(written(path, json.dumps({"messages": inner["messages"] * 2})), "longer than 8 MB")


def test_a_wrapper_that_is_larger_than_any_row_is_read_row_by_row(tmp_path: Path) -> None:
    inner = json.dumps(messages(("user", "word " * 200_000)))
    for lead in ('{"data": [', '{\n  "data": [\n'):
        path = written(tmp_path / "export.json", lead + ",\n".join([inner] * 36) + '], "next": {"page": 2}}')
        assert sum(1 for _ in read(path)) == 36


@pytest.mark.attack
def test_pipes_and_devices_are_never_opened(tmp_path: Path) -> None:
    make_pipe(tmp_path / "a.jsonl")
    make_link(tmp_path / "b.jsonl", "/dev/zero")
    refused(tmp_path / "a.jsonl", "is a named pipe, not a file")
    refused(tmp_path / "b.jsonl", "is a device, not a file")


def plain_span(id: str, start: int, parent: str | None = None, **attributes: Any) -> dict[str, Any]:
    """Return a span; `__` in a name stands for a dot."""
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    parents = {} if parent is None else {"parentSpanId": parent}
    return {"traceId": "t", "spanId": id, "startTimeUnixNano": str(start), **parents, "attributes": named}


CALL = {"input__value": "Hi", "output__value": "Hello", "openinference__span__kind": "LLM"}
SPANS: list[tuple[str, list[dict[str, Any]], list[str], dict[str, Any]]] = [
    ("spans are read by their start", [plain_span("b", 9, input__value="Bye", output__value="See you", openinference__span__kind="LLM"), plain_span("a", 1, **CALL)],
     ["Hi", "Hello", "Bye", "See you"], {}),
    ("an agent repeats the messages of its calls", [plain_span("agent", 1, input__value="Hi there", output__value="all", openinference__span__kind="LLM"), plain_span("a", 2, "agent", **CALL)],
     ["Hi", "Hello"], {}),
    ("a chain holds messages if no call does", [plain_span("a", 1, input__value="Hi", output__value="Yes", openinference__span__kind="CHAIN"), plain_span("b", 2, "a", input__value="x", output__value="y", openinference__span__kind="CHAIN")],
     ["Hi", "Yes"], {}),
    ("the agent's name is the system", [plain_span("a", 1, gen_ai__agent__name="helper", gen_ai__request__model="m1", **CALL)],
     ["Hi", "Hello"], {"system": "helper", "model": "m1"}),
    ("the model is the system if nothing else is named", [plain_span("a", 1, llm__model_name="m2", **CALL)],
     ["Hi", "Hello"], {"system": "m2", "model": "m2"}),
    ("the service is the system", [plain_span("a", 1, **CALL) | {"resource": {"attributes": {"service.name": "shop"}}}],
     ["Hi", "Hello"], {"system": "shop"}),
    ("the placeholder of an SDK is no service", [plain_span("a", 1, **CALL) | {"resource": {"attributes": {"service.name": "unknown_service:python"}}}],
     ["Hi", "Hello"], {}),
    ("numbered messages are in the order of their numbers", [plain_span("a", 1, **{f"gen_ai.prompt.{n}.content": f"m{n}" for n in (10, 9, 1, 0)}, **{"gen_ai.completion.0.content": "ok"})],
     ["m0", "m1", "m9", "m10", "ok"], {}),
    ("instructions come first", [plain_span("a", 1, **{"gen_ai.system_instructions": "Be kind.", "gen_ai.input.messages": '[{"role": "user", "content": "Hi"}]', "gen_ai.output.messages": '[{"role": "assistant", "content": "Hello"}]'})],
     ["Be kind.", "Hi", "Hello"], {}),
]  # fmt: skip


def without_host_ids(conversation: Conversation) -> dict[str, Any]:
    """Metadata without the ids of traces, which `test_push.py` tests."""
    return {name: value for name, value in conversation.metadata.items() if name != "host_ids"}


@pytest.mark.parametrize(
    ("spans", "contents", "metadata"), [case[1:] for case in SPANS], ids=[case[0] for case in SPANS]
)
def test_spans_become_a_conversation(
    spans: list[dict[str, Any]], contents: list[str], metadata: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "spans.jsonl").write_text("\n".join(map(json.dumps, spans)), encoding="utf-8")
    [record] = read(tmp_path / "spans.jsonl")
    assert [turn.content for turn in record.conversation.turns] == contents
    assert record.conversation.id == "t" and without_host_ids(record.conversation) == metadata


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"gen_ai.operation.name": "chat"}, "a model call without its messages"),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"}, "no model call"),
        ({"gen_ai.request.model": "m"}, "a model call without its messages"),
        ({"openinference.span.kind": "LLM"}, "a model call without its messages"),
        ({"openinference.span.kind": "TOOL", "gen_ai.request.model": "m"}, "no model call"),
        ({"gen_ai.system": "x"}, "no model call"),
    ],
)  # fmt: skip
def test_spans_without_messages_are_skipped_with_their_reason(
    attributes: dict[str, str], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "spans.jsonl").write_text(json.dumps(plain_span("a", 1) | {"attributes": attributes}), encoding="utf-8")
    reasons: list[str] = []
    assert list(read(tmp_path / "spans.jsonl", format="otel", on_skip=reasons.append)) == []
    assert reasons == [reason]


RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}


@pytest.mark.parametrize(
    ("batch", "metadata"),
    [
        ({"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [{"spans": [plain_span("a", 1, **CALL)]}]}]}, {"system": "shop"}),
        ({"resource_spans": [{"resource": RESOURCE, "scope_spans": [{"spans": [plain_span("a", 1, **CALL)]}]}]}, {"system": "shop"}),
        ({"resourceSpans": {"resource": RESOURCE, "scopeSpans": {"spans": plain_span("a", 1, **CALL)}}}, {"system": "shop"}),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [plain_span("a", 1, **CALL) | {"resource": RESOURCE}]}]}]}, {"system": "shop"}),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [plain_span("a", 1, **CALL)]}]}, {"scopeSpans": None}]}, {}),
    ],
)  # fmt: skip
def test_batches_of_spans_are_read_in_every_spelling(
    batch: dict[str, Any], metadata: dict[str, Any], tmp_path: Path
) -> None:
    found = only(lines(tmp_path / "batch.jsonl", batch))
    assert [turn.content for turn in found.turns] == ["Hi", "Hello"] and without_host_ids(found) == metadata
