"""Human validation of a project's assessments: what is drawn, who is asked, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from accord.project import Project, annotated_pairs, issues_of
from accord.store import IssueAnnotations
from accord.values import BadInput
from accord.workbench.detection import detection_outcome
from accord.workbench.outcome import Outcome
from accord.workbench.overall import overall_outcome
from accord.workbench.participants import Participants
from accord.workbench.plan import DETECTION, Plan, eligible, flow_named, planned, read_plan, write_plan
from accord.workbench.study import Study

SAMPLES: Mapping[str, tuple[int, int]] = {"detection": (200, 3), "overall": (100, 5)}
"""By flow: turns, and answers each, as in the paper."""


def plan_file(folder: Path, flow: str) -> Path:
    """Where a flow's plan is kept."""
    return folder / f"{flow_named(flow).name}.json"


def open_study(
    project: Project,
    folder: Path,
    flow: str,
    count: int | None,
    per_turn: int | None,
    per_person: int,
    people: int | None,
) -> tuple[Study, Participants]:
    """The study that is under way in a folder, or a new one, drawn from everything that was assessed.

    Raises:
        BadInput: Nothing was assessed, the numbers do not fit, or another study is under way there.
        UnknownName: There is no such flow.
    """
    store, taxonomy, path = project.store, issues_of(project).taxonomy, plan_file(folder, flow)
    if path.exists():
        if count or per_turn or people:
            raise BadInput(f"{path} holds a study that is under way; leave out how to draw it, or name another --out")
        plan = read_plan(path)
    else:
        assessments = [each for _, each in annotated_pairs(project)]
        usual, answers = SAMPLES[flow]
        turns = count or min(usual, len(eligible(assessments)))
        plan = planned(flow, assessments, taxonomy, turns, per_turn or answers, per_person, people, project.config.seed)
    study = Study(plan, store, taxonomy)
    write_plan(plan, path)
    return study, Participants(folder / f"{flow}-seats.json", len(plan.slots))


def outcome(project: Project, plan: Plan) -> Outcome:
    """What came of a study so far."""
    store, seed = project.store, project.config.seed
    labels = store.labels()
    conversations = store.conversations({turn.conversation for turn in plan.turns})
    assessments = list(IssueAnnotations(store).of(conversations, plan.signature))
    if plan.flow == DETECTION:
        return detection_outcome(labels, plan, assessments, issues_of(project).taxonomy, seed=seed)
    return overall_outcome(labels, plan, assessments, seed=seed)


def outcomes(project: Project, folder: Path) -> list[Outcome]:
    """What came of the studies in a folder, those with answers."""
    found = [outcome(project, read_plan(path)) for flow in SAMPLES if (path := plan_file(folder, flow)).exists()]
    return [each for each in found if each.examples]
