"""One run of a recorded judge next to the mean of all its runs, as rivals in `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from accord.evidence import Column, EvidenceTable
from accord.learning import Experiment, Head, Planned, make_head
from accord.models import JUDGE, RecordedJudge
from accord.project.judges.recorded_judges import expected_answer
from accord.validation import BEST_COLUMN
from accord.values import Question, Sample, Target

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

ONE_RUN = "judge-one-run"


def all_runs(count: int) -> str:
    """Return the name of the rival that is the mean of all runs."""
    return f"judge-{count}-runs"


def run_rivals(project: Workspace, experiment: Experiment, samples: Sequence[Sample]) -> list[Planned]:
    """Return the first run and the mean of all runs of a recorded judge's answer to the main question, to be predicted.

    Empty unless at least half of the rated samples with an answer have several runs.
    """
    judge = project.model_settings.get(JUDGE) if project.recordings else None
    recording = None if judge is None else project.recordings.get(judge.model or "")
    question = project.question
    if recording is None or not question.scale.is_ordered or question.compares:
        return []
    own = {key: runs for key, runs in recording.answers.items() if key[1].casefold() == question.id.casefold()}
    counts = sorted(len(runs) for runs in own.values() if runs)
    if not counts or (typical := counts[len(counts) // 2]) < 2:
        return []
    named = {ONE_RUN: {key: runs[:1] for key, runs in own.items()}, all_runs(typical): own}
    found = []
    for name, answers in named.items():
        table = _replayed_answers(name, RecordedJudge(answers, recording.model), samples, question)
        found.append(Planned(name, _best_column, replace(experiment, evidence=table)))
    return found


def _best_column(question: Question) -> Head:
    return make_head(BEST_COLUMN, question, {})


def _replayed_answers(name: str, judge: RecordedJudge, samples: Sequence[Sample], question: Question) -> EvidenceTable:
    """Return the expected answers of a recorded judge as the only column of a table."""
    rows: dict[Target, dict[str, float]] = {}
    for sample in samples:
        value = expected_answer(judge, sample, question)
        rows[sample.target] = {} if value is None else {name: value}
    return EvidenceTable.from_rows([Column(name, f"recorded|model:{judge.name}|runs:{name}")], rows)
