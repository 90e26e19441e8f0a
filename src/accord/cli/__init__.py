"""The command line: a command parses, calls one library function, prints. Heavy imports wait inside the commands."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
