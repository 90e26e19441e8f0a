"""Budgets that several processes share, and indices for what is asked of many annotations."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("money", sa.BigInteger, nullable=False),
    )
    op.execute(
        "CREATE INDEX annotations_by_signature ON annotations (signature, conversation) WHERE signature IS NOT NULL"
    )
    op.create_index("cache_by_kind", "cache", ["kind", "added", "key"])
