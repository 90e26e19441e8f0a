"""Certificate of bands in another domain: a test on fresh labels that are used for nothing else.

The share of k fresh ratings outside their bands has an upper confidence bound (Clopper–Pearson; Korn & Graubard, 1998,
for several ratings per conversation). Bands are certified if the bound is at most the promised share. Otherwise they
are rejected, or refitted on these labels by conformal prediction over conversations, whose coverage holds for any
number of conversations from `groups_needed` (`accord.learning.calibration.bands`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from accord.edges import BadInput, GateFailed
from accord.evidence import EvidenceTable, ratings
from accord.learning import Evaluator, band_quantile, bands, groups_needed
from accord.results import told_apart
from accord.statistics import CONFIDENCE, upper_bound
from accord.values import Labels, Score, Unscored

MOST_LABELS = 5000
"""Largest number of labels that an error message suggests."""


@dataclass(frozen=True)
class Certificate:
    """Test of an evaluator's bands on fresh labels.

    Attributes:
        labels: Number k of fresh ratings with a band.
        groups: Number of their conversations.
        misses: Share of the ratings outside their bands.
        at_most: Upper confidence bound of that share.
        promised: Share of ratings that may miss their bands.
        width: q of the bands refitted on these labels; `None` if the original bands are certified.
    """

    labels: int
    groups: int
    misses: float
    at_most: float
    promised: float
    width: float | None = None

    @property
    def holds(self) -> bool:
        """True if the bands are certified unchanged."""
        return self.at_most <= self.promised

    def banded(self, score: Score | Unscored) -> Score | Unscored:
        """Return the score with its certified or refitted band."""
        if isinstance(score, Unscored):
            return score
        kind = "certified" if self.width is None else "adapted"
        signature = score.signature.with_part("band", f"{kind}-on-{self.labels}")
        if self.width is None:
            return replace(score, signature=signature)
        [(low, high)] = bands(np.array(score.options), np.array([score.probabilities]), self.width)
        return replace(score, signature=signature, band=(float(low), float(high)))

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the summary sentence."""
        return {**asdict(self), "holds": self.holds, "said": str(self)}

    def __str__(self) -> str:
        most, promised = told_apart(self.at_most, self.promised, ".1%")
        result = (
            f"{self.misses:.1%} of {self.labels} fresh ratings of {self.groups} conversations miss their bands, "
            f"at most {most} with {CONFIDENCE:.0%} confidence; {promised.replace('.0%', '%')} may"
        )
        if self.holds:
            return f"certified: {result}"
        return f"{'not certified' if self.width is None else 'bands refitted on these labels'}: {result}"


def certify(evaluator: Evaluator, evidence: EvidenceTable, labels: Labels, adapt: bool = False) -> Certificate:
    """Test an evaluator's bands on fresh labels.

    Args:
        evaluator: The evaluator, adapted to the new domain.
        evidence: Evidence of the labeled samples.
        labels: Labels that nothing else uses.
        adapt: True to refit bands that are not certified, instead of an error.

    Raises:
        BadInput: No label belongs to the evidence, no score has a band, or there are too few labels to refit.
        GateFailed: The bands are not certified, and `adapt` is False.
    """
    rated = ratings(evidence, labels, evaluator.question)
    if not len(rated):
        raise BadInput(f"no fresh label on {evaluator.question.id!r} belongs to these conversations; check their ids")
    predicted = evaluator.head.predict_each(evidence.take(rated.row), list(rated.annotator))
    kept = np.flatnonzero([isinstance(score, Score) and score.band is not None for score in predicted])
    if not len(kept):
        raise BadInput("no labeled conversation has a score with a band; label others")
    scores = [score for score in predicted if isinstance(score, Score) and score.band is not None]
    fresh = rated.take(kept)
    coverage = float(getattr(evaluator.head, "coverage", 0.9))
    missed = _missed(scores, fresh.value)
    groups = len(set(fresh.conversation))
    certificate = Certificate(
        len(fresh), groups, float(missed.mean()), upper_bound(missed, fresh.conversation), 1 - coverage
    )  # fmt: skip
    if certificate.holds:
        return certificate
    needed = groups_needed(coverage)
    if not adapt:
        raise GateFailed(
            f"{certificate}; {_labels_needed(certificate)}, or add --adapt to refit the bands (labels of {needed} "
            "conversations)"
        )
    if groups < needed:
        raise BadInput(f"{certificate}; refitting bands takes labels of {needed} conversations, got {groups}")
    shares = np.array([score.probabilities for score in scores])
    return replace(certificate, width=band_quantile(fresh.options, shares, fresh.value, coverage, fresh.conversation))


def _missed(scores: Sequence[Score], value: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    ends = np.array([score.band for score in scores], dtype=float)
    return np.asarray((value < ends[:, 0]) | (value > ends[:, 1]))


def _labels_needed(certificate: Certificate) -> str:
    """Return a sentence on the number of labels that would certify bands with the same share of misses."""
    for count in range(certificate.labels, MOST_LABELS, 5):
        wrong = np.arange(count) < round(certificate.misses * count)
        if upper_bound(wrong, np.arange(count)) <= certificate.promised:
            return f"with the same share of misses, {count} labels of as many conversations would certify them"
    return "with the same share of misses, no number of labels will certify them"
