"""`accord compare`: every method and baseline on the same labels and the same honest folds."""

from __future__ import annotations

from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.in_context_study import compare_in_context
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import comparison_text, groups_text, show


@command("compare")
def compare(
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Also by group: system, annotator, judge-version, wording or a metadata entry; repeat."
        ),
    ] = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """One table: methods, baselines, and how well people agree with each other.

    With `in-context` as the project's evaluator its model is asked, within the budget: for every way to pick examples.
    """
    from accord.learning import InContext
    from accord.pipeline import compare_stored
    from accord.values import BadInput

    with open_project(config_file) as project:
        if project.config.evaluator.method == InContext.method:
            if by:
                raise BadInput("in-context is compared on one held-out side, which is too small for --by")
            compare_in_context(project, as_json)
            return
        with project.store.run("compare", project.config.shown()) as run:
            found = compare_stored(project.store, project.config, project.rubric, project.models, by=tuple(by or ()))
            run.results.update(found)
        show(run.results, as_json, _text)


def _text(result) -> str:  # type: ignore[no-untyped-def]
    shown = comparison_text(result)
    return f"{shown}\n\n{groups_text(result['groups'])}" if result["groups"] else shown
