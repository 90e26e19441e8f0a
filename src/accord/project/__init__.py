"""Projects: an opened `accord.yaml` with one method per command, each of which returns a typed result."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
