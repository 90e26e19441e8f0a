"""The issues evaluator: which issues people would mark, and what they would say of a dialogue whose turns have them."""

from accord.evaluators.issues.issues import Issues
from accord.evaluators.issues.marking import Marked, Marking
from accord.evaluators.issues.turns import LowestTurn, MeanTurn

__all__ = ["Issues", "LowestTurn", "Marked", "Marking", "MeanTurn"]
