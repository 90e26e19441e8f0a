"""`accord validate`: people look at what was found in turns, on a page of this machine; and what came of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import figure_text, note, show, table

_RHO = {
    "agreement_with_all": "a person with the mean of all",
    "agreement_with_others": "a person with the mean of the others",
    "agreement_with_model": "the mean of all with the model",
}
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
            show(found, as_json, _text)
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


def _text(found: Mapping[str, Any]) -> str:
    about = f"{found['examples']} of {found['planned']} turns have answers"
    return "\n\n".join([about, *(_detection(found) if found["flow"] == "detection" else _overall(found))])


def _detection(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [row["type"], str(row["examples"]), _figure(row["majority"]), _figure(row["all_agree"])]
        for row in [*found["types"], {"type": "all", **found}]
        if row["examples"]
    ]
    low, high = found["valid_range"] or (None, None)
    people = f"{len(found['annotators'])} people; each finds {_figure(low)} to {_figure(high)} of the turns valid"
    kappas = f"κ of pairs {_figure(found['cohen_kappa'])}, Fleiss' κ {_figure(found['fleiss_kappa'])}"
    return [table(["found", "turns", "valid (majority)", "valid (unless all say bad)"], rows), people, kappas]


def _overall(found: Mapping[str, Any]) -> list[str]:
    rows = [[title, *(_figure(found[stage][name]) for stage in ("initial", "revised"))] for name, title in _RHO.items()]
    moved = found["revisions"]
    said = (
        f"{_figure(moved['share'])} of {found['ratings']} ratings revised: {moved['lower']} down, {moved['higher']} up"
    )
    return [table(["Spearman", "alone", "with the issues shown"], rows), said]


def _figure(value: Any) -> str:
    """A figure with its interval; a dash where it is undefined."""
    if isinstance(value, Mapping):
        return figure_text(value.get("value"), value.get("low"), value.get("high"))
    return figure_text(value, None, None)
