"""The report: one self-contained HTML file, no script, no network; every figure with its interval."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
