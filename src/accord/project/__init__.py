"""A project: `accord.yaml` opened, with the verbs of daily work, each giving back a typed result."""

from accord.project.config import Config, WatchConfig, config_from, json_schema, load_config, with_settings
from accord.project.finetuning import FineTuned, annotated_pairs, finetune, issues_of, train_ruber
from accord.project.importing import Imported, export_annotations, import_files
from accord.project.insights import Insights
from accord.project.judging import AuditRun, BatchRun, Selected, audit_judge, judge_in_batches, latest_audit, plan_audit
from accord.project.plugins import list_plugins
from accord.project.project import ALL, Project, open_project
from accord.project.results import Compared, Estimates, Fitted, JudgeRun, NextLabel, ScoreRun
from accord.project.scoring import Perspective, ScoreOptions, latest, latest_drift, latest_scores, samples_of, score

__all__ = [
    "ALL",
    "AuditRun",
    "BatchRun",
    "Compared",
    "Config",
    "Estimates",
    "FineTuned",
    "Fitted",
    "Imported",
    "Insights",
    "JudgeRun",
    "NextLabel",
    "Perspective",
    "Project",
    "ScoreOptions",
    "ScoreRun",
    "Selected",
    "WatchConfig",
    "annotated_pairs",
    "audit_judge",
    "config_from",
    "export_annotations",
    "finetune",
    "import_files",
    "issues_of",
    "json_schema",
    "judge_in_batches",
    "latest",
    "latest_audit",
    "latest_drift",
    "latest_scores",
    "list_plugins",
    "load_config",
    "open_project",
    "plan_audit",
    "samples_of",
    "score",
    "train_ruber",
    "with_settings",
]
