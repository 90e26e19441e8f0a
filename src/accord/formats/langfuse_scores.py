"""Langfuse's scores on their own, as its public API lists them: v3 (`subject`), and v1 and v2 before it.

What people gave in the app (`source` is `ANNOTATION`, in a queue or beside a trace) is an answer to the question that
its `name` is; scores of evaluators and of code are passed over. A score is about a session, or about a trace that is a
conversation of its own: traces are imported first, or in the same command. Where traces belong to sessions, their
scores come with the traces (`langfuse`), which alone say which turn they led to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accord.formats.openai_messages import checked_answer, checked_id
from accord.formats.record import Fields, Format, Record, answered, formats
from accord.values import Annotation, Conversation, Target

NOT_PEOPLE, NOWHERE = "a score that no person gave", "a score of an experiment, or of nothing"
_SOURCES = ("ANNOTATION", "API", "EVAL")


def _recognises(fields: Fields) -> bool:
    named = {"traceId", "sessionId", "subject", "observationId"} & fields.keys()
    is_score = {"name", "source", "dataType"} <= fields.keys() and fields["source"] in _SOURCES
    return is_score and bool(named) and not {"input", "output"} & fields.keys()


def _key(score: Fields) -> str | None:
    """The conversation: a session, or a trace."""
    subject = score.get("subject")
    if isinstance(subject, dict):
        about = {"session": "id", "trace": "id", "observation": "traceId"}.get(str(subject.get("kind")))
        name: Any = None if about is None else subject.get(about)
    else:
        name = score.get("sessionId") or score.get("traceId")
    return None if name in (None, "") else str(name)


def _passed_over(score: Fields) -> str | None:
    if score.get("source") != "ANNOTATION":
        return NOT_PEOPLE
    return NOWHERE if _key(score) is None else None


def _convert(rows: Sequence[Fields], default_id: str) -> Record | None:
    told = [row for row in rows if _passed_over(row) is None]
    if not told:
        return None
    name = checked_id(_key(told[0]))
    return answered(Conversation(name, ()), [_answer(row, name) for row in told])


def _answer(score: Fields, name: str) -> Annotation:
    raw = score.get("stringValue") if score.get("dataType") in ("CATEGORICAL", "TEXT") else score.get("value")
    value = checked_answer(score.get("value") if raw is None else raw)
    time = score.get("timestamp") or score.get("createdAt")
    return Annotation(
        Target(name), checked_id(score.get("name")), checked_id(score.get("authorUserId") or "langfuse"), "person",
        value, comment=str(score.get("comment") or ""), time=None if time is None else str(time),
    )  # fmt: skip


formats.register("langfuse-scores")(
    Format(recognises=_recognises, convert=_convert, key=_key, passed_over=_passed_over, alone=_recognises)
)
