"""Traces: Langfuse traces and scores, LangSmith runs and feedback, MLflow traces; and merging calls to conversations.

A call of a trace may repeat the history before it, or contain only new messages. Only scores, feedback and assessments
that people gave in the platform become labels; results of evaluators, models and code are skipped.

- Langfuse: traces with `input`, `output` and `scores`, or observations. A session is one conversation, and a score of
  one trace among several is about the turn to which the trace led.
- Langfuse scores of the public API (v3 with `subject`, v1 and v2): a score is about a session or about a trace without
  a session, imported before or by the same command. Scores of traces within sessions are read from the traces, because
  only these tell the turn.
- LangSmith: runs of `list_runs`, feedback of `list_feedback` or `GET /feedback` (SDK 0.3 to 0.8). A root run is a
  conversation with the id of its trace and its thread as metadata, because annotation queues hold runs, and the run of
  a chat contains the messages before it. Inner runs are skipped.
- MLflow: `Trace.to_dict()` as JSON lines or as a list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from accord.formats.files.row_reader import decoded_json
from accord.formats.openai_messages import checked_answer, checked_id, turns_from_message
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats, mapping_of
from accord.values import Annotation, Conversation, Label, Target, Turn

Call = tuple[Sequence[Turn], Sequence[Turn]]
"""Input and output of one model call."""


def merged_turns(calls: Iterable[Call]) -> tuple[tuple[Turn, ...], list[int]]:
    """Merge calls in order of time into one conversation, and return the index of the last turn after each call.

    A call's input replaces the conversation if it repeats all turns, or if it equals the last input (a regenerated
    reply). If it repeats the end of the conversation (a sliding window), only its new turns are added.
    """
    turns: list[Turn] = []
    ends: list[int] = []
    before: list[tuple[str, str]] = []  # of `turns`
    systems = set[str]()
    last_sent: list[tuple[str, str]] = []
    for sent, received in calls:
        now = _without_system(sent)
        if now[: len(before)] == before or (last_sent and now == before[: len(now)] and now == last_sent):
            added = [*sent, *received]
            turns, before, systems = [], [], set()
        else:
            fresh = [turn for turn in sent if not (turn.role == "system" and turn.content in systems)]
            repeated = _overlap(before, now)
            added = [*fresh[len(fresh) - len(now) + repeated :], *received] if repeated else [*fresh, *received]
        turns += added
        before += _without_system(added)
        systems |= {turn.content for turn in added if turn.role == "system"}
        last_sent = now
        ends.append(len(turns) - 1)
    return tuple(turns), ends


def _overlap(before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> int:
    """Return the length of the longest end of `before` that is a beginning of `now` (Knuth, Morris & Pratt, 1977)."""
    shorter, size = [0] * len(now), 0  # by number of turns, the longest shorter beginning that is also an end
    for place in range(1, len(now)):
        while size and now[place] != now[size]:
            size = shorter[size - 1]
        size += now[place] == now[size]
        shorter[place] = size
    size = 0
    for turn in before[max(len(before) - len(now), 0) :]:
        while size and (size == len(now) or turn != now[size]):
            size = shorter[size - 1]
        size += bool(now) and turn == now[size]
    return size


def _without_system(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content.strip()) for turn in turns if turn.role != "system"]


def decoded(value: Any) -> Any:
    """Decode JSON text, as attributes of spans contain it; any other value is returned unchanged."""
    if isinstance(value, str):
        try:
            return decoded_json(value)
        except ValueError:
            return value
    return value


def decoded_messages(value: Any) -> Any:
    """Decode JSON text that holds messages; any other text is returned unchanged, since users type JSON too."""
    inner = decoded(value) if isinstance(value, str) and value[:1] in "[{" else value
    entries = inner if isinstance(inner, list) else [inner]
    has_messages = entries and all(isinstance(entry, dict) and _MESSAGE_KEYS & entry.keys() for entry in entries)
    return inner if has_messages else value


_MESSAGE_KEYS = {"role", "messages", "choices", "parts"}
_TEXT_KEYS = ("query", "question", "input", "prompt", "text", "message", "response", "answer", "output", "result")
_HISTORY_KEYS = ("chat_history", "history")


def loose_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """Return the turns of a trace's input or output: messages, one message, a reply of a chat API, or a text.

    `role` is the role of messages that name none. A list of something else than messages raises `WrongShape`.
    """
    if value in (None, "", [], {}):
        return ()
    if isinstance(value, list):
        return tuple(turn for message in value for turn in turns_from_message(_with_role(message, role)))
    if isinstance(value, dict):
        return _object_turns(value, role)
    return (Turn(role, str(value)),)


def _object_turns(value: dict[str, Any], role: str) -> tuple[Turn, ...]:
    if isinstance(value.get("choices"), list) and value["choices"]:
        return loose_turns(value["choices"][0].get("message"), role)
    if isinstance(value.get("messages"), list):
        return loose_turns(value["messages"], role)
    if "content" in value or "parts" in value:
        return turns_from_message(_with_role(value, role))
    history: list[Any] = next((value[key] for key in _HISTORY_KEYS if isinstance(value.get(key), list)), [])
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str | list | dict)), None)
    if text is None:
        return (Turn(role, json.dumps(value, ensure_ascii=False)),)
    return (*loose_turns(history, role), *loose_turns(text, role))


def _with_role(message: Any, role: str) -> Any:
    if isinstance(message, str):
        return {"role": role, "content": message}
    return {"role": role, **message} if isinstance(message, dict) else message


def _first(fields: Fields, *names: str) -> Any:
    """Return the first value that is not empty under some names; `None` if there is none."""
    return next((fields[name] for name in names if fields.get(name)), None)


def _time(value: Any) -> str | None:
    return None if value is None else str(value)


def _session(
    traces: Sequence[Fields],
    name: str,
    call: Callable[[Fields], Call],
    metadata: Mapping[str, Any],
    labels: Callable[[Fields, Target], Iterator[Label]],
    host_ids: Callable[[Sequence[int]], Mapping[str, Any]] = lambda ends: {},
) -> Record:
    """Merge the traces of a session, in order of time, into one conversation; raises `WrongShape` if all are empty.

    `host_ids` returns the ids of `host_ids_of`, from the turn to which each trace led.
    """
    turns, ends = merged_turns(map(call, traces))
    if not turns:
        raise WrongShape("no trace of the session has an input or an output")
    metadata = {**metadata, **host_ids(ends)}
    # A label on one trace among several is about the turn to which the trace led.
    targets = [Target(name, None if len(traces) == 1 else end) for end in ends]
    all_labels = tuple(label for trace, target in zip(traces, targets, strict=True) for label in labels(trace, target))
    return Record(Conversation(name, turns, (), metadata), all_labels)


HOST_IDS = "host_ids"
"""Key of the metadata with the ids that a conversation and its turns have on a tracing platform."""


def host_ids_of(
    session: Any, traces: Sequence[str | None], ends: Sequence[int], time: Any, spans: Sequence[str | None] = ()
) -> dict[str, Any]:
    """Return metadata with the ids of a conversation on a tracing platform, to which `accord push` sends scores.

    Args:
        session: Id of the session, or `None` if the conversation has no session.
        traces: Id of the trace of each call.
        ends: Turn to which each call led.
        time: Time of the first trace, ISO 8601.
        spans: Id of the span of each call, if it is known.

    >>> host_ids_of("s1", ["a", "b"], [1, 3], None)
    {'host_ids': {'session': 's1', 'turns': {'1': ['a'], '3': ['b']}}}
    >>> host_ids_of(None, ["a"], [1], "2026-11-28T12:00:00Z", ["f00d"])
    {'host_ids': {'trace': 'a', 'time': '2026-11-28T12:00:00Z', 'turns': {'1': ['a', 'f00d']}}}
    """
    known = list(dict.fromkeys(trace for trace in traces if trace))
    turns = {
        str(end): [trace, *(filter(None, spans[place : place + 1]))]
        for place, (trace, end) in enumerate(zip(traces, ends, strict=True))
        if trace
    }
    ids = {"session": session or None, "trace": known[0] if len(known) == 1 else None, "time": _time(time) or None}
    found = {name: value for name, value in ids.items() if value is not None} | ({"turns": turns} if turns else {})
    return {HOST_IDS: found} if turns or session else {}


# --- Langfuse ------------------------------------------------------------------------------------------------------

_HUMAN = "ANNOTATION"
_SESSION_KEYS = ("sessionId", "session_id", "traceId", "trace_id")
_LANGFUSE_TIMES = ("timestamp", "startTime", "start_time")
_TRACE_DETAILS = ("name", "userId", "tags", "version", "release")


def _is_langfuse(fields: Fields) -> bool:
    has_key = {"observations", "scores", "userId", *_SESSION_KEYS} & fields.keys()
    return "input" in fields and "output" in fields and bool(has_key)


def _langfuse_key(trace: Fields) -> str | None:
    key = _first(trace, *_SESSION_KEYS, "id")
    return None if key is None else str(key)


def _langfuse_call(trace: Fields) -> Call:
    """Return the input and output of a trace, or of its last generation if the trace itself has neither."""
    source: Any = trace
    if not trace.get("input") and not trace.get("output"):
        observations = [o for o in trace.get("observations") or () if isinstance(o, dict)]
        generations = [o for o in observations if o.get("type") == "GENERATION"]
        source = generations[-1] if generations else trace
    sent, received = decoded_messages(source.get("input")), decoded_messages(source.get("output"))
    return loose_turns(sent, "user"), loose_turns(received, "assistant")


def _langfuse_scores(trace: Fields) -> list[Any]:
    scores = decoded(trace.get("scores")) or []
    if not isinstance(scores, list):
        raise WrongShape(f"scores are a list, got {type(scores).__name__}")
    return scores


def _langfuse_labels(trace: Fields, target: Target) -> Iterator[Label]:
    for score in _langfuse_scores(trace):
        if not isinstance(score, dict) or score.get("source", _HUMAN) != _HUMAN:
            continue
        value = checked_answer(score.get("value") if score.get("value") is not None else score.get("stringValue"))
        annotator = _first(score, "authorUserId", "author_user_id") or "langfuse"
        if value is not None and score.get("name"):
            time = _first(score, "timestamp", "createdAt")
            yield Label(target, checked_id(score["name"]), checked_id(annotator), value, time)


def _convert_langfuse(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert the Langfuse traces (or observations) of a session, with the scores that people gave."""
    ordered = sorted(rows, key=lambda row: str(_first(row, *_LANGFUSE_TIMES) or ""))
    # The spans of a trace repeat what its generations hold.
    traces = [row for row in ordered if row.get("type") == "GENERATION"] or ordered
    metadata: dict[str, Any] = {}
    for trace in traces:
        metadata |= mapping_of(trace.get("metadata"))
        metadata |= {key: trace[key] for key in _TRACE_DETAILS if trace.get(key)}
        score_ids = [score for score in _langfuse_scores(trace) if not isinstance(score, dict)]
        metadata |= {"score_ids": [*metadata.get("score_ids", []), *score_ids]} if score_ids else {}
    name = checked_id(_langfuse_key(traces[0]) or default_id)
    session = _first(traces[0], "sessionId", "session_id")
    trace_ids = [_langfuse_trace(trace) for trace in traces]
    time = _first(ordered[0], *_LANGFUSE_TIMES)

    def host_ids(ends: Sequence[int]) -> dict[str, Any]:
        return host_ids_of(None if session is None else str(session), trace_ids, ends, time)

    return _session(traces, name, _langfuse_call, metadata, _langfuse_labels, host_ids)


