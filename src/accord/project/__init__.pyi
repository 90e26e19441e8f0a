from .config import Config as Config, config_from as config_from, json_schema as json_schema, LiveConfig as LiveConfig
from .config import endpoint_of as endpoint_of
from .config import load_config as load_config, load_project as load_project, WatchConfig as WatchConfig
from .config import with_settings as with_settings
from .diagnostics import Insights as Insights, synthetic_note as synthetic_note
from .evaluator_choice import fitted_evaluators as fitted_evaluators, use_evaluator as use_evaluator
from .data_files import files_in as files_in
from .file_survey import FileSurvey as FileSurvey, MOST_SURVEYED as MOST_SURVEYED
from .file_survey import set_scales as set_scales, survey_files as survey_files
from .finetuning import annotated_pairs as annotated_pairs, corrected_pairs as corrected_pairs
from .finetuning import finetune as finetune, FineTuned as FineTuned
from .finetuning import issues_of as issues_of, train_ruber as train_ruber
from .fit_cache import single_threaded as single_threaded
from .import_worker import default_workers as default_workers, ImportOptions as ImportOptions
from .importing import export_annotations as export_annotations, import_files as import_files
from .imported import column_notes as column_notes, Imported as Imported, imported_text as imported_text
from .importing import survey_options as survey_options
from .issue_corrections import correct_issue as correct_issue, corrected as corrected
from .issue_corrections import correction_of as correction_of, Corrections as Corrections
from .issue_corrections import current_corrections as current_corrections, undo_correction as undo_correction
from .judge_audit import audit_judge as audit_judge, AuditRun as AuditRun, latest_audit as latest_audit
from .judge_audit import plan_audit as plan_audit
from .batch_judging import BatchRun as BatchRun, judge_in_batches as judge_in_batches
from .judging import JudgeSelection as JudgeSelection
from .label_rubric import adopt_rubric as adopt_rubric, rubric_of_labels as rubric_of_labels
from .label_scales import check_question as check_question, check_scale as check_scale
from .label_scales import check_scales as check_scales
from .label_scales import comparable_labels as comparable_labels, evaluator_text as evaluator_text
from .label_scales import is_other_scale as is_other_scale, note_wordings as note_wordings
from .label_scales import other_question as other_question
from .label_scales import wordings_text as wordings_text
from .project import open as open, open_project as open_project
from .project import Project as Project
from .project_files import new_project as new_project, project_template as project_template
from .project_files import study_yaml as study_yaml, text_diff as text_diff
from .project_files import with_rubric_file as with_rubric_file, with_study as with_study
from .python_calls import python_text as python_text
from .question_texts import has_generated_text as has_generated_text
from .rater_columns import NO_COLUMN as NO_COLUMN
from .raters import raters_text as raters_text
from .recorded_judges import keep_judgements as keep_judgements, note_judgements as note_judgements
from .recorded_judges import remove_judgements as remove_judgements
from .recorded_judges import choose_recording as choose_recording, find_recordings as find_recordings
from .recorded_judges import load_recordings as load_recordings, recorded_agreement as recorded_agreement
from .recorded_judges import recorded_questions as recorded_questions, RecordedAgreement as RecordedAgreement
from .recorded_judges import register_recordings as register_recordings
from .results import Compared as Compared, Estimates as Estimates, Fitted as Fitted, JudgeRun as JudgeRun
from .results import NextLabel as NextLabel
from .rubric_inference import infer_questions as infer_questions, infer_rubric as infer_rubric
from .rubric_inference import infer_scale as infer_scale, InferredRubric as InferredRubric
from .rubric_inference import ObservedAnswers as ObservedAnswers, off_scale as off_scale
from .rubric_inference import positions_among as positions_among, positions_note as positions_note
from .rubric_inference import rescaled as rescaled
from .synthesising import SynthRun as SynthRun
from .fitting import FEWEST_TO_TEST as FEWEST_TO_TEST
from .workspace import ALL as ALL, EVALUATORS as EVALUATORS, Workspace as Workspace
