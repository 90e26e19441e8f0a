"""Batches of scores in the mart, compared by `accord.decisions.batch_change`, and their alarms.

A batch is a finished run of `accord score`, or a finished week (Monday to Sunday, UTC) of live scores. Scores of
conversations that the evaluator learned from do not count, nor scores for single annotators.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.decisions import Batch, BatchChange, batch_change, sight_of, with_labels
from accord.edges import AccordError, BadInput, one_line
from accord.learning import RULES
from accord.project.judges import anchors
from accord.project.label_scales import comparable_labels
from accord.store import MonitoringTables
from accord.values import LIVE_ROWS, POPULATION, Question

if TYPE_CHECKING:
    import polars as pl

    from accord.learning import Evaluator
    from accord.project.workspace import Workspace
LACKS = "lacks evidence"
"""Part of the warning of a score without evidence that nearly all of the training data had."""
MOST_CHARACTERS = 60
"""Longest name of a file in the name of a batch."""


def change_of_scores(
    project: Workspace,
    evaluator: str | None = None,
    question: Question | None = None,
    now: datetime | None = None,
    used: Evaluator | None = None,
) -> BatchChange | None:
    """Compare the latest batch of an evaluator's scores with the earlier ones.

    Args:
        project: The project.
        evaluator: Evaluator with its digest; default: the one in use.
        question: Question of the scores; default: the one that the evaluator learned.
        now: Current time.
        used: The evaluator in use; default: it is loaded.

    Returns:
        The comparison, or `None` without an evaluator or if the scale of the question has no numbers.
    """
    used = used or _in_use(project)
    own = None if used is None else anchors.evaluator_id(used)
    name = evaluator or own
    question = question or (project.question if used is None else used.question)
    if name is None or not question.scale.is_ordered or not question.scale.numbers:
        return None
    is_own = used is not None and name == own and used.question.id == question.id
    seen = sight_of(used.held_out) if used is not None and is_own else None
    span = float(max(question.scale.numbers) - min(question.scale.numbers))
    batches = scored_batches(project, name, question.id, now)
    found = batch_change(batches, seen, span, name)
    if not found.is_alarm:
        return found
    labels = [
        (each.target.conversation, each.annotator, float(each.value))
        for each in comparable_labels(project.store, question.id)
        if isinstance(each.value, int | float) and each.against is None
    ]
    return with_labels(found, batches, labels)


def changed_batches(project: Workspace) -> tuple[BatchChange, list[Batch]]:
    """Return the change of the latest batch by the evaluator in use, and all batches.

    Raises:
        BadInput: The latest batch is not shown to differ.
    """
    used = _in_use(project)
    found = None if used is None else change_of_scores(project, used=used)
    if used is None or found is None or not found.is_alarm:
        told = "No batch of scores can be compared"
        if found is not None and found.state != "no batch":
            told = found.finding.rstrip(".")
        raise BadInput(f"{told}; --for change is about a batch whose scores fell or rose. Score new ones: accord score")
    return found, scored_batches(project, found.evaluator, used.question.id)


def change_report(
    project: Workspace, now: datetime | None = None, used: Evaluator | None = None
) -> tuple[BatchChange | None, bool]:
    """Return the change of the latest batch, and True if it raised a new alarm; a batch raises one alarm."""
    found = change_of_scores(project, now=now, used=used)
    if found is None or not found.is_alarm:
        return found, False
    key = f"batch|{found.identity}|{found.evaluator}"
    return found, bool(MonitoringTables(project.store).raise_alarms({key: alarm_row(found, now)}))


def alarm_row(found: BatchChange, now: datetime | None = None) -> dict[str, Any]:
    """Return the alarm of a batch in the format of alarms of live scores, with size, interval and versions."""
    ends = {"low": found.scores.low, "high": found.scores.high, "people": found.people.value,
            "people_low": found.people.low, "people_high": found.people.high}  # fmt: skip
    versions = [
        {"version": each.name, "change": each.change.value, "low": each.change.low, "high": each.change.high}
        for each in found.groups if each.dimension == "version"
    ]  # fmt: skip
    return {
        "kind": "batch", "system": found.new_version or None, "day": (now or datetime.now(UTC)).date().isoformat(),
        "evaluator": found.evaluator, "feature": "", "before": found.means[1], "after": found.means[0],
        "stability": None, "p": None, "batch": found.batch, "change": found.scores.value, **ends,
        "versions": versions, "cannot_tell": found.blind, "outcome": found.state,
        "message": found.summary.rstrip("."),
    }  # fmt: skip


def scored_batches(project: Workspace, evaluator: str, question: str, now: datetime | None = None) -> list[Batch]:
    """Return the batches of an evaluator's scores on a question, in order of time."""
    import polars as pl

    if not project.mart.folder.is_dir():
        return []
    now = now or datetime.now(UTC)
    synthetic = pl.col("synthetic").fill_null(False)
    wanted = (
        (pl.col("evaluator") == evaluator) & (pl.col("question") == question) & pl.col("value").is_not_null()
        & pl.col("annotator").is_in([POPULATION, *RULES]) & ~pl.col("in_training").fill_null(False)
        & {"without": ~synthetic, "only": synthetic, "with": pl.lit(True)}[project.config.synthetic]
    )  # fmt: skip
    monday = pl.coalesce("time", "scored").dt.truncate("1w").dt.date().cast(pl.String)
    is_live = pl.col("origin") == LIVE_ROWS
    version = pl.concat_str(pl.col("system").cast(pl.String), pl.col("version").cast(pl.String), separator=" ",
                            ignore_nulls=True)  # fmt: skip

    def of_conversations(rows: pl.LazyFrame) -> pl.DataFrame:
        rows = rows.filter(wanted).with_columns(
            pl.when(is_live).then(monday).otherwise(pl.col("run").cast(pl.String)).fill_null("").alias("key"), is_live
        )
        return (
            rows.group_by("origin", "key", "conversation")
            .agg(
                pl.col("value").mean(), pl.col("scored").min(), version.first().fill_null("").alias("version"),
                *(pl.col(name).cast(pl.String).first().fill_null("") for name in ("topic", "language")),
                pl.col("warning").str.contains(LACKS, literal=True).fill_null(False).any().alias("lacks"),
            )
            .sort("conversation").collect()
        )  # fmt: skip

    table, _ = project.mart.read(of_conversations)
    runs = project.store.runs()
    running = {run["id"] for run in runs if run["status"] == "running"}
    sources = {run["id"]: str(run["settings"].get("source") or "") for run in runs}
    found: list[tuple[datetime, bool, pl.DataFrame]] = []
    for (is_week, key), rows in table.group_by("origin", "key", maintain_order=True):
        if is_week:
            end = datetime.combine(date.fromisoformat(str(key)) + timedelta(days=7), datetime.min.time(), UTC)
            if end <= now:
                found.append((end, True, rows))
        elif key not in running:
            began = rows["scored"].min()
            assert isinstance(began, datetime)
            found.append((began if began.tzinfo else began.replace(tzinfo=UTC), False, rows))
    found.sort(key=lambda each: each[0])
    return [_batch(begin, is_week, rows, sources) for begin, is_week, rows in found]


def _batch(begin: datetime, is_week: bool, rows: pl.DataFrame, sources: Mapping[str, str]) -> Batch:
    """Return the table of a batch's conversations as a batch; a run is named after its file."""
    day = begin.date() - timedelta(days=7 if is_week else 0)
    shown, key = f"{day.day} {day:%B %Y}", str(rows["key"][0])
    given = "" if is_week else sources.get(key, "")
    is_file = Path(given).suffix != "" and not set("[]{}'\"\n") & set(given)  # tables in memory are written as they are
    source = one_line(Path(given).name, MOST_CHARACTERS) if is_file else ""
    name = (
        f"the week of {shown}"
        if is_week
        else f"{source} ({shown})"
        if source
        else f"the run of {shown}, {begin:%H:%M:%S}"
    )
    columns = {each: rows[each].to_numpy().astype(object) for each in ("conversation", "version", "topic", "language")}
    return Batch(
        key, name, value=rows["value"].to_numpy().astype(np.float64), lacking=int(rows["lacks"].sum()), **columns
    )


def _in_use(project: Workspace) -> Evaluator | None:
    try:
        return project.load()
    except AccordError:
        return None
