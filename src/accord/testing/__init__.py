"""What Accord tests itself with, for your plug-ins and pipelines too: contracts, planted corpora, a loopback server."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
