"""URLs as they may be shown and kept: without a user, a password or a query."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit


def plain_url(url: Any) -> str:
    """The URL without a user, a password or a query; what cannot be taken apart is not shown at all."""
    try:
        parts = urlsplit(str(url))
    except ValueError:
        return "(not a URL)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}{parts.path}"


def is_web_address(url: str) -> bool:
    """Whether something may be asked of the address over HTTP."""
    return url.startswith(("http://", "https://"))
