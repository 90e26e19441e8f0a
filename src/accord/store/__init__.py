"""What outlives a run: conversations, labels, judge answers, runs and scores, in SQLite or PostgreSQL."""

from accord.store.assessed import Assessed
from accord.store.embedded import Embedded
from accord.store.engine import StoreError
from accord.store.rows import batches, changed_conversation, unknown_target
from accord.store.store import Added, Store
from accord.store.watched import Watched

__all__ = [
    "Added",
    "Assessed",
    "Embedded",
    "Store",
    "StoreError",
    "Watched",
    "batches",
    "changed_conversation",
    "unknown_target",
]
