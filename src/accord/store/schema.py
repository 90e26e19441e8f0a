"""The tables as they are now; `migrations/` says how older stores get here."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

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

labels = Table(
    "labels",
    metadata,
    Column("key", String, primary_key=True),
    Column("conversation", String, nullable=False),
    Column("turn", Integer),
    Column("question", String, nullable=False),
    Column("annotator", String, nullable=False),
    Column("value", Text),
    Column("time", String),
    Column("wording", String),
    Column("against", String),
    Column("against_turn", Integer),
    Column("added", String, nullable=False),
    Column("place", Integer, nullable=False),
    Index("labels_by_conversation", "conversation"),
)

answers = Table(
    "answers",
    metadata,
    Column("key", String, primary_key=True),
    Column("conversation", String, nullable=False),
    Column("turn", Integer),
    Column("question", String, nullable=False),
    Column("judge", String, nullable=False),
    Column("way", String, nullable=False),
    Column("probabilities", Text, nullable=False),
    Column("outside", Float, nullable=False),
    Column("made_from", Text, nullable=False),
    Column("version", String),
    Column("added", String, nullable=False),
    Index("answers_by_conversation", "conversation"),
)

replies = Table(
    "replies",
    metadata,
    Column("key", String, primary_key=True),
    Column("model", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("added", String, nullable=False),
)

assessments = Table(
    "assessments",
    metadata,
    Column("key", String, primary_key=True),
    Column("conversation", String, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("made_by", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("added", String, nullable=False),
    Index("assessments_by_conversation", "conversation"),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("key", String, primary_key=True),
    Column("embedder", String, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Column("added", String, nullable=False),
)

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
