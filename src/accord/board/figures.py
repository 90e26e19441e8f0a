"""The board's figures as values: means by group and over time, differences of two, for whom it is bad, what pulls down.

Every part says which conversations it is made of, as changes to the selection that lead to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accord.board.reading import ANYBODY, DAY, Reader, Texts
from accord.board.resampled import FEWEST, Floats, counts, ends, means, quantiles
from accord.edges import BadInput
from accord.statistics import CenteredPart, p_value, reach
from accord.store import Store
from accord.validation import Labelled, estimates
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

SHOWN = 30
"""Groups of a table; the rest are counted."""
WEEKS = 45
"""Days from which on points of time are weeks."""
POINTS = 60
"""Points of time that are shown, the last ones."""
SHARED = 10
"""Inputs that two groups must have in common to be held against each other input by input."""
LOOKED_AT = 5000
"""Scores whose attributions are looked at."""
CONTROVERSIAL = 10
LABELLED = 5
"""Labelled conversations that a mean as people would give it needs (`accord.validation.estimates`)."""
NOT_SAID = "not said"


@dataclass(frozen=True)
class GroupRow:
    """A group of texts and its mean; `tail` is how much more often than others they are in the lowest tenth of all."""

    name: str
    value: str
    texts: int
    mean: Estimate
    tail: float | None

    def to_json(self) -> dict[str, Any]:
        """A row."""
        return {**vars(self), "mean": self.mean.to_json()}


@dataclass(frozen=True)
class GroupTable:
    """Groups by one dimension, those with most texts; `others` were left out."""

    by: str
    rows: tuple[GroupRow, ...]
    others: int

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {"by": self.by, "others": self.others, "rows": [each.to_json() for each in self.rows]}


def group_table(found: Texts, texts: pl.DataFrame, by: str) -> GroupTable:
    """The mean of each group by one dimension, or by annotator, with intervals."""
    names, code = _coded(texts[by])
    size_of = np.bincount(code, minlength=len(names))
    order = sorted((-size, names[place], place) for place, size in enumerate(size_of.tolist()) if size)[:SHOWN]
    shown = [name for _, name, _ in order]
    where = np.full(len(names), -1, dtype=np.intp)
    where[[place for *_, place in order]] = np.arange(len(order))
    group = where[code]
    value, cluster = texts["value"].to_numpy().astype(float), _cluster(texts)
    of = means(group, cluster, value, len(shown))
    worst = value <= np.quantile(value, 0.1) if len(value) else np.zeros(0, dtype=bool)
    size = np.bincount(group[group >= 0], minlength=len(shown))
    low = np.bincount(group[(group >= 0) & worst], minlength=len(shown))
    overall = float(worst.mean()) if len(worst) else 0.0
    rows = [
        GroupRow(name or NOT_SAID, name, int(n), mean, float(bad / n / overall) if n and overall else None)
        for name, n, mean, bad in zip(shown, size, of, low, strict=True)
    ]
    return GroupTable(by, tuple(rows), int((size_of > 0).sum()) - len(shown))


def _coded(names: pl.Series) -> tuple[list[str], NDArray[np.intp]]:
    """Names, "" for none, and which of them each row has; without a look at the text of every row."""
    code = names.to_physical().cast(int).fill_null(-1).to_numpy().astype(np.intp) + 1
    first = np.full(int(code.max(initial=0)) + 1, -1)
    first[code[::-1]] = np.arange(len(code))[::-1]
    return [str(names[int(row)]) if row >= 0 and place else "" for place, row in enumerate(first)], code


def _cluster(texts: pl.DataFrame) -> NDArray[np.intp]:
    return texts["cluster"].to_numpy().astype(np.intp)


# --- over time --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """A day or a week: its mean, the ends of its lowest and highest tenth, its median."""

    since: str
    until: str
    texts: int
    mean: Estimate
    lowest: Estimate
    median: Estimate
    highest: Estimate

    def to_json(self) -> dict[str, Any]:
        """A row."""
        ranged = {name: getattr(self, name).to_json() for name in ("mean", "lowest", "median", "highest")}
        return {**vars(self), **ranged}


@dataclass(frozen=True)
class Annotated:
    """Something that happened on a day: an alarm, or scores of another evaluator from then on."""

    day: str
    kind: str
    said: str


@dataclass(frozen=True)
class OverTime:
    """Means and quantiles over time, with what happened; `step` is a `day` or a `week`."""

    step: str
    moments: tuple[Moment, ...]
    happened: tuple[Annotated, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "step": self.step, "moments": [each.to_json() for each in self.moments],
            "happened": [vars(each) for each in self.happened],
        }  # fmt: skip


def over_time(found: Texts, texts: pl.DataFrame, alarms: list[dict[str, Any]]) -> OverTime:
    """Scores by day, or by week where there are many days; the last `POINTS` of them."""
    import polars as pl

    dated = texts.filter(pl.col(DAY).is_not_null())
    if not len(dated):
        return OverTime("day", (), ())
    first, last = dated[DAY].min(), dated[DAY].max()
    assert isinstance(first, date) and isinstance(last, date)
    step = 7 if (last - first).days >= WEEKS else 1
    begin = first - timedelta(days=first.weekday()) if step == 7 else first
    number = ((dated[DAY] - begin).dt.total_days() // step).to_numpy().astype(np.intp)
    places, group = np.unique(number, return_inverse=True)
    skipped = max(len(places) - POINTS, 0)
    group = group.astype(np.intp) - skipped
    places = places[skipped:]
    value = dated["value"].to_numpy().astype(float)
    cluster = _cluster(dated)
    of = means(np.where(group >= 0, group, -1), cluster, value, len(places))
    moments = []
    for index, (place, mean) in enumerate(zip(places.tolist(), of, strict=True)):
        mine = group == index
        since = begin + timedelta(days=place * step)
        tenths = quantiles(value[mine], cluster[mine], (0.1, 0.5, 0.9), found.low, found.high)
        until = date.fromordinal(min(since.toordinal() + step, date.max.toordinal() + 1) - 1)
        moments.append(Moment(since.isoformat(), until.isoformat(), int(mine.sum()), mean, *tenths))
    shown = moments[0].since, moments[-1].until
    return OverTime("week" if step == 7 else "day", tuple(moments), _happened(found, alarms, shown))


def drifts(store: Store) -> list[dict[str, Any]]:
    """When what was scored was unlike what was learned from, like alarms: of runs that found so, the last twenty."""
    found = [
        {"what": "drift", "day": str(run["finished"])[:10], "message": str(run["results"]["drift_said"])}
        for run in store.runs()
        if run["command"] in ("score", "run") and (run["results"] or {}).get("drift_said")
    ]
    return found[-20:]


def _happened(found: Texts, alarms: list[dict[str, Any]], shown: tuple[str, str]) -> tuple[Annotated, ...]:
    system = found.selection.system
    said = [
        Annotated(str(each["day"]), str(each.get("what", "alarm")), str(each["message"]))
        for each in alarms
        if shown[0] <= str(each.get("day")) <= shown[1] and (system is None or each.get("system") in (None, system))
    ]
    return tuple(sorted(said, key=lambda each: (each.day, each.said))[-20:])


# --- two groups -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Two groups: the mean of the first minus that of the second, its interval and its p.

    Attributes:
        by, first, second: What is held against what.
        difference: First minus second, with its 95 % interval.
        p: Two-sided, of no difference.
        paired: Whether input by input: both saw the same.
        shared: Inputs that both saw.
        texts: Of the first, and of the second, that it rests on.
        said: The same in a sentence.
    """

    by: str
    first: str
    second: str
    difference: Estimate
    p: float | None
    paired: bool
    shared: int
    texts: tuple[int, int]
    said: str

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "difference": self.difference.to_json(), "texts": list(self.texts)}


