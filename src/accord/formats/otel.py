"""OpenTelemetry spans and log records of model calls, under the conventions in use.

- GenAI (opentelemetry.io/docs/specs/semconv/gen-ai): messages are attributes of a span, or of its event
  `gen_ai.client.inference.operation.details`. Before version 1.37 each event was one message (`gen_ai.user.message`,
  `gen_ai.choice`). Events belong to a span or are log records.
- OpenInference: `llm.input_messages.0.message.content`, `input.value`, `output.value`.
- OpenLLMetry: `gen_ai.prompt.0.content`.
- AI SDK: `ai.prompt.messages`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from accord.edges import parse_whole_number
from accord.formats.openai_messages import checked_id, documents_from, turns_from_message
from accord.formats.record import Fields, Format, Record, WrongShape, formats, mapping_of
from accord.formats.traces import Call, decoded, decoded_messages, host_ids_of, loose_turns, merged_turns
from accord.values import Conversation, Json, Turn

NO_CALL, NO_MESSAGES = "no model call", "a model call without its messages"
"""Reasons to skip a span or a log record."""
NO_CONTENT = (
    "model calls came without their messages: is the capture of content on? "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, TRACELOOP_TRACE_CONTENT=true, "
    "OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS unset; or are they log records? Send those to /v1/logs"
)
"""Hint for model calls without messages."""
SUPPORTED_CONVENTIONS = "supported conventions: OpenTelemetry GenAI, OpenInference, OpenLLMetry, AI SDK"
_MALFORMED = (KeyError, TypeError, AttributeError, ValueError, RecursionError)
_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "ai.response.text")
_SYSTEM = "gen_ai.system_instructions"
_NUMBERED = (("llm.input_messages", "llm.output_messages"), ("gen_ai.prompt", "gen_ai.completion"))
"""Names of message lists in numbered attributes: `NAME.0.role`, `NAME.0.content`, ..."""
_EVENT, _CHOICE = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message"), "gen_ai.choice"
_RETRIEVED = "retrieval.documents"
_KIND = "openinference.span.kind"
_MODELS = ("gen_ai.request.model", "llm.model_name", "gen_ai.response.model", "ai.model.id")
_CALLS = {"chat", "text_completion", "generate_content"}
_DEEPEST = 12
"""Maximum number of dots in an attribute name that are followed."""
_LAST_TIME = 10**19
"""Nanoseconds of the year 2286; later times are invalid."""
_EMPTY: tuple[Json, ...] = (None, "", "[]", "null", [], {})
_PREFIXES = ("gen_ai.", "llm.", "ai.", "openinference.", "input.", "output.", "retrieval.")
"""Prefixes of the attributes that are read."""
_MESSAGE_PARTS = ("role", "content", "parts", "tool_calls", "tool_call_id", "name", "id")


def has_no_content(span: Fields) -> bool:
    """Return True if a span has no attribute that is read. Looks at names only, which takes a microsecond."""
    if span.get("events"):
        return False
    attributes = span.get("attributes") or ()
    names = attributes if isinstance(attributes, Mapping) else [entry["key"] for entry in attributes]
    return not any(name.startswith(_PREFIXES) for name in names)


def _ignored(span: Fields) -> str | None:
    """Return the reason to skip a span or a log record, or `None` to read it."""
    attributes = attributes_of(span)
    if any(attributes.get(name) not in _EMPTY for name in (*_INPUTS, *_OUTPUTS)):
        return None  # the usual case, without parsing the messages twice
    try:
        if any(call_of(span, attributes)) or documents_in(attributes):
            return None
    except (WrongShape, *_MALFORMED):
        return None  # the conversion reports the error
    return NO_MESSAGES if _is_call(span, attributes) else NO_CALL


def _is_call(span: Fields, attributes: Mapping[str, Json]) -> bool:
    """Return True for a model call: by its operation, its kind or its events, else by the name of a model."""
    operation, kind = attributes.get("gen_ai.operation.name"), attributes.get(_KIND)
    events = (str(event.get("name") or event.get("eventName")) for event in span.get("events") or ())
    if operation in _CALLS or kind == "LLM" or any(_EVENT.fullmatch(name) or name == _CHOICE for name in events):
        return True
    return operation is None and kind is None and any(map(attributes.get, _MODELS))


def call_of(span: Fields, attributes: Mapping[str, Json]) -> Call:
    """Return the input and output of a model call, under the first convention that has any.

    Args:
        span: The span, for its events.
        attributes: Attributes of the span and its events (`attributes_of`).
    """
    sent: Sequence[Turn] = _named(attributes, _INPUTS, "user")
    received: Sequence[Turn] = _named(attributes, _OUTPUTS, "assistant")
    for before, after in _NUMBERED:
        sent = sent or _numbered(attributes, before, "user")
        received = received or _numbered(attributes, after, "assistant")
    event_input, event_output = _event_messages(span.get("events") or ())
    sent, received = sent or event_input, received or event_output
    if attributes.get(_KIND) == "LLM":
        sent, received = _value_messages(attributes, sent, received)
    rules = "\n".join(turn.content for turn in loose_turns(decoded(attributes.get(_SYSTEM)), "system"))
    return ((Turn("system", rules), *sent) if rules else sent), received


def _value_messages(attributes: Mapping[str, Json], sent: Sequence[Turn] = (), received: Sequence[Turn] = ()) -> Call:
    """Fill a missing input or output from OpenInference's `input.value` and `output.value`."""
    values = []
    for name in ("input", "output"):
        is_json = attributes.get(f"{name}.mime_type") == "application/json"
        values.append((decoded if is_json else decoded_messages)(attributes.get(f"{name}.value")))
    return sent or loose_turns(values[0], "user"), received or loose_turns(values[1], "assistant")


