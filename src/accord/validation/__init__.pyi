from .comparison import baselines as baselines, BEST_COLUMN as BEST_COLUMN, compare as compare
from .comparison import compare_held_out as compare_held_out, compared as compared, Comparison as Comparison
from .comparison import CONSTANT as CONSTANT, differences_of as differences_of, is_better as is_better
from .comparison import JUDGE_ALONE as JUDGE_ALONE
from .drift import drift_summary as drift_summary, ks_p_value as ks_p_value
from .drift import sample_one_per_group as sample_one_per_group, Shift as Shift, SHIFT_THRESHOLD as SHIFT_THRESHOLD
from .drift import shifts as shifts, stability as stability
from .estimation import NOT_SAID as NOT_SAID, system_means as system_means
from .fairness import annotator_quality as annotator_quality, by_group as by_group
from .fairness import GroupAccuracy as GroupAccuracy
from .issue_metrics import CalledRow as CalledRow, cross_validate_labels as cross_validate_labels
from .issue_metrics import no_better_than_chance as no_better_than_chance, rows_of as rows_of
from .issue_statistics import GroupCounts as GroupCounts, IssueStatistics as IssueStatistics
from .issue_statistics import summarize_issues as summarize_issues
from .judge_audit import audit as audit, audit_requests as audit_requests, injections as injections, Probe as Probe
from .judge_audit import ProbeResult as ProbeResult, robustness_probes as robustness_probes
from .labels_needed import FEWEST_MORE as FEWEST_MORE, Gain as Gain, gain_over as gain_over
from .labels_needed import labels_needed as labels_needed
from .learning_curve import adaptive_curve as adaptive_curve, AdaptivePoint as AdaptivePoint
from .learning_curve import CurvePoint as CurvePoint, gain_curve as gain_curve, learning_curve as learning_curve
from .specification_gaps import gap_of as gap_of, properties_of as properties_of, Property as Property
from .specification_gaps import specification_gaps as specification_gaps
from .specification_gaps import SpecificationGap as SpecificationGap
from .metrics_table import COVERAGE_NEW as COVERAGE_NEW
from .metrics_table import EvaluatorMetrics as EvaluatorMetrics, Leak as Leak, MetricsTable as MetricsTable
from .metrics_table import NEW as NEW, other_people as other_people, R_NEW as R_NEW, Repeats as Repeats
from .metrics_table import WIDTH_NEW as WIDTH_NEW
