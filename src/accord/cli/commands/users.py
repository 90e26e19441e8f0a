"""`accord users`: user accounts of the workbench and their sign-in links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import command_group, guarded
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.terminal import note, show

if TYPE_CHECKING:
    from accord.store import Studies

users = command_group("users", "Who may come into the workbench, and by which personal link.")

Name = Annotated[str, typer.Argument(help="Name stored with the ratings; may be a pseudonym.")]
Site = Annotated[str, typer.Option("--url", help="The address of the workbench, as browsers reach it.")]
SITE = "http://127.0.0.1:8700"


def _check_site(url: str) -> None:
    """Refuse an address that a personal link cannot begin with.

    Raises:
        BadInput: It is not http(s)://HOST, or it holds a user, a query or a fragment.
    """
    from urllib.parse import urlsplit

    from accord.edges import BadInput, is_web_address

    parts = urlsplit(url)
    if not is_web_address(url) or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise BadInput("--url takes the address of the workbench, such as https://rate.example")


@contextmanager
def _studies(config_file: Path | None, creates: bool = False) -> Iterator[Studies]:
    from accord.store import Studies

    with open_project(config_file, creates=creates) as project:
        studies = Studies(project.store)
        try:
            yield studies
        finally:
            studies.close()


def _show_link(name: str, key: str, site: str, as_json: bool) -> None:
    link = f"{site.rstrip('/')}/in/{key}"
    show({"name": name, "link": link}, as_json, lambda _: link)
    if not as_json:
        note(f"the personal link of {name}; it is not kept and cannot be shown again")


@users.command("add")
@guarded
def add(
    name: Name,
    role: Annotated[str, typer.Option("--role", help="annotator, lead or admin.")] = "annotator",
    url: Site = SITE,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Add a user and print the personal sign-in link."""
    from accord.web import add_person

    _check_site(url)
    with _studies(config_file, creates=True) as studies:
        _show_link(name, add_person(studies, name, role), url, as_json)


@users.command("link")
@guarded
def link(
    name: Annotated[str | None, typer.Argument(help="A user; leave it out while there are no users.")] = None,
    url: Site = SITE,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Print a new personal link; the old link and the sessions that it started end.

    Without users and without NAME: print a link that signs one browser of this machine in, once.
    """
    from accord.web import local_sign_in_link, new_link

    _check_site(url)
    with _studies(config_file) as studies:
        if name is None:
            show({"link": local_sign_in_link(studies, url)}, as_json, lambda found: found["link"])
            return
        _show_link(name, new_link(studies, name), url, as_json)


@users.command("role")
@guarded
def role(
    name: Name,
    role: Annotated[str, typer.Argument(help="annotator, lead or admin.")],
    config_file: ConfigFile = None,
) -> None:
    """Change a user's role."""
    from accord.web import change_role

    with _studies(config_file) as studies:
        change_role(studies, name, role)
    note(f"{name} is {role} now")


@users.command("remove")
@guarded
def remove(name: Name, config_file: ConfigFile = None) -> None:
    """Revoke a user's access and keep their ratings."""
    with _studies(config_file) as studies:
        studies.accounts.remove(name)
    note(f"{name} is out; their answers are kept")


@users.command("list")
@guarded
def list_(config_file: ConfigFile = None, as_json: AsJson = False) -> None:
    """List everybody with their role."""
    with _studies(config_file) as studies:
        found = [person._asdict() for person in studies.accounts.list_users()]
    lines = [f"{each['name']}  {each['role']}  since {each['added'][:10]}" for each in found]
    show({"users": found}, as_json, lambda _: "\n".join(lines) or "no users; add one: accord users add NAME")
