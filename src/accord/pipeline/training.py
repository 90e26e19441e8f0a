"""Metrics that are learned from a store's conversations, without a rating."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from accord.errors import BadInput
from accord.evidence.bank.ruber import Relatedness, pairs_of
from accord.store import Store

CHANCE = 0.55
"""Of two, how often the right one is found by hardly more than chance."""
MOST = 5000
"""The most conversations that are read."""


def train_ruber(store: Store, embedder: str, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Learn how related replies are to what they answer, and keep it in a folder.

    Raises:
        BadInput: The store holds too few contexts, or replies that have nothing to do with them, or there is no such
            embedder.
    """
    names = list(islice(store.conversation_ids(), MOST))
    learned = Relatedness.learn(pairs_of(list(store.conversations(names))), embedder, seed)
    if learned.accuracy <= CHANCE:
        raise BadInput(
            f"{learned.accuracy:.0%} of held-out replies are nearer to their own context than to another, which is "
            "chance: nothing was learned from these conversations"
        )
    learned.save(folder)
    return {"replies": learned.replies, "accuracy": learned.accuracy, "embedder": learned.embedder}
