"""What outlives a run: conversations, annotations, runs, scores and the cache, in SQLite or PostgreSQL."""

from accord.store.account import MONEY, Account, Amounts
from accord.store.check import Checked, Damage, check_store
from accord.store.engine import StoreError, newest_migration, open_engine
from accord.store.mart import BATCH_ROWS, LIVE_ROWS, LOOSE, Mart, MartState, MartWriter, mart_folder
from accord.store.mart_rows import BUNDLES, MART, MartRow, bundle_of, frames_of, mart_schema, row_key
from accord.store.paid import LEASE_SECONDS, Claims, Paid, Spool, Taken, Unsaved, add_paid, utc
from accord.store.parts import WIRE, Computed, Embedded, IssueAnnotations, Watched, labels_state
from accord.store.people import ROLES, Conflict, People, Person, Role
from accord.store.rows import (
    Added,
    Columns,
    Keys,
    batches,
    changed_conversation,
    conversation_row,
    label_row,
    now,
    unknown_target,
)
from accord.store.schema import metadata
from accord.store.scored import RunScores, live_scores, scores_about
from accord.store.store import Store
from accord.store.studies import ADJUDICATED, Assignment, Candidate, Item, LeaseExpired, Prediction, Studies
from accord.store.talks import DIED, Limits, Said, Talk, Talks
from accord.store.upkeep import backup, prune, restore, vacuum

__all__ = [
    "ADJUDICATED",
    "Account",
    "Added",
    "Amounts",
    "Assignment",
    "BATCH_ROWS",
    "BUNDLES",
    "Candidate",
    "Checked",
    "Claims",
    "Columns",
    "Computed",
    "Conflict",
    "DIED",
    "Damage",
    "Embedded",
    "IssueAnnotations",
    "Item",
    "Keys",
    "LEASE_SECONDS",
    "LIVE_ROWS",
    "LOOSE",
    "LeaseExpired",
    "Limits",
    "MART",
    "MONEY",
    "Mart",
    "MartRow",
    "MartState",
    "MartWriter",
    "Paid",
    "People",
    "Person",
    "Prediction",
    "ROLES",
    "Role",
    "RunScores",
    "Said",
    "Spool",
    "Store",
    "StoreError",
    "Studies",
    "Taken",
    "Talk",
    "Talks",
    "Unsaved",
    "WIRE",
    "Watched",
    "add_paid",
    "backup",
    "batches",
    "bundle_of",
    "changed_conversation",
    "check_store",
    "conversation_row",
    "frames_of",
    "label_row",
    "labels_state",
    "live_scores",
    "mart_folder",
    "mart_schema",
    "metadata",
    "newest_migration",
    "now",
    "open_engine",
    "prune",
    "restore",
    "row_key",
    "scores_about",
    "unknown_target",
    "utc",
    "vacuum",
]
