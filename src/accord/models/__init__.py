"""Models: requests, endpoints, judges, budgets, and the drivers of flows."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
