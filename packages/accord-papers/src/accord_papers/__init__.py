"""The studies of the five papers: their tables, baselines and ablations on the papers' data or on a project."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
