"""Parsing of a reply to a request for a score.

The score is the number at the beginning of a reply or after a label, else the only number on the scale that stands at
the end of a line. A reply with two candidates ("4 or 5"), another scale (8/10), or a number that may count something
("3 facts") has no score: a missing score is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.methods.in_context.template import PromptTemplate, ends
from accord.models import Answer, Failure, Prompt, Reply, read_first_token
from accord.values import Question

Floats = NDArray[np.float64]

NO_NUMBER, OUTSIDE, ECHO, AMBIGUOUS = "no number", "outside the scale", "echo", "ambiguous"
UNREADABLE = frozenset({NO_NUMBER, OUTSIDE, ECHO, AMBIGUOUS, "no option", "refused"})
"""Reasons in the reply itself, which another request would not change."""
LONGEST_ECHO = 20
"""Characters copied from the request that make a reply an echo."""

_NUMBER = re.compile(
    r"(?<![A-Za-z0-9.,])[-−]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"(?![A-Za-z0-9]|[.,]\d)"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TURN = re.compile(r"^\W*(?:The last turn, \[|\[\d+\]\s*\w+\s*:)")
_ITEM = re.compile(r"^([^\S\n]*)(\d{1,9})(?=[.)]\s+\S)", re.MULTILINE)
_LINK = r"\W{0,6}(?:(?:score|rating|is|of|should|would|be|at|an?|this|it|the|reply|conversation)\W+){0,5}$"
_LABELLED = re.compile(rf"\b(?:score|rating|grade|mark|answer|verdict){_LINK}", re.IGNORECASE)
_SAID = re.compile(
    rf"\b(?:give|rate|award|assign|deserves?|earns?|merits?){_LINK}|(?:\bis|['’]s)\s+an?\s+\W{{0,3}}$", re.IGNORECASE
)
_ENDS = re.compile(
    r"\s*(?:$|\n|[^\w\s]|_|(?:because|since|as|for|but|with|given|due|on|stars?|points?|out\s+of)\b|\[END)"
)
"""Text that must follow a number without a label to make it a score: before any other word it may be a count."""
_LAST = re.compile(r"(?:[^\w\n\[]|\[(?!END))*+(?:stars?\b|points?\b)?[^\w\n\[]*+(?:$|\n|\[END)")
_OR = r"(?:[-–—]|to|bordering\s+on|(?:or\s+)?(?:maybe|perhaps|possibly|even)|or)"
_RANGE_AFTER = re.compile(
    rf"[\s,;(]*{_OR}\s*[-−.]?\d|[ \t]*+[,;&]?[ \t]*+(?:and[ \t]+)?\d[\d.,]*\s*(?:$|[^\w\s])|\s*\+(?!/)"
)
_RANGE_BEFORE = re.compile(rf"(?:\d[\s,;(]*{_OR}|\d[ \t]*(?:[,;&]|and\b)?|between\s+\S+\s+and)\s*$")
_DENIED = re.compile(
    r"(?:\b(?:not|cannot|never|neither|nor|than|above|below|under|over|at\s+least|at\s+most|almost|nearly)|n['’]t)"
    r"(?:\s+(?:be|an?|the))*\s+$",
    re.IGNORECASE,
)
_PART_OF = re.compile(r"\s*(?:(?:/|out of|of)\s*\d|%|percent\b)")
_WHOLE = re.compile(r"\d\s*(?:/|out of|of)\s*$")
_OTHER_SCALE = re.compile(r"\d[- ](?:point|star)s?\s+scale|\bscale\s+(?:(?:of|from)\s*)?\(?\d", re.IGNORECASE)
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SPELLED = re.compile(
    rf"\W*(?:(?:\w+\s+)?(?:score|rating)\W+(?:is\W+)?)?(?:an?\s+)?({'|'.join(_WORDS)})"
    r"(\s+out\s+of\s+\w+)?(?:\s+(?:stars?|points?))?\W*",
    re.IGNORECASE,
)
"""A reply that is a number in words, after a label at most."""
_OUT_OF_WORD = re.compile(rf"(?<=\bout of )({'|'.join(_WORDS)})\b", re.IGNORECASE)
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
    """Return the score in a reply, or the reason why it has none."""
    shown = _without_scale(question, _in_digits(text))
    numbers = list(_NUMBER.finditer(shown))
    if _is_echo(prompt, shown, shown[: numbers[0].start()] if numbers else shown):
        return Failure(ECHO, "the reply repeats the request")
    if not numbers:
        return Failure(NO_NUMBER, f"no number in the reply {text[:60]!r}")
    low, high = ends(question)
    alone = [number for number in numbers if _is_alone(shown, number)]
    on_scale = [number for number in alone if low <= _number(number) <= high]
    candidates = _labelled(question, shown, numbers) or _last(shown, on_scale)
    if _OTHER_SCALE.search(shown) is not None or not (candidates or on_scale):
        return Failure(OUTSIDE, f"no score from {low:g} to {high:g} in {text[:60]!r}")
    if _is_ambiguous(shown, candidates):
        return Failure(AMBIGUOUS, f"no number, or more than one, is the score in {text[:60]!r}")
    value = _number(candidates[-1])
    if not low <= value <= high or candidates[-1] not in alone:
        return Failure(OUTSIDE, f"the reply has {value:g}, the scale is from {low:g} to {high:g}")
    return ParsedScore(tuple(spread_out(value, np.array(question.scale.numbers)).tolist()), value)


def _is_echo(prompt: Prompt, text: str, prefix: str) -> bool:
    """Return True if a reply repeats the request, by its text before the first number."""
    start = " ".join(prefix.split())
    copied = len(start) >= LONGEST_ECHO and start in " ".join(prompt.messages[-1].content.split())
    return "=====[" in start or _TURN.match(text) is not None or copied


def _is_ambiguous(text: str, candidates: Sequence[re.Match[str]]) -> bool:
    """Return True unless all candidates are one number that is neither in a range nor an alternative."""
    return len({_number(each) for each in candidates}) != 1 or any(_is_one_of_two(text, each) for each in candidates)


def _labelled(question: Question, text: str, numbers: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """Return the numbers with the question's own label, else with any label for a score.

    A number at the beginning counts as labelled, because the request ends with the label.
    """
    first = numbers[0]
    if not re.search(r"[^\W_]", text[: first.start()]) and _ENDS.match(text, first.end()) and not _opens_list(text):
        return [first]
    own_label = re.compile(rf"{re.escape(question.id)}{_LINK}", re.IGNORECASE)
    before = {number: _before(text, number) for number in numbers}
    return (
        [number for number in numbers if own_label.search(before[number])]
        or [number for number in numbers if _LABELLED.search(before[number])]
        or [number for number in numbers if _SAID.search(before[number]) and _ENDS.match(text, number.end())]
    )


def _last(text: str, numbers: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """Return the numbers that may be scores without a label, if one ends a line; a number that counts may not."""
    possible = [each for each in numbers if _ENDS.match(text, each.end()) and not _DENIED.search(_before(text, each))]
    return possible if any(_LAST.match(text, number.end()) for number in possible) else []


def _opens_list(text: str) -> bool:
    """Return True if a reply begins as a list does; a reply that is cut off has one item."""
    item = _ITEM.match(text.lstrip())
    return item is not None and item[2] == "1"


def _in_digits(text: str) -> str:
    """Return a reply with numbers in words as digits: a whole reply ("four"), or a whole ("4 out of five")."""

    def digit(word: re.Match[str]) -> str:
        return str(_WORDS.index(word[1].lower()))

    spelled = _SPELLED.fullmatch(text)
    if spelled is not None:
        text = f"{digit(spelled)}{spelled[2] or ''}"
    return _OUT_OF_WORD.sub(digit, text)


def _before(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - _LOOKED_BACK) : found.start()]


def _number(found: re.Match[str]) -> float:
    return float(_THOUSANDS.sub("", found[0]).replace(",", ".").replace("−", "-"))


def _is_alone(text: str, found: re.Match[str]) -> bool:
    """Return True if a number is not part of a fraction such as 8/10."""
    return _PART_OF.match(text, found.end()) is None and _WHOLE.search(_before(text, found)) is None


def _is_one_of_two(text: str, found: re.Match[str]) -> bool:
    """Return True if a number is an end of a range, or an alternative (4 or 5)."""
    return _RANGE_AFTER.match(text, found.end()) is not None or _RANGE_BEFORE.search(_before(text, found)) is not None


def _without_scale(question: Question, text: str) -> str:
    """Return a reply without the label at its beginning, and without numbers of the scale or of a list."""
    text = re.sub(rf"^\W*{re.escape(question.id)}\s+score\W*", " ", text, count=1, flags=re.IGNORECASE)
    for scale in _scale_patterns(*ends(question)):
        text = re.sub(scale, " ", text, flags=re.IGNORECASE)
    items = [int(number) for _, number in _ITEM.findall(text)]
    is_list = len(items) > 1 and items == list(range(1, len(items) + 1))
    return _ITEM.sub(r"\1", text) if is_list else text


def _scale_patterns(low: float, high: float) -> tuple[str, ...]:
    """Return patterns of the mention of a scale: its ends, a number out of its high end, its name."""
    first, last = (rf"{re.escape(f'{end:g}')}(?:\.0+)?" for end in (low, high))
    aside = r"(?:\s*\([^()\d]*\))?"
    return (
        rf"(?<![\w.,]){first}{aside}\s*(?:-|–|to|and)\s*{last}{aside}(?!\w)",
        rf"(?:/|\b(?:out\s+)?of)\s*{last}(?![\w.,]*\d)",
        rf"(?<![\w.,]){last}[- ](?:point|star)s?\s+scale",
    )


def spread_out(value: float, options: Floats) -> Floats:
    """Return (K,) probabilities: all on the option that equals the value, or split between its two neighbors."""
    place = int(np.clip(np.searchsorted(options, value) - 1, 0, len(options) - 2))
    share = (value - options[place]) / (options[place + 1] - options[place])
    shares = np.zeros(len(options))
    shares[place], shares[place + 1] = 1 - share, share
    return shares