def difference(found: Texts, texts: pl.DataFrame, by: str, first: str | None, second: str | None) -> Difference | None:
    """Two groups by one dimension, by default the two with most texts; `None` where there are no two.

    Raises:
        BadInput: A group is named that has no scores here.
    """
    import polars as pl

    most = [str(name) for name in texts[by].value_counts(sort=True)[by].head(3).to_list() if name is not None]
    names = sorted(most[:2], reverse=True) if len(most) > 1 else most
    one = first if first is not None else next((name for name in names if name != second), None)
    other = second if second is not None else next((name for name in names if name != one), None)
    if one is None or other is None or one == other:
        return None
    sides = [texts.filter(pl.col(by) == name if name else pl.col(by).is_null()) for name in (one, other)]
    for name, side in zip((one, other), sides, strict=True):
        if not len(side):
            raise BadInput(f"no score here is of the {by} {name!r}; choose one of those in the table")
    of_inputs = [
        side.filter(pl.col("input").is_not_null()).group_by("input").agg(pl.col("value").mean(), pl.len())
        for side in sides
    ]
    joined = of_inputs[0].join(of_inputs[1], on="input", suffix="_other")
    shared = len(joined)
    if shared >= SHARED:
        gaps = (joined["value"] - joined["value_other"]).to_numpy().astype(float)
        value, parts = (
            float(gaps.mean()),
            [CenteredPart((gaps - gaps.mean()) / len(gaps), np.arange(shared).astype(str))],
        )
        sizes = int(joined["len"].sum()), int(joined["len_other"].sum())
    else:
        value, parts = 0.0, []
        for sign, side in zip((1.0, -1.0), sides, strict=True):
            # The mean's deviations, added up by cluster: what one conversation adds goes together.
            scores, cluster = side["value"].to_numpy().astype(float), side["cluster"].to_numpy()
            names_of, place = np.unique(cluster, return_inverse=True)
            adds = np.bincount(place, scores - scores.mean(), len(names_of)) / len(scores)
            value += sign * float(scores.mean())
            parts.append(CenteredPart(sign * adds, names_of.astype(str)))
        sizes = len(sides[0]), len(sides[1])
    known = all(len(part.adds) >= FEWEST for part in parts)
    half = reach(parts) if known else None
    p = p_value(value, parts) if known else None
    ranged = Estimate(value) if half is None else Estimate(value, value - half, value + half)
    how = f"on the {shared:,} inputs that both saw" if shared >= SHARED else "on different inputs (unpaired)"
    verdict = (
        "too few conversations for a test" if p is None
        else f"p {p:.2g}" if p >= 0.001 else "p below .001"
    )  # fmt: skip
    side_said = "higher" if value >= 0 else "lower"
    said = f"{one} scores {abs(value):.2f} {side_said} than {other} {how}: {ranged}, {verdict}"
    return Difference(by, one, other, ranged, p, shared >= SHARED, shared, sizes, said)


