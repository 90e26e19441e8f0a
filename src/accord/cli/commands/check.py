"""Check of a judge in any table: `accord check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson
from accord.cli.outputs import AGREEMENT_CARD, CHECK, DISPUTED
from accord.cli.terminal import note, say, show
from accord.edges import BadInput, GateFailed


@command("check")
def check(
    table: Annotated[Path, typer.Argument(help="Table: CSV, Excel, Parquet, JSON lines; a row per judged item.")],
    judge: Annotated[
        list[str] | None, typer.Option("--judge", help="Column with the judge's scores; repeat for runs of one judge.")
    ] = None,
    human: Annotated[
        list[str] | None,
        typer.Option("--human", "--rater", help="Column with labels of people; repeat for several people."),
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
    order: Annotated[
        str | None,
        typer.Option(
            "--order", metavar="A>B>C", help="Order of the words of the labels, the highest first; default: known ones."
        ),
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option("--at-least", help="Fail (exit 3) if the lower bound of agreement (κ, else r) is below this."),
    ] = None,
    need: Annotated[
        str | None,
        typer.Option("--need", help="Say if the judge is good enough: kappa=.6, or tpr=.9,tnr=.8; else labels to add."),
    ] = None,
    confidence: Annotated[
        str | None, typer.Option("--confidence", help="Column with the judge's confidence; higher is surer.")
    ] = None,
    error: Annotated[
        float, typer.Option("--error", help="Largest share of errors in the rows that the judge decides alone.")
    ] = 0.05,
    min_share: Annotated[
        float | None,
        typer.Option("--min-share", help="Fail (exit 3) if the judge may decide a smaller share of the rows alone."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", help="Also write the rows where the judge and a person differ: .csv, .jsonl, .parquet."),
        DISPUTED,
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the result to this file: .html, .json or .md."), CHECK
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
    from accord.decisions import write_card
    from accord.report import check_ending, write_check
    from accord.table_check import card_of_check, check, check_at_least, check_share, write_rows

    if min_share is not None and not 0 < min_share <= 1:
        raise BadInput(f"--min-share {min_share:g}: the smallest share is above 0 and at most 1; for example .5")
    if labels_by != "people" and card is None:
        raise BadInput(f"--labels-by {labels_by} is for the agreement card; name it, too: --card FILE.json")
    if out is not None:
        check_ending(out)
    result = check(
        table, judge=judge, human=human, system=system, item=item, group=group, length=length, yes=yes,
        threshold=threshold, width=width, tuned=tuned, order=order, confidence=confidence, error=error, need=need,
    )  # fmt: skip
    gates = [] if at_least is None else [check_at_least(result, at_least)]
    gates += [] if min_share is None else [check_share(result, min_share)]
    made = None if card is None else card_of_check(result, labels_by)
    files = [] if rows is None else [rows]
    if rows is not None:
        write_rows(result, rows)
    if out is not None:
        files.append(write_check(result, out))
    files += [] if card is None or made is None else write_card(made, card)
    passed, text = all(each for each, _ in gates), "; ".join(text for _, text in gates)
    if as_json:
        show({**result.to_json(), **({"gate": {"passed": passed, "text": text}} if gates else {})}, True, str)
    else:
        say(str(result))
    if files:
        note(f"written to {', '.join(map(str, files))}")
    if not passed:
        raise GateFailed(f"gate failed: {text}")
    for _, each in gates:
        say(each, is_aside=as_json)
