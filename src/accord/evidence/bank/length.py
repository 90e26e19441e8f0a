"""Length, density and readability of a reply (Automated Readability Index; Smith and Senter, 1967)."""

from __future__ import annotations

from collections.abc import Sequence

from accord.evidence.bank.message import History, Message, Source, turn_metrics

NAMES = ("words", "content-words", "content-share", "asks", "readability")


@turn_metrics.register("words")
def words(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Number of words."""
    return float(len(reply.tokens))


@turn_metrics.register("content-words")
def content_words(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Number of distinct content words."""
    return float(len(reply.content))


@turn_metrics.register("content-share")
def content_share(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Share of the words that are content words."""
    return sum(reply.content.values()) / len(reply.tokens) if reply.tokens else None


@turn_metrics.register("asks")
def asks(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Whether the reply asks something: 1 or 0."""
    return float("?" in reply.text)


@turn_metrics.register("readability")
def readability(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """School years that reading takes: 4.71·characters/words + 0.5·words/sentences - 21.43."""
    count = len(reply.tokens)
    if not count:
        return None
    text = reply.text
    sentences = max(1, text.count(".") + text.count("?") + text.count("!"))
    return 4.71 * len("".join(reply.tokens)) / count + 0.5 * count / sentences - 21.43
