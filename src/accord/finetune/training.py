"""LoRA fine-tuning of any causal language model on verdicts (SODA-EVAL, section 5.2; Hu et al., 2021).

The loss is of the answer's tokens alone. The order of the examples follows from the seed and the epoch, the dropout
from the seed and the step: a training that is resumed ends where an uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from accord.finetune import checkpoints
from accord.finetune.checkpoints import BEST, State, adapted, learned, save_tensors
from accord.finetune.data import Encoded, Example, Lesson, Settings, counts_of, digest_of, encode
from accord.methods import IssuePromptBuilder
from accord.models.embedded.hf import Opened, fingerprint_of, model_folder, open_folder
from accord.values import BadInput

LARGEST_GRADIENT = 1.0
"""Gradients are scaled down to this norm."""
IGNORED = -100
"""The label of a token that nothing is learned from."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training stands: steps done of how many, the epoch from 0, and the last step's loss, nats a token."""

    step: int
    steps: int
    epoch: int
    loss: float


OnStep = Callable[[Progress], None]


@dataclass(frozen=True)
class Trained:
    """A finished training.

    Attributes:
        folder: Where it lies; `export` makes a model of it.
        validation: The validation loss after each epoch, in nats a token.
        training: The training loss of each epoch.
        epoch: The one that was kept, from 0.
        lessons: How many examples of each part were learned from, shortened, and left out for which reason.
    """

    folder: Path
    validation: tuple[float, ...]
    training: tuple[float, ...]
    epoch: int
    lessons: dict[str, Any]


def train(
    base: str | Path,
    examples: Sequence[Example],
    validation: Sequence[Example],
    guidance: IssuePromptBuilder,
    folder: str | Path,
    settings: Settings | None = None,
    *,
    resume: bool = False,
    on_step: OnStep | None = None,
) -> Trained:
    """Teach a model, and keep the weights of the epoch with the lowest validation loss.

    Args:
        base: A Hugging Face folder on this machine; it stays as it is.
        examples: What is learned from.
        validation: What the epochs are compared on; of other dialogues.
        guidance: How the model is asked.
        folder: Where checkpoints and the outcome are written; empty, or holding the training to resume.
        settings: How it is trained.
        resume: Go on with the training in the folder, where there is one, and end as if it had never stopped.
        on_step: Told after each step.

    Raises:
        BadInput: No such folder, nothing to learn from or to compare on, or another training than what is resumed.
        ModelError: transformers cannot open the base.
        MissingExtra: `accord[finetune]` is not installed.
    """
    settings, source, place = settings or Settings(), model_folder(base), Path(folder)
    opened = open_folder(source)
    lessons = [encode(part, guidance, opened, settings.max_tokens) for part in (examples, validation)]
    _check(lessons, examples, validation)
    made_from = {
        "base": {"name": source.resolve().name, "fingerprint": fingerprint_of(source)},
        "guidance": guidance.to_json(),
        "settings": settings.to_json(),
        "examples": {"train": digest_of(examples), "validation": digest_of(validation)},
    }
    checkpoints.begin(place, made_from, resume)
    state = _run(opened, lessons, settings, place, on_step)
    assert state.best is not None
    told = {name: lesson.to_json() for name, lesson in zip(("train", "validation"), lessons, strict=True)}
    trained = Trained(place, state.validation, state.training, state.best, told)
    counts = {"train": counts_of(examples), "validation": counts_of(validation)}
    outcome = {**asdict(trained), "folder": None, "counts": counts}
    checkpoints.write_training(place, {"made_from": made_from, "outcome": outcome, "base_path": str(source)})
    return trained


def _check(lessons: Sequence[Lesson], *parts: Sequence[Example]) -> None:
    for name, lesson, part in zip(("training", "validation"), lessons, parts, strict=True):
        if not lesson.rows:
            raise BadInput(f"finetune: no example for {name}: {len(part)} given, left out: {dict(lesson.left_out)}")
    dialogues = [{example.target.conversation for example in part} for part in parts]
    both = sorted(dialogues[0] & dialogues[1])
    if both:
        raise BadInput(f"finetune: {len(both)} dialogues are learned from and compared on, such as {both[0]!r}")


