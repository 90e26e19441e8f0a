"""Accord learns to judge conversations the way your people do, and proves how well it does.

The names below are the public surface; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from accord.version import __version__ as __version__

_HOME = {
    "AccordError": "accord.errors",
    "Answer": "accord.llm",
    "BadInput": "accord.errors",
    "Calibration": "accord.evaluators",
    "ChatModel": "accord.llm",
    "Conversation": "accord.conversation",
    "Document": "accord.conversation",
    "Evaluator": "accord.evaluators",
    "EvidenceTable": "accord.evidence",
    "Flow": "accord.llm",
    "Judge": "accord.llm",
    "Label": "accord.labels",
    "Labels": "accord.labels",
    "LiveScorer": "accord.live",
    "Question": "accord.rubric",
    "Reward": "accord.reward",
    "Rubric": "accord.rubric",
    "Scale": "accord.scale",
    "Score": "accord.score",
    "Store": "accord.store",
    "Target": "accord.conversation",
    "Turn": "accord.conversation",
    "Unscored": "accord.score",
    "compare": "accord.comparison",
    "load_evaluator": "accord.evaluators",
    "load_rubric": "accord.rubric",
    "metrics": "accord.evidence",
    "read": "accord.readers",
    "read_labels": "accord.readers",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'accord' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
