from .active_learning import spread_targets as spread_targets
from .active_learning import suggest_labels as suggest_labels
from .adaptive import AdaptiveRubric as AdaptiveRubric
from .answer_model import inner_folds as inner_folds, matrix as matrix
from .auxiliary_questions import AuxiliaryQuestions as AuxiliaryQuestions
from .auxiliary_questions import other_sheets as other_sheets
from .baselines import AnnotatorMean as AnnotatorMean, BestColumn as BestColumn, Constant as Constant
from .baselines import JudgeArgmax as JudgeArgmax, JudgeExpected as JudgeExpected, LowestTurn as LowestTurn
from .baselines import MeanTurn as MeanTurn, RandomDraw as RandomDraw
from .calibration import Calibration as Calibration
from .conformal import (
    band_quantile as band_quantile,
    bands as bands,
    groups_needed as groups_needed,
    new_annotator_factor as new_annotator_factor,
)
from .cross_validation import Choice as Choice, Experiment as Experiment, Factory as Factory, FoldTask as FoldTask
from .cross_validation import HeadLearner as HeadLearner, HeldOutAnswers as HeldOutAnswers, level_of as level_of
from .cross_validation import PredictionCache as PredictionCache, Predictions as Predictions
from .cross_validation import untested_groups as untested_groups
from .curve_answers import CurveAnswers as CurveAnswers
from .evaluator import Evaluator as Evaluator, learns as learns, with_notes as with_notes
from .evaluator_files import CARD as CARD, OTHER_QUESTIONS as OTHER_QUESTIONS, saved_as as saved_as
from .evaluator_loader import load_evaluator as load_evaluator, make_evaluator as make_evaluator
from .evaluator_loader import project_of as project_of
from .head import check_settings as check_settings, Head as Head, heads as heads, make_head as make_head
from .head import settings_of as settings_of
from .importance import Importance as Importance, importance as importance
from .issue_labels import best_threshold as best_threshold, Design as Design, DIRECTIONS as DIRECTIONS
from .issue_labels import finding as finding, ISOTONIC as ISOTONIC, IssueCalibration as IssueCalibration
from .issue_labels import IssueLabels as IssueLabels, kinds_of as kinds_of, labels_of as labels_of
from .issue_labels import learn_calibration as learn_calibration, PLATT as PLATT, RIDGE as RIDGE
from .metric_curves import Additive as Additive, BINS as BINS, Bins as Bins, predicted as predicted
from .mixed_equations import best_ratios as best_ratios, EffectEquations as EffectEquations
from .mixed_equations import equations_for as equations_for, IterativeEquations as IterativeEquations
from .mixed_equations import RatingEquations as RatingEquations
from .mixed_model import MixedAnswers as MixedAnswers, MixedModel as MixedModel
from .network import blocks as blocks, chances as chances, inputs as inputs, NetworkShape as NetworkShape
from .network import latent_answers as latent_answers, log_densities as log_densities, predict as predict
from .network_answers import answers_to as answers_to, NetworkAnswers as NetworkAnswers
from .network_answers import NetworkSettings as NetworkSettings, PAPER as PAPER, sheets_beyond as sheets_beyond
from .ordinal import OrdinalLink as OrdinalLink
from .panel import predict_panel as predict_panel, RULES as RULES
from .plausibility_check import fakes as fakes, KINDS as KINDS, Plausibility as Plausibility
from .presets import EvaluatorSettings as EvaluatorSettings, EVIDENCE as EVIDENCE, Level as Level, PRESETS as PRESETS
from .presets import PMI as PMI, RENAMED as RENAMED
from .presets import SIMPLE as SIMPLE, SIMPLE_HEADS as SIMPLE_HEADS
from .rating_layout import GROUP as GROUP, OFFSET as OFFSET, OWN_SLOPE as OWN_SLOPE, RatingLayout as RatingLayout
from .rating_layout import SLOPE as SLOPE, TEXT as TEXT
from .simple_models import FEWEST_LABELS as FEWEST_LABELS
from .simple_models import JudgeMean as JudgeMean, PartialLeastSquares as PartialLeastSquares, PENALTIES as PENALTIES
from .simple_models import Ridge as Ridge
from .stacking import shrunk_weights as shrunk_weights
from .training_reference import MOST_LEVELS as MOST_LEVELS, ScaleLevels as ScaleLevels
from .training_reference import shrunk_covariance as shrunk_covariance, UNLIKE as UNLIKE
from .tree_answers import TreeAnswers as TreeAnswers, TREES as TREES
from .training_set import digest_of as digest_of, TrainingSet as TrainingSet
from .worker_pool import cores as cores, ONE_THREAD as ONE_THREAD, pickled as pickled, Worker as Worker
from .worker_pool import WorkerLost as WorkerLost, WorkerPool as WorkerPool, WorkerThreads as WorkerThreads
