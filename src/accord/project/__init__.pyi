from .config import Config as Config, config_from as config_from, covered_by_trust as covered_by_trust
from .config import endpoint_of as endpoint_of
from .config import json_schema as json_schema, load_config as load_config, load_project as load_project
from .config import with_settings as with_settings
from .config_sections import LiveConfig as LiveConfig, WatchConfig as WatchConfig
from .comparison_sections import full_sections as full_sections, group_bias as group_bias
from .comparison_sections import groups_table as groups_table, lines as lines, short_section as short_section
from .comment_groups import CommentGroup as CommentGroup, CommentGroups as CommentGroups
from .comment_groups import group_comments as group_comments, taxonomy_of as taxonomy_of
from .counts_of_ratings import has_learned_all as has_learned_all
from .counts_of_ratings import labels_at as labels_at, modified_at as modified_at, rating_counts as rating_counts
from .counts_of_ratings import raters_of as raters_of, RatingCounts as RatingCounts
from .erasing.erase import erase as erase, Erasure as Erasure, plan_erasure as plan_erasure
from .erasing.erase import restore_scores as restore_scores, resume as resume
from .erasing.inventory import PLACE_WORDS as PLACE_WORDS
from .erasing.person_export import export_person as export_person
from .erasing.refit import refit_note as refit_note, refit_sentences as refit_sentences
from .erasing.retention import DailyExpiry as DailyExpiry, expire as expire
from .erasing.selection import Selection as Selection
from .evaluators.cards import card_of as card_of, CardOptions as CardOptions, present_card as present_card
from .evaluators.cards import remake_card as remake_card
from .evaluators.comparing import by_groups as by_groups, compare as compare
from .evaluators.costs import costs_of as costs_of, role_costs as role_costs
from .evaluators.diagnostics import Insights as Insights, insights as insights, synthetic_note as synthetic_note
from .evaluators.evaluator_choice import fitted_evaluators as fitted_evaluators, use_evaluator as use_evaluator
from .evaluators.fitting import (
    FEWEST_TO_TEST as FEWEST_TO_TEST,
    fit as fit,
    fit_offline as fit_offline,
    plan_fit as plan_fit,
)
from .evaluators.gap_search import find_gaps as find_gaps, GAP_METHOD as GAP_METHOD, gap_searches as gap_searches
from .evaluators.gap_search import GAPS as GAPS
from .evaluators.fit_cache import single_threaded as single_threaded
from .evaluators.retrain import candidate_folder as candidate_folder, IN_USE as IN_USE
from .evaluators.retrain import load_report as load_report, promote_candidate as promote_candidate
from .evaluators.retrain import recover_promotion as recover_promotion, restore_evaluator as restore_evaluator
from .evaluators.retrain import retrain as retrain, verdict_in_use as verdict_in_use
from .importing.data_files import files_in as files_in
from .importing.file_survey import FileSurvey as FileSurvey, MOST_SURVEYED as MOST_SURVEYED, set_scales as set_scales
from .importing.file_survey import survey_files as survey_files
from .importing.imported import column_notes as column_notes, Imported as Imported, imported_text as imported_text
from .importing.importing import export_annotations as export_annotations, import_files as import_files
from .importing.importing import survey_options as survey_options
from .importing.label_rubric import adopt_rubric as adopt_rubric
from .importing.question_texts import has_generated_text as has_generated_text
from .importing.rubric_inference import infer_questions as infer_questions, infer_rubric as infer_rubric
from .importing.rubric_inference import InferredRubric as InferredRubric, positions_note as positions_note
from .importing.rubric_inference import set_orders as set_orders
from .importing.worker import default_workers as default_workers, ImportOptions as ImportOptions
from .judges.batch_judging import BatchRun as BatchRun, judge_in_batches as judge_in_batches
from .finetuning import annotated_pairs as annotated_pairs, corrected_pairs as corrected_pairs
from .finetuning import finetune as finetune, issues_of as issues_of, train_ruber as train_ruber
from .judges.issue_corrections import correct_issue as correct_issue, corrected as corrected
from .judges.issue_corrections import correction_of as correction_of, Corrections as Corrections
from .judges.issue_corrections import current_corrections as current_corrections, undo_correction as undo_correction
from .judges.judge_audit import audit_judge as audit_judge, latest_audit as latest_audit, plan_audit as plan_audit
from .judges.judging import judge as judge, JudgeSelection as JudgeSelection, model_sources as model_sources
from .judges.judging import plan_judge as plan_judge
from .judges.recorded_judges import find_recordings as find_recordings, keep_judgements as keep_judgements
from .judges.recorded_judges import note_judgements as note_judgements, recorded_agreement as recorded_agreement
from .judges.recorded_judges import RecordedAgreement as RecordedAgreement, remove_judgements as remove_judgements
from .label_scales import check_question as check_question, check_scale as check_scale
from .label_scales import comparable_labels as comparable_labels, other_question as other_question
from .label_scales import wordings_text as wordings_text
from .label_suggestions import label_next as label_next
from .mean_ratings import estimate as estimate
from .project_files import new_project as new_project, project_template as project_template, study_yaml as study_yaml
from .project_files import text_diff as text_diff, with_rubric_file as with_rubric_file, with_study as with_study
from .results import Compared as Compared, Estimates as Estimates, Fitted as Fitted, GapSearch as GapSearch
from .results import JudgeRun as JudgeRun, NextLabel as NextLabel
from .scored_batches import change_of_scores as change_of_scores, change_report as change_report
from .synthesis import check_synth as check_synth, plan_synth as plan_synth, synth as synth, SynthRun as SynthRun
from .synthesis import synth_settings as synth_settings
from .workspace import EVALUATORS as EVALUATORS, Workspace as Workspace
