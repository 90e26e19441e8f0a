"""Tables of a store, and conditions that several queries share."""

from __future__ import annotations

import functools
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    and_,
    create_mock_engine,
    event,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.types import TypeEngine

from accord.values import ISSUE, Synthetic

SCHEMA_VERSION = 3
"""Version of the tables below; raise it with every change of a table, and add new tables to `ADDED_TABLES`."""
VERSION_TABLE = "schema_version"
metadata = MetaData()


def _columns(kind: type[TypeEngine[Any]], *names: str, **options: bool) -> list[Column[Any]]:
    """Return columns of one type, which may be null without options."""
    return [Column(name, kind, **options) for name in names]  # type: ignore[arg-type]


conversations = Table(
    "conversations",
    metadata,
    *_columns(String, "id", primary_key=True),
    *_columns(String, "hash", nullable=False),
    *_columns(String, "system"),
    *_columns(Integer, "turns", nullable=False),
    *_columns(Text, "content", nullable=False),
    *_columns(String, "added", nullable=False),
    *_columns(Integer, "synthetic"),
    *_columns(String, "imported"),
)
"""`synthetic` is 1 for a synthetic conversation, and null for others; `imported` names the part of an import."""

annotation_table = Table(
    "annotations",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(String, "conversation", nullable=False),
    *_columns(Integer, "turn"),
    *_columns(String, "question", "by", "kind", nullable=False),
    *_columns(Text, "value", "distribution"),
    *_columns(String, "signature", "time", "wording", "against"),
    *_columns(Integer, "against_turn"),
    *_columns(Text, "content"),
    *_columns(String, "added", nullable=False),
    *_columns(Integer, "place", nullable=False),
    *_columns(String, "answer", "replaces", "imported"),
    Index("annotations_by_conversation", "conversation"),
    Index("annotations_by_kind", "kind", "place"),
)
"""Annotations: the fields that queries select by as columns, the others as JSON in `content`.

An annotation that its author changed on a page stays. The new one names the old one's `answer` in `replaces`; each
answer is replaced at most once, so a history is a chain. Only the last annotation of a chain counts as a label.
"""

INDEXES = {
    "INDEX annotations_by_signature ON annotations (signature, conversation) WHERE signature IS NOT NULL": (
        "annotations"
    ),
    "UNIQUE INDEX annotations_by_answer ON annotations (answer) WHERE answer IS NOT NULL": "annotations",
    "UNIQUE INDEX annotations_by_replaced ON annotations (replaces) WHERE replaces IS NOT NULL": "annotations",
    "INDEX conversations_synthetic ON conversations (id) WHERE synthetic IS NOT NULL": "conversations",
}
"""Partial indexes on columns that are mostly null, with their tables.

They are SQL text that both databases accept: an `Index` with a condition imports the dialect of the other database.
"""
for _index, _table in INDEXES.items():
    event.listen(metadata.tables[_table], "after_create", DDL(f"CREATE {_index}"))  # type: ignore[no-untyped-call]

confirmations = Table(
    "confirmations",
    metadata,
    *_columns(String, "import", "table_name", "key", primary_key=True),
    Index("confirmations_by_key", "key"),
)
"""Rows of an import that the store held before: the part of the import, the name of the table and the row's key."""

cache = Table(
    "cache",
    metadata,
    *_columns(String, "key", "kind", primary_key=True),
    *_columns(String, "maker", nullable=False),
    *_columns(Text, "content"),
    *_columns(LargeBinary, "bytes"),
    *_columns(String, "added", nullable=False),
    Index("cache_by_kind", "kind", "added", "key"),
)
"""Reproducible results by the hash of their inputs; `kind` is `reply` (JSON), `vector` (bytes) or `computed` (both).

The usage of requests has the key of their first answer and the kind `usage` (JSON: role, requests, tokens).
"""

cache_conversations = Table(
    "cache_conversations",
    metadata,
    *_columns(String, "conversation", "kind", "key", primary_key=True),
    Index("cache_conversations_by_key", "kind", "key"),
)
"""Conversations whose text a cached reply or vector was made from.

Rows of the cache that no row names here contain no text of a conversation. `UNKNOWN_CONVERSATION` stands for texts of
unknown conversations.
"""
UNKNOWN_CONVERSATION = ""

