"""One run, stage by stage: import, collect evidence, compare and fit, score. Each stage takes the store it works on."""

from accord.pipeline.auditing import audit_stored, latest_audit, plan_audit
from accord.pipeline.batches import judge_in_batches
from accord.pipeline.collecting import collect, judge_stored, judging_terms, plan_stored, subjects_of
from accord.pipeline.found import issue_statistics
from accord.pipeline.importing import Imported, import_files
from accord.pipeline.in_context_findings import latest_in_context
from accord.pipeline.in_context_models import InContextModels, make_in_context
from accord.pipeline.in_context_plan import plan_in_context
from accord.pipeline.in_context_study import InContextStudy, learn_in_context
from accord.pipeline.insights import Insights
from accord.pipeline.issue_study import IssueStudy, learn_issues, plan_issues
from accord.pipeline.labelling import estimate_stored, next_labels
from accord.pipeline.learning import Trial, compare_stored, learn_unlabelled, try_out
from accord.pipeline.models import Models, RubricModels, make_budget, make_judge, make_models
from accord.pipeline.rubric_findings import latest_rubric
from accord.pipeline.rubric_plan import plan_rubric
from accord.pipeline.rubric_study import Study, learn_rubric
from accord.pipeline.scoring import How, Speaker, latest_drift, latest_scores, score_all, score_file
from accord.pipeline.training import train_ruber

__all__ = [
    "How",
    "Imported",
    "InContextModels",
    "InContextStudy",
    "Insights",
    "IssueStudy",
    "Models",
    "RubricModels",
    "Speaker",
    "Study",
    "Trial",
    "audit_stored",
    "collect",
    "compare_stored",
    "estimate_stored",
    "import_files",
    "issue_statistics",
    "judge_in_batches",
    "judge_stored",
    "judging_terms",
    "latest_audit",
    "latest_in_context",
    "latest_drift",
    "latest_rubric",
    "latest_scores",
    "learn_in_context",
    "learn_issues",
    "learn_rubric",
    "learn_unlabelled",
    "make_budget",
    "make_in_context",
    "make_judge",
    "make_models",
    "next_labels",
    "plan_audit",
    "plan_in_context",
    "plan_issues",
    "plan_rubric",
    "plan_stored",
    "score_all",
    "score_file",
    "subjects_of",
    "train_ruber",
    "try_out",
]
