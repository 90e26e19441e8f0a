"""How far an evaluator can be trusted: comparison, errors by group, estimates, learning curves, drift."""

from accord.validation.comparison import (
    Comparison,
    Difference,
    Result,
    compare,
    differences_of,
    is_better,
    other_people,
    people_alpha,
    result_of,
)
from accord.validation.drift import SHIFTED, said, shifts, stability
from accord.validation.estimation import estimate, gaps, system_means
from accord.validation.fairness import Group, annotator_quality, by_group
from accord.validation.judge_audit import PADDING, Probe, audit, audit_requests, injections, ways_to_ask
from accord.validation.learning_curve import Asked, Point, adaptive_curve, learning_curve
from accord.validation.marks import Called, rows_of, try_marks

__all__ = [
    "Asked",
    "Called",
    "Comparison",
    "Difference",
    "Group",
    "PADDING",
    "Point",
    "Probe",
    "Result",
    "SHIFTED",
    "adaptive_curve",
    "annotator_quality",
    "audit",
    "audit_requests",
    "by_group",
    "compare",
    "differences_of",
    "estimate",
    "gaps",
    "injections",
    "is_better",
    "learning_curve",
    "other_people",
    "people_alpha",
    "result_of",
    "rows_of",
    "said",
    "shifts",
    "stability",
    "system_means",
    "try_marks",
    "ways_to_ask",
]
