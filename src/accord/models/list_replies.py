"""Asking a model for a list, and reading it: by its schema, or line by line where the model kept none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from accord.edges import sendable
from accord.models.flow import PromptFlow, StandIn
from accord.models.model import Failure, Prompt, Reply
from accord.values import JsonSchema

NO_LIST = "no list"
_AGAIN: dict[str, Any] = {"temperature": 0.5, "repeat": 1}
"""Changes of a prompt for the second attempt."""

_FENCED = re.compile(r"^\s*```(?:json)?\s*(.*?)\s*```\s*$", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MARKED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+(.*\S)\s*$")


@dataclass(frozen=True)
class ListForm:
    """The form of an answer: a list of objects under one key, or of lines.

    Attributes:
        key: Of the list.
        fields: Of each object, with what stands there; `numbers` in a name makes it a list of numbers, `number` one.
        most: How many there may be.
        line: What one line holds, where the model keeps no schema.
        tokens: Of one object.
        tokens_of_line: Of one line.
    """

    key: str
    fields: Mapping[str, str]
    most: int
    line: str
    tokens: int = 60
    tokens_of_line: int = 30

    def told(self, by_schema: bool) -> str:
        """The form in words."""
        if not by_schema:
            return (
                f"Answer with nothing but a list, one a line, each line beginning with a dash and a space: {self.line}"
            )
        shown = ", ".join(f'"{name}": {what}' for name, what in self.fields.items())
        return f'Answer with nothing but a JSON object: {{"{self.key}": [{{{shown}}}, ...]}}'

    def schema(self) -> JsonSchema:
        """The same as a JSON Schema."""
        entry = strict_schema({name: _kind(name) for name in self.fields})
        return strict_schema({self.key: {"type": "array", "items": entry}})


def strict_schema(properties: dict[str, JsonSchema]) -> JsonSchema:
    """The JSON Schema of an object with just these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _kind(name: str) -> JsonSchema:
    if name.startswith("numbers"):
        return {"type": "array", "items": {"type": "integer"}}
    return {"type": "integer"} if name.startswith("number") else {"type": "string"}


def ask_for_list(prompt: Prompt, form: ListForm) -> PromptFlow[list[dict[str, Any]] | Failure]:
    """The entries of the reply; a reply that is no list is asked for once more, with some chance of another one."""
    for attempt in (prompt, replace(prompt, **_AGAIN)):
        [reply] = yield [attempt]
        if isinstance(reply, Failure):
            return reply
        entries = parse_list(reply.text, form, by_schema=prompt.schema is not None)
        if entries is not None:
            return entries
    return Failure(NO_LIST, "the reply is neither the JSON that was asked for nor a list")


def stand_in_twice(stand_in: StandIn) -> StandIn:
    """Return the stand-in for a list that `ask_for_list` asks for twice, since the first reply is no list."""
    return lambda prompt: stand_in(prompt) if replace(prompt, **_AGAIN) == prompt else Reply("")


def parse_list(text: str, form: ListForm, by_schema: bool = True) -> list[dict[str, Any]] | None:
    """The entries of a reply as objects with the form's fields; `None` where the reply is no list at all.

    A line gives the first field alone. What an object lacks, or holds in another type, is left out of it. A model that
    keeps no schema, and writes no list either, is taken by its sentences.
    """
    inside = _FENCED.match(text)
    try:
        found = json.loads(inside[1] if inside else text)
    except (ValueError, RecursionError):
        lines = [match[1] for line in text.splitlines() if (match := _MARKED.match(line))]
        if not lines and not by_schema:
            lines = [sentence for sentence in _SENTENCE.split(text.strip()) if len(sentence.split()) > 1]
        first = next(iter(form.fields))
        return [{first: _plain(line)} for line in lines[: form.most]] or None
    entries = found.get(form.key) if isinstance(found, dict) else found
    if not isinstance(entries, list):
        return None
    return list(_objects(entries, form))[: form.most]


def _objects(entries: list[Any], form: ListForm) -> Iterator[dict[str, Any]]:
    first = next(iter(form.fields))
    for entry in entries:
        if isinstance(entry, str):
            yield {first: _plain(entry)}
        elif isinstance(entry, dict):
            yield {name: value for name in form.fields if (value := _typed(name, entry.get(name))) is not None}


def _typed(name: str, value: Any) -> Any:
    """The value where it has the type that its field's name says, else nothing."""
    if name.startswith("numbers"):
        return [each for each in value if _is_whole(each)] if isinstance(value, list) else None
    if name.startswith("number"):
        return value if _is_whole(value) else None
    return _plain(value) if isinstance(value, str) else None


def _plain(text: str) -> str:
    """The text without what no page and no file can carry."""
    told = sendable(text).replace("\ufffd", "")
    return "".join(letter for letter in told if letter.isprintable() or letter.isspace())


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
