"""One table of annotations for labels, judge answers and issues; one cache for replies and vectors.

Rows that only change their table are moved by the database itself; judge answers and issues, which change their shape,
a page at a time. What an answer was made from calls `mode` what it called `way` until 0.1: its key, the hash of that,
is computed anew, so that the answer is found again.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from accord.values import canonical_json, content_hash

revision = "0008"
down_revision = "0007"

PAGE = 1000
_OLD = ("labels", "answers", "assessments", "replies", "embeddings")


def upgrade() -> None:
    annotations, cache = _tables()
    connection = op.get_bind()
    labels, answers, assessments, replies, embeddings = (
        sa.Table(name, sa.MetaData(), autoload_with=connection) for name in _OLD
    )
    _move_labels(connection, labels, annotations)
    _move(connection, answers, annotations, _answer)
    _move(connection, assessments, annotations, _issues)
    for old, kind, maker, content, data in (
        (replies, "reply", replies.c.model, replies.c.content, sa.null()),
        (embeddings, "vector", embeddings.c.embedder, sa.null(), embeddings.c.vector),
    ):
        rows = sa.select(old.c.key, sa.literal(kind), maker, content, data, old.c.added)
        connection.execute(sa.insert(cache).from_select(["key", "kind", "maker", "content", "bytes", "added"], rows))
    for name in _OLD:
        op.drop_table(name)


def _tables() -> tuple[sa.Table, sa.Table]:
    annotations = op.create_table(
        "annotations",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("conversation", sa.String, nullable=False),
        sa.Column("turn", sa.Integer),
        sa.Column("question", sa.String, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("distribution", sa.Text),
        sa.Column("signature", sa.String),
        sa.Column("time", sa.String),
        sa.Column("wording", sa.String),
        sa.Column("against", sa.String),
        sa.Column("against_turn", sa.Integer),
        sa.Column("content", sa.Text),
        sa.Column("added", sa.String, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
    )
    cache = op.create_table(
        "cache",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("maker", sa.String, nullable=False),
        sa.Column("content", sa.Text),
        sa.Column("bytes", sa.LargeBinary),
        sa.Column("added", sa.String, nullable=False),
    )
    op.create_index("annotations_by_conversation", "annotations", ["conversation"])
    op.create_index("annotations_by_kind", "annotations", ["kind", "place"])
    assert annotations is not None and cache is not None
    return annotations, cache


def _move_labels(connection: sa.Connection, labels: sa.Table, annotations: sa.Table) -> None:
    same = ["key", "conversation", "turn", "question", "time", "wording", "against", "against_turn", "added", "place"]
    rows = sa.select(*(labels.c[name] for name in [*same, "annotator", "value"]), sa.literal("person"))
    connection.execute(sa.insert(annotations).from_select([*same, "by", "value", "kind"], rows))


def _move(
    connection: sa.Connection, old: sa.Table, annotations: sa.Table, rows_of: Callable[[Any], list[dict[str, Any]]]
) -> None:
    """Every row of a table as rows of models' annotations, a page of keys at a time."""
    place = connection.execute(sa.select(sa.func.max(annotations.c.place)).filter_by(kind="model")).scalar() or 0
    for page in _pages(connection, old):
        found = [new for row in page for new in rows_of(row)]
        numbered = [{**new, "kind": "model", "place": place + offset} for offset, new in enumerate(found, 1)]
        connection.execute(sa.insert(annotations), numbered)
        place += len(found)


def _pages(connection: sa.Connection, old: sa.Table) -> Iterator[list[Any]]:
    query = sa.select(old).order_by(old.c.key).limit(PAGE)
    page = list(connection.execute(query))
    while page:
        yield page
        page = list(connection.execute(query.where(old.c.key > page[-1].key)))


def _answer(row: Any) -> list[dict[str, Any]]:
    made_from = json.loads(row.made_from)
    key = row.key
    if isinstance(made_from, dict) and "way" in made_from:
        renamed = {"mode" if name == "way" else name: value for name, value in made_from.items()}
        if key == content_hash(made_from, length=40):
            key = content_hash(renamed, length=40)
        made_from = renamed
    content = {"mode": row.way, "outside": row.outside, "made_from": made_from, "version": row.version}
    return [
        {
            **_empty(row, row.question, row.judge, value=None),
            "key": key,
            "distribution": row.probabilities,
            "content": canonical_json({name: value for name, value in content.items() if value is not None}),
        }
    ]


def _issues(row: Any) -> list[dict[str, Any]]:
    """The overall score of a turn, and the issues that were found with it."""
    found = json.loads(row.content)
    group = content_hash([row.conversation, row.turn, row.made_by, found], length=16)
    shared = {"group": group, **({"seen": found["said"]} if found.get("said") else {})}
    parts = (part.partition(":") for part in row.made_by.split("|"))
    model = next((value for name, _, value in parts if name == "model" and value), row.made_by)
    overall = _empty(row, "overall", model, found["score"])
    more = {name: found[name] for name in ("comment", "losses") if found.get(name)}
    new = [{**overall, "key": row.key, "signature": row.made_by, "content": canonical_json({**shared, **more})}]
    for part, issue in enumerate(found["issues"], 1):
        named = {"comment": issue["comment"], "quote": issue.get("quote"), "span": issue.get("span")}
        details = {name: value for name, value in named.items() if value}
        if issue.get("said") is not None:
            details["called"] = issue["said"]
        new.append(
            {
                **_empty(row, f"issue:{issue['type']}", model, 1),
                "key": content_hash([row.key, group, part], length=40),
                "signature": row.made_by,
                "content": canonical_json({**shared, **details, "part": part}),
            }
        )
    return new


def _empty(row: Any, question: str, by: str, value: Any) -> dict[str, Any]:
    """What all new rows of an old one share, every column that most of them leave empty included."""
    absent = dict.fromkeys(("distribution", "signature", "time", "wording", "against", "against_turn", "content"))
    target = {"conversation": row.conversation, "turn": row.turn}
    return {**absent, **target, "question": question, "by": by, "value": canonical_json(value), "added": row.added}
