"""The weights that are learned: LoRA's matrices beside a frozen model, or all of them."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accord.finetune.data import Settings
from accord.models.embedded.hf import MADE, fingerprint_of, model_folder, open_folder, without_bars
from accord.values import BadInput, MissingExtra
from accord.version import __version__

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


TRAINING, BEST = "training.json", "best.safetensors"
_WEIGHTS, _OPTIMIZER, _STATE = "weights.safetensors", "optimizer.safetensors", "state.json"
_BETWEEN = "|"


@dataclass(frozen=True)
class State:
    """Where a training stands.

    Attributes:
        step: Steps that are done.
        validation: The validation loss after each epoch that is done, in nats a token.
        training: The training loss of each of these epochs.
        running: Sum over the steps of the epoch under way of their losses.
    """

    step: int = 0
    validation: tuple[float, ...] = ()
    training: tuple[float, ...] = ()
    running: float = 0.0

    @property
    def best(self) -> int | None:
        """The epoch with the lowest validation loss, the earliest of equals, counted from 0."""
        return min(range(len(self.validation)), key=self.validation.__getitem__) if self.validation else None


def begin(folder: Path, made_from: Mapping[str, Any], resume: bool) -> None:
    """Make an empty folder ready for a training, or make sure that the training in it can go on.

    Raises:
        BadInput: There is a training already and it is not to be resumed, one that is made from something else, or
            something that is no training.
    """
    path = folder / TRAINING
    if not path.is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise BadInput(f"{folder} holds something else than a training; name an empty folder")
        write_training(folder, {"made_from": made_from})
        return
    if not resume:
        raise BadInput(f"{folder} holds a training already: resume it, or name an empty folder")
    before = read_training(folder)["made_from"]
    now = json.loads(json.dumps(made_from))
    other = [name for name in now if before.get(name) != now[name]]
    if other:
        raise BadInput(f"{folder} holds a training with other {', '.join(other)}; name an empty folder")


def write_training(folder: Path, content: Mapping[str, Any]) -> None:
    """Write what a training is made from and what came of it, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{TRAINING}.part"
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(folder / TRAINING)


def read_training(folder: Path) -> dict[str, Any]:
    """What a training is made from, and what came of it.

    Raises:
        BadInput: There is none in the folder, or it is damaged.
    """
    try:
        found: dict[str, Any] = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
        found["made_from"]
    except OSError:
        raise BadInput(f"no training in {folder}: it has no {TRAINING}") from None
    except (ValueError, LookupError, TypeError):
        raise BadInput(f"{folder / TRAINING} is damaged") from None
    return found


def save(folder: Path, state: State, model: Any, optimizer: Any) -> None:
    """Write a checkpoint, whole or not at all, and remove the earlier one."""
    weights = learned(model)
    part = folder / "checkpoint.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    save_tensors(weights, part / _WEIGHTS)
    moments = {
        f"{name}{_BETWEEN}{key}": value
        for name, weight in weights.items()
        for key, value in optimizer.state.get(weight, {}).items()
    }
    save_tensors(moments, part / _OPTIMIZER)
    (part / _STATE).write_text(json.dumps(asdict(state)) + "\n", encoding="utf-8")
    earlier, now = _checkpoints(folder), folder / f"step-{state.step:06d}"
    if now not in earlier:
        part.rename(now)
    shutil.rmtree(part, ignore_errors=True)
    for old in earlier:
        if old != now:
            shutil.rmtree(old)


def restore(folder: Path, model: Any, optimizer: Any) -> State:
    """Put the latest checkpoint into a model and its optimizer; the beginning where there is none.

    Raises:
        BadInput: It is damaged.
    """
    found = _checkpoints(folder)
    if not found:
        return State()
    load_learned(model, found[-1] / _WEIGHTS)
    weights = learned(model)
    for named, value in read_tensors(found[-1] / _OPTIMIZER).items():
        name, _, key = named.rpartition(_BETWEEN)
        weight = weights[name]
        optimizer.state[weight][key] = value if key == "step" else value.to(weight.device)
    try:
        row = json.loads((found[-1] / _STATE).read_text(encoding="utf-8"))
        return State(row["step"], tuple(row["validation"]), tuple(row["training"]), row["running"])
    except (OSError, ValueError, LookupError, TypeError):
        raise BadInput(f"{found[-1]} is damaged: remove it to begin again") from None


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


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