def _named(attributes: Mapping[str, Json], names: Sequence[str], role: str) -> tuple[Turn, ...]:
    """Return the messages of the first attribute that is set; texts of the AI SDK may look like JSON."""
    name = next((name for name in names if attributes.get(name)), "")
    return loose_turns((decoded if name.startswith("gen_ai.") else decoded_messages)(attributes.get(name)), role)


def _numbered(attributes: Mapping[str, Json], name: str, role: str) -> tuple[Turn, ...]:
    """Return the messages of numbered attributes."""
    messages = ({"role": role, **_message(entry)} for entry in _entries(attributes, name))
    return tuple(turn for message in messages for turn in turns_from_message(message))


def _entries(attributes: Mapping[str, Json], name: str) -> list[Any]:
    """Return the list in the attributes `NAME.0.KEY`, `NAME.1.KEY`, ..., with nested lists."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(f"{name}."):
            continue
        path = key.removeprefix(f"{name}.").split(".", _DEEPEST)
        node = tree
        for part in path[:-1]:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise WrongShape(f"the attribute {key!r} is nested in an attribute that has a value")
        node[path[-1]] = value
    entries = _as_lists(tree)
    return entries if isinstance(entries, list) else []


def _as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    places = [(place, inner) for name, inner in value.items() if (place := parse_whole_number(name)) is not None]
    if places and len(places) == len(value):
        return [_as_lists(inner) for _, inner in sorted(places, key=itemgetter(0))]
    return {name: _as_lists(inner) for name, inner in value.items()}


def _message(entry: Any) -> Fields:
    """Return a chat message from OpenInference (`message.content`, `message.contents`) or from a chat API."""
    if not isinstance(entry, Mapping):
        raise WrongShape(f"a message is an object, got {type(entry).__name__}")
    inner = dict(entry.get("message", entry))
    parts = inner.pop("contents", None)
    if isinstance(parts, list):
        inner["content"] = [part.get("message_content", part) for part in parts]
    content = decoded(inner.get("content")) if str(inner.get("content", "")).startswith("[{") else None
    if isinstance(content, list) and all(isinstance(part, Mapping) and "type" in part for part in content):
        inner["content"] = content
    calls = inner.get("tool_calls")
    if isinstance(calls, list):
        inner["tool_calls"] = [call.get("tool_call", call) for call in calls]
    return {name: inner[name] for name in _MESSAGE_PARTS if inner.get(name) is not None}


def _event_messages(events: Sequence[Fields]) -> Call:
    """Return input and output from events that are one message each."""
    sent, received = list[Turn](), list[Turn]()
    for event in sorted(events, key=_time):
        attributes = plain_attributes(event.get("attributes"))
        name = str(
            event.get("name") or event.get("eventName") or event.get("event_name") or attributes.get("event.name")
        )
        fields, kind = {**attributes, **_body(event)}, _EVENT.fullmatch(name)
        fields |= mapping_of(decoded(fields.get("gen_ai.event.content")))
        if kind is None and name != _CHOICE:
            continue
        whole = decoded(fields.get("message"))
        message = _message(whole if isinstance(whole, Mapping) else fields)
        if message.keys() & {"content", "parts", "tool_calls"}:
            role = "assistant" if kind is None else kind[1]
            (received if kind is None else sent).extend(turns_from_message({"role": role, **message}))
    return sent, received


def _time(event: Fields) -> int:
    time = str(event.get("timeUnixNano") or event.get("time_unix_nano") or "")
    return int(time) if time.isascii() and time.isdigit() else 0


def documents_in(attributes: Mapping[str, Json]) -> list[Any]:
    """Return the documents of a retriever's span."""
    return [entry.get("document", entry) for entry in _entries(attributes, _RETRIEVED) if isinstance(entry, Mapping)]


