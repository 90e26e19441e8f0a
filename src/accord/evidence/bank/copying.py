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
    return max([_f1(_common(own, part), len(own), part.length) for source in sources for part in source.passages])


def _common(own: Sequence[str], passage: Passage) -> int:
    """The length of the longest common subsequence, a word of the passage a bit (Hyyrö, 2004).

    Whatever makes it longer carries one bit out at the top.
    """
    free = (1 << passage.length) - 1
    for here in filter(None, map(passage.places.get, own)):
        matched = free & here
        free = (free + matched) | (free - matched)
    return free.bit_length() - passage.length


def _f1(common: int, one: int, other: int) -> float:
    return 2 * common / (one + other) if common else 0.0


@turn_metrics.register("copied-run")
def copied_run(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """The longest run of words that stands like this in a document, in words."""
    if not sources:
        return None
    own = reply.units[:LONGEST_RUN]
    return float(max([_run(own, part) for source in sources for part in source.passages]))


def _run(own: Sequence[str], passage: Passage) -> int:
    """The longest run: a diagonal in the table of what matches, a row a word of the reply, a column one of the passage.

    The table is one number, its rows one after another and each with a column to spare. A shift by a row and a column
    leaves the ends of runs that are one word longer.
    """
    here, width = passage.places.get, passage.length // 8 + 1
    rows = [here(word, 0).to_bytes(width, "little") for word in own]
    runs = table = int.from_bytes(b"".join(rows), "little")
    length = 0
    while runs:
        runs = (runs << 8 * width + 1) & table
        length += 1
    return length
