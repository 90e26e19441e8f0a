"""`accord cycle`: the weekly job in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import ReadingOptions, StatisticsOptions, column_map
from accord.cli.outputs import CYCLE
from accord.cli.terminal import note, stage
from accord.edges import GateFailed, count_of


@command("cycle")
def cycle(
    reading: ReadingOptions,
    options: StatisticsOptions,
    sources: Annotated[
        list[Path],
        typer.Argument(help="Conversations to import and score; then files to import only, such as new labels."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the page, the scores, the card and the report."), CYCLE
    ] = Path("accord-cycle"),
    max_fall: Annotated[
        float, typer.Option("--max-fall", min=0.0, help="As for `accord gate`; 0 fails on every fall that is stated.")
    ] = 0.0,
    min_mean: Annotated[float | None, typer.Option("--min-mean", help="As for `accord gate`.")] = None,
    min_within: Annotated[float | None, typer.Option("--min-within", help="As for `accord gate`.")] = None,
    allow_unproven: Annotated[bool, typer.Option("--allow-unproven", help="As for `accord gate`.")] = False,
    card: Annotated[
        Path, typer.Option("--card", help="Earlier agreement card, which the new one is compared with.")
    ] = Path("agreement-card.json"),
    report: Annotated[
        bool,
        typer.Option("--report/--no-report", help="Write the card and the report, which fit the evaluator again."),
    ] = True,
) -> None:
    """Do the weekly job: import, score, watch, gate, card diff and report, with one page and one exit code.

    The exit code is 3 if a condition of the gate is not met, else 5 if conversations stayed without a score, else 0. To
    label some of a batch that fell: accord label next --for change.
    """
    from accord.decisions import LEFT
    from accord.verbs import CycleOptions, run_cycle

    with options.open_counted() as project:
        note(f"evaluator: {project.evaluator_in_use}")
        done = run_cycle(
            project, sources, out, CycleOptions(max_fall, min_mean, min_within, allow_unproven, card, report), stage,
            format=reading.format, columns=column_map(reading.columns, project.rubric), roles=reading.role_map,
            skip_bad_rows=reading.skip_bad_rows,
        )  # fmt: skip
        options.show(done.to_json(), lambda _: f"{done.text()}\n\npage in {done.files[0]}")
    if done.failed:
        raise GateFailed(f"gate failed: {len(done.failed)} of {count_of(len(done.checks), 'condition')} not met")
    if set(done.scored.counts.unscored) - {LEFT}:
        stop("some conversations stayed unscored, each with its reason in the scores", PARTLY_UNSCORED)
