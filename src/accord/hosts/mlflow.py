"""MLflow: scorers of traces and sessions, scores as assessments, and a judge that learns from every annotator.

from accord.hosts.mlflow import session_scorer
mlflow.genai.evaluate(data=traces, scorers=[session_scorer("evaluators/default")])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accord.edges import BadInput, count_of
from accord.formats import ObservedAnswers
from accord.hosts.mlflow_traces import (
    SESSION,
    AccordJudge,
    content_of,
    conversation_of,
    feedback_of,
    groups_of_traces,
    is_human,
    is_same,
    score_of,
    session_of,
)
from accord.hosts.shared.scores import HostScorer, Openable, open_scorer, require
from accord.project import Config, infer_rubric
from accord.verbs import Project

mlflow = require("mlflow", "3.17", "mlflow")
judges = require("mlflow", "3.17", "mlflow", "mlflow.genai.judges")
_AlignmentOptimizer: Any = judges.AlignmentOptimizer


def trace_scorer(evaluator: Openable, name: str | None = None) -> Any:
    """Return a scorer of single traces for `mlflow.genai.evaluate`; its default name is the question's id."""
    host = open_scorer(evaluator)

    def score(trace: Any) -> Any:
        return feedback_of(host, score_of(host, [trace]), name)

    return mlflow.genai.scorer(score, name=name or host.name)


def session_scorer(evaluator: Openable, name: str | None = None) -> Any:
    """Return a scorer of whole sessions: one score for all traces with the same session id."""
    host = open_scorer(evaluator)

    def score(session: Any) -> Any:
        return feedback_of(host, score_of(host, session), name)

    return mlflow.genai.scorer(score, name=name or host.name)


def push(traces: Sequence[Any], evaluator: Openable, sessions: bool = False, name: str | None = None) -> int:
    """Write the score of each trace as an assessment, and return the number of written ones; unchanged ones stay.

    Args:
        traces: Traces of `mlflow.search_traces`.
        evaluator: Evaluator or project.
        sessions: True for one score per session, on its first trace as MLflow does; other traces stay single.
        name: Name of the assessments; by default the question's id.
    """
    host, written = open_scorer(evaluator), 0
    for group in groups_of_traces(traces, sessions):
        first, feedback = group[0].info.trace_id, feedback_of(host, score_of(host, group), name)
        if len(group) > 1 or sessions and session_of(group[0]):
            feedback.metadata[SESSION] = session_of(group[0])
        known = [each for each in mlflow.get_trace(first).info.assessments if is_same(each, feedback)]
        if known and content_of(known[-1]) == content_of(feedback):
            continue
        mlflow.log_assessment(trace_id=first, assessment=feedback)
        for each in known:
            mlflow.delete_assessment(trace_id=first, assessment_id=each.assessment_id)
        written += 1
    return written


class AccordOptimizer(_AlignmentOptimizer):  # type: ignore[misc]
    """Optimizer that aligns a judge by fitting an evaluator to every annotator's assessments of the judge's name.

    Call `AccordOptimizer().align(judge, traces)`: `judge.align(traces, optimizer)` refuses judges of sessions before it
    asks the optimizer. The result is a judge that asks no model.

    Args:
        folder: Folder in which to save the evaluator, for `accord score` and other tools; by default none.
        scale: Lowest and highest value of the scale; by default inferred from the assessments.
        **settings: Settings of `accord.yaml`, such as `metrics=["lexical"]`.
    """

    def __init__(
        self, folder: str | Path | None = None, scale: tuple[float, float] | None = None, **settings: Any
    ) -> None:
        self.folder, self.scale, self.settings = folder, scale, settings

    def align(self, judge: Any, traces: Sequence[Any]) -> Any:
        """Return a judge with the name and the instructions of another that predicts the annotators' assessments.

        Args:
            judge: A judge of traces, or of sessions (`is_session_level_scorer`).
            traces: Traces with assessments of source HUMAN with the name of the judge.

        Raises:
            BadInput: There are too few assessments, or their values form no scale.
        """
        observed = ObservedAnswers(judge.name, ends=self.scale, text=judge.instructions)
        labels, chats = list[dict[str, Any]](), list[dict[str, Any]]()
        for group in groups_of_traces(traces, judge.is_session_level_scorer):
            chat = conversation_of(group)
            found = [each for trace in group for each in trace.info.assessments if is_human(each, judge.name)]
            if isinstance(chat, str):
                continue
            for each in found:
                observed.add(each.feedback.value, each.source.source_id, None)
                row = {"conversation": chat.id, "annotator": each.source.source_id or "unknown"}
                labels.append({**row, "question": judge.name, "value": each.feedback.value})
            if found:
                messages = [turn.to_json() for turn in chat.turns]
                chats.append({"id": chat.id, "messages": messages, "session": session_of(group[0]) or chat.id})
        if not labels:
            raise BadInput(
                f"{count_of(len(traces), 'trace')} have no assessment {judge.name!r} by people. Add some: "
                f"mlflow.log_feedback(name={judge.name!r}, source=AssessmentSource('HUMAN', 'name'), ...)"
            )
        rubric = infer_rubric([observed], judge.name).rubric
        settings = {"store": "sqlite:///:memory:", "group_by": ["session"], **self.settings}
        with TemporaryDirectory(prefix="accord-") as temporary, Project(Config(**settings), rubric) as project:
            project.import_([chats, labels])
            evaluator = project.fit(out=self.folder or Path(temporary, "evaluator")).evaluator
        return AccordJudge(judge, HostScorer(evaluator))
