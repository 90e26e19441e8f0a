"""Traces to conversations: each call repeats the history before it, or holds only what is new; both are met."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accord.formats.messages import checked_id, turn_from_message
from accord.formats.record import Fields, Format, Record, WrongShape, formats
from accord.values import Conversation, Json, Turn

Call = tuple[Sequence[Turn], Sequence[Turn]]
"""What went into one call of a model, and what came out."""


def joined(calls: Iterable[Call]) -> tuple[tuple[Turn, ...], list[int]]:
    """One conversation from its calls in time order, and for each call the index of the last turn it led to.

    A call may repeat all that was said (its input replaces it), repeat the last input (a regenerated answer
    replaces the old one), repeat the end of it (a sliding window: only what is new is added), or repeat nothing.
    """
    turns: list[Turn] = []
    ends: list[int] = []
    last_sent: list[tuple[str, str]] = []
    for sent, received in calls:
        before, now = _spoken(turns), _spoken(sent)
        if now[: len(before)] == before or (last_sent and now == before[: len(now)] and now == last_sent):
            turns = [*sent, *received]
        else:
            known = {turn.content for turn in turns if turn.role == "system"}
            fresh = [turn for turn in sent if not (turn.role == "system" and turn.content in known)]
            repeated = _overlap(before, now)
            turns += [*fresh[len(fresh) - len(now) + repeated :], *received] if repeated else [*fresh, *received]
        last_sent = now
        ends.append(len(turns) - 1)
    return tuple(turns), ends


def _overlap(before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> int:
    """How many turns at the end of `before` are those at the beginning of `now`."""
    longest = min(len(before), len(now))
    return next((size for size in range(longest, 0, -1) if before[-size:] == now[:size]), 0)


def _spoken(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content.strip()) for turn in turns if turn.role != "system"]


def decoded(value: Any) -> Any:
    """The value inside JSON text, as span attributes hold it; a text that is no JSON stays a text."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def decoded_messages(value: Any) -> Any:
    """Messages inside JSON text, where it holds some; any other text may be what a person typed, and stays."""
    inner = decoded(value) if isinstance(value, str) and value[:1] in "[{" else value
    holds = inner if isinstance(inner, list) else [inner]
    looks = holds and all(isinstance(entry, dict) and _MESSAGE_KEYS & entry.keys() for entry in holds)
    return inner if looks else value


_MESSAGE_KEYS = {"role", "messages", "choices", "parts"}
_TEXT_KEYS = ("query", "question", "input", "prompt", "text", "message", "response", "answer", "output", "result")
_HISTORY_KEYS = ("chat_history", "history")


def loose_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """Turns from whatever a trace holds as input or output: messages, one message, a reply of a chat API, or a text.

    Raises:
        WrongShape: A list of messages that is none.
    """
    if value in (None, "", [], {}):
        return ()
    if isinstance(value, list):
        return tuple(turn_from_message(_with_role(message, role)) for message in value)
    if isinstance(value, dict):
        return _from_object(value, role)
    return (Turn(role, str(value)),)


def _from_object(value: dict[str, Any], role: str) -> tuple[Turn, ...]:
    if isinstance(value.get("choices"), list) and value["choices"]:
        return loose_turns(value["choices"][0].get("message"), role)
    if isinstance(value.get("messages"), list):
        return loose_turns(value["messages"], role)
    if "content" in value or "parts" in value:
        return (turn_from_message(_with_role(value, role)),)
    history: list[Any] = next((value[key] for key in _HISTORY_KEYS if isinstance(value.get(key), list)), [])
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str | list | dict)), None)
    if text is None:
        return (Turn(role, json.dumps(value, ensure_ascii=False)),)
    return (*loose_turns(history, role), *loose_turns(text, role))


def _with_role(message: Any, role: str) -> Any:
    if isinstance(message, str):
        return {"role": role, "content": message}
    return {"role": role, **message} if isinstance(message, dict) else message


_BASE64 = re.compile(r"[A-Za-z0-9+/]{22}==|[A-Za-z0-9+/]{11}=")
"""Sixteen or eight bytes, the ids of traces and spans, which are 32 or 16 digits otherwise."""
_CONVERSATION_KEYS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")
_INPUT, _OUTPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"


def _recognises(fields: Fields) -> bool:
    if "resourceSpans" in fields or "resource_spans" in fields:
        return True
    return "attributes" in fields and bool({"span_id", "spanId", "trace_id", "traceId"} & fields.keys())


def _split(fields: Fields) -> Sequence[Fields]:
    """The spans of an OTLP batch, each with the resource it belongs to; a flat span is its own only one."""
    resources = fields.get("resourceSpans", fields.get("resource_spans"))
    if resources is None:
        return [fields]
    return [
        {**span, "resource": resource["resource"]}
        if isinstance(span, Mapping) and isinstance(resource, Mapping) and resource.get("resource")
        else span
        for resource in _listed(resources)
        for scope in _inside(resource, "scopeSpans", "scope_spans")
        for span in _inside(scope, "spans")
    ]


def _inside(bundle: Any, *names: str) -> list[Any]:
    """What a bundle holds under the first of some names; one that is none stands for itself, to be complained of."""
    if not isinstance(bundle, Mapping):
        return [bundle]
    return _listed(next((bundle[name] for name in names if name in bundle), ()))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _attributes(span: Fields) -> dict[str, Json]:
    """A span's attributes as a plain mapping, those of its events included (messages may stand on either)."""
    merged: dict[str, Json] = {}
    for event in span.get("events") or ():
        merged |= _plain(event.get("attributes"))
    return merged | _plain(span.get("attributes"))


def _plain(attributes: Any) -> dict[str, Json]:
    if isinstance(attributes, Mapping):
        return dict(attributes)
    return {entry["key"]: _otlp_value(entry.get("value", {})) for entry in attributes or ()}


def _otlp_value(value: Mapping[str, Any]) -> Json:
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
    name = _plain(resource.get("attributes")).get("service.name") if isinstance(resource, Mapping) else None
    return None if name is None or str(name).startswith("unknown_service") else str(name)


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
    for span, found in speaking:
        model = found.get("gen_ai.request.model")
        system = found.get("gen_ai.agent.name") or _service(span) or metadata.get("system") or model
        metadata |= {name: value for name, value in {"system": system, "model": model}.items() if value is not None}
    turns, _ = joined(_call(found) for found in calls)
    if not turns:
        raise WrongShape(f"no span of the conversation has a message in {_INPUT} or {_OUTPUT}")
    return Record(Conversation(checked_id(_key(rows[0]) or default_id), turns, (), metadata))


formats.register("otel")(Format(recognises=_recognises, convert=_convert, key=_key, split=_split))