def _langfuse_trace(row: Fields) -> str | None:
    """Return the id of a trace, or of the trace of an observation, which has a type."""
    found = _first(row, "traceId", "trace_id") or (None if row.get("type") else row.get("id"))
    return None if found is None else str(found)


formats.register("langfuse")(Format(matches=_is_langfuse, convert=_convert_langfuse, key=_langfuse_key))

NOT_HUMAN_SCORE, NO_TARGET = "a score that no person gave", "a score without a session or a trace"


def _is_langfuse_score(fields: Fields) -> bool:
    has_key = {"traceId", "sessionId", "subject", "observationId"} & fields.keys()
    is_score = {"name", "source", "dataType"} <= fields.keys() and fields["source"] in (_HUMAN, "API", "EVAL")
    return is_score and bool(has_key) and not {"input", "output"} & fields.keys()


def _langfuse_score_key(score: Fields) -> str | None:
    """Return the conversation of a score: its session, or its trace."""
    subject = score.get("subject")
    if isinstance(subject, dict):
        field = {"session": "id", "trace": "id", "observation": "traceId"}.get(str(subject.get("kind")))
        name: Any = None if field is None else subject.get(field)
    else:
        name = score.get("sessionId") or score.get("traceId")
    return None if name in (None, "") else str(name)


