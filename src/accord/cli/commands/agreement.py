"""Agreement of scores with annotators: `accord compare`, `label next`, `estimate`, `report` and `gate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command, command_group
from accord.cli.options import InTraining, StatisticsOptions
from accord.cli.outputs import GATE_FILE, ISSUES_PAGE, QUEUE, REPORT
from accord.cli.terminal import StageProgress, note, show_result, table
from accord.edges import BadInput, GateFailed


@command("compare")
def compare(
    options: StatisticsOptions,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this evaluator and the baselines; repeatable.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Also by group: system, annotator, judge-version, wording or a metadata entry; repeat."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print all evaluators and baselines with all statistics.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Learn in this many processes; default: one a core, at most four."),
    ] = None,
) -> None:
    """Compare every evaluator that can be made, the baselines and people, and recommend one.

    Sends no requests: evidence comes from the store, so run `accord judge` (and `accord fit`) before.
    """
    from accord.runtime import (
        WorkerPool,
    )

    with WorkerPool(jobs) as begun, options.open_counted() as project:
        with StageProgress() as steps:
            done = project.compare(only or (), by or (), begun, steps.stage)
        note(f"rated by: {project.raters_text()}")
        show_result(done, options.as_json, done.document(everything or options.as_json), details=everything)


label = command_group("label", "Decide which conversations annotators should label.")


@command("next", label)
def next_(
    options: StatisticsOptions,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="Number of labels to suggest.")] = 10,
    annotator: Annotated[
        list[str] | None,
        typer.Option("--annotator", help="Annotator who can label; repeat. Default: everyone who has labeled."),
    ] = None,
    purpose: Annotated[
        str,
        typer.Option(
            "--for",
            help="`evaluator`: labels that teach it most. `agreement`: a random sample stratified by score, which "
            "measures agreement most narrowly. `change`: such samples of the latest batch, whose scores changed, and "
            "of the earlier ones.",
        ),
    ] = "evaluator",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Also write them to this file: .csv, .jsonl or .parquet."),
        QUEUE,
    ] = None,
) -> None:
    """Suggest which conversation each annotator should label next to reduce prediction uncertainty most."""
    from accord.formats import QueueWriter

    if purpose not in ("evaluator", "agreement", "change"):
        raise BadInput(f"--for {purpose}: allowed are evaluator, agreement and change")
    with options.open_counted() as project:
        note(f"evaluator: {project.evaluator_in_use}")
        found = [each.to_json() for each in project.label_next(count, annotator or (), purpose)]  # type: ignore[arg-type]
        if out is not None:
            with QueueWriter(out) as writer:
                writer.write(found)
        options.show({"labels": found, "out": None if out is None else str(out)}, _label_text)


def _label_text(result: Mapping[str, Any]) -> str:
    reasons = any(row["reason"] for row in result["labels"])
    rows = [
        [
            row["conversation"] + ("" if row["turn"] is None else f"#{row['turn']}"),
            row["annotator"],
            "–" if row["gain"] is None else f"{row['gain']:.1%}",
            *([row["reason"] or ""] if reasons else []),
        ]
        for row in result["labels"]
    ]
    shown = table(["conversation", "annotator", "uncertainty reduced by", *(["why first"] if reasons else [])], rows)
    return shown + (f"\n\nto fill in: {result['out']}" if result["out"] else "")


@command("estimate")
def estimate(
    options: StatisticsOptions,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            metavar="FILE[=VERSION]",
            help="Scores of conversations that were not imported, a file of `accord score`; VERSION is their assistant "
            "version if the rows do not name it. Repeatable.",
        ),
    ] = None,
    difference: Annotated[
        float,
        typer.Option("--difference", help="Difference of two versions to plan labels for, in units of the scale."),
    ] = 0.2,
) -> None:
    """Each assistant version's mean rating with a valid interval, their differences, and the labels that these need."""
    with options.open_counted() as project:
        show_result(project.estimate(scores or (), difference), options.as_json)


@command("gaps")
def gaps(options: StatisticsOptions) -> None:
    """Find where people and the judge, or people among themselves, read the main question differently.

    Properties of conversations (metrics, kinds of issues, metadata) are tested with Holm's correction. A clause in the
    wording of the question can close a gap; after a change, the same command says whether it did.
    """
    with options.open_counted() as project:
        show_result(project.gaps(), options.as_json)


