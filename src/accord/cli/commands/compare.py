"""`accord compare`: every evaluator and baseline on the same labels and the same honest folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.show import Steps, comparison_text, groups_text, show


@command("compare")
def compare(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this evaluator, beside the baselines; repeat.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Also by group: system, annotator, judge-version, wording or a metadata entry; repeat."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Fit this many evaluators in parallel.")] = 1,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare every evaluator that can be made, the baselines and people, and recommend one.

    Nobody is asked: what sources know comes from the store, so run `accord judge` (and `accord fit`) before.
    """
    with open_project(config_file, settings) as project:
        with Steps() as steps:
            done = project.compare(only or (), by or (), jobs, steps.stage)
        show(done.to_json(), as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    parts = [comparison_text(result)]
    if result["groups_by"]:
        parts.append(groups_text(result["groups_by"]))
    if result["unmade"]:
        parts.append("\n".join(f"not compared: {name}: {why}" for name, why in result["unmade"].items()))
    return "\n\n".join([*parts, result["advice"]])
