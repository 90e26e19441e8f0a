"""LangSmith: runs as `list_runs` gives them, and feedback as `list_feedback` or `GET /feedback` does (SDK 0.3 to 0.8).

A root run with what it was given and said is a conversation of its own, under its trace's id, with its thread beside
it: what is annotated in a queue is a run, and a run of a chat is given what was said before. Feedback that people gave
in the app (`feedback_source.type` is `app`, inline or in an annotation queue) is an answer to the question that its
`key` names, by `user_id`; its conversation is imported first, or in the same command. What models, evaluators and code
sent (`model`, `auto_eval`, `api`) is passed over, and so are runs within another run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accord.formats.openai_messages import checked_answer, checked_id
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats, mapping_of
from accord.formats.trace_merging import loose_turns
from accord.values import Annotation, Conversation, Target

INNER, NOT_PEOPLE = "a run within another run", "feedback that no person gave in the app"
_THREADS = ("session_id", "thread_id", "conversation_id")


def _is_feedback(fields: Fields) -> bool:
    return {"key", "run_id", "feedback_source"} <= fields.keys()


def _is_run(fields: Fields) -> bool:
    return {"inputs", "outputs", "run_type", "trace_id"} <= fields.keys()


def _key(fields: Fields) -> str | None:
    name = fields.get("trace_id") or (fields.get("run_id") if _is_feedback(fields) else fields.get("id"))
    return None if name in (None, "") else str(name)


def _passed_over(fields: Fields) -> str | None:
    if _is_feedback(fields):
        return None if _source(fields).get("type") == "app" else NOT_PEOPLE
    return INNER if fields.get("parent_run_id") else None


def _source(fields: Fields) -> Fields:
    return mapping_of(fields.get("feedback_source"))


def _convert(rows: Sequence[Fields], default_id: str) -> Record | None:
    name = checked_id(_key(rows[0]) or default_id)
    told = [row for row in rows if _passed_over(row) is None]
    runs = [row for row in told if not _is_feedback(row)]
    said = [_answer(row, name) for row in told if _is_feedback(row)]
    if not runs:
        return answered(Conversation(name, ()), said) if said else None
    if len(runs) > 1:
        raise WrongShape(f"trace {name} has {len(runs)} root runs; it can have one")
    return answered(_conversation(runs[0], name), said)


def _conversation(run: Fields, name: str) -> Conversation:
    turns = (*loose_turns(run.get("inputs"), "user"), *loose_turns(_output(run.get("outputs")), "assistant"))
    if not turns:
        raise WrongShape("the run has no inputs and no outputs")
    extra = run.get("extra")
    inner = extra.get("metadata") if isinstance(extra, dict) else None
    metadata = dict(mapping_of(inner))
    thread = next((metadata[key] for key in _THREADS if metadata.get(key)), None)
    known = {key: run[key] for key in ("name", "tags", "start_time", "session_name") if run.get(key)}
    return Conversation(name, turns, (), {**metadata, **known, **({} if thread is None else {"thread": thread})})


def _output(value: Any) -> Any:
    """What a run said: of a list of messages those that are new, which stand last."""
    listed = value.get("messages") if isinstance(value, dict) else None
    return listed[-1] if isinstance(listed, list) and listed else value


def _answer(row: Fields, name: str) -> Annotation:
    source = _source(row)
    who = source.get("user_id") or source.get("ls_user_id") or "langsmith"
    value = row.get("score") if row.get("score") is not None else row.get("value")
    if isinstance(value, dict | list):
        raise WrongShape(f"the value of {row.get('key')!r} is a number or a text, got {type(value).__name__}")
    time = row.get("modified_at") or row.get("created_at")
    return Annotation(
        Target(name), checked_id(row["key"]), checked_id(who), "person", checked_answer(value),
        comment=str(row.get("comment") or ""), time=None if time is None else str(time),
    )  # fmt: skip


formats.register("langsmith")(
    Format(
        recognises=lambda fields: _is_feedback(fields) or _is_run(fields), convert=_convert, key=_key,
        passed_over=_passed_over, alone=_is_feedback,
    )
)  # fmt: skip
