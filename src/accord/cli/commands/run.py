"""`accord run`: the whole way, from files of conversations and ratings to scores and a report, in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.findings import fitted_text
from accord.cli.options import AsJson, Columns, ConfigFile, Format, SkipBadRows, column_map
from accord.cli.show import imported_text, show, stage

if TYPE_CHECKING:
    from accord.project import Config

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
    from accord.models import ModelSettings
    from accord.project import load_config

    config = load_config(config_file).model_copy(update={"store": f"sqlite:///{out / 'accord.db'}"})
    if recorded:
        named = config.models["judge"].model if "judge" in config.models else None
        judge = ModelSettings(mode="recorded", model=named, paths=[str(path) for path in recorded])
        config = config.model_copy(update={"models": {**config.models, "judge": judge}})
    if rubric:
        config = config.model_copy(update={"rubric": rubric})
    main_job(config, sources, out, format, column_map(columns), skip_bad_rows, as_json)


def main_job(
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str,
    columns: Mapping[str, str],
    skip_bad_rows: bool,
    as_json: bool,
) -> None:
    """Run every stage with progress, then print the table and where the files are."""
    from accord.report import whole_run

    done = whole_run(config, sources, out, format, columns, skip_bad_rows, stage)
    result = {
        "imported": done.imported.to_json(),
        "fitted": done.fitted.to_json(),
        "comparison": None if done.fitted.comparison is None else done.fitted.comparison.to_json(),
        "scored": done.scored.to_json(),
        "unscored": dict(done.scored.unscored),
        "files": {name: str(path) for name, path in done.files.items()},
    }
    show(result, as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    files = "\n".join(f"{name:10} {path}" for name, path in result["files"].items())
    return "\n\n".join([imported_text(result["imported"]), fitted_text(result["fitted"]), files])
