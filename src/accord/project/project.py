"""A project: what `accord.yaml` names, opened, with the verbs of daily work. Whatever a command does, it calls here.

import accord
with accord.open("accord.yaml") as project:
project.import_(["chats.jsonl", "labels.csv"])
print(project.compare().to_json()["rows"])
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
from accord.project.config import Config, load_project
from accord.store import Account, Mart, Spool, Store, StoreError, batches, mart_folder
from accord.values import Labels, Question, Rubric, Sample, Target, load_rubric

if TYPE_CHECKING:  # opening a project imports nothing that learns, asks or counts
    from accord.evidence import EvidenceTable, Source, SourceContext, Training
    from accord.learning import Evaluator, EvaluatorSettings, Level, WorkerPool
    from accord.models import Budget, Models, ModelSettings, OnAnswer, Plan, RecordedAnswers
    from accord.project.ask_models import Selected
    from accord.project.diagnostics import Insights
    from accord.project.import_worker import ImportOptions
    from accord.project.importing import Imported
    from accord.project.results import Compared, Estimates, Fitted, JudgeRun, NextLabel
    from accord.project.synthesising import SynthRun
    from accord.scoring import Moved, PartsRun, Perspective, ScoreOptions, ScoreRun, Spread
    from accord.statistics import Groups
    from accord.synth import Unlike

ALL = "all"
"""The evaluator that has every source at once."""
EVALUATORS = Path("evaluators")
"""Folder of fitted evaluators in a project folder."""
MEASURED_AT_ONCE = 500


def open_project(path: str | Path | None = None) -> Project:
    """Open the project of an `accord.yaml`; without a path, of the one in the working folder or above it.

    Raises:
        BadInput: There is no such file, it is wrong, or the store cannot be opened.
    """
    return Project(load_project(path))


open = open_project
"""As `accord.open`; nothing in this file opens any other."""


class Project:
    """What `accord.yaml` names, opened; a context manager that lets go of it again.

    Args:
        config: The project's settings.
        rubric: In place of the one that the settings name.
        given: Models of one's own, by role (`accord.models.Models`).
        question: The question of the rubric that is learned, in place of the main one.

    Raises:
        BadInput: The store or the rubric cannot be read.
        UnknownName: The rubric has no such question.
    """

    def __init__(
        self,
        config: Config,
        rubric: Rubric | None = None,
        given: Mapping[str, Any] | None = None,
        question: str | None = None,
    ) -> None:
        self.config = config
        self.rubric = rubric or load_rubric(config.rubric)
        self.question = self.rubric.main_question if question is None else self.rubric[question]
        self.store = Store(config.store, config.synthetic, self.rubric)
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

    # --- what it names ------------------------------------------------------------------------------------------

    @cached_property
    def mart(self) -> Mart:
        """The scores that the board reads; of a store in memory it is gone with the project."""
        folder = mart_folder(self.config.store, self.config.mart, self.config.folder)
        if folder is None:
            self._memory = TemporaryDirectory(prefix="accord-")
            folder = Path(self._memory.name)
        return Mart(folder)

    @cached_property
    def budget(self) -> Budget:
        """The budget of this run, and what it has spent; prices are those of `prices.yaml` in the project's folder."""
        about = self.config.budget
        account = None if about.shared is None else Account(self.store, about.shared)
        caps, prices = models.Caps(about.requests, about.tokens, about.money), models.load_prices(self.config.folder)
        return models.Budget(caps, prices, account)

    def cap(self, **caps: float | None) -> None:
        """Put other caps in place of the file's, where any is given, before anything is spent.

        Raises:
            BadInput: A cap is negative, infinite or no number.
        """
        given = {name: cap for name, cap in caps.items() if cap is not None}
        models.Caps(**given)  # type: ignore[arg-type]
        self.config = self.config.model_copy(update={"budget": self.config.budget.model_copy(update=given)})

    @cached_property
    def models(self) -> Models:
        """The models by role; each is opened when it is first asked."""
        return self._models(asks=True)

    @cached_property
    def kept(self) -> Models:
        """The same, asking nobody: what the store holds is all there is."""
        return self._models(asks=False)

    @cached_property
    def recordings(self) -> Mapping[str, RecordedAnswers]:
        """Answers of all recorded models, by model; empty unless the judge is a recorded one."""
        return steps.load_recordings(self)

    @cached_property
    def model_settings(self) -> Mapping[str, ModelSettings]:
        """Settings of the models by role; of several recorded judges one is named (`choose_recording`)."""
        return steps.settings_with_judge(self) if self.recordings else self.config.models

    def _models(self, asks: bool, in_batches: bool = False) -> Models:
        settings, folder = self.model_settings, self.config.folder
        made = models.Models(settings, self.store, self.budget, asks, in_batches, self.given, folder)
        self._open.append(made)
        return made

    def in_batches(self) -> Models:
        """The models, asked by a provider's batch files."""
        return self._models(asks=True, in_batches=True)

    @property
    def context(self) -> SourceContext:
        """Settings of the project that its sources share."""
        recorded = steps.recorded_questions(self) if self.recordings else ()
        return evidence.SourceContext(self.rubric, self.config.seed, recorded, self.config.folder)

    @property
    def evidence(self) -> tuple[str, ...]:
        """The names of the sources that measure without learning."""
        roles = {"rubric": "judge", "likelihood": "likelihood"}
        named = [name for name, role in roles.items() if role in self.given and name not in self.config.evidence]
        return (*named, *self.config.evidence)

    def source(self, name: str) -> Source:
        """A source with the project's settings.

        Raises:
            UnknownName: There is none of that name.
        """
        return evidence.make_source(name, self.config.settings_of(name), self.context)

    def evaluator(self, name: str | None = None) -> Evaluator:
        """An evaluator of the project, or a preset, before it learns; by default the one in use.

        Raises:
            UnknownName: There is none of that name.
        """
        named = name or self.evaluator_in_use
        about = self._everything() if named == ALL and ALL not in self.config.evaluators else self.config.about(named)
        wanted = dict.fromkeys((*about.sources, *self.evidence))
        settings = {each: self.config.settings_of(each) for each in wanted}
        return learning.make_evaluator(
            named, about, self.question, self.context, self.evidence, settings, self.models.settings
        )

    def _everything(self) -> EvaluatorSettings:
        """Every source that measures without learning, and those that learn where the project has settings of them."""
        learned = (name for name in self.config.sources if name not in self.evidence)
        return learning.EvaluatorSettings(sources=(learning.EVIDENCE, *learned))

    def evaluator_names(self) -> list[str]:
        """Every evaluator that the project names, each preset, and all sources together."""
        return list(dict.fromkeys([*self.config.evaluators, *learning.PRESETS, ALL]))

    @property
    def evaluator_in_use(self) -> str:
        """Name of the evaluator that was fitted last; without one, the setting `evaluator`."""
        last = steps.fitting.last_fit(self)
        known = {*self.evaluator_names(), *learning.SIMPLE}
        return last.name if last is not None and last.name in known else self.config.evaluator

    def folder(self, name: str | None = None) -> Path:
        """Folder of a fitted evaluator: `evaluators/NAME`; without a name, of the evaluator that was fitted last."""
        last = steps.fitting.last_fit(self) if name is None else None
        own = self.config.folder / EVALUATORS / (name or self.config.evaluator)
        return own if last is None else last.folder

    def load(self, folder: str | Path | None = None) -> Evaluator:
        """Load a fitted evaluator; by default the one that was fitted last.

        Raises:
            BadInput: The folder holds none.
        """
        return learning.load_evaluator(folder or self.folder(), self.config.folder)

    # --- conversations and labels -------------------------------------------------------------------------------

    def import_(
        self,
        paths: Any,
        format: str = "auto",
        columns: Mapping[str, str] | None = None,
        skip_bad_rows: bool = False,
        on_progress: Callable[[int], None] | None = None,
        options: ImportOptions | None = None,
        workers: int = 1,
        replace: bool = False,
    ) -> Imported:
        """Read conversations and labels into the store; see `import_files`.

        `paths` is a file, a data frame, an Arrow table, a data set, a list of dicts, or a list of such sources.
        """
        return steps.import_files(
            self.store, self.rubric, paths, format, columns, skip_bad_rows, on_progress,
            options or steps.ImportOptions(), workers, replace,
        )  # fmt: skip

    def samples(self, targets: Iterable[Target]) -> list[Sample]:
        """Targets with their conversations, by conversation id and turn."""
        wanted: dict[str, list[int | None]] = {}
        for target in targets:
            wanted.setdefault(target.conversation, []).append(target.turn)
        return [
            Sample(conversation, turn)
            for conversation in self.store.conversations(wanted)
            for turn in sorted(set(wanted[conversation.id]), key=lambda turn: -1 if turn is None else turn)
        ]

    def level(self, question: Question | None = None) -> Level | None:
        """Whether people rated turns or conversations; `None` where nobody rated.

        Raises:
            BadInput: They rated both.
        """
        return learning.level_of(self.rated((question or self.question).id).targets)

    def rated(self, question: str) -> Labels:
        """The labels that answer one question; no other is read."""
        return self.store.labels(question).on(question)

    def every_sample(self, level: Level | None = None) -> Iterator[Sample]:
        """All conversations, or all replies in them."""
        for conversation in self.store.conversations():
            if level == "turn":
                replies = {id(turn) for turn in conversation.replies}
                places = [place for place, turn in enumerate(conversation.turns) if id(turn) in replies]
                yield from (Sample(conversation, place) for place in places)
            else:
                yield Sample(conversation)

    def wanted(self, everything: bool = False, limit: int | None = None) -> Iterator[list[Sample]]:
        """What is to be judged, some hundreds at a time: everything, or what somebody rated."""
        if everything:
            yield from batches(islice(self.every_sample(self.level()), limit), MEASURED_AT_ONCE)
            return
        for part in batches(islice(self.rated(self.question.id).targets, limit), MEASURED_AT_ONCE):
            yield self.samples(part)

    # --- learning -----------------------------------------------------------------------------------------------

    def training(self, evaluator: Evaluator) -> tuple[Training, Groups]:
        """Return the rated samples of an evaluator's question, with other sheets if it takes them, and their groups.

        Raises:
            BadInput: The question has no labels.
        """
        from accord.project.rubric_inference import missing_labels

        labels = self.labels(evaluator)
        rated = labels.on(evaluator.question.id)
        if evaluator.level is not None:
            rated = Labels(each for each in rated if (each.target.turn is None) == (evaluator.level == "conversation"))
        if not len(rated):
            raise BadInput(missing_labels(evaluator.question.id, labels, self.rubric, self.config.rubric))
        own = {name for source in evaluator.sources for name in source.own_questions()}
        takes = evaluator.takes_every_sheet and not evaluator.question.compares
        others = learning.other_sheets(labels, rated, own) if takes else []
        samples = self.samples([*rated.targets, *others])
        found = statistics.groups_of(samples, self.config.group_by)
        about = frozenset(sample.target for sample in samples)
        kept = Labels(each for each in labels if each.target in about or each.against in about)
        return evidence.Training(
            tuple(samples), kept.grouped(found.of), evaluator.question, self.config.seed, self.config.draws
        ), found

    def labels(self, evaluator: Evaluator) -> Labels:
        """All labels, of every question, as the evaluator's sources read them."""
        labels = self.store.labels()
        for source in evaluator.sources:
            labels = source.read_labels(labels)
        return labels

    def measure(
        self,
        parts: Collection[Source],
        samples: Sequence[Sample],
        asked: Models | None = None,
        step: OnAnswer | None = None,
    ) -> EvidenceTable:
        """The evidence of some sources; without models, as far as the store holds it."""
        table = evidence.EvidenceTable.of(samples)
        for source in parts:
            found = models.run(source.measure(samples), asked or self.kept, step or (lambda purpose: None))
            table = evidence.joined(table, found, source.name)
        return table

    # --- verbs --------------------------------------------------------------------------------------------------

    def judge(
        self,
        sources: Sequence[str] = (),
        selected: Selected | None = None,
        on_step: Callable[[], None] = lambda: None,
        on_stop: Callable[[JudgeRun], None] = lambda run: None,
    ) -> JudgeRun:
        """Ask the sources that need a model; see `accord.project.ask_models.judge`."""
        return steps.ask_models.judge(self, sources, selected or steps.Selected(), on_step, on_stop=on_stop)

    def plan_judge(self, sources: Sequence[str] = (), selected: Selected | None = None) -> Plan:
        """What `judge` would cost; nobody is asked."""
        return steps.ask_models.plan_judge(self, sources, selected or steps.Selected())

    def fit(
        self,
        name: str | None = None,
        out: str | Path | None = None,
        step: OnAnswer = lambda purpose: None,
        on_stage: Callable[[str], None] = lambda stage: None,
        every_question: bool = False,
    ) -> Fitted:
        """Learn an evaluator, say how far it can be trusted, and save it; see `accord.project.fitting.fit`.

        With `every_question` the folder also predicts each other question of the rubric from the same evidence.
        """
        return steps.fitting.fit(self, name, out, step, on_stage, every_question)

    def plan_fit(self, name: str | None = None) -> Plan:
        """What `fit` would ask and cost; nobody is asked."""
        return steps.fitting.plan_fit(self, name)

    def compare(
        self,
        only: Collection[str] = (),
        by: Sequence[str] = (),
        jobs: WorkerPool | int | None = None,
        on_step: Callable[[str], None] = lambda name: None,
    ) -> Compared:
        """Every evaluator that can be made from what is there, on the same folds; see `accord.project.comparing`.

        `jobs` are learned at the same time, each in a process of its own: by default one a core, at most four.
        """
        begun = nullcontext(jobs) if isinstance(jobs, learning.WorkerPool) else learning.WorkerPool(jobs)
        with begun as pool, self.store.run("compare", self.config.shown()) as kept:
            found, evidence, train = steps.comparing.compare(self, only, pool, on_step)
            groups = steps.comparing.by_groups(found, evidence, train, by)
            done = steps.Compared(found, evidence, train, groups)
            kept.results.update(done.to_json())
        return done

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
        made = self.load(evaluator) if evaluator is None or isinstance(evaluator, str | Path) else evaluator
        return scoring.score_file(
            self, made, source, out, perspective or scoring.Perspective(), options or scoring.ScoreOptions(), **reading
        )

    def score_parts(
        self,
        source: str | Path | Sequence[str | Path],
        out: str | Path,
        evaluator: str | Path | None = None,
        perspective: Perspective | None = None,
        options: ScoreOptions | None = None,
        spread: Spread | None = None,
        format: str = "auto",
        columns: Mapping[str, str] | None = None,
        on_moved: Callable[[Moved], None] = lambda moved: None,
        roles: Mapping[str, str] | None = None,
    ) -> PartsRun:
        """Score files of any number and size into a folder of parts; see `accord.scoring.folder.score_parts`."""
        about = self.config.budget
        caps = models.Caps(about.requests, about.tokens, about.money)
        asking = scoring.Asking(True, self.config.store, caps, about.shared, self.config.folder)
        told = replace(options or scoring.ScoreOptions(), synthetic=self.config.synthetic)
        scorer = scoring.BatchScorer(
            evaluator or self.folder(), perspective or scoring.Perspective(), told, asking, format, columns, roles
        )
        with self.store.run("score parts", {"source": str(source), **self.config.shown()}) as kept:
            done = scoring.score_parts(scorer, source, out, spread or scoring.Spread(), on_moved)
            kept.results.update(done.to_json())
            scoring.take_parts(self, str(out), scorer.evaluator.question.id)
            self.mart.tidy()
        return done

    def label_next(self, count: int = 10, annotators: Collection[str] = ()) -> list[NextLabel]:
        """The labels that would teach most, the best first."""
        return steps.label_suggestions.label_next(self, count, annotators)

    def estimate(self) -> Estimates:
        """Each system's mean rating from few labels and many scores, and every difference."""
        with self.store.run("estimate", self.config.shown()) as kept:
            found = steps.label_suggestions.estimate(self)
            kept.results.update(found.to_json())
        return found

    def synth(self, out: str | Path | None = None, step: OnAnswer = lambda purpose: None, **changes: Any) -> SynthRun:
        """Make conversations that nobody held; see `accord.project.synthesising.synth`.

        Args:
            out: A file of conversations, written at the end: .jsonl.
            step: Told of each reply.
            **changes: In place of settings under `synth:`: `topics`, `how`, `documents`, ...
        """
        return steps.synthesising.synth(self, steps.synthesising.settings_of(self, changes), out, step)

    def plan_synth(self, **changes: Any) -> Plan:
        """What `synth` would cost at the most; nobody is asked."""
        return steps.synthesising.plan_synth(self, steps.synthesising.settings_of(self, changes))

    def check_synth(self, how: str | None = None) -> Unlike:
        """How unlike real conversations the synthetic ones are; see `accord.project.synthesising.check_synth`."""
        return steps.synthesising.check_synth(self, how)

    def tried(self, name: str | None = None, every_question: bool = False) -> Fitted:
        """An evaluator learned from what is kept, as `fit` does, asking nobody and saving nothing.

        Raises:
            BadInput: There is too little to learn from.
        """
        return steps.fitting.tried(self, self.evaluator(name), every_question)

    def insights(self, fitted: Fitted) -> Insights:
        """What to know before an evaluator is trusted; what was computed before is not computed again.

        Raises:
            BadInput: Nobody rated what it learned, so that nothing was tried.
        """
        if fitted.tried is None:
            raise BadInput(f"nobody rated {self.question.id!r}: how far scores can be trusted cannot be said")
        return steps.diagnostics.insights(self.store, self.rubric, fitted.tried, fitted.evaluator)
