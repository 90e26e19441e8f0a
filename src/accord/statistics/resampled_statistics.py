"""Statistics that need all rows together, for many bootstrap draws at once.

A draw is a row of weights: the number of times that each of n predictions was drawn. Ranks, τ, α and smECE follow from
sorted sums of weights, so all draws are computed in one array operation. A draw with an undefined statistic is
NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_TINY = 1e-12
SMECE_BINS = 1000
"""Number of bins into which smECE sorts probabilities."""
_SMECE_CELLS, _POINTS = 1024, (256, SMECE_BINS)
_NO_WAVE = 9.0
"""Waves beyond this are damped by exp(-9²/2), which is below rounding error."""
_FIRST_LOOK = 32
"""Index of the width at which the search begins. Few waves remain there, and most solutions are near it."""


def spearman(truth: Floats, value: Floats, weights: Floats) -> Floats:
    """Return (D,) Pearson's r of the ranks, ties at their mean rank, of two (n,) arrays under (D, n) weights."""
    middle = (weights.sum(axis=1) + 1) / 2
    ranks, spread = [], []
    for each in (truth, value):
        code, _ = _codes(each)
        tied = _sums(code, weights)
        rank = np.cumsum(tied, axis=1) - (tied - 1) / 2 - middle[:, None]
        ranks.append(rank[:, code])
        spread.append((tied * rank**2).sum(axis=1))
    return _ratio((weights * ranks[0] * ranks[1]).sum(axis=1), spread[0], spread[1])


def kendall(truth: Floats, value: Floats, weights: Floats, within: Indices | None = None) -> Floats:
    """Return (D,) Kendall's τ-b: (concordant - discordant) / √((pairs untied in y)(pairs untied in ŷ)).

    Pairs that differ in y differ in a highest bit of y's code. One sorted sum per bit counts these pairs, ⌈log₂ K⌉ sums
    for K values instead of a comparison of every pair.

    Args:
        truth: (n,) y.
        value: (n,) ŷ.
        weights: (D, n) draw counts.
        within: (n,) codes of groups; only pairs inside a group count.
    """
    group = np.zeros(len(truth), dtype=np.intp) if within is None else within
    (y, options), (v, values) = _codes(truth), _codes(value)
    total = np.zeros(len(weights))
    for bit in range(max(options - 1, 1).bit_length()):
        total += _crossing(group * (options + 1) + (y >> (bit + 1)), (y >> bit) & 1, v, weights)
    pairs, tied_y, tied_v = (
        _pairs(code, weights) for code in (group, group * (options + 1) + y, group * (values + 1) + v)
    )
    return _ratio(total, pairs - tied_y, pairs - tied_v)


def _crossing(block: Indices, upper: Indices, value: Indices, weights: Floats) -> Floats:
    """Return (D,) concordant minus discordant pairs of a lower and an upper row in the same block."""
    order = np.lexsort((value, block))
    block, value, upper = block[order], value[order], upper[order].astype(bool)
    if not upper.any() or upper.all():
        return np.zeros(len(weights))
    ordered = weights[:, order]
    below = np.zeros((len(weights), len(block) + 1))
    np.cumsum(np.where(upper, 0.0, ordered), axis=1, out=below[:, 1:])
    ties = np.flatnonzero(np.diff(value, prepend=-1) | np.diff(block, prepend=-1))
    blocks = np.flatnonzero(np.diff(block, prepend=-1))
    ends = [np.append(starts[1:], len(block)) for starts in (ties, blocks)]
    places = np.flatnonzero(upper)
    tie, whole = (np.searchsorted(starts, places, side="right") - 1 for starts in (ties, blocks))
    lower = below[:, ties[tie]] - below[:, blocks[whole]]
    higher = below[:, ends[1][whole]] - below[:, ends[0][tie]]
    return np.asarray((ordered[:, places] * (lower - higher)).sum(axis=1))


def _pairs(code: Indices, weights: Floats) -> Floats:
    """Return (D,) pairs of rows with the same code; two draws of one row count as a pair."""
    sums = _sums(code, weights)
    return np.asarray((sums * (sums - 1)).sum(axis=1) / 2)


