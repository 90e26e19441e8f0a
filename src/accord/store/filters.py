"""Conditions of queries: what of a person's annotations stands, and which conversations count.

Conversations that nobody held pass for real ones nowhere: this is the one place that says which rows of all are meant.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, not_, or_, select, true

from accord.store.schema import annotated, conversations
from accord.values import ISSUE, Synthetic


def last_said() -> ColumnElement[bool]:
    """The condition that a person's annotation is the last that its author said: not replaced, no mark taken back."""
    table, later = annotated.c, annotated.alias("later")
    replaced = select(later.c.key).where(later.c.replaces == table.answer, later.c.by == table.by).exists()
    taken_back = and_(table.replaces.is_not(None), table.value == "null", table.question.startswith(ISSUE))
    return and_(or_(table.answer.is_(None), not_(replaced)), not_(taken_back))


def counts(synthetic: Synthetic) -> ColumnElement[bool]:
    """The condition that a conversation is one of those that count."""
    held = conversations.c.synthetic.is_(None)
    return {"without": held, "only": not_(held), "with": true()}[synthetic]


def is_about(synthetic: Synthetic) -> ColumnElement[bool]:
    """The condition that an annotation is about such conversations alone."""
    nobodys = select(conversations.c.id).where(conversations.c.synthetic.is_not(None)).scalar_subquery()
    table = annotated.c
    if synthetic == "without":
        return and_(table.conversation.not_in(nobodys), or_(table.against.is_(None), table.against.not_in(nobodys)))
    return table.conversation.in_(nobodys) if synthetic == "only" else true()
