"""The weights that are learned: LoRA's matrices beside a frozen model, or all of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.errors import BadInput, MissingExtra
from accord.finetune.settings import Settings

Tensors = Mapping[str, Any]


def adapted(model: Any, settings: Settings) -> Any:
    """The model with something to learn: LoRA's matrices drawn by the seed, or, with rank 0, everything in float32.

    Raises:
        BadInput: No layer is called as `target_modules` says.
        MissingExtra: `accord[finetune]` is not installed.
    """
    import torch

    torch.manual_seed(settings.seed)
    if settings.rank == 0:
        return model.float().requires_grad_(True)
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingExtra("LoRA", "finetune") from None
    modules = settings.target_modules
    shape = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=modules if isinstance(modules, str) else list(modules),
        task_type="CAUSAL_LM",
    )
    try:
        with warnings.catch_warnings():  # peft 0.21 reads what transformers 5.23 calls by another name
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            return get_peft_model(model.float() if model.dtype == torch.float16 else model, shape)
    except ValueError as error:
        raise BadInput(f"finetune: target_modules {modules!r} do not fit this model: {error}") from None


def learned(model: Any) -> dict[str, Any]:
    """The weights that are learned, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def save_tensors(tensors: Tensors, path: Path) -> None:
    """Write tensors as safetensors, whole or not at all."""
    from safetensors.torch import save_file

    part = path.with_name(f"{path.name}.part")
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, part)
    part.replace(path)


def load_learned(model: Any, path: Path) -> None:
    """Put saved weights into a model.

    Raises:
        BadInput: They are missing, damaged, or another model's.
    """
    import torch

    saved, own = read_tensors(path), learned(model)
    if saved.keys() != own.keys():
        raise BadInput(f"{path} holds the weights of another model, or of other settings")
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(saved[name])


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a file.

    Raises:
        BadInput: It is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found: dict[str, Any] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    return found
