"""`accord validate`: people look at what was found in turns, on a page of this machine; and what came of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import note, show

VALIDATION = Path("validation")
"""Where plans and participants are kept."""


@command("validate")
def validate(
    flow: Annotated[
        str,
        typer.Argument(
            help="detection: are the issues right (0, 1, 2)? overall: rate, then rate again with the issues shown."
        ),
    ] = "detection",
    outcome: Annotated[bool, typer.Option("--outcome", help="Print the results so far, and serve nothing.")] = False,
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, help="Number of turns; default 200, for overall 100.")
    ] = None,
    per_turn: Annotated[
        int | None, typer.Option("--per-turn", min=1, help="People per turn; default 3, for overall 5.")
    ] = None,
    per_person: Annotated[int, typer.Option("--per-person", min=1, help="At most this many turns per person.")] = 100,
    people: Annotated[
        int | None, typer.Option("--people", min=1, help="Number of participants; default: as many as needed.")
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", help="Let this person continue in another browser.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plan and the participants.")] = VALIDATION,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; an address beyond this machine needs ACCORD_TOKEN.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8710,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Serve pages on which people validate the issues found in turns.

    Answers are labels (validation:detection, validation:initial, validation:revised). Stop it and start it again as you
    like: the draw, the places and the answers stay.
    """
    from accord.workbench import assessments as validating
    from accord.workbench import read_plan

    with open_project(config_file) as project:
        if outcome:
            found = validating.outcome(project, read_plan(validating.plan_file(out, flow)))
            lines = [f"{found.examples} of {found.planned} turns have answers", *found.lines()]
            show(found.to_json(), as_json, lambda _: "\n\n".join(lines))
            return
        study, participants = validating.open_study(project, out, flow, sample, per_turn, per_person, people)
        if release is not None:
            participants.release(release)
            note(f"whoever gives the name {release!r} next goes on in its place")
            return
        _serve(study, participants, host, port)


def _serve(study: Any, participants: Any, host: str, port: int) -> None:
    from accord.live import check_installed, checked_binding, serve

    check_installed()
    token = os.environ.get("ACCORD_TOKEN") or None
    checked_binding(host, token)
    from accord.workbench.pages import validation_app

    plan = study.plan
    note(f"{len(plan.turns)} turns for {len(plan.slots)} people at http://{host}:{port}/")
    serve(validation_app(study, participants, token), host, port)
    note("stopped; answers are kept: accord validate " + plan.flow + " --outcome")
