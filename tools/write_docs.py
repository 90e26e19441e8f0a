"""Write the documentation that follows from the code: commands' help, JSON Schemas, and the Python API."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app
from accord.cli.plugin_commands import EXTRA_COMMANDS
from accord.project import json_schema

sys.path.insert(0, str(Path(__file__).parent))
import api_reference
import settings_reference

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


ROOT = DOCS.parent
RAW = "https://raw.githubusercontent.com/accord-eval/accord/main"
GENERATED = ("api.md", "data-places.md", "measured.md")
"""Generated tables, which `llms-full.txt` leaves out."""


def _pages() -> list[tuple[str, Path, str]]:
    """Return heading of the README's list, file and title of each page that the README links, in its order."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Documentation\n")[2]
    found = []
    for group in re.split(r"^- ", section, flags=re.M)[1:]:
        for name in re.findall(r"\]\(([\w/.-]+\.md)\)", group):
            title = (ROOT / name).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            found.append((re.split(r"[:(]", group)[0].strip(), ROOT / name, title))
    return found


def _first_sentence(page: Path) -> str:
    """Return the first sentence of a page, without links."""
    paragraphs = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S).split("\n\n")[1:]
    text = next((each.strip() for each in paragraphs if re.match(r"\s*[A-Za-z`\[]", each)), "")
    words = " ".join(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).split()).removeprefix("Goal: ")
    return re.split(r"(?<=\.)\s", words)[0].rstrip(":")


def _navigation() -> list[dict[str, Any]]:
    """Return the navigation of the site."""
    nav: list[dict[str, Any]] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return nav


def index_page() -> str:
    """docs/index.md: the beginning of the README, then the tasks of the navigation."""
    [tasks] = [entry["Tasks"] for entry in _navigation() if "Tasks" in entry]
    rows = [
        f"| {task} | {', '.join(f'[{name}]({page})' for link in pages for name, page in link.items())} |"
        for entry in tasks
        for task, pages in entry.items()
    ]
    table = "\n".join(["## Tasks", "", "| task | pages |", "| --- | --- |", *rows])
    head = "\n## ".join((ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[:2])
    return head.replace("](docs/", "](").rstrip() + f"\n\n{table}\n"


def decisions_page() -> str:
    """docs/decisions/README.md: the list of decisions."""
    pages = sorted((DOCS / "decisions").glob("0*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for page in pages]
    numbered = [title.partition(". ") for title in titles]
    rows = [f"| {number} | [{title}]({page.name}) |" for page, (number, _, title) in zip(pages, numbered, strict=True)]
    intro = "Design choices, each with its context and its consequences. Generated by `make docs`."
    return "\n".join(["# Decisions", "", intro, "", "| number | decision |", "| --- | --- |", *rows]) + "\n"


def llms_page() -> str:
    """llms.txt: the pages of the documentation, each with its first sentence (https://llmstxt.org)."""
    summary = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    lines = ["# Accord", "", *(f"> {line}" for line in summary.splitlines()), "",
             f"Guide for coding agents: [AGENTS.md]({RAW}/AGENTS.md), printed by `accord skill`.",
             f"All guides in one file: [llms-full.txt]({RAW}/llms-full.txt)."]  # fmt: skip
    group = ""
    for heading, page, title in _pages():
        lines += ["", f"## {heading}", ""] if heading != group else []
        about = _first_sentence(page)
        lines.append(f"- [{title}]({RAW}/{page.relative_to(ROOT).as_posix()})" + (f": {about}" if about else ""))
        group = heading
    return "\n".join(lines) + "\n"


def llms_full_page() -> str:
    """llms-full.txt: README and all guides in one file."""

    def is_generated(page: Path) -> bool:
        return page.name in GENERATED or page.parent.name in {"notebooks", "papers"}

    pages = [ROOT / "README.md", *(page for _, page, _ in _pages() if not is_generated(page))]
    parts = [f"<!-- {each.relative_to(ROOT).as_posix()} -->\n\n{each.read_text('utf-8').strip()}" for each in pages]
    return "\n\n".join(parts) + "\n"


def agents_page() -> str:
    """AGENTS.md: the guide of the skill, and where developers of Accord find theirs."""
    from accord.hosts.agents.skill import guide

    own = "Generated by `make docs`. To change Accord itself, read [CONTRIBUTING.md](CONTRIBUTING.md)."
    return f"{guide().rstrip()}\n\n## This repository\n\n{own}\n"


PAGES = {
    "commands.md": commands_page,
    "accord.schema.json": schema_page,
    "settings.md": settings_reference.page,
    "scores.schema.json": messages_page,
    "agreement-card.schema.json": card_page,
    "data-places.md": places_page,
    "api.txt": api_reference.text_page,
    "api.md": api_reference.page,
    "decisions/README.md": decisions_page,
    "index.md": index_page,
    "../AGENTS.md": agents_page,
    "../llms.txt": llms_page,
    "../llms-full.txt": llms_full_page,
}
"""Generated files by their place in docs; those made of other pages come last."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
