"""What outlives a run: conversations, annotations, runs, scores and the cache, in SQLite or PostgreSQL."""

from accord.store.engine import StoreError, open_engine
from accord.store.parts import Computed, Embedded, IssueAnnotations, Watched
from accord.store.rows import Added, batches, changed_conversation, now, unknown_target
from accord.store.schema import metadata
from accord.store.store import Store

__all__ = [
    "Added",
    "Computed",
    "Embedded",
    "IssueAnnotations",
    "Store",
    "StoreError",
    "Watched",
    "batches",
    "changed_conversation",
    "metadata",
    "now",
    "open_engine",
    "unknown_target",
]