def attributes_of(span: Fields) -> dict[str, Json]:
    """Return the attributes of a span and its events as a plain mapping; messages may be on either."""
    if not span.get("events"):
        return plain_attributes(span.get("attributes"))
    merged: dict[str, Json] = {}
    for event in span.get("events") or ():
        body = _body(event)
        merged |= {name: value for name, value in body.items() if name.startswith("gen_ai.")}
        merged |= plain_attributes(event.get("attributes"))
    return merged | plain_attributes(span.get("attributes"))


def _body(event: Fields) -> dict[str, Json]:
    """Return the body of a log record if it is an object; events of spans have only attributes."""
    body = event.get("body")
    if isinstance(body, Mapping) and len(body) == 1 and next(iter(body)) in _TAGS:
        body = _otlp_value(body)
    return dict(mapping_of(decoded(body)))


def plain_attributes(attributes: Any) -> dict[str, Json]:
    """Return attributes as a plain mapping, also from OTLP's list of tagged values."""
    if isinstance(attributes, Mapping):
        return dict(attributes)
    return {
        entry["key"]: value["stringValue"] if "stringValue" in value and len(value) == 1 else _otlp_value(value)
        for entry, value in ((entry, entry.get("value", {})) for entry in attributes or ())
    }


_TAGS = {"stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"}


def _otlp_value(value: Mapping[str, Any]) -> Json:
    """Convert OTLP's tagged union (`stringValue`, `arrayValue`, `kvlistValue`, ...) to a plain value."""
    [(kind, inner)] = list(value.items()) or [("stringValue", "")]
    if kind == "arrayValue":
        return [_otlp_value(entry) for entry in inner.get("values", ())]
    if kind == "kvlistValue":
        return {entry["key"]: _otlp_value(entry["value"]) for entry in inner.get("values", ())}
    return int(inner) if kind == "intValue" and isinstance(inner, str) else inner


# --- batches, sessions, conversations -------------------------------------------------------------------------------

_BASE64 = re.compile(r"[A-Za-z0-9+/]{22}==|[A-Za-z0-9+/]{11}=")
"""Trace and span ids in base64: 16 or 8 bytes, usually written as 32 or 16 hexadecimal digits."""
_CONVERSATION_KEYS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")


