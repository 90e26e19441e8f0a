"""Environment of a project: the file `.env`, and `${NAME}` in the settings that name connections.

`${NAME}` is replaced only in settings that the schema marks (`edges.FROM_ENVIRONMENT`). In the texts of studies and
synthetic conversations, which people write in the browser, it is plain text; elsewhere it is an error.

A variable of `.env` has two ways to take effect. `${NAME}` reads it from the file, so it never reaches a library. The
environment of the process gets only the variables of `ALLOWED`, or all variables if the user trusts the project.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from accord.edges import (
    FROM_ENVIRONMENT,
    MB,
    BadInput,
    count_of,
    is_secret_name,
    is_trusted,
    one_line,
    read_text,
    register_secret,
    register_url_secrets,
    set_variable,
)
from accord.values import InvalidStudy

Key = tuple[str, ...]
"""Keys that lead to a setting; `*` stands for any name or any place in a list."""

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_TEXTS = ("studies", "synth")
"""Sections whose texts may hold `${NAME}`."""
_STUDY: Key = ("studies", "*")
_NAMES: tuple[Key, ...] = (
    (*_STUDY, "rubric"), (*_STUDY, "issue_taxonomy"), (*_STUDY, "chat", "documents"), ("synth", "documents"),
    (*_STUDY, "chat", "assistants", "*", "role"), (*_STUDY, "chat", "assistants", "*", "model"),
)  # fmt: skip
"""Settings in these sections that are names or paths, in which `${NAME}` can only be a mistake."""
_HOST_KEYS: tuple[Key, ...] = tuple(("push", "*", name) for name in ("api_key", "public_key", "secret_key"))
"""Keys of hosts that receive scores: most commands do not need them, and those that do report a missing one."""

# --- ${NAME} in settings ----------------------------------------------------------------------------------------------


def fill_settings(content: Any, model: type[BaseModel], where: str, of_file: Mapping[str, str]) -> Any:
    """Return parsed settings with every `${NAME}` in a marked setting replaced by a variable.

    Args:
        content: Content of a project file.
        model: Model of the whole file.
        where: Name of the file in errors.
        of_file: Variables of the project's `.env` file, which count where the environment has none.

    Raises:
        BadInput: A variable is not set, or a setting that is neither marked nor a text names one. In a study, such an
            error makes it an `InvalidStudy`.
    """
    marked, variables = marked_settings(model), {**of_file, **os.environ}
    if not isinstance(content, dict) or not isinstance(content.get("studies"), dict):
        return _filled(content, (), marked, where, variables)
    studies: dict[Any, Any] = {}
    for name, study in content["studies"].items():
        try:
            studies[name] = _filled(study, ("studies", str(name)), marked, f"study {name!r}", variables)
        except BadInput as error:
            studies[name] = InvalidStudy(error=str(error))
    return {**_filled({**content, "studies": {}}, (), marked, where, variables), "studies": studies}


@cache
def marked_settings(model: type[BaseModel]) -> tuple[Key, ...]:
    """Return the keys of the settings in which `${NAME}` is replaced."""
    return tuple(_marked(model, ()))


def _marked(annotation: Any, above: Key) -> Iterator[Key]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if field.json_schema_extra == FROM_ENVIRONMENT:
                yield (*above, name)
            else:
                yield from _marked(field.annotation, (*above, name))
        return
    origin = get_origin(annotation)
    holds_many = isinstance(origin, type) and issubclass(origin, Mapping | list | tuple)
    for inner in get_args(annotation):
        yield from _marked(inner, (*above, "*") if holds_many else above)


def _filled(value: Any, key: Key, marked: tuple[Key, ...], where: str, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(inner, (*key, str(name)), marked, where, variables) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, (*key, str(place)), marked, where, variables) for place, inner in enumerate(value)]
    if not isinstance(value, str) or _VARIABLE.search(value) is None:
        return value
    about = ".".join(key[2:] if key[:1] == ("studies",) else key)
    if _is_among(key, marked):
        if _is_among(key, _HOST_KEYS) and not all(name in variables for name in _VARIABLE.findall(value)):
            return None
        return _VARIABLE.sub(lambda match: _variable(match[1], f"{where}: {about}", variables), value)
    if key[:1] and key[0] in _TEXTS and not _is_among(key, _NAMES):
        return value
    allowed = ", ".join(".".join(each).replace("*", "NAME") for each in marked)
    raise BadInput(
        f"{where}: {about}: an environment variable is replaced only in settings of connections ({allowed}); write the "
        f"value itself, or set it for one run: --set KEY=VALUE"
    )


def connection_texts(content: Any, model: type[BaseModel], variables: Mapping[str, str]) -> Iterator[tuple[Key, str]]:
    """Yield the settings of connections, without keys; `${NAME}` stays where no variable has that name.

    Args:
        content: Content of a project file, which need not be valid.
        model: Model of the whole file.
        variables: Values by name.
    """
    marked = [key for key in marked_settings(model) if key not in _HOST_KEYS]

    def texts(value: Any, key: Key) -> Iterator[tuple[Key, str]]:
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from texts(inner, (*key, str(name)))
        elif isinstance(value, list):
            for place, inner in enumerate(value):
                yield from texts(inner, (*key, str(place)))
        elif isinstance(value, str) and _is_among(key, marked):
            yield key, _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), value)

    yield from texts(content, ())


def _is_among(key: Key, patterns: Iterable[Key]) -> bool:
    return any(
        len(key) == len(pattern) and all(part in ("*", name) for name, part in zip(key, pattern, strict=True))
        for pattern in patterns
    )


def _variable(name: str, about: str, variables: Mapping[str, str]) -> str:
    try:
        value = variables[name]
    except KeyError:  # the name may be a secret that was written in the wrong place
        raise BadInput(
            f"{about}: an environment variable that it names as ${{...}} is not set; set it, or add it to .env"
        ) from None
    if is_secret_name(name):
        register_secret(value)
    register_url_secrets(value)
    return value


# --- .env -------------------------------------------------------------------------------------------------------------

_ENV_LINE = re.compile(
    r"""
    (?:export\s+)?(?P<key>[A-Za-z_]\w*)\s*=\s*
    (?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^"'\s]\S*(?:\s++(?!\#)\S++)*+|))
    \s*+(?:(?<=\s)\#.*|(?<=["'])\#.*)?
    """,
    re.VERBOSE | re.ASCII,
)
_ENV_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
ALLOWED = frozenset({
    "ACCORD_STORE", "OPENAI_BASE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID",
})  # fmt: skip
"""Variables that the `.env` file of any project sets. The user confirms addresses and keys where they are used
(`accord.edges.check_address`)."""
_OF_THE_USER = frozenset({"ACCORD_TRUST", "ACCORD_CONFIG"})
"""Variables that control trust, which no `.env` file sets."""
_VARIABLES = 1000
"""Maximum number of variables of a `.env` file: setting each one takes time in proportion to those before it."""
_NAMED = 5
"""Maximum number of variables that a warning names."""
_warned: set[tuple[Path, tuple[str, ...]]] = set()


def read_env_file(file: Path) -> dict[str, str]:
    """Return the variables of a `.env` file, by name; of equal names the first. A missing file has none.

    Values of variables with secret names are redacted in all output.

    Raises:
        BadInput: The file has an invalid line, or too many variables.
    """
    found: dict[str, str] = {}
    if not file.is_file():
        return found
    count = 0
    for number, line in enumerate(re.split("\r\n|\r|\n", read_text(file, MB)), 1):
        text = line.strip(" \t")
        if not text or text.startswith("#"):
            continue
        match = None if "\0" in text else _ENV_LINE.fullmatch(text)
        if match is None:
            raise BadInput(
                f"{file}, line {number}: not KEY=VALUE; quote a value with quotes or with spaces at its ends"
            )
        count += 1
        if count > _VARIABLES:
            raise BadInput(
                f"{file}, line {number}: more than {_VARIABLES:,} variables; remove those that Accord does not need"
            )
        key, value = match["key"], _env_value(match)
        if is_secret_name(key):
            register_secret(value)
        found.setdefault(key, value)
    return found


def set_variables(folder: Path, variables: Mapping[str, str], content: Any) -> None:
    """Set the variables of a project's `.env` file that the environment lacks.

    Without trust in the project, these are the variables of `ALLOWED`: any other one could change which code runs, or
    where data are sent. Those left out are named in a warning, except those that the settings refer to as `${NAME}`,
    which `fill_settings` takes from the file.

    Args:
        folder: Folder of the project.
        variables: Variables of its file, by name.
        content: Content of its `accord.yaml`.

    Raises:
        BadInput: The user's record of trust is damaged.
    """
    new = {name: value for name, value in variables.items() if name not in os.environ}
    own = [name for name in new if name.upper() in _OF_THE_USER]
    others = [name for name in new if name not in ALLOWED and name not in own]
    left_out = others if others and not is_trusted(folder) else []
    for name in new.keys() - {*own, *left_out}:
        set_variable(folder, name, new[name])
    used = set(_VARIABLE.findall(str(content)))
    _warn(folder, own, "these control trust; set them in the environment")
    _warn(
        folder, [name for name in left_out if name not in used],
        f"they could run code or send data elsewhere. If you know them: accord trust {folder.resolve()}",
    )  # fmt: skip


def _warn(folder: Path, names: list[str], reason: str) -> None:
    """Log once that variables are left out."""
    key = (folder.resolve(), tuple(names))
    if names and key not in _warned:
        _warned.add(key)
        more = f" and {count_of(len(names) - _NAMED, 'other')}" if len(names) > _NAMED else ""
        logging.getLogger("accord").warning(
            "%s", one_line(f"{folder.resolve() / '.env'}: left out {', '.join(names[:_NAMED])}{more}: {reason}")
        )  # fmt: skip


def _env_value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r"\\(.)", lambda escape: _ENV_ESCAPES.get(escape[1], escape[1]), match["double"])
    return match["single"] if match["single"] is not None else match["plain"]
