"""Parser of OTLP exports, in JSON or protobuf, into the spans that `accord.formats` reads.

Protobuf spans are converted one by one, without JSON. Of a span without messages (`formats.has_no_content`) only the
names of its attributes are read, because most spans of a collector are such spans.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from accord.edges import BadInput, MissingExtra
from accord.formats import Fields, decoded_json, formats, has_no_content
from accord.live.messages import TRACEPARENT
from accord.live.service.schemas import JSON, PROTOBUF, media_type


@dataclass(frozen=True)
class Signal:
    """Kind of OTLP export.

    Attributes:
        name: Name of its OTLP package.
        resources: JSON key of the list of resources.
        rejected: JSON key of the number of rejected records in a response.
    """

    name: str
    resources: str
    rejected: str

    def checked(self, export: Any) -> dict[str, Sequence[Any]]:
        """Return an export.

        Raises:
            BadInput: The value is not an export of this signal.
        """
        parts = export.get(self.resources, export.get(_snake(self.resources), ())) if isinstance(export, dict) else None
        if not isinstance(parts, list | tuple):
            raise BadInput(f"an export of {self.name} has a list of {self.resources}")
        return {self.resources: parts}

    def message(self, end: str) -> Any:
        """Return a new protobuf message: the `Request` or the `Response` of an export.

        Raises:
            MissingExtra: The OTLP classes are not installed.
        """
        package = self.name.removesuffix("s") if self.name == "traces" else self.name
        try:
            module = import_module(f"opentelemetry.proto.collector.{package}.v1.{package}_service_pb2")
        except ImportError:
            raise MissingExtra("OTLP as protobuf", "serve") from None
        return getattr(module, f"Export{package.title()}Service{end}")()

    def answer(self, errors: int, reason: str) -> bytes:
        """Return the response as protobuf: the number of rejected records, and the first reason."""
        response = self.message("Response")
        if errors:
            setattr(response.partial_success, _snake(self.rejected), errors)
            response.partial_success.error_message = reason
        return bytes(response.SerializeToString())


TRACES = Signal("traces", "resourceSpans", "rejectedSpans")
LOGS = Signal("logs", "resourceLogs", "rejectedLogRecords")


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


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


def traceparents(spans: Iterable[Fields], name: str) -> dict[str, str]:
    """Return the trace context of the span that produced each reply, by the text of the reply.

    Args:
        spans: Spans, or log records with the span to which they belong, of one conversation.
        name: Id of the conversation.
    """
    reader, found = formats.get("otel"), dict[str, str]()
    listed = list(spans)
    parents = {span.get("parentSpanId") for span in listed}
    for span in sorted(listed, key=lambda span: span.get("spanId") in parents):  # model calls before their agents
        trace, own = str(span.get("traceId") or ""), str(span.get("spanId") or "")
        if not re.fullmatch(TRACEPARENT, header := f"00-{trace.lower()}-{own.lower()}-01"):
            continue
        try:
            record = reader.convert([span], name)
        except (BadInput, KeyError, TypeError, AttributeError, ValueError, RecursionError):
            continue  # reported by the reader of the whole conversation
        replies = [] if record is None else [turn for turn in record.conversation.turns if turn.role == "assistant"]
        if replies:
            found.setdefault(replies[-1].content, header)
    return found


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
