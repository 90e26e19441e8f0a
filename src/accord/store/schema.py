"""The tables as they are now; `migrations/` says how older stores get here."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

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
)

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
    Index("annotations_by_conversation", "conversation"),
    Index("annotations_by_kind", "kind", "place"),
)
"""One row per annotation: what SQL selects by as columns, an annotation's other fields as JSON in `content`."""

cache = Table(
    "cache",
    metadata,
    Column("key", String, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("maker", String, nullable=False),
    Column("content", Text),
    Column("bytes", LargeBinary),
    Column("added", String, nullable=False),
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

scores = Table(
    "scores",
    metadata,
    Column("run", String, primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("conversation", String, nullable=False),
    Column("content", Text, nullable=False),
    Index("scores_by_conversation", "conversation"),
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
