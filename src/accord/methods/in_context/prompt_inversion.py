"""Prompt inversion (section 4.2): a model writes task prompts from rated examples; the best ones are kept.

A task prompt has a text, an author, the examples it was written from, and an error; users can edit it in a file.
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

from accord.edges import BadInput, dump_yaml, load_yaml, parse_yaml, sendable, validate
from accord.methods.in_context.score_parsing import UNREADABLE, ParsedScore
from accord.methods.in_context.scoring_requests import NO_PROMPTS, RequestCounts, ScoreRequest, score_each
from accord.methods.in_context.template import PromptTemplate, RatedExample, RatedExamples, prompt_text, unit
from accord.models import MARGIN, ChatMessage, Failure, Prompt, PromptFlow, estimated_usage, unfenced
from accord.values import FrozenModel, Question, content_hash

Floats = NDArray[np.float64]

BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """A task prompt and its origin.

    Attributes:
        by: Model that wrote it, or `by hand`.
        examples: Targets of the examples shown to that model.
        error: Mean squared error on the training side, scores on [0, 1]; `None` before the test.
    """

    text: str
    by: str = BY_HAND
    examples: tuple[str, ...] = ()
    error: float | None = None

    @property
    def hash(self) -> str:
        """Tagged digest of the text; an edited prompt is another version."""
        return content_hash(self.text, length=12)

    def to_json(self) -> dict[str, Any]:
        """Return the prompt as JSON values."""
        origin = {"hash": self.hash, "by": self.by, "error": self.error, "examples": list(self.examples)}
        return {**origin, "text": self.text}


class _Entry(FrozenModel):
    text: str = Field(min_length=1)
    hash: str | None = None
    by: str = BY_HAND
    error: float | None = None
    examples: tuple[str, ...] = ()

    def prompt(self) -> TaskPrompt:
        """Return the prompt; one edited after it was written counts as by hand."""
        text = self.text.strip()
        if self.hash is not None and self.hash != content_hash(text, length=12):
            return TaskPrompt(text, f"{BY_HAND}, from {self.hash}" if self.by != BY_HAND else BY_HAND)
        return TaskPrompt(text, self.by, self.examples, self.error)


class _File(FrozenModel):
    dimension: str | None = None
    prompts: tuple[_Entry, ...] = Field(min_length=1)


def load_tasks(path: str | Path) -> list[TaskPrompt]:
    """Read task prompts, `prompts: [{text: TEXT}, ...]`, or an edited file of `fit in-context`."""
    return _prompts_in(load_yaml(Path(path)), str(path))


def read_tasks(text: str, where: str) -> list[TaskPrompt]:
    """Read task prompts from the text of such a file; `where` is its name in messages."""
    return _prompts_in(parse_yaml(text, where), where)


def _prompts_in(content: Any, where: str) -> list[TaskPrompt]:
    prompts = [entry.prompt() for entry in validate(_File, content, where).prompts]
    if not all(prompt.text for prompt in prompts):
        raise BadInput(f"{where}: empty prompt text")
    return prompts


def dump_tasks(dimension: str, prompts: Iterable[TaskPrompt]) -> str:
    """Return the prompts as YAML for `load_tasks`."""
    content = {"dimension": dimension, "prompts": [prompt.to_json() for prompt in prompts]}
    return dump_yaml(content)


def distinct(prompts: Sequence[TaskPrompt]) -> list[TaskPrompt]:
    """Return the prompts without later duplicates."""
    return list({" ".join(prompt.text.split()).casefold(): prompt for prompt in reversed(prompts)}.values())[::-1]


# --- prompts that a model writes ---------------------------------------------------------------------------------

EXAMPLES = 14
"""Rated examples shown to a writer."""
WRITTEN_TOKENS = 400
SHORTEST = 20
COPIED = 30
"""Length of a run of letters and digits that makes a prompt a copy of an example."""
SHORT, COPY, GONE_ON = NO_PROMPTS

_LEAD = re.compile(r"^\s*(?:\*\*)?(?:task )?prompt(?:\*\*)?\s*:(?:\*\*)?\s*", re.IGNORECASE)


def invert(
    wording: PromptTemplate,
    writer: str,
    examples: Sequence[RatedExample],
    draws: Sequence[Sequence[int]],
    counts: RequestCounts,
    own: str | None = None,
    context: int | None = None,
) -> PromptFlow[list[TaskPrompt]]:
    """Write task prompts from draws of examples; replies without a prompt are counted in `counts`.

    A draw shows as many of its examples as fit into `context`; `own` replaces the inversion prompt.
    """
    requests = [
        _fitting(wording, [examples[place] for place in draw], own, context, repeat)
        for repeat, draw in enumerate(draws)
    ]
    replies = yield [prompt for prompt, _ in requests]
    prompts: list[TaskPrompt] = []
    for reply, (_, examples_shown) in zip(replies, requests, strict=True):
        text = reply if isinstance(reply, Failure) else checked(reply.text, examples_shown)
        counts.count(text)
        if isinstance(text, str):
            prompts.append(TaskPrompt(text, writer, tuple(str(example.target) for example in examples_shown)))
    return distinct(prompts)


def _fitting(
    wording: PromptTemplate, shown: list[RatedExample], own: str | None, context: int | None, repeat: int
) -> tuple[Prompt, list[RatedExample]]:
    """Return the request for a prompt, with as many examples as fit."""
    text = wording.inversion(shown, own)
    names = tuple(dict.fromkeys(example.sample.conversation.id for example in shown))
    prompt = Prompt((ChatMessage("user", text),), WRITTEN_TOKENS, repeat=repeat, conversations=names)
    if context is None or len(shown) <= 1 or estimated_usage(prompt).total <= MARGIN * context:
        return prompt, shown
    return _fitting(wording, shown[1:], own, context, repeat)


def checked(text: str, shown: Sequence[RatedExample]) -> str | Failure:
    """Return the prompt in a reply, or a failure: too short, a copy of an example, or further examples."""
    content, after = unfenced(text)
    prompt = sendable(_LEAD.sub("", text if after else content)).strip().strip('"“”').strip()
    prompt = "\n".join(prompt.splitlines())
    if len(prompt) < SHORTEST:
        return Failure(SHORT, f"too short for a prompt: {prompt!r}")
    if "=====[" in prompt or re.search(r"^\[\d+\] \w+:", prompt, re.MULTILINE):
        return Failure(GONE_ON, f"the reply continues the examples: {prompt[:60]!r}")
    runs_shown = {run for example in shown for run in _runs(prompt_text(example.sample))}
    if any(run in runs_shown for run in _runs(prompt)):
        return Failure(COPY, "the reply quotes an example, which must not enter prompts about other conversations")
    return prompt


def _runs(text: str) -> set[str]:
    letters = "".join(re.findall(r"\w+", text.casefold()))
    return {letters[start : start + COPIED] for start in range(len(letters) - COPIED + 1)}


# --- which prompts stay ---------------------------------------------------------------------------------------------


def prompt_search(
    wording: PromptTemplate,
    candidates: Sequence[TaskPrompt],
    examples: RatedExamples,
    groups: Sequence[str],
    draws: Sequence[Sequence[int]],
    k: int,
    counts: RequestCounts,
) -> PromptFlow[list[tuple[TaskPrompt, int]]]:
    """Return the candidates with their squared error on all examples (eq. 1) and replies without a score, best first.

    `draws` has an order of the examples for each candidate: the first k outside an input's group are its
    demonstrations.
    """
    requests = [
        ScoreRequest(
            tuple(examples.all[place] for place in draw if groups[place] != groups[row])[:k],
            prompt.text,
            example.sample,
        )
        for prompt, draw in zip(candidates, draws, strict=True)
        for row, example in enumerate(examples.all)
    ]
    readings = yield from score_each(wording, requests, counts)
    by_candidate = [readings[start : start + len(examples)] for start in range(0, len(readings), len(examples))]
    errors = [squared_error(scores, examples.unit, wording.question) for scores in by_candidate]
    unscored = [
        sum(isinstance(score, Failure) and score.reason in UNREADABLE for score in scores) for scores in by_candidate
    ]
    order = sorted((error, place) for place, error in enumerate(errors) if error is not None)
    return [(replace(candidates[place], error=error), unscored[place]) for error, place in order]


def squared_error(readings: Sequence[ParsedScore | Failure], truth: Floats, question: Question) -> float | None:
    """Return the mean (ŷ - y)² on [0, 1] (eq. 1); `None` without any request.

    A reply without a score counts as the largest possible error; a temporary failure does not count.
    """
    errors = []
    for reading, true in zip(readings, truth, strict=True):
        if isinstance(reading, ParsedScore):
            errors.append((float(unit(np.array(reading.value), question)) - true) ** 2)
        elif reading.reason in UNREADABLE:
            errors.append(max(true, 1 - true) ** 2)
    return float(np.mean(errors)) if errors else None
