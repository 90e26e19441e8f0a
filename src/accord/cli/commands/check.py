"""Check of a judge in any table: `accord check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson
from accord.cli.outputs import AGREEMENT_CARD, CHECK
from accord.cli.terminal import note, say, show
from accord.edges import GateFailed


@command("check")
def check(
    table: Annotated[Path, typer.Argument(help="Table: CSV, Excel, Parquet, JSON lines; a row per judged item.")],
    judge: Annotated[
        list[str] | None, typer.Option("--judge", help="Column with the judge's scores; repeat for runs of one judge.")
    ] = None,
    human: Annotated[
        list[str] | None, typer.Option("--human", help="Column with labels of people; repeat for several people.")
    ] = None,
    system: Annotated[
        str | None, typer.Option("--system", help="Column that names the system of each row, or of one side of a pair.")
    ] = None,
    item: Annotated[str | None, typer.Option("--item", help="Column that names the item of each row.")] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Column of slices to test for bias; repeatable.")
    ] = None,
    length: Annotated[str | None, typer.Option("--length", help="Column with the length of what is judged.")] = None,
    yes: Annotated[str | None, typer.Option("--yes", help="Value of a two-valued label that counts as 1.")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Lowest score that counts as the upper value.")
    ] = None,
    width: Annotated[
        float | None,
        typer.Option("--width", help="Width of the mean's interval to plan labels for; default: half the present one."),
    ] = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="The judge was tuned on these labels; adds a warning.")
    ] = False,
    at_least: Annotated[
        float | None,
        typer.Option("--at-least", help="Fail (exit 3) if the lower bound of agreement (κ, else r) is below this."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the result to this file: .html or .json."), CHECK
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option("--card", help="Also write the judge's agreement card: this .json file, .md and .svg."),
        AGREEMENT_CARD,
    ] = None,
    labels_by: Annotated[
        str, typer.Option("--labels-by", help="`people`; `models` declares that the labels were made by models.")
    ] = "people",
    as_json: AsJson = False,
) -> None:
    """Check a judge against human labels in any table: agreement, the corrected mean, bias, and missing labels.

    Needs no project. Columns are recognized by their names and values; every choice is printed and has an option. A
    table with two responses per row and preferences is checked as pairs.
    """
    from accord.report import card_of_check, write_card, write_check
    from accord.table_check import check, check_at_least

    result = check(
        table, judge=judge, human=human, system=system, item=item, group=group, length=length, yes=yes,
        threshold=threshold, width=width, tuned=tuned,
    )  # fmt: skip
    gate = None if at_least is None else check_at_least(result, at_least)
    if out is not None:
        write_check(result, out)
    files = [] if card is None else write_card(card_of_check(result, labels_by), card)
    if as_json:
        verdict = {} if gate is None else {"gate": {"passed": gate[0], "text": gate[1]}}
        show({**result.to_json(), **verdict}, True, str)
    else:
        say(str(result))
    if out is not None or files:
        note(f"written to {', '.join(str(path) for path in (*((out,) if out else ()), *files))}")
    if gate is not None:
        if not gate[0]:
            raise GateFailed(f"gate failed: {gate[1]}")
        say(gate[1], is_aside=as_json)
