"""Statistics of the board: means by group and over time, disagreement, effects of evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from accord.board.score_reader import DAY, NO_ANNOTATOR, UNKNOWN, ScoreReader, SelectedScores
from accord.statistics import (
    IMPORTANCE_DRAWS,
    MIN_CLUSTERS,
    Clusters,
    LabeledSystem,
    central,
    estimate_systems,
    group_means,
    quantiles,
    slope,
)
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

MAX_GROUPS = 30
GROUP_BINS = 40
"""Parts of the scale in which the texts of a group are counted."""
MIN_DAYS_FOR_WEEKS = 45
"""Range in days from which periods are weeks instead of days."""
MAX_PERIODS = 60
"""Maximum number of periods; earlier ones are omitted."""
MAX_ATTRIBUTIONS = 5000
"""Number of scores whose attributions are read."""
MAX_DISPUTED = 10
MIN_LABELED = 5
"""Minimum number of labeled conversations for a prediction-powered mean."""


@dataclass(frozen=True)
class GroupRow:
    """A group of texts with its mean; `value` is its name in filters, empty for texts without one.

    `counts` are the numbers of texts in `GROUP_BINS` parts of the scale.
    """

    name: str
    value: str
    texts: int
    mean: Estimate
    counts: tuple[int, ...] = ()


@dataclass(frozen=True)
class GroupTable:
    """The largest groups by one dimension; `others` is the number of omitted groups."""

    by: str
    rows: tuple[GroupRow, ...]
    others: int


def group_table(scores: SelectedScores, texts: pl.DataFrame, by: str) -> GroupTable:
    """Return the mean of each group by one dimension or by annotator."""
    names, code = _coded(texts[by])
    size_of = np.bincount(code, minlength=len(names))
    order = sorted((-size, names[place], place) for place, size in enumerate(size_of.tolist()) if size)[:MAX_GROUPS]
    shown = [name for _, name, _ in order]
    where = np.full(len(names), -1, dtype=np.intp)
    where[[place for *_, place in order]] = np.arange(len(order))
    group = where[code]
    value = texts["value"].to_numpy().astype(float)
    of = _means(group, _cluster(texts), value, len(shown))
    size = np.bincount(group[group >= 0], minlength=len(shown))
    span = (scores.high - scores.low) or 1.0
    cell = np.clip(((value - scores.low) * (GROUP_BINS / span)).astype(np.intp), 0, GROUP_BINS - 1)
    inside = np.bincount((group * GROUP_BINS + cell)[group >= 0], minlength=len(shown) * GROUP_BINS)
    counts = [tuple(row) for row in inside.reshape(len(shown), GROUP_BINS).tolist()] if shown else []
    rows = [
        GroupRow(name or UNKNOWN, name, int(n), mean, its)
        for name, n, mean, its in zip(shown, size, of, counts, strict=True)
    ]
    return GroupTable(by, tuple(rows), int((size_of > 0).sum()) - len(shown))


def _coded(names: pl.Series) -> tuple[list[str], NDArray[np.intp]]:
    """Return names ("" for missing ones) and the index of each row's name, from the physical categories."""
    code = names.to_physical().cast(int).fill_null(-1).to_numpy().astype(np.intp) + 1
    first = np.full(int(code.max(initial=0)) + 1, -1)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return [str(names[int(row)]) if row >= 0 and place else "" for place, row in enumerate(first)], code


def _means(group: NDArray[np.intp], cluster: NDArray[np.intp], value: NDArray[Any], groups: int) -> list[Estimate]:
    """Return the mean of each group; rows with a negative group are left out."""
    kept = group >= 0
    return group_means(Clusters.from_numbers(cluster[kept]), group[kept], value[kept], groups)


def _cluster(texts: pl.DataFrame) -> NDArray[np.intp]:
    return texts["cluster"].to_numpy().astype(np.intp)


# --- over time --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Period:
    """A day or a week: mean, median, and the ends of the middle 80% of the texts."""

    since: str
    until: str
    texts: int
    mean: Estimate
    lowest: Estimate
    median: Estimate
    highest: Estimate


