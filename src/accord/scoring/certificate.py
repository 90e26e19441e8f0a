"""Whether an evaluator's bands hold in another place, told from fresh labels that are used for nothing else.

Of k fresh ratings the share outside its band has an upper confidence bound (Clopper–Pearson; Korn & Graubard, 1998,
where a conversation has several): at or below what the bands promise, they are certified. Otherwise they are refused,
or measured anew on these labels: conformal prediction by conversations, whose coverage holds there for any finite
number from `groups_needed` on (`accord.learning.conformal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from accord.edges import BadInput, GateFailed
from accord.evidence import EvidenceTable, ratings
from accord.learning import Evaluator, band_quantile, bands, groups_needed
from accord.statistics import CONFIDENCE, upper_bound
from accord.values import Labels, Score, Unscored

MOST_ASKED = 5000
"""No certificate is promised for more labels."""


@dataclass(frozen=True)
class Certificate:
    """What fresh labels say of an evaluator's bands.

    Attributes:
        labels: k fresh ratings with a band, of so many conversations in `groups`.
        misses: Share of them outside it.
        at_most: Its upper confidence bound.
        promised: Share of ratings that may miss their band.
        width: q of the bands measured anew on these labels; `None` where the old ones are certified.
    """

    labels: int
    groups: int
    misses: float
    at_most: float
    promised: float
    width: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the bands are certified as they are."""
        return self.at_most <= self.promised

    def banded(self, score: Score | Unscored) -> Score | Unscored:
        """The score with its certified band: its own, or the one measured anew."""
        if isinstance(score, Unscored):
            return score
        made = "certified" if self.width is None else "adapted"
        signature = score.signature.with_part("band", f"{made}-on-{self.labels}")
        if self.width is None:
            return replace(score, signature=signature)
        [(low, high)] = bands(np.array(score.options), np.array([score.probabilities]), self.width)
        return replace(score, signature=signature, band=(float(low), float(high)))

    def to_json(self) -> dict[str, Any]:
        """Everything, and the sentence."""
        return {**asdict(self), "holds": self.holds, "said": str(self)}

    def __str__(self) -> str:
        seen = (
            f"{self.misses:.1%} of {self.labels} fresh ratings of {self.groups} conversations miss their band, at most "
            f"{self.at_most:.1%} with {CONFIDENCE:.0%} confidence; {self.promised:.0%} may"
        )
        if self.holds:
            return f"certified: {seen}"
        return f"{'not certified' if self.width is None else 'bands measured anew on these labels'}: {seen}"


def certify(evaluator: Evaluator, evidence: EvidenceTable, labels: Labels, adapt: bool = False) -> Certificate:
    """Try an evaluator's bands on fresh labels.

    Args:
        evaluator: As it is used in the new place.
        evidence: Of the labelled samples.
        labels: That were used for nothing else.
        adapt: Whether bands that are not certified are measured anew; otherwise they are refused.

    Raises:
        BadInput: No label is about the evidence, the scores come without bands, or there are too few to adapt.
        GateFailed: The bands are not certified, and not to be adapted.
    """
    rated = ratings(evidence, labels, evaluator.question)
    if not len(rated):
        raise BadInput(f"no fresh label on {evaluator.question.id!r} is about these conversations; check their ids")
    found = evaluator.head.predict_each(evidence.take(rated.row), list(rated.annotator))
    kept = np.flatnonzero([isinstance(score, Score) and score.band is not None for score in found])
    if not len(kept):
        raise BadInput("none of the labelled conversations gets a score with a band, so nothing can be certified")
    scores = [score for score in found if isinstance(score, Score) and score.band is not None]
    fresh = rated.take(kept)
    coverage = float(getattr(evaluator.head, "coverage", 0.9))
    missed = _missed(scores, fresh.value)
    groups = len(set(fresh.conversation))
    tried = Certificate(
        len(fresh), groups, float(missed.mean()), upper_bound(missed, fresh.conversation), 1 - coverage
    )  # fmt: skip
    if tried.holds:
        return tried
    needed = groups_needed(coverage)
    if not adapt:
        raise GateFailed(
            f"{tried}; {_more(tried)}, or add --adapt to measure the bands anew (labels of {needed} conversations)"
        )
    if groups < needed:
        raise BadInput(f"{tried}; measuring bands anew takes labels of {needed} conversations, got {groups}")
    shares = np.array([score.probabilities for score in scores])
    return replace(tried, width=band_quantile(fresh.options, shares, fresh.value, coverage, fresh.conversation))


def _missed(scores: Sequence[Score], value: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    ends = np.array([score.band for score in scores], dtype=float)
    return np.asarray((value < ends[:, 0]) | (value > ends[:, 1]))


def _more(tried: Certificate) -> str:
    """How many labels would certify bands that go on missing as often."""
    for count in range(tried.labels, MOST_ASKED, 5):
        wrong = np.arange(count) < round(tried.misses * count)
        if upper_bound(wrong, np.arange(count)) <= tried.promised:
            return f"if they go on missing as often, {count} labels of as many conversations would certify them"
    return "if they go on missing as often, no number of labels will certify them"
