"""`accord gate`: an exit code for CI, from how far the evaluator can be trusted and from what it scored."""

from __future__ import annotations

from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import show


@command("gate")
def gate(
    min_agreement: Annotated[
        float | None, typer.Option("--min-agreement", help="Minimum lower bound of r with people.")
    ] = None,
    min_within: Annotated[
        float | None, typer.Option("--min-within", help="Minimum lower bound of r with people within annotators.")
    ] = None,
    min_mean: Annotated[float | None, typer.Option("--min-mean", help="Minimum mean of the latest scores.")] = None,
    max_unscored: Annotated[
        float, typer.Option("--max-unscored", min=0, max=1, help="Maximum share of the latest scores that are missing.")
    ] = 0.0,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Fail (exit 3) where the latest comparison or the latest scores do not meet the given conditions."""
    from accord.report import check_gate
    from accord.values import GateFailed

    with open_project(config_file) as project:
        result = check_gate(project.store, min_agreement, min_mean, max_unscored, min_within)
    show(result, as_json, lambda found: "\n".join(check["says"] for check in found["checks"]))
    failed = [check["says"] for check in result["checks"] if not check["passed"]]
    if failed:
        raise GateFailed("; ".join(failed))
