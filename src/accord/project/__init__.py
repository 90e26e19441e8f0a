"""A project: `accord.yaml` opened, with the verbs of daily work, each giving back a typed result."""

from accord.project.batch_scorer import Asking, BatchScorer
from accord.project.certifying import Certificate, certify
from accord.project.config import (
    FILE,
    Config,
    LiveConfig,
    WatchConfig,
    config_from,
    json_schema,
    load_config,
    with_settings,
)
from accord.project.finetuning import FineTuned, annotated_pairs, finetune, issues_of, train_ruber
from accord.project.importing import Imported, export_annotations, import_files
from accord.project.inferring import Observed, RubricFound, positions_among, rubric_for, scale_for
from accord.project.insights import Insights
from accord.project.judging import AuditRun, BatchRun, Selected, audit_judge, judge_in_batches, latest_audit, plan_audit
from accord.project.parts import finished, read_manifest
from accord.project.plugins import list_plugins
from accord.project.preparing import Reading, workers_here
from accord.project.project import ALL, Project, open_project
from accord.project.recordings import RecordedAgreement, chosen_recording, recorded_agreement, with_recorded
from accord.project.results import Compared, Estimates, Fitted, JudgeRun, NextLabel, ScoreRun
from accord.project.score_rows import Facts, Rebuilt, Scoring, input_of, milliseconds, rebuild
from accord.project.scorer import Perspective, ScoreOptions, samples_of
from accord.project.scoring import counted, latest, latest_drift, latest_scores, score
from accord.project.scoring_parts import Moved, PartsRun, Shard, Spread, merge_parts, score_parts
from accord.project.selecting import LEFT, NOT_COUNTED, Selection
from accord.project.surveying import Survey, files_in, is_recording, survey
from accord.project.synthesising import SynthRun

__all__ = [
    "ALL",
    "Asking",
    "AuditRun",
    "BatchRun",
    "BatchScorer",
    "Certificate",
    "Compared",
    "Config",
    "Estimates",
    "FILE",
    "Facts",
    "FineTuned",
    "Fitted",
    "Imported",
    "Insights",
    "JudgeRun",
    "LEFT",
    "LiveConfig",
    "Moved",
    "NOT_COUNTED",
    "NextLabel",
    "Observed",
    "PartsRun",
    "Perspective",
    "Project",
    "Reading",
    "Rebuilt",
    "RecordedAgreement",
    "RubricFound",
    "ScoreOptions",
    "ScoreRun",
    "Scoring",
    "Selected",
    "Selection",
    "Shard",
    "Spread",
    "Survey",
    "SynthRun",
    "WatchConfig",
    "annotated_pairs",
    "audit_judge",
    "certify",
    "chosen_recording",
    "config_from",
    "counted",
    "export_annotations",
    "files_in",
    "finetune",
    "finished",
    "import_files",
    "input_of",
    "is_recording",
    "issues_of",
    "json_schema",
    "judge_in_batches",
    "latest",
    "latest_audit",
    "latest_drift",
    "latest_scores",
    "list_plugins",
    "load_config",
    "merge_parts",
    "milliseconds",
    "open_project",
    "plan_audit",
    "positions_among",
    "read_manifest",
    "rebuild",
    "recorded_agreement",
    "rubric_for",
    "samples_of",
    "scale_for",
    "score",
    "score_parts",
    "survey",
    "train_ruber",
    "with_recorded",
    "with_settings",
    "workers_here",
]
