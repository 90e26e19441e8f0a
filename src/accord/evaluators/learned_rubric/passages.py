"""Which words of a conversation an assertion is about: a quote that a model gave, or the turn that is nearest."""

from __future__ import annotations

from accord.conversation import Conversation, Turn
from accord.evidence.bank.words import counted_stems, pieces
from accord.rubric import Question

LONGEST = 300
"""Characters of a passage."""
ROLES = frozenset({"user", "assistant"})
"""Words that assertions use of the speakers: they tell no turn from another."""


def passage(conversation: Conversation, question: Question) -> str | None:
    """The passage of a conversation that bears on an assertion; `None` where no turn shares a word with it."""
    quote = next((r.quote for r in question.reasons if r.conversation == conversation.id and r.quote), None)
    if quote is not None:
        return quote
    stems = counted_stems(pieces(question.text)).keys() - ROLES
    shared = [len(stems & counted_stems(pieces(turn.content)).keys()) for turn in conversation.turns]
    if not shared or not max(shared):
        return None
    return _shown(conversation.turns[shared.index(max(shared))])


def _shown(turn: Turn) -> str:
    text = " ".join(turn.content.split())
    return f"{turn.role}: {text[:LONGEST]}{' …' if len(text) > LONGEST else ''}"
