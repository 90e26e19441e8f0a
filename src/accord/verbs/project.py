"""Project: the store, rubric, models and evaluators of an `accord.yaml`, with one method per command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from accord import decisions, project, report, scoring, verbs
from accord.edges import BadInput, GateFailed
from accord.formats import tables_of
from accord.values import dump_rubric
from accord.verbs.python_calls import tells_python_calls

if TYPE_CHECKING:  # opening a project imports no code for learning, models or statistics
    from accord.decisions import AgreementCard
    from accord.learning import Evaluator
    from accord.models import OnAnswer, Plan
    from accord.project import (
        Compared,
        Estimates,
        Fitted,
        GapSearch,
        Imported,
        Insights,
        JudgeRun,
        JudgeSelection,
        NextLabel,
        SynthRun,
    )
    from accord.report import RunResult
    from accord.runtime import WorkerPool
    from accord.scoring import Execution, PartsRun, Perspective, ScoreOptions, ScoreRun
    from accord.statistics import TwoSampleResult
    from accord.verbs.gate import Check


def open_project(path: str | Path | None = None) -> Project:
    """Open the project of an `accord.yaml`; by default the one in the working folder or above it.

    Args:
        path: The file.

    Raises:
        BadInput: There is no such file, it is invalid, or the store cannot be opened.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import accord
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "accord.yaml").write_text("store: 'sqlite:///:memory:'", encoding="utf-8")
    ...     with accord.open(Path(folder, "accord.yaml")) as project:
    ...         project.question.id
    'Q0'
    """
    return Project(project.load_project(path))


open = open_project
"""Alias for `accord.open`. This module opens no other file."""


@tells_python_calls
class Project(project.Workspace):
    """An opened project; a context manager that closes its store and connections.

    Args:
        config: Settings of the project.
        rubric: Rubric to use instead of the one in the settings.
        given: Model objects by role, instead of those in the settings (`accord.models.Models`).
        question: Question of the rubric to learn; default: the main one.
        reads_only: True to open the store for reading; the database then rejects all writes.

    Raises:
        BadInput: The store or the rubric cannot be read.
        UnknownName: The question is unknown.

    >>> from accord.project import Config
    >>> from accord.sample import sources
    >>> with Project(Config(store="sqlite:///:memory:", metrics=["words"])) as project:
    ...     imported = project.import_(sources())
    ...     imported.conversations.new, imported.labels.new, project.question.id
    (150, 4563, 'Q0')
    """

    def import_(self, paths: Any, main: str | None = None, **reading: Any) -> Imported:
        """Read conversations and labels into the store.

        Args:
            paths: A file, a data frame, an Arrow table, a data set, a list of dicts, or a list of such sources.
            main: Main question of a rubric that the labels make; a rubric that was given stays as it is.
            **reading: Options of `accord.project.import_files`, such as `format`, `columns` and `workers`.

        Raises:
            BadInput: A source cannot be read.
        """
        sources = tables_of(paths)
        if not self.keeps_rubric:
            reading = {**reading, "survey": project.adopt_rubric(self, sources, main, reading)}
        return project.import_files(self.store, self.rubric, sources, **reading)

    def raters_text(self) -> str:
        """Return the people and judges who answered the question, each with the number of answers.

        If the question has no answers, returns the people and judges who answered any question.
        """
        return project.raters_of(self)

    def judge(
        self,
        sources: Sequence[str] = (),
        selection: JudgeSelection | None = None,
        on_step: Callable[[], None] = lambda: None,
        on_stop: Callable[[JudgeRun], None] = lambda run: None,
    ) -> JudgeRun:
        """Ask the sources that need a model; each answer is stored when it arrives and is never requested again.

        Args:
            sources: Names of sources; by default all that ask a model.
            selection: Samples to judge; by default the rated ones.
            on_step: Called after each answer.
            on_stop: Called with the counts so far before BudgetReached or ModelError is raised.

        Raises:
            BadInput: No source asks a model.
            BudgetReached: The budget is spent; answers so far are stored.
            ModelError: No request can succeed.
        """
        return project.judge(self, sources, selection or project.JudgeSelection(), on_step, on_stop=on_stop)

    def plan_judge(self, sources: Sequence[str] = (), selection: JudgeSelection | None = None) -> Plan:
        """Plan the requests and the cost of `judge` without a request."""
        return project.plan_judge(self, sources, selection or project.JudgeSelection())

    def fit(
        self,
        name: str | None = None,
        out: str | Path | None = None,
        step: OnAnswer = lambda purpose: None,
        on_stage: Callable[[str], None] = lambda stage: None,
        every_question: bool = False,
    ) -> Fitted:
        """Fit an evaluator, measure its accuracy on held-out ratings, and save it.

        Args:
            name: Name of the evaluator; by default the name in the settings.
            out: Folder to save to; by default `evaluators/NAME` in the project's folder.
            step: Called with the purpose of each request that is answered.
            on_stage: Called with the name of each stage.
            every_question: True to also predict all other questions of the rubric from the same evidence.

        Raises:
            BadInput: There are too few ratings, or the folder holds the evaluator of another question.
            BudgetReached: The budget is spent; the same call continues from there.
            ModelError: No request can succeed.
        """
        return project.fit(self, name, out, step, on_stage, every_question)

    def plan_fit(self, name: str | None = None) -> Plan:
        """Plan the requests and the cost of `fit` without a request."""
        return project.plan_fit(self, name)

    def compare(
        self,
        only: Collection[str] = (),
        by: Sequence[str] = (),
        jobs: WorkerPool | int | None = None,
        on_step: Callable[[str], None] = lambda name: None,
    ) -> Compared:
        """Compare all evaluators that the data allow, on the same folds.

        Args:
            only: Names of evaluators; by default all.
            by: Metadata entries, such as `system`, to report the accuracy by.
            jobs: Number of processes that fit in parallel: by default one per core, at most four.
            on_step: Called with the name of the next step.

        Raises:
            BadInput: The main question has no ratings, or no evaluator can be made.
            UnknownName: There is no such evaluator.
        """
        return project.compare(self, only, by, jobs, on_step)

    def score(
        self,
        source: Any,
        out: str | Path | None = None,
        evaluator: str | Path | Evaluator | None = None,
        perspective: Perspective | None = None,
        options: ScoreOptions | None = None,
        **reading: Any,
    ) -> ScoreRun:
        """Score the conversations of a file or a table in memory, and record the run in the store.

        Args:
            source: A file, or a table as for `import_`.
            out: File of scores (.jsonl, .csv, .parquet); without it the result holds them: iterate over it, or call
                `to_polars` or `to_pandas`.
            evaluator: A fitted evaluator or its folder; by default the one in use.
            perspective: Annotator whose answers are predicted; by default a new annotator.
            options: Options of scoring.
            **reading: `format`, `columns`, `roles` and `skip_bad_rows` of `accord.scoring.score_file`.

        Raises:
            BadInput: The source cannot be read, the file cannot be written, or the project has no evaluator.
            UnknownName: The evaluator has not learned an annotator of this name.
        """
        loaded = self.load(evaluator) if evaluator is None or isinstance(evaluator, str | Path) else evaluator
        project.check_question(self.store, self.rubric, loaded)
        speaker, options = perspective or scoring.Perspective(), options or scoring.ScoreOptions()
        done = scoring.score_file(self, loaded, source, out, speaker, options, **reading)
        change = None if speaker.annotator is not None else project.change_of_scores(self, used=loaded)
        return replace(done, change=None if change is None or done.run not in change.keys else change.to_json())

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
        on_part: Callable[[str, str], None] = lambda out, key: None,
    ) -> PartsRun:
        """Score files of any number and size into a folder of parts; existing parts are kept.

        Args:
            source: Files, folders, globs or objects of a store.
            out: Folder of the parts, or a place in object storage.
            evaluator: Folder of a fitted evaluator; by default the one in use.
            perspective: Annotator whose answers are predicted; by default a new annotator.
            options: Options of scoring.
            execution: Engine, number of workers, and share of the run.
            format: Format of the conversations; `auto` detects it.
            columns: Column names of the files, by Accord's column name.
            on_progress: Called with the number of rows scored so far, and the estimated number of all rows.
            roles: Roles in the files to `user`, `assistant`, `system` or `tool`.
            on_part: Called with the folder and the key of each part that this run has written.

        Raises:
            BadInput: An input cannot be read, or the folder holds something else.
            BudgetReached: The budget is spent; finished parts stay.
            MissingExtra: A package is not installed.
            UnknownName: No engine has this name.
        """
        config = self.config
        asking = scoring.ModelAccess(True, config.store, config.budget, config.folder)
        asking = replace(asking, redactor=config.privacy.redactor("send"))
        options = replace(options or scoring.ScoreOptions(), synthetic=config.synthetic)
        evaluator, perspective = evaluator or self.folder(), perspective or scoring.Perspective()
        self.warn_of_erased(evaluator)
        scorer = scoring.BatchScorer(evaluator, perspective, options, asking, format, columns, roles)
        project.check_question(self.store, self.rubric, scorer.evaluator)
        named = [str(each) for each in ([source] if isinstance(source, str | Path) else source)]
        settings = scoring.asked_in(scorer.evaluator.question, {"source": named, **config.shown()})
        with self.store.run("score parts", settings) as record:
            result = scoring.score_parts(scorer, source, out, execution or scoring.Execution(), on_progress, on_part)
            record.results.update(result.to_json())
            self.add_scores(out, record.id)
        return result

    def add_scores(self, folder: str | Path, run: str | None = None) -> int:
        """Add a folder of scores in parts to the board, each part once, and return the number of new rows.

        Args:
            folder: Folder that `score_parts` wrote, or its place in object storage.
            run: Id of the run that scored it, or `None` for a folder of another machine.

        Raises:
            BadInput: The folder holds no scores in parts, or a part is damaged.
        """
        count = scoring.add_parts(self.store, self.mart, str(folder), self.rubric.main, run)
        self.mart.tidy()
        return count

    def gaps(self) -> GapSearch:
        """Find properties of conversations where people and the judge, or people among themselves, differ.

        The search is recorded; after a change of the wording, the next search reports the change of each earlier gap.

        Raises:
            BadInput: The main question has no ratings, or compares two conversations.
        """
        with self.store.run(project.GAPS, scoring.asked_in(self.question, self.config.shown())) as record:
            found = project.find_gaps(self)
            record.results.update({**found.to_json(), "rubric": self.rubric.hash, "method": project.GAP_METHOD})
        return found

    def label_next(
        self,
        count: int = 10,
        annotators: Collection[str] = (),
        purpose: Literal["evaluator", "agreement", "change"] = "evaluator",
    ) -> list[NextLabel]:
        """Suggest labels: those that would teach the evaluator most, the best first, or those that measure agreement.

        Args:
            count: Number of suggestions.
            annotators: Annotators who will label; by default any annotator.
            purpose: `agreement` for a random sample of unlabeled texts, stratified by score; `change` for such samples
                of the latest batch of scores, which fell or rose, and of the batches before it.
        """
        return project.label_next(self, count, annotators, purpose)

    def estimate(self, scores: Sequence[str | Path] = (), difference: float = 0.2) -> Estimates:
        """Estimate each assistant version's mean rating and all differences; see `mean_ratings.estimate`."""
        with self.store.run("estimate", self.config.shown()) as record:
            estimates = project.estimate(self, list(map(str, scores)), difference)
            record.results.update(estimates.to_json())
        return estimates

    def synth(self, out: str | Path | None = None, step: OnAnswer = lambda purpose: None, **changes: Any) -> SynthRun:
        """Generate synthetic conversations; see `accord.project.synthesis.synth`.

        Args:
            out: File of conversations (.jsonl), written at the end.
            step: Called after each reply.
            **changes: Settings that replace those under `synth:`: `topics`, `methods`, `documents`, ...
        """
        return project.synth(self, project.synth_settings(self, changes), out, step)

    def plan_synth(self, **changes: Any) -> Plan:
        """Plan the maximum cost of `synth` without a request."""
        return project.plan_synth(self, project.synth_settings(self, changes))

    def check_synth(self, method: str | None = None) -> TwoSampleResult:
        """Compare synthetic with real conversations; see `accord.project.synthesis.check_synth`."""
        return project.check_synth(self, method)

    def fit_offline(self, name: str | None = None, every_question: bool = False, until: str | None = None) -> Fitted:
        """Fit an evaluator from stored answers, without a request and without saving it; errors as in `fit`.

        `until` is a time in ISO format (UTC); labels given after it are left out.
        """
        return project.fit_offline(self, name, every_question, until)

    def insights(self, fitted: Fitted, curve_draws: int | None = None) -> Insights:
        """Compute diagnostics of an evaluator; results of the same inputs are cached.

        `curve_draws` is the number of random subsets of the learning curve, by default the number in the settings.

        Raises:
            BadInput: The question has no ratings.
        """
        return project.insights(self, fitted, curve_draws)

    def use(self, name: str) -> Path:
        """Choose a fitted evaluator as the one in use, and return its folder; other verbs then use it by default.

        Raises:
            UnknownName: The folder `evaluators` holds no such evaluator of the project's question.
        """
        return project.use_evaluator(self.store, self.question.id, self.evaluators_folder, name)

    def report(self, path: str | Path = "report.html", fitted: Fitted | None = None, **about: Any) -> Path:
        """Write the report of an evaluator, and return its path; see `accord.report.write_report`.

        Args:
            path: HTML file to write.
            fitted: Result of `fit`; by default the evaluator in use is fitted again.
            **about: `about`, `name` and `curve_draws`.

        Raises:
            BadInput: The store holds no ratings, or too few.
        """
        return report.write_report(self, path, fitted, **about)

    def card(self, path: str | Path = "agreement-card.json", name: str | None = None, **options: Any) -> AgreementCard:
        """Write the agreement card of a fitted evaluator as JSON, Markdown and a badge, and return it.

        Args:
            path: JSON file to write.
            name: Folder of the evaluator inside `evaluators`; by default the one in use.
            **options: `held_out`, `made_by` and `by` of `accord.project.CardOptions`.

        Raises:
            BadInput: There is no such evaluator, its ratings were changed since it was fitted, or they look like those
                of models and nothing declares it.

        >>> import tempfile
        >>> from accord.testing import sample_project
        >>> with tempfile.TemporaryDirectory() as folder, sample_project() as project:
        ...     _ = project.fit("default")
        ...     card = project.card(f"{folder}/card.json")
        ...     [check.passed for check in project.gate(card=f"{folder}/card.json", allow_unproven=True)]
        [True, True, True, True, True, True, True]
        """
        made = project.card_of(self, name, project.CardOptions(**options))
        decisions.write_card(made, path)
        return made

    def gate(
        self,
        min_agreement: float | None = None,
        min_mean: float | None = None,
        max_unscored: float = 0.0,
        min_within: float | None = None,
        training: bool = False,
        card: str | Path | None = None,
        require_refit: bool = False,
        allow_unproven: bool = False,
        max_fall: float | None = None,
    ) -> list[Check]:
        """Check the verdict on the evaluator in use, and conditions on comparison, scores and an agreement card.

        Args:
            min_agreement: Minimum of the lower bound of the 95% interval of r with people, -1 to 1.
            min_mean: Minimum of the lower bound of the 95% interval of the mean score, within the scale.
            max_unscored: Maximum share of targets without a score, 0 to 1; checked with `min_mean`.
            min_within: As `min_agreement`, for r within annotators.
            training: True to count scores of conversations that the evaluator learned from.
            card: Agreement card that the project must match; `min_agreement` and `min_within` then apply to the card.
            require_refit: True to fail if the evaluator in use learned from conversations that were erased since.
            allow_unproven: True to pass although the verdict on the evaluator in use is "not yet".
            max_fall: Largest fall of people's mean rating, in points, that the latest batch of scores may show.

        Returns:
            The checks, the verdict first, all of which passed.

        Raises:
            GateFailed: A check failed; the message names each.
            BadInput: No condition is given, a limit is out of range, or no run exists to check.
        """
        checks = verbs.gate_checks(
            self, min_agreement, min_mean, max_unscored, min_within, training, card, require_refit, allow_unproven,
            max_fall,
        )  # fmt: skip
        if failed := [str(check) for check in checks if not check.passed]:
            raise GateFailed(f"{len(failed)} of {len(checks)} conditions not met: {'; '.join(failed)}")
        return checks

    def run(self, sources: Any, out: str | Path = "accord-run", **options: Any) -> RunResult:
        """Import, judge, compare, fit, score and report into a folder that is a project of its own, as `accord run`.

        The rubric is inferred from the labels unless the settings name one.

        Args:
            sources: A file, a data frame, a list of dicts, or a list of such sources: conversations and labels.
            out: Output folder: new, empty, or of an earlier run. It gets its own store.
            **options: `format`, `columns`, `skip_bad_rows` and `options` (`accord.report.RunOptions`).

        Raises:
            BadInput: A source cannot be read, the ratings are missing or too few, or the folder holds other files.
        """
        folder = Path(out)
        if self.given:
            raise BadInput(
                f"models given to Project ({', '.join(self.given)}) are not used by a run, which opens a project of "
                "its own. Set them under models, or call import_, judge, compare, fit, score and report"
            )
        names_rubric = "rubric" in self.config.model_fields_set or self.keeps_rubric
        options.setdefault("options", report.RunOptions(infers=not names_rubric))
        with TemporaryDirectory(prefix="accord-") as temporary:
            rubric = Path(temporary) / "rubric.yaml"
            rubric.write_text(dump_rubric(self.rubric), encoding="utf-8")
            named = {"rubric": str(rubric)} if names_rubric else {}
            settings = {"store": f"sqlite:///{folder / 'accord.db'}", **named}
            config = self.config.model_copy(update=settings)
            return verbs.run_project(config, tables_of(sources), folder, **options)
