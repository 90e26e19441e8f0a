"""Training examples: a turn with the dialogue before it, and the verdict that a model should write."""

from __future__ import annotations

import json
import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, sendable
from accord.embedded.huggingface import OpenedModel, encoder_input, prompt_tokens
from accord.methods import IssuePromptBuilder, verdict_of
from accord.values import (
    Conversation,
    IssueAnnotation,
    Sample,
    Target,
    content_hash,
)


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """One turn with its verdict.

    Attributes:
        sample: The turn, given all turns before it.
        prompt: The prompt about the turn.
        answer: The verdict as JSON.
        score: Score of the turn, 1 to 5.
        types: Kinds of its issues.
    """

    sample: Sample
    prompt: str
    answer: str
    score: int
    types: frozenset[str]

    @property
    def target(self) -> Target:
        """Target of the turn."""
        return self.sample.target


def examples_of(
    pairs: Iterable[tuple[Conversation, IssueAnnotation]], guidance: IssuePromptBuilder
) -> list[TrainingExample]:
    """Return an example for each assessment of a turn, in order.

    Raises:
        BadInput: An assessment belongs to another conversation or to no turn, or a turn has two assessments.
    """
    seen: set[Target] = set()
    examples = []
    for conversation, assessment in pairs:
        target = assessment.target
        _check(conversation, target)
        if target in seen:
            raise BadInput(f"two assessments of {target}; pass those of one model only")
        seen.add(target)
        sample = Sample(conversation, target.turn)
        [message] = guidance.of_turn(sample).messages
        types = frozenset(issue.type for issue in assessment.issues)
        examples.append(
            TrainingExample(
                sample,
                sendable(message.content),
                sendable(json.dumps(verdict_of(assessment), ensure_ascii=False)),
                assessment.score,
                types,
            )
        )
    return examples


def digest_of(examples: Sequence[TrainingExample]) -> str:
    """Return a hash of examples in order."""
    return content_hash([[*example.target, example.prompt, example.answer] for example in examples], length=12)


def _check(conversation: Conversation, target: Target) -> None:
    if target.conversation != conversation.id:
        raise BadInput(f"the assessment of {target} is paired with conversation {conversation.id!r}")
    if target.turn is None or not 0 <= target.turn < len(conversation.turns):
        raise BadInput(
            f"the assessment of {target} belongs to no turn: {conversation.id!r} has {len(conversation.turns)} turns"
        )


SHARES = (0.7, 0.2, 0.1)
NO_ISSUE = "none"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Examples for training, validation and test; each dialogue is in one part."""

    train: tuple[TrainingExample, ...]
    validation: tuple[TrainingExample, ...]
    test: tuple[TrainingExample, ...]

    def counts(self) -> list[dict[str, Any]]:
        """Return a row per part: dialogues, turns, turns per score and per kind of issue."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return [{"part": name, **counts_of(examples)} for name, examples in parts.items()]


def counts_of(examples: Sequence[TrainingExample]) -> dict[str, Any]:
    """Count dialogues, turns, and turns per score and per kind of issue."""
    scores = Counter(example.score for example in examples)
    types = Counter(name for example in examples for name in example.types or {NO_ISSUE})
    return {
        "dialogues": len({example.target.conversation for example in examples}),
        "turns": len(examples),
        "scores": {str(score): scores[score] for score in sorted(scores)},
        "types": {name: types[name] for name in sorted(types)},
    }


def split_by_dialogue(
    examples: Sequence[TrainingExample], shares: tuple[float, float, float] = SHARES, seed: int = 0
) -> Parts:
    """Split examples by dialogue into three parts; the result does not depend on the order of the examples.

    Args:
        examples: The examples, which keep their order in each part.
        shares: Shares of turns for training, validation and test; each above 0, with sum 1.
        seed: Seed of the order of dialogues.

    Raises:
        BadInput: The shares are invalid, or there are fewer than three dialogues.
    """
    if len(shares) != 3 or min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise BadInput(f"invalid shares {shares}; allowed: three numbers above 0 with sum 1")
    names = sorted({example.target.conversation for example in examples})
    if len(names) < len(shares):
        raise BadInput(f"{len(names)} assessed dialogues are too few for {len(shares)} parts; assess more")
    random.Random(seed).shuffle(names)
    part = dict(zip(names, _assign(_labels(examples, names), np.array(shares)), strict=True))
    train, validation, test = (
        tuple(example for example in examples if part[example.target.conversation] == index) for index in range(3)
    )
    return Parts(train, validation, test)


def _labels(examples: Sequence[TrainingExample], names: Sequence[str]) -> Floats:
    """Return (dialogues, labels) numbers of turns with each label: any, each score, each kind of issue."""
    labels: list[list[Hashable]] = [["turn", example.score, *(example.types or {NO_ISSUE})] for example in examples]
    column = {label: n for n, label in enumerate(sorted({label for some in labels for label in some}, key=str))}
    row = {name: n for n, name in enumerate(names)}
    counts = np.zeros((len(names), len(column)))
    for example, some in zip(examples, labels, strict=True):
        for label in some:
            counts[row[example.target.conversation], column[label]] += 1
    return counts


