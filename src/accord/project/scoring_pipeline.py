"""How samples are scored, and for whom: the one way from samples to scores, of a file, a batch and a cluster alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable
from accord.learning import RULES, Evaluator, Head, Level, TrainingSet, predict_panel, with_notes
from accord.models import Flow, Models, run
from accord.project.selective_scoring import Selection
from accord.values import WITHOUT, Conversation, Sample, Score, Synthetic, Unscored, decision

Turns = Literal["rated", "all", "last"]
TURNS: tuple[Turns, ...] = get_args(Turns)


@dataclass(frozen=True)
class ScoreOptions:
    """How scores are made.

    Attributes:
        new_domain: The conversations come from another place: habits are trusted less.
        ask: The most questions that an adaptive rubric asks of a conversation; without it all are asked.
        until: Of the adaptive rubric: ask no further once the score varies less than this, in units of the scale.
        loss: Whose least expectation the value is.
        turns: Turns that an evaluator of turns scores. `rated`: those that people had rated when it was fitted; of a
            conversation without any, the turn that its file marks, else all replies. `all`: all of these. `last`: the
            last reply.
        agree: Selective scores: what is called good or bad agrees with people at least so often; what is not sure
            enough has no value, and is left for a person (`accord.project.selective_scoring`).
        good: With `agree`: the lowest answer that counts as good; by default the first above the scale's middle.
        certify: In a new domain: a file of fresh labels of some of the conversations, on which the bands are tried.
        adapt: With `certify`: bands that are not certified are measured anew on these labels, and not refused.
        synthetic: Whether a table holds scores of conversations that nobody held; where not, they stay unscored.
        training: True to compare conversations that the evaluator learned from with its training data, too (drift).
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
    synthetic: Synthetic = WITHOUT
    training: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            BadInput: Selective scores where no held-out labels speak for them.
            UnknownName: No loss is called so, or no choice of turns.
        """
        if self.certify is not None and not self.new_domain:
            raise BadInput("--certify tries the bands in a new place; name --new-domain too")
        if self.adapt and self.certify is None:
            raise BadInput("--adapt measures bands anew on the labels of --certify; name a file of them")
        if self.good is not None and self.agree is None:
            raise BadInput("--good is the lowest answer that --agree takes for good; name --agree too, for example .9")
        if self.agree is not None and (self.new_domain or self.ask is not None):
            other = "--new-domain" if self.new_domain else "--ask"
            raise BadInput(
                "--agree rests on labels of conversations like those that were learned from, judged in full; leave "
                f"out {other}"
            )
        decision(self.loss)
        if self.turns not in TURNS:
            raise UnknownName("choice of turns", self.turns, TURNS)


@dataclass(frozen=True)
class Perspective:
    """Whose scores they are: one annotator's, a panel's by its rule, or (neither) a person's whom nobody has met."""

    annotator: str | None = None
    panel: Sequence[str] = ()
    rule: str = "mean"

    @classmethod
    def named(cls, annotator: str | None, panel: Sequence[str], rule: str | None) -> Perspective:
        """The perspective that a user's options name.

        Raises:
            BadInput: They name two, or a panel's rule without a panel.
            UnknownName: No panel speaks by such a rule.
        """
        if annotator is not None and panel:
            raise BadInput("scores speak for one annotator or for a panel; name one of the two")
        if rule is not None and rule not in RULES:
            raise UnknownName("panel rule", rule, RULES)
        if rule is not None and not panel:
            raise BadInput(f"rule {rule!r} is how a panel speaks; name its members with --panel")
        return cls(annotator, panel, rule or "mean")


Scores = list[Score | Unscored]


NO_REPLY = "no reply to score"
"""Reason of a missing score if a conversation has no turn that an evaluator of turns could score."""


def samples_of(
    conversation: Conversation, level: Level | None, turns: Turns = "rated", trained_on: TrainingSet | None = None
) -> list[Sample]:
    """Return the samples of a conversation that an evaluator scores: the whole, or some turns.

    Args:
        conversation: The conversation.
        level: Level of the evaluator.
        turns: See `ScoreOptions`.
        trained_on: Training set, with the rated turns.
    """
    if level != "turn":
        return [Sample(conversation)]
    replies = {id(turn) for turn in conversation.replies}
    places = [place for place, turn in enumerate(conversation.turns) if id(turn) in replies]
    if turns == "last":
        return [Sample(conversation, place) for place in places[-1:]]
    found = None if trained_on is None else trained_on.place(conversation)
    known = trained_on.turns(found) if trained_on is not None and found is not None else frozenset[int | None]()
    rated = {turn for turn in known if turn is not None}
    if turns == "rated":
        marked = _marked_turn(conversation, places)
        places = sorted(rated) or (places if marked is None else [marked])
    return [Sample(conversation, place) for place in sorted({*places, *rated})]


