"""`accord run` and `accord demo`: all steps from files to scores and a report, in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import command
from accord.cli.options import (
    Anonymous,
    AsJson,
    ReadingOptions,
    RubricOptions,
    ScoredTurns,
    StatisticsOptions,
    are_positions,
    column_map,
)
from accord.cli.outputs import RUN
from accord.cli.terminal import note, show_result, stage
from accord.edges import BadInput, UnknownName

if TYPE_CHECKING:
    from accord.project import Config
    from accord.report import RunOptions

SCRIPTED = "scripted"
"""Judge of the demo."""
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for the store, the evaluator, the scores, the report."), RUN
]
Details = Annotated[bool, typer.Option("--details", help="Print everything at once: imports, all statistics, files.")]


@command("run")
def run(
    answers: RubricOptions,
    reading: ReadingOptions,
    options: StatisticsOptions,
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files of conversations, labels and recorded judgments, or folders."),
    ],
    out: Out = Path("accord-run"),
    recorded: Annotated[
        list[Path] | None, typer.Option("--recorded", help="Recorded judgments to use as the judge; repeat.")
    ] = None,
    recorded_model: Annotated[
        str | None, typer.Option("--recorded-model", help="Which recorded model is the judge.")
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option("--rubric", help="A shipped rubric's name, or a YAML file; default: from the labels."),
    ] = None,
    anonymous: Anonymous = False,
    evaluator: Annotated[
        str | None, typer.Option("--evaluator", help="Learn this evaluator, without comparing all first.")
    ] = None,
    turns: ScoredTurns = "rated",
    details: Details = False,
) -> None:
    """Gather evidence, compare, learn, score and report: everything on the files you name.

    Without a project file, the rubric is inferred from the labels, and recorded judgments serve as the judge.
    """
    from accord.edges import is_trusted, own_project
    from accord.project import survey_files, with_settings
    from accord.report import RunOptions
    from accord.values import load_rubric
    from accord.verbs import run_settings

    is_named = bool(rubric or options.changes)
    loaded, template, infers, found = run_settings(out, options.config_file, is_named=is_named)
    if found is not None:
        note(f"settings and rubric of {found}; in a folder without {found.name} the rubric is inferred from the labels")
    config = with_settings(loaded, options.changes)
    config = config.model_copy(update={"store": loaded.store})
    infers = infers and rubric is None
    if not infers:
        _check_no_rubric_options(answers)
    if rubric:
        config = config.model_copy(update={"rubric": rubric})
    names = column_map(reading.columns, None if infers else load_rubric(config.rubric))
    labels, raters, judges = answers.named_columns
    anonymous = anonymous or are_positions(
        lambda: survey_files(sources, reading.format, names, labels, raters=raters, judges=judges).positions
    )
    run_options = RunOptions(
        infers, answers.main, labels, raters, answers.scale_map, anonymous, reading.role_map, recorded_model, evaluator,
        turns=turns, template=template, judges=judges, orders=answers.orders or (),
    )  # fmt: skip
    files, origin = [*sources, *(recorded or ())], options.config_file or found
    is_own = not (out / "accord.yaml").exists() and (origin is None or is_trusted(origin.parent))
    _run(config, files, out, reading.format, names, reading.skip_bad_rows, options.as_json, run_options, details)
    if is_own:
        own_project(out)


def _check_no_rubric_options(answers: RubricOptions) -> None:
    """Reject options on a rubric from labels in a run that has a rubric."""
    given = {"--main": answers.main, "--scale": answers.scales, "--order": answers.orders}
    if option := next((name for name, value in given.items() if value), None):
        raise BadInput(
            f"{option} is for a rubric made from the labels, and this run has a rubric. Edit its file, or run in a "
            "folder without accord.yaml and without --rubric"
        )


def _run(
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str,
    columns: Mapping[str, str],
    skip_bad_rows: bool,
    as_json: bool,
    options: RunOptions,
    details: bool,
) -> None:
    """Run every stage with progress, then print the verdict and the link of the report, or everything."""
    from accord.verbs import run_project

    done = run_project(config, sources, out, format, columns, skip_bad_rows, stage, options, note)
    note(*done.imported.counts.role_notes(options.roles), *done.imported.counts.turn_notes())
    show_result(done, as_json, details=details)


@command("demo")
def demo(
    out: Out = Path("accord-demo"),
    with_models: Annotated[
        bool,
        typer.Option(
            "--with-models",
            help="Measure also with the two small models that `accord models pull` fetches: many minutes of CPU.",
        ),
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="`scripted`: ask a decision model that runs in this process and answers by a rule; needs no key.",
        ),
    ] = None,
    no_judge: Annotated[
        bool, typer.Option("--no-judge", help="Learn from word counts alone, without the recorded judge.")
    ] = False,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Try everything on 150 written conversations: a judge, learning, validation, scores, a report.

    The judge's answers were recorded from a language model.
    """
    if judge not in (None, SCRIPTED):
        raise UnknownName("judge of the demo", judge, [SCRIPTED])
    if judge is not None and (with_models or no_judge):
        other = "--with-models" if with_models else "--no-judge"
        raise BadInput(f"--judge and {other} each take their own evidence; leave out one of them")
    from accord.embedded import is_ready
    from accord.learning import EvaluatorSettings
    from accord.models import ModelSettings
    from accord.project import Config
    from accord.report import RunOptions
    from accord.sample import ABOUT, ABOUT_JUDGE, judgments, sources

    # `auto` comes to the same here, and takes most of its time to try a network.
    mixed = {"default": EvaluatorSettings(head="mixed")}
    config = Config(store=f"sqlite:///{out / 'accord.db'}", evaluators=mixed)
    if with_models:
        if not is_ready():
            raise BadInput("the small models are not here; fetch them once (177 MB): accord models pull")
        likelihood = ModelSettings(model="embedded:smollm2-135m")
        update = {"metrics": ["lexical", "embedding"], "models": {"likelihood": likelihood}}
        config = config.model_copy(update=update)
    options = RunOptions(infers=False, evaluator=config.evaluator, about=ABOUT)
    if judge is not None:
        _run_with_judge(config, out, as_json, options, details)
        return
    files = sources()
    if not (no_judge or with_models):
        files, options = [*files, judgments()], replace(options, about=ABOUT_JUDGE, shows_judge=True)
    _run(config, files, out, "auto", {}, False, as_json, options, details)


@contextmanager
def _any_key() -> Iterator[None]:
    """Set a key that means nothing, so that the user's own key stays out of the requests to the scripted judge."""
    before = os.environ.get("OPENAI_API_KEY")
    os.environ["OPENAI_API_KEY"] = "no-key-needed"
    try:
        yield
    finally:
        os.environ.pop("OPENAI_API_KEY")
        if before is not None:
            os.environ["OPENAI_API_KEY"] = before


def _run_with_judge(config: Config, out: Path, as_json: bool, options: RunOptions, details: bool) -> None:
    """Run the demo with a scripted decision model, which is compared with the evaluators."""
    from accord.models import ModelSettings
    from accord.sample import sources
    from accord.testing.scripted_judge import RULE, scripted_judge

    note(
        f"the judge is scripted, not a model: {RULE}. It runs in this process and ends with it; its answers stay in "
        "the store. For a real one, set models.judge in accord.yaml"
    )
    with scripted_judge() as server, _any_key():
        settings = ModelSettings(mode="decisions", model=SCRIPTED, base_url=server.url)
        config = config.model_copy(update={"models": {"judge": settings}})
        about = f"{options.about} The judge is scripted: {RULE}."
        _run(config, sources(), out, "auto", {}, False, as_json, replace(options, about=about), details)