def _assign(counts: Floats, shares: Floats) -> list[int]:
    """Return (dialogues,) parts such that Σ (have - target)² / (target · total) over parts and labels grows least."""
    total = counts.sum(axis=0)
    target = shares[:, None] * total
    have = np.zeros_like(target)
    rarest_first = np.argsort(-(counts / total).max(axis=1), kind="stable")
    part = np.zeros(len(counts), dtype=int)
    sizes = np.zeros(len(shares), dtype=int)
    for done, dialogue in enumerate(rarest_first):
        added = counts[dialogue]
        growth = ((2 * (have - target) * added + added**2) / (target * total)).sum(axis=1)
        if len(counts) - done <= (sizes == 0).sum():
            growth[sizes > 0] = np.inf  # every part gets at least one dialogue
        part[dialogue] = chosen = int(growth.argmin())
        have[chosen] += added
        sizes[chosen] += 1
    return part.tolist()


TOO_LONG = "too long even without the turns before it"


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tokens of an example, and the index of the answer's first one; the last token ends the answer."""

    tokens: tuple[int, ...]
    answer: int


@dataclass(frozen=True)
class EncodedPart:
    """The examples of a part as tokens.

    Attributes:
        rows: Encoded examples.
        left_out: Number of examples that were left out, by reason.
        shortened: Number of rows that lack turns at their beginning.
    """

    rows: tuple[Encoded, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    shortened: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the numbers of examples, shortened examples, and left-out examples by reason."""
        return {"learned": len(self.rows), "shortened": self.shortened, "left_out": dict(self.left_out)}


def encode(
    examples: Sequence[TrainingExample], guidance: IssuePromptBuilder, opened: OpenedModel, max_tokens: int
) -> EncodedPart:
    """Return examples as tokens, each of at most `max_tokens` and the model's context."""
    room = min(max_tokens, opened.context)
    rows: list[Encoded] = []
    left_out: Counter[str] = Counter()
    shortened = 0
    for example in examples:
        row, hidden = _encode_one(example, guidance, opened, room)
        if row is None:
            left_out[TOO_LONG] += 1
        else:
            if max(row.tokens) >= opened.vocabulary:
                raise BadInput(
                    f"finetune: the tokenizer writes token {max(row.tokens)}, but the model has only "
                    f"{opened.vocabulary:,}; use a base whose tokenizer and weights belong together"
                )
            rows.append(row)
            shortened += hidden > 0
    return EncodedPart(tuple(rows), dict(left_out), shortened)


def _encode_one(
    example: TrainingExample, guidance: IssuePromptBuilder, opened: OpenedModel, room: int
) -> tuple[Encoded | None, int]:
    """Return an example's tokens and the number of turns left out at its beginning.

    The tokens are `None` if the example is too long.
    """
    answer = opened.answer_tokens(example.answer)
    sample = example.sample
    assert sample.turn is not None

    def encoded(hidden: int) -> Encoded | None:
        shown = replace(sample, hidden=(0, hidden)) if hidden else sample
        prompt = prompt_tokens(opened.tokenizer, guidance.of_turn(shown).messages)
        prompt = encoder_input(opened, prompt) if opened.has_encoder else prompt
        return Encoded((*prompt, *answer), len(prompt)) if len(prompt) + len(answer) <= room else None

    fits = encoded(0)
    if fits is not None or sample.turn == 0:
        return fits, 0
    hidden = bisect_left(range(sample.turn), True, lo=1, key=lambda count: encoded(count) is not None)
    return encoded(hidden), hidden


IGNORED = -100
"""Label of a token without a loss."""


def encoder_batch_of(rows: Sequence[Encoded]) -> dict[str, Any]:
    """Return rows for an encoder-decoder model: prompts as input, answers as labels, both padded at their end."""
    import torch

    def padded(parts: Sequence[Sequence[int]], value: int) -> Any:
        longest = max(map(len, parts))
        return torch.tensor([[*part, *[value] * (longest - len(part))] for part in parts])

    return {
        "input_ids": padded([row.tokens[: row.answer] for row in rows], 0),
        "attention_mask": padded([[1] * row.answer for row in rows], 0),
        "labels": padded([row.tokens[row.answer :] for row in rows], IGNORED),
    }


def batch_of(rows: Sequence[Encoded], cut: bool) -> dict[str, Any]:
    """Return rows padded at their end, with the tokens of answers as labels.

    With `cut`, logits are computed for the last positions alone; logits of the prompts would need most of the memory.
    """
    import torch

    longest, first = max(len(row.tokens) for row in rows), min(row.answer for row in rows) - 1
    batch: dict[str, Any] = {"input_ids": [], "attention_mask": [], "labels": []}
    for row in rows:
        rest = longest - len(row.tokens)
        batch["input_ids"].append([*row.tokens, *[0] * rest])
        batch["attention_mask"].append([1] * len(row.tokens) + [0] * rest)
        batch["labels"].append([IGNORED] * row.answer + list(row.tokens[row.answer :]) + [IGNORED] * rest)
    batch = {name: torch.tensor(rows) for name, rows in batch.items()}
    if cut:
        batch |= {"labels": batch["labels"][:, first:], "logits_to_keep": longest - first}
    return batch
