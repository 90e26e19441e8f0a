"""`accord run` and `accord demo`: all steps from files to scores and a report, in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.findings import fitted_text
from accord.cli.options import (
    AsJson,
    Columns,
    ConfigFile,
    Format,
    LabelColumns,
    Main,
    RaterColumns,
    Roles,
    Scales,
    ScoredTurns,
    Setting,
    SkipBadRows,
    Synthetic,
    Unnamed,
    are_positions,
    column_map,
    role_map,
    scale_map,
    synthetic_setting,
    turn_choice,
)
from accord.cli.outputs import RUN
from accord.cli.terminal import comparison_text, figure_text, imported_text, note, show, stage, table, training_text

if TYPE_CHECKING:
    from accord.project import Config
    from accord.report import RunOptions

Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder for the store, the evaluator, the scores, the report."), RUN
]


@command("run")
def run(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files of conversations, labels and recorded judgments, or folders."),
    ],
    out: Out = Path("accord-run"),
    recorded: Annotated[
        list[Path] | None, typer.Option("--recorded", help="Recorded judgements to use as the judge; repeat.")
    ] = None,
    recorded_model: Annotated[
        str | None, typer.Option("--recorded-model", help="Which recorded model is the judge.")
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option("--rubric", help="A shipped rubric's name, or a YAML file; default: from the labels."),
    ] = None,
    main: Main = None,
    labels: LabelColumns = None,
    raters: RaterColumns = None,
    scales: Scales = None,
    unnamed: Unnamed = False,
    roles: Roles = None,
    evaluator: Annotated[
        str | None, typer.Option("--evaluator", help="Learn this evaluator, without comparing all first.")
    ] = None,
    turns: ScoredTurns = "rated",
    settings: Setting = None,
    synthetic: Synthetic = None,
    config_file: ConfigFile = None,
    format: Format = "auto",
    columns: Columns = None,
    skip_bad_rows: SkipBadRows = False,
    as_json: AsJson = False,
) -> None:
    """Gather evidence, compare, learn, score and report: everything on the files you name.

    Without a project file, the rubric is inferred from the labels, and recorded judgments serve as the judge.
    """
    from accord.edges import BadInput
    from accord.project import survey_files, with_settings
    from accord.report import RunOptions, run_settings
    from accord.values import load_rubric

    loaded, template, infers = run_settings(out, config_file, is_named=bool(rubric or settings or synthetic))
    config = with_settings(loaded, [*(settings or ()), *synthetic_setting(synthetic)])
    config = config.model_copy(update={"store": loaded.store})
    infers = infers and rubric is None
    if (main is not None or scales) and not infers:
        option = "--scale" if main is None else "--main"
        raise BadInput(
            f"{option} is for a rubric made from the labels, and this run has a rubric. Edit its file, or run in a "
            "folder without accord.yaml and without --rubric"
        )
    if rubric:
        config = config.model_copy(update={"rubric": rubric})
    names = column_map(columns, None if infers else load_rubric(config.rubric))
    if not unnamed and are_positions(lambda: survey_files(sources, format, names, labels or ()).positions):
        unnamed = True
    options = RunOptions(
        infers,
        main,
        labels or (),
        raters or (),
        scale_map(scales),
        unnamed,
        role_map(roles),
        recorded_model,
        evaluator,
        turns=turn_choice(turns),
        template=template,
    )
    main_job(config, [*sources, *(recorded or ())], out, format, names, skip_bad_rows, as_json, options)


def main_job(
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str,
    columns: Mapping[str, str],
    skip_bad_rows: bool,
    as_json: bool,
    options: RunOptions,
) -> None:
    """Run every stage with progress, then print the findings, the table and the paths of the files."""
    from accord.report import run_project, verdict

    done = run_project(config, sources, out, format, columns, skip_bad_rows, stage, options, note)
    for sentence in done.imported.counts.role_notes(options.roles):
        note(sentence)
    comparison = done.compared.comparison if done.compared is not None else done.fitted.comparison
    tried = done.fitted.comparison
    result = {
        "about": options.about,
        "verdict": "" if tried is None else verdict(tried),
        "imported": done.imported.to_json(),
        "fitted": done.fitted.to_json(),
        "comparison": None if comparison is None else comparison.to_json(),
        "recorded": [row.to_json() for row in done.recorded],
        "scored": done.scored.to_json(),
        "unscored": dict(done.scored.counts.unscored),
        "files": {name: str(path) for name, path in done.files.items()},
        "notes": list(done.notes),
    }
    learned = fitted_text(replace(done.fitted, held_out=None))
    show(result, as_json, lambda result: _text(result, learned))


def _text(result: Mapping[str, Any], learned: str) -> str:
    report = result["files"].get("report")
    link = [] if report is None else [Path(report).resolve().as_uri()]
    files = "\n".join(f"{name:10} {path}" for name, path in result["files"].items())
    parts = [part for part in (result["verdict"], result["about"]) if part]
    parts.append(imported_text(result["imported"]))
    if result["recorded"]:
        parts.append(recorded_text(result["recorded"]))
    if result["comparison"] is not None:
        parts.append(comparison_text(result["comparison"]))
    scored = result["scored"]
    plural = "replies" if scored["level"] == "turn" else "conversations"
    mean = figure_text(scored["mean"], None, None)
    summary = "\n".join([f"{scored['scored']} {plural} scored, mean {mean}", *training_text(scored)])
    return "\n\n".join([*parts, learned, summary, "\n".join([files, *link])])


def recorded_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the agreement of each recorded judge with annotators."""
    names = ("pearson", "spearman")
    lines = [
        [f"{row['model']}: {row['question']}", str(row["n"]), *(figure_text(row[name], None, None) for name in names)]
        for row in rows
    ]
    return "Recorded judges and mean ratings\n\n" + table(["judge: question", "n", "r", "ρ"], lines)


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
    as_json: AsJson = False,
) -> None:
    """Try everything on 150 written conversations: evidence, learning, validation, scores, a report."""
    from accord.edges import BadInput
    from accord.embedded import is_ready
    from accord.learning import EvaluatorSettings
    from accord.models import ModelSettings
    from accord.project import Config
    from accord.report import RunOptions
    from accord.sample import ABOUT, sources

    # `auto` comes to the same here, and takes most of its time to try a network.
    mixed = {"calibration": EvaluatorSettings(head="mixed")}
    config = Config(store=f"sqlite:///{out / 'accord.db'}", evaluators=mixed)
    if with_models:
        if not is_ready():
            raise BadInput("the small models are not here; fetch them once (177 MB): accord models pull")
        likelihood = ModelSettings(model="embedded:smollm2-135m")
        update = {"metrics": ["lexical", "embedding"], "models": {"likelihood": likelihood}}
        config = config.model_copy(update=update)
    options = RunOptions(infers=False, evaluator=config.evaluator, about=ABOUT)
    main_job(config, sources(), out, "auto", {}, False, as_json, options)
