"""Langfuse exports: traces with `input`, `output` and `scores`, or observations; a session is one conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from accord.formats.openai_messages import checked_answer, checked_id
from accord.formats.record import Fields, Format, Record, WrongShape, formats, mapping_of
from accord.formats.trace_merging import Call, decoded, decoded_messages, joined, loose_turns
from accord.values import Conversation, Label, Target

_HUMAN = "ANNOTATION"
_TRACE_KEYS = ("traceId", "trace_id")


def _recognises(fields: Fields) -> bool:
    named = {"sessionId", "session_id", "observations", "scores", "userId", *_TRACE_KEYS} & fields.keys()
    return "input" in fields and "output" in fields and bool(named)


def _key(trace: Fields) -> str | None:
    keys = ("sessionId", "session_id", *_TRACE_KEYS, "id")
    return next((str(trace[key]) for key in keys if trace.get(key)), None)


def _generations(rows: Sequence[Fields]) -> list[Fields]:
    """The rows in time order; of a trace's observations only its generations: spans repeat what they say."""
    ordered = sorted(
        rows, key=lambda row: str(row.get("timestamp") or row.get("startTime") or row.get("start_time") or "")
    )
    return [row for row in ordered if row.get("type") == "GENERATION"] or ordered


def _call(trace: Fields) -> Call:
    """What went into the trace and what came out; of its last generation where the trace itself is silent."""
    source: Any = trace
    if not trace.get("input") and not trace.get("output"):
        generations = [
            o for o in trace.get("observations") or () if isinstance(o, dict) and o.get("type") == "GENERATION"
        ]
        source = generations[-1] if generations else trace
    sent, received = decoded_messages(source.get("input")), decoded_messages(source.get("output"))
    return loose_turns(sent, "user"), loose_turns(received, "assistant")


def _scores(trace: Fields) -> list[Any]:
    """The trace's scores, given as a list or as the JSON of one."""
    scores = decoded(trace.get("scores")) or []
    if not isinstance(scores, list):
        raise WrongShape(f"scores are a list, got {type(scores).__name__}")
    return scores


def _labels(trace: Fields, target: Target) -> Iterator[Label]:
    """People's scores; those of evaluators and of code are evidence of another kind and are left out."""
    for score in _scores(trace):
        if not isinstance(score, dict) or score.get("source", _HUMAN) != _HUMAN:
            continue
        value = checked_answer(score.get("value") if score.get("value") is not None else score.get("stringValue"))
        annotator = score.get("authorUserId") or score.get("author_user_id") or "langfuse"
        if value is not None and score.get("name"):
            time = score.get("timestamp") or score.get("createdAt")
            yield Label(target, checked_id(score["name"]), checked_id(annotator), value, time)


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    traces = _generations(rows)
    id_ = checked_id(_key(traces[0]) or default_id)
    turns, ends = joined(_call(trace) for trace in traces)
    if not turns:
        raise WrongShape("no trace of the session has an input or an output")
    metadata: dict[str, Any] = {}
    for trace in traces:
        inner = trace.get("metadata")
        metadata |= mapping_of(inner)
        metadata |= {key: trace[key] for key in ("name", "userId", "tags", "version", "release") if trace.get(key)}
        unread = [score for score in _scores(trace) if not isinstance(score, dict)]
        metadata |= {"score_ids": [*metadata.get("score_ids", []), *unread]} if unread else {}
    # A score of one trace among several is about the turn that the trace led to.
    alone = len(traces) == 1
    targets = [Target(id_, None if alone else end) for end in ends]
    labels = [label for trace, target in zip(traces, targets, strict=True) for label in _labels(trace, target)]
    return Record(Conversation(id_, turns, (), metadata), tuple(labels))


formats.register("langfuse")(Format(recognises=_recognises, convert=_convert, key=_key))
