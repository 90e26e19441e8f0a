"""The sample that ships with Accord: forty conversations written for it, with ratings drawn by a stated script."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def sources() -> list[Path]:
    """The sample's files: conversations, and ratings."""
    folder = Path(str(files("accord.sample")))
    return [folder / "conversations.jsonl", folder / "ratings.csv"]
