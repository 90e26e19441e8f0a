"""Evaluators: what is learned from evidence and labels, and the baselines it has to beat."""

from accord.evaluators.base import Evaluator, evaluators, load_evaluator
from accord.evaluators.baselines import AnnotatorMean, Constant, JudgeArgmax, JudgeExpected, RandomDraw
from accord.evaluators.calibration import Calibration
from accord.evaluators.in_context import InContext
from accord.evaluators.issues import Issues, LowestTurn, MeanTurn
from accord.evaluators.label_free import LabelFree
from accord.evaluators.learned_rubric import LearnedRubric
from accord.evaluators.mixture import Mixture
from accord.evaluators.panel import predict_panel

__all__ = [
    "AnnotatorMean",
    "Calibration",
    "Constant",
    "Evaluator",
    "InContext",
    "Issues",
    "JudgeArgmax",
    "JudgeExpected",
    "LabelFree",
    "LearnedRubric",
    "LowestTurn",
    "MeanTurn",
    "Mixture",
    "RandomDraw",
    "evaluators",
    "load_evaluator",
    "predict_panel",
]
