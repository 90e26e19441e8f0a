"""Overlap: how much of a reply is the documents', the question's, the conversation's."""

from __future__ import annotations

from collections.abc import Sequence

from accord.evidence.bank.message import History, Message, Source, turn_metrics

NAMES = ("document-share", "question-share", "history-share")


@turn_metrics.register("document-share")
def document_share(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Share of the reply's content words that stand in a document; nothing where there are no documents."""
    if not sources:
        return None
    own = reply.content
    return max([len(source.content.intersection(own)) for source in sources]) / len(own) if own else 0.0


@turn_metrics.register("question-share")
def question_share(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Share of the content words said last by somebody else that the reply takes up."""
    asked = history.asked
    if asked is None or not asked.content:
        return None
    return len(asked.content.keys() & reply.content.keys()) / len(asked.content)


@turn_metrics.register("history-share")
def history_share(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Share of the reply's content words that were said before, by anybody."""
    own = reply.content
    return history.known(reply) / len(own) if own else None