erased = Table(
    "erased",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(String, "kind", "time", nullable=False),
    *_columns(String, "digest"),
    Index("erased_by_digest", "digest"),
)
"""Hashes of erased conversations and annotators (`kind`), so that no process stores them again.

`digest` is the digest of a conversation's texts by which evaluators list their training conversations.
"""

claims = Table(
    "claims",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(String, "owner", "until", nullable=False),
    Index("claims_by_owner", "owner"),
)
"""Requests in progress by the key of their answer: until `until` (UTC), only `owner` sends the request."""

budgets = Table(
    "budgets",
    metadata,
    *_columns(String, "name", primary_key=True),
    *_columns(BigInteger, "requests", "tokens", "money", nullable=False),
)
"""Amounts that the processes of a shared budget have taken from it; money in billionths."""

runs = Table(
    "runs",
    metadata,
    *_columns(String, "id", primary_key=True),
    *_columns(String, "command", nullable=False),
    *_columns(Text, "settings", nullable=False),
    *_columns(String, "status", nullable=False),
    *_columns(Text, "results"),
    *_columns(String, "started", nullable=False),
    *_columns(String, "finished"),
)


days = Table(
    "days",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(String, "evaluator", "system", "day", nullable=False),
    *_columns(Text, "content", nullable=False),
    Index("days_by_day", "day"),
)

alarms = Table(
    "alarms",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(Text, "content", nullable=False),
    *_columns(String, "raised", nullable=False),
    *_columns(String, "sent"),
)

anchors = Table(
    "anchors",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(String, "evaluator", "conversation", nullable=False),
    *_columns(Integer, "turn"),
    *_columns(String, "day", nullable=False),
    *_columns(Text, "content", nullable=False),
    *_columns(String, "added", nullable=False),
    Index("anchors_by_evaluator", "evaluator", "day"),
    Index("anchors_by_conversation", "conversation"),
)
"""Rated conversations that a model judged again: at most one row per evaluator, target and day."""

# --- users and studies ------------------------------------------------------------------------------------------------

users = Table(
    "users",
    metadata,
    *_columns(String, "name", primary_key=True),
    *_columns(String, "role", "digest", "added", nullable=False),
    Index("users_by_digest", "digest", unique=True),
)
"""User accounts; `digest` is the SHA-256 of the key in the personal link. The key itself is not stored."""

sessions = Table(
    "sessions",
    metadata,
    *_columns(String, "digest", primary_key=True),
    *_columns(String, "person", "until", nullable=False),
    Index("sessions_by_person", "person"),
)

studies = Table(
    "studies",
    metadata,
    *_columns(String, "name", primary_key=True),
    *_columns(Text, "content", nullable=False),
    *_columns(String, "added", nullable=False),
)

items = Table(
    "items",
    metadata,
    *_columns(String, "key", primary_key=True),
    *_columns(String, "study", nullable=False),
    *_columns(Integer, "round", "place", nullable=False),
    *_columns(String, "kind", "conversation", nullable=False),
    *_columns(Integer, "turn"),
    *_columns(String, "against"),
    *_columns(Integer, "against_turn"),
    *_columns(String, "person"),
    Index("items_by_study", "study", "round", "place"),
)
"""Items of a study: conversations, turns or pairs, each once per round; `kind` is plain, gold, check or repeat.

An item with a `person` is assigned to that annotator only.
"""

assignments = Table(
    "assignments",
    metadata,
    *_columns(String, "id", primary_key=True),
    *_columns(String, "item", "study", "person", "state", nullable=False),
    *_columns(Integer, "stage", nullable=False),
    *_columns(String, "until", nullable=False),
    *_columns(String, "reason"),
    *_columns(String, "began", nullable=False),
    *_columns(String, "ended"),
    Index("assignments_by_item", "item", "person", unique=True),
    Index("assignments_by_person", "study", "person", "state"),
)
"""Assignments of items to annotators: `open` with a lease until `until` (UTC), `done`, or `skipped` for a reason."""

predictions = Table(
    "predictions",
    metadata,
    *_columns(String, "item", "person", "question", primary_key=True),
    *_columns(String, "evaluator", nullable=False),
    *_columns(Text, "content", nullable=False),
    *_columns(String, "made", nullable=False),
)
"""Predicted ratings, stored before the annotator answers."""

