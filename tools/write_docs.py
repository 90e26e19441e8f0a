"""Write the documentation that follows from the code: commands' help, JSON Schemas, and the Python API."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app
from accord.cli.plugin_commands import EXTRA_COMMANDS
from accord.project import json_schema

sys.path.insert(0, str(Path(__file__).parent))
import api_reference

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = {"COLUMNS": "100", "TERMINAL_WIDTH": "100"}


def help_of(*command: str) -> str:
    """Return the output of `accord COMMAND --help`."""
    return CliRunner().invoke(app, [*command, "--help"], env=WIDTH, prog_name="accord").stdout.strip()


def commands_page() -> str:
    """docs/commands.md."""
    parts = ["# Commands", "Generated from the commands' own help by `make docs`.", f"```text\n{help_of()}\n```"]
    named: list[tuple[str, ...]] = [(str(registered.name),) for registered in app.registered_commands]
    named += [(name,) for name in EXTRA_COMMANDS]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        named += [(str(group.name), str(inner.name)) for inner in group.typer_instance.registered_commands]
    for command in named:
        parts += [f"## accord {' '.join(command)}", f"```text\n{help_of(*command)}\n```"]
    return "\n\n".join(parts) + "\n"


def schema_page() -> str:
    """docs/accord.schema.json."""
    return json.dumps(json_schema(), indent=1) + "\n"


def messages_page() -> str:
    """docs/scores.schema.json."""
    from accord.live.service.schemas import message_schema

    return json.dumps(message_schema(), indent=1) + "\n"


def card_page() -> str:
    """docs/agreement-card.schema.json."""
    from accord.decisions import AgreementCard

    return json.dumps(AgreementCard.model_json_schema(), indent=1) + "\n"


def places_page() -> str:
    """docs/data-places.md."""
    from accord.project.erasing.inventory import inventory_table

    intro = (
        "Every place of a project that can hold texts, names, or values derived from them. Generated from the code by"
    )
    head = f"# Places with personal data\n\n{intro} `make docs`;\n[privacy.md](privacy.md) is the guide."
    return f"{head}\n\n{inventory_table()}\n"


PAGES = {
    "commands.md": commands_page,
    "accord.schema.json": schema_page,
    "scores.schema.json": messages_page,
    "agreement-card.schema.json": card_page,
    "data-places.md": places_page,
    "api.txt": api_reference.text_page,
    "api.md": api_reference.page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
