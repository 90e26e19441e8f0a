"""What runs and live scoring said of one conversation: its scores, and what each was made by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from accord.store.engine import read_json
from accord.store.mart import LIVE_ROWS, Mart
from accord.store.mart_rows import bundle_of
from accord.store.schema import runs, scores
from accord.store.store import Store
from accord.values import SCORE_COLUMNS


@dataclass(frozen=True)
class RunScores:
    """The scores that one run gave a conversation or its turns.

    Attributes:
        run: Its id; empty of what was scored live.
        command: What it was: `score`, `run`, ..., `live`.
        evaluator: What it was done with; may be empty.
        status: `done`, `running`, `failed` or `interrupted`.
        started: When (UTC).
        rows: Scores as `Score.to_json` has them, in their order.
    """

    run: str
    command: str
    evaluator: str
    status: str
    started: str
    rows: tuple[Mapping[str, Any], ...]


def scores_about(store: Store, conversation: str) -> list[RunScores]:
    """The scores of a conversation by run, the latest run first."""
    query = select(scores.c.run, scores.c.content).where(scores.c.conversation == conversation)
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for run, content in store._stream(query.order_by(scores.c.run, scores.c.place)):
        rows.setdefault(run, []).append(read_json(content))
    about = select(runs.c.id, runs.c.command, runs.c.status, runs.c.started, runs.c.settings)
    known = {row.id: row for row in store._stream(about.where(runs.c.id.in_(sorted(rows))))} if rows else {}
    found = [_scores(run, known.get(run), mine) for run, mine in rows.items()]
    return sorted(found, key=lambda each: (each.started, each.run), reverse=True)


def _scores(run: str, about: Any, rows: list[Mapping[str, Any]]) -> RunScores:
    if about is None:
        return RunScores(run, "", "", "", "", tuple(rows))
    evaluator = str(read_json(about.settings).get("evaluator") or "")
    return RunScores(run, about.command, evaluator, about.status, about.started, tuple(rows))


def live_scores(mart: Mart, conversation: str) -> list[RunScores]:
    """The scores that live scoring gave a conversation, by evaluator, the latest first.

    Raises:
        StoreError: The mart cannot be read.
    """
    import polars as pl

    if not mart.folder.is_dir():
        return []
    wanted = (pl.col("bundle") == bundle_of(conversation)) & (pl.col("conversation") == conversation)
    live = wanted & (pl.col("origin") == LIVE_ROWS)
    found, _ = mart.read(lambda rows: rows.filter(live).sort("scored", "turn").collect())
    made: dict[str, list[dict[str, Any]]] = {}
    for row in found.iter_rows(named=True):
        made.setdefault(row["evaluator"], []).append(row)
    return [
        RunScores(
            "", "live", name.partition("@")[0], "done", rows[-1]["scored"].isoformat(), tuple(map(_of_mart, rows))
        )
        for name, rows in reversed(made.items())
    ]


def _of_mart(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of the mart as `Score.to_json` has it."""
    names = ("conversation", "turn", "annotator", "value", "low", "high", "warning", "unscored", "signature")
    shares = zip(row["options"] or (), row["probabilities"] or (), strict=True)
    return {
        **dict.fromkeys(SCORE_COLUMNS), **{name: row[name] for name in names},
        "distribution": {f"{option:g}": round(share, 6) for option, share in shares},
        "attributions": json.loads(row["attributions"] or "null"),
    }  # fmt: skip