def _marked_turn(conversation: Conversation, replies: Sequence[int]) -> int | None:
    """The turn that a file marks in a conversation (`response_index`, or `level: turn` for the last reply)."""
    about = conversation.metadata
    place = about.get("response_index")
    if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(conversation.turns):
        return place
    return replies[-1] if about.get("level") == "turn" and replies else None


Gather = Callable[[Sequence[Sample]], EvidenceTable]
Predict = Callable[[EvidenceTable], Scores]


class Scorer:
    """A fitted evaluator with a perspective and options, checked before anything is paid for.

    Attributes:
        evaluator: As it scores: in a new domain where that is asked.
        selection: Which scores are sure enough, where that is asked.
        loss: Whose least expectation a value is.

    Raises:
        BadInput: The options cannot be, for this evaluator or at all.
        UnknownName: Nobody of that name was learned from.
    """

    def __init__(self, evaluator: Evaluator, perspective: Perspective, options: ScoreOptions) -> None:
        options.check()
        self.selection = _selection(evaluator, perspective, options)
        self.evaluator = evaluator.in_new_domain() if options.new_domain else evaluator
        self.loss, self._perspective, self._turns = options.loss, perspective, options.turns
        for name in (*perspective.panel, *([perspective.annotator] if perspective.annotator is not None else [])):
            self.evaluator.head.speaker(name)
        for name in perspective.panel:
            for other in self.evaluator.other_questions:
                if other.shares_evidence and name not in other.annotators:
                    raise BadInput(
                        f"{name!r} never answered {other.question.id!r}, which this evaluator predicts too; leave "
                        f"{name!r} out of the panel, or fit the main question alone"
                    )

    def evidence(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """What the evaluator's sources know of some samples."""
        return self.evaluator.evidence(samples)

    def predict(self, evidence: EvidenceTable) -> Scores:
        """Scores for the perspective, before notes, gates and selection."""
        head, about = self.evaluator.head, self._perspective
        if about.panel:
            return predict_panel(head, evidence, annotators=about.panel, rule=about.rule)
        return head.predict(evidence, annotator=about.annotator)

    def _of_question(self, head: Head, evidence: EvidenceTable, count: int) -> Scores:
        """What another question's head says; somebody who never answered it counts as a person nobody has met."""
        about = self._perspective
        if not about.panel:
            return head.predict_each(evidence, [about.annotator] * count)
        return predict_panel(head, evidence, annotators=about.panel, rule=about.rule)

    def scores(
        self, samples: Sequence[Sample], models: Models, gather: Gather | None = None, predict: Predict | None = None
    ) -> Scores:
        """One score per sample, in their order; a value is decided at the end (`decoded`).

        Args:
            samples: No two of one target.
            models: Whom the sources ask.
            gather: In place of the evaluator's own evidence, all of it.
            predict: In place of the perspective's scores.
        """
        evidence = run(self.evidence(samples), models) if gather is None else gather(samples)
        scores = with_notes(self.evaluator.with_base_rate((predict or self.predict)(evidence)), evidence)
        scores = self.evaluator.with_questions(scores, lambda head: self._of_question(head, evidence, len(scores)))
        scores = self._flagged(samples, run(self.evaluator.with_others(samples, scores), models))
        return scores if self.selection is None else [self.selection.call(score) for score in scores]

    def samples(self, conversation: Conversation) -> list[Sample]:
        """Return the samples of a conversation to score."""
        return samples_of(conversation, self.evaluator.level, self._turns, self.evaluator.training_set)

    def _flagged(self, samples: Sequence[Sample], scores: Scores) -> Scores:
        """The scores, with `rated` and `in_training` set for conversations that the evaluator knows."""
        known = self.evaluator.training_set
        if known is None:
            return scores
        places = {each.conversation.id: known.place(each.conversation) for each in samples}
        turns = {name: known.turns(place) for name, place in places.items() if place is not None}

        def flagged(score: Score | Unscored) -> Score | Unscored:
            name, turn = score.target
            place = places[name]
            if place is None:
                return score
            return replace(score, rated=turn in turns[name], in_training=bool(known.used[place]))

        return [flagged(score) for score in scores]

    def decoded(self, score: Score | Unscored) -> Score | Unscored:
        """The score with the value that its loss asks for."""
        return score.decoded(self.loss) if isinstance(score, Score) and self.loss != "squared" else score


def _selection(evaluator: Evaluator, perspective: Perspective, options: ScoreOptions) -> Selection | None:
    """Which scores are sure enough, where that is asked; found out before anything is paid for.

    Raises:
        BadInput: For a panel, or nothing is sure enough.
    """
    if options.agree is None:
        return None
    if perspective.panel:
        raise BadInput("--agree speaks for one annotator or for anybody; leave out --panel")
    return Selection.of(evaluator, options.agree, options.good, anybody=perspective.annotator is None)
