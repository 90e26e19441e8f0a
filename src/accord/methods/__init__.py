"""Sources that ask a model, or learn: one folder per method."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
