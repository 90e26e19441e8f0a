"""Pipeline from samples to scores, shared by files, batches, folders, live replies and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from accord.decisions import Certificate, Costs, Selection, at_least_cost, check_costs, decision, decoded
from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable, Source, options_of
from accord.learning import RULES, AdaptiveRubric, Evaluator, Head, Level, TrainingSet, predict_panel
from accord.models import Flow, Models, run
from accord.values import (
    POPULATION,
    WITHOUT_SYNTHETIC,
    Conversation,
    Labels,
    Rubric,
    Sample,
    Score,
    Synthetic,
    Target,
    Unscored,
    content_hash,
    steps,
)

if TYPE_CHECKING:
    from accord.store import Mart, Store

Turns = Literal["rated", "all", "last"]
TURNS: tuple[Turns, ...] = get_args(Turns)
Scores = list[Score | Unscored]
NOT_COUNTED = "left out by --synthetic"
"""Reason of a missing score of a conversation that the setting `synthetic` excludes."""
NO_REPLY, NO_STEP = "no reply to score", "no call of a tool to score"
"""Reason of a missing score if a conversation has no turn that an evaluator of turns could score."""


class ScoringSettings(Protocol):
    """Settings of a project that scoring reads."""

    @property
    def synthetic(self) -> Synthetic:
        """Selection of synthetic conversations."""

    @property
    def group_by(self) -> Sequence[str]:
        """Metadata that group conversations."""

    @property
    def folder(self) -> Path:
        """Folder of the project."""
        ...

    def shown(self) -> dict[str, Any]:
        """Return the settings that a run records."""


class ScoringProject(Protocol):
    """The parts of a project that scoring uses: storage, models and settings."""

    rubric: Rubric
    store: Store

    @property
    def config(self) -> ScoringSettings:
        """The settings."""

    @property
    def mart(self) -> Mart:
        """The mart of scores."""

    @property
    def models(self) -> Models:
        """The models by role."""

    def rated(self, question: str) -> Labels:
        """Return the labels of one question."""

    def measure(self, parts: Sequence[Source], samples: Sequence[Sample], asked: Models | None = None) -> EvidenceTable:
        """Return the evidence of some sources; without models, only stored answers are used."""


@dataclass(frozen=True)
class ScoreOptions:
    """Options of scoring.

    Attributes:
        new_domain: True if the conversations come from another domain: annotator effects are shrunk.
        ask: Maximum number of questions of an adaptive rubric per conversation; None asks all.
        until: With `ask`: stop when the score's standard deviation falls below this, in units of the scale.
        loss: Loss whose expectation the value minimizes.
        costs: Cost of each reported option (row) for each true one (column), in place of `loss`: the value is the
            option with the least expected cost.
        turns: Turns that an evaluator of turns scores. `rated`: turns that people had rated when it was fitted; of a
            conversation without any, the turn that its file marks, else all replies. `all`: all of these. `last`: the
            last reply.
        agree: Share of calls (good or bad) that must agree with people; uncertain samples stay unscored
            (`accord.decisions.Selection`).
        good: With `agree`: lowest answer that counts as good; by default the first above the scale's middle.
        certify: With `new_domain`: file of fresh labels that test the bands.
        adapt: With `certify`: True to refit bands that fail the test, instead of an error.
        synthetic: Selection of synthetic conversations in a batch; the others stay unscored.
        training: True to include training conversations in the comparison with the training data (drift).

    >>> ScoreOptions(turns="all", loss="absolute").check()
    """

    new_domain: bool = False
    ask: int | None = None
    until: float = 0.0
    loss: str = "squared"
    turns: Turns = "rated"
    agree: float | None = None
    good: float | None = None
    certify: Path | None = None
    adapt: bool = False
    synthetic: Synthetic = WITHOUT_SYNTHETIC
    training: bool = False
    costs: Costs | None = None

    def check(self) -> None:
        """Check the combination of options.

        Raises:
            BadInput: Two options exclude each other, or one needs another.
            UnknownName: No loss, or no choice of turns, has this name.
        """
        if self.certify is not None and not self.new_domain:
            raise BadInput("--certify tests the bands in a new domain; add --new-domain")
        if self.adapt and self.certify is None:
            raise BadInput("--adapt refits the bands on the labels of --certify; name a file of them")
        if self.good is not None and self.agree is None:
            raise BadInput("--good is the lowest answer that counts as good for --agree; add --agree, for example .9")
        if self.agree is not None and (self.new_domain or self.ask is not None):
            other = "--new-domain" if self.new_domain else "--ask"
            raise BadInput(
                f"--agree relies on labels of conversations like the training data, judged in full; leave out {other}"
            )
        decision(self.loss)
        if self.costs is not None and self.loss != "squared":
            raise BadInput(f"--costs and --loss {self.loss} both choose the value; leave out one of them")
        if self.turns not in TURNS:
            raise UnknownName("choice of turns", self.turns, TURNS)


@dataclass(frozen=True)
class Perspective:
    """Annotator whose answers are predicted: a known one, a panel by its rule, or by default a new annotator.

    Attributes:
        annotator: Annotator that the evaluator learned.
        panel: Annotators whose answers are combined.
        rule: Rule of the panel: `mean`, `max` or `min`.

    >>> Perspective("ann").speaker, Perspective(panel=("ann", "bob"), rule="min").speaker, Perspective().speaker
    ('ann', 'min', 'population')
    """

    annotator: str | None = None
    panel: Sequence[str] = ()
    rule: str = "mean"

    @classmethod
    def named(cls, annotator: str | None, panel: Sequence[str], rule: str | None) -> Perspective:
        """Return the perspective of a user's options.

        Args:
            annotator: Annotator, or `None` to predict a new annotator.
            panel: Members of a panel; empty without one.
            rule: Rule of the panel, by default `mean`.

        Raises:
            BadInput: An annotator and a panel are given, or a rule without a panel.
            UnknownName: No rule of panels has this name.
        """
        if annotator is not None and panel:
            raise BadInput("--annotator and --panel exclude each other; leave out one of them")
        if rule is not None and rule not in RULES:
            raise UnknownName("panel rule", rule, RULES)
        if rule is not None and not panel:
            raise BadInput(f"rule {rule!r} needs a panel; name its members with --panel")
        return cls(annotator, panel, rule or "mean")

    @property
    def speaker(self) -> str:
        """The annotator in rows of scores: an id, the panel's rule, or `population`."""
        return self.annotator or (self.rule if self.panel else POPULATION)


