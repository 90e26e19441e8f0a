"""Evaluator: sources of evidence and one head that learns from them to predict answers to a question.

A saved evaluator is complete: `load_evaluator(folder)` scores new conversations without the project, and asks the
models that its sources name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from accord.edges import AccordError, BudgetReached, ModelError, NotFitted
from accord.evidence import EvidenceTable, Source, Training, joined, languages_of, measure_all
from accord.learning.answer_models.contract import prefixed
from accord.learning.calibration.plausibility import Plausibility
from accord.learning.evaluator_files import (
    FOLDER_FORMAT,
    HELD_OUT,
    OTHER_QUESTIONS,
    TRAINING_SET,
    Card,
    SourceCard,
    write_folder,
)
from accord.learning.experiment import Experiment, HeadLearner, HeldOutAnswers, Predictions, Rows, level_of
from accord.learning.head import Head
from accord.learning.presets import Level
from accord.learning.score_notes import as_note, with_base_rate, with_languages, with_notes
from accord.learning.training_set import TrainingSet
from accord.models import LIKELIHOOD, Flow, ModelSettings
from accord.values import Labels, Question, Sample, Score, Signature, Target, Unscored, content_hash
from accord.version import __version__

TURNS = "turns"
"""Note of a score with the predictions for its turns by evaluators of other questions."""


@dataclass(frozen=True)
class Evaluator:
    """Sources and a head, before or after learning.

    Attributes:
        question: Question that is predicted.
        sources: Sources of evidence; after learning, only those that the head uses.
        head: Head that learns from the evidence.
        name: Name in the project.
        head_name: Registered name of the head.
        level: Level of the samples that it learned from and scores: `turn`, `step` or `conversation`; None
            before learning.
        models: Settings of the models that its sources ask, by role.
        other_questions: Evaluators of other questions. Their predictions go into the notes of a score: under
            `other_questions` if they share this evaluator's evidence, otherwise under `turns`.
        shares_evidence: True for an evaluator of another question that predicts from the main evaluator's evidence.
        choose: Settings of the head to choose on inner folds: values by name, simplest first.
        seed: Random seed of those folds.
        held_out: Out-of-fold predictions of the training ratings, or `None`.
        training_set: Rated conversations at the time of learning, or `None` if nothing was rated.
        languages: Languages of the training texts, if a source detects them. A score in another one has a warning.
        checks_plausibility: True if learning includes a check of replies that a language model finds implausible;
            None checks where possible.
        plausibility: The check, or `None` if learning did not include it.

    >>> from accord.testing import sample_project
    >>> sample_project().fit("constant").evaluator.head_name
    'constant'
    """

    question: Question
    sources: tuple[Source, ...]
    head: Head
    name: str = ""
    head_name: str = "auto"
    level: Level | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    other_questions: tuple[Evaluator, ...] = ()
    shares_evidence: bool = False
    choose: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seed: int = 0
    held_out: HeldOutAnswers | None = None
    training_set: TrainingSet | None = None
    languages: tuple[str, ...] = ()
    checks_plausibility: bool | None = False
    plausibility: Plausibility | None = None

    @property
    def is_fitted(self) -> bool:
        """True after learning."""
        return self.head.is_fitted

    @property
    def annotators(self) -> list[str]:
        """Annotators that the head learned from."""
        return self.head.annotators

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the models that scoring may ask."""
        roles = [role for source in self.all_sources for role in source.roles]
        return tuple(dict.fromkeys(roles if self.checks_plausibility is False else [*roles, LIKELIHOOD]))

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """Sources of this evaluator and of the others that have evidence of their own."""
        return (*self.sources, *(source for other in self._separate for source in other.sources))

    @property
    def starts_without_labels(self) -> bool:
        """True if a judge's answers are enough to begin with; no source learns."""
        return self.head.starts_without_labels and not any(map(learns, self.sources))

    @property
    def takes_every_sheet(self) -> bool:
        """True if the head learns from answers about samples without a rating on its question."""
        return self.head.takes_every_sheet and not any(map(learns, self.sources))

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Entries of a conversation's metadata that change its score, such as `system`."""
        of_sources = [name for source in self.sources for name in source.metadata_names]
        return tuple(dict.fromkeys([*self.head.metadata_names, *of_sources]))

    @property
    def is_live(self) -> bool:
        """True if every source can measure a single reply."""
        return all(source.is_live for source in self.sources)

    @property
    def learner(self) -> HeadLearner:
        """The unfitted head and how it learns."""
        return HeadLearner(self.question, self.head, self.head_name, self.choose, self.seed)

    @property
    def _separate(self) -> tuple[Evaluator, ...]:
        return tuple(other for other in self.other_questions if not other.shares_evidence)

    @property
    def _sharing(self) -> tuple[Evaluator, ...]:
        return tuple(other for other in self.other_questions if other.shares_evidence)

    def signature(self) -> Signature:
        """Return the signature of its scores."""
        signature = self.head.signature().with_part("sources", "+".join(source.name for source in self.sources))
        return signature if self.plausibility is None else signature.with_part("plausibility", self.plausibility.model)

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(self, train: Training, known: EvidenceTable | None = None) -> Flow[Evaluator]:
        """Learn the sources, then the head from evidence that each source made without seeing the sample's labels.

        Args:
            train: Training samples and labels.
            known: Evidence of the sources that do not learn, if it is already measured.

        Raises:
            BadInput: There is too little to learn from, or both turns and conversations are rated.
        """
        table = known or EvidenceTable.of(train.samples)
        fitted = []
        for source in self.sources:
            if known is not None and not learns(source):
                fitted.append(source)
                continue
            learned = yield from source.learn(train)
            learned.source.name = source.name
            fitted.append(learned.source)
            table = joined(table, learned.evidence, source.name)
        return self.fitted_on(table, train.labels, fitted)

    def fitted_on(self, evidence: EvidenceTable, labels: Labels, sources: Sequence[Source] = ()) -> Evaluator:
        """Return the evaluator with its head fitted on measured evidence, without sources that the head does not use.

        Raises:
            BadInput: As `fit`, or no sample has evidence.
        """
        prepared, labels = self.learner.prepare(evidence, labels)
        return self.with_head(self.learner.fit_prepared(prepared, labels), prepared, labels, sources)

    def with_head(
        self, head: Head, evidence: EvidenceTable, labels: Labels, sources: Sequence[Source] = ()
    ) -> Evaluator:
        """Return the evaluator with a fitted head, without sources that the head does not use."""
        columns = self.learner.known(evidence).columns if head.columns is None else head.columns
        used = (
            source.keep_only(tuple(column for column in columns if column.source == source.name))
            for source in sources or self.sources
        )
        rated = labels.on(self.question.id).targets
        kept = tuple(source for source in used if source)
        found = {code for target in rated for code in languages_of(evidence.notes.get(target))}
        languages = tuple(sorted(found)) if any(source.detects_languages for source in kept) else ()
        return replace(self, head=head, sources=kept, level=level_of(rated, self.question), languages=languages)

    def with_plausibility(self, train: Training) -> Flow[Evaluator]:
        """Return the evaluator with its plausibility check learned, if it has one; asks the likelihood model.

        Raises:
            BadInput: There are too few replies to learn the check from.
        """
        if self.checks_plausibility is False:
            return self
        check = yield from Plausibility.learn(train.samples, train.group_of, self.seed)
        return replace(self, plausibility=check)

    @property
    def plausibility_text(self) -> str:
        """A sentence on the plausibility check, or on its absence."""
        return NO_CHECK if self.plausibility is None else f"plausibility check by {self.plausibility.model}"

    def without_plausibility(self) -> Evaluator:
        """Return the evaluator without its plausibility check, to score without asking a model."""
        return replace(self, checks_plausibility=False, plausibility=None)

    def cross_predict(self, train: Training, experiment: Experiment) -> Flow[Predictions]:
        """Predict each rating of an experiment without its group, learning sources again in each fold.

        Rows of a fold in which nothing can be learned stay unscored with the reason.

        Args:
            train: Training samples and labels.
            experiment: Ratings and folds, with the evidence of the sources that do not learn.
        """
        learning = [source for source in self.sources if learns(source)]
        if not learning:
            return experiment.run(self.name, lambda question: self.learner)
        parts: list[tuple[Rows, Predictions]] = []
        for split in experiment.splits:
            rows = experiment.rows_of(split)
            fold = replace(experiment, splits=(split,), ratings=experiment.ratings.take(rows), cache=None)
            try:
                predictions = yield from self._predict_fold(train, fold, learning)
            except (BudgetReached, ModelError):
                raise
            except AccordError as error:
                predictions = Predictions.missing(self.name, fold.ratings, str(error))
            parts.append((rows, predictions))
        return Predictions.joined(self.name, experiment.ratings, parts)

    def _predict_fold(self, train: Training, fold: Experiment, learning: Sequence[Source]) -> Flow[Predictions]:
        """Learn the sources on one side of a split, and predict the other side."""
        [split] = fold.splits
        seen, unseen = (fold.evidence.filter(side, train.group_of) for side in (split.train, split.test))
        for source in learning:
            learned = yield from source.learn(train.only(split.train))
            seen = joined(seen, learned.evidence, source.name)
            measured = yield from learned.source.measure(train.only(split.test).samples)
            unseen = joined(unseen, measured, source.name)
        table = seen.concat(unseen)
        rated = replace(fold.ratings, row=table.rows_of(fold.ratings.target))
        fold = replace(fold, evidence=table, labels=train.labels, ratings=rated)
        return fold.run(self.name, lambda question: self.learner)

    # --- predicting ---------------------------------------------------------------------------------------------

    def evidence(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Measure the evidence of samples."""
        return measure_all(self.sources, samples)

    def predict(
        self, samples: Sequence[Sample], annotators: str | None | Sequence[str | None] = None
    ) -> Flow[list[Score | Unscored]]:
        """Return one score per sample, for one annotator, for one annotator each, or for a new annotator (None).

        Raises:
            NotFitted: The evaluator is not fitted.
            UnknownName: No label of an annotator was learned from.
        """
        is_one = annotators is None or isinstance(annotators, str)
        names = [annotators] * len(samples) if is_one else annotators
        speakers = [self.head.speaker(name) for name in names]  # type: ignore[arg-type, union-attr]
        evidence = yield from self.evidence(samples)
        return (yield from self.scores(samples, evidence, lambda head: head.predict_each(evidence, speakers)))

    def scores(
        self,
        samples: Sequence[Sample],
        evidence: EvidenceTable,
        predict: Callable[[Head], Sequence[Score | Unscored]],
        is_checked: Callable[[Sample], bool] | None = None,
    ) -> Flow[list[Score | Unscored]]:
        """Complete the predictions of the head: base rate, notes, other questions, plausibility check.

        All scores go through this method: files, batches, live replies and pages.

        Args:
            samples: The samples.
            evidence: A row per sample.
            predict: Scores of a head, of this evaluator or of another question, from the evidence.
            is_checked: Samples whose plausibility is checked; all by default.

        Raises:
            NotFitted: The evaluator is not fitted.
        """
        self.head.check_fitted()
        scores = with_notes(with_base_rate(predict(self.head), self.held_out), evidence)
        if self.languages:
            scores = with_languages(scores, evidence, frozenset(self.languages))
        return (yield from self.with_others(samples, self.with_questions(scores, predict), is_checked))

    def with_questions(
        self, scores: list[Score | Unscored], predict: Callable[[Head], Sequence[Score | Unscored]]
    ) -> list[Score | Unscored]:
        """Return the scores with the predictions of other questions from the same evidence in their notes."""
        if not self._sharing:
            return scores
        rows: list[dict[str, Any]] = [{} for _ in scores]
        for other in self._sharing:
            for row, prediction in zip(rows, predict(other.head), strict=True):
                row[other.question.id] = as_note(prediction)
        return [
            replace(score, notes={**score.notes, OTHER_QUESTIONS: row}) for score, row in zip(scores, rows, strict=True)
        ]

    def with_others(
        self,
        samples: Sequence[Sample],
        scores: list[Score | Unscored],
        is_checked: Callable[[Sample], bool] | None = None,
    ) -> Flow[list[Score | Unscored]]:
        """Check plausibility, and add the predictions of separate evaluators for the turns of the samples."""
        if self.plausibility is not None:
            checked = [sample for sample in samples if is_checked is None or is_checked(sample)]
            scores = yield from self._lowered(self.plausibility, checked, scores)
        return (yield from self._with_turns(samples, scores)) if self._separate else scores

    def _lowered(
        self, plausibility: Plausibility, samples: Sequence[Sample], scores: list[Score | Unscored]
    ) -> Flow[list[Score | Unscored]]:
        """Return all scores; the scores of the given samples are lowered if these are implausible."""
        checked = {sample.target: sample for sample in samples}
        places = [place for place, score in enumerate(scores) if score.target in checked]
        if not places:
            return scores
        unlowered = [scores[place] for place in places]
        lowered = yield from plausibility.lower([checked[score.target] for score in unlowered], unlowered)
        by_place = dict(zip(places, lowered, strict=True))
        return [by_place.get(place, score) for place, score in enumerate(scores)]

    def _with_turns(self, samples: Sequence[Sample], scores: list[Score | Unscored]) -> Flow[list[Score | Unscored]]:
        """Return the scores with the predictions of separate evaluators for the turns of the samples in their notes."""
        turns = [turn for sample in samples for turn in _turns_of(sample)]
        notes: dict[Target, list[dict[str, Any]]] = {}
        for other in self._separate:
            for turn, score in zip(turns, (yield from other.predict(turns)), strict=True):
                if isinstance(score, Score):
                    row = {"turn": turn.turn, "question": other.question.id, "value": score.value, **score.notes}
                    if score.warning is not None:
                        row["warning"] = score.warning
                    for target in (turn.target, Target(turn.conversation.id)):
                        notes.setdefault(target, []).append(row)
        return [
            replace(score, notes={**score.notes, TURNS: notes[score.target]}) if score.target in notes else score
            for score in scores
        ]

    def in_new_domain(self) -> Evaluator:
        """Return the evaluator for another domain, where annotators' habits count less."""
        others = tuple(other.in_new_domain() if other.shares_evidence else other for other in self.other_questions)
        return replace(self, head=self.head.in_new_domain(), other_questions=others)

    def describe(self) -> dict[str, Any]:
        """Return the learned state of the head and of each source as JSON."""
        learned = {source.name: dict(found) for source in self.sources if (found := source.describe())}
        return {
            "name": self.name, "head": self.head_name, "level": self.level, "signature": str(self.signature()),
            **self.head.describe(), "sources": [source.name for source in self.sources], "learned": learned,
            "evaluators": {other.question.id: other.head.describe() for other in self.other_questions},
        }  # fmt: skip

    def digest(self) -> str:
        """Return a short digest of all settings and learned state."""
        card, arrays = self.head.state()
        parts: list[Any] = [
            self.question.model_dump(mode="json"),
            self.level,
            self.head_name,
            self.head.settings(),
            card,
            {name: _sha(array) for name, array in arrays.items()},
            [[other.digest(), other.shares_evidence] for other in self.other_questions],
            *([] if self.plausibility is None else [self.plausibility.to_json()]),
        ]
        for source in self.sources:
            state = source.state()
            learned = {name: _sha(array) for name, array in state.arrays.items()}
            parts.append([source.name, source.settings.model_dump(mode="json"), dict(state.card), learned])
        return content_hash(parts, length=12)

    # --- as a folder --------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write `evaluator.json`, `arrays.safetensors` and the editable files into a folder.

        Raises:
            NotFitted: The evaluator is not fitted.
        """
        if not self.is_fitted:
            raise NotFitted(f"the evaluator {self.name!r} is not fitted; fit it first")
        learned, head_arrays = self.head.state()
        arrays = dict(prefixed("head", head_arrays))
        if self.held_out is not None:
            arrays |= prefixed(HELD_OUT, self.held_out.arrays())
        if self.training_set is not None:
            arrays |= prefixed(TRAINING_SET, self.training_set.arrays())
        cards: list[SourceCard] = []
        files: dict[str, str] = {}
        for source in self.sources:
            state = source.state()
            settings = source.settings.model_dump(mode="json")
            cards.append({"name": source.name, "settings": settings, "learned": dict(state.card)})
            arrays |= prefixed(source.name, state.arrays)
            files |= state.files
        card: Card = {
            "format": FOLDER_FORMAT,
            "accord_version": __version__,
            "name": self.name,
            "level": self.level,
            "question": self.question.model_dump(mode="json"),
            "head": {"name": self.head_name, "settings": self.head.settings(), "learned": learned},
            "sources": cards,
            "seed": self.sources[0].context.seed if self.sources else 0,
            "models": {
                role: settings.model_dump(mode="json", exclude_defaults=True)
                for role, settings in self.models.items()
                if role in self.roles
            },
            "other_questions": [other.question.id for other in self.other_questions],
            "shares_evidence": self.shares_evidence,
            "plausibility": None if self.plausibility is None else self.plausibility.to_json(),
            "languages": list(self.languages),
        }
        write_folder(Path(folder), card, arrays, files)
        for place, other in enumerate(self.other_questions):
            other.save(Path(folder) / OTHER_QUESTIONS / str(place))


NO_CHECK = (
    "no plausibility check: implausible replies, such as shuffled words, keep their score. Configure a model for the "
    "role likelihood and fit again"
)


def learns(source: Source) -> bool:
    """Return True if a source learns from labels, and must learn again in each fold."""
    return type(source).learn is not Source.learn


def _turns_of(sample: Sample) -> list[Sample]:
    """Return the turn itself, or the replies of a conversation."""
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