def _is_otel(fields: Fields) -> bool:
    if {"resourceSpans", "resource_spans", "resourceLogs", "resource_logs"} & fields.keys():
        return True
    return bool({"attributes", "eventName"} & fields.keys()) and bool(_IDS & fields.keys())


_IDS = {"span_id", "spanId", "trace_id", "traceId"}


def _split(fields: Fields) -> Sequence[Fields]:
    """Split an OTLP batch into its spans and log records, each with its resource.

    Spans without content, such as database and server calls, become empty rows.
    """
    for whole, scopes, parts in (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords")):
        resources = fields.get(whole, fields.get(_snake(whole)))
        if resources is not None:
            return [
                _plain_span(part, plain) if parts == "spans" else _with_resource(_record_span(part), plain)
                for resource, plain in ((resource, _plain_resource(resource)) for resource in _listed(resources))
                for scope in _children(resource, scopes, _snake(scopes))
                for part in _children(scope, parts, _snake(parts))
            ]
    return [_record_span(fields) if "body" in fields or "eventName" in fields else fields]


def _plain_span(span: Any, resource: Any) -> Any:
    """Return a span with plain attributes, or an empty row if it has no content."""
    if not isinstance(span, Mapping):
        return span
    attributes = span.get("attributes")
    try:
        if has_no_content(span):
            return {}
        attributes = plain_attributes(attributes)
    except _MALFORMED:
        pass  # the conversion reports the error
    return _with_resource({**span, "attributes": attributes}, resource)


def _plain_resource(resource: Any) -> Any:
    """Return a resource with plain attributes, converted once for all of its spans."""
    details = resource.get("resource") if isinstance(resource, Mapping) else None
    try:
        return {**details, "attributes": plain_attributes(details.get("attributes"))} if details else None
    except _MALFORMED:
        return details


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def _with_resource(span: Any, resource: Any) -> Any:
    return {**span, "resource": resource} if isinstance(span, Mapping) and resource else span


def _record_span(record: Any) -> Any:
    """Return a span with a log record as its only event."""
    if not isinstance(record, Mapping):
        return record
    names = ("timeUnixNano", "observedTimeUnixNano", "time_unix_nano", "timestamp")
    time = next((record[name] for name in names if record.get(name)), None)
    return {
        "traceId": _id(record, "trace_id", "traceId"), "spanId": _id(record, "span_id", "spanId"), "events": [record],
        "startTimeUnixNano": time, "resource": record.get("resource"), "is_log": True,
    }  # fmt: skip


def _children(bundle: Any, *names: str) -> list[Any]:
    """Return the children of a bundle under the first name present; an invalid bundle is returned for its error."""
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
    """Return the start time as a sort key: nanoseconds (OTLP) or ISO text (SDK exporters); unknown comes first."""
    keys = ("startTimeUnixNano", "start_time_unix_nano", "start_time")
    start = str(next((span[key] for key in keys if span.get(key) is not None), ""))
    return (int(start), "") if start.isascii() and start.isdigit() else (0, start)


def _id(span: Fields, *keys: str) -> str | None:
    """Return the id under the first key present; base64 of protobuf's JSON becomes hexadecimal, as in OTLP."""
    id_ = next((str(span[key]) for key in keys if span.get(key)), None)
    return base64.b64decode(id_).hex() if id_ is not None and _BASE64.fullmatch(id_) else id_


def _service(span: Fields) -> str | None:
    """Return the service name of a span's resource; `None` for the placeholder of an SDK."""
    resource = span.get("resource")
    name = plain_attributes(resource.get("attributes")).get("service.name") if isinstance(resource, Mapping) else None
    return None if name is None or str(name).startswith("unknown_service") else str(name)


def _version(span: Fields) -> str | None:
    """Return the version of the agent of a span, or of the service of its resource."""
    resource = span.get("resource")
    named = plain_attributes(resource.get("attributes")) if isinstance(resource, Mapping) else {}
    version = attributes_of(span).get("gen_ai.agent.version") or named.get("service.version")
    return None if version in (None, "") else str(version)


def _merged_records(rows: Sequence[Fields]) -> list[Fields]:
    """Return spans by start time, with all log records of one span merged, since each is one message."""
    spans: list[Fields] = []
    positions: dict[str, int] = {}
    for row in sorted(rows, key=_started):
        span = _id(row, "spanId", "span_id") if row.get("is_log") else None
        if span is not None and span in positions:
            before = spans[positions[span]]
            spans[positions[span]] = {**before, "events": [*before["events"], *row["events"]]}
            continue
        if span is not None:
            positions[span] = len(spans)
        spans.append(row)
    return spans


def _convert(rows: Sequence[Fields], default_id: str) -> Record | None:
    """Convert the OpenTelemetry spans and log records of a conversation."""
    spans = [(span, attributes_of(span)) for span in _merged_records(rows)]
    called = [(span, attributes, call) for span, attributes in spans if any(call := call_of(span, attributes))]
    called = called or list(_outer_calls(spans))
    if not called:
        return None
    # An agent's span repeats the messages of its model calls.
    parents = {_parent(span) for span, _, _ in called} - {None}
    spoken = [(span, call) for span, _, call in called if _id(span, "spanId", "span_id") not in parents]
    turns, ends = merged_turns([call for _, call in spoken])
    documents = documents_from([document for _, attributes in spans for document in documents_in(attributes)])
    name = checked_id(_key(rows[0]) or default_id)
    metadata = _system_and_model((span, attributes) for span, attributes, _ in called)
    metadata |= _host_ids(rows[0], [span for span, _ in spoken], ends)
    return Record(Conversation(name, turns, tuple(dict.fromkeys(documents)), metadata))


def _host_ids(first: Fields, spans: Sequence[Fields], ends: Sequence[int]) -> dict[str, Any]:
    """Return the ids of session, traces and spans as metadata."""
    attributes = attributes_of(first)
    session = next((str(attributes[key]) for key in _CONVERSATION_KEYS if attributes.get(key)), None)
    traces, ids = (
        [_id(span, "trace_id", "traceId") for span in spans],
        [_id(span, "spanId", "span_id") for span in spans],
    )
    nanoseconds, text = _started(spans[0]) if spans else (0, "")
    time = datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat() if 0 < nanoseconds < _LAST_TIME else text
    return host_ids_of(session, traces, ends, time or None, ids)


_OUTER_KINDS = {"AGENT", "CHAIN"}
_Attributed = tuple[Fields, dict[str, Json]]
"""A span with its attributes."""


def _outer_calls(spans: Iterable[_Attributed]) -> Iterator[tuple[Fields, dict[str, Json], Call]]:
    """Yield the agents and chains around all other spans with the messages that they hold, if any."""
    for span, attributes in spans:
        if _parent(span) is None and attributes.get(_KIND) in _OUTER_KINDS and any(call := _value_messages(attributes)):
            yield span, attributes, call


def _system_and_model(spans: Iterable[_Attributed]) -> dict[str, Any]:
    """Return the last system, model and version that spans name; the first model is the system if none is named."""
    metadata: dict[str, Any] = {}
    for span, attributes in spans:
        model = next((attributes[name] for name in _MODELS if attributes.get(name)), None)
        system = attributes.get("gen_ai.agent.name") or _service(span) or metadata.get("system") or model
        named = {"system": system, "model": model, "version": _version(span)}
        metadata |= {name: value for name, value in named.items() if value is not None}
    return metadata


def _parent(span: Fields) -> str | None:
    return _id(span, "parentSpanId", "parent_span_id", "parent_id")


formats.register("otel")(Format(matches=_is_otel, convert=_convert, key=_key, split=_split, skip_reason=_ignored))
