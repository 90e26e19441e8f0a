"""What was found wrong with each turn, in the store: one assessment a turn and a way of making it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import func, select

from accord.assessment import Assessment, digests
from accord.conversation import Conversation, Target, canonical_json, content_hash
from accord.store.engine import said
from accord.store.rows import batches, now
from accord.store.schema import assessments
from accord.store.store import BATCH, Added, Store


class Assessed:
    """The assessments of a store. The first one of a turn stays, for each way of making them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, found: Iterable[Assessment]) -> Added:
        """Keep assessments, a batch a transaction; those of a turn that the same maker has assessed change nothing."""
        total = Added()
        for batch in batches(found, BATCH):
            rows = {row["key"]: row for row in map(_row, reversed(batch))}
            with said(self._store.url), self._store._engine.begin() as connection:
                new = self._store._add(connection, assessments, list(rows.values()))
            total = total.plus(Added(new, len(batch) - new))
        return total

    def of(self, conversations: Iterable[Conversation], made_by: str) -> Iterator[Assessment]:
        """What one maker said of the turns of some conversations, in their order and by turn.

        An assessment of other words under the same id is none of theirs.
        """
        for batch in batches(conversations, BATCH):
            names = [conversation.id for conversation in batch]
            query = select(assessments).where(assessments.c.conversation.in_(names), assessments.c.made_by == made_by)
            found: dict[str, list[Assessment]] = {}
            for row in self._store._stream(query.order_by(assessments.c.turn, assessments.c.key)):
                target, content = Target(row.conversation, row.turn), json.loads(row.content)
                found.setdefault(row.conversation, []).append(Assessment.from_json(target, row.made_by, content))
            for conversation in batch:
                yield from _of(conversation, found.get(conversation.id, ()))

    def conversations(self, made_by: str) -> list[str]:
        """The ids of conversations of which one maker has assessed a turn."""
        query = select(assessments.c.conversation).where(assessments.c.made_by == made_by).distinct()
        return sorted(name for (name,) in self._store._stream(query))

    def makers(self) -> dict[str, int]:
        """How many turns each maker has assessed."""
        query = select(assessments.c.made_by, func.count()).group_by(assessments.c.made_by)
        return dict(sorted(tuple(row) for row in self._store._stream(query)))


def _of(conversation: Conversation, found: Sequence[Assessment]) -> Iterator[Assessment]:
    """Those of some assessments that are about these words, one a turn."""
    said = digests(conversation) if found else []
    seen = set()
    for each in found:
        turn = each.target.turn or 0
        there = turn < len(said) or not said
        same = there and (not each.said or not said or each.said == said[turn])
        if same and turn not in seen:
            seen.add(turn)
            yield each


def _row(found: Assessment) -> dict[str, object]:
    return {
        "key": content_hash([*found.target, found.made_by, found.said], length=40),
        "conversation": found.target.conversation,
        "turn": found.target.turn,
        "made_by": found.made_by,
        "content": canonical_json(found.to_json()),
        "added": now(),
    }
