"""All of it: a rubric from the labels, import, judge, compare, fit, score everything and report, in one folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accord.edges import BadInput
from accord.models import JUDGE, ModelSettings
from accord.project import (
    EVALUATORS,
    Compared,
    Config,
    FileSurvey,
    Fitted,
    Imported,
    ImportOptions,
    JudgeSelection,
    Project,
    RecordedAgreement,
    infer_rubric,
    recorded_agreement,
    set_scales,
    survey_files,
    survey_options,
    synthetic_note,
)
from accord.report.report import write_report
from accord.report.run_folder import RUBRIC, RunFolder, project_text
from accord.scoring import ScoreOptions, ScoreRun, Turns, score
from accord.values import PROJECT_FILE, Rubric, dump_rubric, load_rubric

SHIPPED = "llm-rubric"


@dataclass(frozen=True)
class Whole:
    """What a whole run leaves behind.

    Attributes:
        imported: What was read.
        compared: Every evaluator that could be made; `None` where one was named.
        fitted: The one that was learned.
        scored: Everything, scored by it.
        recorded: How each recorded judge agrees with people.
        files: Where it all is, by name.
        said: What was guessed on the way, a sentence each.
    """

    imported: Imported
    compared: Compared | None
    fitted: Fitted
    scored: ScoreRun
    recorded: Sequence[RecordedAgreement]
    files: Mapping[str, Path]
    said: Sequence[str] = ()


@dataclass(frozen=True)
class RunOptions:
    """What a user may say of a whole run, where it should not be guessed.

    Attributes:
        infers: A rubric is made from the labels, in place of the project's.
        main: The main question of such a rubric.
        labels: Columns beside the text that hold ratings.
        raters: Columns that each hold one person's ratings.
        scales: The lowest and the highest value of some questions.
        unnamed: Annotators are places in a list, not persons.
        roles: Roles as the files have them to ours.
        recorded_model: The recorded model to use as the judge.
        evaluator: The evaluator to learn, without a comparison of all.
        about: What the report says of the conversations and ratings.
        turns: The turns that an evaluator of turns scores (`ScoreOptions.turns`).
        template: Content of the project file that the settings come from, with its `${VARIABLES}` in place.
    """

    infers: bool = True
    main: str | None = None
    labels: Sequence[str] = ()
    raters: Sequence[str] = ()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unnamed: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    recorded_model: str | None = None
    evaluator: str | None = None
    about: str = ""
    turns: Turns = "rated"
    template: Mapping[str, Any] = field(default_factory=dict)


def whole_run(
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
    options: RunOptions = RunOptions(),
    on_note: Callable[[str], None] = lambda _: None,
) -> Whole:
    """Import, judge, compare, fit, score everything and report, in one folder that is a complete project.

    Running it again continues in that folder; its project file and rubric are kept if they were edited.

    Args:
        config: Settings of the project; the store is in the folder.
        sources: Files of conversations, labels and recorded judgements, or folders of them.
        out: The folder: new, empty, or that of an earlier run.
        format: The conversations' format, or `auto`.
        columns: Our column names to the files', where they differ.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_stage: Called with the name of each stage, before it begins.
        options: What should not be guessed.
        on_note: Called with a sentence on each guess, as it is made.

    Raises:
        BadInput: A file cannot be read, nobody rated anything, there is too little to learn from, or the folder holds
            files of something else.
    """
    folder, said = RunFolder(out), list[str]()

    def note(text: str) -> None:
        said.append(text)
        on_note(text)

    on_stage("looking at the files")
    found = survey_files(sources, format, columns, options.labels, raters=options.raters)
    set_scales(found, options.scales)
    for reason in found.skipped_files:
        note(f"passed over: {reason}")
    if not found.files:
        raise BadInput(f"{', '.join(map(str, sources))}: recorded judgements alone; name the conversations too")
    if not found.conversations:
        named = ", ".join(map(str, found.files))
        raise BadInput(
            f"{named}: labels alone; name the conversations that they are about too: accord run CHATS {named}"
        )
    config, options = _with_edited_rubric(folder, config, options, note)
    rubric = _rubric(config, found, options, note)
    if found.recordings and JUDGE not in config.models:
        judge = ModelSettings(
            mode="recorded", model=options.recorded_model, paths=[str(path.resolve()) for path in found.recordings]
        )
        config = config.model_copy(update={"models": {**config.models, JUDGE: judge}})
    out.mkdir(parents=True, exist_ok=True)
    files = {"project": folder.path(PROJECT_FILE), "rubric": folder.path(RUBRIC)}
    folder.write(RUBRIC, dump_rubric(rubric))
    with Project(config, rubric) as project:
        on_stage("reading")
        reading = _reading(found, rubric, options, note)
        imported = project.import_(found.files, format, columns, skip_bad_rows, options=reading)
        _check_enough(project, note)
        if any(config.models[role].mode != "recorded" for role in _asked_roles(project)):
            on_stage("asking models")
            project.judge(selection=JudgeSelection(everything=True))
        agreement = _recorded_agreement(project, on_stage, note)
        compared, name = None, options.evaluator
        if name is None:
            compared = project.compare(on_step=lambda step: on_stage(f"comparing: {step}"))
            name = compared.best
            note(str(compared.comparison.decision))
        saved = out / EVALUATORS / name
        fitted = project.fit(name, out=saved, on_stage=lambda step: on_stage(f"learning {step}"))
        if compared is not None:
            fitted = fitted.with_decision(compared.comparison.decision)
        used = config.model_copy(update={"models": dict(project.model_settings)})
        if not folder.write(PROJECT_FILE, project_text(used, name, out, options.template)):
            note(f"{folder.path(PROJECT_FILE)} was edited and is kept as it is")
        files |= {"evaluator": saved, "scores": out / "scores.jsonl", "report": out / "report.html"}
        on_stage("scoring")
        conversations, scoring = project.store.conversations(), ScoreOptions(turns=options.turns)
        scored = score(project, fitted.evaluator, conversations, files["scores"], options=scoring, command="run")
        on_stage("reporting")
        write_report(project, files["report"], fitted, options.about)
    return Whole(imported, compared, fitted, scored, agreement, files, said)


def _with_edited_rubric(
    folder: RunFolder, config: Config, options: RunOptions, note: Callable[[str], None]
) -> tuple[Config, RunOptions]:
    """The settings and options with the folder's rubric, if it was edited.

    Raises:
        BadInput: The options name another main question.
    """
    path = folder.path(RUBRIC)
    if not folder.is_edited(RUBRIC):
        return config, options
    if options.main is not None:
        raise BadInput(f"{path} was edited and says its main question; change it there, and leave out --main")
    note(f"{path} was edited and is used as it is")
    return config.model_copy(update={"rubric": str(path)}), replace(options, infers=False)


def _asked_roles(project: Project) -> list[str]:
    """Roles of the configured models that the default evaluator asks."""
    roles = project.evaluator(project.config.evaluator).roles
    return [role for role in roles if role in project.config.models]


def _recorded_agreement(
    project: Project, on_stage: Callable[[str], None], note: Callable[[str], None]
) -> list[RecordedAgreement]:
    """Agreement of each recorded model with people; none if no judgements are recorded."""
    if not project.recordings:
        return []
    judge = project.model_settings[JUDGE].model
    others = [name for name in project.recordings if name != judge]
    also = f"; evidence of other recorded models: {', '.join(others)} (--recorded-model names another judge)"
    note(f"the judge is the recorded {judge!r}{also if others else ''}")
    on_stage("recorded judges beside people")
    labels = project.store.labels()
    samples = project.samples(labels.on(project.rubric.main).targets)
    return recorded_agreement(project.recordings, project.rubric, labels, samples)


def _check_enough(project: Project, note: Callable[[str], None]) -> None:
    """Refuse to learn from fewer conversations than make folds of two; say which ones are not counted.

    Raises:
        BadInput: Says how many there are, and how many are needed.
    """
    if aside := synthetic_note(project):
        note(aside)
    main, needed = project.rubric.main, 2 * project.config.folds
    rated = len({target.conversation for target in project.rated(main).targets})
    if rated < needed:
        raise BadInput(
            f"{rated} conversations are rated on {main!r}, too few to learn from some and try it on others; rate at "
            f"least {needed}, or name another question: --main"
        )


def _rubric(config: Config, found: FileSurvey, options: RunOptions, note: Callable[[str], None]) -> Rubric:
    """The project's rubric, or one that fits the labels; the shipped one, where the labels answer that."""
    if not options.infers:
        return load_rubric(config.rubric)
    shipped = load_rubric(SHIPPED)
    if options.main is None and shipped.main in found.questions:
        answered = [(shipped.get(name), each) for name, each in found.questions.items()]
        if all(question.scale.holds(value) for question, each in answered if question for value in each.values):
            return shipped
    if not found.questions:
        named = ", ".join(map(str, found.files))
        could = (
            f". Columns with values on a scale: {', '.join(found.other_candidates)}" if found.other_candidates else ""
        )
        raise BadInput(
            f"no ratings in {named}: no column is known to hold any{could}. Name the column: --labels NAME; or add "
            "a file of ratings (columns conversation, annotator, question, value); or rate them in a browser: accord "
            f"init, accord import {shlex.quote(str(found.files[0]))}, accord serve"
        )
    rubric, said = infer_rubric(found.questions.values(), options.main)
    for sentence in said:
        note(sentence)
    if found.rating_columns:
        note(f"ratings beside the text: {', '.join(found.rating_columns)} (--labels NAME for others)")
    for sentence in found.rater_notes:
        note(sentence)
    return rubric


def _reading(found: FileSurvey, rubric: Rubric, options: RunOptions, note: Callable[[str], None]) -> ImportOptions:
    """Which columns are labels, of whom; the main question is learned at the level of most of its ratings."""
    if found.positions and not options.unnamed:
        note(positions_said(found.positions))
    main = found.questions.get(rubric.main)
    levels: dict[str, str] = {}
    if main is not None and 0 < main.turn_answers < main.total:
        levels[rubric.main] = main.level
        others = main.total - main.turn_answers if main.level == "turn" else main.turn_answers
        note(f"{rubric.main!r} is rated of turns and of conversations; {others} of the rarer kind are left out")
    turns = [name for name in found.rating_columns if name in found.turn_questions]
    reading = ImportOptions(is_anonymous=options.unnamed, roles=options.roles, levels=levels)
    return replace(survey_options(found, rubric, reading), rating_columns=found.rating_columns, turn_questions=turns)


def positions_said(positions: Sequence[str]) -> str:
    """The sentence on annotators who look like places in a list."""
    return (
        f"annotators {positions[0]} to {positions[-1]} look like places in a list; they are taken as persons, the same "
        "one everywhere. If they are not: --unnamed"
    )
