"""Smoothed density of scores with a 95% band, and bins (LLM-RUBRIC, appendix A).

The band comes from a bootstrap over texts (whole conversations) and annotators. In the view of each annotator, answers
are also drawn from their distributions p̂_a(y | T). Drawing a text and then an answer to it equals drawing from the mean
of the distributions, so no single rows are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accord.board.score_reader import SelectedScores
from accord.statistics import CHART_DRAWS, MIN_CLUSTERS, Clusters, Floats, central
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

CELLS, BINS = 200, 20
"""Number of cells of the density, and of bins that link to lists."""
MAX_ANNOTATOR_TEXTS = 3000
"""Number of texts on which annotators are resampled; the change applies to all texts."""
MAX_ANNOTATORS = 200
"""Maximum number of resampled annotators; the first ones by name."""


@dataclass(frozen=True)
class Bin:
    """A bin of scores from `low` up to, but not including, `high`; the last bin includes it."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Density:
    """A distribution over the scale.

    Attributes:
        at: (200,) values of the scale.
        density, low, high: (200,) density per unit of the scale with its band; no band with few conversations. Of
            single answers in the view of each annotator, else of the means of texts.
        bins: Twenty bins, from the lowest.
        mean: Mean with its interval.
        median: Median.
        rows, conversations, annotators: Numbers of scores, conversations and annotators.
        bandwidth: Bandwidth of the smoothing, in units of the scale.
        drawn: Units that are resampled, as words for the caption.
    """

    at: tuple[float, ...]
    density: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: tuple[Bin, ...]
    mean: Estimate
    median: float | None
    rows: int
    conversations: int
    annotators: int
    bandwidth: float
    drawn: tuple[str, ...]


def density_of(scores: SelectedScores, rows: pl.DataFrame) -> Density:
    """Return the density of rows: texts with their means, or one row per text and annotator.

    Args:
        scores: Scores of the selection.
        rows: Rows with `value`, `cluster` and `conversation`.
    """
    values = rows["value"].to_numpy().astype(float)
    low, high = scores.low, scores.high
    width = (high - low) / CELLS
    cell = np.clip(((values - low) / width).astype(np.intp), 0, CELLS - 1)
    clusters = Clusters.from_numbers(rows["cluster"].to_numpy())
    counted = np.bincount(clusters.of_row * CELLS + cell, minlength=len(clusters) * CELLS)
    by_cluster: Floats = counted.reshape(len(clusters), CELLS).astype(float)
    whole: Floats = by_cluster.sum(axis=0)
    bandwidth = _bandwidth(values, width, scores.options)
    centres: Floats = np.asarray(low + width * (np.arange(CELLS) + 0.5), dtype=float)
    empty: tuple[float, ...] = ()
    band_low, band_high, what = empty, empty, list[str]()
    shares = whole / max(whole.sum(), 1.0)
    answers = _answers(scores, rows, clusters)
    if answers is not None:
        shares = _of_options(scores.options, answers.sum(axis=(1, 2))[None, :], centres)[0][0]
        bandwidth = max(bandwidth, 0.25 * float(np.diff(scores.options).min()))
    mean = Estimate(float(values.mean()) if len(values) else None)
    if len(clusters) >= MIN_CLUSTERS:
        times = clusters.counts(CHART_DRAWS, 0)
        if answers is not None:
            draws, mean_draws = _of_options(scores.options, _answered(answers, times), centres)
            what = ["texts", "annotators", "answers"]
        else:
            draws, mean_draws, what = _drawn(scores, rows, times @ by_cluster, whole, centres)
        smoothed = np.array([_smooth(each, bandwidth / width) for each in draws]) / width
        band_low, band_high = (tuple(each.tolist()) for each in central(smoothed))
        mean = Estimate(mean.value, *map(float, central(mean_draws)))
    edges = np.linspace(low, high, BINS + 1)
    inside = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BINS - 1)
    per_bin = np.bincount(inside, minlength=BINS)
    return Density(
        tuple(centres.tolist()), tuple((_smooth(shares, bandwidth / width) / width).tolist()),
        band_low, band_high,
        tuple(
            Bin(float(low), float(high), int(count))
            for low, high, count in zip(edges[:-1], edges[1:], per_bin, strict=True)
        ),
        mean, float(np.median(values)) if len(values) else None, len(values), rows["conversation"].n_unique(),
        len(scores.annotators), bandwidth, tuple(what),
    )  # fmt: skip


def _smooth(shares: Floats, cells: float) -> Floats:
    """Smooth shares by cell with a normal kernel, reflected at the ends of the scale."""
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(shares, cells, mode="reflect", truncate=4.0))


