"""Guarantees on scores: selective calls that agree with people, and bands that hold in another domain.

Selective scores are calls (good or bad) with a guaranteed rate of agreement; people rate the uncertain ones. The
guarantee is tested on ratings that the evaluator did not learn from (`fixed_sequence`): for example, at least 90% of
the calls agree with people's ratings, with 95% confidence, for annotators and conversations like these.

Bands are tested in another domain on fresh labels that are used for nothing else. The share of k fresh ratings outside
their bands has an upper confidence bound (Clopper–Pearson; Korn & Graubard, 1998, for several ratings per
conversation). Bands are certified if the bound is at most the promised share. Otherwise they are rejected, or refitted
on these labels by conformal prediction over conversations, whose coverage holds for any number of conversations from
`groups_needed` (`accord.learning.conformal`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, GateFailed
from accord.evidence import EvidenceTable, ratings
from accord.learning import Evaluator, band_quantile, bands, groups_needed
from accord.statistics import CONFIDENCE, SelectiveTest, fixed_sequence, upper_bound
from accord.store import Store
from accord.values import Labels, Score, ScoreRow, Target, Unscored

LEFT = "left for a person"
"""Reason of a missing score that was too uncertain."""
NOT_COUNTED = "left out by --synthetic"
"""Reason of a missing score of a conversation that the setting `synthetic` excludes."""


@dataclass(frozen=True)
class Selection:
    """Threshold of selective scores.

    Attributes:
        agree: Share of the calls that must agree with people.
        good: Lowest answer that counts as good.
        tested: The threshold and its agreement with held-out ratings.
    """

    agree: float
    good: float
    tested: SelectiveTest

    @classmethod
    def of(cls, evaluator: Evaluator, agree: float, good: float | None = None, for_anyone: bool = True) -> Selection:
        """Choose the lowest threshold that meets the required agreement.

        Args:
            evaluator: A fitted evaluator with held-out predictions.
            agree: Share of the calls that must agree with people, above .5 and below 1.
            good: Lowest answer that counts as good; by default the first above the scale's middle.
            for_anyone: True if scores predict a new annotator, False for a known one.

        Raises:
            BadInput: `agree` or `good` is out of range, the evaluator has no held-out predictions, or even its most
                confident calls agree too rarely.
        """
        if not 0.5 < agree < 1:
            raise BadInput(f"--agree is a share above .5 and below 1, got {agree:g}; for example .9")
        held_out = evaluator.held_out
        if held_out is None or not len(held_out.answer):
            raise BadInput("this evaluator has no held-out predictions; fit it with this version: accord fit")
        options = held_out.options
        lowest = float(options[options > (options[0] + options[-1]) / 2][0]) if good is None else good
        if not options[0] < lowest <= options[-1]:
            raise BadInput(
                f"--good is the lowest answer that counts as good, above {options[0]:g} and at most {options[-1]:g}, "
                f"got {lowest:g}"
            )
        is_good = good_share(options, held_out.new if for_anyone else held_out.known, lowest)
        is_right = (is_good >= 0.5) == (options[held_out.answer] >= lowest)
        passed, last = fixed_sequence(np.maximum(is_good, 1 - is_good), is_right, held_out.group, agree)
        if passed is None:
            raise BadInput(
                f"no threshold keeps --agree {agree:.0%}: {last.agreement:.1%} of the most confident {last.share:.0%} "
                f"of {len(is_right)} held-out ratings agree with people, at least {last.at_least:.1%} with "
                f"{CONFIDENCE:.0%} confidence. Label more, or lower --agree"
            )
        return cls(agree, lowest, passed)

    def call(self, score: Score | Unscored) -> Score | Unscored:
        """Return the score with its call, or without a value if it is too uncertain."""
        if isinstance(score, Unscored):
            return score
        options, shares = np.array(score.options), np.array([score.probabilities])
        is_good = float(good_share(options, shares, self.good)[0])
        sure, signature = max(is_good, 1 - is_good), score.signature.with_part("agree", f"{self.agree:g}")
        if score.warning is not None or sure < self.tested.threshold:
            notes = {**score.notes, "sure": sure, **({"warning": score.warning} if score.warning else {})}
            return Unscored(score.target, score.annotator, LEFT, signature, notes)
        called = "good" if is_good >= 0.5 else "bad"
        return replace(score, signature=signature, notes={**score.notes, "call": called, "sure": sure})

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee, the evidence for it and the summary sentence."""
        return {"agree": self.agree, "good": self.good, **self.tested.to_json(), "said": str(self)}

    def __str__(self) -> str:
        tested = self.tested
        return (
            f"at least {self.agree:.0%} of the calls good ({self.good:g} or more) and bad agree with people, with "
            f"{CONFIDENCE:.0%} confidence: {tested.agreement:.1%} of the most confident {tested.share:.0%} held-out "
            f"ratings do ({tested.called} ratings, {tested.groups} groups)"
        )


def good_share(options: NDArray[np.float64], shares: NDArray[np.float64], lowest: float) -> NDArray[np.float64]:
    """Return (n,) probabilities of a good answer from (n, K) distributions over K options."""
    return np.asarray(shares[:, options >= lowest - 1e-9].sum(axis=1))


def left_for_people(store: Store, scores: Collection[ScoreRow], question: str) -> list[Target]:
    """Return the targets of uncertain scores that are still unrated, the most uncertain first."""
    rated = {label.target for label in store.labels(question).on(question)}
    left = [row for row in scores if row["unscored"] == LEFT]
    left.sort(key=lambda row: float((row["notes"] or {}).get("sure", 0.0)))
    targets = (Target(row["conversation"], row["turn"]) for row in left)
    return [target for target in dict.fromkeys(targets) if target not in rated]


# --- bands in another domain ------------------------------------------------------------------------------------------

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
        result = (
            f"{self.misses:.1%} of {self.labels} fresh ratings of {self.groups} conversations miss their bands, "
            f"at most {self.at_most:.1%} with {CONFIDENCE:.0%} confidence; {self.promised:.0%} may"
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
