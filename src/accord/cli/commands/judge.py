"""`accord judge`: ask the sources that need a model; every answer is kept as soon as it is there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import AsJson, ConfigFile, MaxMoney, MaxRequests, MaxTokens, Setting, Synthetic, open_counted
from accord.cli.terminal import Progress, note, plan_text, show, spending
from accord.edges import one_line

if TYPE_CHECKING:
    from accord.project import BatchRun, JudgeRun


@command("judge")
def judge(
    source: Annotated[
        list[str] | None,
        typer.Option("--source", help="Only this source, such as rubric, likelihood or issues; repeat."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Judge every conversation, not only the rated ones.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Judge at most this many.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print requests and cost; ask nothing.")] = False,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Use the provider's batch files: submit now, fetch later with the same command."),
    ] = False,
    longest: Annotated[
        bool, typer.Option("--longest", hidden=True, help="Start with the dialogues that have the most turns.")
    ] = False,
    people: Annotated[
        bool, typer.Option("--people", hidden=True, help="Leave out dialogues in which an animal or a thing speaks.")
    ] = False,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_money: MaxMoney = None,
    synthetic: Synthetic = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask the project's models for evidence. Answers are kept; running it again continues where it stopped."""
    from accord.edges import BadInput
    from accord.models import NOT_RECORDED
    from accord.project import JudgeSelection, judge_in_batches

    selection = JudgeSelection(everything, limit, longest, people)
    with open_counted(config_file, synthetic, settings) as project:
        project.cap(requests=max_requests, tokens=max_tokens, money=max_money)
        for model in {each.model or "" for role, each in project.config.models.items() if role == "judge"}:
            _warn_of_small(model)
        if plan:
            show(project.plan_judge(source or (), selection).to_json(), as_json, plan_text)
            return
        if batch:
            if source:
                raise BadInput("--batch asks the judge of the rubric; leave out --source")
            _brought(judge_in_batches(project, selection), as_json)
            return
        total = project.plan_judge(source or (), selection).steps if sys.stderr.isatty() else None
        stopped: list[JudgeRun] = []
        try:
            with spending(project.budget), Progress("judged", total) as progress:
                done = project.judge(source or (), selection, progress.step, stopped.append)
        finally:
            for partial in stopped:
                show(partial.to_json(), as_json, lambda _: _text(stopped[0]))
        show(done.to_json(), as_json, lambda _: _text(done))
        if not done.samples and not everything:
            note("no conversation has ratings, so none was judged; use --all to judge all conversations")
        for line in [*(f"{count} dialogues: {why}" for why, count in done.excluded.items()), *_notices(done)]:
            note(line)
        silent = done.unanswered.get(NOT_RECORDED, 0)
        if silent:
            note(f"{silent} questions have no recorded answer and stay missing evidence")
        if done.failed or done.not_asked:
            stop("some questions stayed unanswered; run the command again to ask for them alone", PARTLY_UNSCORED)


def _brought(run: BatchRun, as_json: bool) -> None:
    """Print the fetched results and the submitted batches."""
    from accord.models import IN_BATCH

    show(run.to_json(), as_json, lambda _: _batch_text(run))
    if IN_BATCH in run.judged.unanswered:
        stop("some answers are still to come; the same command fetches them", PARTLY_UNSCORED)
    if run.judged.unanswered:
        stop("some questions stayed unanswered, each with its reason", PARTLY_UNSCORED)


def _batch_text(run: BatchRun) -> str:
    from accord.models import UNCONFIRMED

    lines = [_text(run.judged), f"{run.submitted} requests submitted now"]
    for each in run.batches:
        done = f"{each.total} prompts" if each.status == UNCONFIRMED else f"{each.completed} of {each.total} done"
        lines.append(f"{each.id}: {each.status}, {done}{each.says and f', {each.says}'}")
    lines += [f"  {count} requests of finished batches failed: {reason}" for reason, count in run.failed.items()]
    return "\n".join(lines)


def _warn_of_small(model: str) -> None:
    """A small model's likelihoods are good evidence; its verdicts are not."""
    if model.startswith("embedded:"):
        note(
            f"{model} is too small to judge: asked to rate, it agrees with hardly anyone. Its likelihoods are the "
            f"evidence to use: models: {{likelihood: {{model: {model}}}}}"
        )


def _text(done: JudgeRun) -> str:
    left = f", {done.not_asked} not asked" if done.not_asked else ""
    sent = f"{done.spent['requests']} requests sent in this run"
    lines = [
        f"{done.samples} samples: {done.answered} answers ({sent}), {done.failed} failed{left}",
        *(f"  {source}: evidence on {count} samples" for source, count in done.known.items()),
    ]
    lines += [line for counts in done.counts.values() for line in counts.lines()]
    lines += [f"  {count} without an answer: {reason}" for reason, count in done.unanswered.items()]
    lines += [f"  one rejection: {one_line(done.rejection)}"] if done.rejection else []
    return "\n".join(lines)


def _notices(done: JudgeRun) -> list[str]:
    return [line for counts in done.counts.values() for line in counts.notices()]
