"""What is being asked right now, and by whom, so that nobody else asks and pays for it too."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "claims",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("until", sa.String, nullable=False),
    )
    op.create_index("claims_by_owner", "claims", ["owner"])
