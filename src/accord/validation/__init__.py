"""Accuracy of evaluators: comparison, errors by group, estimates, learning curves, drift."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
