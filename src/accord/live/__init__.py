"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log.

The service's names need FastAPI and uvicorn, which are an extra (`accord[serve]`).
"""

from typing import Any

from lazy_loader import attach_stub

_named, __dir__, __all__ = attach_stub(__name__, __file__)
_NEEDS_SERVE = {
    "Batcher", "Busy", "Late", "Opening", "Service", "checked_proxies", "impatient", "make_app", "opened_service",
    "serve", "serve_workers",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NEEDS_SERVE:
        _named("check_installed")()
    return _named(name)
