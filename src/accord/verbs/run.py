"""The command `accord run`: infer the rubric, import, judge, compare, fit, score and report in one folder."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, NamedTuple

from accord.edges import BadInput, count_of, dump_yaml, load_yaml, read_json_file, strip_url_secrets
from accord.formats import parse_orders
from accord.models import JUDGE, ModelSettings
from accord.project import (
    EVALUATORS,
    FEWEST_TO_TEST,
    Compared,
    Config,
    FileSurvey,
    Imported,
    ImportOptions,
    JudgeSelection,
    RecordedAgreement,
    Workspace,
    compare,
    config_from,
    fit,
    import_files,
    infer_rubric,
    judge,
    load_config,
    plan_judge,
    positions_note,
    raters_of,
    recorded_agreement,
    set_orders,
    set_scales,
    survey_files,
    survey_options,
    synthetic_note,
)
from accord.report import DISPUTED, RunOptions, RunResult, check_of_judge, write_report
from accord.scoring import ScoreOptions, score
from accord.statistics import SingleGroup
from accord.table_check import write_rows
from accord.values import PROJECT_FILE, Rubric, content_hash, dump_rubric, find_project_file, load_rubric

SHIPPED = "llm-rubric"


def run_project(
    config: Config,
    sources: Sequence[Any],
    out: Path,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
    options: RunOptions = RunOptions(),
    on_note: Callable[[str], None] = lambda _: None,
) -> RunResult:
    """Import, judge, compare, fit, score and report into a folder that is a complete project.

    A later run continues in the folder and keeps its project file and rubric if they were edited.

    Args:
        config: Settings of the project; the store is in the folder.
        sources: Files or folders of conversations, labels and recorded judgments.
        out: Output folder: new, empty, or of an earlier run.
        format: Format of the conversations, or `auto`.
        columns: Accord's column names mapped to the files' column names.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_stage: Called with the name of each stage before it begins.
        options: Options that replace inferred settings.
        on_note: Called with a sentence about each inferred setting.

    Raises:
        BadInput: A file cannot be read, the files have too few ratings or none, or the folder holds other files.
    """
    folder, notes = RunFolder(out), list[str]()

    def note(text: str) -> None:
        notes.append(text)
        on_note(text)

    on_stage("surveying the files")
    survey = survey_files(
        sources, format, columns, options.labels, raters=options.raters, judges=options.judges,
        command=shlex.join(["accord", "run", *map(str, sources), "--out", str(out)]),
    )  # fmt: skip
    set_scales(survey, options.scales)
    set_orders(survey.questions, parse_orders(options.orders), None)
    for reason in survey.skipped_files:
        note(f"skipped: {reason}")
    if not survey.files:
        raise BadInput(f"{', '.join(map(str, sources))}: only recorded judgments; name the conversations too")
    if not survey.conversations:
        named = ", ".join(map(str, survey.files))
        command = shlex.join(["accord", "run", "chats.jsonl", *map(str, survey.files)])
        raise BadInput(f"{named}: only labels; name their conversations too: {command}")
    config, options = _with_edited_rubric(folder, config, options, note)
    rubric = _rubric(config, survey, options, note)
    out.mkdir(parents=True, exist_ok=True)
    if survey.recordings and JUDGE not in config.models:
        paths = [str(_lasting(path.resolve(), out)) for path in survey.recordings]
        judge = ModelSettings(mode="recorded", model=options.recorded_model, paths=paths)
        config = config.model_copy(update={"models": {**config.models, JUDGE: judge}})
    files = {"project": folder.path(PROJECT_FILE), "rubric": folder.path(RUBRIC)}
    folder.write(RUBRIC, dump_rubric(rubric))
    with Workspace(config, rubric) as project:
        on_stage("reading")
        options_of_import = _import_options(survey, rubric, options, note)
        imported = import_files(
            project.store,
            project.rubric,
            survey.files,
            format=format,
            columns=columns,
            skip_bad_rows=skip_bad_rows,
            options=options_of_import,
            survey=survey,
        )
        config = project.config = _with_judgements(config, imported, out, options, note)
        imported.judged.judges |= Counter({name: len(each.answers) for name, each in project.recordings.items()})
        note(f"rated by: {raters_of(project)}")
        for sentence in _import_notes(project, survey):
            note(sentence)
        _judge(project, on_stage, note)
        agreement = _recorded_agreement(project, on_stage, note)
        compared, name = _compare(project, options.evaluator, on_stage, note)
        saved = out / EVALUATORS / name
        fitted = fit(project, name, out=saved, on_stage=lambda step: on_stage(f"learning {step}"))
        if compared is not None:
            fitted = fitted.with_decision(compared.decision)
        used = config.model_copy(update={"models": dict(project.model_settings)})
        if not folder.write(PROJECT_FILE, project_text(used, name, out, options.template)):
            note(f"{folder.path(PROJECT_FILE)} was edited and is kept unchanged")
        files |= {"evaluator": saved, "scores": out / "scores.jsonl"}
        on_stage("scoring")
        conversations, scoring = project.store.conversations(), ScoreOptions(turns=options.turns)
        scored = score(project, fitted.evaluator, conversations, files["scores"], options=scoring, command="run")
        if fitted.held_out is not None:
            on_stage("reporting")
            files["report"] = out / "report.html"
            write_report(project, files["report"], fitted, options.about, out.absolute().name)
    tried = fitted.held_out
    checked = check_of_judge(tried) if options.shows_judge and tried is not None else None
    if checked is not None:
        files["disputed"] = write_rows(checked, out / DISPUTED)
    return RunResult(imported, compared, fitted, scored, agreement, files, notes, options.about, checked)


def _lasting(path: Path, out: Path) -> Path:
    """Return the path of a recording; one that ships with Accord is copied, because its environment may not last."""
    if not path.is_relative_to(Path(str(package_files("accord"))).resolve()):
        return path
    copy = out.resolve() / JUDGEMENTS / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(path.read_bytes())
    return copy


def _with_judgements(
    config: Config, imported: Imported, out: Path, options: RunOptions, note: Callable[[str], None]
) -> Config:
    """Return the settings with a model's answers in the files as the recorded judge or a part of that judge."""
    paths = [str(path.resolve()) for path in imported.judged.write(out)]
    judge = config.models.get(JUDGE)
    if not paths:
        return config
    if judge is not None and judge.mode != "recorded":
        note(f"answers of {', '.join(imported.judged.judges)} are not used: the settings name another judge")
        return config
    known = [] if judge is None else [path for path in judge.paths if path not in paths]
    model = options.recorded_model if judge is None else judge.model
    changed = ModelSettings(mode="recorded", model=model, paths=[*known, *paths])
    return config.model_copy(update={"models": {**config.models, JUDGE: changed}})


