"""The sample that ships with Accord: 150 conversations written for it, with ratings drawn by a stated script."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

ABOUT = (
    "These conversations were written for this demo, and their ratings were drawn by a script, with habits and noise "
    "of four annotators, from a quality written down for each conversation (tools/draw_sample_ratings.py). The "
    "figures show that the machinery works, and say nothing about your conversations and your people."
)
"""What the demo says of its own conversations and ratings."""


def sources() -> list[Path]:
    """The sample's files: conversations, and ratings."""
    folder = Path(str(files("accord.sample")))
    return [folder / "conversations.jsonl", folder / "ratings.csv"]
