from .comparison import baseline as baseline, BASELINES as BASELINES, baselines as baselines, compare as compare
from .comparison import compare_held_out as compare_held_out, compared as compared, Comparison as Comparison
from .comparison import (
    differences_of as differences_of,
    is_better as is_better,
    EvaluatorDifference as EvaluatorDifference,
)
from .comparison import BEST_COLUMN as BEST_COLUMN, CONSTANT as CONSTANT, JUDGE_ALONE as JUDGE_ALONE
from .comparison import TESTED as TESTED
from .metrics_table import Repeats as Repeats
from .drift import drift_summary as drift_summary, ks_p_value as ks_p_value
from .drift import sample_one_per_group as sample_one_per_group, Shift as Shift, SHIFT_THRESHOLD as SHIFT_THRESHOLD
from .drift import shifts as shifts, stability as stability
from .estimation import estimate_system as estimate_system, estimate_systems as estimate_systems
from .estimation import LabeledSystem as LabeledSystem, mean_differences as mean_differences
from .estimation import MeanDifference as MeanDifference, system_means as system_means, SystemMean as SystemMean
from .estimation import NOT_SAID as NOT_SAID
from .fairness import annotator_quality as annotator_quality, by_group as by_group, GroupAccuracy as GroupAccuracy
from .fairness import group_biases as group_biases
from .issue_metrics import ABOVE_CHANCE as ABOVE_CHANCE, ALWAYS as ALWAYS, Called as Called
from .issue_metrics import CalledFigures as CalledFigures, CalledRow as CalledRow
from .issue_metrics import cross_validate_labels as cross_validate_labels, MACRO as MACRO
from .issue_metrics import no_better_than_chance as no_better_than_chance, RAW as RAW, rows_of as rows_of
from .issue_statistics import GroupCounts as GroupCounts, IssueStatistics as IssueStatistics, KindAtScore as KindAtScore
from .issue_statistics import KindCounts as KindCounts, summarize_issues as summarize_issues
from .judge_audit import audit as audit, audit_requests as audit_requests, injections as injections, PADDING as PADDING
from .judge_audit import Probe as Probe, ProbeResult as ProbeResult, robustness_probes as robustness_probes
from .learning_curve import adaptive_curve as adaptive_curve, AdaptivePoint as AdaptivePoint, CurvePoint as CurvePoint
from .learning_curve import gain_curve as gain_curve, learning_curve as learning_curve
from .metrics_table import Leak as Leak, MetricsTable as MetricsTable, NEW as NEW, other_people as other_people
from .labels_needed import FEWEST_MORE as FEWEST_MORE, Gain as Gain, gain_over as gain_over
from .labels_needed import labels_needed as labels_needed
from .metrics_table import people_alpha as people_alpha, R_NEW as R_NEW, EvaluatorMetrics as EvaluatorMetrics
from .metrics_table import WIDTH_NEW as WIDTH_NEW, Within as Within
