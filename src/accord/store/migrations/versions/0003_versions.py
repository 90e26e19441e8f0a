"""Which version of a judge gave an answer, and under which wording of its question a label was given."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("answers", sa.Column("version", sa.String))
    op.add_column("labels", sa.Column("wording", sa.String))
