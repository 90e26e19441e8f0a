"""Who takes part, what they are asked, who has which item, what was predicted before they answered."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    text = sa.String
    for column in ("answer", "replaces"):
        op.add_column("annotations", sa.Column(column, text))
    op.execute("CREATE UNIQUE INDEX annotations_by_answer ON annotations (answer) WHERE answer IS NOT NULL")
    op.execute("CREATE UNIQUE INDEX annotations_by_replaced ON annotations (replaces) WHERE replaces IS NOT NULL")
    op.create_table(
        "people",
        sa.Column("name", text, primary_key=True),
        sa.Column("role", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("added", text, nullable=False),
    )
    op.create_index("people_by_digest", "people", ["digest"], unique=True)
    op.create_table(
        "sessions",
        sa.Column("digest", text, primary_key=True),
        sa.Column("person", text, nullable=False),
        sa.Column("until", text, nullable=False),
    )
    op.create_index("sessions_by_person", "sessions", ["person"])
    op.create_table(
        "studies",
        sa.Column("name", text, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("added", text, nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("key", text, primary_key=True),
        sa.Column("study", text, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("conversation", text, nullable=False),
        sa.Column("turn", sa.Integer),
        sa.Column("against", text),
        sa.Column("against_turn", sa.Integer),
        sa.Column("person", text),
    )
    op.create_index("items_by_study", "items", ["study", "round", "place"])
    op.create_table(
        "assignments",
        sa.Column("id", text, primary_key=True),
        sa.Column("item", text, nullable=False),
        sa.Column("study", text, nullable=False),
        sa.Column("person", text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("until", text, nullable=False),
        sa.Column("reason", text),
        sa.Column("began", text, nullable=False),
        sa.Column("ended", text),
    )
    op.create_index("assignments_by_item", "assignments", ["item", "person"], unique=True)
    op.create_index("assignments_by_person", "assignments", ["study", "person", "state"])
    op.create_table(
        "predictions",
        sa.Column("item", text, primary_key=True),
        sa.Column("person", text, primary_key=True),
        sa.Column("question", text, primary_key=True),
        sa.Column("evaluator", text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("made", text, nullable=False),
    )