def pearson_within(truth: Floats, value: Floats, weights: Floats, within: Indices) -> Floats:
    """Return (D,) Pearson's r after subtracting each group's means from both sides, pooled over groups."""
    y, v = truth - truth.mean(), value - value.mean()
    sizes = _sums(within, weights)
    of_y, of_v = _sums(within, weights * y), _sums(within, weights * v)
    share = 1 / np.maximum(sizes, 1)

    def left(products: Floats, one: Floats, other: Floats) -> Floats:
        whole = weights @ products
        rest = whole - (one * other * share).sum(axis=1)
        return np.where(np.abs(rest) > _TINY * np.abs(whole), rest, 0.0)

    return _ratio(left(y * v, of_y, of_v), left(y * y, of_y, of_y), left(v * v, of_v, of_v))


def ordinal_alpha(options: int, first: Indices, second: Indices, weights: Floats) -> Floats:
    """Return (D,) Krippendorff's ordinal α of two coders who both answered every row.

    α = 1 - (m - 1) Σ o_ck δ²_ck / Σ n_c n_k δ²_ck with m = 2n answers and δ_ck = Σ_{g=c..k} n_g - (n_c + n_k) / 2.

    Args:
        options: Number of rising options.
        first: (n,) answers of the first coder.
        second: (n,) answers of the second coder.
        weights: (D, n) draw counts.
    """
    cells = np.zeros((len(weights), options * options))
    used, code = np.unique(first * options + second, return_inverse=True)
    cells[:, used] = _sums(code, weights)
    seen = cells.reshape(-1, options, options)
    seen = seen + seen.transpose(0, 2, 1)
    return _alpha(seen, is_ordered=True)


def units_alpha(counts: Floats, weights: Floats, is_ordered: bool = True) -> Floats:
    """Return (D,) Krippendorff's α of any number of annotators, under weights of units; NaN if all answers are equal.

    A unit of m answers adds its pairs of answers, each with weight 1/(m - 1), to the coincidence matrix o.

    Args:
        counts: (U, K) number of annotators who gave each of K rising options to each unit.
        weights: (D, U) number of times each unit is drawn.
        is_ordered: True for ordinal distances of ranks, False for nominal ones.
    """
    answers = counts.sum(axis=1)
    pairs = counts[:, :, None] * (counts[:, None, :] - np.eye(counts.shape[1]))
    pairs = pairs / np.maximum(answers - 1, 1)[:, None, None]
    seen = (weights @ pairs.reshape(len(counts), -1)).reshape(len(weights), *pairs.shape[1:])
    return _alpha(seen, is_ordered)


