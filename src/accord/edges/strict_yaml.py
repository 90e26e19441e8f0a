"""Strict reading of YAML: unique keys, values validated by a pydantic model, URLs without secrets.

A YAML file is limited in bytes, in depth and in nodes, with repetitions by aliases counted, so that every file is read
or rejected within a second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ValidationError

from accord.edges.errors import BadInput, UnknownName
from accord.edges.input_limits import MAX_DEPTH, MB, is_sendable, read_text


def strip_url_secrets(url: Any) -> str:
    """Return a URL without user, password and query; a placeholder if it cannot be parsed."""
    try:
        parts = urlsplit(str(url))
    except ValueError:
        return "(not a URL)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}{parts.path}"


def is_web_address(url: str) -> bool:
    """Return True for an address of HTTP or HTTPS."""
    return url.startswith(("http://", "https://"))


Model = TypeVar("Model", bound=BaseModel)


FROM_ENVIRONMENT: dict[str, Any] = {"x-environment": True}
"""Mark of a field, in the JSON Schema too, in which `${NAME}` stands for an environment variable."""
YAML_BYTES = MB // 2
"""Maximum size of a YAML file in bytes, about 400 pages of text."""
_NODES = 10_000
"""Maximum number of keys and values of a YAML file, with repetitions by aliases counted."""
_REASON_CHARACTERS = 300
"""Maximum number of characters of a parser's message."""


class _DuplicateKey(yaml.YAMLError):
    """A key that occurs twice in one mapping."""

    def __init__(self, key: str, first: int, second: int) -> None:
        super().__init__(f"key {key} occurs twice, in lines {first} and {second}; keep one of them")
        self.line = second


class _UniqueKeys(yaml.SafeLoader):
    """Loader that rejects a mapping with two equal keys; PyYAML would silently keep the last."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes, self._depth = 0, 0
        self._weights: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return a node; its weight is its number of nodes with all aliases expanded."""
        alias = self.check_event(yaml.AliasEvent)
        before = self._nodes
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.YAMLError(f"nested deeper than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and alias and node not in self._weights:
            raise yaml.MarkedYAMLError(
                None, None, "an alias refers to a mapping or list that contains it", node.start_mark
            )
        self._nodes += self._weights[node] if node is not None and alias else 1
        if self._nodes > _NODES:
            raise yaml.YAMLError(f"more than {_NODES:,} keys and values, with repetitions by aliases counted")
        if node is not None and not alias:
            self._weights[node] = self._nodes - before
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping with unique keys."""
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, dict | list | set):
                raise yaml.MarkedYAMLError(None, None, "a key is a list or a mapping", key.start_mark)
            if name in lines:
                raise _DuplicateKey(shortened(repr(name), 60), lines[name], key.start_mark.line + 1)
            lines[name] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Return the scalar as text that can be stored and sent."""
        text = super().construct_scalar(node)
        if isinstance(text, str) and not is_sendable(text):
            raise yaml.MarkedYAMLError(None, None, "a text holds NUL or half a surrogate pair", node.start_mark)
        return text

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Return a finite number."""
        number = super().construct_yaml_float(node)
        if not math.isfinite(number):
            raise yaml.MarkedYAMLError(None, None, f"{node.value} is not a finite number", node.start_mark)
        return number


_UniqueKeys.add_constructor("tag:yaml.org,2002:float", _UniqueKeys.construct_yaml_float)
# YAML 1.1 reads yes, no, on and off as booleans; in a rubric they are words, as in YAML 1.2.
_UniqueKeys.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_UniqueKeys.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|false|False)$"), list("tTfF"))


_CONSTRUCTOR_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors that PyYAML raises for invalid values, such as a date in month 13, a number of 6,000 digits or `!!int ""`."""


def load_yaml(path: Path) -> Any:
    """Parse one YAML file.

    Raises:
        BadInput: The file is missing, empty, no regular file, larger than `YAML_BYTES`, not UTF-8 or not YAML.
    """
    try:
        text = read_text(path, YAML_BYTES)
    except FileNotFoundError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse the text of a YAML file; `where` names the file in messages.

    Raises:
        BadInput: The text is empty, not YAML, or exceeds a limit.
    """
    if len(text) > YAML_BYTES:
        raise BadInput(f"{where} holds {len(text):,} characters of YAML; at most {YAML_BYTES:,} are allowed")
    try:
        content = yaml.load(text, _UniqueKeys)  # noqa: S506 - a SafeLoader
    except _DuplicateKey as error:
        raise BadInput(f"{where}, line {error.line}: {error}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is not valid YAML: {shortened(' '.join(str(error).split()))}") from None
    except _CONSTRUCTOR_ERRORS as error:
        raise BadInput(f"{where} is not valid YAML: invalid value: {shortened(str(error))}") from None
    if content is None:
        raise BadInput(f"{where} is empty")
    return content


class _Dumper(yaml.SafeDumper):
    """Writer that escapes line separators besides the line feed, which a reader of YAML would take for one."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _SEPARATORS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_SEPARATORS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_Dumper.add_representer(str, _represent_text)


def dump_yaml(content: Any, width: int = 110) -> str:
    r"""Return content as YAML, keys in their order, from which `parse_yaml` returns equal content.

    >>> dump_yaml({"title": "one\x85line"})
    'title: "one\\Nline"\n'
    """
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)
    return text


