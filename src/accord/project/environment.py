"""Environment variables from a file `.env`: lines of `KEY=VALUE`, with comments and quotes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from accord.edges import MB, BadInput, is_secret_name, read_text, register_secret

_LINE = re.compile(
    r"""
    (?:export\s+)?(?P<key>[A-Za-z_]\w*)\s*=\s*
    (?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^"'].*?|))
    \s*(?:(?<=\s)\#.*|(?<=["'])\#.*)?
    """,
    re.VERBOSE,
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def load_environment(file: Path) -> None:
    """Set the variables of a `.env` file that the environment lacks; values with secret names are never shown.

    Raises:
        BadInput: The file cannot be read, or a line is not `KEY=VALUE`.
    """
    if not file.is_file():
        return
    for number, line in enumerate(read_text(file, MB).splitlines(), 1):
        written = line.strip()
        if not written or written.startswith("#"):
            continue
        match = _LINE.fullmatch(written)
        if match is None:
            raise BadInput(f"{file}, line {number}: not KEY=VALUE; quote a value that has quotes or spaces at its ends")
        key, value = match["key"], _value(match)
        if is_secret_name(key):
            register_secret(value)
        os.environ.setdefault(key, value)


def _value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), match["double"])
    return match["single"] if match["single"] is not None else match["plain"]
