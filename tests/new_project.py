"""A project file in the working folder, for tests of commands that need a project."""

from __future__ import annotations

from pathlib import Path


def new_project(text: str = "seed: 0\n") -> None:
    """Write `accord.yaml` into the working folder, unless it has one."""
    if not Path("accord.yaml").exists():
        Path("accord.yaml").write_text(text, encoding="utf-8")
