"""One run, stage by stage: import, collect evidence, compare and fit, score."""

from accord.pipeline.collecting import collect, judge_stored, judging_options, plan_stored, samples_of
from accord.pipeline.importing import Imported, import_files
from accord.pipeline.in_context_asking import ContextSides, at_level, dimension_of
from accord.pipeline.in_context_findings import COMMAND, findings, latest_in_context, plan_in_context
from accord.pipeline.in_context_study import EVERY, Figures, InContextStudy, figures_of, learn_from, learn_in_context
from accord.pipeline.insights import Insights
from accord.pipeline.issues import find_issues, issue_statistics, issues_config, judge_issues, maker_of
from accord.pipeline.judging import audit_stored, judge_in_batches, latest_audit, plan_audit
from accord.pipeline.labelling import estimate_stored, next_labels
from accord.pipeline.learning import (
    IssueStudy,
    Trial,
    compare_stored,
    learn_issues,
    learn_unlabelled,
    plan_issues,
    translated,
    try_out,
)
from accord.pipeline.models import (
    InContextModels,
    Models,
    RubricModels,
    make_budget,
    make_in_context,
    make_judge,
    make_models,
)
from accord.pipeline.plugins import list_plugins
from accord.pipeline.rubric_findings import cautions, latest_rubric, plan_rubric
from accord.pipeline.rubric_study import ASKED, TABLES, Study, learn_rubric, outcome
from accord.pipeline.scoring import (
    Perspective,
    ScoreOptions,
    latest_drift,
    latest_scores,
    score_all,
    score_file,
    written,
)
from accord.pipeline.teaching import finetune, train_ruber

__all__ = [
    "ASKED",
    "COMMAND",
    "ContextSides",
    "EVERY",
    "Figures",
    "Imported",
    "InContextModels",
    "InContextStudy",
    "Insights",
    "IssueStudy",
    "Models",
    "Perspective",
    "RubricModels",
    "ScoreOptions",
    "Study",
    "TABLES",
    "Trial",
    "at_level",
    "audit_stored",
    "cautions",
    "collect",
    "compare_stored",
    "dimension_of",
    "estimate_stored",
    "figures_of",
    "find_issues",
    "findings",
    "finetune",
    "import_files",
    "issue_statistics",
    "issues_config",
    "judge_in_batches",
    "judge_issues",
    "judge_stored",
    "judging_options",
    "latest_audit",
    "latest_drift",
    "latest_in_context",
    "latest_rubric",
    "latest_scores",
    "learn_from",
    "learn_in_context",
    "learn_issues",
    "learn_rubric",
    "learn_unlabelled",
    "list_plugins",
    "make_budget",
    "make_in_context",
    "make_judge",
    "make_models",
    "maker_of",
    "next_labels",
    "outcome",
    "plan_audit",
    "plan_in_context",
    "plan_issues",
    "plan_rubric",
    "plan_stored",
    "samples_of",
    "score_all",
    "score_file",
    "train_ruber",
    "translated",
    "try_out",
    "written",
]
