"""What a span or a log record of a model call says, under each convention that is in use.

GenAI (opentelemetry.io/docs/specs/semconv/gen-ai): messages are attributes of a span, or of its event
`gen_ai.client.inference.operation.details`; before 1.37 an event was one message (`gen_ai.user.message`,
`gen_ai.choice`). Events stand on the span or are log records. OpenInference writes
`llm.input_messages.0.message.content`, OpenLLMetry `gen_ai.prompt.0.content`, the AI SDK `ai.prompt.messages`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from accord.edges import parse_whole_number
from accord.formats.openai_messages import turn_from_message
from accord.formats.record import Fields, WrongShape, mapping_of
from accord.formats.trace_merging import Call, decoded, decoded_messages, loose_turns
from accord.values import Json, Turn

NO_CALL, NO_MESSAGES = "no model call", "a model call without its messages"
"""Why a span or a log record says nothing."""
NO_CONTENT = (
    "model calls came without their messages: is the capture of content on? "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, TRACELOOP_TRACE_CONTENT=true, "
    "OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS unset; or are they log records? Send those to /v1/logs"
)
"""What to say of it."""
SAYS_A_CALL = (
    "messages are read as OpenTelemetry's GenAI conventions, OpenInference, OpenLLMetry or the AI SDK write them"
)
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, RecursionError)
_INPUTS = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages")
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "ai.response.text")
_SYSTEM = "gen_ai.system_instructions"
_NUMBERED = (("llm.input_messages", "llm.output_messages"), ("gen_ai.prompt", "gen_ai.completion"))
"""What a list of messages is called that stands as attributes `NAME.0.role`, `NAME.0.content`, ..."""
_EVENT, _CHOICE = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message"), "gen_ai.choice"
_RETRIEVED = "retrieval.documents"
KIND = "openinference.span.kind"
MODELS = ("gen_ai.request.model", "llm.model_name", "gen_ai.response.model", "ai.model.id")
_CALLS = {"chat", "text_completion", "generate_content"}
_DEEPEST = 12
"""Dots of an attribute's name that are followed."""
_NOTHING: tuple[Json, ...] = (None, "", "[]", "null", [], {})
_TELLING = ("gen_ai.", "llm.", "ai.", "openinference.", "input.", "output.", "retrieval.")
"""What the attributes are called of which any is read."""
_MESSAGE_PARTS = ("role", "content", "parts", "tool_calls", "tool_call_id", "name", "id")


def is_silent(span: Fields) -> bool:
    """Whether nothing of a span is read, told by the names of its attributes alone, which takes a microsecond."""
    if span.get("events"):
        return False
    attributes = span.get("attributes") or ()
    names = attributes if isinstance(attributes, Mapping) else [entry["key"] for entry in attributes]
    return not any(name.startswith(_TELLING) for name in names)


def passed_over(span: Fields) -> str | None:
    """Why nothing is read from a span or a log record; `None` where something is."""
    attributes = attributes_of(span)
    if any(attributes.get(name) not in _NOTHING for name in (*_INPUTS, *_OUTPUTS)):
        return None  # most spans that say something say it so, and are not taken apart twice
    try:
        if any(call_of(span, attributes)) or documents_in(attributes):
            return None
    except (WrongShape, *MALFORMED):
        return None  # whoever reads it says what is wrong with it
    operation, kind = attributes.get("gen_ai.operation.name"), attributes.get(KIND)
    events = (str(event.get("name") or event.get("eventName")) for event in span.get("events") or ())
    is_call = operation in _CALLS or kind == "LLM" or any(_EVENT.fullmatch(e) or e == _CHOICE for e in events)
    named = operation is None and kind is None and any(attributes.get(name) for name in MODELS)
    return NO_MESSAGES if is_call or named else NO_CALL


def call_of(span: Fields, attributes: Mapping[str, Json]) -> Call:
    """What went into a model and came out, under the first convention that says anything.

    `attributes` are those of the span, as `attributes_of` has them.
    """
    sent: Sequence[Turn] = _named(attributes, _INPUTS, "user")
    received: Sequence[Turn] = _named(attributes, _OUTPUTS, "assistant")
    for before, after in _NUMBERED:
        sent = sent or _numbered(attributes, before, "user")
        received = received or _numbered(attributes, after, "assistant")
    asked, answered = _in_events(span.get("events") or ())
    sent, received = sent or asked, received or answered
    if attributes.get(KIND) == "LLM":
        sent, received = under_value(attributes, sent, received)
    rules = "\n".join(turn.content for turn in loose_turns(decoded(attributes.get(_SYSTEM)), "system"))
    return ((Turn("system", rules), *sent) if rules else sent), received


def under_value(attributes: Mapping[str, Json], sent: Sequence[Turn] = (), received: Sequence[Turn] = ()) -> Call:
    """OpenInference's `input.value` and `output.value`, where nothing better is said."""
    values = []
    for name in ("input", "output"):
        is_json = attributes.get(f"{name}.mime_type") == "application/json"
        values.append((decoded if is_json else decoded_messages)(attributes.get(f"{name}.value")))
    return sent or loose_turns(values[0], "user"), received or loose_turns(values[1], "assistant")


def _named(attributes: Mapping[str, Json], names: Sequence[str], role: str) -> tuple[Turn, ...]:
    """The messages under the first of some names; the AI SDK's are texts, which may look like JSON."""
    name = next((name for name in names if attributes.get(name)), "")
    return loose_turns((decoded if name.startswith("gen_ai.") else decoded_messages)(attributes.get(name)), role)


