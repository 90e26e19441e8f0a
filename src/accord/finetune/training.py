"""Fine-tuning of a language model on verdicts: transformers' Trainer, with LoRA by peft (Hu et al., 2021).

The loss covers the answer's tokens alone. The Trainer orders the examples, takes the steps and writes the checkpoints
from which a stopped training continues with the same result. The epoch with the lowest validation loss is exported.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from accord.edges import BadInput, MissingExtra
from accord.embedded.huggingface import (
    OpenedModel,
    fingerprint_of,
    model_folder,
    open_folder,
    quiet_transformers,
    reason_of,
)
from accord.finetune.data import (
    EncodedPart,
    TrainingExample,
    batch_of,
    counts_of,
    digest_of,
    encode,
    encoder_batch_of,
)
from accord.methods import IssuePromptBuilder
from accord.models import MADE
from accord.version import __version__

ALL_LINEAR = "all-linear"
TRAINING = "training.json"
"""File in a training's folder: inputs and outcome."""
STATE = "trainer_state.json"
"""Last file that the Trainer writes into a checkpoint; one without it is incomplete."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training; a resumed run needs the same.

    Attributes:
        rank: Rank of LoRA's matrices; 0 trains all weights instead.
        alpha: Scale of LoRA's updates, which is alpha / rank.
        dropout: Dropout of LoRA's inputs, from 0 to below 1.
        learning_rate: Peak learning rate of AdamW, after the warm-up; it decays linearly to 0.
        warmup: Share of the steps in the warm-up, from 0 to below 1.
        weight_decay: Weight decay of AdamW.
        epochs: Passes over all examples; the one with the lowest validation loss is exported.
        batch: Examples per batch.
        accumulate: Batches per step.
        max_tokens: Maximum tokens of an example, prompt and answer together.
        checkpoint_every: Steps between checkpoints; each epoch ends with one too.
        seed: Seed of the order of examples, LoRA's initial weights and dropout.
        target_modules: Layers that LoRA adapts: `all-linear`, or names.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    learning_rate: float = 2e-4
    warmup: float = 0.03
    weight_decay: float = 0.0
    epochs: int = 3
    batch: int = 2
    accumulate: int = 8
    max_tokens: int = 2048
    checkpoint_every: int = 200
    seed: int = 0
    target_modules: str | tuple[str, ...] = ALL_LINEAR

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulate", "max_tokens", "checkpoint_every"):
            self._need(name, getattr(self, name) >= 1, "at least 1")
        for name in ("rank", "seed", "weight_decay"):
            self._need(name, getattr(self, name) >= 0, "at least 0")
        for name in ("dropout", "warmup"):
            self._need(name, 0 <= getattr(self, name) < 1, "from 0 to below 1")
        for name in ("learning_rate", "alpha"):
            self._need(name, getattr(self, name) > 0, "above 0")

    def _need(self, name: str, is_valid: bool, allowed: str) -> None:
        if not is_valid:
            raise BadInput(f"finetune: {name} must be {allowed}, got {getattr(self, name)}")

    def steps_per_epoch(self, examples: int) -> int:
        """Return the number of steps in a pass over `examples`."""
        return math.ceil(examples / (self.batch * self.accumulate))


@dataclass(frozen=True)
class Trained:
    """A finished training.

    Attributes:
        folder: Folder of checkpoints, for `export`.
        validation: Validation loss after each epoch: mean over turns of nats per token of the answer.
        training: Training loss of each epoch: mean over its steps of nats per token.
        epoch: The best epoch, from 0.
        step: The last step of that epoch; its checkpoint has the weights.
        lessons: Numbers of examples, shortened examples, and left-out examples of each part.
    """

    folder: Path
    validation: tuple[float, ...]
    training: tuple[float, ...]
    epoch: int
    step: int
    lessons: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return all fields but the folder."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    @classmethod
    def from_json(cls, folder: Path, row: Mapping[str, Any]) -> Trained:
        """Return the training of a row of `to_json`."""
        return cls(
            folder, tuple(row["validation"]), tuple(row["training"]), row["epoch"], row["step"], row["lessons"]
        )  # fmt: skip


OnStep = Callable[[int, int], None]
"""Called after each step with the number of steps done and of all steps."""


def train(
    base: str | Path,
    examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    guidance: IssuePromptBuilder,
    folder: str | Path,
    settings: TrainingSettings | None = None,
    *,
    resume: bool = False,
    on_step: OnStep | None = None,
) -> Trained:
    """Fine-tune a model, and keep the checkpoint of the epoch with the lowest validation loss.

    Args:
        base: A Hugging Face folder on this machine, which does not change.
        examples: Training examples.
        validation: Validation examples, of other dialogues.
        guidance: Prompts of the model.
        folder: Folder of checkpoints and outcome; empty, or with the training to resume.
        settings: Settings of the training.
        resume: True to continue from the latest checkpoint, with the same result as without a stop.
        on_step: Called after each step.

    Raises:
        BadInput: There is no such folder, no example for training or validation, or `folder` has a different training;
            or the validation loss is not a number.
        ModelError: transformers cannot open the base.
        MissingExtra: `accord[finetune]` is not installed.
    """
    settings, source, place = settings or TrainingSettings(), model_folder(base), Path(folder)
    opened = open_folder(source)
    encoded = [encode(part, guidance, opened, settings.max_tokens) for part in (examples, validation)]
    _check(encoded, examples, validation)
    made_from = {
        "base": {"name": source.resolve().name, "fingerprint": fingerprint_of(source)},
        "guidance": guidance.to_json(),
        "settings": asdict(settings),
        "examples": {"train": digest_of(examples), "validation": digest_of(validation)},
    }
    outcome = _begin(place, made_from, resume)
    if outcome is not None:
        return Trained.from_json(place, outcome)
    trained = _run(opened, encoded, settings, place, on_step)
    counts = {"train": counts_of(examples), "validation": counts_of(validation)}
    outcome = {**trained.to_json(), "counts": counts}
    _write(place, {"made_from": made_from, "outcome": outcome, "base_path": str(source)})
    return trained


def _check(encoded: Sequence[EncodedPart], *parts: Sequence[TrainingExample]) -> None:
    for name, rows, part in zip(("training", "validation"), encoded, parts, strict=True):
        if not rows.rows:
            raise BadInput(f"finetune: no example for {name}: {len(part)} given, left out: {dict(rows.left_out)}")
    dialogues = [{example.target.conversation for example in part} for part in parts]
    both = sorted(dialogues[0] & dialogues[1])
    if both:
        raise BadInput(f"finetune: {len(both)} dialogues are in training and validation, such as {both[0]!r}")


# --- the Trainer ------------------------------------------------------------------------------------------------------


def _run(
    opened: OpenedModel,
    encoded: Sequence[EncodedPart],
    settings: TrainingSettings,
    folder: Path,
    on_step: OnStep | None,
) -> Trained:
    """Take all steps from the latest checkpoint on, and find the best epoch."""
    training, validation = encoded
    trainer = _trainer(_adapt(opened.model, settings), training, validation, settings, folder, on_step)
    with warnings.catch_warnings(), quiet_transformers():
        _quiet_peft()
        with _checked_files(folder):
            trainer.train(resume_from_checkpoint=_latest(folder))
    state, per_epoch = trainer.state, settings.steps_per_epoch(len(training.rows))
    if state.best_global_step is None:
        raise BadInput("finetune: the validation loss is not a number after any epoch; lower the learning rate")
    losses = [row["loss"] for row in state.log_history if "loss" in row]
    return Trained(
        folder,
        tuple(row["eval_loss"] for row in state.log_history if "eval_loss" in row),
        tuple(sum(losses[start : start + per_epoch]) / per_epoch for start in range(0, len(losses), per_epoch)),
        state.best_global_step // per_epoch - 1,
        state.best_global_step,
        {"train": training.to_json(), "validation": validation.to_json()},
    )


def _trainer(
    model: Any,
    training: EncodedPart,
    validation: EncodedPart,
    settings: TrainingSettings,
    folder: Path,
    on_step: OnStep | None,
) -> Any:
    """Return transformers' Trainer with these settings, without reports to other services."""
    import torch
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    per_epoch = settings.steps_per_epoch(len(training.rows))
    arguments = TrainingArguments(
        output_dir=str(folder),
        seed=settings.seed,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=math.ceil(settings.warmup * settings.epochs * per_epoch),
        eval_strategy="epoch",
        per_device_eval_batch_size=1,  # gives the mean over turns for any `batch`
        prediction_loss_only=True,
        save_strategy="epoch",
        save_total_limit=1,  # in addition to the best one
        metric_for_best_model="loss",
        greater_is_better=False,
        logging_steps=1,
        disable_tqdm=True,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=not torch.cuda.is_available(),
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several GPUs must not enlarge a batch

    class CheckpointCallback(TrainerCallback):  # type: ignore[misc]
        """Write checkpoints and report progress; the last step of an epoch is evaluated before its checkpoint."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = state.global_step
            control.should_save = step % settings.checkpoint_every == 0 and step % per_epoch != 0
            if on_step is not None:
                on_step(step, state.max_steps)

    forward = (model.get_base_model() if settings.rank else model).forward
    cut = "logits_to_keep" in signature(forward).parameters
    collate = encoder_batch_of if model.config.is_encoder_decoder else partial(batch_of, cut=cut)
    trainer = Trainer(
        model, arguments, data_collator=collate, train_dataset=training.rows,
        eval_dataset=validation.rows, callbacks=[CheckpointCallback()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


def _adapt(model: Any, settings: TrainingSettings) -> Any:
    """Return the model with trainable weights: LoRA's matrices drawn by the seed, or all in float32 with rank 0."""
    import torch

    if settings.rank == 0:
        return model.float().requires_grad_(True)
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingExtra("LoRA", "finetune") from None
    modules = settings.target_modules
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=modules if isinstance(modules, str) else list(modules),
        task_type="SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM",
    )
    torch.manual_seed(settings.seed)
    try:
        with warnings.catch_warnings():
            _quiet_peft()
            return get_peft_model(model.float() if model.dtype == torch.float16 else model, config)
    except ValueError as error:
        raise BadInput(f"finetune: target_modules {modules!r} do not fit this model: {error}") from None


