"""Who would rate a conversation how: what the evaluator in use expects of each person it knows, from what is kept.

No model is asked. It is worked out in the background, since evidence of a long conversation takes its time, and kept as
long as neither the conversation nor the evaluator changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypedDict

from accord.edges import AccordError, BadInput
from accord.evidence import EvidenceTable
from accord.learning import CARD, Evaluator
from accord.models import run
from accord.project import Project
from accord.scoring import Perspective, Scorer, samples_of
from accord.studies.background_jobs import Jobs
from accord.values import Conversation, Sample, Score, Unscored, content_hash

REMEMBERED = 32
"""Conversations whose predictions are kept at hand."""
AT_ONCE = 0.1
"""Seconds that a page waits for them before it is sent without."""
MOST = 200
"""People whose predictions are made; the first of them in the order of their names."""


class Guess(TypedDict, total=False):
    """What a person is expected to say: a distribution and its middle, or why nothing is expected (`unscored`)."""

    value: float
    low: float
    high: float
    distribution: dict[str, float]
    unscored: str


@dataclass(frozen=True)
class Expected:
    """What the evaluator in use says of one conversation.

    Attributes:
        state: `ready`, `waiting`, or `none` for a `reason`.
        evaluator: Its name and digest.
        question: What it predicts.
        level: Of turns or of conversations.
        scores: Of a person nobody has met, by turn (`None` for the conversation), as `Score.to_json` has them.
        people: By turn and person.
        metrics: By turn, each column of evidence that is no judge's answer.
        without: Why evidence is missing, counted.
    """

    state: str
    reason: str = ""
    evaluator: str = ""
    question: str = ""
    level: str = ""
    scores: Mapping[int | None, Mapping[str, Any]] = field(default_factory=dict)
    people: Mapping[int | None, Mapping[str, Guess]] = field(default_factory=dict)
    metrics: Mapping[int | None, Mapping[str, float]] = field(default_factory=dict)
    without: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Everything, turns as texts and the conversation as `conversation`."""
        parts = {name: {_named(turn): row for turn, row in getattr(self, name).items()} for name in _BY_TURN}
        return {"state": self.state, "reason": self.reason, "evaluator": self.evaluator, "question": self.question,
                "level": self.level, **parts, "without": dict(self.without)}  # fmt: skip


_BY_TURN = ("scores", "people", "metrics")
_WAITING = Expected("waiting")


def _named(turn: int | None) -> str:
    return "conversation" if turn is None else str(turn)


class Perspectives:
    """The evaluator in use (`evaluators/NAME`), and what it said of the conversations that were read last."""

    def __init__(self, project: Project) -> None:
        self.project, self.folder = project, project.folder().resolve()
        self.jobs = Jobs()
        self._known: OrderedDict[str, Expected] = OrderedDict()
        self._lock = Lock()
        self._opened: tuple[str, Evaluator] | None = None

    def of(self, conversation: Conversation) -> Expected:
        """What it expects; `waiting` where that takes longer than a moment, and is there when one asks again."""
        stamp = _stamp(self.folder)
        key = content_hash([stamp, conversation.to_json()], default=str)
        with self._lock:
            found = self._known.get(key)
        if found is None:
            self.jobs.add(key, lambda: self._work_out(key, stamp, conversation))
            self.jobs.wait(AT_ONCE)
            with self._lock:
                found = self._known.get(key)
        failed = self.jobs.failed.get(key)
        return found or (_WAITING if failed is None else Expected("none", failed))

    def _work_out(self, key: str, stamp: str, conversation: Conversation) -> None:
        try:
            if not stamp:
                raise BadInput(f"no evaluator is in use yet; accord fit {self.folder.name} makes one")
            found = expected(self.project, self._evaluator(stamp), conversation)
        except (AccordError, OSError) as error:
            found = Expected("none", str(error), metrics=_metrics(_measured(self.project, conversation)))
        with self._lock:
            self._known[key] = found
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _evaluator(self, stamp: str) -> Evaluator:
        if self._opened is None or self._opened[0] != stamp:
            self._opened = stamp, self.project.load(self.folder)
        return self._opened[1]


def _stamp(folder: Path) -> str:
    """What changes whenever another evaluator is put in its place; empty where there is none."""
    try:
        about = (folder / CARD).stat()
    except OSError:
        return ""
    return f"{about.st_ino} {about.st_mtime_ns} {about.st_size}"


def expected(project: Project, evaluator: Evaluator, conversation: Conversation) -> Expected:
    """What an evaluator says of a conversation from the evidence that is kept.

    Raises:
        BadInput: It compares two conversations.
    """
    if evaluator.question.compares:
        raise BadInput(f"the evaluator in use compares two conversations ({evaluator.question.id})")
    samples = samples_of(conversation, evaluator.level)
    evidence = project.measure(evaluator.sources, samples)
    scores = run(Scorer(evaluator).score(samples, evidence), project.stored_models)
    metrics = _metrics(evidence)
    if evaluator.level != "turn":
        metrics |= _metrics(_measured(project, conversation))
    return Expected(
        "ready", "", f"{evaluator.name} {evaluator.digest()}", evaluator.question.id,
        evaluator.level or "conversation", {each.target.turn: each.to_json() for each in scores},
        _of_people(project, evaluator, evidence, samples), metrics, _reasons(evidence),
    )  # fmt: skip


def _measured(project: Project, conversation: Conversation) -> EvidenceTable:
    """What the project's sources that ask nobody say of each reply."""
    sources = [project.source(name) for name in project.evidence]
    return project.measure([each for each in sources if not each.roles], samples_of(conversation, "turn"))


def _of_people(
    project: Project, evaluator: Evaluator, evidence: EvidenceTable, samples: list[Sample]
) -> dict[int | None, dict[str, Guess]]:
    """Each person's own distribution where there is evidence."""
    found: dict[int | None, dict[str, Guess]] = {sample.turn: {} for sample in samples}
    for name in evaluator.annotators[:MOST]:
        for score in run(Scorer(evaluator, Perspective(name)).score(samples, evidence), project.stored_models):
            found[score.target.turn][name] = _short(score)
    return found


def _short(score: Score | Unscored) -> Guess:
    if isinstance(score, Unscored):
        return {"unscored": score.reason}
    low, high = score.interval
    return {"value": score.value, "low": low, "high": high, "distribution": score.distribution}


def _metrics(evidence: EvidenceTable) -> dict[int | None, dict[str, float]]:
    """The columns that are no answers of a judge, where they have a value."""
    own = [place for place, column in enumerate(evidence.columns) if column.question is None]
    return {
        target.turn: {
            evidence.columns[place].name: float(evidence.values[row, place])
            for place in own
            if evidence.present[row, place]
        }
        for row, target in enumerate(evidence.targets)
    }


def _reasons(evidence: EvidenceTable) -> dict[str, int]:
    found: dict[str, int] = {}
    for reason in evidence.absences.values():
        found[reason] = found.get(reason, 0) + 1
    return found