def _alpha(seen: Floats, is_ordered: bool) -> Floats:
    """Return (D,) α from (D, K, K) coincidences: 1 - (m - 1) Σ o_ck δ²_ck / Σ n_c n_k δ²_ck."""
    given = seen.sum(axis=2)
    if is_ordered:
        upto = np.cumsum(given, axis=1) - given / 2
        distance = (upto[:, :, None] - upto[:, None, :]) ** 2
    else:
        distance = np.broadcast_to(1.0 - np.eye(seen.shape[1]), seen.shape)
    observed = (seen * distance).sum(axis=(1, 2))
    expected = (given[:, :, None] * given[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected > 0, 1 - (given.sum(axis=1) - 1) * observed / expected, np.nan)


def smece(probability: Floats, happened: NDArray[np.bool_], weights: Floats) -> Floats:
    """Return (D,) the smooth expected calibration error (Błasiok & Nakkiran, 2023), 0 to 1.

    The residuals y - p are smoothed along p by a reflected Gaussian of width σ: smECE_σ = ∫ |Σᵢ K_σ(t, pᵢ)(yᵢ - pᵢ)| dt
    / n, at the σ with smECE_σ = σ.
    """
    mass = (residuals_in_bins(probability, happened - probability).T @ weights.T).T
    return smooth_error(mass / weights.sum(axis=1)[:, None])


def residuals_in_bins(probability: Floats, residual: Floats) -> Any:
    """Return the (n, bins) sparse matrix with each residual in the two bins around its probability."""
    from scipy.sparse import csr_array

    rows, bins = len(probability), SMECE_BINS
    place = np.clip(probability, 0.0, 1.0) * (bins - 1)
    left = np.minimum(place.astype(int), bins - 2)
    share = place - left
    shares = np.concatenate([residual * (1 - share), residual * share])
    at_bins = (np.tile(np.arange(rows), 2), np.concatenate([left, left + 1]))
    return csr_array((shares, at_bins), shape=(rows, bins))


def smooth_error(mass: Floats) -> Floats:
    """Return (D,) smECE of residuals, given as (D, bins) sums divided by the number of rows."""
    from scipy.fft import dct

    bins = SMECE_BINS
    waves, widths = dct(mass, axis=1), np.linspace(1.0 / bins, 1.0, _SMECE_CELLS + 1)

    def at(cell: Indices, which: Indices) -> Floats:
        curves = _curves(waves[which, : _waves(widths[cell.min()])], widths[cell], bins)
        return np.asarray(np.abs(curves, out=curves).sum(axis=1))

    return _fixed_width(at, widths, len(mass))


def smoothed(mass: Floats, width: float, points: int | None = None) -> Floats:
    """Return (D, points) residuals smoothed by a reflected Gaussian; the sum of |.| is their error at this width.

    Args:
        mass: (D, bins) sums of residuals divided by the number of rows.
        width: Standard deviation of the Gaussian, above 0.
        points: Number of points of the curves; by default as many as their waves need.
    """
    from scipy.fft import dct

    used = _waves(width)
    points = points or next(number for number in _POINTS if number >= min(2 * used, SMECE_BINS))
    return _curves(dct(mass, axis=1)[:, :used], np.full(len(mass), width), points)


def _waves(width: float) -> int:
    """Return the number of waves that a Gaussian of this width leaves; it smooths higher ones away."""
    return min(SMECE_BINS, 1 + int(_NO_WAVE / (np.pi * width)))


def _curves(waves: Floats, widths: Floats, points: int) -> Floats:
    """Return (D, points) the sums of (D, W) cosine waves, smoothed by (D,) widths."""
    from scipy.fft import idct

    # A Gaussian reflected at 0 and 1 multiplies the k-th cosine by exp(-(πkσ)²/2), so smoothing is one transform.
    left_over = np.exp(-0.5 * (np.pi * np.arange(waves.shape[1]) * widths[:, None]) ** 2)
    return np.asarray(idct(waves * left_over, n=points, axis=1, overwrite_x=True))


def _fixed_width(at: Callable[[Indices, Indices], Floats], widths: Floats, draws: int) -> Floats:
    """Return (draws,) a falling function's value at the first of some rising widths that it does not exceed.

    The value at any width bounds the solution from the other side, so one evaluation bounds it on both sides. The line
    through the last two evaluations gives the next width.

    Args:
        at: Maps indices of widths, and the draws they are for, to the function's values.
        widths: (W,) evenly spaced widths; the last one exceeds the function everywhere.
        draws: Number of draws.
    """
    last, step = len(widths) - 1, widths[1] - widths[0]
    low, high = np.full(draws, -1), np.full(draws, last)  # the function exceeds the width at `low`, not at `high`
    result = np.full(draws, np.nan)  # value at `high` once it is evaluated
    place, before = np.full(draws, min(_FIRST_LOOK, last)), np.full(draws, -1)
    excess_before = np.zeros(draws)
    which = np.arange(draws)
    while len(which):
        here, value = place[which], at(place[which], which)
        excess, other_side = value - widths[here], (value - widths[0]) / step
        above, beyond = excess > 0, np.ceil(other_side).astype(np.intp)
        a = np.where(above, here, np.maximum(low[which], beyond - 1))
        b = np.where(above, np.minimum(high[which], beyond), here)
        result[which] = np.where(~above, value, np.where(b < high[which], np.nan, result[which]))
        rise, run = excess - excess_before[which], here - before[which]
        on_the_line = here - excess * run / np.where(rise == 0, 1.0, rise)
        guess = np.ceil(np.where(before[which] < 0, (here + other_side) / 2, on_the_line))
        low[which], high[which], before[which], excess_before[which] = a, b, here, excess
        looked = ~np.isnan(result[which])
        place[which] = np.clip(guess, a + 1, np.maximum(b - looked, a + 1))
        which = which[(b - a > 1) | ~looked]
    return result


def _codes(values: Floats) -> tuple[Indices, int]:
    """Return (n,) the index of each value among the distinct ones, and their number."""
    different, code = np.unique(values, return_inverse=True)
    return code.astype(np.intp), len(different)


def _sums(code: Indices, weights: Floats) -> Floats:
    """Return (D, C) sums of weights by code; codes without rows are left out."""
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    return np.asarray(np.add.reduceat(weights[:, order], starts, axis=1))


def _ratio(product: Floats, first: Floats, second: Floats) -> Floats:
    """Return (D,) product / √(first · second); NaN if either is constant."""
    varies = (first > _TINY) & (second > _TINY)
    return np.where(varies, product / np.sqrt(np.where(varies, first * second, 1.0)), np.nan)
