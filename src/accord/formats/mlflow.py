"""MLflow traces (`Trace.to_dict()` as JSON lines or a list); assessments with source HUMAN become labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accord.formats.openai_messages import checked_answer, checked_id
from accord.formats.record import Fields, Format, Record, WrongShape, formats, mapping_of
from accord.formats.trace_merging import Call, decoded, joined, loose_turns
from accord.values import Conversation, Label, Target

_SESSION = "mlflow.trace.session"


def _recognises(fields: Fields) -> bool:
    info = fields.get("info")
    return isinstance(info, dict) and "data" in fields and bool({"trace_id", "request_id"} & info.keys())


def _metadata(trace: Fields) -> Fields:
    info = trace["info"]
    return {**mapping_of(info.get("tags")), **mapping_of(info.get("trace_metadata", info.get("request_metadata")))}


def _key(trace: Fields) -> str | None:
    info = trace.get("info")
    if not isinstance(info, dict):
        return None
    return str(_metadata(trace).get(_SESSION) or info.get("trace_id") or info.get("request_id") or "") or None


def _call(trace: Fields) -> Call:
    """Input and output of the trace: of its root span, else as the trace itself states them."""
    data = mapping_of(trace.get("data"))
    spans = [span for span in data.get("spans") or () if isinstance(span, dict)]
    root = next((span for span in spans if not span.get("parent_span_id") and not span.get("parent_id")), None)
    attributes = mapping_of(root.get("attributes")) if root else {}
    sent = attributes.get("mlflow.spanInputs", data.get("request"))
    received = attributes.get("mlflow.spanOutputs", data.get("response"))
    return loose_turns(decoded(sent), "user"), loose_turns(decoded(received), "assistant")


def _labels(trace: Fields, target: Target) -> Iterator[Label]:
    for assessment in trace["info"].get("assessments") or ():
        source = mapping_of(mapping_of(assessment).get("source"))
        if source.get("source_type") != "HUMAN" or assessment.get("valid") is False:
            continue
        value = checked_answer(mapping_of(assessment.get("feedback")).get("value"))
        name = assessment.get("assessment_name", assessment.get("name"))
        if value is not None and name:
            annotator = checked_id(source.get("source_id") or "mlflow")
            time = assessment.get("create_time")
            yield Label(target, checked_id(name), annotator, value, None if time is None else str(time))


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    traces = sorted(
        rows, key=lambda trace: str(trace["info"].get("request_time", trace["info"].get("timestamp_ms", "")))
    )
    id_ = checked_id(_key(traces[0]) or default_id)
    turns, ends = joined(_call(trace) for trace in traces)
    if not turns:
        raise WrongShape("no trace of the session has a request or a response")
    metadata = {k: v for trace in traces for k, v in _metadata(trace).items() if k != _SESSION}
    # An assessment of one trace among several is about the turn that the trace led to.
    alone = len(traces) == 1
    targets = [Target(id_, None if alone else end) for end in ends]
    labels = [label for trace, target in zip(traces, targets, strict=True) for label in _labels(trace, target)]
    return Record(Conversation(id_, turns, (), metadata), tuple(labels))


formats.register("mlflow")(Format(recognises=_recognises, convert=_convert, key=_key))
