"""What runs said of one conversation: their scores, and which run each is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from accord.store.engine import read_json
from accord.store.schema import runs, scores
from accord.store.store import Store


@dataclass(frozen=True)
class RunScores:
    """The scores that one run gave a conversation or its turns.

    Attributes:
        run: Its id.
        command: What it was: `score`, `run`, ...
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
