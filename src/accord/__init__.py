"""Accord learns to judge conversations the way your people do, and proves how well it does.

The names in `__all__` are the public surface; each is imported when it is first used.
"""

from typing import Any

from lazy_loader import attach_stub

from accord.version import __version__ as __version__

_named, _, _names = attach_stub(__name__, __file__)
__all__ = sorted({"open" if name == "open_project" else name for name in _names})


def __getattr__(name: str) -> Any:
    return _named("open_project" if name == "open" else name)


def __dir__() -> list[str]:
    return __all__.copy()
