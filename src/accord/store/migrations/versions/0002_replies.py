"""Replies of chat models, kept for the next time they are asked."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "replies",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("added", sa.String, nullable=False),
    )
