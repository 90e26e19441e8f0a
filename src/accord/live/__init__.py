"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log.

The service's names need FastAPI and uvicorn, which are an extra (`accord[serve]`).
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
