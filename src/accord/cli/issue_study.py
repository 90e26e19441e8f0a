"""`accord judge --issues` and `accord fit issues`: find what is wrong in turns, and learn what people make of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.cli.app import PARTLY_UNSCORED, stop
from accord.cli.show import Progress, comparison_text, cost_text, figure_text, note, show, spent_text, table

if TYPE_CHECKING:
    from accord.cli.options import Project
    from accord.values import Conversation

NOT_PEOPLE = "a speaker that is no person"


class Chosen(NamedTuple):
    """Which dialogues are assessed, and in which order."""

    longest: bool = False
    people: bool = False
    wordnet: Path | None = None


def judge_issues(
    project: Project, everything: bool, limit: int | None, chosen: Chosen, plan: bool, as_json: bool
) -> None:
    """Have turns assessed by whoever finds issues in a project; or price it."""
    from accord.pipeline import issues as finding
    from accord.pipeline import judging_options, plan_issues

    finding.issues_config(project.config)
    wanted = list(_wanted(project, everything, chosen, limit))
    models, store, config = project.models, project.store, project.config
    if plan:
        show(plan_issues(store, config, wanted, models, project.budget).to_json(), as_json, _plan_text)
        return
    try:
        with Progress("turns judged" if models.issue_judge else "dialogues assessed") as progress:
            if models.issue_judge is not None:
                terms = judging_options(config)
                counts = finding.judge_issues(store, config, models.issue_judge, wanted, terms, progress.step)
            else:
                if models.finder is None:
                    stop("assessments that were recorded are imported, not asked for: accord import FILE", 1)
                counts = finding.find_issues(store, config, models.finder, wanted, progress.step)
    finally:
        spent = project.budget.to_json()
        if spent["requests"]:
            print(f"spent: {spent_text(spent)}", file=sys.stderr)
    show({**counts.to_json(), "spent": spent}, as_json, _text)
    if not wanted and not everything:
        note("nobody has rated or marked a conversation yet, so none was assessed; --all takes every one")
    for odd, count in counts.odd.items():
        note(f"{count} dialogues have {odd}; their turns were assessed all the same")
    if counts.unassessed:
        stop("some turns stayed without an assessment; run the command again to ask for them alone", PARTLY_UNSCORED)


def _wanted(project: Project, everything: bool, chosen: Chosen, limit: int | None) -> Iterator[Conversation]:
    """The conversations to look at: all, or those that somebody labelled; the largest first, if so wished."""
    from accord.methods import Speakers, largest

    store = project.store
    names: Iterable[str] = (
        store.conversation_ids() if everything else {target.conversation for target in store.labels().targets}
    )
    found: Iterable[Conversation] = store.conversations(names)
    if chosen.people or chosen.wordnet is not None:
        speakers = Speakers.from_wordnet(chosen.wordnet) if chosen.wordnet is not None else Speakers()
        found = _noted(found, speakers.only_people)
    return islice(largest(found) if chosen.longest else found, limit)


def _noted(found: Iterable[Conversation], keep: Any) -> Iterator[Conversation]:
    left_out = 0
    for conversation in found:
        if keep(conversation):
            yield conversation
        else:
            left_out += 1
    if left_out:
        note(f"{left_out} dialogues with {NOT_PEOPLE} were left out")


def fit_issues(project: Project, folder: Path, as_json: bool) -> None:
    """Learn from ratings and marks, print how well both are predicted, and keep the evaluator."""
    from accord.pipeline import learn_issues

    with project.store.run("fit", project.config.shown()) as run:
        study = learn_issues(project.store, project.config, project.rubric, project.models)
        study.evaluator.save(folder)
        run.results.update(study.to_json(), folder=str(folder))
    show(run.results, as_json, _fitted)
    for caution in run.results["cautions"]:
        note(caution)


_COLUMNS = {"precision": "precision", "recall": "recall", "f1": "F1", "alpha": "α", "calibration_error": "smECE"}


def _fitted(result: Mapping[str, Any]) -> str:
    parts = [] if result["comparison"] is None else [comparison_text(result["comparison"])]
    rows = result["marks"]
    if rows:
        lines = [
            [f"{row['issue']}: {row['system']}", str(row.get("marks", "")), *(_cell(row, name) for name in _COLUMNS)]
            for row in rows
        ]
        parts.append("Marks of issues, on conversations that were not learned from; 95 % intervals")
        parts.append(table(["issue", "marks", *_COLUMNS.values()], lines))
    parts.append(f"saved in {result['folder']}")
    return "\n\n".join(parts)


def _cell(row: Mapping[str, Any], name: str) -> str:
    return figure_text(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high"))


def _text(result: Mapping[str, Any]) -> str:
    lines = [
        f"{result['dialogues']} dialogues with {result['turns']} turns to assess, {result['known']} of them assessed "
        f"before: {result['assessed']} assessed now, {result['issues']} issues found"
    ]
    if result["made_up_quotes"]:
        lines.append(
            f"  {result['made_up_quotes']} issues quote words that their turn does not have, and are marked so"
        )
    lines += [f"  {count} turns passed over: {reason}" for reason, count in result["skipped"].items()]
    lines += [f"  {count} parts of replies lost: {reason}" for reason, count in result["losses"].items()]
    lines += [f"  {count} without an assessment: {reason}" for reason, count in result["unassessed"].items()]
    return "\n".join(lines)


def _plan_text(plan: Mapping[str, Any]) -> str:
    about = f"{plan['samples']} to look at, {plan['questions']} to answer for, {plan['answered']} of them done already"
    return f"{about}\n{cost_text(plan)}"
