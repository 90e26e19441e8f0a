"""OpenTelemetry's spans and log records of model calls to conversations; what each says is told by `spans`."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from accord.formats.genai_spans import (
    KIND,
    MALFORMED,
    MODELS,
    attributes_of,
    call_of,
    documents_in,
    is_silent,
    passed_over,
    plain_attributes,
    under_value,
)
from accord.formats.openai_messages import checked_id, documents_from
from accord.formats.record import Fields, Format, Record, formats
from accord.formats.trace_merging import joined
from accord.values import Conversation

_BASE64 = re.compile(r"[A-Za-z0-9+/]{22}==|[A-Za-z0-9+/]{11}=")
"""Sixteen or eight bytes, the ids of traces and spans, which are 32 or 16 digits otherwise."""
_CONVERSATION_KEYS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")


def _recognises(fields: Fields) -> bool:
    if {"resourceSpans", "resource_spans", "resourceLogs", "resource_logs"} & fields.keys():
        return True
    return bool({"attributes", "eventName"} & fields.keys()) and bool(_IDS & fields.keys())


_IDS = {"span_id", "spanId", "trace_id", "traceId"}


def _split(fields: Fields) -> Sequence[Fields]:
    """The spans and log records of an OTLP batch, each with its resource; a flat one is its own only one.

    A span that says nothing is empty: most spans of a collector are calls of databases and servers.
    """
    for whole, scopes, parts in (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords")):
        resources = fields.get(whole, fields.get(_snake(whole)))
        if resources is not None:
            return [
                _taken_apart(each, known) if parts == "spans" else _with_resource(_of_record(each), known)
                for resource, known in ((resource, _known_of(resource)) for resource in _listed(resources))
                for scope in _inside(resource, scopes, _snake(scopes))
                for each in _inside(scope, parts, _snake(parts))
            ]
    return [_of_record(fields) if "body" in fields or "eventName" in fields else fields]


def _taken_apart(span: Any, resource: Any) -> Any:
    """A span with its attributes as a mapping, for all who look at them; empty where it says nothing."""
    if not isinstance(span, Mapping):
        return span
    attributes = span.get("attributes")
    try:
        if is_silent(span):
            return {}
        attributes = plain_attributes(attributes)
    except MALFORMED:
        pass  # whoever reads it says what is wrong with it
    found = {**span, "attributes": attributes}
    return {**found, "resource": resource} if resource else found


def _known_of(resource: Any) -> Any:
    """What is told of a resource, taken apart once for all of its spans."""
    known = resource.get("resource") if isinstance(resource, Mapping) else None
    try:
        return {**known, "attributes": plain_attributes(known.get("attributes"))} if known else None
    except MALFORMED:
        return known


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def _with_resource(span: Any, resource: Any) -> Any:
    return {**span, "resource": resource} if isinstance(span, Mapping) and resource else span


def _of_record(record: Any) -> Any:
    """A log record as the event of a span: of those that it names, it is the only thing that is told here."""
    if not isinstance(record, Mapping):
        return record
    names = ("timeUnixNano", "observedTimeUnixNano", "time_unix_nano", "timestamp")
    time = next((record[name] for name in names if record.get(name)), None)
    return {
        "traceId": _id(record, "trace_id", "traceId"), "spanId": _id(record, "span_id", "spanId"), "events": [record],
        "startTimeUnixNano": time, "resource": record.get("resource"), "is_log": True,
    }  # fmt: skip


def _inside(bundle: Any, *names: str) -> list[Any]:
    """What a bundle holds under the first of some names; one that is none stands for itself, to be complained of."""
    if not isinstance(bundle, Mapping):
        return [bundle]
    return _listed(next((bundle[name] for name in names if name in bundle), ()))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _key(span: Fields) -> str | None:
    attributes = attributes_of(span)
    named = next((attributes[key] for key in _CONVERSATION_KEYS if attributes.get(key)), None)
    return str(named) if named else _id(span, "trace_id", "traceId")


def _started(span: Fields) -> tuple[int, str]:
    """Start time for sorting: nanoseconds as OTLP writes them, or ISO text as SDK exporters do; unknown comes first."""
    keys = ("startTimeUnixNano", "start_time_unix_nano", "start_time")
    start = str(next((span[key] for key in keys if span.get(key) is not None), ""))
    return (int(start), "") if start.isascii() and start.isdigit() else (0, start)


def _id(span: Fields, *keys: str) -> str | None:
    """The id under the first of some keys; in base64, as protobuf's JSON has it, it is made hexadecimal, as in OTLP."""
    found = next((str(span[key]) for key in keys if span.get(key)), None)
    if found is None or not _BASE64.fullmatch(found):
        return found
    return base64.b64decode(found).hex()


def _service(span: Fields) -> str | None:
    """The service that a span's resource names; the name that an SDK puts where nobody gave one is none."""
    resource = span.get("resource")
    name = plain_attributes(resource.get("attributes")).get("service.name") if isinstance(resource, Mapping) else None
    return None if name is None or str(name).startswith("unknown_service") else str(name)


def _joined_records(rows: Sequence[Fields]) -> list[Fields]:
    """Spans in their order, the log records of one span together: each of them is a message."""
    found: list[Fields] = []
    places: dict[str, int] = {}
    for row in sorted(rows, key=_started):
        span = _id(row, "spanId", "span_id") if row.get("is_log") else None
        if span is not None and span in places:
            before = found[places[span]]
            found[places[span]] = {**before, "events": [*before["events"], *row["events"]]}
            continue
        if span is not None:
            places[span] = len(found)
        found.append(row)
    return found


def _convert(rows: Sequence[Fields], default_id: str) -> Record | None:
    spans = [(span, attributes_of(span)) for span in _joined_records(rows)]
    speaking = [(span, found, call) for span, found in spans if any(call := call_of(span, found))]
    if not speaking:  # an agent or a chain may say alone what went on inside it
        chains = [(span, found) for span, found in spans if _parent(span) is None and found.get(KIND) in _AROUND]
        speaking = [(span, found, call) for span, found in chains if any(call := under_value(found))]
    if not speaking:
        return None
    # An agent's span repeats what the model calls inside it say; the calls are nearer to what happened.
    parents = {_parent(span) for span, _, _ in speaking} - {None}
    calls = [call for span, _, call in speaking if _id(span, "spanId", "span_id") not in parents]
    metadata: dict[str, Any] = {}
    for span, found, _ in speaking:
        model = next((found[name] for name in MODELS if found.get(name)), None)
        system = found.get("gen_ai.agent.name") or _service(span) or metadata.get("system") or model
        metadata |= {name: value for name, value in {"system": system, "model": model}.items() if value is not None}
    turns, _ = joined(calls)
    documents = documents_from([each for _, found in spans for each in documents_in(found)])
    name = checked_id(_key(rows[0]) or default_id)
    return Record(Conversation(name, turns, tuple(dict.fromkeys(documents)), metadata))


_AROUND = {"AGENT", "CHAIN"}


def _parent(span: Fields) -> str | None:
    return _id(span, "parentSpanId", "parent_span_id", "parent_id")


formats.register("otel")(
    Format(recognises=_recognises, convert=_convert, key=_key, split=_split, passed_over=passed_over)
)