def _ignored_score(score: Fields) -> str | None:
    if score.get("source") != _HUMAN:
        return NOT_HUMAN_SCORE
    return NO_TARGET if _langfuse_score_key(score) is None else None


def _convert_langfuse_scores(rows: Sequence[Fields], default_id: str) -> Record | None:
    """Convert Langfuse scores of the public API (v1 to v3); their conversations come from another file."""
    scores = [row for row in rows if _ignored_score(row) is None]
    if not scores:
        return None
    name = checked_id(_langfuse_score_key(scores[0]))
    return answered(Conversation(name, ()), [_langfuse_score(score, name) for score in scores])


def _langfuse_score(score: Fields, name: str) -> Annotation:
    text = score.get("stringValue") if score.get("dataType") in ("CATEGORICAL", "TEXT") else None
    return _human_answer(
        name, score.get("name"), score.get("authorUserId") or "langfuse", score.get("value") if text is None else text,
        score.get("comment"), _first(score, "timestamp", "createdAt"),
    )  # fmt: skip


def _human_answer(conversation: str, question: Any, annotator: Any, value: Any, comment: Any, time: Any) -> Annotation:
    return Annotation(
        Target(conversation), checked_id(question), checked_id(annotator), "person", checked_answer(value),
        comment=str(comment or ""), time=_time(time),
    )  # fmt: skip


