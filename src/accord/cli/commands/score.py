"""`accord score`: use a fitted evaluator on new conversations."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import (
    Annotator,
    AsJson,
    Columns,
    ConfigFile,
    EvaluatorFolder,
    Format,
    SkipBadRows,
    column_map,
    open_project,
)
from accord.cli.show import Progress, show


@command("score")
def score(
    source: Annotated[Path, typer.Argument(help="File of conversations.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .jsonl, .csv or .parquet.")],
    evaluator: EvaluatorFolder = None,
    annotator: Annotator = None,
    panel: Annotated[
        list[str] | None, typer.Option("--panel", help="Score for these trusted annotators; repeat.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", help="How the panel's scores are combined: each, mean, max or min.")
    ] = None,
    new_domain: Annotated[
        bool,
        typer.Option("--new-domain", help="The conversations come from a new domain: rely less on annotators' habits."),
    ] = False,
    ask: Annotated[
        int | None, typer.Option("--ask", min=1, help="Adaptive rubric: at most this many questions per conversation.")
    ] = None,
    until: Annotated[
        float,
        typer.Option(
            "--until", min=0.0, help="With --ask: stop once the standard deviation of the score is below this."
        ),
    ] = 0.0,
    loss: Annotated[
        str,
        typer.Option("--loss", help="Report the value with the lowest expected loss: squared, absolute or zero-one."),
    ] = "squared",
    turns: Annotated[
        str,
        typer.Option("--turns", help="For an evaluator of turns: score all replies, or the last of each conversation."),
    ] = "all",
    agree: Annotated[
        float | None,
        typer.Option(
            "--agree", help="Call good or bad only what agrees with people at least so often; leave the rest to them."
        ),
    ] = None,
    good: Annotated[
        float | None, typer.Option("--good", help="With --agree: the lowest answer that counts as good.")
    ] = None,
    certify: Annotated[
        Path | None,
        typer.Option("--certify", help="With --new-domain: fresh labels on which to try whether the bands hold there."),
    ] = None,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="With --certify: measure bands that do not hold anew, in place of stopping.")
    ] = False,
    config_file: ConfigFile = None,
    format: Format = "auto",
    columns: Columns = None,
    skip_bad_rows: SkipBadRows = False,
    as_json: AsJson = False,
) -> None:
    """Score conversations in batches; predicts an unseen annotator by default, see --annotator and --panel."""
    from accord.project import LEFT, Perspective, ScoreOptions

    with open_project(config_file) as project:
        speaker = Perspective.named(annotator, tuple(panel or ()), rule)
        options = ScoreOptions(new_domain, ask, until, loss, turns, agree, good, certify, adapt)  # type: ignore[arg-type]
        with Progress("scored") as progress:
            result = project.score(
                source, out, evaluator, speaker, options, format=format, columns=column_map(columns),
                skip_bad_rows=skip_bad_rows, on_scored=progress.at,
                on_total=progress.expect if sys.stderr.isatty() else None,
            ).to_json()  # fmt: skip
        show(result, as_json, _text)
        if set(result["unscored"]) - {LEFT}:
            stop("some conversations stayed unscored, each with its reason in the file", PARTLY_UNSCORED)


def _text(result: Mapping[str, Any]) -> str:
    mean = "–" if result["mean"] is None else f"{result['mean']:.3f}"
    lines = [f"{result['scored']} {result['level']}s scored, mean {mean}, in {result['out']}"]
    lines += [f"  {count} unscored: {reason}" for reason, count in result["unscored"].items()]
    lines += [f"  {result[name]['said']}" for name in ("selection", "certificate") if result.get(name)]
    lines += [f"  {count} with a warning: {warning}" for warning, count in result["warnings"].items()]
    lines += [f"  {result['drift_said']}"] if result.get("drift_said") else []
    lines += [f"  {row}" for row in result["bad_rows"]]
    return "\n".join(lines)
