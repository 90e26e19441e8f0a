"""SVG charts for the report and the web pages, without scripts, readable in light and dark."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
