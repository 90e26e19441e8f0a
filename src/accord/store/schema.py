"""Tables of a store, and conditions that several queries share."""

from __future__ import annotations

import functools

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

from accord.values import ISSUE, Synthetic

SCHEMA_VERSION = 1
"""Version of the tables below; raise it with every change of them."""
VERSION_TABLE = "schema_version"
metadata = MetaData()

conversations = Table(
    "conversations",
    metadata,
    Column("id", String, primary_key=True),
    Column("hash", String, nullable=False),
    Column("system", String),
    Column("turns", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("added", String, nullable=False),
    Column("synthetic", Integer),
    Column("imported", String),
)
"""`synthetic` is 1 for a synthetic conversation, and null for others; `imported` names the part of an import."""

annotation_table = Table(
    "annotations",
    metadata,
    Column("key", String, primary_key=True),
    Column("conversation", String, nullable=False),
    Column("turn", Integer),
    Column("question", String, nullable=False),
    Column("by", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("value", Text),
    Column("distribution", Text),
    Column("signature", String),
    Column("time", String),
    Column("wording", String),
    Column("against", String),
    Column("against_turn", Integer),
    Column("content", Text),
    Column("added", String, nullable=False),
    Column("place", Integer, nullable=False),
    Column("answer", String),
    Column("replaces", String),
    Column("imported", String),
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
    Column("import", String, primary_key=True),
    Column("table_name", String, primary_key=True),
    Column("key", String, primary_key=True),
    Index("confirmations_by_key", "key"),
)
"""Rows of an import that the store held before: the part of the import, the name of the table and the row's key."""

cache = Table(
    "cache",
    metadata,
    Column("key", String, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("maker", String, nullable=False),
    Column("content", Text),
    Column("bytes", LargeBinary),
    Column("added", String, nullable=False),
    Index("cache_by_kind", "kind", "added", "key"),
)
"""Reproducible results by the hash of their inputs; `kind` is `reply` (JSON), `vector` (bytes) or `computed` (both)."""

claims = Table(
    "claims",
    metadata,
    Column("key", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("until", String, nullable=False),
    Index("claims_by_owner", "owner"),
)
"""Requests in progress by the key of their answer: until `until` (UTC), only `owner` sends the request."""

budgets = Table(
    "budgets",
    metadata,
    Column("name", String, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("money", BigInteger, nullable=False),
)
"""Amounts that the processes of a shared budget have taken from it; money in billionths."""

runs = Table(
    "runs",
    metadata,
    Column("id", String, primary_key=True),
    Column("command", String, nullable=False),
    Column("settings", Text, nullable=False),
    Column("status", String, nullable=False),
    Column("results", Text),
    Column("started", String, nullable=False),
    Column("finished", String),
)


days = Table(
    "days",
    metadata,
    Column("key", String, primary_key=True),
    Column("evaluator", String, nullable=False),
    Column("system", String, nullable=False),
    Column("day", String, nullable=False),
    Column("content", Text, nullable=False),
    Index("days_by_day", "day"),
)

alarms = Table(
    "alarms",
    metadata,
    Column("key", String, primary_key=True),
    Column("content", Text, nullable=False),
    Column("raised", String, nullable=False),
    Column("sent", String),
)

# --- users and studies ------------------------------------------------------------------------------------------------

users = Table(
    "users",
    metadata,
    Column("name", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("added", String, nullable=False),
    Index("users_by_digest", "digest", unique=True),
)
"""User accounts; `digest` is the SHA-256 of the key in the personal link. The key itself is not stored."""

sessions = Table(
    "sessions",
    metadata,
    Column("digest", String, primary_key=True),
    Column("person", String, nullable=False),
    Column("until", String, nullable=False),
    Index("sessions_by_person", "person"),
)

studies = Table(
    "studies",
    metadata,
    Column("name", String, primary_key=True),
    Column("content", Text, nullable=False),
    Column("added", String, nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("key", String, primary_key=True),
    Column("study", String, nullable=False),
    Column("round", Integer, nullable=False),
    Column("place", Integer, nullable=False),
    Column("kind", String, nullable=False),
    Column("conversation", String, nullable=False),
    Column("turn", Integer),
    Column("against", String),
    Column("against_turn", Integer),
    Column("person", String),
    Index("items_by_study", "study", "round", "place"),
)
"""Items of a study: conversations, turns or pairs, each once per round; `kind` is plain, gold, check or repeat.

An item with a `person` is assigned to that annotator only.
"""

assignments = Table(
    "assignments",
    metadata,
    Column("id", String, primary_key=True),
    Column("item", String, nullable=False),
    Column("study", String, nullable=False),
    Column("person", String, nullable=False),
    Column("state", String, nullable=False),
    Column("stage", Integer, nullable=False),
    Column("until", String, nullable=False),
    Column("reason", String),
    Column("began", String, nullable=False),
    Column("ended", String),
    Index("assignments_by_item", "item", "person", unique=True),
    Index("assignments_by_person", "study", "person", "state"),
)
"""Assignments of items to annotators: `open` with a lease until `until` (UTC), `done`, or `skipped` for a reason."""

predictions = Table(
    "predictions",
    metadata,
    Column("item", String, primary_key=True),
    Column("person", String, primary_key=True),
    Column("question", String, primary_key=True),
    Column("evaluator", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("made", String, nullable=False),
)
"""Predicted ratings, stored before the annotator answers."""

chats = Table(
    "chats",
    metadata,
    Column("id", String, primary_key=True),
    Column("study", String, nullable=False),
    Column("person", String, nullable=False),
    Column("assistant", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("state", String, nullable=False),
    Column("began", String, nullable=False),
    Column("ended", String),
    Column("assignment", String),
    Index("chats_by_study", "study", "person", "state"),
)
"""Chats of annotators with an assistant: `open`, `ended` and rated by an assignment, or `dropped`."""

chat_messages = Table(
    "chat_messages",
    metadata,
    Column("chat", String, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("message", String),
    Column("role", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("reason", String),
    Column("until", String),
    Column("time", String, nullable=False),
    Column("details", Text, nullable=False),
    Index("chat_messages_by_message", "chat", "message", unique=True),
)
"""Messages of chats; a message is stored before a reply is requested. `message` is the ID that the page made.

The state of a reply is `writing`, then `said` if it is complete, `stopped` by the annotator or `cut` for a reason. A
reply that is still `writing` after `until` (UTC) has lost its writer. Of several replies to one message the last
counts.
"""


@functools.cache
def table_statements(dialect: str) -> list[str]:
    """Return the statements that create all tables and indexes; compiling them takes longer than running them."""
    statements: list[ExecutableDDLElement] = []
    mock = create_mock_engine(f"{dialect}://", lambda ddl, *_, **__: statements.append(ddl))
    metadata.create_all(mock, checkfirst=False)
    return [str(ddl.compile(dialect=mock.dialect)) for ddl in statements]


# --- conditions -----------------------------------------------------------------------------------------------------


def is_current_answer() -> ColumnElement[bool]:
    """Return the condition that a person's annotation is not replaced and does not withdraw a mark."""
    table, later = annotation_table.c, annotation_table.alias("later")
    replaced = select(later.c.key).where(later.c.replaces == table.answer, later.c.by == table.by).exists()
    withdrawal = and_(table.replaces.is_not(None), table.value == "null", table.question.startswith(ISSUE))
    return and_(or_(table.answer.is_(None), not_(replaced)), not_(withdrawal))


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
