"""Traces of MLflow as conversations, and scores as its assessments: parts of `accord.hosts.mlflow`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import PrivateAttr

from accord.edges import BadInput
from accord.formats import MemoryTable, read
from accord.hosts.shared.scores import HostScorer, reason_text, require
from accord.values import Conversation, ScoreRow, Target

entities = require("mlflow", "3.17", "mlflow", "mlflow.entities")
judges = require("mlflow", "3.17", "mlflow", "mlflow.genai.judges")
_Judge: Any = judges.Judge
SESSION = "mlflow.trace.session"
"""Metadata entry of traces and assessments with the id of their session."""


def session_of(trace: Any) -> str | None:
    """Return the id of a trace's session, or None."""
    return trace.info.trace_metadata.get(SESSION)  # type: ignore[no-any-return]


def groups_of_traces(traces: Sequence[Any], sessions: bool) -> list[list[Any]]:
    """Return the traces one by one, or grouped by session, in order of time."""
    groups: dict[str, list[Any]] = {}
    for trace in sorted(traces, key=lambda each: each.info.request_time):
        groups.setdefault((session_of(trace) if sessions else None) or trace.info.trace_id, []).append(trace)
    return list(groups.values())


def conversation_of(traces: Sequence[Any]) -> Conversation | str:
    """Return the conversation of the traces of one session, as `accord score` reads it, or why there is none."""
    name = (session_of(traces[0]) if len(traces) > 1 else None) or traces[0].info.trace_id
    try:
        [record] = read(MemoryTable([trace.to_dict() for trace in traces]), "mlflow")
    except (BadInput, ValueError) as error:
        return str(error)
    return replace(record.conversation, id=name)


def score_of(host: HostScorer, traces: Sequence[Any]) -> ScoreRow:
    """Return the score of the traces of one session."""
    found = conversation_of(traces)
    if isinstance(found, str):
        return host.unscored(Target(traces[0].info.trace_id), found).to_json()
    return host.score([found])[0]


def feedback_of(host: HostScorer, row: ScoreRow, name: str | None) -> Any:
    """Return a score as feedback; without a score, feedback with an error that has the reason."""
    source = entities.AssessmentSource(source_type="CODE", source_id=f"accord:{host.evaluator.name}")
    shared = {"name": name or host.name, "source": source, "metadata": {"accord.signature": row["signature"]}}
    if row["value"] is None:
        return entities.Feedback(error=entities.AssessmentError("UNSCORED", row["unscored"]), **shared)
    return entities.Feedback(value=row["value"], rationale=reason_text(row), **shared)


def is_human(assessment: Any, name: str) -> bool:
    """Return True for valid feedback of this name by a person."""
    is_given = getattr(assessment, "feedback", None) is not None and assessment.feedback.value is not None
    return (
        is_given
        and assessment.name == name
        and assessment.source.source_type == "HUMAN"
        and assessment.valid is not False
    )


def is_same(known: Any, new: Any) -> bool:
    """Return True if stored feedback is an earlier version of new feedback."""
    return (known.name, known.source.source_id) == (new.name, new.source.source_id) and known.valid is not False


def content_of(feedback: Any) -> tuple[Any, ...]:
    """Return the visible content of feedback."""
    error = feedback.feedback.error
    reason = None if error is None else error.error_message
    return feedback.feedback.value, reason, feedback.rationale, (feedback.metadata or {}).get("accord.signature")


class AccordJudge(_Judge):  # type: ignore[misc]
    """A judge of MLflow, of traces or of sessions, that scores with an evaluator."""

    _host: HostScorer = PrivateAttr()
    _instructions: str = PrivateAttr()
    _is_session: bool = PrivateAttr()

    def __init__(self, judge: Any, host: HostScorer) -> None:
        super().__init__(name=judge.name)
        self._host, self._instructions, self._is_session = host, judge.instructions, judge.is_session_level_scorer

    @property
    def is_session_level_scorer(self) -> bool:
        """True for a judge of sessions."""
        return self._is_session

    @property
    def instructions(self) -> str:
        """Instructions of the judge that was aligned."""
        return self._instructions

    @property
    def feedback_value_type(self) -> Any:
        """Type of a value: a number on the scale."""
        return float

    def get_input_fields(self) -> list[Any]:
        """Return the fields that the judge reads."""
        name = "session" if self._is_session else "trace"
        return [judges.base.JudgeField(name=name, description=f"The {name} to score")]

    def __call__(self, *, trace: Any = None, session: Any = None, **_: Any) -> Any:
        """Return the score of a trace or of a session."""
        given = session if self._is_session else [trace]
        return feedback_of(self._host, score_of(self._host, given), self.name)
