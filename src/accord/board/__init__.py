"""Board data: distributions of scores, means over time and by group, differences, and lists of texts."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
