"""`accord fit`: learn an evaluator from the labels, evaluate it on held-out labels, and save it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.findings import fitted_text
from accord.cli.options import AsJson, ConfigFile, MaxMoney, MaxRequests, MaxTokens, Setting, Synthetic, open_counted
from accord.cli.outputs import EVALUATOR
from accord.cli.terminal import StageProgress, note, plan_text, show_each, spending

if TYPE_CHECKING:
    from accord.project import Fitted, Project


@command("fit")
def fit(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Evaluators of the project, or presets; default: the setting `evaluator`."),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="Compare all evaluators first, and fit the recommended one.")
    ] = False,
    question: Annotated[
        str | None, typer.Option("--question", help="Learn this question of the rubric instead of the main one.")
    ] = None,
    every_question: Annotated[
        bool,
        typer.Option("--every-question", help="Predict each question of the rubric, from evidence gathered once."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to save it in; default evaluators/NAME."),
        EVALUATOR,
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print requests and cost; ask nothing.")] = False,
    settings: Setting = None,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_money: MaxMoney = None,
    synthetic: Synthetic = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Learn from all labels and print held-out agreement with intervals.

    A source that pays to learn (a written rubric, prompts with examples) is tried on a part that it has not seen;
    everything else is cross-validated.
    """
    from accord.edges import BadInput

    with open_counted(config_file, synthetic, settings, question) as project:
        project.cap(requests=max_requests, tokens=max_tokens, money=max_money)
        if best and names:
            raise BadInput("--best finds the evaluator to fit; leave out its name")
        wanted = [_best(project)] if best else names or [project.config.evaluator]
        if every_question and question is not None:
            raise BadInput("--every-question learns all questions; leave out --question")
        if out is not None and len(wanted) > 1:
            raise BadInput(f"--out names one folder, and {len(wanted)} evaluators are to be fitted")
        if plan:
            show_each(map(project.plan_fit, wanted), as_json, lambda found: plan_text(found.to_json()))
            return
        lacking: list[str] = []
        show_each(_fitted(project, wanted, out, lacking, every_question), as_json, fitted_text)
        if lacking:
            stop("some requests came to nothing, each with its reason", PARTLY_UNSCORED)


def _best(project: Project) -> str:
    """The evaluator that a comparison says to use."""
    with StageProgress() as steps:
        found = project.compare(on_step=steps.stage)
    note(str(found.comparison.decision))
    return found.best


def _fitted(
    project: Project, names: Sequence[str], out: Path | None, lacking: list[str], every_question: bool
) -> Iterator[Fitted]:
    """Fit one after the other; `lacking` takes the names of those whose requests did not all succeed."""
    for name in names:
        with spending(project.budget), StageProgress() as steps:
            done = project.fit(name, out, steps, steps.stage, every_question)
        yield done
        for caution in done.cautions:
            note(caution)
        if done.retryable:
            note(f"{name}: {done.retryable} requests came to nothing; the same command asks for them alone")
            lacking.append(name)
