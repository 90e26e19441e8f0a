"""How scores are distributed: a smoothed density with a band, and bins to open (LLM-RUBRIC, appendix A).

The band holds 95 % of the densities that come out where texts (whole conversations) and annotators are drawn anew, and,
where each annotator's answer to each text stands for itself, that answer is drawn from its distribution p̂_a(y | T).
Drawing a text and then an answer to it is drawing from the mean of the distributions: no row is drawn by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.board.reading import Texts
from accord.board.resampled import DRAWS, FEWEST, Floats, counts, ends
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

CELLS, BINS = 200, 20
"""Cells in which the density is computed, and bins that can be opened."""
TRIED = 3000
"""Texts on which the draw of annotators is computed; what it changes there holds for all."""
PEOPLE = 200
"""Annotators that are drawn among; more are taken as the first of them in the order of their names."""


@dataclass(frozen=True)
class Bin:
    """A part of the scale: scores from `low` up to below `high`, the last up to its end."""

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Density:
    """A distribution over the scale.

    Attributes:
        at: (200,) places on the scale.
        density, low, high: (200,) of each, per unit of the scale, with its band; no band of too few conversations.
            Of each annotator's answers where these stand beside each other, else of texts' means.
        bins: Twenty, from the lowest.
        mean: With its interval, by the same draws.
        median, tail: Of the scores; `tail` is the end of their lowest tenth.
        rows, conversations, annotators: How many are in it.
        bandwidth: Of the smoothing, in units of the scale.
        drawn: What the band draws anew.
    """

    at: tuple[float, ...]
    density: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: tuple[Bin, ...]
    mean: Estimate
    median: float | None
    tail: float | None
    rows: int
    conversations: int
    annotators: int
    bandwidth: float
    drawn: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            **vars(self), "mean": self.mean.to_json(), "bins": [vars(each) for each in self.bins],
            "at": [round(each, 6) for each in self.at],
            **{name: [float(f"{v:.5g}") for v in getattr(self, name)] for name in ("density", "low", "high")},
        }  # fmt: skip


def density_of(found: Texts, rows: pl.DataFrame) -> Density:
    """The density of some rows: texts with their means (`Texts.texts`), or a row per text and annotator.

    Args:
        found: Whose scale and annotators they are of.
        rows: With `value`, `cluster`, `conversation`.
    """
    values = rows["value"].to_numpy().astype(float)
    low, high = found.low, found.high
    width = (high - low) / CELLS
    cell = np.clip(((values - low) / width).astype(np.intp), 0, CELLS - 1)
    cluster = rows["cluster"].to_numpy().astype(np.intp)
    many = int(cluster.max()) + 1 if len(cluster) else 0
    counted = np.bincount(cluster * CELLS + cell, minlength=many * CELLS)
    by_cluster: Floats = counted.reshape(many, CELLS).astype(float)
    by_cluster = by_cluster[by_cluster.any(axis=1)]
    many = len(by_cluster)
    whole: Floats = by_cluster.sum(axis=0)
    bandwidth = _bandwidth(values, width, found.options)
    centres: Floats = np.asarray(low + width * (np.arange(CELLS) + 0.5), dtype=float)
    empty: tuple[float, ...] = ()
    band_low, band_high, what = empty, empty, list[str]()
    shares = whole / max(whole.sum(), 1.0)
    answers = _answers(found, rows)
    if answers is not None:
        shares = _of_options(found.options, answers.sum(axis=(1, 2))[None, :], centres)[0][0]
        bandwidth = max(bandwidth, 0.25 * float(np.diff(found.options).min()))
    mean = Estimate(float(values.mean()) if len(values) else None)
    if many >= FEWEST:
        if answers is not None:
            draws, mean_draws = _of_options(found.options, _answered(answers, counts(many)), centres)
            what = ["texts", "annotators", "answers"]
        else:
            draws, mean_draws, what = _drawn(found, rows, by_cluster, whole, centres)
        smoothed = np.array([_smooth(each, bandwidth / width) for each in draws]) / width
        band_low, band_high = (tuple(each.tolist()) for each in ends(smoothed))
        mean = Estimate(mean.value, *map(float, ends(mean_draws)))
    edges = np.linspace(low, high, BINS + 1)
    inside = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BINS - 1)
    per_bin = np.bincount(inside, minlength=BINS)
    return Density(
        tuple(centres.tolist()), tuple((_smooth(shares, bandwidth / width) / width).tolist()),
        band_low, band_high,
        tuple(Bin(float(a), float(b), int(n)) for a, b, n in zip(edges[:-1], edges[1:], per_bin, strict=True)),
        mean, float(np.median(values)) if len(values) else None,
        float(np.quantile(values, 0.1)) if len(values) else None, len(values), rows["conversation"].n_unique(),
        len(found.annotators), bandwidth, tuple(what),
    )  # fmt: skip


def _smooth(shares: Floats, cells: float) -> Floats:
    """Shares by cell, smoothed by a normal kernel that is reflected at the ends of the scale."""
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(shares, cells, mode="reflect", truncate=4.0))


def _bandwidth(values: Floats, width: float, options: tuple[float, ...]) -> float:
    """Silverman's rule; wide enough that single answers of a scale with few options do not stand as needles."""
    if not len(values):
        return 2 * width
    spread = min(float(values.std()), float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34 or np.inf)
    silverman = 0.9 * spread * len(values) ** -0.2
    discrete = len(options) > 1 and bool(np.isin(values[:1000], options).all())
    return float(max(silverman, 2 * width, 0.25 * np.diff(options).min() if discrete else 0.0))


