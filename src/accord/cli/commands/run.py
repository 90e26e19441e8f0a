"""`accord run`: the whole way, from files of conversations and ratings to scores and a report, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, Columns, ConfigFile, Format, SkipBadRows, column_map
from accord.cli.show import comparison_text, imported_text, show, stage

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the store, the evaluator, the scores, the report.")]


@command("run")
def run(
    sources: Annotated[list[Path], typer.Argument(help="Files of conversations and labels, or benchmark folders.")],
    out: Out = Path("accord-run"),
    recorded: Annotated[
        list[Path] | None, typer.Option("--recorded", help="Recorded judgements to use as the judge; repeat.")
    ] = None,
    rubric: Annotated[str | None, typer.Option("--rubric", help="A shipped rubric's name, or a YAML file.")] = None,
    config_file: ConfigFile = None,
    format: Format = "auto",
    columns: Columns = None,
    skip_bad_rows: SkipBadRows = False,
    as_json: AsJson = False,
) -> None:
    """Gather evidence, learn, cross-validate, score and report: everything on the files you name."""
    from accord.config import JudgeConfig, load_config

    config = load_config(config_file).model_copy(update={"store": f"sqlite:///{out / 'accord.db'}"})
    if recorded:
        judge = config.judge.model if config.judge else None
        paths = [str(path) for path in recorded]
        config = config.model_copy(update={"judge": JudgeConfig(mode="recorded", model=judge, paths=paths)})
    if rubric:
        config = config.model_copy(update={"rubric": rubric})
    main_job(config, sources, out, format, column_map(columns), skip_bad_rows, as_json)


def main_job(config, sources, out, format, columns, skip_bad_rows, as_json) -> None:  # type: ignore[no-untyped-def]
    """Run every stage with progress, then print the table and where the files are."""
    from accord.report import whole_run

    done = whole_run(config, sources, out, format, columns, skip_bad_rows, stage)
    result = {
        "imported": done.imported.to_json(),
        "comparison": done.trial.comparison.to_json(),
        "unscored": dict(done.unscored),
        "files": {name: str(path) for name, path in done.files.items()},
    }
    show(result, as_json, _text)


def _text(result) -> str:  # type: ignore[no-untyped-def]
    files = "\n".join(f"{name:10} {path}" for name, path in result["files"].items())
    return "\n\n".join([imported_text(result["imported"]), comparison_text(result["comparison"]), files])
