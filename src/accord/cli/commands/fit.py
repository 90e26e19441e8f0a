"""`accord fit`: learn an evaluator from the labels, say how well it does on conversations it has not seen, save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.in_context_study import Wanted, fit_in_context
from accord.cli.issue_study import fit_issues
from accord.cli.options import AsJson, ConfigFile, MaxMoney, MaxRequests, MaxTokens, evaluator_folder, open_project
from accord.cli.rubric_study import fit_rubric
from accord.cli.show import comparison_text, show


@command("fit")
def fit(
    method: Annotated[str | None, typer.Argument(help="An evaluator's name; default the project's.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to save it in; default evaluators/METHOD.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="learned-rubric: select from this rubric in place of writing one.")
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--given", help="learned-rubric: a rubric to compare with; repeat.")
    ] = None,
    dimension: Annotated[
        str | None, typer.Option("--dimension", help="in-context: the question to score; default the main one.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="in-context: a YAML file of prompts that enter the contest.")
    ] = None,
    tables: Annotated[
        bool,
        typer.Option(
            "--tables", help="learned-rubric: also SPUR's rubric and without DS, CDP, both; in-context: every system."
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="learned-rubric, in-context: what it would cost; asks nothing.")
    ] = False,
    max_requests: MaxRequests = None,
    max_tokens: MaxTokens = None,
    max_money: MaxMoney = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Learn from every label; prints cross-validated agreement with intervals.

    `issues` learns from what was found in turns (accord judge --issues), and from people's marks of issues too.
    `in-context` writes prompts and learns which rated examples to show a model.
    `learned-rubric` writes a rubric from good and bad conversations first, and is tried on a part that it has not seen.
    """
    from accord.config import EvaluatorConfig
    from accord.learning import InContext, Issues, LearnedRubric, evaluators
    from accord.pipeline import learn_unlabelled, try_out
    from accord.values import BadInput

    with open_project(config_file) as project:
        config = project.config
        method = method or config.evaluator.method
        if method != config.evaluator.method:
            config = config.model_copy(update={"evaluator": EvaluatorConfig(method=method)})
        folder = out or evaluator_folder(method)
        _check_options(method, {"--pool": pool, "--given": given}, LearnedRubric.method)
        _check_options(method, {"--dimension": dimension, "--prompts": prompts}, InContext.method)
        if method == LearnedRubric.method:
            project.cap(requests=max_requests, tokens=max_tokens, money=max_money)
            fit_rubric(project, folder, pool, given or (), tables, plan, as_json)
            return
        if method == InContext.method:
            project.cap(requests=max_requests, tokens=max_tokens, money=max_money)
            fit_in_context(project, out, Wanted(dimension, prompts, tables), plan, as_json)
            return
        if tables or plan:
            raise BadInput(f"--tables and --plan are for learned-rubric and in-context; {method!r} asks no model")
        if method == Issues.method:
            project.config = config
            fit_issues(project, folder, as_json)
            return
        if not evaluators.get(method).needs_labels and not len(project.store.labels().on(project.rubric.main)):
            learned, count = learn_unlabelled(project.store, config, project.rubric, project.models)
            learned.save(folder)
            result = {"evaluator": learned.describe(), "conversations": count, "folder": str(folder)}
            show(result, as_json, _unlabelled)
            return
        with project.store.run("fit", config.shown()) as run:
            trial = try_out(project.store, config, project.rubric, project.models)
            trial.evaluator.save(folder)
            run.results.update(comparison=trial.comparison.to_json(), evaluator=trial.evaluator.describe())
            run.results.update(folder=str(folder))
        show(
            run.results, as_json, lambda found: f"{comparison_text(found['comparison'])}\n\nsaved in {found['folder']}"
        )


def _check_options(method: str, given: dict[str, object], of: str) -> None:
    """Refuse options of one method with another."""
    from accord.values import BadInput

    if method != of and any(given.values()):
        raise BadInput(f"{' and '.join(given)} are for {of}, not for {method!r}")


def _unlabelled(result) -> str:  # type: ignore[no-untyped-def]
    return (
        f"learned from {result['conversations']} conversations without a label; how far it agrees with people "
        f"cannot be said before some have rated\n\nsaved in {result['folder']}"
    )
