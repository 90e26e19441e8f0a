"""Evaluators, heads and answer models: learning from labels how annotators answer."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
