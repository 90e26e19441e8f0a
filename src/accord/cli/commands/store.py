"""`accord store`: check, back up, restore and clean the project's store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command, command_group, stop
from accord.cli.options import ResultOptions
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import note
from accord.edges import BadInput, count_of

store = command_group("store", "Look after the project's store.")


@command("check", store)
def check(
    options: ResultOptions,
    repairs: Annotated[
        bool,
        typer.Option("--repair", help="Remove rows of undone imports, and imported labels without a conversation."),
    ] = False,
) -> None:
    """Check the store and its mart of scores: the database's own checks, its version, and every row and part.

    Writes nothing without --repair. Exit code 1 if the store is damaged; each line names the damage and its repair.
    """
    from accord.store import check_store, mart_folder

    config = options.load()
    if repairs:
        note(_repaired(options.store()))
    found = check_store(options.store(), mart_folder(config.store, config.mart, config.folder))
    if found.is_earlier and not options.as_json:
        what, repair = found.damage[0]
        raise BadInput(f"{found.store} was not checked: {what}; {repair}")
    options.show(found.to_json(), _text)
    if found.damage:
        stop(f"the store is damaged in {count_of(len(found.damage), 'place')}; each line names the repair", 1)


def _repaired(url: str) -> str:
    """Remove the rows that belong to nothing, and return a sentence with their numbers."""
    from accord.store import Imports, Store

    opened = Store(url)
    try:
        removed = Imports(opened).remove_orphans()
    finally:
        opened.close()
    return f"{count_of(removed.conversations, 'conversation')} and {count_of(removed.labels, 'label')} removed"


@command("backup", store)
def backup(
    options: ResultOptions,
    target: Annotated[Path, typer.Argument(help="The SQLite file to write; there must be none."), CHECKED_BY_COMMAND],
) -> None:
    """Copy the store, as it is at this moment, to one SQLite file; others may go on writing.

    The copy of a PostgreSQL store is a SQLite file too: it can be named as a store itself.
    """
    from accord.store import backup as copied

    rows = copied(options.store(), target)
    options.show({"file": str(target), "rows": rows}, lambda found: f"{found['file']}: {_counted(found['rows'])}")


@command("restore", store)
def restore(
    options: ResultOptions,
    source: Annotated[Path, typer.Argument(help="A copy that `accord store backup` wrote.")],
    replace: Annotated[bool, typer.Option("--replace", help="Discard the current content of the store.")] = False,
) -> None:
    """Replace the content of the store by a copy, completely or not at all."""
    from accord.store import restore as put_back

    rows = put_back(options.store(creates=True), source, replace)
    options.show({"rows": rows}, lambda found: f"restored: {_counted(found['rows'])}")


@command("vacuum", store)
def vacuum(options: ResultOptions) -> None:
    """Give unused space back, and bring up to date what queries are planned by. Needs as much free space again."""
    from accord.store import vacuum as vacuumed

    before, after = vacuumed(options.store())
    found = {"bytes_before": before, "bytes_after": after}
    options.show(found, lambda found: f"{found['bytes_before']:,} bytes before, {found['bytes_after']:,} after")


@command("prune", store)
def prune(
    options: ResultOptions,
    older_than: Annotated[str, typer.Option("--older-than", help="How old a row has to be: 90d, 12h, 8w.")],
    with_cache: Annotated[
        bool, typer.Option("--with-cache", help="Replies and vectors too, which were paid for.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count alone.")] = False,
) -> None:
    """Remove old runs, scores, days and alarms of live scoring, and cached results.

    Conversations, annotations, active runs and the last finished run of each command stay.
    """
    from accord.store import Store
    from accord.store import prune as pruned

    age = _age(older_than)
    opened = Store(options.store())
    try:
        rows = pruned(opened, age, with_cache, dry_run)
    finally:
        opened.close()
    would = "would be removed" if dry_run else "removed"
    options.show({"rows": rows, "dry_run": dry_run}, lambda found: f"{would}: {_counted(found['rows'])}")


def _age(written: str) -> timedelta:
    """A number of hours, days or weeks."""
    match = re.fullmatch(r"(\d{1,5})([hdw])", written.strip(), re.ASCII)
    if match is None:
        raise BadInput(f"--older-than takes a number of hours, days or weeks, got {written!r}; for example 90d")
    return timedelta(hours=int(match[1]) * {"h": 1, "d": 24, "w": 168}[match[2]])


def _counted(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {table}" for table, count in rows.items() if count) or "no rows"


def _text(found: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{count} {table}" for table, count in found["rows"].items() if count)
    lines = [f"{found['store']} (version {found['version'] or 'unknown'}): {rows or 'no rows'}"]
    lines += [f"damaged: {each['what']}\n  repair: {each['repair']}" for each in found["damage"]]
    lines += [f"note: {each}" for each in found["notes"]]
    lines += [f"note: {each}, which Accord did not create" for each in found["foreign"]]
    return "\n".join([*lines, *([] if found["damage"] else ["nothing is damaged"])])
