"""Commands for coding agents: `accord skill` and `accord mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import ProjectOptions
from accord.cli.outputs import SKILL
from accord.cli.terminal import note, say


@command("skill")
def skill(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to write: SKILL.md, and scripts that call the commands."),
        SKILL,
    ] = None,
) -> None:
    """Print a skill for coding agents: a SKILL.md that says when and how to use the commands of Accord."""
    from accord.hosts.agents import skill as skills

    if out is None:
        say(skills.skill_text().rstrip())
        return
    for path in skills.write_skill(out):
        note(f"written: {path}")


@command("mcp")
def mcp(options: ProjectOptions) -> None:
    """Serve results of the project to agents by the Model Context Protocol, on standard input and output.

    Tools: why_score, worst_conversations, agreement, next_to_label. No tool writes, asks a model or costs money.
    Texts of conversations are returned only if a call asks for them.
    """
    from accord.hosts.agents.mcp import serve_stdio

    options.load()
    serve_stdio(options.load)
