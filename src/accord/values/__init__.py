"""Values shared by all packages: conversations, rubrics, annotations, scores and settings."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