def samples_of(
    conversation: Conversation, level: Level | None, turns: Turns = "rated", trained_on: TrainingSet | None = None
) -> list[Sample]:
    """Return the samples of a conversation that an evaluator scores: the whole, or some turns.

    Args:
        conversation: The conversation.
        level: Level of the evaluator.
        turns: See `ScoreOptions`; of steps, `last` is the last one.
        trained_on: Training set, with the rated turns.
    """
    if level not in ("turn", "step"):
        return [Sample(conversation)]
    places = steps.judged_turns(conversation, level)
    if turns == "last":
        return [Sample(conversation, place) for place in places[-1:]]
    row = None if trained_on is None else trained_on.place(conversation)
    known = trained_on.turns(row) if trained_on is not None and row is not None else frozenset[int | None]()
    rated = {turn for turn in known if turn is not None}
    if turns == "rated":
        marked = steps.marked_turn(conversation) if level == "turn" else None
        places = sorted(rated) or (places if marked is None else [marked])
    return [Sample(conversation, place) for place in sorted({*places, *rated})]


def nothing_to_score(level: Level | None) -> str:
    """Return the reason why a conversation without a turn to judge has no score."""
    return NO_STEP if level == "step" else NO_REPLY


class Scorer:
    """A fitted evaluator with a perspective and options, checked before any model is asked.

    Attributes:
        evaluator: The evaluator that scores; adapted to a new domain if the options say so.
        perspective: Annotator whose answers are predicted.
        speaker: Name under which the head learned the annotator, or `None` for a new annotator.
        selection: Threshold of selective scores, or `None` if scores carry no calls.
        loss: Loss whose expectation a value minimizes.
        certificate: Test of the bands in a new domain, or `None` if it was not run.

    Raises:
        BadInput: The options are invalid, in general or for this evaluator.
        UnknownName: The evaluator has not learned an annotator of this name.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        perspective: Perspective = Perspective(),
        options: ScoreOptions = ScoreOptions(),
        certificate: Certificate | None = None,
    ) -> None:
        options.check()
        self.certificate = certificate
        self.selection = _selection(evaluator, perspective, options)
        self.evaluator = evaluator.in_new_domain() if options.new_domain else evaluator
        self.loss, self.perspective, self._turns = options.loss, perspective, options.turns
        self._costs = options.costs
        if options.costs is not None:
            check_costs(options.costs, options_of(evaluator.question).tolist())
            self._costs_name = content_hash(options.costs, length=8)
        self.speaker = self.evaluator.head.speaker(perspective.annotator)
        for name in perspective.panel:
            self.evaluator.head.speaker(name)
        for name in perspective.panel:
            for other in self.evaluator.other_questions:
                if other.shares_evidence and name not in other.annotators:
                    raise BadInput(
                        f"{name!r} never answered {other.question.id!r}, which this evaluator predicts too; leave "
                        f"{name!r} out of the panel, or fit the main question alone"
                    )

    def samples(self, conversation: Conversation) -> list[Sample]:
        """Return the samples of a conversation to score."""
        return samples_of(conversation, self.evaluator.level, self._turns, self.evaluator.training_set)

    def predict(self, head: Head, evidence: EvidenceTable) -> Sequence[Score | Unscored]:
        """Predict with a head of this evaluator from the scorer's perspective."""
        if self.perspective.panel:
            return predict_panel(head, evidence, annotators=self.perspective.panel, rule=self.perspective.rule)
        speaker = self.speaker if head is self.evaluator.head else self.perspective.annotator
        return head.predict_each(evidence, [speaker] * len(evidence))

    def flow(
        self, samples: Sequence[Sample], is_checked: Callable[[Sample], bool] | None = None
    ) -> Flow[tuple[EvidenceTable, Scores]]:
        """Measure samples and score them; `is_checked` selects the samples whose plausibility is checked."""
        evidence = yield from self.evaluator.evidence(samples)
        return evidence, (yield from self.score(samples, evidence, is_checked=is_checked))

    def score(
        self,
        samples: Sequence[Sample],
        evidence: EvidenceTable,
        predict: Callable[[EvidenceTable], Sequence[Score | Unscored]] | None = None,
        is_checked: Callable[[Sample], bool] | None = None,
    ) -> Flow[Scores]:
        """Score measured samples.

        Args:
            samples: Samples with distinct targets.
            evidence: A row per sample.
            predict: Predictions of the main question, in place of the perspective's.
            is_checked: Samples whose plausibility is checked; all by default.
        """

        def predicted(head: Head) -> Sequence[Score | Unscored]:
            is_main = head is self.evaluator.head
            return predict(evidence) if predict is not None and is_main else self.predict(head, evidence)

        return (yield from self.evaluator.scores(samples, evidence, predicted, is_checked))

    def scores(self, samples: Sequence[Sample], models: Models) -> Scores:
        """Return a finished score per sample."""
        return self.finish(samples, run(self.flow(samples), models)[1])

    def finish(self, samples: Sequence[Sample], scores: Scores) -> Scores:
        """Return the scores as they are reported, with versions, and `rated` and `in_training` if they are known."""
        known = self.evaluator.training_set
        if known is not None:
            scores = _with_training_flags(known, samples, scores)
        return self.decided(with_versions(samples, scores))

    def decided(self, scores: Scores) -> Scores:
        """Return the scores with their calls, certified bands, and the values of least expected loss or cost.

        Scores of files, batches, live replies and pages all end here.
        """
        return [self._decided(score) for score in scores]

    def _decided(self, score: Score | Unscored) -> Score | Unscored:
        if self.selection is not None:
            score = self.selection.call(score)
        if self.certificate is not None:
            score = self.certificate.banded(score)
        if self._costs is not None and isinstance(score, Score):
            return at_least_cost(score, self._costs, self._costs_name)
        return decoded(score, self.loss) if isinstance(score, Score) and self.loss != "squared" else score

    def unscored(self, target: Target, reason: str) -> Unscored:
        """Return a missing score with its reason."""
        return Unscored(target, self.perspective.speaker, reason, self.evaluator.signature())


