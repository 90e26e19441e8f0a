"""Where people judge: studies, who is asked what, and what came of it.

The pages need the extra `accord[serve]`: they are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.workbench.accounts import Accounts, Visitor, add_person, change_role, new_link
from accord.workbench.asking import OpenStudy, Sheet
from accord.workbench.assessments import open_study, outcomes
from accord.workbench.detection import detection_outcome
from accord.workbench.outcome import Outcome, Resampling, table
from accord.workbench.overall import agreement_with_all, agreement_with_model, agreement_with_others, overall_outcome
from accord.workbench.participants import Participants
from accord.workbench.plan import FLOWS, Plan, Stage, assigned, eligible, planned, read_plan, sampled, write_plan
from accord.workbench.study import At, NotNow, Part, Study, parts

if TYPE_CHECKING:
    from accord.workbench.app import Bench, together, workbench_app

_LATE = {"Bench": "app", "together": "app", "workbench_app": "app"}

__all__ = [
    "Accounts",
    "At",
    "Bench",
    "FLOWS",
    "NotNow",
    "OpenStudy",
    "Outcome",
    "Part",
    "Participants",
    "Plan",
    "Resampling",
    "Sheet",
    "Stage",
    "Study",
    "Visitor",
    "add_person",
    "agreement_with_all",
    "agreement_with_model",
    "agreement_with_others",
    "assigned",
    "change_role",
    "detection_outcome",
    "eligible",
    "new_link",
    "open_study",
    "outcomes",
    "overall_outcome",
    "parts",
    "planned",
    "read_plan",
    "sampled",
    "table",
    "together",
    "workbench_app",
    "write_plan",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"accord.workbench.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
