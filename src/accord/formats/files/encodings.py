"""Encodings of text files: UTF-8, UTF-16 with a byte-order mark, and Windows-1252 as spreadsheets write it."""

from __future__ import annotations

import codecs
import logging
import re
from functools import lru_cache
from pathlib import Path

from accord.edges import MB, BadInput, open_unpacked

_SCANNED = 16 * MB
UTF8, UTF16, WINDOWS = "utf-8-sig", "utf-16", "cp1252"
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
WINDOWS_TEXT = (
    "is not UTF-8 and was read as Windows-1252 (cp1252), the encoding of older spreadsheets. If letters such as ä or é "
    "look wrong, save it as UTF-8"
)
_NO_TEXT = re.compile(rb"[\x00\x81\x8d\x8f\x90\x9d]")
"""Bytes that no text in Windows-1252 has."""


def encoding_of(path: Path) -> str:
    """Return the encoding of a text file: `utf-8-sig`, `utf-16`, or `cp1252` with a warning in the log.

    Without a byte-order mark, a file is UTF-8 if its first megabytes can be decoded. Otherwise it is Windows-1252,
    unless most of its other characters are valid UTF-8: then it is a damaged file.

    Raises:
        BadInput: The file does not have one of these encodings, or is damaged.
    """
    about = path.stat()
    return _encoding(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=256)
def _encoding(path: Path, size: int, changed: int) -> str:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    valid = invalid = 0
    has_other_bytes = False
    with open_unpacked(path) as stream:
        if stream.peek(2)[:2] in BYTE_ORDER_MARKS:
            return UTF16
        for _ in range(_SCANNED // MB):
            chunk = stream.read(MB)
            text = decoder.decode(chunk, final=not chunk)
            if not text.isascii():
                broken = text.count("\ufffd")
                invalid += broken
                valid += sum(not character.isascii() for character in text) - broken
            has_other_bytes = has_other_bytes or _NO_TEXT.search(chunk) is not None
            if not chunk:
                break
    if not invalid:
        return UTF8
    if has_other_bytes or valid > invalid:
        raise BadInput(f"{path} is not UTF-8; save it as UTF-8")
    logging.getLogger("accord").warning("%s %s", path, WINDOWS_TEXT)
    return WINDOWS
