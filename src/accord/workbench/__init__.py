"""Where people judge: studies, who is asked what, and what came of it."""

from accord.workbench.assessments import open_study, outcomes
from accord.workbench.detection import detection_outcome
from accord.workbench.outcome import Outcome, Resampling, table
from accord.workbench.overall import agreement_with_all, agreement_with_model, agreement_with_others, overall_outcome
from accord.workbench.participants import Participants
from accord.workbench.plan import FLOWS, Plan, Stage, assigned, eligible, planned, read_plan, sampled, write_plan
from accord.workbench.study import At, NotNow, Part, Study, parts

__all__ = [
    "At",
    "FLOWS",
    "NotNow",
    "Outcome",
    "Part",
    "Participants",
    "Plan",
    "Resampling",
    "Stage",
    "Study",
    "agreement_with_all",
    "agreement_with_model",
    "agreement_with_others",
    "assigned",
    "detection_outcome",
    "eligible",
    "open_study",
    "outcomes",
    "overall_outcome",
    "parts",
    "planned",
    "read_plan",
    "sampled",
    "table",
    "write_plan",
]
