"""Text files as rows: one row for each transcript of speaker lines or WhatsApp messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from accord.edges import BadInput
from accord.formats.record import Row
from accord.formats.transcript import is_transcript

TEXT_SUFFIX = ".txt"
_DIVIDER = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,}|#{3,}|_{3,})[ \t]*\n", re.MULTILINE)


def text_rows(path: Path, raw: bytes) -> Iterator[Row]:
    """Yield a row for each transcript of a text file; a line of dashes, equals signs or the like divides transcripts.

    The conversation of a file with one transcript has the file's name as its ID.

    Raises:
        BadInput: The text is not UTF-8, or has no speakers.
    """
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
    parts, line = [], 1
    for part in _DIVIDER.split(text):
        if part.strip():
            parts.append((line + part[: len(part) - len(part.lstrip())].count("\n"), part.strip()))
        line += part.count("\n") + 1
    if not all(is_transcript(part) for _, part in parts):
        parts = [(1, text.strip())]  # the lines divide messages, not conversations
    if not is_transcript(parts[0][1]):
        raise BadInput(
            f"{path} is plain text without speakers; a transcript has lines such as `Customer: ...` and `Agent: ...`, "
            "or is a WhatsApp export. Save a table as .csv, and JSON lines as .jsonl"
        )
    stem = path.name.split(".")[0]
    for number, (line, part) in enumerate(parts, 1):
        yield Row(line, {"id": stem if len(parts) == 1 else f"{stem}-{number}", "transcript": part})
