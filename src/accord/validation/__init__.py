"""How far an evaluator can be trusted: comparison, errors by group, estimates, learning curves, drift."""

from accord.validation.agreement import Leak, Result, Table, Within, other_people, people_alpha
from accord.validation.comparison import (
    TESTED,
    Comparison,
    Difference,
    Keep,
    baselines,
    compare,
    compare_held_out,
    compared,
    differences_of,
    folds_of,
    is_better,
)
from accord.validation.drift import SHIFTED, Shift, said, shifts, stability
from accord.validation.estimation import Estimate, Gap, estimate, gaps, system_means
from accord.validation.fairness import Group, annotator_quality, by_group
from accord.validation.issue_labels import RAW, Called, CalledFigures, CalledRow, cross_validate_labels, rows_of
from accord.validation.judge_audit import PADDING, Finding, Probe, audit, audit_requests, injections, ways_to_ask
from accord.validation.learning_curve import Asked, Point, adaptive_curve, learning_curve

__all__ = [
    "Asked",
    "Called",
    "CalledFigures",
    "CalledRow",
    "Comparison",
    "Difference",
    "Estimate",
    "Finding",
    "Gap",
    "Group",
    "Keep",
    "Leak",
    "PADDING",
    "Point",
    "Probe",
    "RAW",
    "Result",
    "SHIFTED",
    "TESTED",
    "Table",
    "Within",
    "adaptive_curve",
    "annotator_quality",
    "audit",
    "audit_requests",
    "baselines",
    "by_group",
    "compare",
    "compare_held_out",
    "compared",
    "cross_validate_labels",
    "differences_of",
    "estimate",
    "folds_of",
    "gaps",
    "injections",
    "is_better",
    "learning_curve",
    "other_people",
    "people_alpha",
    "rows_of",
    "Shift",
    "said",
    "shifts",
    "stability",
    "system_means",
    "ways_to_ask",
]