@dataclass(frozen=True)
class TimelineEvent:
    """An event on a day: an alarm, or drift."""

    day: str
    kind: str
    message: str


@dataclass(frozen=True)
class TimeSeries:
    """Means and quantiles over time, with events; `step` is `day` or `week`."""

    step: str
    moments: tuple[Period, ...]
    happened: tuple[TimelineEvent, ...]


def over_time(scores: SelectedScores, texts: pl.DataFrame, alarms: list[dict[str, Any]]) -> TimeSeries:
    """Return scores by day, or by week for long ranges; the last `MAX_PERIODS` periods."""
    import polars as pl

    dated = texts.filter(pl.col(DAY).is_not_null())
    if not len(dated):
        return TimeSeries("day", (), ())
    first, last = dated[DAY].min(), dated[DAY].max()
    assert isinstance(first, date) and isinstance(last, date)
    step = 7 if (last - first).days >= MIN_DAYS_FOR_WEEKS else 1
    begin = first - timedelta(days=first.weekday()) if step == 7 else first
    number = ((dated[DAY] - begin).dt.total_days() // step).to_numpy().astype(np.intp)
    places, group = np.unique(number, return_inverse=True)
    skipped = max(len(places) - MAX_PERIODS, 0)
    group = group.astype(np.intp) - skipped
    places = places[skipped:]
    value = dated["value"].to_numpy().astype(float)
    cluster = _cluster(dated)
    of = _means(group, cluster, value, len(places))
    moments = []
    for index, (place, mean) in enumerate(zip(places.tolist(), of, strict=True)):
        mine = group == index
        since = begin + timedelta(days=place * step)
        clusters = Clusters.from_numbers(cluster[mine])
        tenths = quantiles(clusters, value[mine], (0.1, 0.5, 0.9), scores.low, scores.high)
        until = date.fromordinal(min(since.toordinal() + step, date.max.toordinal() + 1) - 1)
        moments.append(Period(since.isoformat(), until.isoformat(), int(mine.sum()), mean, *tenths))
    shown = moments[0].since, moments[-1].until
    return TimeSeries("week" if step == 7 else "day", tuple(moments), _happened(scores, alarms, shown))


def drifts(scores: SelectedScores, reader: ScoreReader) -> list[dict[str, Any]]:
    """Return drift found by the last twenty runs of the evaluator, in the format of alarms.

    The day is the last one of the conversations of the run. Runs that found no shifted feature are left out.
    """
    import polars as pl

    messages = {
        run["id"]: str(run["results"]["drift_said"])
        for run in reader.project.store.runs()
        if any(shift.get("is_shifted") for shift in (run["results"] or {}).get("drift") or ())
    }
    names = list(messages)[-20:]
    if not names:
        return []
    whose = pl.col("run").is_in(names) & (pl.col("evaluator") == scores.selection.evaluator)
    when = pl.coalesce("time", "scored").dt.date().max().alias(DAY)
    days, _ = reader.mart.read(lambda rows: rows.filter(whose).group_by("run").agg(when).drop_nulls().collect())
    return [
        {"what": "drift", "day": day.isoformat(), "message": messages[run].rstrip(".")} for run, day in days.iter_rows()
    ]


def _happened(
    scores: SelectedScores, alarms: list[dict[str, Any]], shown: tuple[str, str]
) -> tuple[TimelineEvent, ...]:
    system = scores.selection.system
    events = [
        TimelineEvent(str(each["day"]), str(each.get("what", "alarm")), str(each["message"]))
        for each in alarms
        if shown[0] <= str(each.get("day")) <= shown[1] and (system is None or each.get("system") in (None, system))
    ]
    return tuple(sorted(events, key=lambda each: (each.day, each.message))[-20:])


# --- people -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DisputedText:
    """A text with disagreement between annotators: `apart` is the standard deviation of their scores.

    For a new annotator, it is the standard deviation of the predicted answer, and no annotator has the lowest or the
    highest score.
    """

    conversation: str
    turn: int | None
    apart: float
    worst_for: str | None
    lowest: float | None
    best_for: str | None
    highest: float | None


def controversial(scores: SelectedScores) -> list[DisputedText]:
    """Return the texts with the largest standard deviation of annotators' scores, or of a new annotator's answer."""
    import polars as pl

    order: dict[str, Any] = {"by": ["apart", "conversation", "turn"], "descending": [True, False, False]}
    if scores.is_population:
        texts = scores.texts().filter(pl.col("apart") > 0)
        top = texts.select("conversation", "turn", "apart").sort(**order).head(MAX_DISPUTED)
        return [DisputedText(name, turn, apart, None, None, None, None) for name, turn, apart in top.iter_rows()]
    scored = scores.scored
    people = scored.filter(~pl.col("annotator").cast(pl.String).is_in(list(NO_ANNOTATOR)))
    if people["annotator"].n_unique() < 2:
        return []
    of = people.with_columns(pl.col("annotator").cast(pl.String)).group_by("conversation", "turn").agg(
        pl.col("value").std().alias("apart"), pl.col("annotator").sort_by("value", "annotator").first().alias("worst"),
        pl.col("value").min().alias("lowest"), pl.col("annotator").sort_by("value", "annotator").last().alias("best"),
        pl.col("value").max().alias("highest"),
    )  # fmt: skip
    top = of.filter(pl.col("apart") > 0).sort(**order)
    columns = ("conversation", "turn", "apart", "worst", "lowest", "best", "highest")
    return [DisputedText(*row) for row in top.select(columns).head(MAX_DISPUTED).iter_rows()]


@dataclass(frozen=True)
class PoweredMean:
    """Prediction-powered mean of people's ratings of a system, from few labels and all scores."""

    system: str
    labelled: int
    scored: int
    mean: Estimate
    label_mean: Estimate
    reason: str | None


def powered(scores: SelectedScores, texts: pl.DataFrame, reader: ScoreReader) -> tuple[list[PoweredMean], str]:
    """Return the prediction-powered mean of each system, and a sentence about its labels.

    Only labels given after the text was scored count, because the evaluator cannot have learned from them.
    """
    import polars as pl

    if scores.is_other_scale:
        return [], "the scores are on another scale than the ratings"
    labels = reader.labels(str(scores.selection.question))
    if not len(labels):
        return [], "no ratings of this question"
    whose = (pl.col("question") == scores.selection.question) & (pl.col("evaluator") == scores.selection.evaluator)
    names = labels["conversation"].unique().implode()
    when, _ = reader.mart.read(
        lambda rows: rows.filter(whose & pl.col("conversation").is_in(names))
        .select("conversation", "turn", "scored").group_by("conversation", "turn").agg(pl.col("scored").min()).collect()
    )  # fmt: skip
    rated = labels.with_columns(pl.col("rated").str.slice(0, 19).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False))
    fresh = rated.join(when, on=["conversation", "turn"], nulls_equal=True).filter(pl.col("rated") > pl.col("scored"))
    if not len(fresh):
        return [], (
            f"{len(labels):,} labels, all older than the scores: the evaluator may have learned from them, and an "
            "interval would be too narrow. Run accord estimate, which holds labels out"
        )
    per_text = fresh.group_by("conversation", "turn").agg(pl.col("value").mean().alias("label"))
    joined = texts.join(per_text, on=["conversation", "turn"], how="left", nulls_equal=True)
    of = joined.with_columns(pl.col("system").cast(pl.String).fill_null("")).group_by("system", "conversation").agg(
        pl.col("label").mean(), pl.col("value").mean()
    )  # fmt: skip
    given = []
    for (name,), mine in sorted(of.group_by("system"), key=lambda item: str(item[0][0])):
        known, rest = mine.filter(pl.col("label").is_not_null()), mine.filter(pl.col("label").is_null())
        if len(known) >= MIN_LABELED:
            label, value, others = (
                each.to_numpy().astype(float) for each in (known["label"], known["value"], rest["value"])
            )
            given.append(LabeledSystem(str(name) or UNKNOWN, label, value, others))
    rows = [
        PoweredMean(
            each.system, each.labelled, each.scored, Estimate(each.mean, each.low, each.high),
            Estimate(each.label_mean, each.label_low, each.label_high), each.reason,
        )
        for each in (estimate_systems(given) if given else [])
    ]  # fmt: skip
    few = "" if rows else f"; no assistant version has {MIN_LABELED} labeled conversations yet"
    return rows, f"{len(fresh):,} labels given after the texts were scored{few}"


