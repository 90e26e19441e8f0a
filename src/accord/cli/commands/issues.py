"""`accord issues`: the issues found in turns, as numbers and as a page with plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, Setting, Synthetic, open_counted
from accord.cli.outputs import ISSUES_PAGE
from accord.cli.terminal import show


@command("issues")
def issues(
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write."), ISSUES_PAGE] = Path("issues.html"),
    synthetic: Synthetic = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Summarise the issues found in turns: kinds, scores, dialogues, systems, lowest turns, validation by people."""
    from accord.project import annotated_pairs, issues_of
    from accord.report import write_issues_page
    from accord.studies import load_outcomes
    from accord.validation import summarize_issues

    with open_counted(config_file, synthetic, settings) as project:
        pairs, taxonomy = annotated_pairs(project), issues_of(project).taxonomy
        annotations = [each for _, each in pairs]
        conversations = list({conversation.id: conversation for conversation, _ in pairs}.values())
        found, said = summarize_issues(annotations, conversations, taxonomy), load_outcomes(project)
        path = write_issues_page(found, annotations, conversations, taxonomy, out, said)
        lines = [*found.lines(), f"page in {path}"]
        result = {**found.to_json(), "validation": [each.to_json() for each in said], "page": str(path)}
        show(result, as_json, lambda _: "\n\n".join(lines))
