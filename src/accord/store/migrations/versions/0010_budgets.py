"""Budgets that several processes share, and indices for what is asked of many annotations."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("money", sa.BigInteger, nullable=False),
    )
    some = sa.text("signature IS NOT NULL")
    op.create_index(
        "annotations_by_signature", "annotations", ["signature", "conversation"],
        sqlite_where=some, postgresql_where=some,
    )  # fmt: skip
    op.create_index("cache_by_kind", "cache", ["kind", "added", "key"])
