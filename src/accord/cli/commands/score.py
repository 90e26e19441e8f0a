"""`accord score`: score new conversations with a fitted evaluator."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import (
    EvaluatorOptions,
    InTraining,
    ReadingOptions,
    ScoredTurns,
    StatisticsOptions,
    column_map,
)
from accord.cli.outputs import SCORES
from accord.cli.terminal import Progress, note
from accord.edges import MB, BadInput, count_of, one_line, read_text

if TYPE_CHECKING:
    from accord.decisions import Costs
    from accord.scoring import ScoreOptions
    from accord.values import ScoreRow
    from accord.verbs import Project


@dataclass(frozen=True)
class ScoringOptions:
    """Options on the values of scores."""

    new_domain: Annotated[
        bool,
        typer.Option("--new-domain", help="The conversations come from a new domain: rely less on annotators' habits."),
    ] = False
    ask: Annotated[
        int | None, typer.Option("--ask", min=1, help="Adaptive rubric: at most this many questions per conversation.")
    ] = None
    until: Annotated[
        float,
        typer.Option(
            "--until", min=0.0, help="With --ask: stop once the standard deviation of the score is below this."
        ),
    ] = 0.0
    loss: Annotated[
        str,
        typer.Option("--loss", help="Report the value with the lowest expected loss: squared, absolute or zero-one."),
    ] = "squared"
    costs: Annotated[
        str | None,
        typer.Option(
            "--costs",
            help="Report the option with the lowest expected cost: a CSV file or rows like '0,1,4;1,0,1;4,1,0'. A row "
            "is a reported option, a column a true one.",
        ),
    ] = None
    turns: ScoredTurns = "rated"
    agree: Annotated[
        float | None,
        typer.Option(
            "--agree", help="Call good or bad only what agrees with people at least so often; leave the rest to them."
        ),
    ] = None
    good: Annotated[
        float | None, typer.Option("--good", help="With --agree: the lowest answer that counts as good.")
    ] = None
    certify: Annotated[
        Path | None,
        typer.Option("--certify", help="With --new-domain: fresh labels on which to try whether the bands hold there."),
    ] = None
    adapt: Annotated[
        bool,
        typer.Option("--adapt", help="With --certify: compute new bands if the bands do not hold."),
    ] = False
    training: InTraining = False

    def options(self) -> ScoreOptions:
        """Return the options of scoring, which have the same names.

        Raises:
            BadInput: The costs are neither a file nor rows of numbers.
        """
        from accord.scoring import ScoreOptions

        return ScoreOptions(**vars(self) | {"costs": _costs(self.costs)})


@command("score")
def score(
    scoring: ScoringOptions,
    by: EvaluatorOptions,
    reading: ReadingOptions,
    project_options: StatisticsOptions,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="source", help="File of conversations; for a folder of parts also folders, globs, s3://."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="File to write: .jsonl, .csv, .parquet; or a folder of parts: scores/."),
        SCORES,
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Score the conversations of the board again, whose scores are by an earlier evaluator."
        ),
    ] = False,
    panel: Annotated[
        list[str] | None, typer.Option("--panel", help="Score for these trusted annotators; repeat.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", help="How the panel's scores are combined: each, mean, max or min.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="Into parts: score on `local` processes (the default) or on `ray`.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Number of processes for a folder of parts; default: one per core."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Into parts: score the I-th of N shares, from 1/N on.")
    ] = None,
) -> None:
    """Score conversations in batches; predicts an unseen annotator by default, see --annotator and --panel."""
    from accord.scoring import Execution, Perspective, Shard, parts
    from accord.store import scores_of_run

    speaker, options = Perspective.named(by.annotator, tuple(panel or ()), rule), scoring.options()
    if again:
        if sources or by.annotator or panel or engine or workers or shard:
            raise BadInput(
                "--again scores the texts of the board for a new annotator; leave out files, --annotator, --panel, "
                "--engine, --workers and --shard"
            )
        _again(by, out, options, project_options)
        return
    if not sources or out is None:
        stop(
            "name the conversations and the file of scores: accord score chats.jsonl --out scores.parquet. The texts "
            "of the board: accord score --again", 2,
        )  # fmt: skip
    names, roles, is_file = column_map(reading.columns), reading.role_map, _is_file(out)
    _check_place(is_file, out, sources, (engine, workers, shard), reading.skip_bad_rows)
    with project_options.open(creates=True) as project, Progress("scored") as progress:
        evaluator = by.folder_in(project)
        if is_file:
            done = project.score(
                sources[0], out, evaluator, speaker, options, skip_bad_rows=reading.skip_bad_rows,
                on_scored=progress.at, on_total=progress.expect if sys.stderr.isatty() else None,
                format=reading.format, columns=names, roles=roles,
            )  # fmt: skip
            with _events(project, evaluator) as send:
                send(partial(scores_of_run, project.mart, done.run))
        else:

            def on_progress(rows: int, expected: int) -> None:
                progress.expect(expected)
                progress.at(rows)

            execution = Execution(engine or "local", workers, Shard.parse(shard))
            with _events(project, evaluator) as send:
                made = project.score_parts(
                    sources, out, evaluator, speaker, options, execution, reading.format, names, on_progress, roles,
                    lambda folder, key: send(partial(parts.scored_rows, folder, key)),
                )  # fmt: skip
    note(f"evaluator: {evaluator}")
    if is_file:
        note(*done.role_notes)
        _end_of_file(done.to_json(), project_options)
    else:
        _end_of_parts(made.to_json(), project_options)


def _again(by: EvaluatorOptions, out: str | None, options: ScoreOptions, shown: StatisticsOptions) -> None:
    """Score the conversations of the board again, and print the result."""
    from accord.project import check_question
    from accord.scoring import score_again

    with shown.open() as project, Progress("scored") as progress:
        evaluator = by.folder_in(project)
        loaded = project.load(evaluator)
        check_question(project.store, project.rubric, loaded)
        expect = progress.expect if sys.stderr.isatty() else None
        done, left = score_again(project, loaded, out, options, progress.at, expect)
    note(f"evaluator: {evaluator}", *([left] if left else []))
    _end_of_file(done.to_json(), shown)


@contextmanager
def _events(project: Project, evaluator: Path) -> Iterator[Callable[[Callable[[], Iterable[ScoreRow]]], None]]:
    """Yield a function that reads scores and sends them as events if a collector is named; else it does not read."""
    from accord.hosts.otel import emit_rows, identity, open_events

    with open_events(project.config.monitoring.otel, note) as events:
        if events is None:
            yield lambda rows: None
            return
        scorer = project.load(evaluator)
        about = identity(scorer, project.store)
        yield lambda rows: emit_rows(events, scorer, about, rows())


def _costs(given: str | None) -> Costs | None:
    """Return the table of costs in a file or in the option itself."""
    from accord.decisions import parse_costs

    if given is None:
        return None
    if re.fullmatch(r"[-+\d.eE,;\s]*", given):
        return parse_costs(given, "--costs")
    try:
        return parse_costs(read_text(Path(given), MB), given)
    except FileNotFoundError:
        raise BadInput(
            f"--costs: {one_line(given, 80)!r} is neither a file nor rows of numbers, such as 0,1,4;1,0,1;4,1,0"
        ) from None


def _end_of_file(result: Mapping[str, Any], options: StatisticsOptions) -> None:
    from accord.decisions import LEFT

    options.show(result, _text)
    if set(result["unscored"]) - {LEFT}:
        stop("some conversations stayed unscored, each with its reason in the file", PARTLY_UNSCORED)


def _end_of_parts(result: Mapping[str, Any], options: StatisticsOptions) -> None:
    from accord.decisions import LEFT
    from accord.scoring import NOT_COUNTED

    options.show(result, _parts_text)
    if result["failed"]:
        stop(
            f"{count_of(len(result['failed']), 'part')} not made, each with its reason; the same command tries again",
            1,
        )
    if set(result["counts"]["unscored"]) - {LEFT, NOT_COUNTED} or result["counts"]["bad_rows"]:
        stop("some rows have no score, each with its reason in its part", PARTLY_UNSCORED)


def _is_file(out: str) -> bool:
    """Return True if `out` is a single file, which has a suffix; other names are folders of parts."""
    return bool(Path(out).suffix) and not out.endswith(("/", os.sep)) and not Path(out).is_dir()


def _check_place(
    is_file: bool, out: str, sources: Sequence[str], execution: tuple[object, ...], skip_bad_rows: bool
) -> None:
    """Check the options of one file of scores, or of a folder of parts."""
    from accord.formats import is_remote

    if not is_file:
        if skip_bad_rows:
            raise BadInput("parts hold bad rows with their reason, and never stop at one; leave out --skip-bad-rows")
        return
    if any(each is not None for each in execution):
        raise BadInput(
            f"--engine, --workers and --shard score into a folder of parts; got the file {out}: --out scores/"
        )
    if len(sources) > 1 or is_remote(sources[0]) or is_remote(out) or (
        not Path(sources[0]).exists() and set("*?[") & set(sources[0])
    ):  # fmt: skip
        raise BadInput(
            f"several files and objects of a store need a folder of parts, got the file {out}: --out scores/, then "
            "accord export FILE --scores scores/"
        )
    if Path(sources[0]).is_dir() and not (Path(sources[0]) / "items.jsonl.gz").is_file():
        first, second = ["accord", "score", sources[0], "--out", "scores/"], ["accord", "export", out]
        raise BadInput(
            f"{sources[0]} is a folder and {out} a file; score the folder into parts, then write them to the file: "
            f"{shlex.join(first)}, then {shlex.join([*second, '--scores', 'scores/'])}"
        )


def _parts_text(result: Mapping[str, Any]) -> str:
    counts = result["counts"]
    mean = "–" if counts["mean"] is None else f"{counts['mean']:.3f}"
    made = f"{count_of(result['made'], 'part')} made, {result['there']} were there, "
    made += f"{result['left']} left of {result['parts']}"
    lines = [f"{count_of(counts['scored'], result['level'])} scored, mean {mean}, in {result['out']}", f"  {made}"]
    if known := counts["in_training"]:
        lines.append(
            f"  {known:,} of {counts['rows']:,} rows are of conversations used in training; their scores are closer "
            "to the ratings than those of new ones will be (column `in_training`)"
        )
    lines += [f"  {count} unscored: {reason}" for reason, count in counts["unscored"].items()]
    lines += [f"  {count_of(counts['bad_rows'], 'bad row')}"] if counts["bad_rows"] else []
    lines += [f"  {count} with a warning: {warning}" for warning, count in counts["warnings"].items()]
    lines += [f"  {place}: {reason}" for place, reason in result["failed"].items()]
    return "\n".join([*lines, f"  {result['plausibility']}"])


def _text(result: Mapping[str, Any]) -> str:
    from accord.scoring import training_text

    mean = "–" if result["mean"] is None else f"{result['mean']:.3f}"
    lines = [f"{count_of(result['scored'], result['level'])} scored, mean {mean}, in {result['out'] or 'the board'}"]
    lines += [f"  {sentence}" for sentence in training_text(result)]
    lines += [f"  {count} unscored: {reason}" for reason, count in result["unscored"].items()]
    lines += [f"  {result[name]['said']}" for name in ("selection", "certificate") if result.get(name)]
    lines += [f"  {count} with a warning: {warning}" for warning, count in result["warnings"].items()]
    if result["left_out"]:
        lines.append(f"  {result['left_out']} left out by --synthetic, which counts others: without, with or only")
    lines += [f"  {result['drift_said']}"] if result.get("drift_said") else []
    if change := result.get("change"):
        lines += [f"  {line}" for line in change["lines"]]
    lines += [f"  {result['plausibility']}", *(f"  {row}" for row in result["bad_rows"])]
    return "\n".join(lines)
