"""How people's answers follow from evidence: evaluators, their heads, and what they have to beat."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
