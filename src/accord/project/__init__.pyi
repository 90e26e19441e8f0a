from . import comparing as comparing, fitting as fitting, insights as insights, judging as judging
from . import labelling as labelling, score_rows as score_rows, scoring as scoring, synthesising as synthesising
from .at_once import AtOnce as AtOnce
from .batch_scorer import Asking as Asking, BatchScorer as BatchScorer
from .certifying import Certificate as Certificate, certify as certify
from .config import Config as Config, LiveConfig as LiveConfig, WatchConfig as WatchConfig
from .config import config_from as config_from, json_schema as json_schema, load_config as load_config
from .config import load_project as load_project
from .config import with_settings as with_settings
from .finetuning import FineTuned as FineTuned, annotated_pairs as annotated_pairs, finetune as finetune
from .finetuning import issues_of as issues_of, train_ruber as train_ruber
from .importing import Imported as Imported, export_annotations as export_annotations, found_reading as found_reading
from .importing import import_files as import_files
from .inferring import Observed as Observed, RubricFound as RubricFound, positions_among as positions_among
from .inferring import (
    off_scale as off_scale,
    questions_for as questions_for,
    rescaled as rescaled,
    rubric_for as rubric_for,
    scale_for as scale_for,
)
from .insights import Insights as Insights, synthetic_note as synthetic_note
from .judging import AuditRun as AuditRun, BatchRun as BatchRun, Selected as Selected, audit_judge as audit_judge
from .judging import judge_in_batches as judge_in_batches, latest_audit as latest_audit, plan_audit as plan_audit
from .keeping import calm as calm
from .parts import finished as finished, read_manifest as read_manifest
from .plugins import list_plugins as list_plugins
from .preparing import Reading as Reading, check_roles as check_roles, workers_here as workers_here
from .project import (
    ALL as ALL,
    EVALUATORS as EVALUATORS,
    Project as Project,
    open as open,
    open_project as open_project,
)
from .recordings import RecordedAgreement as RecordedAgreement, chosen_recording as chosen_recording
from .recordings import recorded_agreement as recorded_agreement, recorded_questions as recorded_questions
from .recordings import recordings_of as recordings_of, with_judge_named as with_judge_named
from .registering import recordings_among as recordings_among, register_recordings as register_recordings
from .results import Compared as Compared, Estimates as Estimates, Fitted as Fitted, JudgeRun as JudgeRun
from .results import NextLabel as NextLabel, ScoreRun as ScoreRun
from .score_rows import Facts as Facts, Rebuilt as Rebuilt, Scoring as Scoring, input_of as input_of
from .score_rows import milliseconds as milliseconds, rebuild as rebuild
from .scorer import Perspective as Perspective, ScoreOptions as ScoreOptions, TURNS as TURNS, Turns as Turns
from .scorer import samples_of as samples_of
from .scoring import counted as counted, latest as latest, latest_drift as latest_drift, latest_scores as latest_scores
from .scoring import score as score
from .scoring_parts import Moved as Moved, PartsRun as PartsRun, Shard as Shard, Spread as Spread
from .scoring_parts import merge_parts as merge_parts, score_parts as score_parts
from .selecting import LEFT as LEFT, NOT_COUNTED as NOT_COUNTED, Selection as Selection
from .surveying import MOST_SURVEYED as MOST_SURVEYED, NO_COLUMN as NO_COLUMN, Survey as Survey, files_in as files_in
from .surveying import is_recording as is_recording, set_scales as set_scales, survey as survey
from .synthesising import SynthRun as SynthRun
