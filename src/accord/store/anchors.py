"""Anchors in a store: rated conversations that the present judge judged again, with their day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select

from accord.store.engine import database_errors, read_json
from accord.store.erasure.tombstones import CONVERSATION, without_erased
from accord.store.rows import now
from accord.store.schema import anchors
from accord.store.store import Store
from accord.values import Target, canonical_json, content_hash


@dataclass(frozen=True, slots=True)
class Anchor:
    """A target that was judged again on one day.

    Attributes:
        evaluator: Name of the evaluator with the digest of its learned state, as in the mart.
        day: ISO date (UTC).
        then: Score from the answers that the evaluator learned from.
        now: Score from the new answers.
        answers: New evidence by column; `then` and the evidence that the evaluator learned from stay as they are.
        version: Version of the judge that its endpoint reported.
    """

    evaluator: str
    target: Target
    day: str
    then: float
    now: float
    answers: Mapping[str, float] = field(default_factory=dict)
    version: str = ""

    @property
    def key(self) -> str:
        """Key of the row: of one evaluator, target and day, the first row stays."""
        return anchor_key(self.evaluator, self.target, self.day)


def anchor_key(evaluator: str, target: Target, day: str) -> str:
    """Return the key of a target that is judged again on a day; processes claim it before they ask a judge."""
    return content_hash(["anchor", evaluator, *target, day], length=40)


class Anchors:
    """Anchors in a store; several processes may add them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, new: Sequence[Anchor]) -> int:
        """Add anchors and return the number of new rows; anchors of erased conversations are left out."""
        added = now()
        rows = [
            {
                "key": each.key, "evaluator": each.evaluator, "conversation": each.target.conversation,
                "turn": each.target.turn, "day": each.day, "added": added,
                "content": canonical_json(
                    {"then": each.then, "now": each.now, "answers": dict(each.answers), "version": each.version}
                ),
            }
            for each in new
        ]  # fmt: skip
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            kept = without_erased(connection, rows, lambda row: [(CONVERSATION, row["conversation"])])
            return self._store._add(connection, anchors, kept)

    def of(self, evaluator: str) -> list[Anchor]:
        """Return the anchors of an evaluator by day and target."""
        query = select(anchors).where(anchors.c.evaluator == evaluator)
        query = query.order_by(anchors.c.day, anchors.c.conversation, anchors.c.turn)
        return [anchor_of(row) for row in self._store._stream(query)]

    def about(self, conversations: Sequence[str]) -> list[Anchor]:
        """Return the anchors about some conversations."""
        query = select(anchors).where(anchors.c.conversation.in_(list(conversations))).order_by(anchors.c.day)
        return [anchor_of(row) for row in self._store._stream(query)]

    def state(self) -> tuple[int, str]:
        """Return a value that changes whenever anchors change: their number, and the time of the last one."""
        return self._store._one(select(func.count()).select_from(anchors)) or 0, str(
            self._store._one(select(func.max(anchors.c.added))) or ""
        )


def anchor_of(row: Any) -> Anchor:
    """Return the anchor of a row.

    Raises:
        ValueError: Its content is damaged.
    """
    content = read_json(row.content)
    try:
        scores, answers = (float(content["then"]), float(content["now"])), dict(content["answers"])
        return Anchor(row.evaluator, Target(row.conversation, row.turn), row.day, *scores, answers, content["version"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an anchor: {error}") from None
