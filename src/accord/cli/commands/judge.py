"""`accord judge`: ask the rubric's questions about conversations; every answer is kept as soon as it is there."""

from __future__ import annotations

from typing import Annotated

import typer

from accord.cli.app import command, stop
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import Progress, show

PARTLY_UNSCORED = 5


@command("judge")
def judge(
    everything: Annotated[
        bool, typer.Option("--all", help="Judge every conversation, not the rated ones alone.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Judge at most so many.")] = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask the project's judge; what is answered already is not asked again."""
    from accord.errors import BadInput
    from accord.pipeline import judge_stored

    with open_project(config_file) as project:
        asked = project.judge
        if asked is None:
            raise BadInput("the project names no judge; add one to accord.yaml: judge: {way: logprobs, model: NAME}")
        with Progress("judged") as progress:
            result = judge_stored(
                project.store, project.config, project.rubric, asked, everything, limit, progress.step
            )
        show(result, as_json, _text)
        if result["unanswered"]:
            stop("some questions stayed unanswered; run the command again to ask for them alone", PARTLY_UNSCORED)


def _text(result) -> str:  # type: ignore[no-untyped-def]
    lines = [f"{result['subjects']} judged: {result['answered']} answers, {result['asked']} of them asked for now"]
    lines += [f"  {count} without an answer: {reason}" for reason, count in result["unanswered"].items()]
    return "\n".join(lines)
