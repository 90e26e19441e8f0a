"""Shared helpers of `true_numbers.py`: rows of draws, scores of ratings, cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from harness import Row
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings
from accord.learning import Head
from accord.statistics import Paired, grouped_folds
from accord.values import Labels, Score

DRAWN = 1000
"""Draws of a bootstrap."""
FIRST_SEED = 43
SIGNIFICANT = 0.05
Floats = NDArray[np.float64]


def row(what: str, values: Sequence[float], **also: object) -> Row:
    """Return the mean of values over draws, with their central 95%."""
    low, high = np.quantile(values, [0.025, 0.975])
    return {"what": what, "value": float(np.mean(values)), "low": float(low), "high": float(high), **also}


def counted(what: str, hits: Sequence[bool], **also: object) -> Row:
    """Return a share of draws, with its 95% interval (Clopper and Pearson, 1934)."""
    from scipy.stats import binomtest

    found = binomtest(sum(hits), len(hits)).proportion_ci()
    value = sum(hits) / len(hits)
    return {"what": what, "value": value, "low": found.low, "high": found.high, "draws": len(hits), **also}


def said(head: Head, evidence: EvidenceTable, rated: Ratings) -> list[Score]:
    """Return each rating's score for its own annotator; these data leave none unscored."""
    scores = head.predict_each(evidence.take(rated.row), list(rated.annotator))
    found = [score for score in scores if isinstance(score, Score)]
    assert len(found) == len(rated)
    return found


def inside(scores: Sequence[Score], rated: Ratings) -> float:
    """Return the share of ratings inside their bands."""
    ends = np.array([score.band for score in scores], dtype=float)
    return float(((ends[:, 0] <= rated.value) & (rated.value <= ends[:, 1])).mean())


def cross_validated(make: Callable[[], Head], evidence: EvidenceTable, labels: Labels, rated: Ratings) -> Paired:
    """Predict every rating without its conversation."""
    shares = np.zeros((len(rated), len(rated.options)))
    for split in grouped_folds(list(rated.group), 5, FIRST_SEED):
        rows = np.flatnonzero([name in split.test for name in rated.group])
        head = make().fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        shares[rows] = [score.probabilities for score in said(head, evidence, rated.take(rows))]
    return Paired(rated.options, rated.answer, shares, shares @ rated.options)


def fold_seeds(draws: int) -> list[int]:
    """Return the seeds of the folds of LLM-RUBRIC's dialogues, at most ten."""
    return list(range(FIRST_SEED, FIRST_SEED + min(draws, 10)))
