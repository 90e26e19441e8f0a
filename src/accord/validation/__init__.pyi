from .agreement import Leak as Leak, NEW as NEW, Result as Result, Table as Table, Within as Within
from .agreement import other_people as other_people, people_alpha as people_alpha
from .comparison import Comparison as Comparison, Difference as Difference, Keep as Keep, TESTED as TESTED
from .comparison import always_learned as always_learned, baselines as baselines, compare as compare
from .comparison import compare_held_out as compare_held_out, compared as compared, differences_of as differences_of
from .comparison import folds_of as folds_of, is_better as is_better
from .drift import SHIFTED as SHIFTED, Shift as Shift, chance as chance, one_per_group as one_per_group, said as said
from .drift import shifts as shifts, stability as stability
from .estimation import Estimate as Estimate, Gap as Gap, Labelled as Labelled, estimate as estimate
from .estimation import estimates as estimates, gaps as gaps, system_means as system_means
from .fairness import Group as Group, annotator_quality as annotator_quality, by_group as by_group
from .issue_labels import ABOVE_CHANCE as ABOVE_CHANCE, ALWAYS as ALWAYS, Called as Called
from .issue_labels import CalledFigures as CalledFigures, CalledRow as CalledRow, MACRO as MACRO, RAW as RAW
from .issue_labels import cross_validate_labels as cross_validate_labels, no_better_than_chance as no_better_than_chance
from .issue_labels import rows_of as rows_of
from .judge_audit import Finding as Finding, PADDING as PADDING, Probe as Probe, audit as audit
from .judge_audit import audit_requests as audit_requests, injections as injections, ways_to_ask as ways_to_ask
from .learning_curve import Asked as Asked, Point as Point, adaptive_curve as adaptive_curve
from .learning_curve import gain_curve as gain_curve, learning_curve as learning_curve
from .recommendation import BEST_COLUMN as BEST_COLUMN, CONSTANT as CONSTANT, Cost as Cost, Decision as Decision
from .recommendation import Gain as Gain
from .recommendation import JUDGE_ALONE as JUDGE_ALONE, decide as decide, gain_over as gain_over
from .recommendation import labels_needed as labels_needed