# --- what pulls scores ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvidenceEffect:
    """Mean absolute effect of a column of evidence on scores."""

    evidence: str
    weight: Estimate


def pulls(scores: SelectedScores, texts: pl.DataFrame, reader: ScoreReader) -> list[EvidenceEffect]:
    """Return the evidence with the largest effect, by the attributions of a sample of scores."""
    import polars as pl

    some = texts.sample(min(MAX_ATTRIBUTIONS, len(texts)), seed=0)
    whose = (pl.col("question") == scores.selection.question) & (pl.col("evaluator") == scores.selection.evaluator)
    names = some["conversation"].unique().implode()
    wanted = whose & pl.col("conversation").is_in(names) & pl.col("attributions").is_not_null()
    columns = ["conversation", "attributions"]
    rows, _ = reader.mart.read(lambda each: each.filter(wanted).select(columns).head(2 * MAX_ATTRIBUTIONS).collect())
    clusters = Clusters(rows["conversation"].to_numpy())
    if len(clusters) < MIN_CLUSTERS:
        return []
    told = [_attributions(cell) for cell in rows["attributions"]]
    names_of = sorted({name for each in told for name in each})
    table = np.array([[each.get(name, 0.0) for name in names_of] for each in told])
    size, times = np.abs(table), clusters.counts(IMPORTANCE_DRAWS, 0)
    low, high = central(times @ clusters.sums(size) / (times @ clusters.sizes)[:, None])
    of = [
        EvidenceEffect(name, Estimate(float(size[:, place].mean()), float(low[place]), float(high[place])))
        for place, name in enumerate(names_of)
    ]
    return sorted(of, key=lambda each: -(each.weight.value or 0.0))[:12]


