"""The model layer: what is asked of a model, who answers, within which budget, and the driver that waits."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
