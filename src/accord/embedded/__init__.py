"""Models that run in this process, without an API key and, once downloaded, without a network.

An optional package: the rest of Accord imports it only when a model's name asks for it.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
