"""JSON Schema of messages and rows, and OpenAPI description of each route.

The schema of a message is generated from `Message`, so that the published schema matches the parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

from accord.live.messages import adapter
from accord.values import JsonSchema

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def media_type(content_type: str) -> str:
    """Return a content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


MAX_BATCH = 1000
"""Maximum number of messages of a request."""
_NUMBER: JsonSchema = {"type": ["number", "null"]}
_TEXT: JsonSchema = {"type": ["string", "null"]}
ROW: JsonSchema = {
    "type": "object",
    "title": "Row",
    "description": "Result of one message.",
    "required": ["status"],
    "properties": {
        "status": {
            "enum": ["scored", "unscored", "heard", "refused"],
            "description": "`heard`: the message is not a reply; `refused`: the message is invalid, see `error`.",
        },
        "id": {**_TEXT, "description": "As in the message."},
        "system": {**_TEXT, "description": "As in the message."},
        "conversation": {**_TEXT, "description": "As in the message."},
        "turn": {"type": ["integer", "null"], "description": "Position of the reply in its conversation, from 0."},
        "version": {**_TEXT, "description": "Version of the assistant, if the metadata of the conversation name it."},
        "annotator": {**_TEXT, "description": "Annotator whose rating is predicted; `population` is a new annotator."},
        "rated": {
            "type": ["boolean", "null"],
            "description": "True if annotators had rated the reply before the fit.",
        },
        "in_training": {
            "type": ["boolean", "null"],
            "description": "True if the evaluator learned from this conversation; always false for live replies.",
        },
        "value": {**_NUMBER, "description": "Score: mean of the distribution, in units of the scale."},
        "low": {**_NUMBER, "description": "Lower end of the 80% interval, from the distribution."},
        "high": {**_NUMBER, "description": "Upper end of the 80% interval, from the distribution."},
        "band_low": {**_NUMBER, "description": "Lower end of the 90% band (conformal; `coverage` sets the share)."},
        "band_high": {**_NUMBER, "description": "Upper end of the 90% band."},
        "variance": {**_NUMBER, "description": "Variance of the distribution."},
        "entropy": {**_NUMBER, "description": "Entropy of the distribution, in nats."},
        "distribution": {"type": ["object", "null"], "description": "Probability of each option."},
        "warning": {
            **_TEXT,
            "description": "Reason why the score is less reliable, or part of the input that was not used.",
        },
        "attributions": {"type": ["object", "null"], "description": "Contribution of each metric, largest first."},
        "notes": {
            "type": ["object", "null"],
            "description": "Further results of sources, by name: `issues` with quotes, `net_sat`, `call`.",
        },
        "unscored": {**_TEXT, "description": "Reason why there is no score."},
        "signature": {**_TEXT, "description": "Signature of the evaluator."},
        "again": {"type": "boolean", "description": "True for a repeated message, which changes nothing."},
        "taken": {
            "type": "boolean",
            "description": "False if the request timed out before the message was scored; send it again.",
        },
        "error": {**_TEXT, "description": "Error of a refused message."},
    },
}
_CHAT_MESSAGES: JsonSchema = {
    "type": "array", "minItems": 1, "maxItems": MAX_BATCH,
    "items": {"type": "object", "required": ["role"], "properties": {
        "role": {"type": "string"}, "content": {"type": ["string", "array", "null"]},
    }},
}  # fmt: skip
CONVERSATION: JsonSchema = {
    "title": "Conversation",
    "description": "A whole conversation: chat messages, or a request or response body of the chat completions API.",
    "anyOf": [
        _CHAT_MESSAGES,
        {"type": "object", "required": ["messages"], "properties": {
            "messages": _CHAT_MESSAGES,
            "conversation": {**_TEXT, "description": "Id of the conversation; without one, a digest of the content."},
            "model": {**_TEXT, "description": "Name of the assistant, read as its `system`."},
        }},
        {"type": "object", "required": ["choices"], "properties": {"choices": {"type": "array"}}},
        {"type": "object", "required": ["request", "response"], "properties": {
            "request": {"type": "object"}, "response": {"type": "object"},
        }},
    ],
}  # fmt: skip
_ERROR: JsonSchema = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def message_schema() -> JsonSchema:
    """Return the JSON Schema of the request body and of a row."""
    message: JsonSchema = adapter().json_schema()
    batch: JsonSchema = {"type": "object", "required": ["messages"], "additionalProperties": False,
             "properties": {"messages": {"type": "array", "maxItems": MAX_BATCH, "items": message}}}  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "accord serve",
        "$defs": {"Message": message, "Batch": batch, "Conversation": CONVERSATION, "Row": ROW},
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in ("Message", "Batch", "Conversation")],
    }


