"""What a comparison held its target against."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("labels", sa.Column("against", sa.String))
    op.add_column("labels", sa.Column("against_turn", sa.Integer))
