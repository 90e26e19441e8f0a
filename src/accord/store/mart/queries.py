"""Scores read from the mart: of a run, of a conversation, and counts by run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accord.store.mart.mart import Mart
from accord.store.store import Store
from accord.values import LIVE_ROWS, ScoreRow, bundle_of, row_of_mart

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class EvaluatorScores:
    """The latest scores of a conversation and its turns by one evaluator, in the order of the turns.

    `run` is empty for live scores, and `command` is `live` then. `started` is the start of the run, or the time of the
    latest live score (UTC).
    """

    run: str
    command: str
    evaluator: str
    started: str
    rows: tuple[ScoreRow, ...]


def scores_of_run(mart: Mart, run: str) -> Iterator[ScoreRow]:
    """Yield the scores of a run, in the order in which they were made; later scores of an evaluator replace earlier.

    Raises:
        StoreError: The mart cannot be read.
    """
    import polars as pl

    wanted = pl.col("run") == run
    frame, _ = mart.read(lambda rows: _main(rows).filter(wanted).sort("scored", maintain_order=True).collect())
    return map(row_of_mart, frame.iter_rows(named=True))


def scores_of_conversations(
    mart: Mart, question: str, evaluator: str, conversations: Collection[str]
) -> Iterator[ScoreRow]:
    """Yield the scores of some conversations and their turns by one evaluator on one question.

    Raises:
        StoreError: The mart cannot be read.
    """
    import polars as pl

    wanted = (pl.col("question") == question) & (pl.col("evaluator") == evaluator)
    named = wanted & pl.col("conversation").is_in(sorted(conversations))
    frame, _ = mart.read(lambda rows: rows.filter(named).collect())
    return map(row_of_mart, frame.iter_rows(named=True))


def runs_in(mart: Mart) -> dict[str, int]:
    """Return the number of scores in the mart by run.

    Raises:
        StoreError: The mart cannot be read.
    """
    counts, _ = mart.read(lambda rows: _main(rows).group_by("run").len().collect())
    return {run: count for run, count in counts.iter_rows() if run is not None}


def scores_of_conversation(store: Store, mart: Mart, conversation: str) -> list[EvaluatorScores]:
    """Return the scores of a conversation by run and evaluator, the latest first.

    Raises:
        StoreError: The mart cannot be read.
    """
    import polars as pl

    if not mart.folder.is_dir():
        return []
    wanted = (pl.col("bundle") == bundle_of(conversation)) & (pl.col("conversation") == conversation)
    frame, _ = mart.read(lambda rows: _main(rows).filter(wanted).sort("scored", "turn").collect())
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        groups.setdefault((row["run"] or "", row["evaluator"]), []).append(row)
    runs = {run["id"]: run for run in store.runs()} if any(run for run, _ in groups) else {}
    found = []
    for (run, evaluator), rows in groups.items():
        record: Mapping[str, Any] = runs.get(run, {})
        command = LIVE_ROWS if rows[-1]["origin"] == LIVE_ROWS else str(record.get("command", ""))
        started = str(record.get("started") or rows[-1]["scored"].isoformat())
        found.append(EvaluatorScores(run, command, evaluator.partition("@")[0], started, tuple(map(row_of_mart, rows))))
    return sorted(found, key=lambda scores: (scores.started, scores.run), reverse=True)


def _main(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Leave out answers to other questions, which are in the notes of the main one."""
    import polars as pl

    return rows.filter(pl.col("is_main"))
