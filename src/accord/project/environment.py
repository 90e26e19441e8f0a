"""Environment of a project: the file `.env`, and `${NAME}` in the settings that name connections.

`${NAME}` is replaced only in settings that the schema marks (`edges.FROM_ENVIRONMENT`). In the texts of studies and
synthetic conversations, which people write in the browser, it is plain text; elsewhere it is an error.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from accord.edges import (
    FROM_ENVIRONMENT,
    MB,
    BadInput,
    check_ownership,
    is_secret_name,
    one_line,
    read_text,
    register_secret,
    register_url_secrets,
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


def fill_settings(content: Any, model: type[BaseModel], where: str) -> Any:
    """Return parsed settings with every `${NAME}` in a marked setting replaced by the environment variable.

    Args:
        content: Content of a project file.
        model: Model of the whole file.
        where: Name of the file in errors.

    Raises:
        BadInput: A variable is not set, or a setting that is neither marked nor a text names one. In a study, such an
            error makes it an `InvalidStudy`.
    """
    if not isinstance(content, dict) or not isinstance(content.get("studies"), dict):
        return _filled(content, (), marked_settings(model), where)
    studies: dict[Any, Any] = {}
    for name, study in content["studies"].items():
        try:
            studies[name] = _filled(study, ("studies", str(name)), marked_settings(model), f"study {name!r}")
        except BadInput as error:
            studies[name] = InvalidStudy(error=str(error))
    return {**_filled({**content, "studies": {}}, (), marked_settings(model), where), "studies": studies}


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


def _filled(value: Any, key: Key, marked: tuple[Key, ...], where: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(inner, (*key, str(name)), marked, where) for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, (*key, str(place)), marked, where) for place, inner in enumerate(value)]
    if not isinstance(value, str) or _VARIABLE.search(value) is None:
        return value
    about = ".".join(key[2:] if key[:1] == ("studies",) else key)
    if _is_among(key, marked):
        if _is_among(key, _HOST_KEYS) and not all(name in os.environ for name in _VARIABLE.findall(value)):
            return None
        return _VARIABLE.sub(lambda match: _variable(match[1], f"{where}: {about}"), value)
    if key[:1] and key[0] in _TEXTS and not _is_among(key, _NAMES):
        return value
    allowed = ", ".join(".".join(each).replace("*", "NAME") for each in marked)
    raise BadInput(
        f"{where}: {about}: an environment variable is replaced only in settings of connections ({allowed}); write the "
        f"value itself, or set it for one run: --set KEY=VALUE"
    )


def _is_among(key: Key, patterns: tuple[Key, ...]) -> bool:
    return any(
        len(key) == len(pattern) and all(part in ("*", name) for name, part in zip(key, pattern, strict=True))
        for pattern in patterns
    )


def _variable(name: str, about: str) -> str:
    try:
        value = os.environ[name]
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
_PROTECTED = re.compile(
    r"""
    (?:PYTHON|LD_|DYLD_|BASH_|GIT_|SSL_|OPENSSL_|XDG_|PIP_|UV_|RAY_|ACCORD_TRUST|ACCORD_CONFIG
    |PG(?:SERVICE|SYSCONFDIR|HOSTADDR|PASSFILE|SSL|REQUIRE|CHANNELBINDING|GSS|KRB)
    |GLIBC_TUNABLES|GCONV_PATH|MALLOC_|AWS_(?:ENDPOINT|METADATA_ENDPOINT|CONTAINER_|ALLOW_HTTP|PROXY)|SSLKEYLOG).*
    |HOSTALIASES|RES_OPTIONS|LOCALDOMAIN|LOCPATH|NLSPATH|CC|CXX
    |.*_CACHE_DIR|.*_CA_BUNDLE|(?:HTTPS?|ALL|NO|FTP|WSS?)_PROXY|HF_(?:ENDPOINT|HOME)|AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE
    |PATH|PATHEXT|COMSPEC|SYSTEMROOT|HOME|USERPROFILE|APPDATA|LOCALAPPDATA|TMPDIR|TEMP|TMP|SUDO_UID
    |BROWSER|EDITOR|VISUAL|PAGER|SHELL|ENV|IFS
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Variables of the interpreter, the loader, the search path, certificates, proxies and the user's own folders."""
_VARIABLES = 1000
"""Maximum number of variables of a `.env` file: setting each one takes time in proportion to those before it."""
_from_files: dict[str, str] = {}
"""Variables that a `.env` file has set in this process, with their values."""
_warned: set[tuple[Path, str]] = set()


def load_env_file(file: Path) -> None:
    """Set the variables of a `.env` file that are not set; values of variables with secret names are redacted.

    Variables that run code or redirect connections (`_PROTECTED`) are left out with a warning.

    Raises:
        BadInput: The file has an invalid line, or another account could have written it.
    """
    if not file.is_file():
        return
    check_ownership(file)
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
        key, value = match["key"], _env_value(match)
        count += 1
        if count > _VARIABLES:
            raise BadInput(
                f"{file}, line {number}: more than {_VARIABLES:,} variables; remove those that Accord does not need"
            )
        if is_secret_name(key):
            register_secret(value)
        if key in os.environ:
            continue
        if _PROTECTED.fullmatch(key):
            _warn(file, number, key)
        else:
            os.environ[key] = _from_files[key] = value


def is_from_env_file(name: str) -> bool:
    """Return True if a `.env` file, and not the user's environment, has set a variable."""
    return name in _from_files and os.environ.get(name) == _from_files[name]


def _warn(file: Path, number: int, key: str) -> None:
    """Log once that a variable is left out."""
    if (file.absolute(), key) not in _warned:
        _warned.add((file.absolute(), key))
        logging.getLogger("accord").warning(
            "%s", one_line(f"{file}, line {number}: {key} is ignored, because it changes how programs run or connect; "
                           "set it in the environment instead")
        )  # fmt: skip


def _env_value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r"\\(.)", lambda escape: _ENV_ESCAPES.get(escape[1], escape[1]), match["double"])
    return match["single"] if match["single"] is not None else match["plain"]
