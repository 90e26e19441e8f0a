"""Conversations that people hold in the workbench, message by message, until they end and are rated."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    text = sa.String
    op.create_table(
        "talks",
        sa.Column("id", text, primary_key=True),
        sa.Column("study", text, nullable=False),
        sa.Column("person", text, nullable=False),
        sa.Column("assistant", text, nullable=False),
        sa.Column("topic", text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("began", text, nullable=False),
        sa.Column("ended", text),
        sa.Column("assignment", text),
    )
    op.create_index("talks_by_study", "talks", ["study", "person", "state"])
    op.create_table(
        "talk_messages",
        sa.Column("talk", text, primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("message", text),
        sa.Column("role", text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("reason", text),
        sa.Column("until", text),
        sa.Column("time", text, nullable=False),
        sa.Column("about", sa.Text, nullable=False),
    )
    op.create_index("talk_messages_by_message", "talk_messages", ["talk", "message"], unique=True)