def _numbered(attributes: Mapping[str, Json], name: str, role: str) -> tuple[Turn, ...]:
    """The messages of a list that stands as numbered attributes."""
    return tuple(turn_from_message({"role": role, **_message(entry)}) for entry in _entries(attributes, name))


def _entries(attributes: Mapping[str, Json], name: str) -> list[Any]:
    """The list that stands as attributes `NAME.0.KEY`, `NAME.1.KEY`, ..., lists inside it likewise."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(f"{name}."):
            continue
        path = key.removeprefix(f"{name}.").split(".", _DEEPEST)
        at = tree
        for part in path[:-1]:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise WrongShape(f"the attribute {key!r} stands inside another one's value")
        at[path[-1]] = value
    found = _as_lists(tree)
    return found if isinstance(found, list) else []


def _as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    places = [(place, inner) for name, inner in value.items() if (place := parse_whole_number(name)) is not None]
    if places and len(places) == len(value):
        return [_as_lists(inner) for _, inner in sorted(places, key=itemgetter(0))]
    return {name: _as_lists(inner) for name, inner in value.items()}


def _message(entry: Any) -> Fields:
    """A message of OpenInference (`message.content`, `message.contents.0.message_content.text`) or of a chat API."""
    if not isinstance(entry, Mapping):
        raise WrongShape(f"a message is an object, got {type(entry).__name__}")
    inner = dict(entry.get("message", entry))
    parts = inner.pop("contents", None)
    if isinstance(parts, list):
        inner["content"] = [each.get("message_content", each) for each in parts]
    content = decoded(inner.get("content")) if str(inner.get("content", "")).startswith("[{") else None
    if isinstance(content, list) and all(isinstance(part, Mapping) and "type" in part for part in content):
        inner["content"] = content
    calls = inner.get("tool_calls")
    if isinstance(calls, list):
        inner["tool_calls"] = [each.get("tool_call", each) for each in calls]
    return {name: inner[name] for name in _MESSAGE_PARTS if inner.get(name) is not None}


def _in_events(events: Sequence[Fields]) -> Call:
    """The messages of events that are one each."""
    sent, received = list[Turn](), list[Turn]()
    for event in sorted(events, key=_time):
        attributes = plain_attributes(event.get("attributes"))
        name = str(
            event.get("name") or event.get("eventName") or event.get("event_name") or attributes.get("event.name")
        )
        said, kind = {**attributes, **_body(event)}, _EVENT.fullmatch(name)
        inner = decoded(said.get("gen_ai.event.content"))
        said |= mapping_of(inner)
        if kind is None and name != _CHOICE:
            continue
        whole = decoded(said.get("message"))
        message = _message(whole if isinstance(whole, Mapping) else said)
        if message.keys() & {"content", "parts", "tool_calls"}:
            role = "assistant" if kind is None else kind[1]
            (received if kind is None else sent).append(turn_from_message({"role": role, **message}))
    return sent, received


def _time(event: Fields) -> int:
    time = str(event.get("timeUnixNano") or event.get("time_unix_nano") or "")
    return int(time) if time.isascii() and time.isdigit() else 0


def documents_in(attributes: Mapping[str, Json]) -> list[Any]:
    """The documents that a retriever's span says it found."""
    return [entry.get("document", entry) for entry in _entries(attributes, _RETRIEVED) if isinstance(entry, Mapping)]


def attributes_of(span: Fields) -> dict[str, Json]:
    """A span's attributes as a plain mapping, those of its events included (messages may stand on either)."""
    if not span.get("events"):
        return plain_attributes(span.get("attributes"))
    merged: dict[str, Json] = {}
    for event in span.get("events") or ():
        body = _body(event)
        merged |= {name: value for name, value in body.items() if name.startswith("gen_ai.")}
        merged |= plain_attributes(event.get("attributes"))
    return merged | plain_attributes(span.get("attributes"))


def _body(event: Fields) -> dict[str, Json]:
    """What a log record says, where that is an object; the event of a span has attributes alone."""
    body = event.get("body")
    if isinstance(body, Mapping) and len(body) == 1 and next(iter(body)) in _TAGS:
        body = _otlp_value(body)
    found = decoded(body)
    return dict(mapping_of(found))


def plain_attributes(attributes: Any) -> dict[str, Json]:
    """Attributes as a mapping, also where they are OTLP's list of tagged values."""
    if isinstance(attributes, Mapping):
        return dict(attributes)
    return {
        entry["key"]: value["stringValue"] if "stringValue" in value and len(value) == 1 else _otlp_value(value)
        for entry, value in ((entry, entry.get("value", {})) for entry in attributes or ())
    }


_TAGS = {"stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"}


def _otlp_value(value: Mapping[str, Any]) -> Json:
    """OTLP's tagged union (`stringValue`, `arrayValue`, `kvlistValue`, ...) as a plain value."""
    [(kind, inner)] = list(value.items()) or [("stringValue", "")]
    if kind == "arrayValue":
        return [_otlp_value(entry) for entry in inner.get("values", ())]
    if kind == "kvlistValue":
        return {entry["key"]: _otlp_value(entry["value"]) for entry in inner.get("values", ())}
    return int(inner) if kind == "intValue" and isinstance(inner, str) else inner
