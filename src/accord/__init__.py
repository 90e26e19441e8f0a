"""Accord learns to judge conversations the way your people do, and proves how well it does.

The names in `__all__` are the public surface; each is imported when it is first used.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
