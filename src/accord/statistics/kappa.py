"""Agreement beyond chance, on answers without an order: of two annotators (Cohen), of as many on each item (Fleiss)."""

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
    """Cohen (1960), by scikit-learn: κ = (p_o - p_e) / (1 - p_e), p_o = mean [a = b], p_e = Σ_k p_a(k)·p_b(k).

    Args:
        first: (n,) what one annotator answered.
        second: (n,) what the other answered to the same items.

    Returns:
        At most 1; `None` where there are no items, or both gave one and the same answer to all of them.
    """
    if len(np.unique([first, second])) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(first, second))


def fleiss_kappa(counts: Counts) -> float | None:
    """Fleiss (1971): κ = (P̄ - P̄_e) / (1 - P̄_e), P_i = (Σ_k n_ik² - n) / (n(n - 1)), P̄_e = Σ_k p_k².

    Args:
        counts: (N, K) how many annotators gave item i the answer k; n of them an item.

    Returns:
        At most 1; `None` where it is undefined, for the reason that `no_fleiss` says.
    """
    if no_fleiss(counts) is not None:
        return None
    n = int(counts[0].sum())
    observed = float(((counts**2).sum(axis=1) - n).mean() / (n * (n - 1)))
    expected = float(((counts.sum(axis=0) / counts.sum()) ** 2).sum())
    return (observed - expected) / (1 - expected)


def no_fleiss(counts: Counts) -> str | None:
    """Why Fleiss' κ of (N, K) counts is undefined; `None` where it is defined."""
    if not len(counts):
        return "nothing is answered"
    raters = np.unique(counts.sum(axis=1))
    if len(raters) > 1:
        return f"items have from {raters[0]} to {raters[-1]} answers; it needs the same number on each"
    if raters[0] < 2:
        return "items have fewer than two answers"
    if (counts.sum(axis=0) > 0).sum() < 2:
        return "all answers are the same"
    return None


def counted(answers: Floats, options: tuple[int, ...]) -> Counts:
    """(N, K) how many gave each option, of (N, A) answers with NaN where an annotator has not answered."""
    return np.stack([(answers == option).sum(axis=1) for option in options], axis=1)


def pairwise_kappas(answers: Floats) -> list[tuple[int, int, int, float | None]]:
    """For every two annotators that share items, of (N, A) answers: both, the number of items, and Cohen's κ."""
    found = []
    for one, other in combinations(range(answers.shape[1]), 2):
        shared = ~np.isnan(answers[:, one]) & ~np.isnan(answers[:, other])
        if shared.any():
            kappa = cohen_kappa(answers[shared, one], answers[shared, other])
            found.append((one, other, int(shared.sum()), kappa))
    return found


def mean_kappa(answers: Floats) -> float | None:
    """The mean of all annotators' pairwise Cohen's κ; pairs for whom it is undefined are left out."""
    defined = [kappa for *_, kappa in pairwise_kappas(answers) if kappa is not None]
    return float(np.mean(defined)) if defined else None


def two_valued_alpha(both: Floats, first: Floats, second: Floats, units: Floats) -> Floats:
    """(D,) Krippendorff's α of two people who say 0 or 1 of the same units, from counts; NaN where all say the same.

        α = 1 - (2n - 1)·disagreements / (ones·zeros), of 2n values

    Args:
        both: (D,) units of which both say 1.
        first: (D,) units of which the one says it.
        second: (D,) units of which the other does.
        units: (D,) n.
    """
    ones = first + second
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1.0 - (2 * units - 1) * (ones - 2 * both) / (ones * (2 * units - ones)))


def alpha_estimate(marked: Flags, called: Flags, group: Sequence[str], draws: int, seed: int = 0) -> Estimate:
    """The 95 % interval, over groups, of the α of calls with marks, each (n,)."""
    clusters = Clusters(group)
    counts = np.column_stack([marked & called, marked, called, np.ones(len(marked))]).astype(float)
    value = number(two_valued_alpha(*counts.sum(axis=0)[:, None])[0])
    return estimate_from_draws(value, two_valued_alpha(*(clusters.counts(draws, seed) @ clusters.sums(counts)).T))
