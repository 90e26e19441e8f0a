"""Models that run in this process, without an API key and, once downloaded, without a network.

This package is optional: Accord imports it only for a model that needs it.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
