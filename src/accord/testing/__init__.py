"""Test tools for plug-ins and pipelines: contract checks, a synthetic corpus, a loopback model server."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
