r"""The one edge for texts that go out: what came from outside is shown, never obeyed.

| what goes out | where | what becomes of it |
|---|---|---|
| ESC and every other C0 or C1 control, DEL, NUL, carriage return | terminal, page, log line | shown: `\u001b`, `\r` |
| bidi embeddings, overrides and isolates; U+2028 and U+2029 | the same | shown: `\u202e` |
| half a surrogate pair, U+FFFE and U+FFFF, which no encoding or no chart can hold | the same | shown: `\ud800` |
| a line break or a tab inside a name, an id, a cell of a table | terminal, log line, metrics | shown: `\n`, `\t` |
| an id of megabytes | errors, logs, cells of tables, metrics | its beginning and end, and how much is left out |
| `=1+1`, `@SUM(A1)`, a leading tab or line break | CSV, Parquet | behind an apostrophe, which reading takes away |
| a text in JSON | terminal (`--json`) | escaped as JSON writes it: what is parsed is equal |

Line breaks and tabs of a text of several lines stay (`escape_controls`), those of one line do not (`one_line`). Markup
is escaped by the templates (`autoescape`), quotes and backslashes of metrics by their library, and secrets are hidden
by `edges/secrets.py`. Texts in JSON lines, in the store and in answers of the service go out as they are, as data.
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_LINE = 2_000
"""Characters of a line that is printed about something."""
LONGEST_NAME = 200
"""Characters of a name in a table, or in metrics."""
_MARK = "'"
"""Stands before a text that a spreadsheet would take for a formula."""
_LIVE = frozenset("=+-@\t\r\n'\uff1d\uff0b\uff0d\uff20")
"""A cell that begins with one of these may be run by a spreadsheet, or carries a mark of its own."""

_ACTED_ON = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
_IN_TEXT = re.compile(f"[{_ACTED_ON}]")
_IN_LINE = re.compile(f"[{_ACTED_ON}\\t\\n]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def escape_controls(text: str) -> str:
    r"""A text of any number of lines, with what a terminal or a page would act on shown as JSON writes it.

    >>> print(visible("red: \x1b[31m, and\nnothing hidden: \u202e"))
    red: \u001b[31m, and
    nothing hidden: \u202e
    """
    return _IN_TEXT.sub(_shown, text)


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> count_of(1, "label"), count_of(2000, "label")
    ('1 label', '2000 labels')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    r"""A text as one visible line, `truncate_middle`.

    >>> print(one_line("a name\nof two lines"))
    a name\nof two lines
    >>> one_line("a" * 20_000_000, 20)
    'aaaaaaaaaaaaa…[19,999,980 more]…aaaaaaa'
    """
    return _IN_LINE.sub(_shown, truncate_middle(text, most))


def truncate_middle(text: str, most: int = LONGEST_LINE) -> str:
    """A text of about `most` characters at the most: of a longer one its beginning and its end."""
    if len(text) <= most:
        return text
    first = most * 2 // 3
    return f"{text[:first]}…[{len(text) - most:,} more]…{text[len(text) - most + first :]}"


def one_line_json(value: Any) -> Any:
    """What a terminal is to tell of: every text in a value of JSON, keys too, as `one_line`."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line_json(key): one_line_json(each) for key, each in value.items()}
    return [one_line_json(each) for each in value] if isinstance(value, list | tuple) else value


def page_text(value: Any) -> Any:
    """Return the text of a value with `escape_controls` applied; markup and numbers stay unchanged."""
    return (
        value
        if value is None or isinstance(value, int | float) or hasattr(value, "__html__")
        else escape_controls(str(value))
    )


def escape_formula(text: str) -> str:
    """A text as the cell of a table: behind an apostrophe where a spreadsheet might run it, and where it is empty.

    >>> inert("=1+1"), inert("Ada")
    ("'=1+1", 'Ada')
    """
    return text if text and text[0] not in _LIVE else _MARK + text


def unescape_formula(cell: str) -> str:
    """The text of a cell: the inverse of `escape_formula`."""
    is_marked = cell[:1] == _MARK and (len(cell) == 1 or cell[1] in _LIVE)
    return cell[1:] if is_marked else cell


def _shown(found: re.Match[str]) -> str:
    letter = found[0]
    return _SHORT.get(letter) or f"\\u{ord(letter):04x}"