# --- people -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Controversial:
    """A text on which annotators are expected to differ: for whom it is worst, and for whom best."""

    conversation: str
    turn: int | None
    apart: float
    worst_for: str
    lowest: float
    best_for: str
    highest: float


def controversial(found: Texts) -> list[Controversial]:
    """The texts on which annotators' scores lie farthest apart."""
    import polars as pl

    scored = found.scored
    people = scored.filter(~pl.col("annotator").cast(pl.String).is_in(list(ANYBODY)))
    if people["annotator"].n_unique() < 2:
        return []
    of = people.with_columns(pl.col("annotator").cast(pl.String)).group_by("conversation", "turn").agg(
        pl.col("value").std().alias("apart"), pl.col("annotator").sort_by("value", "annotator").first().alias("worst"),
        pl.col("value").min().alias("lowest"), pl.col("annotator").sort_by("value", "annotator").last().alias("best"),
        pl.col("value").max().alias("highest"),
    )  # fmt: skip
    top = of.filter(pl.col("apart") > 0).sort("apart", "conversation", "turn", descending=[True, False, False])
    columns = ("conversation", "turn", "apart", "worst", "lowest", "best", "highest")
    return [Controversial(*row) for row in top.select(columns).head(CONTROVERSIAL).iter_rows()]


@dataclass(frozen=True)
class Powered:
    """A system's mean as people would give it, from few labels and all scores (prediction-powered)."""

    system: str
    labelled: int
    scored: int
    mean: Estimate
    label_mean: Estimate
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """A row."""
        return {**vars(self), "mean": self.mean.to_json(), "label_mean": self.label_mean.to_json()}


def powered(found: Texts, texts: pl.DataFrame, reader: Reader) -> tuple[list[Powered], str]:
    """What people would say on average of each system, and a sentence on what it rests on.

    Only labels count that came after the text was scored: the evaluator cannot have learned from them.
    """
    import polars as pl

    labels = reader.labels(str(found.selection.question))
    if not len(labels):
        return [], "nobody has rated this question: no mean as people would give it"
    whose = (pl.col("question") == found.selection.question) & (pl.col("evaluator") == found.selection.evaluator)
    names = labels["conversation"].unique().implode()
    when, _ = reader.mart.read(
        lambda rows: rows.filter(whose & pl.col("conversation").is_in(names))
        .select("conversation", "turn", "scored").group_by("conversation", "turn").agg(pl.col("scored").min()).collect()
    )  # fmt: skip
    said = labels.with_columns(pl.col("said").str.slice(0, 19).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False))
    fresh = said.join(when, on=["conversation", "turn"], nulls_equal=True).filter(pl.col("said") > pl.col("scored"))
    if not len(fresh):
        return [], (
            f"{len(labels):,} labels, all from before the texts were scored: the evaluator may have learned from them, "
            "and a mean that rests on them would be too sure; run accord estimate, which holds labels out"
        )
    per_text = fresh.group_by("conversation", "turn").agg(pl.col("value").mean().alias("label"))
    joined = texts.join(per_text, on=["conversation", "turn"], how="left", nulls_equal=True)
    of = joined.with_columns(pl.col("system").cast(pl.String).fill_null("")).group_by("system", "conversation").agg(
        pl.col("label").mean(), pl.col("value").mean()
    )  # fmt: skip
    given = []
    for (name,), mine in sorted(of.group_by("system"), key=lambda item: str(item[0][0])):
        known, rest = mine.filter(pl.col("label").is_not_null()), mine.filter(pl.col("label").is_null())
        if len(known) >= LABELLED:
            label, value, others = (
                each.to_numpy().astype(float) for each in (known["label"], known["value"], rest["value"])
            )
            given.append(Labelled(str(name) or NOT_SAID, label, value, others))
    rows = [
        Powered(
            each.system, each.labelled, each.scored, Estimate(each.mean, each.low, each.high),
            Estimate(each.label_mean, each.label_low, each.label_high), each.reason,
        )
        for each in (estimates(given) if given else [])
    ]  # fmt: skip
    few = "" if rows else f"; no system has {LABELLED} labelled conversations yet"
    return rows, f"{len(fresh):,} labels from after the texts were scored{few}"


