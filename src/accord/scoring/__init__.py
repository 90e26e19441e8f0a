"""Scoring of samples: the shared pipeline, and its use for files, folders and batches."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
