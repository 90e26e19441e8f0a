"""The import that brought each conversation and annotation, and the imports that confirm it."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("conversations", sa.Column("imported", sa.String))
    op.add_column("annotations", sa.Column("imported", sa.String))
    op.create_table(
        "confirmations",
        sa.Column("import", sa.String, primary_key=True),
        sa.Column("about", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
    )
    op.create_index("confirmations_by_key", "confirmations", ["key"])
