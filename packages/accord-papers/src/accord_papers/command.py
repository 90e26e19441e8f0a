"""`accord paper`: tables of the five papers, with baselines and ablations."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.options import AsJson
from accord.cli.outputs import Output
from accord.cli.terminal import note, say, show, stage, table
from accord.cli.texts import spending
from accord.edges import BadInput

if TYPE_CHECKING:
    from accord import Project
    from accord_papers import Part, PartResult


def _holds_pages(path: Path) -> bool:
    """Return True for a folder whose every page but a README.md comes from `accord paper`."""
    from accord_papers.pages import is_generated

    pages = [page for page in path.glob("*.md") if page.name != "README.md"] if path.is_dir() else []
    return path.is_dir() and all(map(is_generated, pages)) and (bool(pages) or not (path / "README.md").exists())


PAGES = Output(_holds_pages)


def paper(
    name: Annotated[str, typer.Argument(help="llm-rubric, rubicon, soda-eval, ciu or adoror.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FOLDER", help="Folder of the public data sets of the papers.")
    ] = None,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="FILE", help="accord.yaml of your own data and models.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="PART,...", help="Parts to run; --list prints them.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=1000, help="Splits, draws or seeds per figure.")] = 3,
    lists: Annotated[
        bool,
        typer.Option("--list", help="List the parts with their input, and those that run on --project; run nothing."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for a page with the tables and figures."), PAGES
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a paper's study on its public data or on your own: tables, baselines, ablations, published figures."""
    from accord import open as open_project
    from accord_papers import StudyInput, open_paper, run_parts, write_page
    from accord_papers.study import models_note

    chosen = open_paper(name)
    if lists:
        with nullcontext() if project is None else open_project(project) as opened:
            parts = [_part_row(part, opened) for part in chosen.parts]
        show({"paper": name, "parts": parts}, as_json, _listed)
        return
    if (data is None) == (project is None):
        raise BadInput("give either --data FOLDER (the public data sets) or --project accord.yaml (your own)")
    results: list[PartResult] = []
    stage(f"{chosen.title}: {chosen.citation}")
    with ExitStack() as stack:
        opened = None if project is None else stack.enter_context(open_project(project))
        if opened is not None:
            stack.enter_context(spending(opened.budget))
        for result in run_parts(chosen.parts, StudyInput(data, opened, repeats), only.split(",") if only else ()):
            results.append(result)
            if not as_json:
                say(_part_text(result))
    if lacking := models_note(results):
        note(lacking)
    if out is not None:
        source = "--data DATA" if data is not None else "--project accord.yaml"
        command_line = f"accord paper {name} {source} --repeats {repeats}" + (f" --only {only}" if only else "")
        note(f"page with tables and figures: {write_page(out, chosen, results, command_line)}")
    if as_json:
        show({"paper": name, "repeats": repeats, "parts": [each.to_json() for each in results]}, True, str)


def _part_row(part: Part, project: Project | None) -> dict[str, Any]:
    """Return a part with its inputs; on a project, also the roles without a model, or another reason not to run."""
    from accord_papers import StudyInput
    from accord_papers.readiness import obstacle

    row = {"part": part.name, "title": part.title, "data": part.on_data is not None,
           "project": part.on_project is not None, "limits": part.limits}  # fmt: skip
    if project is None:
        return row
    missing = part.missing_roles(project)
    return {
        **row,
        "missing_models": missing,
        "obstacle": "" if missing else obstacle(part, StudyInput(project=project)),
    }


def _listed(found: Mapping[str, Any]) -> str:
    def needs(part: dict[str, Any]) -> str:
        return " or ".join(name for name in ("data", "project") if part[name]) or "impossible"

    def here(part: dict[str, Any]) -> str:
        if missing := part["missing_models"]:
            return "no model for " + ", ".join(missing)
        return f"does not run: {part['obstacle']}" if part["obstacle"] else "runs"

    on_project = any("missing_models" in part for part in found["parts"])
    return table(
        ["part", "needs", *(["on this project"] if on_project else []), "title", "limits"],
        [[p["part"], needs(p), *([here(p)] if on_project else []), p["title"], p["limits"]] for p in found["parts"]],
    )


def _part_text(result: PartResult) -> str:
    """Return the title, the table and the note of a part."""
    reason = f": {result.reason}" if result.reason else ""
    lines = [f"{result.part.title} ({result.part.name}) - {result.status}{reason}"]
    if result.table is not None:
        lines += [
            table(result.table.header(), result.table.lines()),
            result.table.note,
        ]
    return "\n".join(line for line in lines if line) + "\n"
