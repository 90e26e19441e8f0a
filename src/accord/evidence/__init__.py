"""Evidence: what is known of a conversation before anyone learns from it."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
