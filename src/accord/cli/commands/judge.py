"""`accord judge`: ask the rubric's questions about conversations; every answer is kept as soon as it is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.issue_study import Chosen, judge_issues
from accord.cli.options import AsJson, ConfigFile, MaxMoney, MaxRequests, MaxTokens, open_project
from accord.cli.show import Progress, cost_text, note, show, spent_text

if TYPE_CHECKING:
    from accord.cli.options import Project
    from accord.config import Config


@command("judge")
def judge(
    everything: Annotated[
        bool, typer.Option("--all", help="Judge every conversation, not the rated ones alone.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Judge at most so many.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what it would cost, and ask nothing.")] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Ask by the provider's batch files: hand in now, fetch by the same command.")
    ] = False,
    issues: Annotated[
        bool, typer.Option("--issues", help="Find what is wrong with each turn in place of asking the rubric.")
    ] = False,
    longest: Annotated[
        bool, typer.Option("--longest", help="issues: the dialogues with the most turns first.")
    ] = False,
    people: Annotated[
        bool, typer.Option("--people", help="issues: leave out dialogues in which an animal or a thing speaks.")
    ] = False,
    wordnet: Annotated[
        Path | None, typer.Option("--wordnet", help="issues: tell people by WordNet's files in this folder.")
    ] = None,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_money: MaxMoney = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an earlier run stopped: what the command always does.")
    ] = True,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask the project's judge. What is answered is not asked again: run it again to go on where it stopped.

    With --issues each turn is assessed: what is wrong, which words show it, how bad (`issues` in accord.yaml).
    """
    from accord.pipeline import judge_stored, plan_stored
    from accord.values import BadInput

    assert resume, "there is no other way to run it"
    with open_project(config_file) as project:
        project.cap(requests=max_requests, tokens=max_tokens, money=max_money)
        if issues and not batch:
            judge_issues(project, everything, limit, Chosen(longest, people, wordnet), plan, as_json)
            return
        if issues or longest or people or wordnet:
            raise BadInput("--longest, --people and --wordnet choose dialogues for --issues, which knows no --batch")
        models = project.models
        if models.judge is None and models.likelihood is None:
            raise BadInput(
                "the project names no judge; add one to accord.yaml: judge: {mode: logprobs, model: NAME}, "
                "or likelihood: {model: embedded:smollm2-135m}"
            )
        _warn_of_small(project.config)
        if plan:
            found = plan_stored(
                project.store, project.config, project.rubric, models, project.budget, everything, limit
            )
            show(found.to_json(), as_json, _plan_text)
            return
        if batch:
            _in_batches(project, everything, limit, as_json)
            return
        try:
            with Progress("judged") as progress:
                result = judge_stored(
                    project.store, project.config, project.rubric, models, everything, limit, progress.step
                )
        finally:
            spent = project.budget.to_json()
            if spent["requests"]:
                print(f"spent: {spent_text(spent)}", file=sys.stderr)
        show({**result, "spent": spent}, as_json, _text)
        if not result["samples"] and not everything:
            note("nobody has rated a conversation yet, so none was judged; --all judges every one")
        if result["unanswered"]:
            stop("some questions stayed unanswered; run the command again to ask for them alone", PARTLY_UNSCORED)


def _in_batches(project: Project, everything: bool, limit: int | None, as_json: bool) -> None:
    """Hand in what is not answered yet, and fetch what is."""
    from accord.models import IN_BATCH
    from accord.pipeline import judge_in_batches

    brought = judge_in_batches(
        project.store, project.config, project.rubric, project.budget, project.models.likelihood, everything, limit
    )
    show(brought, as_json, _batch_text)
    if IN_BATCH in brought["unanswered"]:
        stop("some answers are still to come; the same command fetches them", PARTLY_UNSCORED)
    if brought["unanswered"]:
        stop("some questions stayed unanswered, each with its reason", PARTLY_UNSCORED)


def _batch_text(result) -> str:  # type: ignore[no-untyped-def]
    lines = [_text(result), f"{result['handed_in']} requests handed in now"]
    lines += [f"{b['id']}: {b['status']}, {b['completed']} of {b['total']} done" for b in result["batches"]]
    lines += [f"  {count} requests of finished batches failed: {reason}" for reason, count in result["lost"].items()]
    return "\n".join(lines)


def _warn_of_small(config: Config) -> None:
    """A small model's likelihoods are good evidence; its verdicts are not."""
    if config.judge is not None and (config.judge.model or "").startswith("embedded:"):
        note(
            f"{config.judge.model} is too small to judge: asked to rate, it agrees with hardly anyone. "
            f"Its likelihoods are the evidence to use: likelihood: {{model: {config.judge.model}}}"
        )


def _text(result) -> str:  # type: ignore[no-untyped-def]
    lines = [f"{result['samples']} judged: {result['answered']} answers, {result['asked']} of them asked for now"]
    lines += [f"{result['measured']} with likelihoods"] if result["measured"] else []
    lines += [f"  {count} without an answer: {reason}" for reason, count in result["unanswered"].items()]
    return "\n".join(lines)


def _plan_text(plan) -> str:  # type: ignore[no-untyped-def]
    asked = plan["questions"] - plan["answered"]
    about = f"{plan['samples']} to judge, {plan['questions']} questions, {plan['answered']} of them answered already"
    return f"{about}\n{asked} questions to ask: {cost_text(plan)}"
