"""Metrics that are learned from a store's conversations, without a rating."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from accord.evidence.bank.ruber import Relatedness, pairs_of
from accord.store import Store

MOST = 5000
"""The most conversations that are read."""


def train_ruber(store: Store, embedder: str, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Learn how related replies are to what they answer, and keep it in a folder.

    Raises:
        BadInput: The store holds too few contexts, or there is no such embedder.
    """
    names = list(islice(store.conversation_ids(), MOST))
    learned = Relatedness.learn(pairs_of(list(store.conversations(names))), embedder, seed)
    learned.save(folder)
    return {"replies": learned.replies, "accuracy": learned.accuracy, "embedder": learned.embedder}
