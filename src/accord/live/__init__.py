"""Live scoring: scores of messages as they arrive, in a process, over HTTP, or from a log file.

The names of the service need FastAPI and uvicorn (`accord[serve]`).
"""

from typing import Any

from lazy_loader import attach_stub

_named, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _named(name)
    except ModuleNotFoundError:
        _named("check_installed")()
        raise
