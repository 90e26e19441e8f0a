"""A GGUF file of a Llama-shaped model, taken apart once: single-precision weights, its tokenizer, its sizes."""

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
"""Token types that text must never produce: control and user-defined."""
_DIGITS_APART = {"smollm": True, "gpt-2": False, "default": False}
_ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What fields of a wrong type, or sizes that do not fit each other, raise."""
_ELSEWHERE = "to run it in llama.cpp, name it to a judge as model: gguf:PATH"


def convert(path: Path, folder: Path) -> None:
    """Write a GGUF file's weights, tokenizer and sizes into a folder.

    The weights are dequantised: kept in their quantised form, they would give different answers on different
    paths of evaluation.

    Raises:
        BadInput: It is no GGUF file, or a model of another shape than Llama's.
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
    except _ODD as error:
        raise _damaged(path, error) from None
    strange = sorted(set(tensors) - _known_tensors(shape.layers))
    if strange or _REQUIRED - set(tensors):
        raise BadInput(
            f"{path.name} has other weights than a Llama ({(strange or ['some are missing'])[0]}); {_ELSEWHERE}"
        )
    if not all(np.isfinite(array).all() for array in tensors.values()):
        raise BadInput(f"{path.name} has weights that are no finite numbers; it may be damaged")
    try:
        tokenizer = _tokenizer(path, fields)
        whole = Llama(shape, {name: np.asarray(array, dtype=np.float32) for name, array in tensors.items()})
        with np.errstate(all="ignore"):
            whole.log_probabilities(whole.read([[0]], Prefix(shape))[0])  # sizes that do not fit show here
    except _ODD as error:
        raise _damaged(path, error) from None
    save_file(
        {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in tensors.items()}, folder / WEIGHTS
    )
    tokenizer.save(str(folder / TOKENIZER))
    about = {"shape": asdict(shape), "system": _system(str(fields.get("tokenizer.chat_template", "")))}
    (folder / CONFIG).write_text(json.dumps(about, indent=1), encoding="utf-8")


def _damaged(path: Path, error: Exception) -> BadInput:
    return BadInput(f"{path.name} cannot be read as GGUF ({type(error).__name__}); it may be damaged")


def _check_sizes(shape: LlamaShape, tensors: int) -> None:
    """Refuse sizes that no model has, before anything is made as large as they say.

    Raises:
        ValueError: Some are.
    """
    parts = (shape.layers, tensors), (shape.heads, shape.width), (shape.key_heads, shape.heads)
    whole = (*parts, (shape.head_width, shape.width), (shape.context, 1 << 24), (shape.width, 1 << 20))
    if any(not 0 < size <= most for size, most in whole):
        raise ValueError("a size that no model has")


def _known_tensors(layers: int) -> set[str]:
    """The names of the weights that the forward pass reads."""
    parts = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    inside = {f"blk.{layer}.{part}.weight" for layer in range(layers) for part in parts}
    return inside | _REQUIRED | {"output.weight"}


def _shape(path: Path, fields: Mapping[str, Any]) -> LlamaShape:
    architecture = fields.get("general.architecture")
    if architecture != "llama" or any(name.startswith("llama.rope.scaling") for name in fields):
        raise BadInput(f"{path.name} is a model of another shape ({architecture}) than Llama's; {_ELSEWHERE}")
    if "<|im_start|>" not in str(fields.get("tokenizer.chat_template")):
        raise BadInput(f"{path.name} has another chat format than ChatML; {_ELSEWHERE}")
    about = {name.removeprefix("llama."): value for name, value in fields.items()}
    heads, width = int(about["attention.head_count"]), int(about["embedding_length"])
    return LlamaShape(
        layers=int(about["block_count"]),
        heads=heads,
        key_heads=int(about.get("attention.head_count_kv", heads)),
        width=width,
        head_width=int(about.get("rope.dimension_count", width // heads)),
        context=int(about["context_length"]),
        rope_base=float(about.get("rope.freq_base", 10_000.0)),
        epsilon=float(about["attention.layer_norm_rms_epsilon"]),
    )


def _system(template: str) -> str:
    """Return the text that the chat template gives to the system if a chat has none; often empty."""
    for part in template.split("<|im_start|>system")[1:]:
        said, end, _ = part.partition("<|im_end|>")
        if end and said[:1].isspace() and not set("{'") & set(said):
            return said.lstrip()
    return ""


def _tokenizer(path: Path, fields: Mapping[str, Any]) -> Any:
    """The file's byte-pair vocabulary as a `tokenizers` tokenizer."""
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    kind, before = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or before not in _DIGITS_APART:
        raise BadInput(f"{path.name} has a vocabulary of another kind ({kind}, {before}); {_ELSEWHERE}")
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    pieces = [pre_tokenizers.Digits(individual_digits=True)] if _DIGITS_APART[before] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*pieces, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind in _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


@dataclass(frozen=True)
class Loaded:
    """What lies in a model's folder; `fingerprint` is the beginning of its weights' SHA-256."""

    folder: Path
    tensors: Mapping[str, NDArray[np.float32]]
    tokenizer: Any
    fingerprint: str


def load(name: str, kind: str) -> Loaded:
    """The files of a pulled model of a kind.

    Raises:
        BadInput: It is not on this machine, is of another kind, or is damaged.
        UnknownName: Nothing is called so.
        MissingExtra: `accord[embedded]` is not installed.
    """
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    folder, about = read_model(name, kind)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    return Loaded(folder, load_file(folder / WEIGHTS), tokenizer, about["files"][WEIGHTS][:12])
