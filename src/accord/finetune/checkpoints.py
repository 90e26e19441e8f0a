"""Where a training stands, on disk: learned weights and the optimizer's as safetensors, everything else as JSON.

A training folder holds `training.json` (how it is made, and what came of it), `best.safetensors` (the weights of the
best epoch so far) and `step-000200/`, the latest checkpoint. Randomness needs no place: it follows from the seed and
the step.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accord.errors import BadInput
from accord.finetune.weights import learned, load_learned, read_tensors, save_tensors

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
