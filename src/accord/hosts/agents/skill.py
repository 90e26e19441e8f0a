"""A skill for coding agents: when and how to use the commands of Accord, as SKILL.md and as AGENTS.md."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

NAME = "accord"
DESCRIPTION = (
    "Checks whether an LLM judge agrees with human labels, scores conversations with evaluators that learned from a "
    "team's own ratings, explains scores, and gates releases, all with confidence intervals. Use it when the user has "
    "an accord.yaml, a table with a judge's scores and human labels, or conversations to evaluate."
)
EXIT_CODES = (
    (0, "success", "read the result"),
    (1, "invalid input", "follow the message on stderr"),
    (2, "usage: an unknown option or a missing value", "read `accord COMMAND --help`"),
    (3, "gate failed", "report the conditions that are not met; do not lower them"),
    (4, "budget reached", "ask the user for a larger budget; the same command continues"),
    (5, "partly unscored", "read the reasons in the column `unscored`"),
    (130, "interrupted", "run the same command again"),
)
SCRIPTS = {
    "check_table.sh": ("Check a judge against human labels: check_table.sh results.csv", "check"),
    "score.sh": ("Score conversations: score.sh new.jsonl --out scores.jsonl", "score"),
    "gate.sh": ("Check conditions, exit 3 if one is not met: gate.sh --min-within 0.3", "gate"),
    "next_labels.sh": ("List the labels to collect next: next_labels.sh --count 10", "label next"),
}
"""Scripts of the skill: their description, and the command that they call."""


def guide() -> str:
    """Return the guide for agents in Markdown, with the exit codes of the commands."""
    codes = "\n".join(f"| {code} | {meaning} | {step} |" for code, meaning, step in EXIT_CODES)
    return Template(files(__package__).joinpath("skill.md").read_text("utf-8")).substitute(EXIT_CODES=codes)


def skill_text() -> str:
    """Return the content of SKILL.md: name and description as front matter, then the guide."""
    return f"---\nname: {NAME}\ndescription: {DESCRIPTION}\nlicense: Apache-2.0\n---\n\n{guide()}"


def write_skill(folder: Path) -> list[Path]:
    """Write SKILL.md and scripts that call the commands into a folder, and return the files."""
    written = [folder / "SKILL.md"]
    lines = "\n".join(f"- `scripts/{name}`: {about}" for name, (about, _) in SCRIPTS.items())
    contents = {written[0]: f"{skill_text()}\n## Scripts\n\n{lines}\n"}
    for name, (about, command) in SCRIPTS.items():
        contents[folder / "scripts" / name] = f'#!/bin/sh\n# {about}\nexec accord {command} --json "$@"\n'
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")  # a shell reads no carriage returns
        if path.suffix == ".sh":
            path.chmod(0o755)
    return list(contents)