def _with_edited_rubric(
    folder: RunFolder, config: Config, options: RunOptions, note: Callable[[str], None]
) -> tuple[Config, RunOptions]:
    """Return the settings and options; an edited rubric in the folder replaces the rubric of the settings.

    Raises:
        BadInput: The options name another main question.
    """
    path = folder.path(RUBRIC)
    if not folder.is_edited(RUBRIC):
        return config, options
    if options.main is not None:
        raise BadInput(f"{path} was edited and sets the main question; change it there and omit --main")
    note(f"{path} was edited and is used unchanged")
    return config.model_copy(update={"rubric": str(path)}), replace(options, infers=False)


def _judge(project: Workspace, on_stage: Callable[[str], None], note: Callable[[str], None]) -> None:
    """Plan and ask the configured models that the default evaluator uses, unless all are recorded."""
    models = project.config.models
    asked = [role for role in project.evaluator(project.config.evaluator).roles if role in models]
    if any(models[role].mode != "recorded" for role in asked):
        selection = JudgeSelection(everything=True)
        plan = plan_judge(project, selection=selection)
        note(
            f"plan of the judge: {count_of(plan.questions, 'question')} in {count_of(plan.requests, 'request')}; "
            f"{plan.answered:,} are answered already"
        )
        on_stage("judging")
        judge(project, selection=selection)


def _recorded_agreement(
    project: Workspace, on_stage: Callable[[str], None], note: Callable[[str], None]
) -> list[RecordedAgreement]:
    """Return the agreement of each recorded model with people; empty without recordings."""
    if not project.recordings:
        return []
    judge = project.model_settings[JUDGE].model
    others = [name for name in project.recordings if name != judge]
    also = f"; evidence of other recorded models: {', '.join(others)} (--recorded-model names another judge)"
    note(f"the judge is the recorded {judge!r}{also if others else ''}")
    on_stage("comparing recorded judges with people")
    labels = project.store.labels()
    samples = project.samples(labels.on(project.rubric.main).targets)
    return recorded_agreement(project.recordings, project.rubric, labels, samples)


