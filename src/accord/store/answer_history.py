"""Histories of answers: the answers of an item, the current ones, and the one that a new answer replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, or_, select

from accord.store.group_commit import Conflict
from accord.store.rows import annotation_from
from accord.store.schema import annotation_table
from accord.store.store import PERSON
from accord.values import ISSUE, Annotation

ID_USED = "this answer's id was used for another answer; load the page and answer again"


def same_answer(kept: Annotation, new: Annotation) -> Annotation:
    """Return the stored answer if the new one repeats it, at whatever time.

    Raises:
        Conflict: It is another answer.
    """
    ignored: dict[str, Any] = {"time": None, "seconds": None, "replaces": ""}
    if replace(kept, **ignored) != replace(new, **ignored):
        raise Conflict(ID_USED, kept)
    return kept


def replaced_answer(new: Annotation, current: Sequence[Annotation]) -> str:
    """Return the `answer` ID that a new answer replaces; empty for a first answer.

    Raises:
        Conflict: The replaced mark is not current.
    """
    ids = [answer.answer for answer in current if answer.question == new.question]
    if not new.question.startswith(ISSUE):
        return ids[-1] if ids else ""
    if new.replaces and new.replaces not in ids:
        raise Conflict("this mark was changed already; load the page again")
    return new.replaces


def answers_of(connection: Connection, example: Annotation, only_related: bool = False) -> list[Annotation]:
    """Return all answers of the annotator, item and study of an example, in order.

    Args:
        connection: The connection.
        example: An annotation of the item.
        only_related: True for answers to the example's question, or with its ID.
    """
    table, target = annotation_table.c, example.target
    query = select(annotation_table).where(table.conversation == target.conversation, table.by == example.by)
    query = query.where(table.kind == PERSON, table.answer.is_not(None)).order_by(table.place, table.key)
    if only_related:
        query = query.where(or_(table.question == example.question, table.answer == example.answer))
    answers = [annotation_from(row) for row in connection.execute(query)]
    return [
        answer
        for answer in answers
        if (answer.study, answer.against) == (example.study, example.against)
        and (target.turn is None or answer.target == target)
    ]


def current_answers(history: Sequence[Annotation]) -> list[Annotation]:
    """Return the answers of a history that are not replaced and do not withdraw a mark."""
    replaced = {answer.replaces for answer in history}
    return [
        answer
        for answer in history
        if answer.answer not in replaced
        and not (answer.replaces and answer.value is None and answer.question.startswith(ISSUE))
    ]
