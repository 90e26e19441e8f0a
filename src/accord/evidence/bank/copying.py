"""Words taken over in their order: the longest common subsequence (ROUGE-L; Lin, 2004), and the longest run.

The documents take the place of references: these metrics say how much of them a reply hands on in their own words.
"""

from __future__ import annotations

from collections.abc import Sequence

from accord.evidence.bank.message import History, Message, Passage, Source, turn_metrics

NAMES = ("rouge-l", "copied-run")
LONGEST_RUN = 200
"""Runs are looked for among so many words of a reply."""


@turn_metrics.register("rouge-l")
def rouge_l(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """ROUGE-L F1 of the reply's words with the passage it has most in common with, stemmed; 0 to 1."""
    if not sources:
        return None
    own = reply.units
    return max(_f1(_common(own, part), len(own), part.length) for source in sources for part in source.passages)


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
    own = reply.units[:LONGEST_RUN]
    return float(max(_run(own, part.places) for source in sources for part in source.passages))


def _run(own: Sequence[str], places: dict[str, int]) -> int:
    """The longest run: those of one word that stand in the passage, of these those that go on, and so on."""
    here = [places.get(word, 0) for word in own]
    runs = [(start, ends) for start, ends in enumerate(here) if ends]
    here.append(0)
    length = 0
    while runs:
        length += 1
        longer = ((start, (ends << 1) & here[start + length]) for start, ends in runs if start + length < len(here))
        runs = [run for run in longer if run[1]]
    return length