def _compare(
    project: Workspace, named: str | None, on_stage: Callable[[str], None], note: Callable[[str], None]
) -> tuple[Compared | None, str]:
    """Compare all evaluators and return the recommended one.

    Nothing is compared if one is named, if there are too few ratings, or if their conversations form a single group.
    """
    rated, default = project.rated(project.rubric.main), project.config.evaluator
    if named is not None or len(rated) < FEWEST_TO_TEST:
        return None, named or default
    try:
        compared = compare(project, on_step=lambda step: on_stage(f"comparing: {step}"))
    except SingleGroup:
        return None, default
    note(str(compared.decision))
    return compared, compared.best


def _rubric(config: Config, survey: FileSurvey, options: RunOptions, note: Callable[[str], None]) -> Rubric:
    """Return the project's rubric, a built-in one whose questions the labels answer, or an inferred one."""
    if not options.infers:
        return load_rubric(config.rubric)
    shipped = load_rubric(SHIPPED)
    if options.main is None and shipped.main in survey.questions:
        answered = [(shipped.get(name), each) for name, each in survey.questions.items()]
        if all(question.scale.holds(value) for question, each in answered if question for value in each.values):
            return shipped
    if not survey.questions:
        named = ", ".join(map(str, survey.files))
        could = (
            f". Columns with values on a scale: {', '.join(survey.other_candidates)}" if survey.other_candidates else ""
        )
        raise BadInput(
            f"no ratings in {named}: no rating column recognized{could}. Name the column: --labels NAME; or add "
            "a file of ratings (columns conversation, annotator, question, value); or rate them in a browser: accord "
            f"init && accord import {shlex.quote(str(survey.files[0]))} && accord serve"
        )
    rubric, notes = infer_rubric(survey.questions.values(), options.main)
    for sentence in notes:
        note(sentence)
    if survey.rating_columns:
        note(f"rating columns: {', '.join(survey.rating_columns)} (--labels NAME for others)")
    for sentence in survey.rater_notes:
        note(sentence)
    return rubric


def _import_notes(project: Workspace, survey: FileSurvey) -> Iterator[str]:
    """Sentences on synthetic conversations that are left out, and on labels without the main question."""
    if aside := synthetic_note(project):
        yield aside
    rubric = project.rubric
    if survey.questions and not project.store.labels().on(rubric.main):
        yield (
            f"no label answers {rubric.main!r}, the main question of the rubric {rubric.name!r}; the labels answer "
            f"{', '.join(survey.questions)}. To learn from them, run in a folder without accord.yaml, which infers a "
            "rubric, or name a rubric that asks one of these: --rubric FILE"
        )


def _import_options(
    survey: FileSurvey, rubric: Rubric, options: RunOptions, note: Callable[[str], None]
) -> ImportOptions:
    """Return the import options; the main question is learned at the level of most of its ratings."""
    if survey.positions and not options.is_anonymous:
        note(positions_note(survey.positions))
    main = survey.questions.get(rubric.main)
    levels: dict[str, str] = {}
    if main is not None and 0 < main.turn_answers < main.total:
        levels[rubric.main] = main.level
        others = main.total - main.turn_answers if main.level == "turn" else main.turn_answers
        note(f"{rubric.main!r} has ratings of turns and of conversations; {others} of the rarer level are left out")
    turns = [name for name in survey.rating_columns if name in survey.turn_questions]
    reading = ImportOptions(is_anonymous=options.is_anonymous, roles=options.roles, levels=levels)
    return replace(survey_options(survey, rubric, reading), rating_columns=survey.rating_columns, turn_questions=turns)


# --- output folder ---------------------------------------------------------------------------------------------------


RUBRIC, STORE, JUDGEMENTS = "rubric.yaml", "accord.db", "judgments"
_MARK = "run.json"
_HEAD = """\
# Project file written by `accord run`. You may edit it: a later run into this folder then keeps it and uses it.
# Commands in this folder use it: accord score new.jsonl --out scores.jsonl, accord compare, accord report, accord serve
"""


