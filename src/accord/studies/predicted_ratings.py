"""Predictions of the evaluator in use for one conversation: for a new annotator and for each known one.

Predictions use saved evidence and send no model requests. They are computed in the background, because evidence of a
long conversation takes time, and cached until the conversation or the evaluator changes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from accord.edges import AccordError, BadInput, hide_folders
from accord.evidence import EvidenceTable
from accord.learning import CARD, Evaluator
from accord.models import run
from accord.project import Workspace
from accord.scoring import Perspective, Scorer, samples_of
from accord.studies.background_jobs import BackgroundJobs
from accord.values import Conversation, Sample, Score, Unscored, content_hash

CACHE_SIZE = 32
"""Number of conversations whose predictions are cached."""
PAGE_WAIT_SECONDS = 0.1
"""Time that a page waits for predictions before it is sent without them."""
MAX_ANNOTATORS = 200
"""Maximum number of annotators with predictions; the first ones by name."""


@dataclass(frozen=True)
class ConversationPredictions:
    """Predictions for one conversation; keys of mappings are turns, with `None` for the whole conversation.

    Attributes:
        state: `ready`, `waiting`, or `none` for a `reason`.
        scores: Predictions for a new annotator, as `Score.to_json` returns them.
        people: Predictions by annotator: mean, 80% interval and distribution, or a reason (`unscored`).
        metrics: Columns of evidence that are not answers of a judge.
        without: Number of missing values by reason.
    """

    state: str
    reason: str = ""
    evaluator: str = ""
    question: str = ""
    level: str = ""
    scores: Mapping[int | None, Mapping[str, Any]] = field(default_factory=dict)
    people: Mapping[int | None, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    metrics: Mapping[int | None, Mapping[str, float]] = field(default_factory=dict)
    without: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the state and the metrics; the key of the whole conversation is `conversation`."""
        metrics = {"conversation" if turn is None else str(turn): row for turn, row in self.metrics.items()}
        return {"state": self.state, "reason": self.reason, "evaluator": self.evaluator, "question": self.question,
                "level": self.level, "metrics": metrics, "without": dict(self.without)}  # fmt: skip


class PredictionService:
    """Predictions of the evaluator in use (`evaluators/NAME`), computed in the background and cached."""

    def __init__(self, project: Workspace) -> None:
        self.project, self.folder = project, project.folder().resolve()
        self.jobs = BackgroundJobs()
        self._cache: OrderedDict[str, ConversationPredictions] = OrderedDict()
        self._lock = Lock()
        self._loaded: tuple[str, Evaluator] | None = None

    def predict(self, conversation: Conversation) -> ConversationPredictions:
        """Return the predictions, or the state `waiting` if they take longer than `PAGE_WAIT_SECONDS`."""
        version = _file_version(self.folder)
        key = content_hash([version, conversation.to_json()], default=str)
        with self._lock:
            predictions = self._cache.get(key)
        if predictions is None:
            self.jobs.add(key, lambda: self._compute(key, version, conversation))
            self.jobs.wait(PAGE_WAIT_SECONDS)
            with self._lock:
                predictions = self._cache.get(key)
        error = self.jobs.failed.get(key)
        return predictions or ConversationPredictions(*(("waiting",) if error is None else ("none", error)))

    def _compute(self, key: str, version: str, conversation: Conversation) -> None:
        try:
            if not version:
                raise BadInput(f"no evaluator is fitted yet; run: accord fit {self.folder.name}")
            predictions = predict_conversation(self.project, self._evaluator(version), conversation)
        except (AccordError, OSError) as error:
            metrics = _metrics(_measure_turns(self.project, conversation))
            predictions = ConversationPredictions("none", hide_folders(str(error)), metrics=metrics)
        with self._lock:
            self._cache[key] = predictions
            while len(self._cache) > CACHE_SIZE:
                self._cache.popitem(last=False)

    def _evaluator(self, version: str) -> Evaluator:
        if self._loaded is None or self._loaded[0] != version:
            self._loaded = version, self.project.load(self.folder)
        return self._loaded[1]


def _file_version(folder: Path) -> str:
    """Return a text that changes whenever the evaluator is replaced; empty if there is none."""
    try:
        status = (folder / CARD).stat()
    except OSError:
        return ""
    return f"{status.st_ino} {status.st_mtime_ns} {status.st_size}"


def predict_conversation(
    project: Workspace, evaluator: Evaluator, conversation: Conversation
) -> ConversationPredictions:
    """Predict the ratings of a conversation from saved evidence.

    Raises:
        BadInput: The evaluator compares two conversations.
    """
    if evaluator.question.compares:
        raise BadInput(f"the evaluator in use compares two conversations ({evaluator.question.id})")
    samples = samples_of(conversation, evaluator.level)
    evidence = project.measure(evaluator.sources, samples)
    scorer = Scorer(evaluator)
    scores = scorer.finish(samples, run(scorer.score(samples, evidence), project.stored_models))
    metrics = _metrics(evidence)
    if evaluator.level not in ("turn", "step"):
        metrics |= _metrics(_measure_turns(project, conversation))
    return ConversationPredictions(
        "ready", "", f"{evaluator.name} {evaluator.digest()}", evaluator.question.id,
        evaluator.level or "conversation", {score.target.turn: score.to_json() for score in scores},
        _annotator_predictions(project, evaluator, evidence, samples), metrics,
        dict(Counter(evidence.absences.values())),
    )  # fmt: skip


def _measure_turns(project: Workspace, conversation: Conversation) -> EvidenceTable:
    """Measure each reply with the sources that need no model."""
    sources = [project.source(name) for name in project.evidence]
    return project.measure([source for source in sources if not source.roles], samples_of(conversation, "turn"))


def _annotator_predictions(
    project: Workspace, evaluator: Evaluator, evidence: EvidenceTable, samples: list[Sample]
) -> dict[int | None, dict[str, dict[str, Any]]]:
    predictions: dict[int | None, dict[str, dict[str, Any]]] = {sample.turn: {} for sample in samples}
    for name in evaluator.annotators[:MAX_ANNOTATORS]:
        flow = Scorer(evaluator, Perspective(name)).score(samples, evidence)
        for score in run(flow, project.stored_models):
            predictions[score.target.turn][name] = _annotator_prediction(score)
    return predictions


def _annotator_prediction(score: Score | Unscored) -> dict[str, Any]:
    """Return the mean, 80% interval and distribution of a predicted rating, or a reason (`unscored`)."""
    if isinstance(score, Unscored):
        return {"unscored": score.reason}
    low, high = score.interval
    return {"value": score.value, "low": low, "high": high, "distribution": score.distribution}


def _metrics(evidence: EvidenceTable) -> dict[int | None, dict[str, float]]:
    """Return the values of the columns that are not answers of a judge, by turn."""
    columns = [place for place, column in enumerate(evidence.columns) if column.question is None]
    return {
        target.turn: {
            evidence.columns[place].name: float(evidence.values[row, place])
            for place in columns
            if evidence.present[row, place]
        }
        for row, target in enumerate(evidence.targets)
    }
