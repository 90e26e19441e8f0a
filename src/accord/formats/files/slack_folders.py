"""Channels of a Slack export: a folder with a file of messages per day, `general/2026-05-31.json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from accord.edges import MB, BadRow, open_regular
from accord.formats.record import Row

CHANNEL = "slack_channel"
"""Key of a message's channel, which its file names only by its folder."""


def day_files(folder: Path) -> list[Path]:
    """Return the files of a channel in order; empty for a folder with other JSON files, or none."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() == ".json" and file.is_file())
    if not (files and all(map(is_day_file, files))):
        return []
    try:
        with open_regular(files[0]) as stream:
            return files if b'"ts"' in (stream.read(MB) or b"") else []
    except OSError:
        return []


def is_slack_channel(folder: Path) -> bool:
    """Return True if a folder holds the days of a channel."""
    return bool(day_files(folder))


def is_day_file(path: Path) -> bool:
    """Return True for a name such as `2026-05-31.json`."""
    digits = path.stem.split("-")
    is_date = [len(part) for part in digits] == [4, 2, 2] and "".join(digits).isdecimal()
    return is_date and path.suffix.lower() == ".json"


def with_channel(path: Path, rows: Iterator[Row | BadRow]) -> Iterator[Row | BadRow]:
    """Yield the rows of a file, the messages of Slack with the channel that the folder names."""
    channel = path.absolute().parent.name
    for row in rows:
        if isinstance(row, Row) and "ts" in row.fields and CHANNEL not in row.fields:
            row = Row(row.line, {**row.fields, CHANNEL: channel})
        yield row
