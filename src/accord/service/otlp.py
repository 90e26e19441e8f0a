"""OpenTelemetry traces over HTTP (OTLP): the model calls of an export, as messages."""

from __future__ import annotations

import json
from typing import Any

from accord.errors import BadInput, MissingExtra

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def export_of(body: bytes, content_type: str) -> Any:
    """An export's `resourceSpans`, as JSON.

    Raises:
        BadInput: The body is not what its content type says, or of another type.
    """
    kind = media_type(content_type)
    if kind == JSON:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise BadInput("the body is no JSON") from None
    if kind != PROTOBUF:
        raise BadInput(f"content type {content_type!r}; allowed: {PROTOBUF}, {JSON}")
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise MissingExtra("OTLP as protobuf", "serve") from None
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise BadInput("the body is no export of traces") from None
    return MessageToDict(request)


def spans_of(export: Any) -> dict[str, Any]:
    """The export, if it is one.

    Raises:
        BadInput: It is no export of traces.
    """
    resources = export.get("resourceSpans", export.get("resource_spans", ())) if isinstance(export, dict) else None
    if not isinstance(resources, list | tuple):
        raise BadInput("an export of traces has a list of resourceSpans")
    return {"resourceSpans": resources}
