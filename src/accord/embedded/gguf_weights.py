"""Conversion of a GGUF file with the Llama architecture to single-precision weights, tokenizer and sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, MissingExtra
from accord.embedded.catalogue import CONFIG, TOKENIZER, WEIGHTS, read_model
from accord.embedded.gguf_header import check_header
from accord.embedded.llama import Llama, LlamaShape, Prefix

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
        _check_sizes(shape, len(tensors))
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


def _check_sizes(shape: LlamaShape, tensors: int) -> None:
    """Check sizes before anything of that size is allocated.

    Raises:
        ValueError: A size is impossible.
    """
    bounds = [
        (shape.layers, tensors),
        (shape.heads, shape.width),
        (shape.key_heads, shape.heads),
        (shape.head_width, shape.width),
        (shape.context, 1 << 24),
        (shape.width, 1 << 20),
    ]
    if any(not 0 < size <= most for size, most in bounds):
        raise ValueError("an impossible size")


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


@dataclass(frozen=True)
class Loaded:
    """Files of a model; `fingerprint` is the beginning of the SHA-256 of the weights."""

    folder: Path
    tensors: Mapping[str, NDArray[np.float32]]
    tokenizer: Any
    fingerprint: str


def load(name: str, kind: str) -> Loaded:
    """Load the files of a downloaded model.

    Raises:
        BadInput: The model is not downloaded, of another kind, or damaged.
        UnknownName: No model has this name.
        MissingExtra: `accord[embedded]` is not installed.
    """
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    folder, description = read_model(name, kind)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    return Loaded(folder, load_file(folder / WEIGHTS), tokenizer, description["files"][WEIGHTS][:12])
