"""Scoring: the one way from samples to scores, and the files, folders, batches and engines that use it."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
