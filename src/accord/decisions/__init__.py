"""Decisions: good or bad, sure enough, certificate, recommendation and verdict."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
