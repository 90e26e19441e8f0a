"""Storage of conversations, annotations, runs, scores and cached answers in SQLite or PostgreSQL."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
