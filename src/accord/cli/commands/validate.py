"""`accord validate`: ask people in the workbench to check the issues found in turns, and show the outcome."""

from __future__ import annotations

from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import (
    AsJson,
    ConfigFile,
    Setting,
    note_broken_studies,
    note_sign_in_link,
    open_project,
    server_url,
)
from accord.cli.terminal import note, show


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
    items_per_annotator: Annotated[
        int, typer.Option("--per-person", min=1, help="At most this many turns per person.")
    ] = 100,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; beyond this machine people come in by accord users add.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8710,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name that browsers use beyond this machine; may be given more than once."),
    ] = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Serve a study in which people validate the issues found in turns.

    It is a study of the workbench in addition to those of accord.yaml. Answers are labels (validation:detection,
    validation:initial, validation:revised). Stop it and start it again as you like: the draw and the answers stay.
    """
    from accord import studies as human_studies
    from accord import web
    from accord.store import Studies

    with open_project(config_file, settings) as project:
        studies = Studies(project.store)
        try:
            if outcome:
                found = human_studies.load_outcome(project, flow, studies)
                lines = [f"{found.examples} of {found.planned} turns have answers", *found.lines]
                show(found.to_json(), as_json, lambda _: "\n\n".join(lines))
                return
            study = human_studies.open_validation(project, flow, studies, sample, per_turn, items_per_annotator)
            turns = study.begin()
        finally:
            studies.close()
        from accord.live import check_installed, exposure, serve

        check_installed()
        bench = web.WorkbenchContext(project, exposure(host, name or ()))
        pages = web.workbench_app(bench, frozenset(map(str.lower, [host, *(name or ())])))
        note_broken_studies(bench)
        note(
            f"{turns} turns, {study.settings.annotators_per_item} people each, at {server_url(host, port)}/rate/{flow}"
        )
        note_sign_in_link(bench, server_url(host, port), f"/rate/{flow}")
        try:
            serve(pages, host, port)
        finally:
            bench.close()
    note(f"stopped; answers are kept: accord validate {flow} --outcome")
