"""The tables as they are now; `migrations/` says how older stores get here."""

from __future__ import annotations

from sqlalchemy import DDL, BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text, event

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

annotated = Table(
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
"""One row per annotation: what SQL selects by as columns, an annotation's other fields as JSON in `content`.

What its author changed on a page stays, and the one that replaces it names it: each at most once, so that a history is
a chain. Only the last of a chain is a label.
"""

INDEXES = {
    "INDEX annotations_by_signature ON annotations (signature, conversation) WHERE signature IS NOT NULL": annotated,
    "UNIQUE INDEX annotations_by_answer ON annotations (answer) WHERE answer IS NOT NULL": annotated,
    "UNIQUE INDEX annotations_by_replaced ON annotations (replaces) WHERE replaces IS NOT NULL": annotated,
    "INDEX conversations_synthetic ON conversations (id) WHERE synthetic IS NOT NULL": conversations,
}
"""Partial indexes, most of whose columns are null, with their tables.

They are SQL that both databases understand, because `Index` with a condition imports the dialect of the other one.
"""
for _index, _table in INDEXES.items():
    event.listen(_table, "after_create", DDL(f"CREATE {_index}"))  # type: ignore[no-untyped-call]

confirmations = Table(
    "confirmations",
    metadata,
    Column("import", String, primary_key=True),
    Column("about", String, primary_key=True),
    Column("key", String, primary_key=True),
    Index("confirmations_by_key", "key"),
)
"""Rows that an import found already there: the part of the import, the table's name and the row's key."""

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
"""What can be had again, by the hash of all that can change it: a `reply` as JSON, a `vector` as bytes, `computed`."""

claims = Table(
    "claims",
    metadata,
    Column("key", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("until", String, nullable=False),
    Index("claims_by_owner", "owner"),
)
"""What somebody is asking right now, by the key its answer will have: nobody else asks it `until` then (UTC)."""

budgets = Table(
    "budgets",
    metadata,
    Column("name", String, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("money", BigInteger, nullable=False),
)
"""What processes that share a budget have taken of it; money in billionths."""

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

# --- the workbench ------------------------------------------------------------------------------------------------

people = Table(
    "people",
    metadata,
    Column("name", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("added", String, nullable=False),
    Index("people_by_digest", "digest", unique=True),
)
"""Who may come in: `digest` is the SHA-256 of the key in the personal link, which nobody keeps."""

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
"""What a study is about: conversations, turns or pairs, each once a round; `kind` is plain, gold, check or repeat.

One that names a `person` is for that person alone: what it rates a second time.
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
"""Who has which item: `open` as long as `until`, then anybody's again; `done`, or `skipped` for a reason."""

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
"""What an evaluator expected of a person, kept before that person answered."""

talks = Table(
    "talks",
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
    Index("talks_by_study", "study", "person", "state"),
)
"""A conversation that somebody holds: `open`, `ended` and being rated by an assignment, or `dropped` for another."""

talk_messages = Table(
    "talk_messages",
    metadata,
    Column("talk", String, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("message", String),
    Column("role", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("reason", String),
    Column("until", String),
    Column("time", String, nullable=False),
    Column("about", Text, nullable=False),
    Index("talk_messages_by_message", "talk", "message", unique=True),
)
"""What was said of it, each before anybody is asked for a reply; `message` is the id that the page made.

A reply is `writing` until it is `said`, `stopped` by the person or `cut` for a reason; nobody writes it any more
once `until` (UTC) is over. Of several replies to one message the last one counts.
"""
