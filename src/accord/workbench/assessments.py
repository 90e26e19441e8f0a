"""Human validation of a project's assessments: what is drawn, who is asked, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.config import Config
from accord.pipeline import issues_config, maker_of
from accord.store import IssueAnnotations, Store
from accord.values import BadInput, load_taxonomy
from accord.workbench.outcome import detection_outcome, overall_outcome
from accord.workbench.participants import Participants
from accord.workbench.plan import DETECTION, Plan, eligible, flow_named, planned, read_plan, write_plan
from accord.workbench.study import Study

SAMPLES: Mapping[str, tuple[int, int]] = {"detection": (200, 3), "overall": (100, 5)}
"""By flow: turns, and answers each, as in the paper."""


def plan_file(folder: Path, flow: str) -> Path:
    """Where a flow's plan is kept."""
    return folder / f"{flow_named(flow).name}.json"


def open_study(
    store: Store,
    config: Config,
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
    issues, path = issues_config(config), plan_file(folder, flow)
    taxonomy = load_taxonomy(issues.taxonomy)
    if path.exists():
        if count or per_turn or people:
            raise BadInput(f"{path} holds a study that is under way; leave out how to draw it, or name another --out")
        plan = read_plan(path)
    else:
        made_by = _maker(store, config)
        conversations = store.conversations(IssueAnnotations(store).conversations(made_by))
        told = (conversation for conversation in conversations if conversation.turns)
        assessments = list(IssueAnnotations(store).of(told, made_by))
        if not assessments:
            raise BadInput("no turn was assessed yet; run: accord judge --issues")
        usual, answers = SAMPLES[flow]
        turns = count or min(usual, len(eligible(assessments)))
        plan = planned(flow, assessments, taxonomy, turns, per_turn or answers, per_person, people, config.seed)
    study = Study(plan, store, taxonomy)
    write_plan(plan, path)
    return study, Participants(folder / f"{flow}-seats.json", len(plan.slots))


def outcome(store: Store, config: Config, plan: Plan) -> dict[str, Any]:
    """What came of a study so far."""
    labels = store.labels()
    conversations = store.conversations({turn.conversation for turn in plan.turns})
    assessments = list(IssueAnnotations(store).of(conversations, plan.made_by))
    if plan.flow == DETECTION:
        taxonomy = load_taxonomy(issues_config(config).taxonomy)
        return detection_outcome(labels, plan, assessments, taxonomy, seed=config.seed)
    return overall_outcome(labels, plan, assessments, seed=config.seed)


def outcomes(store: Store, config: Config, folder: Path) -> list[dict[str, Any]]:
    """What came of the studies in a folder, those with answers."""
    found = [outcome(store, config, read_plan(path)) for flow in SAMPLES if (path := plan_file(folder, flow)).exists()]
    return [each for each in found if each["examples"]]


def _maker(store: Store, config: Config) -> str:
    if issues_config(config).by == "judge":
        raise BadInput("a judge writes no assessments that people could validate; use issues: {model: NAME}")
    return maker_of(store, issues_config(config))
