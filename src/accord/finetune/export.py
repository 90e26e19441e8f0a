"""A finished training as a plain Hugging Face folder: LoRA merged into its base, and how it was made beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from accord.errors import BadInput
from accord.finetune.checkpoints import BEST, read_training
from accord.finetune.settings import Settings
from accord.finetune.weights import adapted, load_learned
from accord.llm.hf_folder import MADE, fingerprint_of, model_folder, open_folder, without_bars
from accord.version import __version__


def export(training: str | Path, to: str | Path, base: str | Path | None = None) -> Path:
    """Write the best epoch's model, which opens as `hf:FOLDER` and anywhere else.

    Args:
        training: The folder of a finished training.
        to: A new or empty folder.
        base: Where the base lies now; by default, where it lay.

    Returns:
        The folder `to`.

    Raises:
        BadInput: The training is not finished, its base is another one, or `to` is not empty.
        ModelError: transformers cannot open the base.
        MissingExtra: `accord[finetune]` is not installed.
    """
    folder, place = Path(training), Path(to)
    content = read_training(folder)
    if "outcome" not in content:
        raise BadInput(f"the training in {folder} is not finished: resume it first")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"{place} is not empty; name a new folder")
    made_from = content["made_from"]
    source = model_folder(base if base is not None else content["base_path"])
    if fingerprint_of(source) != made_from["base"]["fingerprint"]:
        raise BadInput(f"{source} is not the {made_from['base']['name']!r} that was trained; give the base's path")
    opened, settings = open_folder(source), Settings.from_json(made_from["settings"])
    model = _with_best(opened.model, settings, folder)
    with without_bars():
        model.save_pretrained(place)
        opened.tokenizer.save_pretrained(place)
    (place / MADE).write_text(json.dumps(_made(content), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return place


def _with_best(base: Any, settings: Settings, folder: Path) -> Any:
    """The base with the learned weights in it, as one model."""
    import torch

    kind = base.dtype
    with torch.random.fork_rng(devices=[]):
        model = adapted(base, settings)
    load_learned(model, folder / BEST)
    return (model if settings.rank == 0 else model.merge_and_unload()).to(kind)


def _made(content: dict[str, Any]) -> dict[str, Any]:
    """How the model was made, as JSON, without a path of this machine."""
    outcome = {name: value for name, value in content["outcome"].items() if name != "folder"}
    return {"accord": __version__, **content["made_from"], **outcome}
