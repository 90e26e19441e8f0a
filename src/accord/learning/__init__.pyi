from .adaptive import AdaptiveRubric as AdaptiveRubric
from .baselines import AnnotatorMean as AnnotatorMean, BestColumn as BestColumn, Constant as Constant
from .baselines import JudgeArgmax as JudgeArgmax, JudgeExpected as JudgeExpected, LowestTurn as LowestTurn
from .baselines import MeanTurn as MeanTurn, RandomDraw as RandomDraw
from .calibration import Calibration as Calibration, FEWEST_LABELS as FEWEST_LABELS
from .conformal import band_width as band_width, bands as bands, groups_needed as groups_needed
from .core import matrix as matrix
from .curves import Additive as Additive, BINS as BINS, Bins as Bins, predicted as predicted
from .equations import MixedDesign as MixedDesign
from .evaluator import Evaluator as Evaluator, learns as learns, with_notes as with_notes
from .experts import ExpertParameters as ExpertParameters, parts as parts
from .fitting import Fitting as Fitting, OneFold as OneFold, level_of as level_of
from .fitting import predict_unseen as predict_unseen
from .folder import CARD as CARD, QUESTIONS as QUESTIONS, saved_as as saved_as
from .head import Head as Head, check_settings as check_settings, heads as heads, make_head as make_head
from .head import settings_of as settings_of
from .held_out import Choice as Choice, Factory as Factory, HeldOut as HeldOut, System as System, held_out as held_out
from .held_out import unscored as unscored
from .importance import Importance as Importance, importance as importance
from .issue_labels import DIRECTIONS as DIRECTIONS, Design as Design, ISOTONIC as ISOTONIC
from .issue_labels import IssueCalibration as IssueCalibration, IssueLabels as IssueLabels, PLATT as PLATT
from .issue_labels import RIDGE as RIDGE, best_threshold as best_threshold, finding as finding, kinds_of as kinds_of
from .issue_labels import labels_of as labels_of, learn_calibration as learn_calibration
from .label_free import LabelFree as LabelFree, PMI as PMI
from .labelling import suggest_labels as suggest_labels
from .large_equations import LargeDesign as LargeDesign, best_ratios as best_ratios, in_equations as in_equations
from .layout import GROUP as GROUP, Layout as Layout, OFFSET as OFFSET, OWN_SLOPE as OWN_SLOPE, SLOPE as SLOPE
from .layout import TEXT as TEXT
from .link import OrdinalLink as OrdinalLink
from .loading import load_evaluator as load_evaluator, make_evaluator as make_evaluator
from .loading import project_of as project_of
from .mixed import MixedCore as MixedCore
from .mixed_effects import MixedEffects as MixedEffects
from .mixed_model import MixedModel as MixedModel
from .mixture import Mixture as Mixture
from .network import Shape as Shape, blocks as blocks, chances as chances, inputs as inputs, predict as predict
from .network_core import NetworkSettings as NetworkSettings, PAPER as PAPER, answers_to as answers_to
from .other_questions import FEWEST_SHEETS as FEWEST_SHEETS, OtherQuestions as OtherQuestions
from .other_questions import other_sheets as other_sheets
from .out_of_fold import out_of_fold as out_of_fold
from .panel import RULES as RULES, predict_panel as predict_panel
from .plausibility import KINDS as KINDS, Plausibility as Plausibility, fakes as fakes
from .presets import EVIDENCE as EVIDENCE, EvaluatorSettings as EvaluatorSettings, Level as Level
from .presets import PRESETS as PRESETS, SIMPLE as SIMPLE
from .rating_equations import RatingDesign as RatingDesign
from .training_set import TrainingSet as TrainingSet, digest_of as digest_of
from .trained_on import Levels as Levels, MOST_LEVELS as MOST_LEVELS, shrunk_covariance as shrunk_covariance
