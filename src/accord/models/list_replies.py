"""Asking a model for a list, and reading its reply as JSON or line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from accord.edges import sendable
from accord.models.model import Failure, Prompt, Reply
from accord.models.requests.flow import PromptFlow, StandIn
from accord.values import JsonSchema

NO_LIST = "no list"
_AGAIN: dict[str, Any] = {"temperature": 0.5, "repeat": 1}
"""Changes to a prompt for the second attempt."""

_FENCE, _LANGUAGE = "```", re.compile(r"\w*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_MARKED = re.compile(r"\s*(?:[-*•]|\(?\d{1,3}[.):])\s+(\S.*)")


@dataclass(frozen=True)
class ListForm:
    """The form of a reply: a list of objects under one key, or a list of lines.

    Attributes:
        key: Key of the list.
        fields: Description of each field. A field whose name begins with `numbers` is a list of integers; with
            `number`, one integer.
        most: Largest number of entries.
        line: Description of one line, for models without schemas.
        tokens: Tokens per object.
        tokens_of_line: Tokens per line.
    """

    key: str
    fields: Mapping[str, str]
    most: int
    line: str
    tokens: int = 60
    tokens_of_line: int = 30

    def instruction(self, by_schema: bool) -> str:
        """Return the instruction of the prompt."""
        if not by_schema:
            return (
                f"Answer with nothing but a list, one a line, each line beginning with a dash and a space: {self.line}"
            )
        fields = ", ".join(f'"{name}": {text}' for name, text in self.fields.items())
        return f'Answer with nothing but a JSON object: {{"{self.key}": [{{{fields}}}, ...]}}'

    def schema(self) -> JsonSchema:
        """Return the form as a JSON Schema."""
        entry = strict_schema({name: _kind(name) for name in self.fields})
        return strict_schema({self.key: {"type": "array", "items": entry}})


def strict_schema(properties: dict[str, JsonSchema]) -> JsonSchema:
    """Return the JSON Schema of an object with exactly these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _kind(name: str) -> JsonSchema:
    if name.startswith("numbers"):
        return {"type": "array", "items": {"type": "integer"}}
    return {"type": "integer"} if name.startswith("number") else {"type": "string"}


def ask_for_list(prompt: Prompt, form: ListForm) -> PromptFlow[list[dict[str, Any]] | Failure]:
    """Return the entries of the reply; after a reply without a list, ask again at a higher temperature."""
    for attempt in (prompt, replace(prompt, **_AGAIN)):
        [reply] = yield [attempt]
        if isinstance(reply, Failure):
            return reply
        entries = parse_list(reply.text, form, by_schema=prompt.schema is not None)
        if entries is not None:
            return entries
    return Failure(NO_LIST, "the reply is neither the requested JSON nor a list")


def stand_in_twice(stand_in: StandIn) -> StandIn:
    """Return a stand-in for `ask_for_list` whose first reply is not a list, so that it asks twice."""
    return lambda prompt: stand_in(prompt) if replace(prompt, **_AGAIN) == prompt else Reply("")


def parse_list(text: str, form: ListForm, by_schema: bool = True) -> list[dict[str, Any]] | None:
    """Return the entries of a reply as objects with the form's fields, or `None` if the reply is not a list.

    A line gives the first field alone. Missing fields and fields of another type are left out. Without a schema, a
    reply without a list is split into sentences.
    """
    content, after = unfenced(text)
    try:
        value = json.loads(text if after else content)
    except (ValueError, RecursionError):
        lines = [match[1] for line in text.splitlines() if (match := _MARKED.match(line.rstrip()))]
        if not lines and not by_schema:
            lines = [sentence for sentence in _SENTENCE.split(text.strip()) if len(sentence.split()) > 1]
        first = next(iter(form.fields))
        return [{first: _plain(line)} for line in lines[: form.most]] or None
    entries = value.get(form.key) if isinstance(value, dict) else value
    if not isinstance(entries, list):
        return None
    return list(_objects(entries, form))[: form.most]


def unfenced(text: str) -> tuple[str, str]:
    r"""Return the content of a code fence that a reply begins with, and the text after it.

    A reply without one is its own content. The last fence closes: the content may have fences of its own.

    >>> unfenced("```json\n[1, 2]\n```\nThese are two."), unfenced("[1, 2]")
    (('[1, 2]', 'These are two.'), ('[1, 2]', ''))
    """
    text = text.strip()
    end = text.rfind(_FENCE, len(_FENCE)) if text.startswith(_FENCE) else -1
    if end < 0:
        return text, ""
    language = _LANGUAGE.match(text, len(_FENCE), end)
    start = len(_FENCE) if language is None else language.end()
    return text[start:end].strip(), text[end + len(_FENCE) :].strip()


def _objects(entries: list[Any], form: ListForm) -> Iterator[dict[str, Any]]:
    first = next(iter(form.fields))
    for entry in entries:
        if isinstance(entry, str):
            yield {first: _plain(entry)}
        elif isinstance(entry, dict):
            yield {name: value for name in form.fields if (value := _typed(name, entry.get(name))) is not None}


def _typed(name: str, value: Any) -> Any:
    """Return the value if it has the type of its field, otherwise None."""
    if name.startswith("numbers"):
        return [x for x in value if _is_integer(x)] if isinstance(value, list) else None
    if name.startswith("number"):
        return value if _is_integer(value) else None
    return _plain(value) if isinstance(value, str) else None


def _plain(text: str) -> str:
    """Return the text without characters that pages or files cannot show."""
    valid = sendable(text).replace("\ufffd", "")
    return "".join(letter for letter in valid if letter.isprintable() or letter.isspace())


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