formats.register("langfuse-scores")(
    Format(
        matches=_is_langfuse_score, convert=_convert_langfuse_scores, key=_langfuse_score_key,
        skip_reason=_ignored_score, is_answer=_is_langfuse_score,
    )
)  # fmt: skip


# --- LangSmith -----------------------------------------------------------------------------------------------------

INNER_RUN, NOT_HUMAN_FEEDBACK = "a run within another run", "feedback that no person gave in the app"
_THREAD_KEYS = ("session_id", "thread_id", "conversation_id")


def _is_feedback(fields: Fields) -> bool:
    return {"key", "run_id", "feedback_source"} <= fields.keys()


def _is_langsmith(fields: Fields) -> bool:
    return _is_feedback(fields) or {"inputs", "outputs", "run_type", "trace_id"} <= fields.keys()


def _langsmith_key(fields: Fields) -> str | None:
    name = fields.get("trace_id") or (fields.get("run_id") if _is_feedback(fields) else fields.get("id"))
    return None if name in (None, "") else str(name)


def _ignored_run(fields: Fields) -> str | None:
    if _is_feedback(fields):
        return None if mapping_of(fields.get("feedback_source")).get("type") == "app" else NOT_HUMAN_FEEDBACK
    return INNER_RUN if fields.get("parent_run_id") else None


def _convert_langsmith(rows: Sequence[Fields], default_id: str) -> Record | None:
    """Convert a LangSmith root run, or the feedback that people gave on it in the app."""
    name = checked_id(_langsmith_key(rows[0]) or default_id)
    read = [row for row in rows if _ignored_run(row) is None]
    runs = [row for row in read if not _is_feedback(row)]
    answers = [_feedback(row, name) for row in read if _is_feedback(row)]
    if not runs:
        return answered(Conversation(name, ()), answers) if answers else None
    if len(runs) > 1:
        raise WrongShape(f"trace {name} has {len(runs)} root runs; it can have one")
    return answered(_run_conversation(runs[0], name), answers)