def _run(opened: Opened, lessons: Sequence[Lesson], settings: Settings, folder: Path, on_step: OnStep | None) -> State:
    """All steps from the latest checkpoint on; where the training stands at the end."""
    import torch

    rows, held_out = (lesson.rows for lesson in lessons)
    each = math.ceil(len(rows) / (settings.batch * settings.accumulate))
    steps = each * settings.epochs
    with torch.random.fork_rng(devices=[]):
        model = adapted(opened.model, settings)
        optimizer = torch.optim.AdamW(
            list(learned(model).values()), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        state = checkpoints.restore(folder, model, optimizer)
        while state.step < steps:
            epoch, place = divmod(state.step, each)
            loss = _step(model, optimizer, _drawn(rows, settings, epoch, place), settings, state.step, steps)
            state = replace(state, step=state.step + 1, running=state.running + loss)
            if place == each - 1:
                state = _epoch_done(state, each, _loss_of(model, held_out, settings.batch))
                if state.best == epoch:
                    save_tensors(learned(model), folder / BEST)
            if place == each - 1 or state.step % settings.checkpoint_every == 0:
                checkpoints.save(folder, state, model, optimizer)
            if on_step is not None:
                on_step(Progress(state.step, steps, epoch, loss))
    return state


def _epoch_done(state: State, steps: int, loss: float) -> State:
    training = (*state.training, state.running / steps)
    return replace(state, validation=(*state.validation, loss), training=training, running=0.0)


def _drawn(rows: Sequence[Encoded], settings: Settings, epoch: int, place: int) -> list[Encoded]:
    """The examples of one step of an epoch, whose order follows from the seed and the epoch."""
    order = np.random.default_rng([settings.seed, epoch]).permutation(len(rows))
    size = settings.batch * settings.accumulate
    return [rows[index] for index in order[place * size : (place + 1) * size]]


def _step(model: Any, optimizer: Any, rows: Sequence[Encoded], settings: Settings, step: int, steps: int) -> float:
    """One step of AdamW; the mean loss of its answers' tokens, in nats."""
    import torch

    torch.manual_seed(settings.seed * 1_000_003 + step)
    model.train()
    wanted, total = _wanted(rows), 0.0
    for group in _groups(rows, settings.batch):
        loss = _loss_sum(model, group) / wanted
        loss.backward()
        total += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(list(learned(model).values()), LARGEST_GRADIENT)
    for group in optimizer.param_groups:
        group["lr"] = settings.rate_at(step, steps)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def _loss_of(model: Any, rows: Sequence[Encoded], batch: int) -> float:
    """The mean loss of all answers' tokens, in nats, with nothing dropped out."""
    import torch

    model.eval()
    with torch.no_grad():
        return sum(float(_loss_sum(model, group)) for group in _groups(rows, batch)) / _wanted(rows)


def _loss_sum(model: Any, rows: Sequence[Encoded]) -> Any:
    """-Σ log p(token | all before it) over the answers' tokens of a batch, padded at its end."""
    import torch

    longest = max(len(row.tokens) for row in rows)
    tokens = torch.zeros((len(rows), longest), dtype=torch.long)
    mask, labels = torch.zeros_like(tokens), torch.full_like(tokens, IGNORED)
    for place, row in enumerate(rows):
        length, own = len(row.tokens), torch.tensor(row.tokens)
        tokens[place, :length], mask[place, :length] = own, 1
        labels[place, row.answer : length] = own[row.answer :]
    on = next(model.parameters()).device
    first = min(row.answer for row in rows) - 1
    logits = _logits(model, tokens.to(on), mask.to(on), longest - first)[:, :-1]
    following = labels[:, first + 1 :].to(on)
    said = following != IGNORED
    return torch.nn.functional.cross_entropy(logits[said].float(), following[said], reduction="sum")


def _logits(model: Any, tokens: Any, mask: Any, last: int) -> Any:
    """(rows, last, vocabulary) of the last positions; most models need not compute those before, which are the most."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    kept = {"logits_to_keep": last} if "logits_to_keep" in signature(base.forward).parameters else {}
    return model(input_ids=tokens, attention_mask=mask, use_cache=False, **kept).logits[:, -last:]


def _wanted(rows: Sequence[Encoded]) -> int:
    return sum(len(row.tokens) - row.answer for row in rows)


def _groups(rows: Sequence[Encoded], size: int) -> Iterator[Sequence[Encoded]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
