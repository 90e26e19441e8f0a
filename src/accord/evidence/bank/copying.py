"""Words taken over in their order: the longest common subsequence (ROUGE-L; Lin, 2004), and the longest run.

The documents take the place of references: these metrics say how much of them a reply hands on in their own words.
"""

from __future__ import annotations

from collections.abc import Sequence

from accord.evidence.bank.message import PASSAGE, History, Message, Passage, Source, turn_metrics, units

NAMES = ("rouge-l", "copied-run")


@turn_metrics.register("rouge-l")
def rouge_l(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """ROUGE-L F1 of the reply's words with the passage it has most in common with, stemmed; 0 to 1."""
    if not sources:
        return None
    own = _compared(reply)
    return max(_f1(_common(own, part), len(own), part.length) for source in sources for part in source.passages)


def _compared(reply: Message) -> list[str]:
    """The reply's words as they are compared, no more than a passage has."""
    return units(reply.tokens[:PASSAGE], reply.stems[:PASSAGE])


def _common(own: Sequence[str], passage: Passage) -> int:
    """The length of the longest common subsequence, a word of the passage a bit (Hyyrö, 2004)."""
    places, free = passage.places, (1 << passage.length) - 1
    whole = free
    for word in own:
        here = places.get(word)
        if here is not None:
            matched = free & here
            free = ((free + matched) | (free - matched)) & whole
    return passage.length - free.bit_count()


def _f1(common: int, one: int, other: int) -> float:
    return 2 * common / (one + other) if common else 0.0


@turn_metrics.register("copied-run")
def copied_run(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """The longest run of words that stands like this in a document, in words."""
    if not sources:
        return None
    own = _compared(reply)
    return float(max(_run(own, part.places) for source in sources for part in source.passages))


def _run(own: Sequence[str], places: dict[str, int]) -> int:
    """The longest run, by doubling: runs of 2n words are two of n, one after the other.

    A row of `levels` holds, for each word of the reply, where in the passage runs of 1, 2, 4, … words end with it.
    """
    levels, length = [[places.get(word, 0) for word in own]], 1
    if not any(levels[0]):
        return 0
    while any(double := _joined(levels[-1], levels[-1], length)):
        levels.append(double)
        length *= 2
    ends, step = levels.pop(), length
    while levels:
        step //= 2
        longer = _joined(ends, levels.pop(), length)
        if any(longer):
            ends, length = longer, length + step
    return length


def _joined(last: Sequence[int], first: Sequence[int], length: int) -> list[int]:
    """Where runs end that are one of `first` and after it one of `last`, which have `length` words."""
    return [0] * min(length, len(last)) + [
        ends & (before << length) for ends, before in zip(last[length:], first, strict=False)
    ]
