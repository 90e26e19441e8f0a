"""How people's answers follow from evidence: evaluators, their heads, and what they have to beat."""

from typing import TYPE_CHECKING, Any

from accord.learning.adaptive import AdaptiveRubric
from accord.learning.baselines import (
    AnnotatorMean,
    Constant,
    JudgeArgmax,
    JudgeExpected,
    LowestTurn,
    MeanTurn,
    RandomDraw,
)
from accord.learning.calibration import FEWEST_LABELS, Calibration
from accord.learning.conformal import band_width, bands, groups_needed
from accord.learning.core import matrix
from accord.learning.curves import BINS, Additive, Bins, predicted
from accord.learning.equations import Design as MixedDesign
from accord.learning.evaluator import Evaluator, learns, level_of, with_notes
from accord.learning.experts import ExpertParameters, parts
from accord.learning.folder import QUESTIONS, Level, saved_as
from accord.learning.head import Head, check_settings, heads, make_head, settings_of
from accord.learning.held_out import Choice, Factory, HeldOut, System, held_out
from accord.learning.importance import Importance, importance
from accord.learning.issue_labels import (
    DIRECTIONS,
    ISOTONIC,
    PLATT,
    RIDGE,
    Design,
    IssueCalibration,
    IssueLabels,
    best_threshold,
    finding,
    kinds_of,
    labels_of,
    learn_calibration,
)
from accord.learning.label_free import PMI, LabelFree
from accord.learning.labelling import suggest_labels
from accord.learning.large_equations import LargeDesign
from accord.learning.layout import GROUP, OFFSET, OWN_SLOPE, SLOPE, TEXT
from accord.learning.link import OrdinalLink
from accord.learning.loading import load_evaluator
from accord.learning.mixed import MixedCore
from accord.learning.mixture import Mixture
from accord.learning.network import Shape, blocks, chances, inputs, predict
from accord.learning.network_core import PAPER, NetworkSettings, answers_to
from accord.learning.other_questions import FEWEST_SHEETS, OtherQuestions, other_sheets
from accord.learning.out_of_fold import Fitting, out_of_fold
from accord.learning.panel import RULES, predict_panel
from accord.learning.plausibility import KINDS, Plausibility, fakes
from accord.learning.presets import EVIDENCE, PRESETS, EvaluatorSettings, make_evaluator
from accord.learning.trained_on import MOST_LEVELS, Levels

if TYPE_CHECKING:
    from accord.learning.mixed_effects import MixedEffects

__all__ = [
    "AdaptiveRubric",
    "Additive",
    "AnnotatorMean",
    "BINS",
    "Bins",
    "Calibration",
    "Choice",
    "Constant",
    "DIRECTIONS",
    "Design",
    "EVIDENCE",
    "Evaluator",
    "EvaluatorSettings",
    "ExpertParameters",
    "FEWEST_LABELS",
    "FEWEST_SHEETS",
    "Factory",
    "Fitting",
    "GROUP",
    "Head",
    "HeldOut",
    "ISOTONIC",
    "Importance",
    "IssueCalibration",
    "IssueLabels",
    "JudgeArgmax",
    "JudgeExpected",
    "KINDS",
    "LabelFree",
    "LargeDesign",
    "Level",
    "Levels",
    "LowestTurn",
    "MOST_LEVELS",
    "MeanTurn",
    "MixedCore",
    "MixedDesign",
    "MixedEffects",
    "Mixture",
    "NetworkSettings",
    "OFFSET",
    "OWN_SLOPE",
    "OrdinalLink",
    "OtherQuestions",
    "PAPER",
    "PLATT",
    "PMI",
    "PRESETS",
    "Plausibility",
    "QUESTIONS",
    "RIDGE",
    "RULES",
    "RandomDraw",
    "SLOPE",
    "Shape",
    "System",
    "TEXT",
    "answers_to",
    "band_width",
    "bands",
    "best_threshold",
    "blocks",
    "chances",
    "check_settings",
    "fakes",
    "finding",
    "groups_needed",
    "heads",
    "held_out",
    "importance",
    "inputs",
    "kinds_of",
    "labels_of",
    "learn_calibration",
    "learns",
    "level_of",
    "load_evaluator",
    "make_evaluator",
    "make_head",
    "matrix",
    "other_sheets",
    "out_of_fold",
    "parts",
    "predict",
    "predict_panel",
    "predicted",
    "saved_as",
    "settings_of",
    "suggest_labels",
    "with_notes",
]


def __getattr__(name: str) -> Any:
    """The one name that brings scikit-learn, a third of a second of every command, comes when it is asked for."""
    if name == "MixedEffects":
        from accord.learning.mixed_effects import MixedEffects

        return MixedEffects
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
