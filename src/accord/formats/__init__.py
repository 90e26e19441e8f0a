"""Readers of conversations, labels and annotations, one module per format; writers of scores and annotations."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