def _quiet_peft() -> None:
    """Hide a warning of peft 0.21 about an attribute that transformers 5.23 renamed."""
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)


# --- the folder -------------------------------------------------------------------------------------------------------


def _begin(folder: Path, made_from: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """Prepare an empty folder, or check the training of a folder.

    Returns:
        The outcome of a finished training, or None.
    """
    if not (folder / TRAINING).is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise BadInput(f"{folder} has files that are not a training. Use an empty folder")
        _write(folder, {"made_from": made_from})
        return None
    if not resume:
        raise BadInput(f"{folder} has a training already. Resume it, or use an empty folder")
    content = _read(folder)
    inputs = json.loads(json.dumps(made_from))
    changed = [name for name in inputs if content["made_from"].get(name) != inputs[name]]
    if changed:
        raise BadInput(f"{folder} has a training with different {', '.join(changed)}. Use an empty folder")
    return content.get("outcome")


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    """Write inputs and outcome of a training atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{TRAINING}.part"
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(folder / TRAINING)


def _read(folder: Path) -> dict[str, Any]:
    """Return inputs and outcome of a training."""
    try:
        content: dict[str, Any] = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
        content["made_from"]
    except OSError:
        raise BadInput(f"no training in {folder}: it has no {TRAINING}") from None
    except (ValueError, LookupError, TypeError):
        raise BadInput(f"{folder / TRAINING} is damaged") from None
    return content


def _checkpoint(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step}"


def _latest(folder: Path) -> str | None:
    """Return the latest complete checkpoint, and remove incomplete ones."""
    steps = []
    for path in folder.glob("checkpoint-*"):
        try:
            steps.append(json.loads((path / STATE).read_text(encoding="utf-8"))["global_step"])
        except (OSError, ValueError, LookupError):
            shutil.rmtree(path)
    return str(_checkpoint(folder, max(steps))) if steps else None


def export(training: str | Path, to: str | Path, base: str | Path | None = None) -> Path:
    """Write the best epoch's model as a Hugging Face folder, which opens as `hf:FOLDER`.

    Args:
        training: Folder of a finished training.
        to: A new or empty folder.
        base: Present folder of the base; by default the one of the training.

    Returns:
        The folder `to`.

    Raises:
        BadInput: The training is not finished, the base differs, or `to` is not empty.
        ModelError: transformers cannot open the base.
        MissingExtra: `accord[finetune]` is not installed.
    """
    folder, place = Path(training), Path(to)
    content = _read(folder)
    if "outcome" not in content:
        raise BadInput(f"the training in {folder} is not finished: resume it first")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"{place} is not empty. Use a new folder")
    made_from, outcome = content["made_from"], content["outcome"]
    source = model_folder(base if base is not None else content["base_path"])
    if fingerprint_of(source) != made_from["base"]["fingerprint"]:
        raise BadInput(f"{source} is not the {made_from['base']['name']!r} that was trained. Pass the base's path")
    best = _checkpoint(folder, outcome["step"])
    if not best.is_dir():
        raise BadInput(f"{folder} no longer has {best.name}, the best epoch. Train again in an empty folder")
    opened = open_folder(source)
    made = {"accord": __version__, **made_from, **outcome}
    try:
        with warnings.catch_warnings(), quiet_transformers(), _checked_files(place):
            _quiet_peft()
            _with_weights(opened.model, best, made_from["settings"]["rank"]).save_pretrained(place)
            opened.tokenizer.save_pretrained(place)
            (place / MADE).write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return place


@contextmanager
def _checked_files(folder: Path) -> Iterator[None]:
    """Turn errors of reading and writing checkpoints and weights into one-line errors; other errors pass."""
    from safetensors import SafetensorError

    try:
        yield
    except Exception as error:
        reason, text = reason_of(error), str(error)
        if type(error).__name__ in ("UnpicklingError", "EOFError") or "PytorchStreamReader" in text:
            raise BadInput(
                f"cannot resume from the last checkpoint in {folder}: PyTorch refuses it ({reason}); "
                "remove that checkpoint, or train in an empty folder"
            ) from None
        is_writer = "PytorchStreamWriter" in text or "inline_container" in text
        if not isinstance(error, OSError | SafetensorError) and not is_writer:
            raise
        for path in folder.glob("checkpoint-*"):
            if not (path / STATE).is_file():
                shutil.rmtree(path, ignore_errors=True)
        raise BadInput(
            f"cannot write {folder}: {reason}. Completed checkpoints are kept: free space and continue with --resume"
        ) from None


def _with_weights(base: Any, checkpoint: Path, rank: int) -> Any:
    """Return the base with a checkpoint's weights, in the base's precision."""
    if rank:
        from peft import PeftModel

        return PeftModel.from_pretrained(base, str(checkpoint)).merge_and_unload().to(base.dtype)
    return type(base).from_pretrained(
        checkpoint, config=base.config, dtype=base.dtype, local_files_only=True, use_safetensors=True
    )
