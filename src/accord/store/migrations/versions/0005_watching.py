"""What live scores came to, a system and a day at a time, and the alarms that were raised."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "days",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("evaluator", sa.String, nullable=False),
        sa.Column("system", sa.String, nullable=False),
        sa.Column("day", sa.String, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_index("days_by_day", "days", ["day"])
    op.create_table(
        "alarms",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("raised", sa.String, nullable=False),
        sa.Column("sent", sa.String),
    )
