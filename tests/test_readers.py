"""Readers of all formats, and errors of invalid rows and files."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from accord import Conversation, Rubric, Target, Turn, read, read_labels
from accord.edges import BadInput, BadRow, UnknownName
from accord.formats import UNNAMED, detect, formats, rating_labels, sniff
from accord.values import SYNTHETIC, Question, Scale, ScaleKind


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def only(path: Path, **options: Any) -> Conversation:
    [record] = read(path, **options)
    return record.conversation


def texts(conversation: Conversation) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in conversation.turns]


HELLO = [("user", "hello"), ("assistant", "hi there")]
MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi there"}]


def test_openai_messages_keep_unknown_keys_tool_calls_and_parts(tmp_path: Path) -> None:
    call = [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    row = {
        "id": 7,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "what is"}, image, {"type": "text", "text": "this?"}],
            },
            {"role": "assistant", "content": None, "tool_calls": call},
            {"role": "tool", "content": "a cat", "tool_call_id": "t1", "name": "look"},
        ],
        "documents": ["plain", {"title": "Cats", "page_content": "purr", "id": 3}],
        "model": "m1",
        "metadata": {"system": "a"},
    }
    conversation = only(lines(tmp_path / "chats.jsonl", row))
    assert conversation.id == "7"
    assert texts(conversation) == [("user", "what is\nthis?"), ("assistant", ""), ("tool", "a cat")]
    assert conversation.turns[0].extra == {"parts": [image]}
    assert conversation.turns[1].extra == {"tool_calls": call}
    assert conversation.turns[2].name == "look" and conversation.turns[2].extra == {"tool_call_id": "t1"}
    assert [(d.text, d.title, d.id) for d in conversation.documents] == [("plain", None, None), ("purr", "Cats", "3")]
    assert conversation.metadata == {"system": "a", "model": "m1"} and conversation.system == "a"


def test_a_synthetic_conversation_is_marked() -> None:
    created = Conversation("1", (Turn("user", "Hello"),), metadata={SYNTHETIC: {"how": "DS1"}})
    assert created.is_synthetic and Conversation.from_json(created.to_json()).is_synthetic
    assert (
        not replace(created, metadata={SYNTHETIC: None}).is_synthetic and not replace(created, metadata={}).is_synthetic
    )


def test_a_conversation_round_trips_through_json(tmp_path: Path) -> None:
    conversation = only(lines(tmp_path / "c.jsonl", {"messages": MESSAGES, "documents": ["d"], "odd": [1]}))
    assert Conversation.from_json(json.loads(json.dumps(conversation.to_json()))) == conversation


def test_sharegpt_rows_become_conversations(tmp_path: Path) -> None:
    row = {"conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hi there"}]}
    conversation = only(lines(tmp_path / "s.jsonl", row))
    assert texts(conversation) == HELLO
    assert conversation.id == "s-1"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_of_scattered_turns_is_grouped_by_conversation(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / ("t.tsv" if delimiter == "\t" else "t.csv")
    rows = [
        ("conversation_id", "role", "content"),
        ("a", "user", "hello"),
        ("b", "user", '"two\nlines"'),
        ("a", "assistant", "hi there"),
    ]
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows), encoding="utf-8-sig")
    result = [record.conversation for record in read(path)]
    assert [conversation.id for conversation in result] == ["a", "b"]
    assert texts(result[0]) == HELLO
    assert texts(result[1]) == [("user", "two\nlines")]


def test_a_table_of_exchanges_is_read_with_a_column_map(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("chat,asked,replied,bot\nx,hello,hi there,b1\nx,bye,see you,b1\n", encoding="utf-8")
    columns = {"conversation": "chat", "prompt": "asked", "response": "replied", "system": "bot"}
    found = only(path, columns=columns)
    assert texts(found) == [*HELLO, ("user", "bye"), ("assistant", "see you")]
    assert found.system == "b1"
    with pytest.raises(BadInput, match="no column 'nothere'; it has chat, asked, replied, bot"):
        list(read(path, columns={"prompt": "nothere"}))


def test_a_parquet_column_of_messages_becomes_turns(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": ["x"], "messages": [MESSAGES]}).write_parquet(path)
    assert texts(only(path)) == HELLO


def span(conversation: str, start: int, sent: list[Any], received: list[Any], text: bool = True) -> dict[str, Any]:
    pack = json.dumps if text else (lambda value: value)
    attributes = {
        "gen_ai.conversation.id": conversation,
        "gen_ai.input.messages": pack(sent),
        "gen_ai.output.messages": pack(received),
        "gen_ai.request.model": "m1",
    }
    return {
        "span_id": str(start),
        "trace_id": "t",
        "start_time": f"2026-01-01T00:00:{start:02d}Z",
        "attributes": attributes,
    }


def part(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def test_otel_spans_merge_in_any_order_with_or_without_history(tmp_path: Path) -> None:
    hello, hi, bye, see = (
        part("user", "hello"),
        part("assistant", "hi there"),
        part("user", "bye"),
        part("assistant", "see you"),
    )
    whole = [*HELLO, ("user", "bye"), ("assistant", "see you")]
    path = lines(
        tmp_path / "spans.jsonl",
        span("long", 2, [hello, hi, bye], [see]),
        span("short", 3, [hello], [hi], text=False),
        span("long", 1, [hello], [hi]),
        span("short", 4, [bye], [see]),
    )
    result = {record.conversation.id: record.conversation for record in read(path)}
    assert texts(result["long"]) == whole
    assert texts(result["short"]) == whole
    assert result["long"].metadata["model"] == "m1"


def test_an_otlp_batch_keeps_system_instructions(tmp_path: Path) -> None:
    def value(text: str) -> dict[str, str]:
        return {"stringValue": text}

    attributes = [
        {"key": "gen_ai.conversation.id", "value": value("c1")},
        {"key": "gen_ai.system_instructions", "value": value(json.dumps([{"type": "text", "content": "be kind"}]))},
        {"key": "gen_ai.input.messages", "value": value(json.dumps([part("user", "hello")]))},
        {"key": "gen_ai.output.messages", "value": value(json.dumps([part("assistant", "hi there")]))},
    ]
    other = {"traceId": "t", "spanId": "s2", "startTimeUnixNano": "5", "attributes": [attributes[0]]}
    spans = [{"traceId": "t", "spanId": "s1", "startTimeUnixNano": "1", "attributes": attributes}, other]
    path = lines(tmp_path / "otlp.jsonl", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert texts(only(path)) == [("system", "be kind"), *HELLO]


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
    assert texts(conversation) == [("system", "be kind"), *HELLO] and (
        conversation.id,
        conversation.metadata["model"],
    ) == ("s", "m1")


def test_openinference_spans_keep_tool_calls_and_documents(tmp_path: Path) -> None:
    kinds = ("CHAIN", "RETRIEVER", "LLM", "CHAIN")
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    attributes: list[dict[str, Any]] = [
        {"input.value": "hello", "output.value": "hi there"},
        {"retrieval.documents.0.document.content": "Herons eat fish.", "retrieval.documents.0.document.id": "d1"},
        {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hello",
         f"{call}.function.name": "look", f"{call}.function.arguments": "{}"},
        {"input.value": '{"question": "hello"}', "output.value": "a prompt"},
    ]  # fmt: skip
    rows = [
        {"span_id": str(index), "trace_id": "t", "parent_id": None if index == 0 else "0", "start_time": str(index),
         "attributes": {"openinference.span.kind": kind, **own}}
        for index, (kind, own) in enumerate(zip(kinds, attributes, strict=True))
    ]  # fmt: skip
    conversation = only(lines(tmp_path / "a.jsonl", *rows))
    assert [turn.role for turn in conversation.turns] == ["user", "assistant"] and conversation.turns[
        0
    ].content == "hello"
    assert conversation.turns[1].extra["tool_calls"] == [{"function": {"name": "look", "arguments": "{}"}}]
    assert [(each.id, each.text) for each in conversation.documents] == [("d1", "Herons eat fish.")]
    assert (
        texts(only(lines(tmp_path / "b.jsonl", rows[0], rows[3]))) == HELLO
    )  # no model call: the root span has the messages


def test_messages_are_read_from_events_and_log_records(tmp_path: Path) -> None:
    def event(name: str, time: int, **attributes: str) -> dict[str, Any]:
        return {"name": name, "timeUnixNano": str(time), "attributes": attributes}

    older = [
        event("gen_ai.user.message", 1, content="hello"),
        event("gen_ai.choice", 2, message=json.dumps(MESSAGES[1])),
    ]
    oldest = [
        event("gen_ai.content.prompt", 1, **{"gen_ai.prompt": json.dumps(MESSAGES[:1])}),
        event("gen_ai.content.completion", 2, **{"gen_ai.completion": json.dumps(MESSAGES[1:2])}),
    ]
    azure = [
        event("gen_ai.user.message", 1, **{"gen_ai.event.content": json.dumps(MESSAGES[0])}),
        event("gen_ai.choice", 2, **{"gen_ai.event.content": json.dumps({"index": 0, "message": MESSAGES[1]})}),
    ]
    for place, events in enumerate((older, oldest, azure)):
        row = {"span_id": "1", "trace_id": "t", "attributes": {"gen_ai.system": "openai"}, "events": events}
        assert texts(only(lines(tmp_path / f"{place}.jsonl", row))) == HELLO
    again = {"role": "user", "content": "bye"}
    records = [
        {"traceId": "t", "spanId": span, "timeUnixNano": str(place), "eventName": name, "body": body}
        for place, (span, name, body) in enumerate([
            ("1", "gen_ai.user.message", MESSAGES[0]), ("1", "gen_ai.choice", {"message": MESSAGES[1]}),
            ("2", "gen_ai.user.message", MESSAGES[0]), ("2", "gen_ai.assistant.message", MESSAGES[1]),
            ("2", "gen_ai.user.message", again), ("2", "gen_ai.choice", {"message": {"content": "see you"}}),
        ])
    ]  # fmt: skip
    whole = [*HELLO, ("user", "bye"), ("assistant", "see you")]
    assert texts(only(lines(tmp_path / "logs.jsonl", *records))) == whole  # the second call repeats the first
    export = {"resourceLogs": [{"scopeLogs": [{"logRecords": list(reversed(records))}]}]}
    assert texts(only(lines(tmp_path / "otlp.jsonl", export))) == whole


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
    rows = [
        {
            "id": "t2", "sessionId": "s1", "timestamp": "2", "input": "bye", "output": {"content": "see you"},
            "scores": [
                {"name": "Q0", "value": 3.0, "source": "ANNOTATION", "authorUserId": "ann"},
                {"name": "Q0", "value": 1.0, "source": "EVAL"},
            ],
        },
        {"id": "t1", "sessionId": "s1", "timestamp": "1", "input": {"messages": MESSAGES[:1]}, "output": "hi there"},
    ]  # fmt: skip
    [record] = read(lines(tmp_path / "lf.jsonl", *rows))
    assert texts(record.conversation) == [*HELLO, ("user", "bye"), ("assistant", "see you")]
    [label] = record.labels
    assert (label.target, label.question, label.annotator, label.value) == (Target("s1", 3), "Q0", "ann", 3)


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
    row = {
        "id": "b1", "dataset": "d", "level": "turn", "system": "s", "messages": MESSAGES, "response_index": 1,
        "knowledge": ["fact"], "references": [], "meta": {"not_applicable": [["ann", "Q2"]]},
        "ratings": [{"annotator": "ann", "question": "Q0", "value": 2, "scale": [1, 4]}] * 2,
    }  # fmt: skip
    [record] = read(lines(tmp_path / "items.jsonl", row))
    target = Target("b1", 1)
    assert [(label.target, label.question, label.value) for label in record.labels] == [
        (target, "Q0", 2), (target, "Q0", 2), (target, "Q2", None),
    ]  # fmt: skip
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
        ("[1]", "expected a JSON object, got list"),
        ('{"messages": []}', "the conversation has no messages"),
        ('{"messages": [{"content": "x"}]}', "a message has no role"),
        ('{"messages": [{"role": "user", "content": 5}]}', "content is a string or a list of parts, got int"),
        ('{"id": "a\\u0000b", "messages": [{"role": "user", "content": "x"}]}', "cannot be an id"),
        ('{"messages": 5}', "messages are a list, got int"),
    ],
)
def test_a_bad_row_is_reported_with_file_line_and_reason(tmp_path: Path, bad: str, reason: str) -> None:
    good = json.dumps({"messages": MESSAGES})
    path = tmp_path / "chats.jsonl"
    path.write_text(f"{good}\n\n{bad}\n{good}\n", encoding="utf-8")
    with pytest.raises(BadRow, match=reason) as caught:
        list(read(path, format="openai-messages"))
    assert caught.value.line == 3 and str(path) in str(caught.value)
    skipped: list[BadRow] = []
    assert len(list(read(path, on_bad_row=skipped.append))) == 2
    assert [error.line for error in skipped] == [3]


def test_a_row_of_invalid_utf8_is_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_bytes(json.dumps({"messages": MESSAGES}).encode() + b'\n{"messages": "\xe9"}\n')
    with pytest.raises(BadRow, match="line 2: not UTF-8"):
        list(read(path))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", "{}".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        ("a.csv", b"role,content\nuser,\xe9\n", "is not UTF-8"),
        ("a.json", b'[{"messages": []', "not JSON"),
        ("a.parquet", b"no parquet at all", "is not a Parquet file"),
        ("a.jsonl.gz", gzip.compress(b'{"messages": []}' * 99, mtime=0)[:-9], "broken gzip"),
        ("a.jsonl.bz2", bz2.compress(b'{"messages": []}' * 99)[:-9], "broken bzip2 file: it ends too early"),
        ("a.jsonl.xz", lzma.compress(b'{"messages": []}' * 99)[:40] + bytes(40), "broken xz file"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd" + bytes(40), "unsupported packing .*; unpack it: unzstd"),
        ("a.zip", b"PK\x03\x04" + bytes(40), "unsupported packing .*; unpack it: unzip"),
        ("a.jsonl", b'{"strange": 1}\n', "cannot tell the format"),
    ],
)
def test_an_unreadable_file_gives_the_reason(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadInput, match=reason):
        list(read(path))


def test_unknown_files_and_formats_are_errors() -> None:
    with pytest.raises(BadInput, match="no file nowhere.jsonl"):
        list(read("nowhere.jsonl"))
    with pytest.raises(UnknownName, match="Did you mean 'sharegpt'"):
        formats.get("sharegtp")
    assert detect({"conversations": []}, "x") == "sharegpt"


def test_otel_messages_of_agent_and_model_spans_are_read_once(tmp_path: Path) -> None:
    dialogue = [
        ("user", "one"),
        ("assistant", "A1"),
        ("user", "two"),
        ("assistant", "A2"),
        ("user", "three"),
        ("assistant", "A3"),
    ]
    one, a1, two, a2, three, a3 = (part(role, text) for role, text in dialogue)
    agent = {**span("agent", 1, [one], [a1]), "span_id": "root"}
    inner = {**span("agent", 2, [one], [a1]), "parent_span_id": "root"}
    odd = {"span_id": "z", "trace_id": "other", "attributes": {"http.method": "GET"}}
    path = lines(
        tmp_path / "spans.jsonl",
        agent, inner, odd,
        span("window", 1, [one], [a1]), span("window", 2, [one, a1, two], [a2]), span("window", 3, [two, a2, three], [a3]),
        span("again", 1, [one], [a1]), span("again", 2, [one], [a2]),
        span("spaced", 1, [one], [part("assistant", "A1 ")]), span("spaced", 2, [one, a1, two], [a2]),
    )  # fmt: skip
    result = {record.conversation.id: [turn.content for turn in record.conversation.turns] for record in read(path)}
    assert result == {
        "agent": ["one", "A1"],
        "window": ["one", "A1", "two", "A2", "three", "A3"],
        "again": ["one", "A2"],
        "spaced": ["one", "A1", "two", "A2"],
    }


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


def test_tool_results_become_text_and_roles_are_normalized(tmp_path: Path) -> None:
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "response": {"sum": 42}}]}
    path = lines(
        tmp_path / "m.jsonl",
        {"messages": [{"role": "Human", "content": "hi"}, result, {"role": "AI", "content": "yo"}]},
    )
    assert texts(only(path)) == [("user", "hi"), ("tool", '{"sum": 42}'), ("assistant", "yo")]


def test_json_typed_by_a_user_stays_text(tmp_path: Path) -> None:
    def trace(name: str, sent: Any, received: Any) -> dict[str, Any]:
        return {"id": name, "sessionId": None, "scores": "[]", "input": sent, "output": received}

    path = lines(
        tmp_path / "lf.jsonl",
        trace("a", '["a","b"]', '"quoted"'),
        trace("b", '{"a":1}', json.dumps(MESSAGES[1])),
        trace("c", {"input": "q", "chat_history": MESSAGES}, "x"),
    )
    result = [texts(record.conversation) for record in read(path)]
    assert result[0] == [("user", '["a","b"]'), ("assistant", '"quoted"')]
    assert result[1] == [("user", '{"a":1}'), ("assistant", "hi there")]
    assert result[2] == [*HELLO, ("user", "q"), ("assistant", "x")]


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


def test_a_turn_without_a_conversation_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("role,content\nuser,hello\nassistant,hi\n", encoding="utf-8")
    with pytest.raises(BadRow, match="a turn names no conversation"):
        list(read(path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("conversation,role,content,role\na,user,b,c\n", "two columns called 'role'"),
        ('conversation,role,content\na,user,"b\n', "is not CSV"),
        ("conversation,role,content\na,user\n", "2 columns, the header has 3"),
    ],
)
def test_contradictory_tables_are_errors(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=reason):
        list(read(path, format="table"))


@pytest.mark.parametrize(
    "text", ["sep=;\nconversation; role ;content\na;user;hello\n", "conversation,role,content\na,user,hello,\n"]
)
def test_tables_of_spreadsheet_programs_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8-sig")
    assert texts(only(path)) == [("user", "hello")]


@pytest.mark.parametrize("tail", ["garbage", "{}", ","])
def test_an_array_with_text_after_or_between_elements_is_refused(tmp_path: Path, tail: str) -> None:
    path = tmp_path / "a.json"
    row = json.dumps({"messages": MESSAGES})
    path.write_text(f"[{row}]{tail}" if tail != "{}" else f"[{row}{row}]", encoding="utf-8")
    with pytest.raises(BadInput, match="not JSON"):
        list(read(path))


@pytest.mark.parametrize("lead", ["\ufeff", "\n\n", ""])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_wrapper_around_rows_is_read_in_every_layout(tmp_path: Path, lead: str, indent: int | None) -> None:
    path = tmp_path / "export.json"
    path.write_text(lead + json.dumps({"data": [{"messages": MESSAGES}] * 2}, indent=indent), encoding="utf-8")
    assert len(list(read(path))) == 2


@pytest.mark.attack
def test_a_truncated_archive_gives_the_rows_before_the_end(tmp_path: Path) -> None:
    import random

    rows = [
        {"id": str(i), "messages": [{"role": "user", "content": str(random.Random(i).random()) * 20}]}
        for i in range(2000)
    ]
    whole = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    path = tmp_path / "c.jsonl"
    path.write_bytes(whole[: len(whole) // 2])
    result = 0
    with pytest.raises(BadInput, match="broken gzip"):
        for _ in read(path):
            result += 1
    assert 500 < result < 1500


def test_a_bad_first_row_is_skipped(tmp_path: Path) -> None:
    path = lines(tmp_path / "c.jsonl", {"foo": 1}, {"messages": MESSAGES})
    skipped: list[BadRow] = []
    assert len(list(read(path, on_bad_row=skipped.append))) == 1
    assert "cannot tell the format" in str(skipped[0])


# --- labels -------------------------------------------------------------------------------------------------------


def test_labels_are_read_from_long_and_wide_tables(tmp_path: Path, rubric: Rubric) -> None:
    long, wide = tmp_path / "long.csv", tmp_path / "wide.csv"
    long.write_text(
        "item_id,rater,question,rating,turn,rated_at\nc1,ann,Q0,4,,\nc1,ann,Q2,NA,3,2026-01-01\n", encoding="utf-8"
    )
    wide.write_text("conversation,annotator,Q0,Q2\nc1,ann,4.0,NA\nc2,bob,,3\n", encoding="utf-8")
    assert [(x.target, x.question, x.value, x.time) for x in read_labels(long, rubric)] == [
        (Target("c1"), "Q0", 4, None),
        (Target("c1", 3), "Q2", None, "2026-01-01"),
    ]
    assert [(x.target.conversation, x.annotator, x.question, x.value) for x in read_labels(wide, rubric)] == [
        ("c1", "ann", "Q2", None), ("c1", "ann", "Q0", 4), ("c2", "bob", "Q2", 3),
    ]  # fmt: skip
    assert sniff(long).content == "labels" and sniff(wide).content == "labels"


def test_a_label_off_its_scale_is_a_bad_row(tmp_path: Path, rubric: Rubric) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("conversation,annotator,question,value\nc1,ann,Q0,4\nc1,ann,Q0,5\n", encoding="utf-8")
    with pytest.raises(BadRow, match=r"line 3: label of 'ann' on c1, question 'Q0': got 5, allowed: 1, 2, 3, 4"):
        list(read_labels(path, rubric))
    skipped: list[BadRow] = []
    assert len(list(read_labels(path, rubric, on_bad_row=skipped.append))) == 1
    assert len(skipped) == 1


def test_a_file_of_messages_is_a_conversation_file(tmp_path: Path) -> None:
    assert sniff(lines(tmp_path / "c.jsonl", {"messages": MESSAGES})).content == "conversations"


def test_turns_are_viewed_without_copies() -> None:
    result = Conversation("c", tuple(Turn(role, text) for role, text in HELLO))
    assert [turn.content for turn in result.by("assistant")] == ["hi there"]
    assert len(result.up_to(0)) == 1 and len(result.up_to(None)) == 2


def test_a_wide_table_keeps_its_questions_among_other_columns(tmp_path: Path, rubric: Rubric) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("conversation, annotator ,score,Q0\nc0 ,b,1,3\n", encoding="utf-8")
    [label] = read_labels(path, rubric)
    assert (label.target.conversation, label.question, label.value) == ("c0", "Q0", 3)


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


@pytest.mark.parametrize("cell", [5, True, ["a", "b"], {"a": 1}, [{"x": 1}]])
def test_a_cell_that_is_neither_text_nor_messages_is_refused(tmp_path: Path, cell: Any) -> None:
    path = lines(tmp_path / "pairs.jsonl", {"id": "c", "prompt": "hello", "completion": cell})
    with pytest.raises(BadRow, match="line 1: a prompt or a response is a text or messages, got"):
        list(read(path))


def test_history_repeated_in_each_row_is_read_once(tmp_path: Path) -> None:
    later = [*MESSAGES, {"role": "user", "content": "bye"}]
    path = lines(
        tmp_path / "calls.jsonl",
        {"id": "c", "prompt": MESSAGES[:1], "completion": "hi there"},
        {"id": "c", "prompt": later, "completion": "see you"},
    )
    assert texts(only(path)) == [*HELLO, ("user", "bye"), ("assistant", "see you")]


def test_generations_of_one_trace_are_one_conversation(tmp_path: Path) -> None:
    common = {"traceId": "t1", "type": "GENERATION"}
    path = lines(
        tmp_path / "observations.jsonl",
        {**common, "id": "o2", "startTime": "2026-01-01T00:00:02Z", "input": [*MESSAGES, {"role": "user", "content": "bye"}],
         "output": {"role": "assistant", "content": "see you"}},
        {**common, "id": "o1", "startTime": "2026-01-01T00:00:01Z", "input": MESSAGES[:1], "output": MESSAGES[1]},
        {**common, "id": "o0", "type": "SPAN", "startTime": "2026-01-01T00:00:00Z", "input": {"x": 1}, "output": "other"},
    )  # fmt: skip
    conversation = only(path)
    assert conversation.id == "t1" and texts(conversation) == [*HELLO, ("user", "bye"), ("assistant", "see you")]


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


def test_a_plain_text_transcript_becomes_turns(tmp_path: Path) -> None:
    path = tmp_path / "calls.csv"
    path.write_text('id,transcript,score\nx,"Kunde: Wo ist es?\nUnd wann?\nBerater: Morgen.",70\n', encoding="utf-8")
    conversation = only(path)
    assert texts(conversation) == [("user", "Wo ist es?\nUnd wann?"), ("assistant", "Morgen.")]
    assert conversation.metadata["score"] == "70"
    path.write_text("id,transcript,score\nx,no speaker here,70\n", encoding="utf-8")
    with pytest.raises(BadRow, match="lines that begin with the speaker"):
        list(read(path))


def test_speakers_of_support_desks_are_users_and_assistants(tmp_path: Path) -> None:
    named = [("end-user", "a"), ("Operator", "b"), ("End User", "c"), ("chatbot", "d"), ("speaker_a", "e")]
    conversation = only(
        lines(tmp_path / "c.jsonl", {"messages": [{"speaker": who, "text": text} for who, text in named]})
    )
    assert [turn.role for turn in conversation.turns] == ["user", "assistant", "user", "assistant", "speaker_a"]


# --- ratings in columns and metadata --------------------------------------------------------------------------------------


def test_rows_of_several_raters_are_one_conversation_with_a_label_each(tmp_path: Path) -> None:
    path = tmp_path / "rated.csv"
    rows = ["q1,hello,hi there,4,ann", "q1,hello,hi there,4,ben", "q2,hello,hi again,2,ann"]
    path.write_text("id,question,answer,rating,rater\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert sniff(path).content != "labels"
    first, second = (record.conversation for record in read(path))
    assert texts(first) == HELLO and second.id == "q2"
    result = [rating_labels(each, ["rating"]) for each in (first, second)]
    assert [(label.target, label.annotator, label.value) for labels in result for label in labels] == [
        (Target("q1"), "ann", "4"), (Target("q1"), "ben", "4"), (Target("q2"), "ann", "2"),
    ]  # fmt: skip


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


CHAT = json.dumps({"messages": MESSAGES}).encode() + b"\n"


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
@pytest.mark.slow
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


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
@pytest.mark.attack
def test_a_broken_archive_is_a_one_line_error(tmp_path: Path, kind: str) -> None:
    content = {"jsonl": CHAT * 3, "json": b"[" + CHAT + b"]", "csv": b"prompt,response\nhello,hi\n"}[kind]
    packed, path = gzip.compress(content, mtime=0), tmp_path / f"a.{kind}.gz"
    path.write_bytes(packed)
    assert len(list(read(path))) == (3 if kind == "jsonl" else 1)
    broken = {
        "it ends too early": packed[:-8],  # without its checksum
        "CRC check failed": packed[:-8] + bytes(8),
        "Incorrect length": packed[:-4] + bytes(4),
        "invalid": packed[:10] + b"\xff" * 20 + packed[30:],
        "Not a gzipped file": packed + b"something else",
    }
    for reason, damaged in broken.items():
        path.write_bytes(damaged)
        with pytest.raises(BadInput, match=f"broken gzip file: .*{reason}") as caught:
            list(read(path))
        assert "\n" not in str(caught.value)


@pytest.mark.attack
def test_a_truncated_archive_of_one_large_object_is_refused(tmp_path: Path) -> None:
    """A list of rows in an object is read through a window, which ends with the list."""
    path, rows = tmp_path / "a.json.gz", 40_000
    chat = {"messages": [{"role": "user", "content": "Is it? " * 100}, {"role": "assistant", "content": "It is."}]}
    packed = gzip.compress(json.dumps({"data": [chat] * rows, "more": 1}).encode(), 1, mtime=0)
    path.write_bytes(packed)
    assert sum(1 for _ in read(path)) == rows
    path.write_bytes(packed[:-8])
    with pytest.raises(BadInput, match="a.json.gz is a broken gzip file: it ends too early"):
        for _ in read(path):
            pass


@pytest.mark.attack
def test_rows_and_columns_over_the_limits_are_refused(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"c{i}" for i in range(300_000)) + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match="more than 10,000 columns"):
        list(read(wide))
    path = tmp_path / "rows.jsonl"
    deep = b'{"messages": ' + b"[" * 120 + b"]" * 120 + b"}\n"
    crowded = b'{"messages": [' + b"[]," * 2_000_000 + b"[]]}\n"
    long = b'{"messages": "' + b"x" * (33 << 20) + b'"}\n'
    path.write_bytes(CHAT + deep + crowded + long + CHAT)
    bad: list[BadRow] = []
    assert [record.conversation.id for record in read(path, on_bad_row=bad.append)] == ["rows-1", "rows-5"]
    assert [(row.line, row.reason) for row in bad] == [
        (2, "nested deeper than 100 levels"),
        (3, "a row is longer than 8 MB or holds more than 2,000,000 values"),
        (4, "a row is longer than 8 MB or holds more than 2,000,000 values"),
    ]


def test_a_document_of_many_rows_may_be_longer_than_a_row(tmp_path: Path) -> None:
    path, inner = tmp_path / "export.json", {"messages": [{"role": "user", "content": "word " * 1_000_000}]}
    path.write_text(json.dumps({"a": inner, "b": inner}), encoding="utf-8")
    assert [record.conversation.id for record in read(path)] == ["a", "b"]
    path.write_text(json.dumps({"messages": inner["messages"] * 2}), encoding="utf-8")
    with pytest.raises(BadInput, match="longer than 8 MB"):
        list(read(path))


def test_a_wrapper_that_is_larger_than_any_row_is_read_row_by_row(tmp_path: Path) -> None:
    path, inner = tmp_path / "export.json", json.dumps({"messages": [{"role": "user", "content": "word " * 200_000}]})
    for lead in ('{"data": [', '{\n  "data": [\n'):
        path.write_text(lead + ",\n".join([inner] * 36) + '], "next": {"page": 2}}', encoding="utf-8")
        assert sum(1 for _ in read(path)) == 36


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names here")
@pytest.mark.attack
def test_pipes_and_devices_are_never_opened(tmp_path: Path) -> None:
    pipe, device = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path, kind in ((pipe, "a named pipe"), (device, "a device")):
        with pytest.raises(BadInput, match=f"is {kind}, not a file"):
            list(read(path))
