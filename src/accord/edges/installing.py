"""The command that installs an optional part of Accord."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation: from its source checkout, or from the index."""
    flag, source = _source()
    return f"pip install {flag}{shlex.quote(f'{source}[{extra}]')}"


def _source() -> tuple[str, str]:
    """Return pip's flag and the requirement that this installation was made from."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, and seldom needed

    try:
        written = distribution("accord").read_text("direct_url.json")
        about = json.loads(written) if written else {}
        url = urlsplit(about["url"])
    except (PackageNotFoundError, ValueError, KeyError):
        return "", "accord"
    if url.scheme != "file" or "dir_info" not in about:
        return "", "accord"
    folder = Path(unquote(url.path))
    flag = "-e " if about["dir_info"].get("editable") else ""
    return flag, "." if folder == Path.cwd() else str(folder)
