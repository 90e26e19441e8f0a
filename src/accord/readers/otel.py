"""OpenTelemetry GenAI spans as JSON lines: flat spans, or OTLP batches (`resourceSpans`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.conversation import Conversation, Turn
from accord.readers.history import Call, decoded, joined, loose_turns
from accord.readers.messages import checked_id
from accord.readers.record import Fields, Format, Record, WrongShape, formats

_CONVERSATION_KEYS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")
_INPUT, _OUTPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"


def _recognises(fields: Fields) -> bool:
    if "resourceSpans" in fields or "resource_spans" in fields:
        return True
    return "attributes" in fields and bool({"span_id", "spanId", "trace_id", "traceId"} & fields.keys())


def _split(fields: Fields) -> Sequence[Fields]:
    """The spans of an OTLP batch; a flat span is its own only one."""
    resources = fields.get("resourceSpans", fields.get("resource_spans"))
    if resources is None:
        return [fields]
    scopes = [each for resource in _listed(resources) for each in _inside(resource, "scopeSpans", "scope_spans")]
    return [span for scope in scopes for span in _inside(scope, "spans")]


def _inside(bundle: Any, *names: str) -> list[Any]:
    """What a bundle holds under the first of some names; one that is none stands for itself, to be complained of."""
    if not isinstance(bundle, Mapping):
        return [bundle]
    return _listed(next((bundle[name] for name in names if name in bundle), ()))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _attributes(span: Fields) -> dict[str, Any]:
    """A span's attributes as a plain mapping, those of its events included (messages may stand on either)."""
    merged: dict[str, Any] = {}
    for event in span.get("events") or ():
        merged |= _plain(event.get("attributes"))
    return merged | _plain(span.get("attributes"))


def _plain(attributes: Any) -> dict[str, Any]:
    if isinstance(attributes, Mapping):
        return dict(attributes)
    return {entry["key"]: _otlp_value(entry.get("value", {})) for entry in attributes or ()}


def _otlp_value(value: Mapping[str, Any]) -> Any:
    """OTLP's tagged union (`stringValue`, `arrayValue`, `kvlistValue`, ...) as a plain value."""
    [(kind, inner)] = list(value.items()) or [("stringValue", "")]
    if kind == "arrayValue":
        return [_otlp_value(entry) for entry in inner.get("values", ())]
    if kind == "kvlistValue":
        return {entry["key"]: _otlp_value(entry["value"]) for entry in inner.get("values", ())}
    return int(inner) if kind == "intValue" else inner


def _key(span: Fields) -> str | None:
    attributes = _attributes(span)
    named = next((attributes[key] for key in _CONVERSATION_KEYS if attributes.get(key)), None)
    return str(named or span.get("trace_id") or span.get("traceId") or "") or None


def _started(span: Fields) -> tuple[int, str]:
    """Start time for sorting: nanoseconds as OTLP writes them, or ISO text as SDK exporters do; unknown comes first."""
    keys = ("startTimeUnixNano", "start_time_unix_nano", "start_time")
    start = str(next((span[key] for key in keys if span.get(key) is not None), ""))
    return (int(start), "") if start.isascii() and start.isdigit() else (0, start)


def _id(span: Fields, *keys: str) -> str | None:
    return next((str(span[key]) for key in keys if span.get(key)), None)


def _call(attributes: Mapping[str, Any]) -> Call:
    sent = loose_turns(decoded(attributes.get(_INPUT)), "user")
    received = loose_turns(decoded(attributes.get(_OUTPUT)), "assistant")
    rules = "\n".join(turn.content for turn in loose_turns(decoded(attributes.get(_SYSTEM)), "system"))
    return ((Turn("system", rules), *sent) if rules else sent), received


def _convert(rows: Sequence[Fields], default_id: str) -> Record | None:
    speaking = [(span, _attributes(span)) for span in sorted(rows, key=_started)]
    speaking = [(span, found) for span, found in speaking if found.get(_INPUT) or found.get(_OUTPUT)]
    if not speaking:
        return None
    # An agent's span repeats what the model calls inside it say; the calls are nearer to what happened.
    parents = {_id(span, "parentSpanId", "parent_span_id", "parent_id") for span, _ in speaking}
    calls = [found for span, found in speaking if _id(span, "spanId", "span_id") not in parents]
    metadata: dict[str, Any] = {}
    for _, found in speaking:
        known = {"system": found.get("gen_ai.agent.name"), "model": found.get("gen_ai.request.model")}
        metadata |= {name: value for name, value in known.items() if value is not None}
    turns, _ = joined(_call(found) for found in calls)
    if not turns:
        raise WrongShape(f"no span of the conversation has a message in {_INPUT} or {_OUTPUT}")
    return Record(Conversation(checked_id(_key(rows[0]) or default_id), turns, (), metadata))


formats.register("otel")(Format(recognises=_recognises, convert=_convert, key=_key, split=_split))
