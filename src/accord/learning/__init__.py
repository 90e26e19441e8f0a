"""How people's answers follow from evidence: evaluators, their heads, and what they have to beat."""

from accord.learning.adaptive import AdaptiveRubric
from accord.learning.base import Evaluator, evaluators, learned_digest, load_evaluator, method_of
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
from accord.learning.conformal import band_width, bands
from accord.learning.core import matrix
from accord.learning.curves import BINS, Additive, Bins, predicted
from accord.learning.equations import OFFSET, OWN_SLOPE, SLOPE, TEXT, LargeDesign
from accord.learning.experts import parts
from accord.learning.held_out import Choice, Factory, System, held_out
from accord.learning.importance import Importance, importance
from accord.learning.in_context import InContext
from accord.learning.issues import Issues
from accord.learning.label_free import PMI, LabelFree
from accord.learning.labelling import suggest_labels
from accord.learning.learned_rubric import ALPHAS, FEWEST, LearnedRubric, check_both, verdicts
from accord.learning.link import OrdinalLink
from accord.learning.marks import (
    DIRECTIONS,
    ISOTONIC,
    PLATT,
    RIDGE,
    Design,
    Marked,
    Marking,
    best_threshold,
    finding,
    kinds_of,
    learn_marks,
    marks_of,
)
from accord.learning.mixed import MixedCore, MixedEffects
from accord.learning.mixture import Mixture
from accord.learning.network import Shape, blocks, chances, inputs, predict
from accord.learning.network_core import PAPER, NetworkSettings, answers_to
from accord.learning.panel import RULES, predict_panel
from accord.learning.trained_on import MOST_LEVELS, Levels

__all__ = [
    "ALPHAS",
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
    "Evaluator",
    "FEWEST",
    "FEWEST_LABELS",
    "Factory",
    "ISOTONIC",
    "Importance",
    "InContext",
    "Issues",
    "JudgeArgmax",
    "JudgeExpected",
    "LabelFree",
    "LargeDesign",
    "LearnedRubric",
    "Levels",
    "LowestTurn",
    "MOST_LEVELS",
    "Marked",
    "Marking",
    "MeanTurn",
    "MixedCore",
    "MixedEffects",
    "Mixture",
    "NetworkSettings",
    "OFFSET",
    "OWN_SLOPE",
    "OrdinalLink",
    "PAPER",
    "PLATT",
    "PMI",
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
    "check_both",
    "evaluators",
    "finding",
    "held_out",
    "importance",
    "inputs",
    "kinds_of",
    "learn_marks",
    "learned_digest",
    "load_evaluator",
    "marks_of",
    "matrix",
    "method_of",
    "parts",
    "predict",
    "predict_panel",
    "predicted",
    "suggest_labels",
    "verdicts",
]