def _bandwidth(values: Floats, width: float, options: tuple[float, ...]) -> float:
    """Return the bandwidth by Silverman's rule, at least a quarter of the distance between discrete options."""
    if not len(values):
        return 2 * width
    spread = min(float(values.std()), float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34 or np.inf)
    silverman = 0.9 * spread * len(values) ** -0.2
    discrete = len(options) > 1 and bool(np.isin(values[:1000], options).all())
    return float(max(silverman, 2 * width, 0.25 * np.diff(options).min() if discrete else 0.0))


def _drawn(
    scores: SelectedScores, rows: pl.DataFrame, drawn: Floats, whole: Floats, centres: Floats
) -> tuple[Floats, Floats, list[str]]:
    """Return (draws, 200) shares by cell, (draws,) means, and the resampled units, from drawn counts by cell."""
    what = ["texts"]
    if scores.selection.view == "panel" and len(scores.annotators) > 1:
        drawn = np.maximum(drawn + _annotators(scores, len(rows), centres), 0.0)
        what.append("annotators")
    shares = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-12)
    offset = float(rows["value"].mean() or 0.0) - float(whole @ centres) / max(float(whole.sum()), 1.0)  # type: ignore[arg-type]
    return shares, shares @ centres + offset, what


def _answers(scores: SelectedScores, rows: pl.DataFrame, clusters: Clusters) -> Floats | None:
    """(K, A, C) sums of the probabilities of each answer by annotator and cluster.

    `None` except for predictions in the view of each annotator.
    """
    import polars as pl

    K = len(scores.options)
    if scores.selection.view != "each" or scores.selection.answers != "predicted" or K < 2:
        return None
    known = rows.filter(pl.col("probabilities").list.len() == K)
    if not len(known):
        return None
    people = sorted(map(str, known["annotator"].unique()))[:MAX_ANNOTATORS]
    place = {name: n for n, name in enumerate(people)}
    if len(people) == 1:
        who = np.zeros(len(known), dtype=np.intp)
    else:
        named = known["annotator"].cast(pl.String).replace_strict(place, default=-1, return_dtype=pl.Int64)
        who = named.to_numpy().astype(np.intp)
    cluster = np.searchsorted(clusters.names, known["cluster"].to_numpy())
    shares = known["probabilities"].list.to_array(K).to_numpy()
    C, A = len(clusters), len(people)
    kept = who >= 0
    where = (who * C + cluster)[kept]
    return np.stack([np.bincount(where, shares[kept, k], A * C).reshape(A, C) for k in range(K)])


def _answered(sums: Floats, times: Floats) -> Floats:
    """(draws, K) numbers of answers; draws annotators and clusters, and then an answer to each text."""
    rng, A = np.random.default_rng(1), sums.shape[1]
    found = np.zeros((len(times), len(sums)))
    for draw, time in enumerate(times):
        drawn = rng.multinomial(A, np.full(A, 1 / A)) if A > 1 else np.ones(1)
        mixed = np.einsum("a,kac,c->k", drawn.astype(float), sums, time)
        found[draw] = rng.multinomial(round(mixed.sum()), mixed / mixed.sum()) if mixed.sum() > 0 else 0.0
    return found


def _of_options(options: tuple[float, ...], answered: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """Draw answers; return their shares by cell and their means."""
    shares = answered / np.maximum(answered.sum(axis=1, keepdims=True), 1e-12)
    place = np.abs(centres[None, :] - np.asarray(options)[:, None]).argmin(axis=1)
    cells = np.zeros((len(answered), CELLS))
    cells[:, place] = shares
    return cells, shares @ np.asarray(options)


def _annotators(scores: SelectedScores, texts: int, centres: Floats) -> Floats:
    """(draws, 200) changes of the counts by cell when annotators are resampled, from a sample of texts."""
    import polars as pl

    scored = scores.scored
    names = scored.select("conversation", "turn").unique(maintain_order=True)
    some = names.sample(MAX_ANNOTATOR_TEXTS, seed=0) if len(names) > MAX_ANNOTATOR_TEXTS else names
    part = scored.join(some, on=["conversation", "turn"], nulls_equal=True)
    wide = part.pivot("annotator", index=["conversation", "turn"], values="value", aggregate_function="first")
    table = wide.drop("conversation", "turn").select(pl.all().cast(pl.Float64)).to_numpy()[:, :MAX_ANNOTATORS]
    known = np.isfinite(table)
    filled = np.where(known, table, 0.0)
    edges = np.linspace(scores.low, scores.high, CELLS + 1)

    def cells(weight: Floats) -> Floats:
        size = known @ weight
        there = size > 0
        means = (filled @ weight)[there] / size[there]
        return np.histogram(np.clip(means, scores.low, scores.high), edges)[0] / max(int(there.sum()), 1)

    people = Clusters.from_numbers(np.arange(table.shape[1]))
    before = cells(people.sizes)
    drawn = np.array([cells(weight) for weight in people.counts(CHART_DRAWS, 2)])
    return (drawn - before) * texts
