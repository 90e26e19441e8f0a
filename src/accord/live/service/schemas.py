"""What goes over HTTP: the JSON Schema of messages and rows, what OpenAPI says of each route, and OTLP exports read.

The schema of a message is that of `Message`, so that what is published is what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NotRequired, TypedDict

from accord.edges import BadInput, MissingExtra
from accord.live.messages import adapter
from accord.values import Json, JsonSchema

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Signal:
    """What an OTLP export tells of.

    Attributes:
        name: Of its package in OTLP.
        resources: The key of its parts.
        rejected: How an answer counts those that could not be read.
    """

    name: str
    resources: str
    rejected: str

    def checked(self, export: Any) -> dict[str, Sequence[Any]]:
        """The export, if it is one.

        Raises:
            BadInput: It is no export of this.
        """
        parts = export.get(self.resources, export.get(_snake(self.resources), ())) if isinstance(export, dict) else None
        if not isinstance(parts, list | tuple):
            raise BadInput(f"an export of {self.name} has a list of {self.resources}")
        return {self.resources: parts}

    def message(self, end: str) -> Any:
        """A new message of OTLP: an export's `Request`, or its `Response`.

        Raises:
            MissingExtra: Its classes are not installed.
        """
        package = self.name.removesuffix("s") if self.name == "traces" else self.name
        try:
            module = import_module(f"opentelemetry.proto.collector.{package}.v1.{package}_service_pb2")
        except ImportError:
            raise MissingExtra("OTLP as protobuf", "serve") from None
        return getattr(module, f"Export{package.title()}Service{end}")()

    def answer(self, bad: int, why: str) -> bytes:
        """The response in protobuf."""
        response = self.message("Response")
        if bad:
            setattr(response.partial_success, _snake(self.rejected), bad)
            response.partial_success.error_message = why
        return bytes(response.SerializeToString())


TRACES = Signal("traces", "resourceSpans", "rejectedSpans")
LOGS = Signal("logs", "resourceLogs", "rejectedLogRecords")


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


BATCH = 1000
"""Messages that one request may have."""
_NUMBER: JsonSchema = {"type": ["number", "null"]}
_TEXT: JsonSchema = {"type": ["string", "null"]}
ROW: JsonSchema = {
    "type": "object",
    "title": "Row",
    "description": "What came of one message.",
    "required": ["status"],
    "properties": {
        "status": {
            "enum": ["scored", "unscored", "heard", "refused"],
            "description": "`heard`: no reply; `refused`: no message, see `error`.",
        },
        "id": {**_TEXT, "description": "Of the message."},
        "system": {**_TEXT, "description": "Of the message."},
        "conversation": {**_TEXT, "description": "Of the message."},
        "turn": {"type": ["integer", "null"], "description": "The reply's place in its conversation, from 0."},
        "annotator": {**_TEXT, "description": "Whom the score imitates; `population` is a person nobody has met."},
        "rated": {"type": ["boolean", "null"], "description": "People had rated it when the evaluator was fitted."},
        "in_training": {
            "type": ["boolean", "null"],
            "description": "The evaluator learned from this conversation; always false of live replies.",
        },
        "value": {**_NUMBER, "description": "The score: the mean of the distribution, in units of the scale."},
        "low": {**_NUMBER, "description": "Where the central 80 % of the distribution begin."},
        "high": {**_NUMBER, "description": "Where they end."},
        "band_low": {**_NUMBER, "description": "Where the conformal band begins, that holds as often as it says."},
        "band_high": {**_NUMBER, "description": "Where it ends."},
        "variance": {**_NUMBER, "description": "Of the distribution."},
        "entropy": {**_NUMBER, "description": "Of the distribution, in nats."},
        "distribution": {"type": ["object", "null"], "description": "The probability of each option."},
        "warning": {
            **_TEXT,
            "description": "Why the score deserves less trust than others, or what was not looked at.",
        },
        "attributions": {"type": ["object", "null"], "description": "What each metric added, the weightiest first."},
        "notes": {
            "type": ["object", "null"],
            "description": "What sources say beside the score, by name: `issues` with quotes, `net_sat`, `label`.",
        },
        "unscored": {**_TEXT, "description": "Why there is no score."},
        "signature": {**_TEXT, "description": "How the score was made."},
        "again": {"type": "boolean", "description": "The message had come before; nothing was changed."},
        "taken": {
            "type": "boolean",
            "description": "False where the request's time was over before it was the message's turn: send it again.",
        },
        "error": {**_TEXT, "description": "What is wrong with a refused message."},
    },
}
_ERROR: JsonSchema = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def message_schema() -> JsonSchema:
    """The JSON Schema of a request's body and of a row."""
    message: JsonSchema = adapter().json_schema()  # type: ignore[assignment]
    batch: JsonSchema = {"type": "object", "required": ["messages"], "additionalProperties": False,
             "properties": {"messages": {"type": "array", "maxItems": BATCH, "items": message}}}  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "accord serve",
        "$defs": {"Message": message, "Batch": batch, "Row": ROW},
        "anyOf": [{"$ref": "#/$defs/Message"}, {"$ref": "#/$defs/Batch"}],
    }


class Media(TypedDict):
    """A body of one content type."""

    schema: NotRequired[JsonSchema]
    examples: NotRequired[Mapping[str, Mapping[str, Json]]]


class Body(TypedDict):
    """A request's body, by content type."""

    required: bool
    content: Mapping[str, Media]


class Answer(TypedDict):
    """A response's body, by content type."""

    description: str
    content: Mapping[str, Media]


class Operation(TypedDict):
    """What OpenAPI says of a route: its body, and its responses by status."""

    requestBody: Body
    responses: Mapping[str, Answer]


def scores() -> Operation:
    """`POST /v1/scores` for OpenAPI."""
    defs = message_schema()["$defs"]
    rows: JsonSchema = {"type": "object", "properties": {"scores": {"type": "array", "items": ROW}}}
    said: dict[str, Json] = {"conversation": "chat-17", "role": "assistant", "content": "Yes, within 45 days."}
    reply: Json = {**said, "id": "m2"}
    examples: Mapping[str, dict[str, Json]] = {"one": {"value": reply}, "batch": {"value": {"messages": [reply]}}}
    body: Media = {"schema": {"anyOf": [defs["Message"], defs["Batch"]]}, "examples": examples}
    return {
        "requestBody": {"required": True, "content": {JSON: body}},
        "responses": {
            "200": _answer("A row, or `scores` with a row a message.", {"anyOf": [ROW, rows]}),
            "400": _answer("No JSON, or a batch that is none.", _ERROR),
            "401": _answer("No token, or another one.", _ERROR),
            "408": _answer("The request took too long to arrive.", _ERROR),
            "413": _answer("The request is too large.", _ERROR),
            "422": _answer("The one message is none.", ROW),
            "429": _answer("Too many wrong tokens came from this address; wait `Retry-After`.", _ERROR),
            "503": _answer("Too much waits, or nothing was done in time; send it again after `Retry-After`.", _ERROR),
        },
    }


def traces() -> Operation:
    """`POST /v1/traces` for OpenAPI."""
    kinds: Mapping[str, Media] = {JSON: {"schema": {"type": "object"}}, PROTOBUF: {}}
    answer = _answer("Taken in; spans that could not be read are counted in `partialSuccess`.", {"type": "object"})
    body: Body = {"required": True, "content": kinds}
    full = _answer("Too much waits; send it again after `Retry-After`.", _ERROR)
    return {"requestBody": body, "responses": {"200": answer, "429": full, "503": _answer("Send it again.", _ERROR)}}


def _answer(description: str, schema: JsonSchema) -> Answer:
    return {"description": description, "content": {JSON: {"schema": schema}}}
