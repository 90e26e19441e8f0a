"""Project: the store, rubric, models and evaluators of an `accord.yaml`, with one method per command.

with accord.open("accord.yaml") as project:
project.import_(["chats.jsonl", "labels.csv"])
print(project.compare())
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from accord import evidence, learning, models, scoring, statistics
from accord import project as steps
from accord.edges import BadInput, one_line
from accord.formats import tables_of
from accord.project.config import Config, load_project
from accord.project.python_calls import tells_python_calls
from accord.project.result_verbs import ResultVerbs
from accord.store import Mart, SharedBudget, Spool, Store, StoreError, batches, mart_folder
from accord.values import Labels, Question, Rubric, Sample, Target, load_rubric

if TYPE_CHECKING:  # opening a project imports no code for learning, models or statistics
    from accord.evidence import EvidenceTable, Source, SourceContext, Training
    from accord.learning import Evaluator, EvaluatorSettings, Level, WorkerPool
    from accord.models import Budget, Caps, Models, ModelSettings, OnAnswer, Plan, RecordedAnswers
    from accord.project.diagnostics import Insights
    from accord.project.imported import Imported
    from accord.project.judging import JudgeSelection
    from accord.project.results import Compared, Estimates, Fitted, JudgeRun, NextLabel
    from accord.project.synthesising import SynthRun
    from accord.scoring import Execution, PartsRun, Perspective, ScoreOptions, ScoreRun
    from accord.statistics import Groups
    from accord.synth import TwoSampleResult

ALL = "all"
"""Name of the evaluator with all sources."""
EVALUATORS = Path("evaluators")
"""Folder of fitted evaluators in a project folder."""
_BATCH_SIZE = 500


def open_project(path: str | Path | None = None) -> Project:
    """Open the project of an `accord.yaml`; by default the one in the working folder or above it.

    Raises:
        BadInput: There is no such file, it is invalid, or the store cannot be opened.
    """
    return Project(load_project(path))


open = open_project
"""Alias for `accord.open`. This module opens no other file."""


@tells_python_calls
class Project(ResultVerbs):
    """An opened project; a context manager that closes its store and connections.

    Args:
        config: Settings of the project.
        rubric: Rubric to use instead of the one in the settings.
        given: Model objects by role, instead of those in the settings (`accord.models.Models`).
        question: Question of the rubric to learn; default: the main one.

    Raises:
        BadInput: The store or the rubric cannot be read.
        UnknownName: The question is unknown.
    """

    def __init__(
        self,
        config: Config,
        rubric: Rubric | None = None,
        given: Mapping[str, Any] | None = None,
        question: str | None = None,
    ) -> None:
        self.config, self.keeps_rubric, self.asked = config, rubric is not None, question
        self.rubric = rubric or load_rubric(config.rubric)
        self.question = self.rubric.main_question if question is None else self.rubric[question]
        self.store = Store(config.store, config.synthetic, self.rubric)
        self.store.other_scales = config.other_scales
        for line in Spool(self.store).take_in():
            logging.getLogger("accord").warning("%s", one_line(line))
        self.given = given or {}
        self._open: list[Models] = []
        self._memory: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Project:
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
        """Scores that the board reads; those of a store in memory are deleted with the project."""
        folder = mart_folder(self.config.store, self.config.mart, self.config.folder)
        if folder is None:
            self._memory = TemporaryDirectory(prefix="accord-")
            folder = Path(self._memory.name)
        return Mart(folder)

    @cached_property
    def budget(self) -> Budget:
        """Budget and spending of this run, with the prices of `prices.yaml` in the project's folder."""
        settings = self.config.budget
        account = None if settings.shared is None else SharedBudget(self.store, settings.shared)
        return models.Budget(self._caps, models.load_prices(self.config.folder), account)

    @property
    def _caps(self) -> Caps:
        settings = self.config.budget
        return models.Caps(settings.requests, settings.tokens, settings.money)

    def cap(self, **caps: float | None) -> None:
        """Replace caps of the settings by those that are not `None`, before any request.

        Raises:
            BadInput: A cap is negative, infinite or not a number.
        """
        given = {name: cap for name, cap in caps.items() if cap is not None}
        models.Caps(**given)  # type: ignore[arg-type]
        self.config = self.config.model_copy(update={"budget": self.config.budget.model_copy(update=given)})

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
        return steps.load_recordings(self)

    @cached_property
    def model_settings(self) -> Mapping[str, ModelSettings]:
        """Settings of the models by role; a recorded judge names its model (`choose_recording`)."""
        return steps.settings_with_judge(self) if self.recordings else self.config.models

    def open_models(self, asks: bool, in_batches: bool = False) -> Models:
        """Open the models of all roles; `asks` allows requests, `in_batches` selects the batch mode."""
        settings, folder = self.model_settings, self.config.folder
        opened = models.Models(settings, self.store, self.budget, asks, in_batches, self.given, folder)
        self._open.append(opened)
        return opened

    @property
    def context(self) -> SourceContext:
        """Settings that all sources share."""
        recorded = steps.recorded_questions(self) if self.recordings else ()
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
        is_all = name == ALL and ALL not in self.config.evaluators
        own = self._all_sources() if is_all else self.config.about(name)
        settings = {source: self.config.settings_of(source) for source in dict.fromkeys((*own.sources, *self.evidence))}
        return learning.make_evaluator(
            name, own, self.question, self.context, self.evidence, settings, self.models.settings
        )

    def _all_sources(self) -> EvaluatorSettings:
        """Return settings with all sources that measure without learning, and the learned sources with settings."""
        learned = (name for name in self.config.sources if name not in self.evidence)
        return learning.EvaluatorSettings(sources=(learning.EVIDENCE, *learned))

    def evaluator_names(self) -> list[str]:
        """Return the names of the project's evaluators, the presets, and `all`."""
        return list(dict.fromkeys([*self.config.evaluators, *learning.PRESETS, ALL]))

    @property
    def evaluator_in_use(self) -> str:
        """Name of the evaluator that was fitted or chosen last; without one, the setting `evaluator`."""
        last = steps.evaluator_choice.last_fit(self)
        known = {*self.evaluator_names(), *learning.SIMPLE}
        return last.name if last is not None and last.name in known else self.config.evaluator

    def folder(self, name: str | None = None) -> Path:
        """Folder of a fitted evaluator: `evaluators/NAME`; without a name, of the evaluator in use."""
        last = steps.evaluator_choice.last_fit(self) if name is None else None
        own = self.config.folder / EVALUATORS / (name or self.config.evaluator)
        return own if last is None else last.folder

    def load(self, folder: str | Path | None = None) -> Evaluator:
        """Load a fitted evaluator; by default the one that was fitted last.

        Raises:
            BadInput: The folder holds none.
        """
        return learning.load_evaluator(folder or self.folder(), self.config.folder)

    # --- conversations and labels -------------------------------------------------------------------------------

    def import_(self, paths: Any, main: str | None = None, **reading: Any) -> Imported:
        """Read conversations and labels into the store; for further arguments see `accord.project.import_files`.

        `paths` is a file, a data frame, an Arrow table, a data set, a list of dicts, or a list of such sources. The
        labels add questions to a rubric that was not given (`rubric_of_labels`); `main` names the main one.
        """
        sources = tables_of(paths)
        if not self.keeps_rubric:
            reading = {**reading, "survey": steps.adopt_rubric(self, sources, main, reading)}
        return steps.import_files(self.store, self.rubric, sources, **reading)

    def raters_text(self) -> str:
        """Return the people and judges who answered the question, each with the number of answers."""
        return steps.who_rated(self)

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
        """Return the level of the ratings, `turn` or `conversation`; `None` without ratings.

        Raises:
            BadInput: There are ratings on both levels.
        """
        return learning.level_of(self.rated((question or self.question).id).targets)

    def rated(self, question: str) -> Labels:
        """Read the labels of one question."""
        return self.store.labels(question).on(question)

    def all_samples(self, level: Level | None = None) -> Iterator[Sample]:
        """Yield all conversations, or all replies for the level `turn`."""
        for conversation in self.store.conversations():
            if level == "turn":
                replies = {id(turn) for turn in conversation.replies}
                numbers = [number for number, turn in enumerate(conversation.turns) if id(turn) in replies]
                yield from (Sample(conversation, number) for number in numbers)
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

    def training(self, evaluator: Evaluator) -> tuple[Training, Groups]:
        """Return the training data of an evaluator and its groups.

        The data are the rated samples of its question, and samples rated on other questions if the evaluator uses them.

        Raises:
            BadInput: The question has no labels.
        """
        from accord.project.rubric_inference import missing_labels

        labels = self.labels(evaluator)
        rated = labels.on(evaluator.question.id)
        if evaluator.level is not None:
            whole = evaluator.level == "conversation"
            rated = Labels(label for label in rated if (label.target.turn is None) == whole)
        if not len(rated):
            raise BadInput(missing_labels(evaluator.question.id, labels, self.store, self.config.rubric))
        own = {name for source in evaluator.sources for name in source.own_questions()}
        uses_others = evaluator.takes_every_sheet and not evaluator.question.compares
        others = learning.other_sheets(labels, rated, own) if uses_others else []
        steps.check_scales(self, (evaluator.question, *(self.rubric.questions if uses_others else ())))
        samples = self.samples([*rated.targets, *others])
        groups = statistics.groups_of(samples, self.config.group_by)
        targets = frozenset(sample.target for sample in samples)
        used = Labels(label for label in labels if label.target in targets or label.against in targets)
        training = evidence.Training(
            tuple(samples), used.grouped(groups.of), evaluator.question, self.config.seed, self.config.draws
        )
        return training, groups

    def labels(self, evaluator: Evaluator) -> Labels:
        """Return the labels of all questions as the evaluator's sources read them."""
        labels = self.store.labels()
        for source in evaluator.sources:
            labels = source.read_labels(labels)
        return labels

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

    # --- commands -----------------------------------------------------------------------------------------------

    def judge(
        self,
        sources: Sequence[str] = (),
        selection: JudgeSelection | None = None,
        on_step: Callable[[], None] = lambda: None,
        on_stop: Callable[[JudgeRun], None] = lambda run: None,
    ) -> JudgeRun:
        """Ask the sources that need a model; see `accord.project.judging.judge`."""
        return steps.judging.judge(self, sources, selection or steps.JudgeSelection(), on_step, on_stop=on_stop)

    def plan_judge(self, sources: Sequence[str] = (), selection: JudgeSelection | None = None) -> Plan:
        """Plan the requests and the cost of `judge` without a request."""
        return steps.judging.plan_judge(self, sources, selection or steps.JudgeSelection())

    def fit(
        self,
        name: str | None = None,
        out: str | Path | None = None,
        step: OnAnswer = lambda purpose: None,
        on_stage: Callable[[str], None] = lambda stage: None,
        every_question: bool = False,
    ) -> Fitted:
        """Fit an evaluator, validate it, and save it; see `accord.project.fitting.fit`.

        With `every_question` the folder also predicts all other questions of the rubric from the same evidence.
        """
        return steps.fitting.fit(self, name, out, step, on_stage, every_question)

    def plan_fit(self, name: str | None = None) -> Plan:
        """Plan the requests and the cost of `fit` without a request."""
        return steps.fitting.plan_fit(self, name)

    def compare(
        self,
        only: Collection[str] = (),
        by: Sequence[str] = (),
        jobs: WorkerPool | int | None = None,
        on_step: Callable[[str], None] = lambda name: None,
    ) -> Compared:
        """Compare all evaluators that the data allow, on the same folds; see `accord.project.comparing`.

        `jobs` is the number of processes that fit in parallel: by default one per core, at most four.
        """
        workers = nullcontext(jobs) if isinstance(jobs, learning.WorkerPool) else learning.WorkerPool(jobs)
        with workers as pool, self.store.run("compare", scoring.asked_in(self.question, self.config.shown())) as record:
            result = steps.comparing.compare(self, only, pool, on_step)
            result = replace(result, groups=steps.comparing.by_groups(result, by))
            record.results.update(result.to_json())
        return result

    def score(
        self,
        source: Any,
        out: str | Path | None = None,
        evaluator: str | Path | Evaluator | None = None,
        perspective: Perspective | None = None,
        options: ScoreOptions | None = None,
        **reading: Any,
    ) -> ScoreRun:
        """Score the conversations of a file or a table in memory; see `accord.scoring.file.score_file`.

        Without `out` the result holds the scores: iterate over it, or call `to_polars` or `to_pandas`.
        """
        loaded = self.load(evaluator) if evaluator is None or isinstance(evaluator, str | Path) else evaluator
        steps.check_question(self, loaded)
        speaker, options = perspective or scoring.Perspective(), options or scoring.ScoreOptions()
        return scoring.score_file(self, loaded, source, out, speaker, options, **reading)

    def score_parts(
        self,
        source: str | Path | Sequence[str | Path],
        out: str | Path,
        evaluator: str | Path | None = None,
        perspective: Perspective | None = None,
        options: ScoreOptions | None = None,
        execution: Execution | None = None,
        format: str = "auto",
        columns: Mapping[str, str] | None = None,
        on_progress: Callable[[int, int], None] = lambda rows, expected: None,
        roles: Mapping[str, str] | None = None,
    ) -> PartsRun:
        """Score files of any number and size into a folder of parts; see `accord.scoring.folder.score_parts`."""
        config = self.config
        asking = scoring.ModelAccess(True, config.store, self._caps, config.budget.shared, config.folder)
        options = replace(options or scoring.ScoreOptions(), synthetic=self.config.synthetic)
        scorer = scoring.BatchScorer(
            evaluator or self.folder(), perspective or scoring.Perspective(), options, asking, format, columns, roles
        )
        steps.check_question(self, scorer.evaluator)
        settings = scoring.asked_in(scorer.evaluator.question, {"source": str(source), **config.shown()})
        with self.store.run("score parts", settings) as record:
            result = scoring.score_parts(scorer, source, out, execution or scoring.Execution(), on_progress)
            record.results.update(result.to_json())
            scoring.add_parts(self.store, self.mart, str(out), scorer.evaluator.question.id, record.id)
            self.mart.tidy()
        return result

    def label_next(self, count: int = 10, annotators: Collection[str] = ()) -> list[NextLabel]:
        """Suggest the labels that would teach the evaluator most, the best first."""
        return steps.label_suggestions.label_next(self, count, annotators)

    def estimate(self) -> Estimates:
        """Estimate the mean rating of each assistant version from few labels and many scores, and all differences."""
        with self.store.run("estimate", self.config.shown()) as record:
            estimates = steps.label_suggestions.estimate(self)
            record.results.update(estimates.to_json())
        return estimates

    def synth(self, out: str | Path | None = None, step: OnAnswer = lambda purpose: None, **changes: Any) -> SynthRun:
        """Generate synthetic conversations; see `accord.project.synthesising.synth`.

        Args:
            out: File of conversations (.jsonl), written at the end.
            step: Called after each reply.
            **changes: Settings that replace those under `synth:`: `topics`, `methods`, `documents`, ...
        """
        return steps.synthesising.synth(self, steps.synthesising.settings_of(self, changes), out, step)

    def plan_synth(self, **changes: Any) -> Plan:
        """Plan the maximum cost of `synth` without a request."""
        return steps.synthesising.plan_synth(self, steps.synthesising.settings_of(self, changes))

    def check_synth(self, method: str | None = None) -> TwoSampleResult:
        """Compare synthetic with real conversations; see `accord.project.synthesising.check_synth`."""
        return steps.synthesising.check_synth(self, method)

    def fit_offline(self, name: str | None = None, every_question: bool = False) -> Fitted:
        """Fit an evaluator from stored answers, without a request and without saving it; errors as in `fit`."""
        return steps.fitting.tried(self, self.evaluator(name), every_question)

    def insights(self, fitted: Fitted, curve_draws: int | None = None) -> Insights:
        """Compute diagnostics of an evaluator; results of the same inputs are cached.

        `curve_draws` is the number of random subsets of the learning curve, by default that of the settings.

        Raises:
            BadInput: The question has no ratings.
        """
        if fitted.held_out is None:
            raise BadInput(f"no ratings on {self.question.id!r}; diagnostics need ratings")
        subsets = self.config.curve_draws if curve_draws is None else curve_draws
        return steps.diagnostics.insights(self.store, self.rubric, fitted.held_out, fitted.evaluator, subsets)
