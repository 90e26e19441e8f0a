"""The evaluator: sources of evidence and one head that learns from them how people answer a question. Never subclassed.

Saved, it is complete: `load_evaluator(folder)` scores new conversations without the project, asking the models that
its sources name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from accord.edges import NotFitted
from accord.evidence import EvidenceTable, Source, Training, joined, measure_all
from accord.learning.evaluator_files import (
    FOLDER_FORMAT,
    HELD_OUT,
    QUESTIONS,
    TRAINING_SET,
    Card,
    SourceCard,
    write_folder,
)
from accord.learning.fitting import Fitting, level_of
from accord.learning.head import Head
from accord.learning.held_out import HeldOut
from accord.learning.plausibility_gate import Plausibility
from accord.learning.presets import Level
from accord.learning.training_set import TrainingSet
from accord.models import LIKELIHOOD, NOT_RECORDED, Flow, ModelSettings
from accord.values import Labels, Question, Sample, Score, Signature, Target, Unscored, content_hash, score_from
from accord.version import __version__


@dataclass(frozen=True)
class Evaluator:
    """Sources and a head, before or after learning.

    Attributes:
        question: What is predicted.
        sources: What is known of a sample; after learning only what the head learned from.
        head: Learns from evidence how people answer.
        name: What the project calls it.
        head_name: Under which the head is registered.
        level: What it learned from, and scores: single turns or whole conversations; `None` before it learned.
        models: Whom its sources ask, by role.
        also: Evaluators of other questions (of kinds of issues), whose answers go into the notes of a score.
        questions: Evaluators of the rubric's other questions, learned from the same evidence: what is predicted of each
            stands in the notes of a score, under `questions`.
        choose: Settings of the head that are chosen inside the training side: values by name, the simplest first.
        seed: Of the folds of that choice.
        held_out: What it said of ratings out of fold, where it was tried before it learned from everything.
        trained_on: Conversations that were rated when it learned; None if nothing was rated.
        checks_plausibility: Whether learning includes a gate against replies that a language model finds implausible.
        plausibility: That gate; `None` where there is none.
    """

    question: Question
    sources: tuple[Source, ...]
    head: Head
    name: str = ""
    head_name: str = "auto"
    level: Level | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    also: tuple[Evaluator, ...] = ()
    questions: tuple[Evaluator, ...] = ()
    choose: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seed: int = 0
    held_out: HeldOut | None = None
    trained_on: TrainingSet | None = None
    checks_plausibility: bool = False
    plausibility: Plausibility | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether it has learned."""
        return self.head.is_fitted

    @property
    def annotators(self) -> list[str]:
        """The people whom it has learned to imitate."""
        return self.head.annotators

    @property
    def roles(self) -> tuple[str, ...]:
        """Whom scoring may ask."""
        every = (self, *self.also)
        asked = [role for each in every for source in each.sources for role in source.roles]
        return tuple(dict.fromkeys([*asked, LIKELIHOOD] if self.checks_plausibility else asked))

    @property
    def takes_every_sheet(self) -> bool:
        """Whether it learns from what people said of samples that nobody rated on its own question."""
        return self.head.takes_every_sheet and not any(map(learns, self.sources))

    @property
    def is_live(self) -> bool:
        """True if every source can measure a single reply."""
        return all(source.is_live for source in self.sources)

    @property
    def fitting(self) -> Fitting:
        """How its head learns."""
        return Fitting(self.question, self.head, self.head_name, self.choose, self.seed)

    def signature(self) -> Signature:
        """How its scores are made."""
        made = self.head.signature().with_part("sources", "+".join(source.name for source in self.sources))
        return made if self.plausibility is None else made.with_part("plausibility", self.plausibility.model)

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(self, train: Training, known: EvidenceTable | None = None) -> Flow[Evaluator]:
        """Learn the sources, then the head on evidence of samples that its source had not seen.

        `known` is the evidence of the sources that do not learn, where it is there already.

        Raises:
            BadInput: There is too little to learn from, or both turns and conversations are rated.
        """
        table = known or EvidenceTable.of(train.samples)
        learned = []
        for source in self.sources:
            if known is not None and not learns(source):
                learned.append(source)
                continue
            found = yield from source.learn(train)
            found.source.name = source.name
            learned.append(found.source)
            table = joined(table, found.evidence, source.name)
        return self.fitted_on(table, train.labels, learned)

    def fitted_on(self, evidence: EvidenceTable, labels: Labels, learned: Sequence[Source] | None = None) -> Evaluator:
        """The evaluator after its head has learned from evidence that is there already.

        Sources of which nothing was learned from, since nobody answered, are let go of: scoring does not pay for them.

        Raises:
            BadInput: As `fit`, or nothing is known of any sample.
        """
        fitting = self.fitting
        shown, labels = fitting.shown(evidence, labels)
        return self.with_head(fitting.learned(shown, labels), shown, labels, learned or ())

    def with_head(
        self, head: Head, evidence: EvidenceTable, labels: Labels, learned: Sequence[Source] = ()
    ) -> Evaluator:
        """The evaluator with a head that has learned from this evidence; sources that it learned nothing from go."""
        columns = _columns(head, self.fitting.known(evidence))
        own = ((source, tuple(c for c in columns if c.source == source.name)) for source in learned or self.sources)
        kept = [part for source, mine in own if (part := source.keep_only(mine))]
        return replace(self, head=head, sources=tuple(kept), level=level_of(labels.on(self.question.id).targets))

    def with_gate(self, train: Training) -> Flow[Evaluator]:
        """The evaluator with its gate learned, where it is to have one; asks the likelihood model.

        Raises:
            BadInput: There are too few replies to learn it from.
        """
        if not self.checks_plausibility:
            return self
        learned = yield from Plausibility.learn(train.samples, train.group_of, self.seed)
        return replace(self, plausibility=learned)

    def without_gate(self) -> Evaluator:
        """The evaluator for scores that nobody is asked about."""
        return replace(self, checks_plausibility=False, plausibility=None)

    # --- predicting ---------------------------------------------------------------------------------------------

    def evidence(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """What its sources know of some samples."""
        return measure_all(self.sources, samples)

    def predict(
        self, samples: Sequence[Sample], annotators: str | None | Sequence[str | None] = None
    ) -> Flow[list[Score | Unscored]]:
        """One score per sample, for one annotator, for one each, or for a person nobody has met.

        Raises:
            NotFitted: Nothing was learned yet.
            UnknownName: An annotator gave no label that was learned from.
        """
        each = annotators if isinstance(annotators, Sequence) and not isinstance(annotators, str) else (
            [annotators] * len(samples)
        )  # fmt: skip
        speakers = [self.head.speaker(name) for name in each]
        evidence = yield from self.evidence(samples)
        return (yield from self.scores(samples, evidence, lambda head: head.predict_each(evidence, speakers)))

    def scores(
        self,
        samples: Sequence[Sample],
        evidence: EvidenceTable,
        predict: Callable[[Head], Sequence[Score | Unscored]],
        is_gated: Callable[[Sample], bool] | None = None,
    ) -> Flow[list[Score | Unscored]]:
        """Complete the predictions of the head: base rate, notes, other questions, plausibility gate.

        Every score of this evaluator passes here: of a file, a batch, a live reply and a page alike.

        Args:
            samples: The samples.
            evidence: A row per sample.
            predict: Scores of a head, of this evaluator or of another question, from the evidence.
            is_gated: Samples whose plausibility is checked; all by default.

        Raises:
            NotFitted: The evaluator is not fitted.
        """
        self.head.check_fitted()
        scores = with_notes(self.with_base_rate(predict(self.head)), evidence)
        return (yield from self.with_others(samples, self.with_questions(scores, predict), is_gated))

    def with_base_rate(self, scores: Sequence[Score | Unscored]) -> list[Score | Unscored]:
        """Score samples that the recorded judge lacks with the distribution of all ratings, and a warning.

        A recorded judge cannot be asked again, so no better prediction will be known. Samples whose evidence is missing
        for another reason stay unscored.
        """
        tried = self.held_out
        if tried is None or not len(tried.answer):
            return list(scores)
        shares = np.bincount(tried.answer, minlength=len(tried.options)) / len(tried.answer)
        return [
            score_from(each.target, each.annotator, tried.options, shares, each.signature, warning=_BASE_RATE)
            if isinstance(each, Unscored) and each.reason.removeprefix("no evidence; ") == NOT_RECORDED
            else each
            for each in scores
        ]

    def with_questions(
        self, scores: list[Score | Unscored], predict: Callable[[Head], Sequence[Score | Unscored]]
    ) -> list[Score | Unscored]:
        """The scores with what each other question's head predicts from the same evidence, by question."""
        if not self.questions:
            return scores
        rows: list[dict[str, Any]] = [{} for _ in scores]
        for other in self.questions:
            for row, found in zip(rows, predict(other.head), strict=True):
                row[other.question.id] = _as_note(found)
        return [replace(each, notes={**each.notes, QUESTIONS: row}) for each, row in zip(scores, rows, strict=True)]

    def with_others(
        self,
        samples: Sequence[Sample],
        scores: list[Score | Unscored],
        is_gated: Callable[[Sample], bool] | None = None,
    ) -> Flow[list[Score | Unscored]]:
        """Apply the gate, and add the scores of the turns by the evaluators of other questions."""
        if self.plausibility is not None:
            gated = {sample.target: sample for sample in samples if is_gated is None or is_gated(sample)}
            places = [place for place, score in enumerate(scores) if score.target in gated]
            if places:
                asked = [scores[place] for place in places]
                found = yield from self.plausibility.gated([gated[score.target] for score in asked], asked)
                changed = dict(zip(places, found, strict=True))
                scores = [changed.get(place, score) for place, score in enumerate(scores)]
        if not self.also:
            return scores
        turns = [turn for sample in samples for turn in _turns_of(sample)]
        said: dict[Target, list[dict[str, Any]]] = {}
        for other in self.also:
            for turn, score in zip(turns, (yield from other.predict(turns)), strict=True):
                if isinstance(score, Score):
                    row = {"turn": turn.turn, "question": other.question.id, "value": score.value, **score.notes}
                    for target in (turn.target, Target(turn.conversation.id)):
                        said.setdefault(target, []).append(row)
        return [
            replace(score, notes={**score.notes, "also": said[score.target]}) if score.target in said else score
            for score in scores
        ]

    def in_new_domain(self) -> Evaluator:
        """This evaluator for conversations from another place, where habits are trusted less."""
        others = tuple(other.in_new_domain() for other in self.questions)
        return replace(self, head=self.head.in_new_domain(), questions=others)

    def describe(self) -> dict[str, Any]:
        """What was learned, as JSON: the head's part, and each source's."""
        parts = {source.name: dict(found) for source in self.sources if (found := source.describe())}
        others = {other.question.id: other.head.describe() for other in self.also}
        return {
            "name": self.name, "head": self.head_name, "level": self.level, "signature": str(self.signature()),
            **self.head.describe(), "sources": [source.name for source in self.sources], "learned": parts,
            "also": others,
            **({"questions": {each.question.id: each.head.describe() for each in self.questions}} if self.questions
               else {}),
        }  # fmt: skip

    def digest(self) -> str:
        """A short digest of all that was learned or set: another one wherever anything is another."""
        card, arrays = self.head.state()
        said: list[Any] = [
            self.question.model_dump(mode="json"),
            self.level,
            self.head_name,
            self.head.settings(),
            card,
            {name: _sha(array) for name, array in arrays.items()},
            [other.digest() for other in self.also],
            *([] if self.plausibility is None else [self.plausibility.to_json()]),
            *([[other.digest() for other in self.questions]] if self.questions else []),
        ]
        for source in self.sources:
            state = source.state()
            learned = {name: _sha(array) for name, array in state.arrays.items()}
            said.append([source.name, source.settings.model_dump(mode="json"), dict(state.card), learned])
        return content_hash(said, length=12)

    # --- as a folder --------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write `evaluator.json`, `arrays.safetensors` and the files that people may edit into the folder.

        Raises:
            NotFitted: Nothing was learned yet.
        """
        if not self.is_fitted:
            raise NotFitted(f"the evaluator {self.name!r} has learned nothing yet; fit it first")
        card, arrays = self.head.state()
        every = {f"head.{name}": array for name, array in arrays.items()}
        if self.held_out is not None:
            every |= {f"{HELD_OUT}.{name}": array for name, array in self.held_out.arrays().items()}
        if self.trained_on is not None:
            every |= {f"{TRAINING_SET}.{name}": array for name, array in self.trained_on.arrays().items()}
        parts: list[SourceCard] = []
        files: dict[str, str] = {}
        for source in self.sources:
            state = source.state()
            settings = source.settings.model_dump(mode="json")
            parts.append({"name": source.name, "settings": settings, "learned": dict(state.card)})
            every |= {f"{source.name}.{name}": array for name, array in state.arrays.items()}
            files |= state.files
        about: Card = {
            "format": FOLDER_FORMAT,
            "accord_version": __version__,
            "name": self.name,
            "level": self.level,
            "question": self.question.model_dump(mode="json"),
            "head": {"name": self.head_name, "settings": self.head.settings(), "learned": card},
            "sources": parts,
            "seed": self.sources[0].context.seed if self.sources else 0,
            "models": {
                role: settings.model_dump(mode="json", exclude_defaults=True)
                for role, settings in self.models.items()
                if role in self.roles
            },
            "also": [other.question.id for other in self.also],
            "questions": [other.question.id for other in self.questions],
            "plausibility": None if self.plausibility is None else self.plausibility.to_json(),
        }
        write_folder(Path(folder), about, every, files)
        for place, other in enumerate(self.also):
            other.save(Path(folder) / "also" / str(place))
        for place, other in enumerate(self.questions):
            other.save(Path(folder) / QUESTIONS / str(place))


def learns(source: Source) -> bool:
    """Whether a source learns from labels, so that it has to be learned again without each fold."""
    return type(source).learn is not Source.learn


def with_notes(scores: Sequence[Score | Unscored], evidence: EvidenceTable) -> list[Score | Unscored]:
    """Scores with the notes of their evidence."""
    found: list[Score | Unscored] = []
    for score in scores:
        note = evidence.notes.get(score.target)
        if note is None:
            found.append(score)
            continue
        notes = {**score.notes, **note.shown}
        if isinstance(score, Score) and note.warning:
            warning = "; ".join(part for part in (note.warning, score.warning) if part)
            found.append(replace(score, notes=notes, warning=warning))
        else:
            found.append(replace(score, notes=notes))
    return found


def _as_note(score: Score | Unscored) -> dict[str, Any]:
    """What is predicted of another question, as a score's notes have it."""
    if isinstance(score, Unscored):
        return {"annotator": score.annotator, "unscored": score.reason}
    row = score.to_json()
    return {name: value for name, value in row.items() if name in _NOTED}


_NOTED = ("annotator", "value", "low", "high", "band_low", "band_high", "distribution", "warning")


_BASE_RATE = f"no evidence ({NOT_RECORDED}): this is the distribution of all ratings"


def _columns(head: Head, evidence: EvidenceTable) -> tuple[Any, ...]:
    return evidence.columns if head.columns is None else head.columns


def _turns_of(sample: Sample) -> list[Sample]:
    """The turn itself, or the replies of a conversation."""
    if sample.turn is not None:
        return [sample]
    replies = {id(turn) for turn in sample.conversation.replies}
    return [
        Sample(sample.conversation, place)
        for place, turn in enumerate(sample.conversation.turns)
        if id(turn) in replies
    ]


def _sha(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
