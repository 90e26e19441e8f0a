"""Requests for scores and what they come to: an ensemble of readings about each input (section 4.1), as evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from accord.edges import BudgetReached
from accord.evidence import Column, EvidenceTable
from accord.methods.in_context.rated_examples import Example
from accord.methods.in_context.score_parser import UNREADABLE, Reading, read
from accord.methods.in_context.template import PromptTemplate
from accord.models import OUT_OF_BUDGET, SCORER, Failure, Flow, Prompt, PromptFlow, Reply, answer_labels, to
from accord.values import Question, Sample, Target

Floats = NDArray[np.float64]
T = TypeVar("T")

STAND_IN = "stand-in"
"""The model's name in replies that are assumed where a flow is only priced."""
ROUND = 256
"""Requests that are under way together."""
TOO_LONG = "too long"
NO_PROMPTS = ("no prompt", "repeats an example", "goes on with the examples")
"""Reasons why a writer's reply is no prompt."""
LASTING = UNREADABLE | {TOO_LONG, *NO_PROMPTS}
"""Reasons of requests that will give nothing again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for a score: the demonstrations in their order, the task prompt, what is to be scored."""

    demonstrations: tuple[Example, ...]
    task: str
    sample: Sample


@dataclass
class Counts:
    """Counts of requests, of their failures by reason with one sentence each, and of demonstrations that did not fit.

    Of all `characters`, `repeated` ones repeat the beginning of the request before; `assumed` replies are stand-ins.
    """

    asked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    example: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    characters: int = 0
    repeated: int = 0
    assumed: int = 0

    def count(self, found: object) -> None:
        """Count what one request came to; anything but a failure is an answer.

        Raises:
            BudgetReached: It is a budget that was reached: what was answered before is kept.
        """
        self.asked += 1
        if isinstance(found, Failure):
            if found.reason == OUT_OF_BUDGET:
                raise BudgetReached(found.detail)
            self.failures[found.reason] += 1
            self.example.setdefault(found.reason, found.detail)

    @classmethod
    def total(cls, parts: Iterable[Counts]) -> Counts:
        """Several counts as one."""
        whole = cls()
        for each in parts:
            for name in ("asked", "dropped", "characters", "repeated", "assumed"):
                setattr(whole, name, getattr(whole, name) + getattr(each, name))
            whole.failures.update(each.failures)
            whole.example = {**each.example, **whole.example}
        return whole

    @property
    def failed(self) -> int:
        """The number of requests that gave nothing."""
        return self.failures.total()

    @property
    def unreadable(self) -> int:
        """The number of replies without a score on the scale."""
        return sum(count for reason, count in self.failures.items() if reason in UNREADABLE)

    @property
    def again(self) -> int:
        """The number of requests that failed for a reason that may pass."""
        return sum(count for reason, count in self.failures.items() if reason not in LASTING)

    @property
    def shared(self) -> float | None:
        """The share of all characters that a prefix cache saves; from 0 to 1."""
        return self.repeated / self.characters if self.characters else None


def score_each(wording: PromptTemplate, asked: Sequence[Asked], counts: Counts) -> PromptFlow[list[Reading | Failure]]:
    """A reading for each request, in their order; `counts` says what they came to.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
    """
    found: list[Reading | Failure] = [Failure(TOO_LONG, "the input alone does not fit into the context")] * len(asked)
    before = ""
    begins = [([str(example.target) for example in one.demonstrations], one.task) for one in asked]
    order = sorted(range(len(asked)), key=begins.__getitem__)
    for start in range(0, len(order), ROUND):
        prompts: dict[int, Prompt] = {}
        for place in order[start : start + ROUND]:
            one = asked[place]
            made = wording.prompt(one.demonstrations, one.task, one.sample)
            if made is not None:
                prompts[place], dropped = made
                counts.dropped += dropped
        for prompt in prompts.values():
            text = prompt.messages[-1].content
            counts.characters += len(text)
            counts.repeated += common(before, text)
            before = text
        replies: Sequence[Reply | Failure] = yield list(prompts.values())
        for (place, prompt), reply in zip(prompts.items(), replies, strict=True):
            found[place] = read(wording, prompt, reply)
            counts.assumed += isinstance(reply, Reply) and reply.model == STAND_IN
        for place in order[start : start + ROUND]:
            counts.count(found[place])
    return found


def common(one: str, other: str) -> int:
    """The length of the longest common beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


BLOCK, SPREAD = "in-context", "in-context:spread"
"""The prefix of the columns' names, and the column of the answers' standard deviation."""
LEAST_ANSWERED = 0.5
"""An input with fewer of its requests answered has no score."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The answers of several requests about one input.

    Attributes:
        shares: (K,) the mean of their distributions.
        value: The mean of their scores.
        spread: Their standard deviation.
        dropped: How many gave no score.
    """

    shares: tuple[float, ...]
    value: float
    spread: float
    dropped: int = 0


def ensemble_of(readings: Sequence[Reading | Failure]) -> Ensemble | Failure:
    """The mean of the distributions; a failure where more than half of the requests gave no score."""
    said = [reading for reading in readings if isinstance(reading, Reading)]
    lost = [reading for reading in readings if isinstance(reading, Failure)]
    if len(said) < LEAST_ANSWERED * len(readings) or not said:
        [(reason, count)] = Counter(failure.reason for failure in lost).most_common(1)
        return Failure(reason, f"{count} of {len(readings)} requests")
    shares = np.mean([reading.shares for reading in said], axis=0)
    values = np.array([reading.value for reading in said])
    return Ensemble(tuple((shares / shares.sum()).tolist()), float(values.mean()), float(values.std()), len(lost))


def ask_ensembles(
    wording: PromptTemplate, asked: Sequence[Sequence[Asked]], counts: Counts, purpose: str
) -> Flow[list[Ensemble | Failure]]:
    """The scorer's ensemble about each input, from the requests about it.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
    """
    flat = [one for each in asked for one in each]
    readings = iter((yield from to_scorer(wording, score_each(wording, flat, counts), purpose)))
    return [ensemble_of(list(islice(readings, len(each)))) for each in asked]


def to_scorer(wording: PromptTemplate, flow: PromptFlow[T], purpose: str) -> Flow[T]:
    """A flow of requests for scores, addressed to the scorer; the scale's scores in turn stand in for answers."""
    question = wording.question
    labels = list(answer_labels(question.scale)) if wording.reads_options else list(question.scale.options)
    said = cycle([str(label) for label in labels] or [f"{question.scale.numbers[0]:g}"])

    def stand_in(prompt: Prompt) -> Reply:
        label = next(said)
        return Reply(label, STAND_IN, {label: 1.0})

    return to(SCORER, flow, purpose, question, stand_in)


def as_evidence(
    question: Question, signature: str, found: Sequence[tuple[Target, Ensemble | Failure]]
) -> EvidenceTable:
    """Ensembles as a table: one column per option, and how far the answers were apart."""
    options = question.scale.numbers
    columns = [Column(f"{BLOCK}={option:.12g}", signature, question.id, option) for option in options]
    columns.append(Column(SPREAD, signature))
    names = [column.name for column in columns]
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    for target, said in found:
        rows[target] = {}
        if isinstance(said, Failure):
            absences[target, question.id] = f"{said.reason} ({said.detail})" if said.detail else said.reason
        else:
            rows[target] = dict(zip(names, (*said.shares, said.spread), strict=True))
    return EvidenceTable.from_rows(columns, rows, absences)
