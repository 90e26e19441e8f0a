"""Human validation of assessments, in two flows: are the issues right, and how good is the reply, before and after.

Mendonça et al., *SODA-EVAL: Open-Domain Dialogue Evaluation in the age of LLMs*, Findings of EMNLP 2024, section 4.2.
"""

from accord.validation.detection import detection_outcome
from accord.validation.overall import overall_outcome
from accord.validation.plan import Plan, planned, read_plan, write_plan
from accord.validation.sampling import assigned, eligible, sampled
from accord.validation.seats import Seats
from accord.validation.stages import FLOWS, Stage
from accord.validation.study import Study

__all__ = [
    "FLOWS",
    "Plan",
    "Seats",
    "Stage",
    "Study",
    "assigned",
    "detection_outcome",
    "eligible",
    "overall_outcome",
    "planned",
    "read_plan",
    "sampled",
    "write_plan",
]
