"""Conversations, labels, answers, runs, scores."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("hash", sa.String, nullable=False),
        sa.Column("system", sa.String),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("added", sa.String, nullable=False),
    )
    op.create_table(
        "labels",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("conversation", sa.String, nullable=False),
        sa.Column("turn", sa.Integer),
        sa.Column("question", sa.String, nullable=False),
        sa.Column("annotator", sa.String, nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("time", sa.String),
        sa.Column("added", sa.String, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
    )
    op.create_index("labels_by_conversation", "labels", ["conversation"])
    op.create_table(
        "answers",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("conversation", sa.String, nullable=False),
        sa.Column("turn", sa.Integer),
        sa.Column("question", sa.String, nullable=False),
        sa.Column("judge", sa.String, nullable=False),
        sa.Column("way", sa.String, nullable=False),
        sa.Column("probabilities", sa.Text, nullable=False),
        sa.Column("outside", sa.Float, nullable=False),
        sa.Column("made_from", sa.Text, nullable=False),
        sa.Column("added", sa.String, nullable=False),
    )
    op.create_index("answers_by_conversation", "answers", ["conversation"])
    op.create_table(
        "runs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("command", sa.String, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("results", sa.Text),
        sa.Column("started", sa.String, nullable=False),
        sa.Column("finished", sa.String),
    )
