"""Header of a GGUF file, read with bounds on every count, size and offset.

llama.cpp and the `gguf` package trust the header: wrong sizes make them allocate too much or abort the process.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.edges import BadInput, format_size, open_regular

MOST_TENSORS, MOST_FIELDS, MOST_ENTRIES = 100_000, 10_000, 5_000_000
MOST_TEXT = 4 << 20
"""Maximum bytes of one text in a header."""
LONGEST_TEMPLATE = 64 << 10
"""Maximum bytes of a chat template, ten times a long one; parsing and rendering take quadratic time."""
_TEMPLATE = "tokenizer.chat_template"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_BOUNDS = {
    "block_count": (1, 1_000), "context_length": (1, 1 << 24), "embedding_length": (1, 1 << 20),
    "feed_forward_length": (1, 1 << 22), "vocab_size": (1, 1 << 24), "rope.dimension_count": (1, 1 << 16),
    "attention.head_count": (1, 1 << 14), "attention.head_count_kv": (1, 1 << 14),
    "attention.layer_norm_rms_epsilon": (1e-12, 0.1), "attention.layer_norm_epsilon": (1e-12, 0.1),
    "rope.freq_base": (1.0, 1e12),
}  # fmt: skip
"""Smallest and largest value of an architecture's fields; absent fields are not checked."""


class _Header:
    """Reader of consecutive values that refuses those that reach past the end of the file."""

    def __init__(self, stream: io.BufferedReader[Any], size: int) -> None:
        self._stream, self._left = stream, size

    def take(self, count: int) -> bytes:
        if count > self._left:
            raise ValueError("the header reaches past the end of the file")
        self._left -= count
        content = self._stream.read(count)
        if len(content) < count:
            raise ValueError("the file was cut off while it was read")
        return content

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def count(self, most: int, name: str) -> int:
        count = int(self.number("Q"))
        if count > most:
            raise ValueError(f"{count:,} {name}, at most {most:,} are read")
        return count

    def text(self) -> str:
        return self.take(self.count(MOST_TEXT, "bytes of a text")).decode("utf-8", "replace")

    def value(self) -> Any:
        """Return a number or a text, or the length of an array."""
        kind = self.number("I")
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY:
            return self.number(_code(kind))
        kind, length = self.number("I"), self.count(MOST_ENTRIES, "entries of an array")
        if kind == _TEXT:
            for _ in range(length):
                self.take(self.count(MOST_TEXT, "bytes of a text"))
        else:
            self.take(length * struct.calcsize(f"<{_code(kind)}"))
        return length


def _code(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError(f"a value of the unknown kind {kind}")
    return _NUMBERS[kind]


def check_header(path: Path) -> None:
    """Check the header of a GGUF file before a library opens it.

    Raises:
        BadInput: The file is not a GGUF file, is damaged, or a field is out of bounds.
        FileNotFoundError: There is no such file.
    """
    with io.BufferedReader(open_regular(path)) as stream:
        try:
            tensors, fields = _read(_Header(stream, path.stat().st_size))
            _check(tensors, fields)
        except ValueError as error:
            raise BadInput(f"{path.name} cannot be read as GGUF ({error}); it may be damaged") from None


def _read(header: _Header) -> tuple[int, dict[str, Any]]:
    if header.take(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = header.number("I")
    if version not in (2, 3):
        raise ValueError(f"version {version}, 2 and 3 are read")
    tensors, count = header.count(MOST_TENSORS, "tensors"), header.count(MOST_FIELDS, "fields")
    return tensors, {header.text(): header.value() for _ in range(count)}


def _check(tensors: int, fields: Mapping[str, Any]) -> None:
    """Check the sizes and constants of the model, and the length of its chat templates."""
    architecture = fields.get("general.architecture")
    for name, (least, most) in _BOUNDS.items():
        value = fields.get(f"{architecture}.{name}")
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not least <= value <= most:
            raise ValueError(f"{name} is {str(value)[:40]}, a number from {least:g} to {most:g} is needed")
    layers = fields.get(f"{architecture}.block_count", 0)
    if layers > tensors:
        raise ValueError(f"block_count is {layers}, the file has {tensors} tensors")
    for name, value in fields.items():
        if name.startswith(_TEMPLATE) and isinstance(value, str) and len(value) > LONGEST_TEMPLATE:
            raise ValueError(
                f"its chat template has {format_size(len(value))}, at most {format_size(LONGEST_TEMPLATE)} are read"
            )