def _run_conversation(run: Fields, name: str) -> Conversation:
    outputs = run.get("outputs")
    messages = outputs.get("messages") if isinstance(outputs, dict) else None
    reply = messages[-1] if isinstance(messages, list) and messages else outputs  # earlier messages are the input
    turns = (*loose_turns(run.get("inputs"), "user"), *loose_turns(reply, "assistant"))
    if not turns:
        raise WrongShape("the run has no inputs and no outputs")
    metadata = dict(mapping_of(mapping_of(run.get("extra")).get("metadata")))
    thread = _first(metadata, *_THREAD_KEYS)
    details = {key: run[key] for key in ("name", "tags", "start_time", "session_name") if run.get(key)}
    trace, project = run.get("trace_id") or run.get("id"), run.get("session_id")
    ids = host_ids_of(None, [str(trace) if trace else None], [len(turns) - 1], run.get("start_time"))
    if ids and project:
        ids[HOST_IDS]["project"] = str(project)
    return Conversation(
        name, turns, (), {**metadata, **details, **({} if thread is None else {"thread": thread}), **ids}
    )


def _feedback(row: Fields, name: str) -> Annotation:
    value = row.get("score") if row.get("score") is not None else row.get("value")
    if isinstance(value, dict | list):
        raise WrongShape(f"the value of {row.get('key')!r} is a number or a text, got {type(value).__name__}")
    annotator = _first(mapping_of(row.get("feedback_source")), "user_id", "ls_user_id") or "langsmith"
    return _human_answer(
        name, row["key"], annotator, value, row.get("comment"), _first(row, "modified_at", "created_at")
    )  # fmt: skip


formats.register("langsmith")(
    Format(
        matches=_is_langsmith, convert=_convert_langsmith, key=_langsmith_key, skip_reason=_ignored_run,
        is_answer=_is_feedback,
    )
)  # fmt: skip


# --- MLflow --------------------------------------------------------------------------------------------------------

_MLFLOW_SESSION = "mlflow.trace.session"


def _is_mlflow(fields: Fields) -> bool:
    info = fields.get("info")
    return isinstance(info, dict) and "data" in fields and bool({"trace_id", "request_id"} & info.keys())


def _mlflow_metadata(trace: Fields) -> Fields:
    info = trace["info"]
    return {**mapping_of(info.get("tags")), **mapping_of(info.get("trace_metadata", info.get("request_metadata")))}


def _mlflow_key(trace: Fields) -> str | None:
    info = trace.get("info")
    if not isinstance(info, dict):
        return None
    return str(_mlflow_metadata(trace).get(_MLFLOW_SESSION) or _first(info, "trace_id", "request_id") or "") or None


def _mlflow_call(trace: Fields) -> Call:
    """Return the input and output of a trace's root span, or of the trace itself if the span has none."""
    data = mapping_of(trace.get("data"))
    spans = [span for span in data.get("spans") or () if isinstance(span, dict)]
    root = next((span for span in spans if not span.get("parent_span_id") and not span.get("parent_id")), {})
    attributes = mapping_of(root.get("attributes"))
    sent = attributes.get("mlflow.spanInputs", data.get("request"))
    received = attributes.get("mlflow.spanOutputs", data.get("response"))
    return loose_turns(decoded(sent), "user"), loose_turns(decoded(received), "assistant")


def _mlflow_labels(trace: Fields, target: Target) -> Iterator[Label]:
    for assessment in trace["info"].get("assessments") or ():
        source = mapping_of(mapping_of(assessment).get("source"))
        if source.get("source_type") != "HUMAN" or assessment.get("valid") is False:
            continue
        value = checked_answer(mapping_of(assessment.get("feedback")).get("value"))
        name = assessment.get("assessment_name", assessment.get("name"))
        if value is not None and name:
            annotator = checked_id(source.get("source_id") or "mlflow")
            yield Label(target, checked_id(name), annotator, value, _time(assessment.get("create_time")))


def _convert_mlflow(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert the MLflow traces of a session, with assessments of source HUMAN."""
    traces = sorted(
        rows, key=lambda trace: str(trace["info"].get("request_time", trace["info"].get("timestamp_ms", "")))
    )
    metadata = {k: v for trace in traces for k, v in _mlflow_metadata(trace).items() if k != _MLFLOW_SESSION}
    name = checked_id(_mlflow_key(traces[0]) or default_id)
    return _session(traces, name, _mlflow_call, metadata, _mlflow_labels)


formats.register("mlflow")(Format(matches=_is_mlflow, convert=_convert_mlflow, key=_mlflow_key))