# --- what pulls scores ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pull:
    """How much a piece of evidence moves scores either way, in units of the scale, and what it adds in the tail."""

    evidence: str
    weight: Estimate
    in_tail: float | None

    def to_json(self) -> dict[str, Any]:
        """A row."""
        return {**vars(self), "weight": self.weight.to_json()}


def pulls(found: Texts, texts: pl.DataFrame, reader: Reader) -> list[Pull]:
    """The evidence that moves scores most, by the evaluator's own attributions of a part of the texts."""
    import polars as pl

    some = texts.sample(min(LOOKED_AT, len(texts)), seed=0)
    whose = (pl.col("question") == found.selection.question) & (pl.col("evaluator") == found.selection.evaluator)
    names = some["conversation"].unique().implode()
    wanted = whose & pl.col("conversation").is_in(names) & pl.col("attributions").is_not_null()
    columns = ["conversation", "turn", "value", "attributions"]
    rows, _ = reader.mart.read(lambda each: each.filter(wanted).select(columns).head(2 * LOOKED_AT).collect())
    if len(rows) < FEWEST:
        return []
    told = [_told(cell) for cell in rows["attributions"]]
    names_of = sorted({name for each in told for name in each})
    table = np.array([[each.get(name, 0.0) for name in names_of] for each in told])
    drawn = counts(len(table), 100)
    size = np.abs(table)
    low, high = ends(drawn @ size / drawn.sum(axis=1, keepdims=True))
    value = rows["value"].to_numpy().astype(float)
    tail = table[value <= np.nanquantile(value, 0.1)]
    of: list[Pull] = []
    for place, name in enumerate(names_of):
        weight = Estimate(float(size[:, place].mean()), float(low[place]), float(high[place]))
        of.append(Pull(name, weight, float(tail[:, place].mean() - table[:, place].mean()) if len(tail) else None))
    return sorted(of, key=lambda each: -(each.weight.value or 0.0))[:12]


def _told(cell: str) -> Mapping[str, float]:
    try:
        found = json.loads(cell)
    except ValueError:
        return {}
    return {str(k): float(v) for k, v in found.items() if isinstance(v, int | float)} if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Rise:
    """How much the main answer rises per unit of another question's answer, over the texts that are scored on both."""

    question: str
    rise: Estimate
    texts: int

    def to_json(self) -> dict[str, Any]:
        """A row."""
        return {**vars(self), "rise": self.rise.to_json()}


def rises(found: Texts, texts: pl.DataFrame, reader: Reader, main: str) -> list[Rise]:
    """Each other question's slope for the main one, over texts, the steepest first; both sides are predicted."""
    import polars as pl

    others = [name for name in found.choices.questions if name != main]
    if found.selection.question != main or not others:
        return []
    some = texts.sample(min(4 * LOOKED_AT, len(texts)), seed=0).select("conversation", "turn", "cluster", "value")
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
            of.append(Rise(str(name), _slope(x, y, _cluster(mine)), len(x)))
    return sorted(of, key=lambda each: -(each.rise.value or 0.0))


def _slope(x: Floats, y: Floats, cluster: NDArray[np.intp]) -> Estimate:
    """The least-squares slope of y on x, clusters being drawn."""
    many = int(cluster.max()) + 1
    sums = np.stack([np.bincount(cluster, each, many) for each in (np.ones_like(x), x, y, x * y, x * x)], axis=1)

    def slope(total: Floats) -> Floats:
        n, sx, sy, sxy, sxx = total.T
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((n * sxy - sx * sy) / (n * sxx - sx * sx))

    drawn = slope(counts(many) @ sums)
    drawn = drawn[np.isfinite(drawn)]
    low, high = ends(drawn) if len(drawn) and many >= FEWEST else (None, None)
    whole = float(slope(sums.sum(axis=0)[None, :])[0])
    return Estimate(whole, None if low is None else float(low), None if high is None else float(high))
