"""Requests for scores: parsing of replies, counts, and ensembles as evidence (section 4.1).

The score in a reply is the number at its beginning or after a label, else the last number on the scale. A reply with
two candidates ("4 or 5") or another scale (8/10) has no score: a missing score is better than a wrong one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from accord.edges import BudgetReached
from accord.evidence import Column, EvidenceTable
from accord.methods.in_context.template import PromptTemplate, RatedExample, ends
from accord.models import (
    OUT_OF_BUDGET,
    SCORER,
    Answer,
    Failure,
    Flow,
    Prompt,
    PromptFlow,
    Reply,
    answer_labels,
    read_first_token,
    to_role,
)
from accord.values import Question, Sample, Target

Floats = NDArray[np.float64]

NO_NUMBER, OUTSIDE, ECHO, AMBIGUOUS = "no number", "outside the scale", "echo", "ambiguous"
UNREADABLE = frozenset({NO_NUMBER, OUTSIDE, ECHO, AMBIGUOUS, "no option", "refused"})
"""Reasons in the reply itself, which another request would not change."""
LONGEST_ECHO = 20
"""Characters copied from the request that make a reply an echo."""

_NUMBER = re.compile(r"(?<![A-Za-z0-9.,])[-−]?(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TURN = re.compile(r"^\W*(?:The last turn, \[|\[\d+\]\s*\w+\s*:)")
_ITEM = re.compile(r"^(\s*)(\d+)(?=[.)]\s+\S)", re.MULTILINE)
_LINK = r"\W{0,6}(?:(?:score|rating|is|of|be|would|at|an?|this|it|the|reply|conversation)\W+){0,5}$"
_LABELLED = re.compile(
    rf"\b(?:score|rating|grade|mark|answer|verdict|give|rate|award|assign|deserves?|earns?|merits?){_LINK}|(?:\bis|['’]s)\s+an?\s+\W{{0,3}}$",
    re.IGNORECASE,
)
_ENDS = re.compile(r"\s*(?:$|\n|[^\w\s]|because\b|since\b|as\b|\[END)")
"""Text that must follow a number at the beginning of a reply for the number to be the score."""
_OR = r"(?:[-–]|to|or(?:\s+(?:maybe|perhaps|possibly|even))?)"
_RANGE_AFTER = re.compile(rf"\s*{_OR}\s*[-−.]?\d")
_RANGE_BEFORE = re.compile(rf"(?:\d\s*{_OR}|between\s+\S+\s+and)\s*$")
_PART_OF = re.compile(r"\s*(?:/|out of|of)\s*\d")
_WHOLE = re.compile(r"\d\s*(?:/|out of|of)\s*$")
_LOOKED_BACK = 60


@dataclass(frozen=True, slots=True)
class ParsedScore:
    """Score in one reply: a (K,) distribution over the scale's options, and its mean."""

    shares: tuple[float, ...]
    value: float


def read(wording: PromptTemplate, prompt: Prompt, reply: Reply | Failure) -> ParsedScore | Failure:
    """Return the score in a reply; a reply without a score on the scale is a failure and is never clipped."""
    if isinstance(reply, Failure):
        return reply
    if not wording.reads_options:
        return _read_number(wording.question, prompt, reply.text)
    answer = read_first_token(wording.question, reply)
    if not isinstance(answer, Answer):
        return Failure(answer.reason, answer.detail)
    scale = wording.question.scale
    mass = np.array([answer.probabilities.get(str(option), 0.0) for option in scale.options])
    shares = mass / mass.sum()
    return ParsedScore(tuple(shares.tolist()), float(shares @ np.array(scale.numbers)))


