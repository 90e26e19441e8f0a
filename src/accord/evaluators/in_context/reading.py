"""Replies as distributions over the scale: the first number that is written (section 4.1), or token probabilities."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.in_context.examples import ends
from accord.evaluators.in_context.template import Wording
from accord.llm.logprobs import read_first_token
from accord.llm.model import Answer, Failure, Prompt, Reply
from accord.rubric import Question

Floats = NDArray[np.float64]

NO_NUMBER, OUTSIDE, ECHO = "no number", "outside the scale", "echo"
UNREADABLE = frozenset({NO_NUMBER, OUTSIDE, ECHO, "no option", "refused"})
"""What a model answered, and no score is in it: asked again it would answer the same."""
LONGEST_ECHO = 20
"""So many characters of the request in a reply are no answer."""

_NUMBER = re.compile(r"(?<![A-Za-z0-9.,])[-−]?(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TURN = re.compile(r"^\W*(?:The last turn, \[|\[\d+\]\s*\w+\s*:)")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reply says: a distribution over the scale's options, (K,) summing to 1, and its mean."""

    shares: tuple[float, ...]
    value: float


def read(wording: Wording, prompt: Prompt, reply: Reply | Failure) -> Reading | Failure:
    """The score in a reply; a reply without one on the scale is a failure, never moved onto the scale."""
    if isinstance(reply, Failure):
        return reply
    if not wording.reads_options:
        return _read_number(wording.question, prompt, reply.text)
    answer = read_first_token(wording.question, reply)
    if not isinstance(answer, Answer):
        return Failure(answer.reason, answer.detail)
    mass = np.array([answer.probabilities.get(str(option), 0.0) for option in wording.question.scale.options])
    return reading_of(wording.question, mass / mass.sum())


def reading_of(question: Question, shares: Floats) -> Reading:
    """A distribution with its mean."""
    return Reading(tuple(shares.tolist()), float(shares @ np.array(question.scale.numbers)))


def _read_number(question: Question, prompt: Prompt, text: str) -> Reading | Failure:
    said = _answer(question, text)
    if _is_echo(said, prompt.messages[-1].content):
        return Failure(ECHO, "the reply repeats what it was shown")
    found = _NUMBER.search(said)
    if found is None:
        return Failure(NO_NUMBER, f"no number in the reply {text[:60]!r}")
    low, high = ends(question)
    value = float(_THOUSANDS.sub("", found[0]).replace(",", ".").replace("−", "-"))
    if not low <= value <= high:
        return Failure(OUTSIDE, f"the reply says {value:g}, the scale is from {low:g} to {high:g}")
    return Reading(tuple(spread_out(value, np.array(question.scale.numbers)).tolist()), value)


def _answer(question: Question, text: str) -> str:
    """A reply without the label that the request ends with, and without the ends of the scale where it names them."""
    low, high = (re.escape(f"{end:g}") for end in ends(question))
    plain = re.sub(rf"^\W*{re.escape(question.id)}\s+score\W*", " ", text, count=1, flags=re.IGNORECASE)
    return re.sub(rf"(?<![\w.,]){low}(?:\.0+)?\s*(?:-|–|to)\s*{high}(?:\.0+)?(?![\w])", " ", plain)


def _is_echo(text: str, shown: str) -> bool:
    """Whether what stands before the first number was copied from the request."""
    found = _NUMBER.search(text)
    before = " ".join(text[: found.start() if found else None].split())
    copied = len(before) >= LONGEST_ECHO and before in " ".join(shown.split())
    return "=====[" in before or _TURN.match(text) is not None or copied


def spread_out(value: float, options: Floats) -> Floats:
    """(K,) all mass on the option that is meant; between two options it is shared so that the mean is the value."""
    place = int(np.clip(np.searchsorted(options, value) - 1, 0, len(options) - 2))
    share = (value - options[place]) / (options[place + 1] - options[place])
    shares = np.zeros(len(options))
    shares[place], shares[place + 1] = 1 - share, share
    return shares
