"""Agreement beyond chance on nominal answers: Cohen's κ and Krippendorff's α of two annotators, Fleiss' κ of several.

Krippendorff's α of any number of annotators and any scale is in `agreement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from accord.statistics.agreement import number
from accord.statistics.resampling import Clusters, estimate_from_draws
from accord.values import Estimate

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.intp]


def cohen_kappa(first: Floats, second: Floats) -> float | None:
    """Return Cohen's κ (1960): κ = (p_o - p_e) / (1 - p_e), p_o = mean [a = b], p_e = Σ_k p_a(k)·p_b(k).

    Args:
        first: (n,) answers of one annotator.
        second: (n,) answers of the other annotator to the same items.

    Returns:
        At most 1, or `None` without items or if both annotators gave one answer to every item.
    """
    if len(np.unique([first, second])) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(first, second))


def fleiss_kappa(counts: Counts) -> float | None:
    """Return Fleiss' κ (1971): κ = (P̄ - P̄_e) / (1 - P̄_e), P_i = (Σ_k n_ik² - n) / (n(n - 1)), P̄_e = Σ_k p_k².

    Args:
        counts: (N, K) number of annotators who gave item i the answer k, with n annotators per item.

    Returns:
        At most 1, or `None` if it is undefined (`no_fleiss` gives the reason).
    """
    if no_fleiss(counts) is not None:
        return None
    n = int(counts[0].sum())
    observed = float(((counts**2).sum(axis=1) - n).mean() / (n * (n - 1)))
    expected = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return (observed - expected) / (1 - expected)


def no_fleiss(counts: Counts) -> str | None:
    """Return the reason why Fleiss' κ of (N, K) counts is undefined, or None."""
    if not len(counts):
        return "no item has answers"
    raters = np.unique(counts.sum(axis=1))
    if len(raters) > 1:
        return f"items have {raters[0]} to {raters[-1]} answers; Fleiss' κ needs the same number for each"
    if raters[0] < 2:
        return "items have fewer than two answers"
    if (counts.sum(axis=0) > 0).sum() < 2:
        return "all answers are the same"
    return None


def counted(answers: Floats, options: tuple[int, ...]) -> Counts:
    """Return (N, K) counts of each option, from (N, A) answers with NaN for missing ones."""
    return np.stack([(answers == option).sum(axis=1) for option in options], axis=1)


def pairwise_kappas(answers: Floats) -> list[tuple[int, int, int, float | None]]:
    """Return Cohen's κ of every pair of annotators with shared items, from (N, A) answers with NaN for missing ones.

    Returns:
        Both annotators, the number of shared items, and κ.
    """
    pairs = []
    for one, other in combinations(range(answers.shape[1]), 2):
        shared = ~np.isnan(answers[:, one]) & ~np.isnan(answers[:, other])
        if shared.any():
            kappa = cohen_kappa(answers[shared, one], answers[shared, other])
            pairs.append((one, other, int(shared.sum()), kappa))
    return pairs


def mean_kappa(answers: Floats) -> float | None:
    """Return the mean of all defined pairwise Cohen's κ."""
    defined = [kappa for *_, kappa in pairwise_kappas(answers) if kappa is not None]
    return float(np.mean(defined)) if defined else None


def two_valued_alpha(both: Floats, first: Floats, second: Floats, units: Floats) -> Floats:
    """Return (D,) Krippendorff's α of two annotators with answers 0 or 1 to the same units; NaN if undefined.

        α = 1 - (2n - 1)·disagreements / (ones·zeros), of 2n values

    Args:
        both: (D,) units to which both answer 1.
        first: (D,) units to which the first answers 1.
        second: (D,) units to which the second answers 1.
        units: (D,) n.
    """
    ones = first + second
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1.0 - (2 * units - 1) * (ones - 2 * both) / (ones * (2 * units - ones)))


def alpha_estimate(marked: Flags, called: Flags, group: Sequence[str], draws: int, seed: int = 0) -> Estimate:
    """Return Krippendorff's α between calls (n,) and marks (n,), with its interval over groups."""
    clusters = Clusters(group)
    counts = np.column_stack([marked & called, marked, called, np.ones(len(marked))]).astype(float)
    value = number(two_valued_alpha(*counts.sum(axis=0)[:, None])[0])
    return estimate_from_draws(value, two_valued_alpha(*(clusters.counts(draws, seed) @ clusters.sums(counts)).T))
