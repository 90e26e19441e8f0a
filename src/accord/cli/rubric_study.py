"""`accord fit learned-rubric`: write, select and try a rubric, and keep it beside the evaluator."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.cli.app import PARTLY_UNSCORED, stop
from accord.cli.options import RUBRIC_FILE
from accord.cli.show import Stages, cost_text, figure_text, note, show, spent_text, table

if TYPE_CHECKING:
    from accord.cli.options import Project

POOL_FILE = "pool.yaml"
_COLUMNS = {
    "delta_netsat": "ΔNetSAT", "yield_rate": "yield", "yield_deployed": "deployed", "precision_deployed": "right",
    "accuracy": "A", "precision": "P", "recall": "R", "f1": "F1",
}  # fmt: skip


def fit_rubric(
    project: Project, folder: Path, pool: str | None, given: Sequence[str], tables: bool, plan: bool, as_json: bool
) -> None:
    """Learn a rubric with what a project names, and print its tables; or price it."""
    from accord.models import PROSE
    from accord.pipeline import RubricModels, learn_rubric, plan_rubric
    from accord.pipeline.rubric_findings import COMMAND, findings
    from accord.values import dump_rubric, load_rubric

    named = None if pool is None else load_rubric(pool)
    others = {name: load_rubric(name) for name in dict.fromkeys(given)}
    with closing(RubricModels(project.config, project.store, project.budget, writes=named is None or tables)) as models:
        if plan:
            found = plan_rubric(
                project.store, project.config, project.rubric, models.endpoint, models.judge_for, project.budget,
                others, named, tables,
            )  # fmt: skip
            show(found.to_json(), as_json, _plan_text)
            return
        with Stages() as stages, project.store.run(COMMAND, project.config.shown()) as run:
            try:
                study = learn_rubric(
                    project.store, project.config, project.rubric, models.writer, models.judge_for, others, named,
                    tables, stages.begin,
                )  # fmt: skip
            finally:
                spent = project.budget.to_json()
                if spent["requests"]:
                    print(f"spent: {spent_text(spent)}", file=sys.stderr)
            stages.begin("adding up", None)
            study.evaluator.save(folder)
            (folder / RUBRIC_FILE).write_text(dump_rubric(study.rubric), encoding="utf-8")
            (folder / POOL_FILE).write_text(dump_rubric(study.everything), encoding="utf-8")
            flagged = [details for _, details in study.pool.flagged]
            run.results.update(findings(study, spent, project.config.seed), folder=str(folder))
    show(run.results, as_json, _text)
    for caution in run.results["cautions"]:
        note(caution)
    for details in flagged:
        note(f"left out an assertion that names {', '.join(details)}")
    again = [reason for reason in run.results["pool"]["failures"] if reason != PROSE]
    if again or any(row["unanswered"] for row in run.results["rows"]):
        stop("some prompts or answers came to nothing; run the command again to ask for them alone", PARTLY_UNSCORED)


def _plan_text(plan: Mapping[str, Any]) -> str:
    asked = plan["questions"] - plan["answered"]
    return f"{plan['samples']} labelled conversations; at most {asked} answers to ask for\n{cost_text(plan)}"


def _text(result: Mapping[str, Any]) -> str:
    from accord.pipeline import TABLES

    parts = [
        f"learned on {result['trained']} good and bad conversations, tried on {result['tested']} others; 95 % intervals"
    ]
    for number, title in TABLES.items():
        rows = [row for row in result["rows"] if row["table"] == number]
        if len(rows) > 1:
            lines = [[row["system"], *(_cell(row, name) for name in _COLUMNS)] for row in rows]
            parts.append(f"{title}\n{table(['', *_COLUMNS.values()], lines)}")
    width = max(len(one["id"]) for one in result["assertions"])
    listed = (f"{one['id']:{width}}  fails {one['fails']:4.0%}  {one['text']}" for one in result["assertions"])
    parts.append("Selected\n" + "\n".join(listed))
    folder = Path(result["folder"])
    parts.append(
        f"evaluator in {folder}, rubric in {folder / RUBRIC_FILE}, the whole pool in {folder / POOL_FILE}\n"
        f"Next: accord score new.jsonl --evaluator {folder} --out scores.jsonl; accord report"
    )
    return "\n\n".join(parts)


def _cell(row: Mapping[str, Any], name: str) -> str:
    digits = 1 if name == "delta_netsat" else 2
    return figure_text(row[name], row[f"{name}_low"], row[f"{name}_high"], digits, digits)
