"""Numbers of labels: by person, by judge, and by wording and scale of a question; and when each was stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import func, select

from accord.formats import LabelWordings, label_wordings
from accord.store.engine import read_json
from accord.store.rows import BATCH, MODEL, PERSON, batches, label_from
from accord.store.schema import annotation_table, is_rating
from accord.store.store import Store
from accord.values import Label, Question


class LabelCounts:
    """Queries of a store that count labels."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def annotators(self) -> list[str]:
        """Return the names of all people with a rating, in the order of their first one."""
        table = annotation_table.c
        query = select(table.by).where(table.kind == PERSON, is_rating()).group_by(table.by)
        return [name for (name,) in self._store._stream(query.order_by(func.min(table.place), table.by))]

    def judges(self, question: str) -> dict[str, int]:
        """Return the number of stored answers of models to a question, by model."""
        table = annotation_table.c
        query = select(table.by, func.count()).where(table.kind == MODEL, table.question == question)
        return dict(tuple(row) for row in self._store._stream(query.group_by(table.by).order_by(table.by)))

    def wordings(self, question: Question) -> LabelWordings:
        """Return the numbers of labels of a question by wording and scale, the last one of each person and text."""
        table = annotation_table.c
        query = self._store._of_people(select(table.wording, table.value, func.count()), question.id)
        rows = self._store._stream(query.where(table.value != "null").group_by(table.wording, table.value))
        found = label_wordings(question, ((wording, read_json(value), count) for wording, value, count in rows))
        if not found.is_mixed:
            return found
        current = self._store.labels(question.id, "stop").on(question.id)  # a label may replace one of another wording
        counts = Counter((each.wording, each.value) for each in current if each.value is not None)
        return label_wordings(question, ((wording, value, count) for (wording, value), count in counts.items()))

    def stored(self, question: str) -> list[tuple[Label, str]]:
        """Return all ratings of a question, also replaced ones, with the time when each was stored, in this order."""
        names = "conversation turn question by value time wording against against_turn content added"
        table = annotation_table.c
        query = select(*(table[name] for name in names.split()))
        query = query.where(table.kind == PERSON, is_rating(), table.question == question, table.value != "null")
        return [(label_from(row), row.added) for row in self._store._stream(query.order_by(table.place, table.key))]

    def rated_before(self, question: str, time: str, conversations: Iterable[str]) -> set[str]:
        """Return the conversations, among some, that had a rating of a question at a time, also a replaced one."""
        table = annotation_table.c
        query = select(table.conversation).distinct()
        query = query.where(table.kind == PERSON, is_rating(), table.question == question, table.added <= time)
        return {
            name
            for batch in batches(conversations, BATCH)
            for (name,) in self._store._stream(query.where(table.conversation.in_(batch)))
        }
