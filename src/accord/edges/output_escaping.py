r"""Escaping of texts for output: control characters and formulas are shown, never executed.

| text | output | result |
|---|---|---|
| ESC and every other C0 or C1 control, DEL, NUL, carriage return | terminal, page, log line | shown: `\u001b`, `\r` |
| bidi embeddings, overrides and isolates; U+2028 and U+2029 | the same | shown: `\u202e` |
| half a surrogate pair, U+FFFE and U+FFFF | the same | shown: `\ud800` |
| a line break or a tab inside a name, an id, a cell of a table | terminal, log line, metrics | shown: `\n`, `\t` |
| an ID of several megabytes | errors, logs, cells of tables, metrics | its beginning and end |
| `=1+1`, `@SUM(A1)`, a leading tab or line break | CSV, Parquet | prefixed with an apostrophe, which readers remove |
| a text in JSON | terminal (`--json`) | escaped; parsing returns the same text |

`escape_controls` keeps line breaks and tabs, `one_line` does not. Markup is escaped by the templates (`autoescape`),
quotes and backslashes of metrics by their library, and secrets by `edges/secrets.py`. Texts in JSON lines, in the store
and in responses of the service are data and stay unchanged.
"""

from __future__ import annotations

import os
import re
from typing import Any

LONGEST_LINE = 2_000
"""Maximum number of characters of a printed line."""
LONGEST_NAME = 200
"""Maximum number of characters of a name in a table or in metrics."""
_MARK = "'"
"""Prefix of a text that a spreadsheet could execute as a formula."""
_FORMULA_STARTS = frozenset("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")
"""First characters of texts that get the prefix: formula signs, and the prefix itself."""

_CONTROLS = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
_IN_TEXT = re.compile(f"[{_CONTROLS}]")
_PATH = re.compile(r"(?<![\w./~-])(?:(?:/[^\s/'\",;:()<>]+){2,}/?|[A-Za-z]:[\\/][^\s'\",;:()<>]+)")
_SQLITE_FOLDER = re.compile(r"sqlite:////?[^\s'\"?]*[/\\]")
_IN_LINE = re.compile(f"[{_CONTROLS}\\t\\n]")
_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def escape_controls(text: str) -> str:
    r"""Return a text with characters that control a terminal or a page escaped as in JSON; line breaks stay.

    >>> print(escape_controls("red: \x1b[31m, and\nnothing hidden: \u202e"))
    red: \u001b[31m, and
    nothing hidden: \u202e
    """
    return _IN_TEXT.sub(_escape, text)


def count_of(number: int, noun: str, many: str = "") -> str:
    """Return a number with its noun, in the plural unless the number is 1; the plural adds an s unless it is given.

    >>> count_of(1, "reply", "replies"), count_of(2000, "label")
    ('1 reply', '2,000 labels')
    """
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    r"""Return a text on a single line of at most about `most` characters, with control characters escaped.

    >>> print(one_line("a name\nof two lines"))
    a name\nof two lines
    >>> one_line("a" * 20_000_000, 20)
    'aaaaaaaaaaaaa…[19,999,980 more]…aaaaaaa'
    """
    return _IN_LINE.sub(_escape, truncate_middle(text, most))


def truncate_middle(text: str, most: int = LONGEST_LINE) -> str:
    """Return a text of at most about `most` characters: the beginning and the end of a longer one."""
    if len(text) <= most:
        return text
    first = most * 2 // 3
    return f"{text[:first]}…[{len(text) - most:,} more]…{text[len(text) - most + first :]}"


def one_line_json(value: Any) -> Any:
    """Return a JSON value with `one_line` applied to all texts and keys."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line_json(key): one_line_json(item) for key, item in value.items()}
    return [one_line_json(item) for item in value] if isinstance(value, list | tuple) else value


def page_text(value: Any) -> Any:
    """Return the text of a value with `escape_controls` applied; markup and numbers stay unchanged."""
    if type(value) is str:  # most values of a page
        return escape_controls(value)
    if value is None or isinstance(value, int | float) or hasattr(value, "__html__"):
        return value
    return escape_controls(str(value))


def hide_folders(text: str) -> str:
    r"""Return a message in which each absolute path of this machine is its last name alone, for readers elsewhere.

    >>> hide_folders(r"C:\Users\ann\judge holds no evaluator; see /lead/look and https://example.org/usr/lib")
    'judge holds no evaluator; see /lead/look and https://example.org/usr/lib'
    """
    return _PATH.sub(_last_name, _SQLITE_FOLDER.sub("sqlite:///", text))


def _last_name(found: re.Match[str]) -> str:
    path = found[0]
    is_page = path[0] == "/" and not os.path.isdir("/" + path.split("/")[1])
    return path if is_page else re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def escape_formula(text: str) -> str:
    """Return a text as a table cell, with an apostrophe in front if the text is empty or a spreadsheet may execute it.

    >>> escape_formula("=1+1"), escape_formula("Ada")
    ("'=1+1", 'Ada')
    """
    return text if text and text[0] not in _FORMULA_STARTS else _MARK + text


def unescape_formula(cell: str) -> str:
    """Return the text of a cell: the inverse of `escape_formula`."""
    is_marked = cell[:1] == _MARK and (len(cell) == 1 or cell[1] in _FORMULA_STARTS)
    return cell[1:] if is_marked else cell


def _escape(found: re.Match[str]) -> str:
    letter = found[0]
    return _SHORT_ESCAPES.get(letter) or f"\\u{ord(letter):04x}"
