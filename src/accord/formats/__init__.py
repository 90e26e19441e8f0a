"""Conversations, labels and annotations from files, one file per format, one at a time; scores and annotations out."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
