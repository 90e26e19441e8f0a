"""`accord issues`: what was found wrong with the turns, as numbers and as a page with plots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import figure_text, show, table


@command("issues")
def issues(
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("issues.html"),
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Summarise the issues found in turns: kinds, scores, dialogues, systems, lowest turns, validation by people."""
    from accord.cli.commands.validate import VALIDATION
    from accord.methods import statistics
    from accord.project import annotated_pairs, issues_of
    from accord.report import write_issues_page
    from accord.workbench import outcomes

    with open_project(config_file) as project:
        pairs, taxonomy = annotated_pairs(project), issues_of(project).taxonomy
        annotations = [each for _, each in pairs]
        conversations = list({conversation.id: conversation for conversation, _ in pairs}.values())
        found, said = statistics(annotations, conversations, taxonomy), outcomes(project, VALIDATION)
        path = write_issues_page(found, annotations, conversations, taxonomy, out, said)
        show({**found, "validation": said, "page": str(path)}, as_json, _text)


def _text(found: Mapping[str, Any]) -> str:
    rows = [
        [row["type"], str(row["turns"]), f"{row['share']:.1%}", figure_text(row["mean_score"], None, None),
         "critical" if row["critical"] else ""]
        for row in sorted(found["types"], key=lambda row: -row["turns"])
        if row["turns"]
    ]  # fmt: skip
    parts = [
        f"{found['turns']} turns of {found['dialogues']} dialogues; {found['without_issues']:.1%} without an issue",
        table(["kind", "turns", "share", "mean score", ""], rows) if rows else "",
        table(["score", "turns", "dialogues by mean", "by lowest"], _scores(found)),
    ]
    if len(found["by_system"]) > 1:
        rows = [
            [row["group"], str(row["turns"]), figure_text(row["mean_score"], None, None), f"{row['with_issues']:.1%}"]
            for row in found["by_system"]
        ]
        parts.append(table(["system", "turns", "mean score", "with issues"], rows))
    if found["quotes_made_up"]:
        parts.append(f"{found['quotes_made_up']} of {found['quotes']} quotes stand nowhere in their turn")
    parts.append(f"page in {found['page']}")
    return "\n\n".join(part for part in parts if part)


def _scores(found: Mapping[str, Any]) -> list[list[str]]:
    named = zip(found["scores"], found["dialogue_mean"], found["dialogue_minimum"], strict=True)
    return [[str(s["score"]), str(s["turns"]), str(m["dialogues"]), str(low["dialogues"])] for s, m, low in named]