class RunFolder:
    """Output folder of a run, with a digest of each file that may be edited.

    Args:
        folder: The folder; it need not exist.

    Raises:
        BadInput: The folder holds files, and `accord run` did not write them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._digests: dict[str, list[str]] = {}
        if (folder / _MARK).is_file():
            self._digests = _marked(folder / _MARK)
        elif folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise BadInput(
                f"{folder} exists and is not the output of an earlier run; name a new folder with --out, or remove it"
            )

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def is_edited(self, name: str) -> bool:
        """Return True if a file exists and differs from the text that a run wrote."""
        path = self.path(name)
        return path.is_file() and content_hash(
            path.read_text(encoding="utf-8", errors="replace")
        ) not in self._digests.get(name, ())

    def write(self, name: str, text: str) -> bool:
        """Write a file unless it was edited. Return True if it was written."""
        if self.is_edited(name):
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        # Keep the earlier digest: a run that is killed between the two writes leaves the earlier text.
        self._digests[name] = [*self._digests.get(name, ())[-1:], content_hash(text)]
        self.path(_MARK).write_text(json.dumps({"files": self._digests}, indent=1) + "\n", encoding="utf-8")
        self.path(name).write_text(text, encoding="utf-8")
        return True


class RunSettings(NamedTuple):
    """Settings of a run.

    Attributes:
        config: The settings.
        template: Content of their file.
        infers: True if the rubric may be inferred from labels.
        found: Project file of the working folder, if the settings come from it.
    """

    config: Config
    template: Mapping[str, Any]
    infers: bool
    found: Path | None = None


def run_settings(out: Path, config_file: Path | None = None, is_named: bool = False) -> RunSettings:
    """Settings of `accord run`: of a project file that is named or in the working folder, or the defaults.

    If the output folder belongs to an earlier run and its project file was edited since, that file is used.

    Args:
        out: The output folder, which holds the store.
        config_file: Project file that was named.
        is_named: True if the call names settings or a rubric.

    Raises:
        BadInput: A file cannot be read, the folder holds unrelated files, or the call names settings and the
            project file in the output folder was edited.
    """
    folder, store = RunFolder(out), f"sqlite:///{out / STORE}"
    own = folder.path(PROJECT_FILE)
    if folder.is_edited(PROJECT_FILE):
        if is_named or config_file is not None:
            raise BadInput(f"{own} was edited, so a run into {out} uses it; change the settings there, or name "
                           "another folder with --out")  # fmt: skip
        return RunSettings(load_config(own), load_yaml(own), infers=False)
    found = find_project_file() if config_file is None else None
    if found is not None and own.is_file() and own.samefile(found):
        found = None
    config_file = config_file or found
    if config_file is None:
        return RunSettings(config_from({"store": store}), {}, infers=True)
    config = load_config(config_file).model_copy(update={"store": store})
    return RunSettings(config, load_yaml(config_file), infers=False, found=found)


def _marked(path: Path) -> dict[str, list[str]]:
    try:
        return {str(name): list(map(str, digests)) for name, digests in read_json_file(path)["files"].items()}
    except (BadInput, LookupError, TypeError, AttributeError):
        raise BadInput(f"{path} is damaged; name another folder with --out, or remove {path.parent}") from None


def project_text(config: Config, evaluator: str, folder: Path, template: Mapping[str, Any]) -> str:
    """Project file of a run's output folder, as YAML.

    Args:
        config: Settings of the run.
        evaluator: Name of the recommended evaluator.
        folder: The output folder; paths inside it are written relative to it.
        template: Content of the project file that the settings come from, with its `${VARIABLES}` in place.
    """
    content = config.model_dump(mode="json", exclude_unset=True)
    content |= {
        "store": f"sqlite:///{STORE}", "rubric": RUBRIC, "metrics": config.metrics, "evaluator": evaluator,
    }  # fmt: skip
    for settings in content.get("models", {}).values():
        if "paths" in settings:
            settings["paths"] = [_relative(config.folder / path, folder) for path in settings["paths"]]
    kept = {key: value for key, value in template.items() if key not in ("store", "rubric")}
    return _HEAD + dump_yaml(_unfilled(content, kept), width=120)


def _relative(path: Path, folder: Path) -> str:
    """Return a path inside the folder as a relative path, and any other path as an absolute path."""
    found, inside = path.resolve(), folder.resolve()
    return found.relative_to(inside).as_posix() if found.is_relative_to(inside) else str(found)


def _unfilled(value: Any, template: Any) -> Any:
    """Return the value with the template's `${VARIABLES}` restored, so that no secret is written."""
    if isinstance(value, dict):
        known = template if isinstance(template, Mapping) else {}
        return {key: _unfilled(each, known.get(key)) for key, each in value.items()}
    if isinstance(value, list):
        same = isinstance(template, list) and len(template) == len(value)
        return [_unfilled(each, template[place] if same else None) for place, each in enumerate(value)]
    if isinstance(template, str) and "${" in template:
        return template
    is_url = isinstance(value, str) and "://" in value
    return strip_url_secrets(value) if is_url and value != template and "@" in value else value
