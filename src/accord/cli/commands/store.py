"""`accord store`: whether the project's store is whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from accord.cli.app import app, guarded, stop
from accord.cli.options import AsJson, ConfigFile
from accord.cli.show import show

store = typer.Typer(help="Look after the project's store.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(store, name="store")


@store.command("check")
@guarded
def check(config_file: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check the store: the database's own checks, its version, and whether every row can be read.

    Nothing is written. Exit code 1 if anything is damaged; each line says what, and how to repair it.
    """
    from accord.project import load_config
    from accord.store import check_store

    found = check_store(load_config(config_file).store)
    show(found.to_json(), as_json, _text)
    if found.damage:
        stop(f"the store is damaged in {len(found.damage)} places; each says how to repair it", 1)


def _text(found: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{count} {table}" for table, count in found["rows"].items() if count)
    lines = [f"{found['store']} (version {found['version'] or 'unknown'}): {rows or 'no rows'}"]
    lines += [f"damaged: {each['what']}\n  repair: {each['repair']}" for each in found["damage"]]
    lines += [f"note: {each}" for each in found["notes"]]
    return "\n".join([*lines, *([] if found["damage"] else ["nothing is damaged"])])
