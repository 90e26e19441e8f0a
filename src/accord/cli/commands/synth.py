"""`accord synth`: generate synthetic conversations and compare them with real ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import AsJson, ConfigFile, MaxMoney, MaxRequests, MaxTokens, Setting, open_project
from accord.cli.outputs import SYNTHETIC
from accord.cli.terminal import Progress, cost_text, note, show, spending, table

_SHOWN = 12


@command("synth")
def synth(
    topics: Annotated[
        str | None,
        typer.Option("--topics", metavar="FILE|N", help="Topics: a file, or the number of topics to generate."),
    ] = None,
    personas: Annotated[
        str | None, typer.Option("--personas", metavar="FILE|N", help="Who asks: a file, or how many to write.")
    ] = None,
    documents: Annotated[
        str | None, typer.Option("--documents", help="What assistants read: a folder of texts, or a file of rows.")
    ] = None,
    how: Annotated[
        list[str] | None,
        typer.Option("--how", help="DS1 to DS5; repeat. Default: all that topics and documents allow."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Conversations of each way; default: one for each topic.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write them to this file: .jsonl."), SYNTHETIC
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print requests and cost at the most; ask nothing.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Make none: say how unlike real conversations they are, and by what."),
    ] = False,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_money: MaxMoney = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Generate synthetic conversations in five ways; models play the user and the assistant (DS1 to DS5).

    They are kept in the store as each is finished, marked, and counted nowhere unless --synthetic asks for them. Run
    again, the command goes on from where it was, and nothing is paid twice.
    """
    changes: dict[str, Any] = {
        "topics": _named(topics), "personas": _named(personas), "documents": documents, "methods": how or None,
        "count": count,
    }  # fmt: skip
    with open_project(config_file, settings, creates=True) as project:
        project.cap(requests=max_requests, tokens=max_tokens, money=max_money)
        if check:
            if how and len(how) > 1:
                stop("--check compares those of one way, or of all: name one --how, or none", 1)
            show(project.check_synth(how[0] if how else None).to_json(), as_json, _unlike_text)
            return
        if plan:
            show(project.plan_synth(**changes).to_json(), as_json, _plan_text)
            return
        total = project.plan_synth(**changes).steps if sys.stderr.isatty() else None
        with spending(project.budget), Progress("replies", total) as progress:
            done = project.synth(out, progress.step, **changes)
        show(done.to_json(), as_json, _text)
    for reason, detail in done.examples.items():
        note(f"{reason}: {detail}")
    _stop_where_some_are_missing(done.lost)


def _stop_where_some_are_missing(lost: Mapping[str, int]) -> None:
    from accord.edges import BudgetReached
    from accord.models import OUT_OF_BUDGET

    if OUT_OF_BUDGET in lost:
        raise BudgetReached(
            "the budget is spent; completed conversations are saved. Run again with a larger one to continue."
        )
    if lost:
        stop("some conversations came to nothing, each with its reason; run the command again to try", PARTLY_UNSCORED)


def _named(value: str | None) -> str | int | None:
    from accord.edges import parse_whole_number

    number = None if value is None else parse_whole_number(value)
    return value if number is None else number


def _plan_text(result: Mapping[str, Any]) -> str:
    known = f"{result['questions']} replies at most, {result['answered']} already generated"
    return f"{known}\n{cost_text(result)}"


def _text(result: Mapping[str, Any]) -> str:
    about = f"{result['planned']} planned about {result['topics']} topics"
    about += f", {result['personas']} personas" if result["personas"] else ""
    by = ", ".join(f"{count} {how}" for how, count in result["systems"].items())
    lines = [
        f"{result['made']} conversations made, {result['there']} there before, of {about}",
        f"  there are now: {by or 'none'}",
    ]
    lines += [f"  {result['duplicates']} left out: nearly the same as another one"] if result["duplicates"] else []
    lines += [f"  {count} lost: {reason}" for reason, count in result["lost"].items()]
    if result["left_out"]:
        lines.append(f"  not made: {', '.join(result['left_out'])}; topics or documents for them are not named")
    lines += [f"  written to {result['out']}"] if result["out"] else []
    return "\n".join([*lines, "They count in no figure unless asked for: --synthetic with"])


def _unlike_text(result: Mapping[str, Any]) -> str:
    rows = [
        [row["metric"], f"{row['synthetic']:.3g}", f"{row['real']:.3g}", f"{row['effect']:+.2f}",
         f"{row['higher']:.0%}", f"{row['p_holm']:.3f}"]
        for row in result["features"][:_SHOWN]
    ]  # fmt: skip
    header = ["metric", "synthetic", "real", "effect (SD)", "higher in", "p (Holm)"]
    rest = len(result["features"]) - len(rows)
    said = result["summary"][:1].upper() + result["summary"][1:]
    about = "AUC: of a synthetic and a real one, how often a classifier finds the synthetic one; 95 % interval"
    more = [f"{rest} more metrics in --json"] if rest > 0 else []
    return "\n".join([said, about, "", table(header, rows), *more])
