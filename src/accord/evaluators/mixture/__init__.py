"""The mixture evaluator: how much each cheap metric says, and where along its values."""

from accord.evaluators.mixture.mixture import Mixture

__all__ = ["Mixture"]
