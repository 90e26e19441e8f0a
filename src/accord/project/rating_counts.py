"""Numbers of ratings of the main question: by wording, and learned or new for the evaluator in use."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from accord.learning import CARD


def modified_at(folder: Path) -> str:
    """Return the time at which an evaluator was saved, in ISO format (UTC)."""
    modified = (folder / CARD).stat().st_mtime
    return datetime.fromtimestamp(modified, UTC).isoformat(timespec="milliseconds")
