"""The vectors of texts, so that an embedder reads each of them once."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "embeddings",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("embedder", sa.String, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("added", sa.String, nullable=False),
    )
