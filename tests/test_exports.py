"""OTLP exports as a collector sends them: what both encodings say is the same, and most spans say nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from accord.edges import BadInput
from accord.formats import NO_CALL, formats
from accord.live.messages import HistoryDeduplicator

pytest.importorskip("fastapi", reason="needs accord[serve]")
from accord.live.service.otlp import LOGS, TRACES, parse_export
from accord.live.service.schemas import JSON, PROTOBUF


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": tagged(value)}


def tagged(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(tagged, value))}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [attribute(*each) for each in value.items()]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def span(place: int, attributes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "traceId": f"{place // 3:032x}", "spanId": f"{place + 1:016x}", "startTimeUnixNano": str(1000 + place),
        "attributes": [attribute(*each) for each in attributes.items()], **more,
    }  # fmt: skip


def export() -> dict[str, Any]:
    """Model calls under several conventions, between spans of databases and servers."""
    asked, told = said("user", "Où est ma commande ? 📦"), said("assistant", "It was sent on Monday.")
    event = {
        "name": "gen_ai.choice", "timeUnixNano": "7",
        "attributes": [attribute("message", json.dumps({"content": "Hello."})), attribute("index", 0)],
    }  # fmt: skip
    spans = [
        span(0, {"http.request.method": "GET", "http.response.status_code": 200, "tags": ["a", 1, True]}),
        span(1, {"gen_ai.conversation.id": "c1", "gen_ai.input.messages": json.dumps([asked]),
                 "gen_ai.output.messages": json.dumps([told])}),
        span(2, {"db.system": "sql", "blob": b"\x00\xff"}),
        span(3, {"gen_ai.conversation.id": "c2", "gen_ai.input.messages": [asked], "gen_ai.output.messages": [told]}),
        span(4, {"session.id": "c3"}, events=[event]),
        span(5, {"openinference.span.kind": "LLM", "session.id": "c4", "input.value": "Hi", "output.value": "Hello."}),
        span(6, {"openinference.span.kind": "CHAIN", "session.id": "c5", "input.value": "Hi", "output.value": "Bye."}),
        span(7, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, parentSpanId=f"{1:016x}"),
    ]  # fmt: skip
    resource = {"attributes": [attribute("service.name", "shop"), attribute("process.pid", 7)]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}


def as_protobuf(export: Mapping[str, Any]) -> bytes:
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    from google.protobuf.json_format import ParseDict

    found = deepcopy(dict(export))
    for each in spans_of(found):
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in each:
                each[name] = base64.b64encode(bytes.fromhex(each[name])).decode()
    return bytes(ParseDict(found, service.ExportTraceServiceRequest()).SerializeToString())


def spans_of(export: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in export["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def heard(body: bytes, kind: str) -> tuple[list[Any], list[str], list[str]]:
    passed: list[str] = []
    unfolding = HistoryDeduplicator(on_skipped=passed.append)
    found, bad = unfolding.messages(TRACES.checked(parse_export(body, kind, TRACES)), "otlp", "otel")
    return found, bad, passed


def test_both_encodings_say_the_same() -> None:
    in_json = heard(json.dumps(export()).encode(), JSON)
    assert heard(as_protobuf(export()), PROTOBUF) == in_json
    found, bad, passed = in_json
    assert not bad and len(passed) == 4  # two calls of databases, a chain, a model call without its messages
    texts = {name: [m.content for m in found if m.conversation == name] for name in ("c1", "c2", "c3", "c4", "c5")}
    assert texts["c1"] == texts["c2"] == ["Où est ma commande ? 📦", "It was sent on Monday."]
    assert texts["c3"] == ["Hello."] and texts["c4"] == ["Hi", "Hello."] and texts["c5"] == ["Hi", "Bye."]
    assert {m.system for m in found} == {"shop"}


def test_a_span_that_says_nothing_is_empty_before_anyone_looks_into_it() -> None:
    reader = formats.get("otel")
    assert reader.split is not None and reader.skip_reason is not None
    parts = list(reader.split(export()))
    assert [not part for part in parts] == [True, False, True, False, False, False, False, False]
    assert reader.skip_reason(parts[0]) == NO_CALL and reader.convert([parts[0]], "x") is None
    assert parse_export(as_protobuf(export()), PROTOBUF, TRACES)["resourceSpans"][0]["scopeSpans"][0]["spans"][0] == {}


@pytest.mark.parametrize(
    "attributes",
    [
        7,
        "text",
        [7],
        [{"key": 7}],
        [{"key": "gen_ai.x", "value": {"a": 1, "b": 2}}],
        [{"key": "gen_ai.x", "value": None}],
    ],
)
def test_a_span_of_another_shape_costs_the_others_nothing(attributes: Any) -> None:
    broken = export()
    next(iter(spans_of(broken)))["attributes"] = attributes
    found, bad, _ = heard(json.dumps(broken).encode(), JSON)
    whole = heard(json.dumps(export()).encode(), JSON)[0]
    assert len(bad) == 1 and {m.conversation for m in found} == {m.conversation for m in whole}


@pytest.mark.parametrize("resource", [7, None, {"attributes": 7}, {"attributes": [{"key": 1}]}])
def test_a_resource_of_another_shape_is_no_end(resource: Any) -> None:
    broken = export()
    broken["resourceSpans"][0]["resource"] = resource
    found, bad, _ = heard(json.dumps(broken).encode(), JSON)
    assert len(found) + len(bad) >= 5  # a conversation is read, or told of


@pytest.mark.parametrize("number", ["NaN", "1e999", "1" * 400, '"\\ud800"'])
def test_what_the_faster_decoder_refuses_is_read_all_the_same(number: str) -> None:
    body = json.dumps(export()).replace('"shop"', number, 1).encode()
    assert len(heard(body, JSON)[0]) == len(heard(json.dumps(export()).encode(), JSON)[0])


def test_a_number_beyond_any_is_no_end() -> None:
    body = json.dumps(export()).replace('"200"', "1e999", 1).encode()
    assert heard(body, JSON)[0]


def test_what_is_no_export_is_refused() -> None:
    for body, kind in (
        (b"{", JSON),
        (b"[" * 10**5, JSON),
        (b"\xff\xfe", JSON),
        (b"\xff\xff", PROTOBUF),
        (b"{}", "text/plain"),
    ):
        with pytest.raises(BadInput):
            parse_export(body, kind, TRACES)
    with pytest.raises(BadInput):
        LOGS.checked(parse_export(b'{"resourceLogs": 7}', JSON, LOGS))


def test_what_is_taken_back_is_new_again_and_what_was_before_is_not() -> None:
    def turns(count: int) -> dict[str, Any]:
        history = [said("user" if place % 2 == 0 else "assistant", f"turn {place}") for place in range(count)]
        told = {"gen_ai.conversation.id": "c", "gen_ai.input.messages": json.dumps(history[:-1]),
                "gen_ai.output.messages": json.dumps(history[-1:])}  # fmt: skip
        return {"resourceSpans": [{"scopeSpans": [{"spans": [span(count, told)]}]}]}

    unfolding = HistoryDeduplicator()
    assert len(unfolding.messages(turns(4), "otlp", "otel")[0]) == 4
    before, counted = unfolding.state("c"), unfolding.memory.used
    for _ in range(3):
        assert [m.content for m in unfolding.messages(turns(6), "otlp", "otel")[0]] == ["turn 4", "turn 5"]
        unfolding.roll_back("c", before, unfolding.state("c"))
        assert unfolding.memory.used == counted
    after = unfolding.state("c")
    unfolding.messages(turns(6), "otlp", "otel")
    unfolding.roll_back("c", before, after)  # more was said since
    assert len(unfolding.messages(turns(6), "otlp", "otel")[0]) == 6
    unfolding.roll_back("new", None, None)
    assert unfolding.state("new") is None
