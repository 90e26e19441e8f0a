"""An opened project without its verbs: settings, store, models, sources, evaluators, and training data."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from accord import evidence, learning, models, statistics
from accord.edges import check_address, one_line, validate
from accord.project.config import Config
from accord.store import Mart, Spool, Store, StoreError, batches, mart_folder
from accord.values import Labels, Question, Rubric, Sample, Target, load_rubric, steps

if TYPE_CHECKING:  # opening a project imports no code for learning, models or statistics
    from accord.evidence import EvidenceTable, Source, SourceContext, Training
    from accord.learning import Evaluator, Level
    from accord.models import Budget, Models, ModelSettings, OnAnswer, RecordedAnswers
    from accord.project.evaluators.evaluator_choice import LastFit
    from accord.statistics import Groups

ALL = "all"
"""Name of the evaluator with all sources."""
EVALUATORS = Path("evaluators")
"""Folder of fitted evaluators in a project folder."""
_BATCH_SIZE = 500


class Workspace:
    """The store, rubric, models and evaluators of a project, for the functions behind the verbs of `Project`.

    Arguments and errors are the same as in `Project`.
    """

    def __init__(
        self,
        config: Config,
        rubric: Rubric | None = None,
        given: Mapping[str, Any] | None = None,
        question: str | None = None,
        reads_only: bool = False,
    ) -> None:
        self.config, self.keeps_rubric, self.asked = config, rubric is not None, question
        self.rubric = rubric or load_rubric(config.rubric)
        self.question = self.rubric.main_question if question is None else self.rubric[question]
        self.store = Store(config.store, config.synthetic, self.rubric, reads_only)
        self.store.other_scales = config.other_scales
        self.store.redactor = config.privacy.redactor("import")
        for line in () if reads_only else Spool(self.store).take_in():
            logging.getLogger("accord").warning("%s", one_line(line))
        self.given = given or {}
        self._open: list[Models] = []
        self._memory: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and the store."""
        try:
            for models in self._open:
                models.close()
        finally:
            self._open.clear()
            try:
                if "budget" in self.__dict__:
                    self.budget.close()
            except StoreError as error:
                logging.getLogger("accord").warning("unspent parts of the shared budget stay reserved: %s", error)
            self.store.close()
            if self._memory is not None:
                self._memory.cleanup()

    # --- settings, models, evaluators ---------------------------------------------------------------------------

    @cached_property
    def mart(self) -> Mart:
        """Scores that the board reads; scores of a store in memory are deleted with the project."""
        folder = mart_folder(self.config.store, self.config.mart, self.config.folder)
        if folder is None:
            self._memory = TemporaryDirectory(prefix="accord-")
            folder = Path(self._memory.name)
        check_address(str(folder))
        return Mart(folder)

    @cached_property
    def budget(self) -> Budget:
        """Budget and spending of this run, with the prices of `prices.yaml` in the project's folder."""
        return models.open_budget(self.config.budget, self.config.folder, self.store)

    def cap(self, **caps: float | None) -> None:
        """Replace caps of the settings by those that are not `None`, before any request.

        Raises:
            BadInput: A cap is negative, infinite or not a number.
        """
        given = {name: cap for name, cap in caps.items() if cap is not None}
        budget = validate(models.Caps, {**self.config.budget.model_dump(), **given}, "budget")
        self.config = self.config.model_copy(update={"budget": budget})

    @cached_property
    def models(self) -> Models:
        """Models by role; each is opened by its first request."""
        return self.open_models(asks=True)

    @cached_property
    def stored_models(self) -> Models:
        """Models by role that answer only from the store and send no request."""
        return self.open_models(asks=False)

    @cached_property
    def recordings(self) -> Mapping[str, RecordedAnswers]:
        """Answers of all recorded models, by model; empty unless the judge is a recorded one."""
        from accord.project.judges.recorded_judges import load_recordings

        judge = None if models.JUDGE in self.given else self.config.models.get(models.JUDGE)
        return load_recordings(judge, self.config.folder)

    @cached_property
    def model_settings(self) -> Mapping[str, ModelSettings]:
        """Settings of the models by role; a recorded judge names its model (`choose_recording`)."""
        from accord.project.judges.recorded_judges import choose_recording

        settings = self.config.models
        if not self.recordings:
            return settings
        judge, main = settings[models.JUDGE], self.rubric.main
        has_choice = judge.model is None and len(self.recordings) > 1
        samples = self.samples(self.rated(main).targets) if has_choice else ()
        chosen = choose_recording(self.recordings, main, samples, judge.model)
        return {**settings, models.JUDGE: judge.model_copy(update={"model": chosen.model})}

    def open_models(self, asks: bool, in_batches: bool = False, store: Store | None = None) -> Models:
        """Open the models of all roles.

        Args:
            asks: True to allow requests.
            in_batches: True to select the batch mode.
            store: Store of the answers; by default the store of the project.
        """
        settings, folder = self.model_settings, self.config.folder
        redactor = self.config.privacy.redactor("send")
        opened = models.Models(
            settings, store or self.store, self.budget, asks, in_batches, self.given, folder, redactor
        )
        self._open.append(opened)
        return opened

    @property
    def context(self) -> SourceContext:
        """Settings that all sources share."""
        from accord.project.judges.recorded_judges import recorded_questions

        recorded: tuple[Question, ...] = ()
        if self.recordings:
            judge = self.model_settings[models.JUDGE].model
            recorded = recorded_questions(self.recordings, judge, self.rubric)
        return evidence.SourceContext(self.rubric, self.config.seed, recorded, self.config.folder)

    @property
    def evidence(self) -> tuple[str, ...]:
        """Names of the sources that measure without learning."""
        roles = {"rubric": "judge", "likelihood": "likelihood"}
        named = [name for name, role in roles.items() if role in self.given and name not in self.config.evidence]
        return (*named, *self.config.evidence)

    def source(self, name: str) -> Source:
        """Create a source with the project's settings.

        Raises:
            UnknownName: The source is unknown.
        """
        return evidence.make_source(name, self.config.settings_of(name), self.context)

    def evaluator(self, name: str | None = None) -> Evaluator:
        """Create an unfitted evaluator of the project or of a preset; by default the one in use.

        Raises:
            UnknownName: The evaluator is unknown.
        """
        name = name or self.evaluator_in_use
        is_all = name == ALL and ALL not in self.config.evaluators and self._further_sources
        sources = (learning.EVIDENCE, *self._further_sources)
        own = learning.EvaluatorSettings(sources=sources) if is_all else self.config.about(name)
        settings = {source: self.config.settings_of(source) for source in dict.fromkeys((*own.sources, *self.evidence))}
        return learning.make_evaluator(
            name, own, self.question, self.context, self.evidence, settings, self.models.settings
        )

    @property
    def _further_sources(self) -> list[str]:
        """Names of the sources with settings outside the evidence: those that learn."""
        return [name for name in self.config.sources if name not in self.evidence]

    def evaluator_names(self) -> list[str]:
        """Return the names of the project's evaluators, the presets, and `all` if a source that learns has settings.

        `all` has all sources. Without sources that learn it is `default`.
        """
        every = [ALL] if self._further_sources else []
        return list(dict.fromkeys([*self.config.evaluators, *learning.PRESETS, *every]))

    @property
    def evaluators_folder(self) -> Path:
        """Folder of the project's fitted evaluators."""
        return self.config.folder / EVALUATORS

    @property
    def _last_fit(self) -> LastFit | None:
        from accord.project.evaluators import evaluator_choice

        return evaluator_choice.last_fit(self.store, self.question.id, self.evaluators_folder)

    @property
    def evaluator_in_use(self) -> str:
        """Name of the evaluator that was fitted or chosen last; without one, the setting `evaluator`."""
        last = self._last_fit
        known = {*self.evaluator_names(), *learning.SIMPLE}
        return last.name if last is not None and last.name in known else self.config.evaluator

    def folder(self, name: str | None = None) -> Path:
        """Folder of a fitted evaluator: `evaluators/NAME`; without a name, of the evaluator in use."""
        last = self._last_fit if name is None else None
        own = self.evaluators_folder / (name or self.config.evaluator)
        return own if last is None else last.folder

    def load(self, folder: str | Path | None = None) -> Evaluator:
        """Load a fitted evaluator; by default the one that was fitted last.

        Raises:
            BadInput: The folder holds none.
        """
        place = Path(folder or self.folder())
        self.warn_of_erased(place)
        return learning.load_evaluator(place, self.config.folder)

    def warn_of_erased(self, folder: str | Path) -> None:
        """Log a warning if a fitted evaluator learned from conversations that were erased since."""
        from accord.project.erasing.refit import refit_note

        if note := refit_note(self.store, Path(folder)):
            logging.getLogger("accord").warning("%s", note)

    # --- conversations and labels -------------------------------------------------------------------------------

    def samples(self, targets: Iterable[Target]) -> list[Sample]:
        """Return samples for targets, ordered by conversation id and turn."""
        turns: dict[str, list[int | None]] = {}
        for target in targets:
            turns.setdefault(target.conversation, []).append(target.turn)
        return [
            Sample(conversation, turn)
            for conversation in self.store.conversations(turns)
            for turn in sorted(set(turns[conversation.id]), key=lambda turn: -1 if turn is None else turn)
        ]

    def level(self, question: Question | None = None) -> Level | None:
        """Return the level of the ratings, `turn`, `step` or `conversation`.

        Without ratings, it is `step` for a question about steps, else `None`.

        Raises:
            BadInput: There are ratings on both levels.
        """
        asked = question or self.question
        return learning.level_of(self.rated(asked.id).targets, asked)

    def rated(self, question: str) -> Labels:
        """Read the labels of one question."""
        return self.store.labels(question).on(question)

    def all_samples(self, level: Level | None = None) -> Iterator[Sample]:
        """Yield all conversations, all replies for the level `turn`, or all steps for `step`."""
        for conversation in self.store.conversations():
            if level in ("turn", "step"):
                yield from (Sample(conversation, place) for place in steps.judged_turns(conversation, level))
            else:
                yield Sample(conversation)

    def sample_batches(self, everything: bool = False, limit: int | None = None) -> Iterator[list[Sample]]:
        """Yield all samples, or the rated ones, in batches."""
        if everything:
            yield from batches(islice(self.all_samples(self.level()), limit), _BATCH_SIZE)
            return
        for part in batches(islice(self.rated(self.question.id).targets, limit), _BATCH_SIZE):
            yield self.samples(part)

    # --- learning -----------------------------------------------------------------------------------------------

    def training(self, evaluator: Evaluator, until: str | None = None) -> tuple[Training, Groups]:
        """Return the training data of an evaluator and its groups.

        The data are the rated samples of its question, and samples rated on other questions if the evaluator uses them;
        labels given after the time `until` are left out.

        Raises:
            BadInput: The question has no labels.
        """
        from accord.project.label_scales import check_scales

        labels = self.labels(evaluator, until)
        rated = labels.on(evaluator.question.id)
        if evaluator.level is not None:
            whole = evaluator.level == "conversation"
            rated = Labels(label for label in rated if (label.target.turn is None) == whole)
        if not len(rated):
            from accord.project.importing.rubric_inference import missing_labels

            raise missing_labels(evaluator.question.id, labels, self.store, self.config.rubric)
        own = {name for source in evaluator.sources for name in source.own_questions()}
        uses_others = evaluator.takes_every_sheet and not evaluator.question.compares
        others = learning.other_sheets(labels, rated, own) if uses_others else []
        check_scales(self.store, (evaluator.question, *(self.rubric.questions if uses_others else ())))
        samples = self.samples([*rated.targets, *others])
        groups = statistics.groups_of(samples, self.config.group_by)
        targets = frozenset(sample.target for sample in samples)
        used = Labels(label for label in labels if label.target in targets or label.against in targets)
        training = evidence.Training(
            tuple(samples), used.grouped(groups.of), evaluator.question, self.config.seed, self.config.draws
        )
        return training, groups

    def labels(self, evaluator: Evaluator, until: str | None = None) -> Labels:
        """Return the labels of all questions up to the time `until`, as the evaluator's sources read them."""
        labels = self.store.labels()
        for source in evaluator.sources:
            labels = source.read_labels(labels)
        if until is None:
            return labels
        return Labels(label for label in labels if label.time is None or label.time <= until)

    def measure(
        self,
        sources: Collection[Source],
        samples: Sequence[Sample],
        asked: Models | None = None,
        step: OnAnswer | None = None,
    ) -> EvidenceTable:
        """Measure samples with some sources; without `asked`, only from stored answers."""
        table = evidence.EvidenceTable.of(samples)
        for source in sources:
            flow = source.measure(samples)
            columns = models.run(flow, asked or self.stored_models, step or (lambda purpose: None))
            table = evidence.joined(table, columns, source.name)
        return table
