"""Accord learns to judge conversations the way your people do, and proves how well it does.

The names below are the public surface; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from accord.version import __version__ as __version__

_HOME = {
    "AccordError": "accord.values",
    "BadInput": "accord.values",
    "ChatModel": "accord.models",
    "Conversation": "accord.values",
    "Document": "accord.values",
    "Evaluator": "accord.learning",
    "EvidenceTable": "accord.evidence",
    "Judge": "accord.models",
    "Label": "accord.values",
    "Labels": "accord.values",
    "LiveScorer": "accord.live",
    "Question": "accord.values",
    "Reward": "accord.live",
    "Rubric": "accord.values",
    "Source": "accord.evidence",
    "Scale": "accord.values",
    "Score": "accord.values",
    "Store": "accord.store",
    "Target": "accord.values",
    "Turn": "accord.values",
    "Unscored": "accord.values",
    "compare": "accord.validation",
    "load_evaluator": "accord.learning",
    "load_rubric": "accord.values",
    "metrics": "accord.evidence",
    "open": "accord.project",
    "Project": "accord.project",
    "read": "accord.formats",
    "read_labels": "accord.formats",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("accord.project").open_project
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'accord' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
