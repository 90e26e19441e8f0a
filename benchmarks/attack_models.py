"""Hostile GGUF files: headers with false sizes, constants and templates, opened for judging and for pulling."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial

from attacking import Case, Workshop, accord, judge_at

INT, FLOAT, TEXT, ARRAY = 4, 6, 8, 9
Field = tuple[str, int, object]
FIELDS: tuple[Field, ...] = (
    ("general.architecture", TEXT, "llama"), ("llama.context_length", INT, 512), ("llama.embedding_length", INT, 64),
    ("llama.block_count", INT, 1), ("llama.feed_forward_length", INT, 128), ("llama.attention.head_count", INT, 4),
    ("llama.attention.layer_norm_rms_epsilon", FLOAT, 1e-5), ("tokenizer.ggml.model", TEXT, "gpt2"),
    ("tokenizer.chat_template", TEXT, "<|im_start|>"),
)  # fmt: skip
CHANGES: dict[str, tuple[Field, ...]] = {
    "nothing changed, no weights": (),
    "2 billion layers": (("llama.block_count", INT, 2**31),),
    "more layers than weights": (("llama.block_count", INT, 500),),
    "no layers": (("llama.block_count", INT, 0),),
    "a context of 2 billion": (("llama.context_length", INT, 2**31),),
    "a context of 0": (("llama.context_length", INT, 0),),
    "an epsilon of NaN": (("llama.attention.layer_norm_rms_epsilon", FLOAT, float("nan")),),
    "an epsilon below 0": (("llama.attention.layer_norm_rms_epsilon", FLOAT, -1.0),),
    "an epsilon of 1e30": (("llama.attention.layer_norm_rms_epsilon", FLOAT, 1e30),),
    "an epsilon that is a text": (("llama.attention.layer_norm_rms_epsilon", TEXT, "small"),),
    "no heads": (("llama.attention.head_count", INT, 0),),
    "a template of 4 MB": (("tokenizer.chat_template", TEXT, "{% if x %}<|im_start|>system " * 140_000),),
    "a template with a loop": (("tokenizer.chat_template", TEXT, "<|im_start|>{% for i in range(9**9) %}"),),
}  # fmt: skip
RAW: dict[str, bytes] = {
    "a count of 2^62 tensors": b"GGUF" + struct.pack("<IQQ", 3, 2**62, 1),
    "a count of 2^62 fields": b"GGUF" + struct.pack("<IQQ", 3, 1, 2**62),
    "a text of 2^62 bytes": b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 2**62) + b"name",
    "an array of 2^62 entries": b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 1, 1, 1, b"n", ARRAY, INT, 2**62),
    "an array of arrays": b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 1, 1, 1, b"n", ARRAY, ARRAY, 1) * 2,
    "a kind that is none": b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 1, 1, b"n", 99) + bytes(99),
    "version 9": b"GGUF" + struct.pack("<IQQ", 9, 1, 1),
    "nothing": b"",
}


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _file(*changes: Field) -> bytes:
    """A GGUF file with a header and nothing else."""
    fields = {name: (kind, value) for name, kind, value in (*FIELDS, *changes)}
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, len(fields))
    for name, (kind, value) in fields.items():
        packed = _text(str(value)) if kind == TEXT else struct.pack("<I" if kind == INT else "<f", value)
        content += _text(name) + struct.pack("<I", kind) + packed
    return content + _text("token_embd.weight") + struct.pack("<IQQIQ", 2, 64, 8, 0, 0) + bytes(2048)


def models(shop: Workshop) -> Iterator[Case]:
    """`accord judge` and `accord models pull` with GGUF files of strangers."""
    files = {**{name: _file(*changes) for name, changes in CHANGES.items()}, **RAW}
    for name, content in files.items():
        yield f"judge: {name}", partial(_judged, shop, content)
        yield f"pull: {name}", partial(_pulled, shop, content)


def _judged(shop: Workshop, content: bytes) -> str:
    folder = shop.learned(models=judge_at("http://127.0.0.1:9/v1", "logprobs", model="gguf:odd.gguf"))
    (folder / "odd.gguf").write_bytes(content)
    return accord(folder, "judge", "--limit", "1", "--source", "rubric", deadline=60).fell()


def _pulled(shop: Workshop, content: bytes) -> str:
    folder = shop.bare()
    (folder / "odd.gguf").write_bytes(content)
    models = str(folder / "models")
    return accord(folder, "models", "pull", "odd", "--from", "odd.gguf", deadline=60, ACCORD_MODELS=models).fell()