def scores() -> dict[str, Any]:
    """Return the OpenAPI description of `POST /v1/scores`."""
    defs = message_schema()["$defs"]
    rows = {"type": "object", "properties": {"scores": {"type": "array", "items": ROW}}}
    message = {"conversation": "chat-17", "role": "assistant", "content": "Yes, within 45 days."}
    reply = {**message, "id": "m2"}
    examples: dict[str, Any] = {"one": {"value": reply}, "batch": {"value": {"messages": [reply]}}}
    chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes, within 45 days."}]
    examples["conversation"] = {"value": {"conversation": "chat-17", "model": "bot-1.4", "messages": chat}}
    body = {"schema": {"anyOf": [defs[name] for name in ("Message", "Batch", "Conversation")]}, "examples": examples}
    return {
        "requestBody": {"required": True, "content": {JSON: body}},
        "responses": {
            "200": _response("A row, or `scores` with one row per message.", {"anyOf": [ROW, rows]}),
            "400": _response("The body is not JSON or not a valid batch.", _ERROR),
            "401": _response("The token is missing or wrong.", _ERROR),
            "408": _response("The request took too long to arrive.", _ERROR),
            "413": _response("The request is too large.", _ERROR),
            "422": _response("The message is invalid, or every message of a batch.", {"anyOf": [ROW, _ERROR]}),
            "429": _response("Too many wrong tokens from this address; wait for `Retry-After`.", _ERROR),
            "503": _response("Too many messages wait, or a timeout; send it again after `Retry-After`.", _ERROR),
        },
    }


def systemone() -> dict[str, Any]:
    """Return the OpenAPI description of `POST /v1/systemone`."""
    levels = ["1: Bad", "2", "3", "4: Good"]
    question = {"type": "score", "instructions": "How good was it?", "criteria": levels}
    state = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes, within 45 days."}]
    return _decision("state", {"model": "accord", "state": state, "questions": {"overall": question}}, "object")


def decisions() -> dict[str, Any]:
    """Return the OpenAPI description of `POST /v1/decisions`."""
    levels = [{"label": "1"}, {"label": "2"}, {"label": "3"}, {"label": "4"}]
    question = {"type": "score", "name": "overall", "instructions": "How good was it?", "levels": levels}
    return _decision("input", {"model": "accord", "input": "Yes, within 45 days.", "questions": [question]}, "array")


def _decision(state: str, example: Mapping[str, Any], questions: str) -> dict[str, Any]:
    """Return the OpenAPI description of a route of decision models."""
    schema = {
        "type": "object", "required": ["model", state, "questions"],
        "properties": {
            "model": {"type": "string", "description": "Name of the evaluator, or `accord`."},
            state: {"type": ["string", "array", "object"], "description": "The conversation: a text or messages."},
            "questions": {"type": questions, "description": "Questions that the evaluator predicts, on their scales."},
        },
    }  # fmt: skip
    return {
        "requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}},
        "responses": {
            "200": _response("Answers with a probability per option.", {"type": "object"}),
            "400": _response("The body is not JSON.", _ERROR),
            "401": _response("The token is missing or wrong.", _ERROR),
            "404": _response("The model is not the evaluator in use.", _ERROR),
            "422": _response("An unknown question, other options, or a conversation without a score.", _ERROR),
            "503": _response("Too many messages wait, or a timeout; send it again after `Retry-After`.", _ERROR),
        },
    }


def traces() -> dict[str, Any]:
    """Return the OpenAPI description of `POST /v1/traces`."""
    kinds = {JSON: {"schema": {"type": "object"}}, PROTOBUF: {}}
    answer = _response("Accepted; unreadable spans are counted in `partialSuccess`.", {"type": "object"})
    body = {"required": True, "content": kinds}
    full = _response("Too many messages wait; send it again after `Retry-After`.", _ERROR)
    return {"requestBody": body, "responses": {"200": answer, "429": full, "503": _response("Send it again.", _ERROR)}}


def _response(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": schema}}}


def api_page(openapi: Mapping[str, Any]) -> str:
    """Return the HTML page that describes the API."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shape"] = _type_text
    environment.filters["coded"] = _code_markup
    environment.filters["as_json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    page = files("accord.live.service").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(api=openapi)


def _code_markup(text: str) -> Markup:
    """Escape a text, and mark parts between backticks as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _type_text(schema: Mapping[str, Any]) -> str:
    """Describe the type of a field in words."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type_text(option) for option in schema["anyOf"])
    kind = schema.get("type", "anything")
    name = " or ".join(kind) if isinstance(kind, list) else str(kind)
    items = f" of {_type_text(schema['items'])}s" if "items" in schema else ""
    return name + items