_ATTRIBUTIONS = msgspec.json.Decoder(dict[str, float])


def _attributions(cell: str) -> Mapping[str, float]:
    with suppress(msgspec.MsgspecError, ValueError):
        return _ATTRIBUTIONS.decode(cell)
    try:  # some values are not numbers
        found = json.loads(cell)
    except ValueError:
        return {}
    return {str(k): float(v) for k, v in found.items() if isinstance(v, int | float)} if isinstance(found, dict) else {}


@dataclass(frozen=True)
class QuestionSlope:
    """Slope of the main question on another question, over texts with scores of both."""

    question: str
    rise: Estimate
    texts: int


def rises(scores: SelectedScores, texts: pl.DataFrame, reader: ScoreReader, main: str) -> list[QuestionSlope]:
    """Return the slope of the main question on each other question, the steepest first; both are predictions."""
    import polars as pl

    others = [name for name in scores.choices.questions if name != main]
    if scores.selection.question != main or not others:
        return []
    some = texts.sample(min(4 * MAX_ATTRIBUTIONS, len(texts)), seed=0).select(
        "conversation", "turn", "cluster", "value"
    )
    names = some["conversation"].unique().implode()
    rows, _ = reader.mart.read(
        lambda each: each.filter(pl.col("question").is_in(others) & pl.col("conversation").is_in(names))
        .select("question", "evaluator", "scored", "conversation", "turn", pl.col("value").alias("other")).collect()
    )  # fmt: skip
    rows = rows.drop_nulls("other")
    latest = rows.group_by("question").agg(pl.col("evaluator").sort_by("scored").last())
    rows = rows.join(latest, on=["question", "evaluator"])
    answers = rows.group_by("question", "conversation", "turn").agg(pl.col("other").mean())
    joined = some.join(answers, on=["conversation", "turn"], nulls_equal=True)
    of = []
    for (name,), mine in joined.group_by("question"):
        x, y = mine["other"].to_numpy().astype(float), mine["value"].to_numpy().astype(float)
        if len(x) >= 30 and np.ptp(x) > 0:
            of.append(QuestionSlope(str(name), slope(Clusters.from_numbers(_cluster(mine)), x, y), len(x)))
    return sorted(of, key=lambda each: -(each.rise.value or 0.0))