def _read_number(question: Question, prompt: Prompt, text: str) -> ParsedScore | Failure:
    """Return the number labelled as the score, else the last one on the scale; a failure if it is ambiguous."""
    text_without_scale = _without_scale(question, text)
    numbers = list(_NUMBER.finditer(text_without_scale))
    prefix = " ".join(text_without_scale[: numbers[0].start() if numbers else None].split())
    copied = len(prefix) >= LONGEST_ECHO and prefix in " ".join(prompt.messages[-1].content.split())
    if "=====[" in prefix or _TURN.match(text_without_scale) is not None or copied:
        return Failure(ECHO, "the reply repeats the request")
    if not numbers:
        return Failure(NO_NUMBER, f"no number in the reply {text[:60]!r}")
    low, high = ends(question)
    candidates = _labelled(question, text_without_scale, numbers)
    if not candidates:  # skips fractions such as 8/10
        candidates = [
            number for number in numbers if _is_alone(text_without_scale, number) and low <= _number(number) <= high
        ][-1:]
    if (
        any(_is_one_of_two(text_without_scale, number) for number in candidates)
        or len({_number(number) for number in candidates}) > 1
    ):
        return Failure(AMBIGUOUS, f"more than one score in {text[:60]!r}")
    value = _number((candidates or numbers)[-1])
    if not candidates or not low <= value <= high or not _is_alone(text_without_scale, candidates[-1]):
        return Failure(OUTSIDE, f"the reply has {value:g}, the scale is from {low:g} to {high:g}")
    return ParsedScore(tuple(spread_out(value, np.array(question.scale.numbers)).tolist()), value)


def _labelled(question: Question, text: str, numbers: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """Return the numbers with the question's own label, else with any label for a score.

    A number at the beginning counts as labelled, because the request ends with the label.
    """
    first = numbers[0]
    if not re.search(r"[^\W_]", text[: first.start()]) and _ENDS.match(text, first.end()):
        return [first]
    own_label = re.compile(rf"{re.escape(question.id)}{_LINK}", re.IGNORECASE)
    before = {number: text[max(0, number.start() - _LOOKED_BACK) : number.start()] for number in numbers}
    labelled = [number for number in numbers if own_label.search(before[number])]
    return labelled or [number for number in numbers if _LABELLED.search(before[number])]


def _number(found: re.Match[str]) -> float:
    return float(_THOUSANDS.sub("", found[0]).replace(",", ".").replace("−", "-"))


def _is_alone(text: str, found: re.Match[str]) -> bool:
    """Return True if a number is not part of a fraction such as 8/10."""
    return _PART_OF.match(text, found.end()) is None and _WHOLE.search(text[: found.start()]) is None


def _is_one_of_two(text: str, found: re.Match[str]) -> bool:
    """Return True if a number is an end of a range, or an alternative (4 or 5)."""
    before = text[max(0, found.start() - _LOOKED_BACK) : found.start()]
    return _RANGE_AFTER.match(text, found.end()) is not None or _RANGE_BEFORE.search(before) is not None


def _without_scale(question: Question, text: str) -> str:
    """Return a reply without the label at its beginning, and without numbers of the scale or of a list."""
    text = re.sub(rf"^\W*{re.escape(question.id)}\s+score\W*", " ", text, count=1, flags=re.IGNORECASE)
    low, high = (rf"{re.escape(f'{end:g}')}(?:\.0+)?" for end in ends(question))
    aside = r"(?:\s*\([^()\d]*\))?"
    for scale in (
        rf"(?<![\w.,]){low}{aside}\s*(?:-|–|to|and)\s*{high}{aside}(?!\w)",
        rf"(?:/|\b(?:out\s+)?of)\s*{high}(?![\w.,]*\d)",
        rf"(?<![\w.,]){high}[- ](?:point|star)s?\s+scale",
    ):
        text = re.sub(scale, " ", text, flags=re.IGNORECASE)
    items = [int(number) for _, number in _ITEM.findall(text)]
    is_list = len(items) > 1 and items == list(range(1, len(items) + 1))
    return _ITEM.sub(r"\1", text) if is_list else text


def spread_out(value: float, options: Floats) -> Floats:
    """Return (K,) probabilities: all on the option that equals the value, or split between its two neighbors."""
    place = int(np.clip(np.searchsorted(options, value) - 1, 0, len(options) - 2))
    share = (value - options[place]) / (options[place + 1] - options[place])
    shares = np.zeros(len(options))
    shares[place], shares[place + 1] = 1 - share, share
    return shares


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
