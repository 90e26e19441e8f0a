"""Numbers of labels: by person, by judge, and by wording and scale of a question."""

from __future__ import annotations

from sqlalchemy import func, select

from accord.formats import LabelWordings, label_wordings
from accord.store.engine import read_json
from accord.store.rows import MODEL, PERSON
from accord.store.schema import annotation_table, is_rating
from accord.store.store import Store
from accord.values import Question


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
        """Return the numbers of labels of a question by wording and scale."""
        table = annotation_table.c
        query = self._store._of_people(select(table.wording, table.value, func.count()), question.id)
        rows = self._store._stream(query.where(table.value != "null").group_by(table.wording, table.value))
        return label_wordings(question, ((wording, read_json(value), count) for wording, value, count in rows))
