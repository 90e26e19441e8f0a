"""Novelty and repetition within a conversation, and within a reply (distinct-1; Li et al., NAACL 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from accord.evidence.bank.message import History, Message, Source, turn_metrics

NAMES = ("new-words", "repeated-trigrams", "distinct-share")


@turn_metrics.register("new-words")
def new_words(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Number of content words that nobody has said before."""
    return float(len(reply.content) - history.known(reply))


@turn_metrics.register("repeated-trigrams")
def repeated_trigrams(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Share of the reply's runs of three words that it, or a reply before it, has said already."""
    runs = len(reply.tokens) - 2
    return (runs - len(reply.trigrams) + len(reply.trigrams & history.trigrams)) / runs if runs > 0 else 0.0


@turn_metrics.register("distinct-share")
def distinct_share(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Distinct words over words (distinct-1)."""
    return len(set(reply.tokens)) / len(reply.tokens) if reply.tokens else None
