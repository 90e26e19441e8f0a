"""Requests for scores: counts of their results, and ensembles of several as evidence (section 4.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TypeVar

import numpy as np

from accord.edges import BudgetReached
from accord.evidence import Column, EvidenceTable
from accord.methods.in_context.score_parsing import UNREADABLE, ParsedScore, read
from accord.methods.in_context.template import PromptTemplate, RatedExample
from accord.models import (
    OUT_OF_BUDGET,
    SCORER,
    Failure,
    Flow,
    Prompt,
    PromptFlow,
    Reply,
    answer_labels,
    to_role,
)
from accord.values import Question, Sample, Target

T = TypeVar("T")

STAND_IN = "stand-in"
"""Model name in stand-in replies of a plan."""
ROUND = 256
"""Requests sent together."""
TOO_LONG = "too long"
NO_PROMPTS = ("no prompt", "repeats an example", "goes on with the examples")
"""Reasons why a writer's reply is not a prompt."""
LASTING = UNREADABLE | {TOO_LONG, *NO_PROMPTS}
"""Reasons that another request would not change."""


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """One request for a score: ordered demonstrations, task prompt, and input."""

    demonstrations: tuple[RatedExample, ...]
    task: str
    sample: Sample


@dataclass
class RequestCounts:
    """Counts of requests, failures by reason with an example each, dropped demonstrations, and stand-ins of a plan."""

    asked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    example: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    assumed: int = 0

    def count(self, result: object) -> None:
        """Count the result of one request; anything but a failure is an answer. `BudgetReached` without budget."""
        self.asked += 1
        if isinstance(result, Failure):
            if result.reason == OUT_OF_BUDGET:
                raise BudgetReached(result.detail)
            self.failures[result.reason] += 1
            self.example.setdefault(result.reason, result.detail)

    @classmethod
    def total(cls, parts: Iterable[RequestCounts]) -> RequestCounts:
        """Return the sum of several counts."""
        whole = cls()
        for part in parts:
            for name in ("asked", "dropped", "assumed"):
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
            whole.failures.update(part.failures)
            whole.example = {**part.example, **whole.example}
        return whole

    @property
    def failed(self) -> int:
        """Number of requests without an answer."""
        return self.failures.total()

    @property
    def unreadable(self) -> int:
        """Number of replies without a score on the scale."""
        return sum(count for reason, count in self.failures.items() if reason in UNREADABLE)

    @property
    def again(self) -> int:
        """Number of requests with a temporary failure."""
        return sum(count for reason, count in self.failures.items() if reason not in LASTING)


def score_each(
    wording: PromptTemplate, asked: Sequence[ScoreRequest], counts: RequestCounts
) -> PromptFlow[list[ParsedScore | Failure]]:
    """Return the score for each request, in order; `counts` records the results."""
    scores: list[ParsedScore | Failure] = [Failure(TOO_LONG, "the input alone does not fit into the context")] * len(
        asked
    )
    prefixes = [([str(example.target) for example in request.demonstrations], request.task) for request in asked]
    order = sorted(range(len(asked)), key=prefixes.__getitem__)
    for start in range(0, len(order), ROUND):
        prompts: dict[int, Prompt] = {}
        for place in order[start : start + ROUND]:
            request = asked[place]
            prompt_and_dropped = wording.prompt(request.demonstrations, request.task, request.sample)
            if prompt_and_dropped is not None:
                prompts[place], dropped = prompt_and_dropped
                counts.dropped += dropped
        replies: Sequence[Reply | Failure] = yield list(prompts.values())
        for (place, prompt), reply in zip(prompts.items(), replies, strict=True):
            scores[place] = read(wording, prompt, reply)
            counts.assumed += isinstance(reply, Reply) and reply.model == STAND_IN
        for place in order[start : start + ROUND]:
            counts.count(scores[place])
    return scores


BLOCK, SPREAD = "in-context", "in-context:spread"
"""Prefix of the column names, and the column of the standard deviation."""
LEAST_ANSWERED = 0.5
"""Minimum share of answered requests for a score."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Answers of several requests about one input: (K,) mean distribution, and standard deviation of the scores."""

    shares: tuple[float, ...]
    spread: float


def ensemble_of(readings: Sequence[ParsedScore | Failure]) -> Ensemble | Failure:
    """Return the mean of the distributions; a failure if more than half of the requests have no score."""
    scores = [reading for reading in readings if isinstance(reading, ParsedScore)]
    if len(scores) < LEAST_ANSWERED * len(readings) or not scores:
        [(reason, count)] = Counter(each.reason for each in readings if isinstance(each, Failure)).most_common(1)
        return Failure(reason, f"{count} of {len(readings)} requests")
    shares = np.mean([reading.shares for reading in scores], axis=0)
    return Ensemble(tuple((shares / shares.sum()).tolist()), float(np.std([reading.value for reading in scores])))


def ask_ensembles(
    wording: PromptTemplate, asked: Sequence[Sequence[ScoreRequest]], counts: RequestCounts, purpose: str
) -> Flow[list[Ensemble | Failure]]:
    """Return the scorer's ensemble for each input."""
    flat = [request for requests in asked for request in requests]
    readings = iter((yield from to_scorer(wording, score_each(wording, flat, counts), purpose)))
    return [ensemble_of(list(islice(readings, len(requests)))) for requests in asked]


def to_scorer(wording: PromptTemplate, flow: PromptFlow[T], purpose: str) -> Flow[T]:
    """Address requests for scores to the scorer; a plan uses the scale's scores in turn as stand-in answers."""
    question = wording.question
    labels = list(answer_labels(question.scale)) if wording.reads_options else list(question.scale.options)
    said = cycle([str(label) for label in labels] or [f"{question.scale.numbers[0]:g}"])

    def stand_in(prompt: Prompt) -> Reply:
        label = next(said)
        return Reply(label, STAND_IN, {label: 1.0})

    return to_role(SCORER, flow, purpose, question, stand_in)


def as_evidence(
    question: Question, signature: str, found: Sequence[tuple[Target, Ensemble | Failure]]
) -> EvidenceTable:
    """Ensembles as a table: one column per option, and one for the standard deviation of the scores."""
    options = question.scale.numbers
    columns = [Column(f"{BLOCK}={option:.12g}", signature, question.id, option) for option in options]
    columns.append(Column(SPREAD, signature))
    names = [column.name for column in columns]
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    for target, result in found:
        rows[target] = {}
        if isinstance(result, Failure):
            absences[target, question.id] = f"{result.reason} ({result.detail})" if result.detail else result.reason
        else:
            rows[target] = dict(zip(names, (*result.shares, result.spread), strict=True))
    return EvidenceTable.from_rows(columns, rows, absences)