chats = Table(
    "chats",
    metadata,
    *_columns(String, "id", primary_key=True),
    *_columns(String, "study", "person", "assistant", "topic", "state", "began", nullable=False),
    *_columns(String, "ended", "assignment"),
    Index("chats_by_study", "study", "person", "state"),
)
"""Chats of annotators with an assistant: `open`, `ended` and rated by an assignment, or `dropped`."""

chat_messages = Table(
    "chat_messages",
    metadata,
    *_columns(String, "chat", primary_key=True),
    *_columns(Integer, "place", primary_key=True),
    *_columns(String, "message"),
    *_columns(String, "role", nullable=False),
    *_columns(Text, "content", nullable=False),
    *_columns(String, "state", nullable=False),
    *_columns(String, "reason", "until"),
    *_columns(String, "time", nullable=False),
    *_columns(Text, "details", nullable=False),
    Index("chat_messages_by_message", "chat", "message", unique=True),
)
"""Messages of chats; a message is stored before a reply is requested. `message` is the ID that the page made.

The state of a reply is `writing`, then `complete`, `stopped` by the annotator or `cut` for a reason. A
reply that is still `writing` after `until` (UTC) has lost its writer. Of several replies to one message the last
counts.
"""


ADDED_TABLES = {2: (cache_conversations, erased), 3: (anchors,)}
"""Tables that each version added to the previous version."""


def can_upgrade(version: object) -> bool:
    """Return True for an earlier schema version whose stores get the new tables when they are opened."""
    return isinstance(version, int) and version < SCHEMA_VERSION and version + 1 in ADDED_TABLES


def is_newer(version: object) -> bool:
    """Return True for a schema version of a later Accord."""
    return isinstance(version, int) and version > SCHEMA_VERSION


UPGRADE = "upgrade Accord: pip install --upgrade accord"
"""Next step for a store of a later Accord."""


@functools.cache
def table_statements(dialect: str) -> list[str]:
    """Return the statements that create all tables and indexes; compiling them takes longer than running them."""
    statements: list[ExecutableDDLElement] = []
    mock = create_mock_engine(f"{dialect}://", lambda ddl, *_, **__: statements.append(ddl))
    metadata.create_all(mock, checkfirst=False)
    return [str(ddl.compile(dialect=mock.dialect)) for ddl in statements]


ADJUDICATED = "adjudicated"
"""Annotator of adjudications, and suffix of their study: `NAME/adjudicated`. No account can have this name."""


# --- conditions -----------------------------------------------------------------------------------------------------


def is_current_answer() -> ColumnElement[bool]:
    """Return the condition that a person's annotation is not replaced and does not withdraw a mark."""
    table, later = annotation_table.c, annotation_table.alias("later")
    replaced = select(later.c.key).where(later.c.replaces == table.answer, later.c.by == table.by).exists()
    withdrawal = and_(table.replaces.is_not(None), table.value == "null", table.question.startswith(ISSUE))
    return and_(or_(table.answer.is_(None), not_(replaced)), not_(withdrawal))


def is_rating() -> ColumnElement[bool]:
    """Return the condition that an annotation is not an adjudication, which a page saved for several people."""
    return or_(annotation_table.c.by != ADJUDICATED, annotation_table.c.answer.is_(None))


def is_included(synthetic: Synthetic) -> ColumnElement[bool]:
    """Return the condition that a conversation is included under a setting for synthetic conversations."""
    is_real = conversations.c.synthetic.is_(None)
    return {"without": is_real, "only": not_(is_real), "with": true()}[synthetic]


def has_included_target(synthetic: Synthetic) -> ColumnElement[bool]:
    """Return the condition that all conversations of an annotation are included; see `is_included`."""
    synthetic_ids = select(conversations.c.id).where(conversations.c.synthetic.is_not(None)).scalar_subquery()
    table = annotation_table.c
    if synthetic == "without":
        is_real_pair = or_(table.against.is_(None), table.against.not_in(synthetic_ids))
        return and_(table.conversation.not_in(synthetic_ids), is_real_pair)
    return table.conversation.in_(synthetic_ids) if synthetic == "only" else true()