def shortened(text: str, most: int = _REASON_CHARACTERS) -> str:
    """Return the first `most` characters of a text."""
    return text if len(text) <= most else f"{text[:most]}..."


def validate(model: type[Model], content: Any, where: str, section: Sequence[str] = ()) -> Model:
    """Validate parsed content against a pydantic model whose unknown keys are forbidden.

    Args:
        model: The model.
        content: The content.
        where: Name of the file, or of another origin.
        section: Keys in the file under which the content stands.

    Raises:
        BadInput: The content is invalid. The message names the place, the value and, for an unknown key, its line and
            the allowed keys.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # A misspelled key causes both an unknown and a missing key; the unknown one is the cause.
        first = min(error.errors(), key=lambda entry: entry["type"] != "extra_forbidden")
        if first["type"] != "extra_forbidden":
            origin = ": ".join([where, *section])
            raise BadInput(f"{origin}: {shortened(validation_messages(error)[0])}") from None
        *above, key = map(str, first["loc"])
        line, allowed = _line_of(where, [*section, *above, key]), _keys_at(model, first["loc"][:-1])
        origin = where if line is None else f"{where}, line {line}"
        place = "".join(f"{part}." for part in (*section, *above)).rstrip(".")
        reason = UnknownName("key", shortened(key, 60), allowed)
        raise BadInput(f"{origin}: {place}: {reason}" if place else f"{origin}: {reason}") from None


def _line_of(where: str, keys: Sequence[str]) -> int | None:
    """Return the line of a key of a YAML file, or `None` if `where` is another text."""
    try:
        node = yaml.compose(read_text(Path(where), YAML_BYTES), _UniqueKeys) if Path(where).is_file() else None
    except (BadInput, OSError, ValueError, yaml.YAMLError):
        return None
    line = None
    for key in keys:
        if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
            node = node.value[int(key)]
        elif isinstance(node, yaml.MappingNode):
            found = next(((name, value) for name, value in node.value if name.value == key), None)
            line, node = (line, None) if found is None else (found[0].start_mark.line + 1, found[1])
    return line


def validation_messages(error: ValueError) -> list[str]:
    """Return the errors of a validation, each on a single line: place, reason, and the value if it is short."""
    if not isinstance(error, ValidationError):
        return [str(error)]
    lines = []
    for entry in error.errors():
        place = ".".join(str(part) for part in entry["loc"])
        is_model = entry["type"] == "model_type"  # pydantic's message contains the class name
        reason = "should be a mapping of keys to values" if is_model else entry["msg"].removeprefix("Value error, ")
        got = "" if entry["type"] in {"value_error", "missing"} else repr(entry.get("input"))
        shown = f", got {got}" if got and len(got) <= 60 else ""
        lines.append(f"{place}: {reason}{shown}" if place else f"{reason}{shown}")
    return lines


def _keys_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields of the model at a place inside another model."""
    for part in place:
        if not isinstance(part, str) or part not in model.model_fields:
            continue
        nested = [kind for kind in _models_in(model.model_fields[part].annotation)]
        if not nested:
            return []
        model = nested[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
