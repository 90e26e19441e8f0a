"""Annotation studies: sessions, sampling, agreement, predictions and retraining, without a web framework."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
