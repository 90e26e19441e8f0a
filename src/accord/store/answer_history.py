"""Answers and what became of them: which one an answer replaces, what stands, and whether one came before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, or_, select

from accord.store.accounts import Conflict
from accord.store.rows import annotation_from
from accord.store.schema import annotated
from accord.store.store import PERSON
from accord.values import ISSUE, Annotation


def again(kept: Annotation, said: Annotation) -> Annotation:
    """What is kept of an answer that comes again.

    Raises:
        Conflict: It is another one.
    """
    if not is_same(kept, said):
        raise Conflict("this answer's id was used for another answer; load the page and answer again", kept)
    return kept


def soon(until: str) -> str:
    """A lease that ends before this is worth a write: a minute before what it would be renewed to."""
    return (datetime.fromisoformat(until) - timedelta(minutes=1)).isoformat(timespec="milliseconds")


def replaced(said: Annotation, current: Sequence[Annotation]) -> str:
    """The `answer` that this one replaces; empty where it is the first.

    Raises:
        Conflict: A mark that is gone.
    """
    alike = [each.answer for each in current if each.question == said.question]
    if not said.question.startswith(ISSUE):
        return alike[-1] if alike else ""
    if said.replaces and said.replaces not in alike:
        raise Conflict("this mark was changed already; load the page again")
    return said.replaces


def is_same(kept: Annotation, said: Annotation) -> bool:
    """Whether it is the same answer, at whatever time it was sent and however long the page was open."""
    alike: dict[str, Any] = {"time": None, "seconds": None, "replaces": ""}
    return replace(kept, **alike) == replace(said, **alike)


def said_of(connection: Connection, about: Annotation, history: bool = False, alike: bool = False) -> list[Annotation]:
    """What the author of an annotation said of the same item, in order; `alike`: of its question, or its answer."""
    table = annotated.c
    query = select(annotated).where(table.conversation == about.target.conversation, table.by == about.by)
    query = query.where(table.kind == PERSON, table.answer.is_not(None)).order_by(table.place, table.key)
    if alike:
        query = query.where(or_(table.question == about.question, table.answer == about.answer))
    found = [annotation_from(row) for row in connection.execute(query)]
    is_turn = about.target.turn is not None
    found = [
        each for each in found
        if each.study == about.study and each.against == about.against and (not is_turn or each.target == about.target)
    ]  # fmt: skip
    return found if history else standing(found)


def standing(found: Sequence[Annotation]) -> list[Annotation]:
    """Of a history what stands: nothing that was replaced, no mark that was taken back."""
    gone = {each.replaces for each in found}
    return [
        each for each in found
        if each.answer not in gone and not (each.replaces and each.value is None and each.question.startswith(ISSUE))
    ]  # fmt: skip
