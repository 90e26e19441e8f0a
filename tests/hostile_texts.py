"""Hostile texts for a regular expression, made from its own parts, and the growth of its time with their length."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Work = Callable[[Any], object]
_CHARACTERS = ("a", "0", " ", "\n", "A", "-", "_./:,;@<>()[]{}=+*#~|&?!%'\"\\", "é漢")
"""One character of each group stands for a class that holds it."""
_SHORT, _LONG = 4e-4, 2e-3
"""Seconds of processor time: shorter ones are not compared; a few characters never take longer ones."""
_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}
_ONE = {codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN}
_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
Nodes = Sequence[tuple[Any, Any]]


SHORT_LENGTHS = (12, 18, 24, 30, 38, 48, 60, 76, 96)
"""Lengths at which exponential time shows before it takes long."""


def growth(
    work: Work,
    text_of: Callable[[int], Any],
    lengths: Sequence[int] = (128, 1024),
    first: Sequence[int] = SHORT_LENGTHS,
) -> str | None:
    """Return a sentence if the time of some work grows faster than its text, or another input of a length.

    A text of four times the length takes four times as long if the time is linear, and sixteen times if it is
    quadratic.
    """
    for length in first:
        if (long := _least(work, text_of(length), 9)) > _LONG:
            return f"{length} characters take {long:.4f} s"
    for length in lengths:
        if _least(work, text_of(length), 1) <= _SHORT:
            continue
        for _ in range(3):  # the machine may have been busy
            short, long = _least(work, text_of(length // 4)), _least(work, text_of(length))
            if long <= max(_SHORT, (8 if sys.gettrace() is None else 12) * short):  # a tracer adds time of its own
                break
        else:
            return f"{length // 4} characters take {short:.5f} s, {length} characters {long:.5f} s"
    return None


def _least(work: Work, text: Any, repeats: int = 3) -> float:
    """Return the least processor time of the work, in seconds; a single slow one is the machine's."""
    least = 1e9
    for _ in range(repeats):
        start = time.process_time()
        work(text)
        least = min(least, time.process_time() - start)
        if least < _SHORT:
            break
    return least


def hostile(pattern: re.Pattern[str]) -> Iterator[Callable[[int], str]]:
    """Yield functions that make a text of a length: parts of the pattern repeated, after its beginning, before an end.

    A search takes long if it can begin at many places, or divide a text in many ways, and then fail at the end.
    """
    tree = parser.parse(pattern.pattern, pattern.flags)
    repeated, single = _repeated(tree, ""), sorted(_single(tree))
    whole = [example for number in range(3) if (example := _example(tree, number))]
    texts = {("", each, end) for each in single[:12] for end in ("", "\0", "x", "\n")}
    texts |= {("", first + second, "\0") for first, second in permutations(single[:4], 2)}
    for begin, part in repeated:
        texts |= {("", part, end) for end in ("", "\0", "a", "!", "\n")} | {(begin, part, end) for end in "\0a\n"}
        texts |= {("", begin + part, ""), ("", part + begin, ""), ("", begin, "")}
    for each in whole:
        for cut in {len(each), len(each) - 1, len(each) // 2}:
            texts |= {("", each[:cut] + sign, end) for sign in ("", " ", "\n", "_") for end in ("", "\n", "\0")}
    for begin, part, end in sorted(text for text in texts if text[1]):
        yield (
            lambda length, begin=begin, part=part, end=end: f"{begin}{part * (length // len(part) + 1)}"[:length] + end
        )


def _characters(node: tuple[Any, Any]) -> list[str]:
    """Return characters that one node of a pattern matches."""
    kind, value = node
    if kind is codes.LITERAL:
        return [chr(value)]
    if kind is codes.ANY:
        return ["a", " "]
    if kind is codes.NOT_LITERAL:
        return [each for each in "a0 " if ord(each) != value]
    found = [next((each for each in group if _holds(value, each)), "") for group in _CHARACTERS]
    other = [chr(each[1] if each[0] is codes.LITERAL else each[1][0]) for each in value if each[0] in _CODES]
    return list(filter(None, found)) or other[:1]


_CODES = {codes.LITERAL, codes.RANGE}


def _holds(items: Nodes, character: str) -> bool:
    """Return True if a class of characters holds one."""
    code, is_negated, found = ord(character), False, False
    for kind, value in items:
        if kind is codes.NEGATE:
            is_negated = True
        elif kind is codes.CATEGORY:
            found |= re.match(_CATEGORIES[value], character) is not None
        else:
            found |= value == code if kind is codes.LITERAL else value[0] <= code <= value[1]
    return found != is_negated


def _example(nodes: Nodes, number: int) -> str:
    """Return a text that some nodes match; another number chooses other characters and branches."""
    text = ""
    for kind, value in nodes:
        if kind in _ONE:
            found = _characters((kind, value))
            text += found[number % len(found)] if found else ""
        elif kind is codes.BRANCH:
            text += _example(value[1][number % len(value[1])], number)
        elif kind in _REPEATS:
            text += _example(value[2], number) * max(value[0], 1 - number % 2)
        elif kind in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            text += _example(value[3] if kind is codes.SUBPATTERN else value, number)
    return text


def _parts(kind: Any, value: Any) -> list[Nodes]:
    """Return the nodes inside a node."""
    if kind in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
        return [value[3] if kind is codes.SUBPATTERN else value]
    if kind in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return [value[2]] if kind in _REPEATS else list(value[1][:6]) if kind is codes.BRANCH else []


def _repeated(nodes: Nodes, begin: str) -> list[tuple[str, str]]:
    """Return what a text may repeat, after its beginning: the content of repetitions, and what follows them."""
    nodes, found = list(nodes), list[tuple[str, str]]()
    for place, (kind, value) in enumerate(nodes):
        if kind in _REPEATS and value[1] > 1:
            inside = list(value[2])
            is_one = len(inside) == 1 and inside[0][0] in _ONE
            contents = _characters(inside[0]) if is_one else [_example(inside, number) for number in range(4)]
            contents += [
                _example(nodes[place + 1 : place + 1 + count], number) for count in (1, 3) for number in (0, 1)
            ]
            found += [(begin, each) for each in contents if each]
        for part in _parts(kind, value):
            found += _repeated(part, begin)
        begin += _example([(kind, value)], 0)
    return list(dict.fromkeys(found))


def _single(nodes: Nodes) -> set[str]:
    """Return characters of all parts of a pattern."""
    found = set[str]()
    for kind, value in nodes:
        found |= set(_characters((kind, value))[:3]) if kind in _ONE else set()
        for part in _parts(kind, value):
            found |= _single(part)
    return found
