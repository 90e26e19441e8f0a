"""Prompt inversion (section 4.2): a model writes task prompts from rated examples; those with the least error stay.

A task prompt is an artefact: who wrote it from which examples, how well it did, and a file that people can edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accord.edges import BadInput, load_yaml, parse_yaml, sendable, validate
from accord.methods.in_context.scoring_requests import NO_PROMPTS, UNREADABLE, Asked, Counts, Reading, score_each
from accord.methods.in_context.template import Example, Examples, PromptTemplate, prompt_text, unit
from accord.models import MARGIN, ChatMessage, Failure, Prompt, PromptFlow, estimated_usage
from accord.values import FrozenModel, Question, content_hash

Floats = NDArray[np.float64]

BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """A task prompt and its origin.

    Attributes:
        text: The prompt.
        by: The model that wrote it, or `by hand`.
        examples: What that model was shown: the examples' targets.
        error: Mean squared error on the training side, scores on [0, 1]; `None` before it was tried.
    """

    text: str
    by: str = BY_HAND
    examples: tuple[str, ...] = ()
    error: float | None = None

    @property
    def hash(self) -> str:
        """A tagged digest of the text: a prompt that is edited is another version."""
        return content_hash(self.text, length=12)

    def to_json(self) -> dict[str, Any]:
        """The prompt as plain JSON values."""
        about = {"hash": self.hash, "by": self.by, "error": self.error, "examples": list(self.examples)}
        return {**about, "text": self.text}


class _Entry(FrozenModel):
    text: str = Field(min_length=1)
    hash: str | None = None
    by: str = BY_HAND
    error: float | None = None
    examples: tuple[str, ...] = ()

    def prompt(self) -> TaskPrompt:
        """The prompt; one that was edited since it was written is by hand."""
        text = self.text.strip()
        if self.hash is not None and self.hash != content_hash(text, length=12):
            return TaskPrompt(text, f"{BY_HAND}, from {self.hash}" if self.by != BY_HAND else BY_HAND)
        return TaskPrompt(text, self.by, self.examples, self.error)


class _File(FrozenModel):
    dimension: str | None = None
    prompts: tuple[_Entry, ...] = Field(min_length=1)


def load_tasks(path: str | Path) -> list[TaskPrompt]:
    """Read task prompts: `prompts: [{text: TEXT}, ...]`, or a file that `fit in-context` wrote, edited or not.

    Raises:
        BadInput: The file cannot be read, has unknown keys, or holds no prompt.
    """
    return _prompts_in(load_yaml(Path(path)), str(path))


def read_tasks(text: str, where: str) -> list[TaskPrompt]:
    """`load_tasks` from the text of such a file; messages call it `where`."""
    return _prompts_in(parse_yaml(text, where), where)


def _prompts_in(content: Any, where: str) -> list[TaskPrompt]:
    found = [entry.prompt() for entry in validate(_File, content, where).prompts]
    if not all(prompt.text for prompt in found):
        raise BadInput(f"{where}: a prompt has no text")
    return found


def dump_tasks(dimension: str, prompts: Iterable[TaskPrompt]) -> str:
    """The prompts as YAML that `load_tasks` reads back."""
    import yaml

    content = {"dimension": dimension, "prompts": [prompt.to_json() for prompt in prompts]}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def distinct(prompts: Sequence[TaskPrompt]) -> list[TaskPrompt]:
    """The prompts without those whose text came before."""
    return list({" ".join(prompt.text.split()).casefold(): prompt for prompt in reversed(prompts)}.values())[::-1]


# --- prompts that a model writes ---------------------------------------------------------------------------------

EXAMPLES = 14
"""Rated examples that a writer is shown."""
WRITTEN_TOKENS = 400
SHORTEST = 20
COPIED = 30
"""A run of so many letters and digits of an example makes a prompt a copy of it."""
SHORT, COPY, GONE_ON = NO_PROMPTS

_LEAD = re.compile(r"^\s*(?:\*\*)?(?:task )?prompt(?:\*\*)?\s*:(?:\*\*)?\s*", re.IGNORECASE)
_FENCED = re.compile(r"^\s*```\w*\s*(.*?)\s*```\s*$", re.DOTALL)


def invert(
    wording: PromptTemplate,
    writer: str,
    examples: Sequence[Example],
    draws: Sequence[Sequence[int]],
    counts: Counts,
    own: str | None = None,
    context: int | None = None,
) -> PromptFlow[list[TaskPrompt]]:
    """Task prompts written from draws of examples; replies that are none are counted in `counts`.

    Where `context` is given, a draw shows as many of its examples as fit.

    Raises:
        BadInput: The user's own inversion prompt names a place that there is not.
        BudgetReached: The budget is spent; the same call goes on from there.
    """
    made = [
        _fitting(wording, [examples[place] for place in draw], own, context, repeat)
        for repeat, draw in enumerate(draws)
    ]
    replies = yield [prompt for prompt, _ in made]
    found: list[TaskPrompt] = []
    for reply, (_, seen) in zip(replies, made, strict=True):
        text = reply if isinstance(reply, Failure) else checked(reply.text, seen)
        counts.count(text)
        if isinstance(text, str):
            found.append(TaskPrompt(text, writer, tuple(str(example.target) for example in seen)))
    return distinct(found)


def _fitting(
    wording: PromptTemplate, shown: list[Example], own: str | None, context: int | None, repeat: int
) -> tuple[Prompt, list[Example]]:
    """The request for a prompt, with as many of the examples as fit."""
    text = wording.inversion(shown, own)
    prompt = Prompt((ChatMessage("user", text),), WRITTEN_TOKENS, repeat=repeat)
    if context is None or len(shown) <= 1 or estimated_usage(prompt).total <= MARGIN * context:
        return prompt, shown
    return _fitting(wording, shown[1:], own, context, repeat)


def checked(text: str, shown: Sequence[Example]) -> str | Failure:
    """The prompt in a reply, or why there is none: too short, a copy of an example, or more of the examples."""
    inside = _FENCED.match(text)
    plain = sendable(_LEAD.sub("", inside[1] if inside else text)).strip().strip('"“”').strip()
    plain = "\n".join(plain.splitlines())
    if len(plain) < SHORTEST:
        return Failure(SHORT, f"the reply is no prompt: {plain!r}")
    if "=====[" in plain or re.search(r"^\[\d+\] \w+:", plain, re.MULTILINE):
        return Failure(GONE_ON, f"the reply goes on with the examples: {plain[:60]!r}")
    told = {run for example in shown for run in _runs(prompt_text(example.sample))}
    if any(run in told for run in _runs(plain)):
        return Failure(COPY, "the reply quotes an example, which other conversations' prompts may not hold")
    return plain


def _runs(text: str) -> set[str]:
    letters = "".join(re.findall(r"\w+", text.casefold()))
    return {letters[start : start + COPIED] for start in range(len(letters) - COPIED + 1)}


# --- which prompts stay ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PromptSearch:
    """The prompts that were tried, with their errors, the best first; by prompt, how many replies held no score."""

    prompts: Sequence[TaskPrompt]
    unreadable: Sequence[int]


def prompt_search(
    wording: PromptTemplate,
    candidates: Sequence[TaskPrompt],
    examples: Examples,
    groups: Sequence[str],
    draws: Sequence[Sequence[int]],
    k: int,
    counts: Counts,
) -> PromptFlow[PromptSearch]:
    """Each candidate's squared error on all examples (eq. 1), the best first.

    Per candidate `draws` has an order of the examples: the first k outside an input's group are its demonstrations.
    """
    asked = [
        Asked(
            tuple(examples.all[place] for place in draw if groups[place] != groups[row])[:k],
            prompt.text,
            example.sample,
        )
        for prompt, draw in zip(candidates, draws, strict=True)
        for row, example in enumerate(examples.all)
    ]
    readings = yield from score_each(wording, asked, counts)
    said = [readings[start : start + len(examples)] for start in range(0, len(readings), len(examples))]
    errors = [squared_error(each, examples.unit, wording.question) for each in said]
    lost = [sum(isinstance(one, Failure) and one.reason in UNREADABLE for one in each) for each in said]
    order = sorted((error, place) for place, error in enumerate(errors) if error is not None)
    return PromptSearch([replace(candidates[p], error=e) for e, p in order], [lost[p] for _, p in order])


def squared_error(readings: Sequence[Reading | Failure], truth: Floats, question: Question) -> float | None:
    """Mean (ŷ - y)² on [0, 1] (eq. 1); `None` where nothing could be asked.

    A reply without a score counts as the largest error that there can be; a request that failed for a passing reason
    counts for nothing.
    """
    errors = []
    for reading, true in zip(readings, truth, strict=True):
        if isinstance(reading, Reading):
            errors.append((float(unit(np.array(reading.value), question)) - true) ** 2)
        elif reading.reason in UNREADABLE:
            errors.append(max(true, 1 - true) ** 2)
    return float(np.mean(errors)) if errors else None