@command("report")
def report(
    options: StatisticsOptions,
    name: Annotated[
        str | None, typer.Argument(help="An evaluator of the project; default: the one fitted last.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write."), REPORT] = Path("report.html"),
    curve_draws: Annotated[
        int | None,
        typer.Option(
            "--curve-draws",
            min=1,
            max=1000,
            help="Random subsets at each share of the learning curve; default: `curve_draws` of accord.yaml, 1.",
        ),
    ] = None,
) -> None:
    """Write the report: a verdict, what to do next, agreement, errors with excerpts, calibration and drift."""
    from accord.report import write_report
    from accord.results import Section, Text, document_text

    with options.open_counted() as project:
        used = name or project.evaluator_in_use
        note(f"evaluator: {used}")
        fitted = project.fit_offline(used)
        path = write_report(project, out, fitted, curve_draws=curve_draws)
        link = path.resolve().as_uri()
        assert fitted.held_out is not None  # there is no report without it
        verdict = fitted.held_out.verdict
        found = verdict.document().with_sections(Section("", f"report in {path}", [Text(link)]))
        result = {"report": str(path), "verdict": verdict.to_json(), "document": found.to_json()}
        options.show(result, lambda _: document_text(found, details=True))


@command("gate")
def gate(
    options: StatisticsOptions,
    min_agreement: Annotated[
        float | None, typer.Option("--min-agreement", help="Minimum lower bound of r with people, from -1 to 1.")
    ] = None,
    min_within: Annotated[
        float | None,
        typer.Option("--min-within", help="Minimum lower bound of r with people within annotators, from -1 to 1."),
    ] = None,
    min_mean: Annotated[
        float | None,
        typer.Option("--min-mean", help="Minimum lower bound of the mean of the latest scores, on the scale."),
    ] = None,
    max_unscored: Annotated[
        float, typer.Option("--max-unscored", min=0, max=1, help="Maximum share of the latest scores that are missing.")
    ] = 0.0,
    max_fall: Annotated[
        float | None,
        typer.Option(
            "--max-fall",
            min=0.0,
            help="Fail if the latest batch of scores fell, unless the interval of the fall in people's ratings is "
            "within so many points.",
        ),
    ] = None,
    include_training: InTraining = False,
    card: Annotated[
        Path | None,
        typer.Option(
            "--card",
            help="Agreement card: fail if evaluator, rubric, models, ratings or conversations differ from it. "
            "--min-agreement and --min-within then apply to the card.",
        ),
    ] = None,
    require_refit: Annotated[
        bool,
        typer.Option(
            "--require-refit", help="Fail if the evaluator in use learned from conversations that were erased since."
        ),
    ] = False,
    allow_unproven: Annotated[
        bool,
        typer.Option(
            "--allow-unproven",
            help='Pass although the verdict is "not yet": the scores are not shown to be better than a constant guess.',
        ),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="JUnit file of the conditions, for CI systems."), GATE_FILE
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Markdown of the conditions, for a job page."), GATE_FILE
    ] = None,
) -> None:
    """Fail (exit 3) if the verdict is "not yet", or if comparison, scores or a card do not meet the given conditions.

    Agreement and mean pass if the lower bound of their 95% interval over conversations reaches the minimum. Scores of
    conversations that the evaluator learned from do not count, unless --include-training is given. With --min-mean or
    --max-fall, the change of the latest batch of scores is printed.
    """
    from accord.verbs import gate_checks, gate_text, write_gate

    with options.open() as project:
        checks = gate_checks(
            project, min_agreement, min_mean, max_unscored, min_within, include_training, card, require_refit,
            allow_unproven, max_fall,
        )  # fmt: skip
    write_gate(checks, junit, markdown)
    options.show({"checks": [each.to_json() for each in checks]}, lambda _: gate_text(checks))
    failed = sum(not each.passed for each in checks)
    if failed:
        raise GateFailed(f"gate failed: {failed} of {len(checks)} conditions not met")


@command("issues")
def issues(
    options: StatisticsOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write."), ISSUES_PAGE] = Path("issues.html"),
    from_comments: Annotated[
        bool,
        typer.Option(
            "--from-comments",
            help="Group the comments of people's ratings into failure modes instead, without a model; writes no page.",
        ),
    ] = False,
    embedder: Annotated[
        str,
        typer.Option(
            "--embedder", help="With --from-comments: also compare meanings by this local embedder, such as minilm-l6."
        ),
    ] = "",
) -> None:
    """Summarize the issues found in turns: kinds, scores, dialogues, assistant versions, lowest turns, validation."""
    from accord.project import corrected_pairs, group_comments, issues_of
    from accord.report import write_issues_page
    from accord.studies import load_outcomes
    from accord.validation import summarize_issues

    if embedder and not from_comments:
        raise BadInput("--embedder compares comments; add --from-comments")
    with options.open_counted() as project:
        if from_comments:
            show_result(group_comments(project, embedder), options.as_json, details=True)
            return
        pairs, taxonomy = corrected_pairs(project), issues_of(project).taxonomy
        annotations = [each for _, each in pairs]
        conversations = list({conversation.id: conversation for conversation, _ in pairs}.values())
        found, said = summarize_issues(annotations, conversations, taxonomy), load_outcomes(project)
        path = write_issues_page(found, annotations, conversations, taxonomy, out, said)
        lines = [*found.lines(), f"page in {path}"]
        result = {**found.to_json(), "validation": [each.to_json() for each in said], "page": str(path)}
        options.show(result, lambda _: "\n\n".join(lines))