def with_versions(samples: Sequence[Sample], scores: Scores) -> Scores:
    """Return the scores with the versions of the assistants of their conversations."""
    named = {sample.conversation.id: sample.conversation for sample in samples}
    versions = {name: version for name, each in named.items() if (version := each.version) is not None}
    if not versions:
        return scores
    return [replace(score, version=versions.get(score.target.conversation)) for score in scores]


def _with_training_flags(known: TrainingSet, samples: Sequence[Sample], scores: Scores) -> Scores:
    rows = {sample.conversation.id: known.place(sample.conversation) for sample in samples}
    turns: Mapping[str, frozenset[int | None]] = {
        name: known.turns(row) for name, row in rows.items() if row is not None
    }

    def flagged(score: Score | Unscored) -> Score | Unscored:
        name, turn = score.target
        row = rows[name]
        if row is None:
            return score
        return replace(score, rated=turn in turns[name], in_training=bool(known.used[row]))

    return [flagged(score) for score in scores]


def _selection(evaluator: Evaluator, perspective: Perspective, options: ScoreOptions) -> Selection | None:
    """Return the threshold of selective scores, before any model is asked; by default the calls of the sources."""
    if options.agree is None:
        is_same = not perspective.panel and perspective.annotator is None and not options.new_domain
        return Selection.noted(evaluator) if is_same else None
    if perspective.panel:
        raise BadInput("--agree needs one annotator or none; leave out --panel")
    return Selection.of(evaluator, options.agree, options.good, for_anyone=perspective.annotator is None)


