"""`Project` with one method per command, and the verbs that write results: `run`, `gate`."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
