"""`accord users`: user accounts of the workbench; `accord validate`: a study of the issues found in turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import command, command_group
from accord.cli.options import (
    HostOptions,
    Port,
    ProjectOptions,
    ResultOptions,
    broken_study_notes,
    sign_in_notes,
)
from accord.cli.terminal import note
from accord.edges import BadInput

if TYPE_CHECKING:
    from accord.store import Studies

users = command_group("users", "Manage user accounts of the workbench and their sign-in links.")

Name = Annotated[str, typer.Argument(help="Name stored with the ratings; may be a pseudonym.")]
Site = Annotated[str, typer.Option("--url", help="The address of the workbench, as browsers reach it.")]
SITE = "http://127.0.0.1:8700"


def _check_site(url: str) -> None:
    """Refuse an address that a personal link cannot begin with."""
    from urllib.parse import urlsplit

    from accord.edges import is_web_address

    parts = urlsplit(url)
    if not is_web_address(url) or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise BadInput("--url takes the address of the workbench, such as https://rate.example")


@contextmanager
def _studies(options: ProjectOptions, creates: bool = False) -> Iterator[Studies]:
    from accord.store import Studies

    with options.open(creates=creates) as project, closing(Studies(project.store)) as studies:
        yield studies


def _show_link(name: str, key: str, site: str, options: ResultOptions) -> None:
    link = f"{site.rstrip('/')}/in/{key}"
    options.show({"name": name, "link": link}, lambda _: link)
    if not options.as_json:
        note(f"the personal link of {name}; it is not kept and cannot be shown again")


@command("add", users)
def add(
    options: ResultOptions,
    name: Name,
    role: Annotated[str, typer.Option("--role", help="annotator, lead or admin.")] = "annotator",
    url: Site = SITE,
    returns: Annotated[
        bool, typer.Option("--returning", help="The same person as a former user of this name, with the same answers.")
    ] = False,
) -> None:
    """Add a user and print the personal sign-in link."""
    from accord.web import add_person

    _check_site(url)
    with _studies(options, creates=True) as studies:
        _show_link(name, add_person(studies, name, role, returns), url, options)


@command("link", users)
def link(
    options: ResultOptions,
    name: Annotated[str | None, typer.Argument(help="A user; leave it out while there are no users.")] = None,
    url: Site = SITE,
) -> None:
    """Print a new personal link; the old link and the sessions that it started end.

    Without users and without NAME: print a link that signs one browser of this machine in, once.
    """
    from accord.web import local_sign_in_link, new_link

    _check_site(url)
    with _studies(options) as studies:
        if name is None:
            options.show({"link": local_sign_in_link(studies, url)}, lambda found: found["link"])
            return
        _show_link(name, new_link(studies, name), url, options)


@command("role", users)
def role(
    options: ProjectOptions,
    name: Name,
    role: Annotated[str, typer.Argument(help="annotator, lead or admin.")],
) -> None:
    """Change a user's role."""
    from accord.web import change_role

    with _studies(options) as studies:
        change_role(studies, name, role)
    note(f"{name} is {role} now")


@command("remove", users)
def remove(options: ProjectOptions, name: Name) -> None:
    """Revoke a user's access and keep their ratings."""
    with _studies(options) as studies:
        studies.accounts.remove(name)
    note(f"{name} is out; their answers are kept")


@command("list", users)
def list_(options: ResultOptions) -> None:
    """List everybody with their role."""
    with _studies(options) as studies:
        found = [person._asdict() for person in studies.accounts.list_users()]
    lines = [f"{each['name']}  {each['role']}  since {each['added'][:10]}" for each in found]
    options.show({"users": found}, lambda _: "\n".join(lines) or "no users; add one: accord users add NAME")


@command("validate")
def validate(
    address: HostOptions,
    options: ResultOptions,
    flow: Annotated[
        str,
        typer.Argument(
            help="detection: are the issues right (0, 1, 2)? overall: rate, then rate again with the issues shown. "
            "analysis: mark the issues of each reply of a dialogue."
        ),
    ] = "detection",
    outcome: Annotated[bool, typer.Option("--outcome", help="Print the results so far, and serve nothing.")] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", min=1, help="Number of turns; default 200, for overall 100, for analysis 100 dialogues."
        ),
    ] = None,
    annotators_per_item: Annotated[
        int | None,
        typer.Option(
            "--annotators-per-item", min=1, help="Annotators per turn; default 3, for overall 5, for analysis 1."
        ),
    ] = None,
    items_per_annotator: Annotated[
        int, typer.Option("--items-per-annotator", min=1, help="Maximum number of turns per annotator.")
    ] = 100,
    port: Port = 8710,
) -> None:
    """Serve a study in which people validate the issues found in turns, or mark issues themselves.

    It is a study of the workbench in addition to those of accord.yaml. Answers are labels (validation:detection,
    validation:initial, validation:revised, issue:KIND). Stop it and start it again as you like: the draw and the
    answers stay.
    """
    from accord import studies as human_studies
    from accord import web
    from accord.store import Studies

    names, page = address.names or (), f"/rate/{flow}"
    with options.open() as project:
        with closing(Studies(project.store)) as studies:
            if outcome:
                found = human_studies.load_outcome(project, flow, studies)
                unit = "dialogues" if flow == human_studies.ANALYSIS else "turns"
                lines = [f"{found.examples} of {found.planned} {unit} have answers", *found.lines]
                options.show(found.to_json(), lambda _: "\n\n".join(lines))
                return
            study = human_studies.open_validation(
                project, flow, studies, sample, annotators_per_item, items_per_annotator
            )
            count = study.begin()
            unit = "dialogues" if flow == human_studies.ANALYSIS else "turns"
        from accord.live import check_installed, exposure, serve

        check_installed()
        with closing(web.WorkbenchContext(project, exposure(address.host, names))) as bench:
            people, url = study.settings.annotators_per_item, address.url(port)
            notes = [
                *broken_study_notes(bench),
                f"{count} {unit}, {people} people each, at {url}{page}",
                *sign_in_notes(bench, url, page),
            ]
            pages = web.workbench_app(bench, frozenset(map(str.lower, [address.host, *names])))
            serve(pages, address.host, port, on_listen=partial(note, *notes))
    note(f"stopped; answers are kept: accord validate {flow} --outcome")
