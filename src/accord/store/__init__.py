"""What outlives a run: conversations, annotations, runs, scores and the cache, in SQLite or PostgreSQL."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
