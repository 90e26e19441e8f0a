"""Report of an evaluator as a self-contained HTML file, the page of a check, and the page of issues."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
