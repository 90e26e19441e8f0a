"""Check that the conversation or turn of an item exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from accord.edges import BadInput
from accord.store.rows import has_target, unknown_target
from accord.store.schema import conversations


def check_target(connection: Connection, row: Mapping[str, Any]) -> None:
    """Raise `BadInput` if a conversation or turn of an item does not exist, or a conversation has no turns."""
    names = [name for name in (row["conversation"], row["against"]) if name is not None]
    query = select(conversations.c.id, conversations.c.turns).where(conversations.c.id.in_(names))
    turns = dict(tuple(found) for found in connection.execute(query))
    is_bare = any(
        turns.get(row[name]) == 0 and row[turn] is not None
        for name, turn in (("conversation", "turn"), ("against", "against_turn"))
    )
    if is_bare or (row["turn"] or 0) < 0 or not has_target(dict(row), turns):
        raise BadInput(unknown_target({**row, "by": "the study"}))