# --- adaptive rubrics -------------------------------------------------------------------------------------------------


def adaptive_rubric(evaluator: Evaluator) -> AdaptiveRubric:
    """Return the adaptive rubric of a fitted evaluator.

    Raises:
        BadInput: The head needs all answers, no source can answer questions one by one, or too few samples had
            complete answers.
    """
    rubric_source(evaluator)
    return AdaptiveRubric(evaluator.head)


def rubric_source(evaluator: Evaluator) -> Source:
    """Return the source that can answer single questions.

    Raises:
        BadInput: There is none.
    """
    source = next((source for source in evaluator.sources if source.questions), None)
    if source is None:
        raise BadInput("an adaptive rubric needs a calibration of a judge's answers: sources: [rubric], head: mixed")
    return source


def ask_adaptively(
    project: ScoringProject,
    evaluator: Evaluator,
    samples: Sequence[Sample],
    rubric: AdaptiveRubric,
    most: int,
    until: float = 0.0,
) -> EvidenceTable:
    """Gather evidence question by question; each round asks the best next question of every sample.

    Args:
        project: The project.
        evaluator: A fitted evaluator.
        samples: The samples.
        rubric: The adaptive rubric of the evaluator.
        most: Maximum number of questions per sample; answers from the store count, too.
        until: Standard deviation of the prediction below which a sample gets no further question.
    """
    judge = rubric_source(evaluator)
    others = [source for source in evaluator.sources if source is not judge]
    measured = project.measure(others, samples, project.models)
    questions = {question.id: question for question in judge.questions}
    answered: dict[Target, list[str]] = {sample.target: [] for sample in samples}
    answers = project.measure([judge], samples)
    for _ in range(most):
        features = rubric.evaluator.features(_asked_only(answers, answered).join(measured))
        wanted: list[tuple[str, Sample]] = []
        for row, sample in enumerate(samples):
            outlook, done = rubric.outlook(features, row), answered[sample.target]
            gains = {
                name: gain
                for name, gain in outlook.gains.items()
                if name not in done and questions[name].applies_to(sample.conversation, sample.turn)
            }
            if gains and outlook.spread > until:
                wanted.append((max(gains, key=lambda name: gains[name]), sample))
        if not wanted:
            break
        for name, group in groupby(sorted(wanted, key=lambda one: one[0]), key=lambda one: one[0]):
            chosen = [sample for _, sample in group]
            project.measure([judge.asking([name])], chosen, project.models)
            for sample in chosen:
                answered[sample.target].append(name)
        answers = project.measure([judge], samples)
    return _asked_only(answers, answered).join(measured)


def _asked_only(table: EvidenceTable, answered: Mapping[Target, Sequence[str]]) -> EvidenceTable:
    """Leave out stored answers to questions that this run did not ask."""
    present = table.present.copy()
    for row, target in enumerate(table.targets):
        is_unasked = [c.question is not None and c.question not in answered[target] for c in table.columns]
        present[row, np.array(is_unasked, dtype=bool)] = False
    return table.with_only(present)
