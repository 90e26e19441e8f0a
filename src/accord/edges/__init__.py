"""Security boundaries: limits on input, escaping of output, paths, secrets, and the errors raised there."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