def _drawn(
    found: Texts, rows: pl.DataFrame, by_cluster: Floats, whole: Floats, centres: Floats
) -> tuple[Floats, Floats, list[str]]:
    """(draws, 200) shares by cell as they come out of each draw, (draws,) their means, and what was drawn."""
    times = counts(len(by_cluster))
    what = ["texts"]
    drawn = times @ by_cluster
    if found.selection.view == "panel" and len(found.annotators) > 1:
        drawn = np.maximum(drawn + _annotators(found, len(rows), centres), 0.0)
        what.append("annotators")
    shares = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-12)
    offset = float(rows["value"].mean() or 0.0) - float(whole @ centres) / max(float(whole.sum()), 1.0)  # type: ignore[arg-type]
    return shares, shares @ centres + offset, what


def _answers(found: Texts, rows: pl.DataFrame) -> Floats | None:
    """(K, A, C) probabilities of each answer, added up by annotator and cluster.

    `None` where an annotator's answers do not stand for themselves, or have no distribution.
    """
    import polars as pl

    K = len(found.options)
    if found.selection.view != "each" or found.selection.answers != "predicted" or K < 2:
        return None
    known = rows.filter(pl.col("probabilities").list.len() == K)
    if not len(known):
        return None
    people = sorted(map(str, known["annotator"].unique()))[:PEOPLE]
    place = {name: n for n, name in enumerate(people)}
    if len(people) == 1:
        who = np.zeros(len(known), dtype=np.intp)
    else:
        named = known["annotator"].cast(pl.String).replace_strict(place, default=-1, return_dtype=pl.Int64)
        who = named.to_numpy().astype(np.intp)
    present = np.bincount(rows["cluster"].to_numpy()) > 0
    cluster = (np.cumsum(present) - 1)[known["cluster"].to_numpy()]
    shares = known["probabilities"].list.to_array(K).to_numpy()
    C, A = int(present.sum()), len(people)
    kept = who >= 0
    where = (who * C + cluster)[kept]
    return np.stack([np.bincount(where, shares[kept, k], A * C).reshape(A, C) for k in range(K)])


def _answered(sums: Floats, times: Floats) -> Floats:
    """(draws, K) how often each answer comes, annotators and clusters being drawn, then an answer to each text."""
    rng, A = np.random.default_rng(1), sums.shape[1]
    found = np.zeros((len(times), len(sums)))
    for draw, time in enumerate(times):
        drawn = rng.multinomial(A, np.full(A, 1 / A)) if A > 1 else np.ones(1)
        mixed = np.einsum("a,kac,c->k", drawn.astype(float), sums, time)
        found[draw] = rng.multinomial(round(mixed.sum()), mixed / mixed.sum()) if mixed.sum() > 0 else 0.0
    return found


def _of_options(options: tuple[float, ...], answered: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """Draws of answers as shares by cell, and their means."""
    shares = answered / np.maximum(answered.sum(axis=1, keepdims=True), 1e-12)
    place = np.abs(centres[None, :] - np.asarray(options)[:, None]).argmin(axis=1)
    cells = np.zeros((len(answered), CELLS))
    cells[:, place] = shares
    return cells, shares @ np.asarray(options)


def _annotators(found: Texts, texts: int, centres: Floats) -> Floats:
    """(draws, 200) by how much the counts by cell change where annotators are drawn anew, on a part of the texts."""
    import polars as pl

    scored = found.scored
    names = scored.select("conversation", "turn").unique(maintain_order=True)
    some = names.sample(TRIED, seed=0) if len(names) > TRIED else names
    part = scored.join(some, on=["conversation", "turn"], nulls_equal=True)
    wide = part.pivot("annotator", index=["conversation", "turn"], values="value", aggregate_function="first")
    table = wide.drop("conversation", "turn").select(pl.all().cast(pl.Float64)).to_numpy()[:, :PEOPLE]
    known = np.isfinite(table)
    filled = np.where(known, table, 0.0)
    rng, A = np.random.default_rng(2), table.shape[1]
    edges = np.linspace(found.low, found.high, CELLS + 1)

    def cells(weight: Floats) -> Floats:
        size = known @ weight
        there = size > 0
        means = (filled @ weight)[there] / size[there]
        return np.histogram(np.clip(means, found.low, found.high), edges)[0] / max(int(there.sum()), 1)

    before = cells(np.ones(A))
    drawn = np.array([cells(rng.multinomial(A, np.full(A, 1 / A)).astype(float)) for _ in range(DRAWS)])
    return (drawn - before) * texts
