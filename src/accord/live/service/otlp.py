"""OTLP exports read: bytes to spans as `accord.formats` reads them, in JSON or protobuf.

Of protobuf the spans are taken from the parsed message one by one, without JSON between: of one without content
(`formats.has_no_content`) only the names of its attributes are read, which decides the rate of a collector.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from accord.edges import BadInput
from accord.formats import decoded_json, has_no_content
from accord.live.service.schemas import JSON, PROTOBUF, TRACES, Signal, media_type


def export_of(body: bytes, content_type: str, signal: Signal) -> Any:
    """An export as JSON; its attributes may be mappings.

    Raises:
        BadInput: The body is not what its content type says, or of another type.
    """
    kind = media_type(content_type)
    if kind == JSON:
        try:
            return decoded_json(body)
        except (ValueError, RecursionError):
            raise BadInput("the body is no JSON") from None
    if kind != PROTOBUF:
        raise BadInput(f"content type {content_type!r}; allowed: {PROTOBUF}, {JSON}")
    request = signal.message("Request")
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError

    try:
        request.ParseFromString(body)
    except DecodeError:
        raise BadInput(f"the body is no export of {signal.name}") from None
    return _traces(request) if signal is TRACES else MessageToDict(request)


def _traces(request: Any) -> dict[str, Any]:
    """The spans of an export by their resource."""
    return {
        TRACES.resources: [
            {
                "resource": {"attributes": _attributes(each.resource.attributes)},
                "scopeSpans": [{"spans": [_span(span) for span in scope.spans]} for scope in each.scope_spans],
            }
            for each in request.resource_spans
        ]
    }


def _span(span: Any) -> dict[str, Any]:
    if not span.events and has_no_content({"attributes": dict.fromkeys(entry.key for entry in span.attributes)}):
        return {}
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "startTimeUnixNano": span.start_time_unix_nano,
        "attributes": _attributes(span.attributes),
        "events": [
            {"name": each.name, "timeUnixNano": each.time_unix_nano, "attributes": _attributes(each.attributes)}
            for each in span.events
        ],
    }


def _attributes(entries: Iterable[Any]) -> dict[str, Any]:
    return {entry.key: _value(entry.value) for entry in entries}


def _value(value: Any) -> Any:
    """A tagged value as a plain one; bytes as JSON has them."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode("ascii")
    return "" if kind is None else getattr(value, kind)
