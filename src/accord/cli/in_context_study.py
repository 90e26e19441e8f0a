"""`accord fit in-context`: write prompts, learn which examples to show, try it on new ones, keep it as plain files."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.cli.app import PARTLY_UNSCORED, stop
from accord.cli.options import evaluator_folder
from accord.cli.show import Stages, cost_text, figure_text, note, rows_text, show, spent_text, table

if TYPE_CHECKING:
    from accord.cli.options import Project
    from accord.methods import TaskPrompt
    from accord.pipeline import InContextModels, InContextStudy
    from accord.values import Question


class Wanted(NamedTuple):
    """What is learned: of which dimension, with which prompts by hand, beside which other systems."""

    dimension: str | None = None
    prompts: Path | None = None
    tables: bool = False


def fit_in_context(project: Project, out: Path | None, wanted: Wanted, plan: bool, as_json: bool) -> None:
    """Learn to score in context with what a project names, and print how well it does; or price it."""
    from accord.methods import FEW_SHOT
    from accord.pipeline import COMMAND, EVERY, findings, make_in_context, plan_in_context

    with closing(make_in_context(project.config, project.budget)) as models:
        question, prompts = _asked(project, wanted)
        beside = EVERY if wanted.tables else {FEW_SHOT}
        if plan:
            found = plan_in_context(project.store, project.config, models, question, prompts, beside)
            show(found.to_json(), as_json, _plan_text)
            return
        with project.store.run(COMMAND, project.config.shown()) as run:
            folder = out or folder_of(question.id, project.rubric.main)
            _check_folder(folder, question)
            study = _studied(project, models, question, prompts, beside)
            study.evaluator.save(folder)
            study.recipe.save(folder)
            run.results.update(findings(study, project.budget.to_json()), folder=str(folder))
    _tell(run.results, as_json)


def compare_in_context(project: Project, as_json: bool) -> None:
    """Every system of table 1 and every selector on the held-out side; nothing is kept but the replies."""
    from accord.pipeline import EVERY, findings, make_in_context

    with closing(make_in_context(project.config, project.budget)) as models:
        question, prompts = _asked(project, Wanted())
        with project.store.run("compare in-context", project.config.shown()) as run:
            study = _studied(project, models, question, prompts, EVERY)
            run.results.update(findings(study, project.budget.to_json()), folder=None)
    _tell(run.results, as_json)


def _asked(project: Project, wanted: Wanted) -> tuple[Question, list[TaskPrompt]]:
    """The dimension, and the prompts by hand of the command and of the project."""
    from accord.methods import load_tasks
    from accord.pipeline import dimension_of

    about = project.config.in_context
    question = dimension_of(project.rubric, wanted.dimension, project.store.labels())
    files = [path for path in (wanted.prompts, None if about is None else about.prompts) if path is not None]
    return question, [prompt for path in files for prompt in load_tasks(path)]


def _studied(
    project: Project,
    models: InContextModels,
    question: Question,
    prompts: Sequence[TaskPrompt],
    beside: Collection[str],
) -> InContextStudy:
    """The study, with its progress; what was spent is said even where it stops."""
    from accord.pipeline import learn_in_context

    with Stages() as stages:
        try:
            found = learn_in_context(
                project.store, project.config, models, question, prompts, beside, on_stage=stages.begin
            )
        finally:
            spent = project.budget.to_json()
            if spent["requests"]:
                print(f"spent: {spent_text(spent)}", file=sys.stderr)
    return found


def _tell(result: Mapping[str, Any], as_json: bool) -> None:
    show(result, as_json, _text)
    for caution in result["cautions"]:
        note(caution)
    if result["again"]:
        stop("some requests came to nothing; run the command again to ask for them alone", PARTLY_UNSCORED)


def folder_of(dimension: str, main: str) -> Path:
    """Where the evaluator of a dimension is put: that of the main question under the method's own name."""
    from accord.values import content_hash

    folder = evaluator_folder("in-context")
    plain = re.sub(r"\W+", "-", dimension.casefold()).strip("-") or content_hash(dimension, length=8)[5:]
    return folder if dimension == main else folder.with_name(f"{folder.name}-{plain}")


def _check_folder(folder: Path, question: Question) -> None:
    """Refuse to overwrite the evaluator of another dimension, before anything is paid for."""
    from accord.learning import load_evaluator, method_of
    from accord.values import BadInput

    if method_of(folder) is not None and (other := load_evaluator(folder).question.id) != question.id:
        raise BadInput(
            f"{folder} holds the evaluator of {other!r}; name another folder for {question.id!r}: --out FOLDER"
        )


def _plan_text(plan: Mapping[str, Any]) -> str:
    about = (
        f"{plan['samples']} rated examples, {plan['questions']} requests, {plan['answered']} of them answered already"
    )
    return f"{about}\n{cost_text(plan)}"


def _text(result: Mapping[str, Any]) -> str:
    parts = [
        f"{result['dimension']} ({result['level']}s): learned from {result['trained']} examples and {result['pairs']} "
        f"tried sets, tried on {result['tested']} others ({result['ratings']} ratings); 95 % intervals"
    ]
    prompts = [
        [prompt["hash"], prompt["by"], f"{prompt['error']:.4f}", "kept" if prompt["kept"] else ""]
        for prompt in result["prompts"][: result["kept"] + 3]
    ]
    parts.append(f"Prompts by squared error\n{table(['', 'by', 'error', ''], prompts)}")
    selectors = [
        [row["selector"] + (" *" if row["chosen"] else ""), *(_cell(row, name) for name in ("target", "gain"))]
        for row in result["selectors"]
    ]
    parts.append(
        "Who picks the examples: exp(-error) of the picked sets, and the gain over random ones (* is used)\n"
        + table(["", "exp(-error)", "gain"], selectors)
    )
    parts.append(rows_text([*result["rows"], *([result["people"]] if result["people"] else [])]))
    saved, folder = result["prefix_shared"], result["folder"]
    parts.append(f"{result['asked']} requests; {saved:.0%} of their text repeats the beginning of the one before")
    if folder is not None:
        parts[-1] += (
            f"\nevaluator, prompts.yaml and demonstrations.jsonl in {folder}\n"
            f"Next: accord score new.jsonl --evaluator {folder} --out scores.jsonl"
        )
    return "\n\n".join(parts)


def _cell(row: Mapping[str, Any], name: str) -> str:
    return figure_text(row[name], row[f"{name}_low"], row[f"{name}_high"], 3, 3)
