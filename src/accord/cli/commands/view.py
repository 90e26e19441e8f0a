"""`accord view`: the report, or the board, in the browser."""

from __future__ import annotations

import os
import socket
import sys
import time
import webbrowser
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.commands.serve import serve
from accord.cli.options import ConfigFile, open_project, server_url
from accord.cli.terminal import note, say

REPORT = "report.html"
HOST, PORT = "127.0.0.1", 8700
STARTS_WITHIN = 60.0
"""Seconds within which a board that was started answers."""


@command("view")
def view(
    page: Annotated[str, typer.Argument(metavar="[report|board]", help="What to open.")] = "report",
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Report to open; default: report.html here or in the project's folder."),
    ] = None,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the browser, or only print the address.")
    ] = True,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the board.")] = PORT,
    config_file: ConfigFile = None,
) -> None:
    """Open the report or the board in the browser; without a display, print its address.

    The board is served by `accord serve`; unless it runs already, it is started, and Ctrl-C stops it.
    """
    from accord.edges import UnknownName

    if page not in ("report", "board"):
        raise UnknownName("page", page, ["report", "board"])
    opens = opens and has_display()
    if page == "report":
        _open(_report(file, config_file).resolve().as_uri(), opens)
        return
    address = _board(port, config_file)
    if _answers(port):
        _open(address, opens)
        return
    say(address)
    if opens:
        Thread(target=_open_later, args=(address, port), daemon=True).start()
    serve(port=port, config_file=config_file)


def has_display() -> bool:
    """Return False on a machine without a screen: a browser in the terminal would take it over."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _report(file: Path | None, config_file: Path | None) -> Path:
    """Return the report's path.

    Raises:
        BadInput: There is no report.
    """
    from accord.edges import BadInput
    from accord.values import find_project_file

    project = config_file or find_project_file()
    places = [file] if file is not None else [Path(REPORT), *([project.parent / REPORT] if project else [])]
    for place in places:
        if place.is_file():
            return place
    raise BadInput(f"there is no report {places[0]}. Write one: accord report; or name another: --file PATH")


def _board(port: int, config_file: Path | None) -> str:
    """Return the board's address; for a project without users, a link that signs the browser in once."""
    from accord.store import Studies
    from accord.values import find_project_file
    from accord.web import local_sign_in_link

    site = server_url(HOST, port)
    if config_file is None and find_project_file() is None:
        return f"{site}/board"
    with open_project(config_file, creates=True) as project:
        studies = Studies(project.store)
        try:
            return f"{site}/board" if studies.accounts.list_users() else local_sign_in_link(studies, site, "/board")
        finally:
            studies.close()


def _open(address: str, opens: bool) -> None:
    say(address)
    if opens and not webbrowser.open(address):
        note("no browser could be opened; copy the address into one")


def _open_later(address: str, port: int) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end:
        if _answers(port):
            webbrowser.open(address)
            return
        time.sleep(0.2)


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=0.5).close()
    except OSError:
        return False
    return True
