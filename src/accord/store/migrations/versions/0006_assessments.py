"""What was found wrong with each turn, and by whom."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "assessments",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("conversation", sa.String, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("made_by", sa.String, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("added", sa.String, nullable=False),
    )
    op.create_index("assessments_by_conversation", "assessments", ["conversation"])
