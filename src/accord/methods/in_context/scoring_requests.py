"""The score in one reply (section 4.1): the number that is meant, or the first token's probabilities.

A number is meant that the reply begins with or labels as the score, else the last one on the scale. What could be two
scores ("4 or 5"), or is one on another scale (8/10), is none: a misread score is worse than a missing one.
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
from accord.methods.in_context.template import Example, PromptTemplate, ends
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
"""Reasons that lie in the reply: asked again, a model would answer the same."""
LONGEST_ECHO = 20
"""So many characters of the request in a reply are no answer."""

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
"""What follows a number that a reply begins with, and means."""
_OR = r"(?:[-–]|to|or(?:\s+(?:maybe|perhaps|possibly|even))?)"
_RANGE_AFTER = re.compile(rf"\s*{_OR}\s*[-−.]?\d")
_RANGE_BEFORE = re.compile(rf"(?:\d\s*{_OR}|between\s+\S+\s+and)\s*$")
_PART_OF = re.compile(r"\s*(?:/|out of|of)\s*\d")
_WHOLE = re.compile(r"\d\s*(?:/|out of|of)\s*$")
_LOOKED_BACK = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """The score in one reply: a distribution over the scale's options, (K,) summing to 1, and its mean."""

    shares: tuple[float, ...]
    value: float


def read(wording: PromptTemplate, prompt: Prompt, reply: Reply | Failure) -> Reading | Failure:
    """The score in a reply; a reply without one on the scale is a failure, never moved onto the scale."""
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
    return Reading(tuple(shares.tolist()), float(shares @ np.array(scale.numbers)))


def _read_number(question: Question, prompt: Prompt, text: str) -> Reading | Failure:
    """The number that is labelled as the score, else the last one on the scale; what may be two scores is none."""
    said = _without_scale(question, text)
    numbers = list(_NUMBER.finditer(said))
    before = " ".join(said[: numbers[0].start() if numbers else None].split())
    copied = len(before) >= LONGEST_ECHO and before in " ".join(prompt.messages[-1].content.split())
    if "=====[" in before or _TURN.match(said) is not None or copied:
        return Failure(ECHO, "the reply repeats what it was shown")
    if not numbers:
        return Failure(NO_NUMBER, f"no number in the reply {text[:60]!r}")
    low, high = ends(question)
    meant = _labelled(question, said, numbers)
    if not meant:  # a part of another whole (8/10) is on no scale of ours, nor is its whole
        meant = [each for each in numbers if _is_alone(said, each) and low <= _number(each) <= high][-1:]
    if any(_is_one_of_two(said, each) for each in meant) or len({_number(each) for each in meant}) > 1:
        return Failure(AMBIGUOUS, f"which number is the score in {text[:60]!r}?")
    value = _number((meant or numbers)[-1])
    if not meant or not low <= value <= high or not _is_alone(said, meant[-1]):
        return Failure(OUTSIDE, f"the reply says {value:g}, the scale is from {low:g} to {high:g}")
    return Reading(tuple(spread_out(value, np.array(question.scale.numbers)).tolist()), value)


def _labelled(question: Question, said: str, numbers: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """The numbers that are said to be the score, by the question's own label rather than by another.

    Such is the number that a reply begins with: the request ends with the label.
    """
    first = numbers[0]
    if not re.search(r"[^\W_]", said[: first.start()]) and _ENDS.match(said, first.end()):
        return [first]
    own = re.compile(rf"{re.escape(question.id)}{_LINK}", re.IGNORECASE)
    behind = {each: said[max(0, each.start() - _LOOKED_BACK) : each.start()] for each in numbers}
    named = [each for each in numbers if own.search(behind[each])]
    return named or [each for each in numbers if _LABELLED.search(behind[each])]


def _number(found: re.Match[str]) -> float:
    return float(_THOUSANDS.sub("", found[0]).replace(",", ".").replace("−", "-"))


def _is_alone(said: str, found: re.Match[str]) -> bool:
    """Whether a number is neither a part of a whole (8/10) nor the whole."""
    return _PART_OF.match(said, found.end()) is None and _WHOLE.search(said[: found.start()]) is None


def _is_one_of_two(said: str, found: re.Match[str]) -> bool:
    """Whether a number is an end of a range, or an alternative (4 or 5)."""
    before = said[max(0, found.start() - _LOOKED_BACK) : found.start()]
    return _RANGE_AFTER.match(said, found.end()) is not None or _RANGE_BEFORE.search(before) is not None


def _without_scale(question: Question, text: str) -> str:
    """A reply without the label that the request ends with, and without numbers that name the scale or count a list."""
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
    """(K,) all mass on the option that is meant; between two options it is shared so that the mean is the value."""
    place = int(np.clip(np.searchsorted(options, value) - 1, 0, len(options) - 2))
    share = (value - options[place]) / (options[place + 1] - options[place])
    shares = np.zeros(len(options))
    shares[place], shares[place + 1] = 1 - share, share
    return shares


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

    `assumed` counts stand-in replies of a plan.
    """

    asked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    example: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
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
            for name in ("asked", "dropped", "assumed"):
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


def score_each(wording: PromptTemplate, asked: Sequence[Asked], counts: Counts) -> PromptFlow[list[Reading | Failure]]:
    """A reading for each request, in their order; `counts` says what they came to.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
    """
    found: list[Reading | Failure] = [Failure(TOO_LONG, "the input alone does not fit into the context")] * len(asked)
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
        replies: Sequence[Reply | Failure] = yield list(prompts.values())
        for (place, prompt), reply in zip(prompts.items(), replies, strict=True):
            found[place] = read(wording, prompt, reply)
            counts.assumed += isinstance(reply, Reply) and reply.model == STAND_IN
        for place in order[start : start + ROUND]:
            counts.count(found[place])
    return found


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

    return to_role(SCORER, flow, purpose, question, stand_in)


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
