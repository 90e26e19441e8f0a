"""Parser of OTLP exports, in JSON or protobuf, into the spans that `accord.formats` reads.

Protobuf spans are converted one by one, without JSON. Of a span without messages (`formats.has_no_content`) only the
names of its attributes are read, because most spans of a collector are such spans.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from accord.edges import BadInput
from accord.formats import decoded_json, has_no_content
from accord.live.service.schemas import JSON, PROTOBUF, TRACES, Signal, media_type


def parse_export(body: bytes, content_type: str, signal: Signal) -> Any:
    """Return an export as JSON; its attributes may be mappings.

    Raises:
        BadInput: The body does not match its content type, or the content type is not supported.
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
        raise BadInput(f"the body is no OTLP export of {signal.name}") from None
    return _traces(request) if signal is TRACES else MessageToDict(request)


def _traces(request: Any) -> dict[str, Any]:
    """Return the spans of an export by resource."""
    return {
        TRACES.resources: [
            {
                "resource": {"attributes": _attributes(resource_spans.resource.attributes)},
                "scopeSpans": [
                    {"spans": [_span(span) for span in scope.spans]} for scope in resource_spans.scope_spans
                ],
            }
            for resource_spans in request.resource_spans
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
            {"name": event.name, "timeUnixNano": event.time_unix_nano, "attributes": _attributes(event.attributes)}
            for event in span.events
        ],
    }


def _attributes(entries: Iterable[Any]) -> dict[str, Any]:
    return {entry.key: _value(entry.value) for entry in entries}


def _value(value: Any) -> Any:
    """Return an OTLP value as a Python value; bytes are encoded in Base64, as in JSON."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(element) for element in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode("ascii")
    return "" if kind is None else getattr(value, kind)
