"""Training examples: a turn with the dialogue before it, and the verdict that a model should write about it."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, sendable
from accord.embedded.huggingface import Opened, prompt_tokens
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
    """One turn to learn from.

    Attributes:
        sample: The turn, given all turns before it.
        prompt: What is asked about it.
        answer: The verdict as JSON.
        score: Its score, from 1 to 5.
        types: The kinds of issues it has.
    """

    sample: Sample
    prompt: str
    answer: str
    score: int
    types: frozenset[str]

    @property
    def target(self) -> Target:
        """The turn."""
        return self.sample.target


def examples_of(
    pairs: Iterable[tuple[Conversation, IssueAnnotation]], guidance: IssuePromptBuilder
) -> list[TrainingExample]:
    """An example for each assessment of a turn, in their order.

    Raises:
        BadInput: An assessment is of another conversation, of no turn of it, or the second one of its turn.
    """
    seen: set[Target] = set()
    found = []
    for conversation, assessment in pairs:
        target = assessment.target
        _check(conversation, target)
        if target in seen:
            raise BadInput(f"two assessments of {target}; take those of one maker")
        seen.add(target)
        sample = Sample(conversation, target.turn)
        [message] = guidance.of_turn(sample).messages
        types = frozenset(issue.type for issue in assessment.issues)
        found.append(
            TrainingExample(
                sample,
                sendable(message.content),
                sendable(json.dumps(verdict_of(assessment), ensure_ascii=False)),
                assessment.score,
                types,
            )
        )
    return found


def digest_of(examples: Sequence[TrainingExample]) -> str:
    """A tagged digest of what is learned from, in its order."""
    return content_hash([[*example.target, example.prompt, example.answer] for example in examples], length=12)


def _check(conversation: Conversation, target: Target) -> None:
    if target.conversation != conversation.id:
        raise BadInput(f"an assessment of {target} stands beside the conversation {conversation.id!r}")
    if target.turn is None or not 0 <= target.turn < len(conversation.turns):
        raise BadInput(f"an assessment of {target} is of no turn: {conversation.id!r} has {len(conversation.turns)}")


SHARES = (0.7, 0.2, 0.1)
NO_ISSUE = "none"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Examples to learn from, to choose by, and to test on; no dialogue is in two of them."""

    train: tuple[TrainingExample, ...]
    validation: tuple[TrainingExample, ...]
    test: tuple[TrainingExample, ...]

    def counts(self) -> list[dict[str, Any]]:
        """What each part has, a row each: dialogues, turns, turns a score, turns a kind of issue."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return [{"part": name, **counts_of(examples)} for name, examples in named.items()]


class TokenCounts(TypedDict):
    """How many dialogues and turns there are, and how many turns of each score and kind of issue."""

    dialogues: int
    turns: int
    scores: dict[str, int]
    types: dict[str, int]


def counts_of(examples: Sequence[TrainingExample]) -> TokenCounts:
    """How many dialogues and turns there are, and how many turns of each score and kind of issue."""
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
    """Deal out whole dialogues to three parts; the same for equal arguments, whatever the order of the examples.

    Args:
        examples: What is dealt out; in each part they keep their order.
        shares: Of the turns, for training, validation and test; each above 0, 1 in all.
        seed: Which of equally suited dialogues goes where.

    Raises:
        BadInput: The shares are no shares, or there are fewer than three dialogues.
    """
    if len(shares) != 3 or min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise BadInput(f"shares are three numbers above 0 that add up to 1, got {shares}")
    names = sorted({example.target.conversation for example in examples})
    if len(names) < len(shares):
        raise BadInput(f"{len(names)} assessed dialogues cannot make {len(shares)} parts; assess more")
    random.Random(seed).shuffle(names)
    part = dict(zip(names, _dealt(_labels(examples, names), np.array(shares)), strict=True))
    train, validation, test = (
        tuple(example for example in examples if part[example.target.conversation] == place) for place in range(3)
    )
    return Parts(train, validation, test)


def _labels(examples: Sequence[TrainingExample], names: Sequence[str]) -> Floats:
    """(dialogues, labels) how many turns of each dialogue have each label: any, each score, each kind of issue."""
    of_example: list[list[Hashable]] = [["turn", example.score, *(example.types or {NO_ISSUE})] for example in examples]
    place = {label: n for n, label in enumerate(sorted({one for own in of_example for one in own}, key=str))}
    row = {name: n for n, name in enumerate(names)}
    counts = np.zeros((len(names), len(place)))
    for example, own in zip(examples, of_example, strict=True):
        for label in own:
            counts[row[example.target.conversation], place[label]] += 1
    return counts


def _dealt(counts: Floats, shares: Floats) -> list[int]:
    """(dialogues) the part of each, where Σ (have - wanted)² / (wanted · total) over parts and labels grows least."""
    total = counts.sum(axis=0)
    wanted = shares[:, None] * total
    have = np.zeros_like(wanted)
    rarest_first = np.argsort(-(counts / total).max(axis=1), kind="stable")
    part = np.zeros(len(counts), dtype=int)
    sizes = np.zeros(len(shares), dtype=int)
    for done, dialogue in enumerate(rarest_first):
        own = counts[dialogue]
        growth = ((2 * (have - wanted) * own + own**2) / (wanted * total)).sum(axis=1)
        if len(counts) - done <= (sizes == 0).sum():
            growth[sizes > 0] = np.inf  # every part gets at least one dialogue
        part[dialogue] = chosen = int(growth.argmin())
        have[chosen] += own
        sizes[chosen] += 1
    return part.tolist()


TOO_LONG = "too long even without the turns before it"
SHORTENED = "shortened"


@dataclass(frozen=True, slots=True)
class Encoded:
    """One example's tokens, and the place of the answer's first one; the last token ends the answer."""

    tokens: tuple[int, ...]
    answer: int


@dataclass(frozen=True)
class Lesson:
    """The examples of a part as tokens.

    Attributes:
        rows: Those that are learned from.
        left_out: How many are not, by reason.
        shortened: How many of the rows lack turns at their beginning.
    """

    rows: tuple[Encoded, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    shortened: int = 0

    def to_json(self) -> dict[str, Any]:
        """How many examples there are, were shortened, and were left out for which reason."""
        return {"learned": len(self.rows), "shortened": self.shortened, "left_out": dict(self.left_out)}


def encode(
    examples: Sequence[TrainingExample], guidance: IssuePromptBuilder, opened: Opened, max_tokens: int
) -> Lesson:
    """The examples as tokens, each of at most `max_tokens` and of what the model reads."""
    room = min(max_tokens, opened.context)
    rows: list[Encoded] = []
    left_out: Counter[str] = Counter()
    shortened = 0
    for example in examples:
        row, hidden = _fitted(example, guidance, opened, room)
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
    return Lesson(tuple(rows), dict(left_out), shortened)


def _fitted(
    example: TrainingExample, guidance: IssuePromptBuilder, opened: Opened, room: int
) -> tuple[Encoded | None, int]:
    """The tokens with as few turns left out at the beginning as fit, and how many those are; `None` where none do."""
    answer = [*opened.tokenizer(example.answer, add_special_tokens=False).input_ids, opened.end]
    sample = example.sample
    assert sample.turn is not None

    def asked(hidden: int) -> list[int]:
        shown = replace(sample, hidden=(0, hidden)) if hidden else sample
        return prompt_tokens(opened.tokenizer, guidance.of_turn(shown).messages)

    def encoded(hidden: int) -> Encoded | None:
        prompt = asked(hidden)
        return Encoded((*prompt, *answer), len(prompt)) if len(prompt) + len(answer) <= room else None

    low, high = 0, sample.turn
    fits = encoded(low)
    if fits is not None or high == 0:
        return fits, 0
    low, fits = 1, encoded(high)
    while fits is not None and low < high:
        middle = (low + high) // 2
        shorter = encoded(middle)
        low, high, fits = (low, middle, shorter) if shorter is not None else (middle + 1, high, fits)
    return fits, high


IGNORED = -100
"""The label of a token that nothing is learned from."""


def batch_of(rows: Sequence[Encoded], cut: bool) -> dict[str, Any]:
    """Rows padded at their end, with the answers' tokens as labels.

    With `cut`, of the last positions alone: logits of the prompts, which are most of the memory, are never computed.
    """
    import torch

    longest, first = max(len(row.tokens) for row in rows), min(row.answer for row in rows) - 1
    batch: dict[str, Any] = {"input_ids": [], "attention_mask": [], "labels": []}
    for row in rows:
        rest = longest - len(row.tokens)
        batch["input_ids"].append([*row.tokens, *[0] * rest])
        batch["attention_mask"].append([1] * len(row.tokens) + [0] * rest)
        batch["labels"].append([IGNORED] * row.answer + list(row.tokens[row.answer :]) + [IGNORED] * rest)
    batch = {name: torch.tensor(each) for name, each in batch.items()}
    if cut:
        batch |= {"labels": batch["labels"][:, first:], "logits_to_keep": longest - first}
    return batch
