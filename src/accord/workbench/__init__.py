"""Where people judge: studies, who is asked what, and what came of it.

The pages need the extra `accord[serve]`: they are imported when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.workbench.accounts import Accounts, Visitor, add_person, change_role, new_link
from accord.workbench.asking import OpenStudy, Sheet
from accord.workbench.detection import detection_outcome
from accord.workbench.drawing import drawn, eligible
from accord.workbench.outcome import Given, Outcome, Resampling, Validated, table
from accord.workbench.overall import agreement_with_all, agreement_with_model, agreement_with_others, overall_outcome
from accord.workbench.validation import FLOWS, open_validation, outcome, outcomes, shipped_study

if TYPE_CHECKING:
    from accord.workbench.app import Bench, workbench_app

_LATE = {"Bench": "app", "workbench_app": "app"}

__all__ = [
    "Accounts",
    "Bench",
    "FLOWS",
    "Given",
    "OpenStudy",
    "Outcome",
    "Resampling",
    "Sheet",
    "Validated",
    "Visitor",
    "add_person",
    "agreement_with_all",
    "agreement_with_model",
    "agreement_with_others",
    "change_role",
    "detection_outcome",
    "drawn",
    "eligible",
    "new_link",
    "open_validation",
    "outcome",
    "outcomes",
    "overall_outcome",
    "shipped_study",
    "table",
    "workbench_app",
]


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"accord.workbench.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
