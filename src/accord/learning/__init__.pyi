from .active_learning import judge_level as judge_level, spread_targets as spread_targets
from .active_learning import stratified_targets as stratified_targets, suggest_labels as suggest_labels
from .adaptive import AdaptiveRubric as AdaptiveRubric
from .answer_models.binary import finding as finding, kinds_of as kinds_of
from .answer_models.mixed.model import MixedModel as MixedModel
from .answer_models.simple import FEWEST_LABELS as FEWEST_LABELS
from .baselines import Constant as Constant, JudgeExpected as JudgeExpected, RandomDraw as RandomDraw
from .calibration.calibration import Calibration as Calibration
from .calibration.bands import band_quantile as band_quantile, bands as bands, groups_needed as groups_needed
from .calibration.other_questions import other_sheets as other_sheets
from .calibration.distance import UNLIKE as UNLIKE
from .evaluator import Evaluator as Evaluator, learns as learns
from .training_set import digest_of as digest_of, training_digests as training_digests
from .evaluator_files import (
    CARD as CARD,
    OTHER_QUESTIONS as OTHER_QUESTIONS,
    REFIT_NEEDED as REFIT_NEEDED,
    saved_as as saved_as,
)
from .evaluator_loader import load_evaluator as load_evaluator, make_evaluator as make_evaluator
from .evaluator_loader import project_of as project_of
from .experiment import Experiment as Experiment, Factory as Factory, FoldPlan as FoldPlan, Planned as Planned
from .experiment import HeldOutAnswers as HeldOutAnswers, level_of as level_of, Pool as Pool
from .experiment import PREDICTED as PREDICTED, Predictions as Predictions
from .experiment import untested_groups as untested_groups
from .head import Head as Head, heads as heads, make_head as make_head
from .panel import predict_panel as predict_panel, RULES as RULES
from .presets import EvaluatorSettings as EvaluatorSettings, EVIDENCE as EVIDENCE, Level as Level, PMI as PMI
from .presets import PRESETS as PRESETS, RENAMED as RENAMED, SIMPLE as SIMPLE, SIMPLE_HEADS as SIMPLE_HEADS
from .question_importance import Importance as Importance, importance as importance
from .training_set import TrainingSet as TrainingSet
