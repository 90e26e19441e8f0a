"""Fine-tuning of a causal language model on verdicts: transformers' Trainer, with LoRA by peft (Hu et al., 2021).

The loss is of the answer's tokens alone. The Trainer orders the examples, takes the steps, and writes the checkpoints
from which it goes on as if it had never stopped; the epoch with the lowest validation loss becomes the model.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from accord.edges import BadInput, MissingExtra
from accord.embedded.huggingface import (
    Opened,
    fingerprint_of,
    model_folder,
    open_folder,
    quiet_transformers,
)
from accord.embedded.huggingface_trial import reason_of
from accord.finetune.data import Lesson, TrainingExample, batch_of, counts_of, digest_of, encode
from accord.methods import IssuePromptBuilder
from accord.models import MADE
from accord.version import __version__

ALL_LINEAR = "all-linear"
TRAINING = "training.json"
"""In a training's folder: what it is made from, and what came of it."""
STATE = "trainer_state.json"
"""What the Trainer writes last into a checkpoint: one without it was interrupted."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a small model is trained; a run that is resumed needs the same.

    Attributes:
        rank: Of LoRA's matrices; 0 trains all weights instead.
        alpha: LoRA's updates are scaled by alpha / rank.
        dropout: Share of LoRA's inputs that are left out at each step.
        learning_rate: Of AdamW, after the warm-up and before it falls to 0 along a line.
        warmup: Share of the steps in which it rises to that.
        weight_decay: Of AdamW.
        epochs: How often all examples are learned from; the epoch with the lowest validation loss is kept.
        batch: Examples that are read at once.
        accumulate: Batches that make one step.
        max_tokens: The longest example, prompt and answer together.
        checkpoint_every: Steps after which everything is saved; it is at the end of each epoch too.
        seed: Fixes the order of the examples, the first LoRA weights and the dropout.
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

    def _need(self, name: str, fits: bool, allowed: str) -> None:
        if not fits:
            raise BadInput(f"finetune: {name} must be {allowed}, got {getattr(self, name)}")

    def steps_an_epoch(self, examples: int) -> int:
        """Steps in which so many examples are learned from once."""
        return math.ceil(examples / (self.batch * self.accumulate))


@dataclass(frozen=True)
class Trained:
    """A finished training.

    Attributes:
        folder: Where it lies; `export` makes a model of it.
        validation: The validation loss after each epoch: the mean over turns of nats per token of the answer.
        training: The training loss of each epoch: the mean over its steps of nats per token.
        epoch: The one that was kept, from 0.
        step: The step after which that epoch ended; its checkpoint holds the weights.
        lessons: How many examples of each part were learned from, shortened, and left out for which reason.
    """

    folder: Path
    validation: tuple[float, ...]
    training: tuple[float, ...]
    epoch: int
    step: int
    lessons: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Everything but the folder."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    @classmethod
    def from_json(cls, folder: Path, row: Mapping[str, Any]) -> Trained:
        """The inverse of `to_json`."""
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
    """Teach a model, and keep the checkpoint of the epoch with the lowest validation loss.

    Args:
        base: A Hugging Face folder on this machine; it stays as it is.
        examples: What is learned from.
        validation: What the epochs are compared on; of other dialogues.
        guidance: How the model is asked.
        folder: Where checkpoints and the outcome are written; empty, or holding the training to resume.
        settings: How it is trained.
        resume: Go on from the latest checkpoint in the folder, where there is one, and end as if it had never stopped.
        on_step: Called after each step.

    Raises:
        BadInput: No such folder, nothing to learn from or to compare on, another training than what is resumed, or a
            validation loss that is not a number.
        ModelError: transformers cannot open the base.
        MissingExtra: `accord[finetune]` is not installed.
    """
    settings, source, place = settings or TrainingSettings(), model_folder(base), Path(folder)
    opened = open_folder(source)
    lessons = [encode(part, guidance, opened, settings.max_tokens) for part in (examples, validation)]
    _check(lessons, examples, validation)
    made_from = {
        "base": {"name": source.resolve().name, "fingerprint": fingerprint_of(source)},
        "guidance": guidance.to_json(),
        "settings": asdict(settings),
        "examples": {"train": digest_of(examples), "validation": digest_of(validation)},
    }
    done = _begin(place, made_from, resume)
    if done is not None:
        return Trained.from_json(place, done)
    trained = _run(opened, lessons, settings, place, on_step)
    counts = {"train": counts_of(examples), "validation": counts_of(validation)}
    outcome = {**trained.to_json(), "counts": counts}
    _write(place, {"made_from": made_from, "outcome": outcome, "base_path": str(source)})
    return trained


def _check(lessons: Sequence[Lesson], *parts: Sequence[TrainingExample]) -> None:
    for name, lesson, part in zip(("training", "validation"), lessons, parts, strict=True):
        if not lesson.rows:
            raise BadInput(f"finetune: no example for {name}: {len(part)} given, left out: {dict(lesson.left_out)}")
    dialogues = [{example.target.conversation for example in part} for part in parts]
    both = sorted(dialogues[0] & dialogues[1])
    if both:
        raise BadInput(f"finetune: {len(both)} dialogues are learned from and compared on, such as {both[0]!r}")


# --- the Trainer ------------------------------------------------------------------------------------------------------


def _run(
    opened: Opened, lessons: Sequence[Lesson], settings: TrainingSettings, folder: Path, on_step: OnStep | None
) -> Trained:
    """All steps from the latest checkpoint on, and which epoch was best."""
    learned, compared = lessons
    trainer = _trainer(_adapted(opened.model, settings), learned, compared, settings, folder, on_step)
    with warnings.catch_warnings(), quiet_transformers():
        _quiet_peft()
        with _checked_files(folder):
            trainer.train(resume_from_checkpoint=_latest(folder))
    state, an_epoch = trainer.state, settings.steps_an_epoch(len(learned.rows))
    if state.best_global_step is None:
        raise BadInput("finetune: the validation loss is not a number after any epoch; lower the learning rate")
    losses = [row["loss"] for row in state.log_history if "loss" in row]
    return Trained(
        folder,
        tuple(row["eval_loss"] for row in state.log_history if "eval_loss" in row),
        tuple(sum(losses[start : start + an_epoch]) / an_epoch for start in range(0, len(losses), an_epoch)),
        state.best_global_step // an_epoch - 1,
        state.best_global_step,
        {"train": learned.to_json(), "validation": compared.to_json()},
    )


def _trainer(
    model: Any, learned: Lesson, compared: Lesson, settings: TrainingSettings, folder: Path, on_step: OnStep | None
) -> Any:
    """Transformers' Trainer with these settings; nothing is reported or sent anywhere."""
    import torch
    from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

    an_epoch = settings.steps_an_epoch(len(learned.rows))
    arguments = TrainingArguments(
        output_dir=str(folder),
        seed=settings.seed,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup_steps=math.ceil(settings.warmup * settings.epochs * an_epoch),
        eval_strategy="epoch",
        per_device_eval_batch_size=1,  # the mean over turns, whatever `batch` is
        prediction_loss_only=True,
        save_strategy="epoch",
        save_total_limit=1,  # and the best one
        metric_for_best_model="loss",
        greater_is_better=False,
        logging_steps=1,
        disable_tqdm=True,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=not torch.cuda.is_available(),
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # a batch is what `batch` says on several GPUs too

    class Steps(TrainerCallback):  # type: ignore[misc]
        """Checkpoints within an epoch, and word of each step; after an epoch's last step it is compared first."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = state.global_step
            control.should_save = step % settings.checkpoint_every == 0 and step % an_epoch != 0
            if on_step is not None:
                on_step(step, state.max_steps)

    forward = (model.get_base_model() if settings.rank else model).forward
    cut = "logits_to_keep" in signature(forward).parameters
    trainer = Trainer(
        model, arguments, data_collator=lambda rows: batch_of(rows, cut), train_dataset=learned.rows,
        eval_dataset=compared.rows, callbacks=[Steps()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    return trainer


def _adapted(model: Any, settings: TrainingSettings) -> Any:
    """The model with something to learn: LoRA's matrices drawn by the seed, or, with rank 0, everything in float32.

    Raises:
        BadInput: No layer is called as `target_modules` says.
        MissingExtra: `accord[finetune]` is not installed.
    """
    import torch

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
    torch.manual_seed(settings.seed)
    try:
        with warnings.catch_warnings():
            _quiet_peft()
            return get_peft_model(model.float() if model.dtype == torch.float16 else model, shape)
    except ValueError as error:
        raise BadInput(f"finetune: target_modules {modules!r} do not fit this model: {error}") from None


def _quiet_peft() -> None:
    """Peft 0.21 reads what transformers 5.23 calls by another name."""
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)


# --- the folder -------------------------------------------------------------------------------------------------------


def _begin(folder: Path, made_from: Mapping[str, Any], resume: bool) -> dict[str, Any] | None:
    """Make an empty folder ready for a training, or make sure that the training in it can go on.

    Returns:
        The outcome of a training that is finished.

    Raises:
        BadInput: There is a training already and it is not to be resumed, one that is made from something else, or
            something that is no training.
    """
    if not (folder / TRAINING).is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise BadInput(f"{folder} holds something else than a training; name an empty folder")
        _write(folder, {"made_from": made_from})
        return None
    if not resume:
        raise BadInput(f"{folder} holds a training already: resume it, or name an empty folder")
    found = _read(folder)
    now = json.loads(json.dumps(made_from))
    other = [name for name in now if found["made_from"].get(name) != now[name]]
    if other:
        raise BadInput(f"{folder} holds a training with other {', '.join(other)}; name an empty folder")
    return found.get("outcome")


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    """Write what a training is made from and what came of it, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{TRAINING}.part"
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(folder / TRAINING)


def _read(folder: Path) -> dict[str, Any]:
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


def _checkpoint(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step}"


def _latest(folder: Path) -> str | None:
    """The latest checkpoint that was written to its end; those that were not are removed."""
    steps = []
    for path in folder.glob("checkpoint-*"):
        try:
            steps.append(json.loads((path / STATE).read_text(encoding="utf-8"))["global_step"])
        except (OSError, ValueError, LookupError):
            shutil.rmtree(path)
    return str(_checkpoint(folder, max(steps))) if steps else None


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
    content = _read(folder)
    if "outcome" not in content:
        raise BadInput(f"the training in {folder} is not finished: resume it first")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"{place} is not empty; name a new folder")
    made_from, outcome = content["made_from"], content["outcome"]
    source = model_folder(base if base is not None else content["base_path"])
    if fingerprint_of(source) != made_from["base"]["fingerprint"]:
        raise BadInput(f"{source} is not the {made_from['base']['name']!r} that was trained; give the base's path")
    best = _checkpoint(folder, outcome["step"])
    if not best.is_dir():
        raise BadInput(f"{folder} no longer holds {best.name}, the best of its epochs; train again in an empty folder")
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
    """Turn errors of reading and writing checkpoints and weights into one line; other errors pass.

    Raises:
        BadInput: A file in the folder cannot be written, or a checkpoint cannot be read.
    """
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
            f"cannot write {folder}: {reason}; what was done is kept, free space and go on with --resume"
        ) from None


def _with_weights(base: Any, checkpoint: Path, rank: int) -> Any:
    """The base with a checkpoint's weights in it, as one model of the base's precision."""
    if rank:
        from peft import PeftModel

        return PeftModel.from_pretrained(base, str(checkpoint)).merge_and_unload().to(base.dtype)
    return type(base).from_pretrained(
        checkpoint, config=base.config, dtype=base.dtype, local_files_only=True, use_safetensors=True
    )
