"""Text that people write, read strictly: YAML with unique keys, values checked by a model, URLs without secrets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ValidationError

from accord.values.errors import BadInput, UnknownName


def plain_url(url: Any) -> str:
    """The URL without a user, a password or a query; what cannot be taken apart is not shown at all."""
    try:
        parts = urlsplit(str(url))
    except ValueError:
        return "(not a URL)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}{parts.path}"


def is_web_address(url: str) -> bool:
    """Whether something may be asked of the address over HTTP."""
    return url.startswith(("http://", "https://"))


Model = TypeVar("Model", bound=BaseModel)


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; a setting that vanishes is an error here."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.MarkedYAMLError(None, None, f"key {twice!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads yes, no, on and off as booleans; in a rubric they are words, as in YAML 1.2.
_UniqueKeys.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_UniqueKeys.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|false|False)$"), list("tTfF"))


def load_yaml(path: Path) -> Any:
    """Parse one YAML file.

    Raises:
        BadInput: The file is missing, empty, not UTF-8 or not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Parse the text of one YAML file, which messages call `where`.

    Raises:
        BadInput: The text is empty or not YAML.
    """
    try:
        content = yaml.load(text, _UniqueKeys)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is no YAML: {' '.join(str(error).split())}") from None
    if content is None:
        raise BadInput(f"{where} is empty")
    return content


def check(model: type[Model], content: Any, where: str) -> Model:
    """Validate parsed content against a pydantic model whose unknown keys are forbidden.

    Raises:
        BadInput: Names the place, what was got and, for an unknown key, the keys that exist.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # An unknown key is the cause of a missing one more often than the other way round.
        first = min(error.errors(), key=lambda entry: entry["type"] != "extra_forbidden")
        if first["type"] == "extra_forbidden":
            unknown = UnknownName("key", str(first["loc"][-1]), _keys_at(model, first["loc"][:-1]))
            raise BadInput(f"{where}: {unknown}") from None
        raise BadInput(f"{where}: {reasons(error)[0]}") from None


def reasons(error: ValueError) -> list[str]:
    """Each complaint of a validation in one line: place, reason, and what was got where that is short."""
    if not isinstance(error, ValidationError):
        return [str(error)]
    lines = []
    for entry in error.errors():
        place = ".".join(str(part) for part in entry["loc"])
        reason = entry["msg"].removeprefix("Value error, ")
        got = repr(entry.get("input"))
        shown = f", got {got}" if len(got) <= 60 and entry["type"] not in {"value_error", "missing"} else ""
        lines.append(f"{place}: {reason}{shown}" if place else f"{reason}{shown}")
    return lines


def _keys_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the model that stands at `place` inside `model`."""
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
