"""What many scores look like together: distributions, means over time, differences, and what is behind each."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
