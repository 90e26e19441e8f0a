"""Langfuse exports: traces with `input`, `output` and `scores`; the traces of a session are one conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from accord.conversation import Conversation, Target, Turn
from accord.labels import Label
from accord.readers.history import joined, loose_turns
from accord.readers.messages import checked_id
from accord.readers.record import Fields, Format, Record, WrongShape, formats

_HUMAN = "ANNOTATION"


def _recognises(fields: Fields) -> bool:
    named = {"sessionId", "session_id", "observations", "scores", "userId"} & fields.keys()
    return "input" in fields and "output" in fields and bool(named)


def _key(trace: Fields) -> str | None:
    return str(trace.get("sessionId") or trace.get("session_id") or trace.get("id") or "") or None


def _call(trace: Fields) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """What went into the trace and what came out; of its last generation where the trace itself is silent."""
    source: Any = trace
    if not trace.get("input") and not trace.get("output"):
        generations = [
            o for o in trace.get("observations") or () if isinstance(o, dict) and o.get("type") == "GENERATION"
        ]
        source = generations[-1] if generations else trace
    return loose_turns(source.get("input"), "user"), loose_turns(source.get("output"), "assistant")


def _labels(trace: Fields, target: Target) -> Iterator[Label]:
    """People's scores; those of evaluators and of code are evidence of another kind and are left out."""
    for score in trace.get("scores") or ():
        if not isinstance(score, dict) or score.get("source", _HUMAN) != _HUMAN:
            continue
        value = score.get("value") if score.get("value") is not None else score.get("stringValue")
        annotator = score.get("authorUserId") or score.get("author_user_id") or "langfuse"
        if value is not None and score.get("name"):
            time = score.get("timestamp") or score.get("createdAt")
            yield Label(target, str(score["name"]), checked_id(annotator), _whole(value), time)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    traces = sorted(rows, key=lambda trace: str(trace.get("timestamp") or ""))
    id_ = checked_id(_key(traces[0]) or default_id)
    turns = joined(_call(trace) for trace in traces)
    if not turns:
        raise WrongShape("no trace of the session has an input or an output")
    metadata: dict[str, Any] = {}
    for trace in traces:
        inner = trace.get("metadata")
        metadata |= inner if isinstance(inner, dict) else {}
        metadata |= {key: trace[key] for key in ("name", "userId", "tags", "version", "release") if trace.get(key)}
    labels = [label for trace in traces for label in _labels(trace, Target(id_))]
    return Record(Conversation(id_, turns, (), metadata), tuple(labels))


formats.register("langfuse")(Format(recognises=_recognises, convert=_convert, key=_key))
