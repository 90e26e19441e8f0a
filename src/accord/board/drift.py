"""Drift of an evaluator's scores, attributed to the system or the judge: reads traffic and anchors of a project."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from accord.board.score_reader import NO_ANNOTATOR
from accord.edges import AccordError
from accord.project import Workspace
from accord.project.judges import anchors
from accord.store import MonitoringTables
from accord.store import anchors as stored
from accord.validation import attribution
from accord.values import Question

if TYPE_CHECKING:
    import polars as pl

    from accord.learning import Evaluator

MAX_PER_DAY = 200
"""Conversations per system and day that are tested, as in sketches of live scores: those with the smallest hashes."""


def drift_of(
    project: Workspace,
    evaluator: str | None = None,
    question: Question | None = None,
    now: datetime | None = None,
    used: Evaluator | None = None,
) -> attribution.Attribution | None:
    """Return the drift of an evaluator's scores on a question, or `None` if its scale is not numeric.

    Args:
        project: The project.
        evaluator: Evaluator with its digest; default: the one in use.
        question: Question of the scores; default: the main question. Anchors are scored on the evaluator's own
            question; on others, only traffic is tested.
        now: Current time.
        used: The evaluator in use; default: it is loaded.
    """
    question, used = question or project.question, used or in_use(project)
    own = None if used is None else anchors.evaluator_id(used)
    name = evaluator or own
    if name is None or not question.scale.is_ordered or not question.scale.numbers:
        return None
    limits = min(question.scale.numbers), max(question.scale.numbers)
    is_own = used is not None and name == own
    judged = (
        stored.Anchors(project.store).of(name) if used is None or not is_own or used.question.id == question.id else []
    )
    today = (now or datetime.now(UTC)).date().isoformat()
    asks = any(source.roles for source in used.sources) if used is not None and is_own else True
    return attribution.attribute(_traffic(project, name, question.id, today), judged, limits, today, asks)


def drift_report(
    project: Workspace, now: datetime | None = None, used: Evaluator | None = None
) -> tuple[dict[str, Any] | None, bool]:
    """Return the drift of the scores of the evaluator in use as JSON, and True if it raised a new alarm.

    Of each cause, an evaluator has one alarm; a change without one (`Attribution.cause`) raises none.
    """
    used = used or in_use(project)
    found = None if used is None else drift_of(project, now=now, used=used)
    if found is None or used is None:
        return None, False
    name, is_new = anchors.evaluator_id(used), False
    if found.cause is not None:
        row = attribution.attribution_row(found, name)
        is_new = bool(MonitoringTables(project.store).raise_alarms({f"drift|{found.cause}|{name}": row}))
    return {"evaluator": name, **found.to_json()}, is_new


def in_use(project: Workspace) -> Evaluator | None:
    """Return the evaluator in use, or `None` if it is not set or cannot be loaded."""
    try:
        return project.load()
    except AccordError:
        return None


def _traffic(project: Workspace, evaluator: str, question: str, today: str) -> list[attribution.ScoredConversation]:
    """Return the mean score of each conversation that the evaluator did not learn from, on its first day."""
    import polars as pl

    if not project.mart.folder.is_dir():
        return []

    def of_days(rows: pl.LazyFrame) -> Mapping[str, list[Any]]:
        day = pl.coalesce("time", "scored").dt.date()
        flags = ~(pl.col("in_training").fill_null(False) | pl.col("synthetic").fill_null(False))
        mine = (pl.col("evaluator") == evaluator) & (pl.col("question") == question) & flags
        mine &= pl.col("value").is_not_null() & pl.col("annotator").is_in(list(NO_ANNOTATOR))
        found = rows.filter(mine).group_by("conversation").agg(
            pl.col("value").mean(), day.min().cast(pl.String).alias("day"), pl.col("system").first().fill_null(""),
            pl.col("scored").max().dt.date().cast(pl.String).fill_null("").alias("made"),
        )  # fmt: skip
        sampled = pl.col("conversation").hash().rank("ordinal").over("system", "day") <= MAX_PER_DAY
        columns = found.filter(pl.col("day") < today).filter(sampled).collect()
        return columns.select("conversation", "system", "day", "value", "made").to_dict(as_series=False)

    columns, _ = project.mart.read(of_days)
    return list(map(attribution.ScoredConversation, *columns.values()))
