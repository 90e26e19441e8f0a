"""GGUF files: a check of the header, and the conversion of Llama models to single-precision weights and a tokenizer.

llama.cpp and the `gguf` package trust the header: wrong sizes make them allocate too much or abort the process. So
every count, size and offset is read with bounds first.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from accord.edges import BadInput, MissingExtra, format_size, open_regular
from accord.embedded.llama import Llama, LlamaShape, Prefix

WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
"""Files that a GGUF file is converted to."""

# --- the header -----------------------------------------------------------------------------------------------------

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


# --- conversion -----------------------------------------------------------------------------------------------------

_REQUIRED = {"token_embd.weight", "output_norm.weight"}
_CONTROL = {3, 4}
"""Token types that text must never become: control and user-defined."""
_SPLITS_DIGITS = {"smollm": True, "gpt-2": False, "default": False}
_INVALID = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Exceptions that fields of a wrong type or inconsistent sizes raise."""
_ELSEWHERE = "to run it with llama.cpp, configure model: gguf:PATH"


def convert(path: Path, folder: Path) -> None:
    """Write a GGUF file's weights, tokenizer and sizes into a folder.

    The weights are dequantized, since quantized weights give different answers on different paths of evaluation.

    Raises:
        BadInput: The file is not a GGUF file, or has another architecture than Llama.
        MissingExtra: `accord[embedded]` is not installed.
    """
    try:
        import gguf
        from safetensors.numpy import save_file
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    check_header(path)
    try:
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    except Exception as error:  # the reader trusts every count and offset of the file
        raise _damaged(path, error) from None
    try:
        shape = _shape(path, fields)
    except _INVALID as error:
        raise _damaged(path, error) from None
    unknown = sorted(set(tensors) - _known_tensors(shape.layers))
    if unknown or _REQUIRED - set(tensors):
        raise BadInput(
            f"{path.name} has other weights than a Llama ({(unknown or ['some are missing'])[0]}); {_ELSEWHERE}"
        )
    if not all(np.isfinite(array).all() for array in tensors.values()):
        raise BadInput(f"{path.name} has weights that are not finite; it may be damaged")
    try:
        tokenizer = _tokenizer(path, fields)
        llama = Llama(shape, {name: np.asarray(array, dtype=np.float32) for name, array in tensors.items()})
        with np.errstate(all="ignore"):
            llama.log_probabilities(llama.read([[0]], Prefix(shape))[0])  # fails for inconsistent sizes
    except _INVALID as error:
        raise _damaged(path, error) from None
    save_file(
        {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in tensors.items()}, folder / WEIGHTS
    )
    tokenizer.save(str(folder / TOKENIZER))
    config = {"shape": asdict(shape), "system": _system(str(fields.get("tokenizer.chat_template", "")))}
    (folder / CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")


def _damaged(path: Path, error: Exception) -> BadInput:
    return BadInput(f"{path.name} cannot be read as GGUF ({type(error).__name__}); it may be damaged")


def _known_tensors(layers: int) -> set[str]:
    """Return the names of the weights in the forward pass."""
    parts = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    layer_weights = {f"blk.{layer}.{part}.weight" for layer in range(layers) for part in parts}
    return layer_weights | _REQUIRED | {"output.weight"}


def _shape(path: Path, fields: Mapping[str, Any]) -> LlamaShape:
    architecture = fields.get("general.architecture")
    if architecture != "llama" or any(name.startswith("llama.rope.scaling") for name in fields):
        raise BadInput(f"{path.name} has another architecture ({architecture}) than Llama; {_ELSEWHERE}")
    if "<|im_start|>" not in str(fields.get("tokenizer.chat_template")):
        raise BadInput(f"{path.name} has another chat format than ChatML; {_ELSEWHERE}")
    llama = {name.removeprefix("llama."): value for name, value in fields.items()}
    heads, width = int(llama["attention.head_count"]), int(llama["embedding_length"])
    return LlamaShape(
        layers=int(llama["block_count"]),
        heads=heads,
        key_heads=int(llama.get("attention.head_count_kv", heads)),
        width=width,
        head_width=int(llama.get("rope.dimension_count", width // heads)),
        context=int(llama["context_length"]),
        rope_base=float(llama.get("rope.freq_base", 10_000.0)),
        epsilon=float(llama["attention.layer_norm_rms_epsilon"]),
    )


def _system(template: str) -> str:
    """Return the chat template's default system message, which may be empty."""
    for part in template.split("<|im_start|>system")[1:]:
        text, end, _ = part.partition("<|im_end|>")
        if end and text[:1].isspace() and not set("{'") & set(text):
            return text.lstrip()
    return ""


def _tokenizer(path: Path, fields: Mapping[str, Any]) -> Any:
    """Return the file's byte-pair vocabulary as a `tokenizers` tokenizer."""
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    kind, pre = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or pre not in _SPLITS_DIGITS:
        raise BadInput(f"{path.name} has a vocabulary of another kind ({kind}, {pre}); {_ELSEWHERE}")
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    pieces = [pre_tokenizers.Digits(individual_digits=True)] if _SPLITS_DIGITS[pre] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*pieces, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind in _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer
