"""How well scores separate good conversations from bad ones, and how sharply (RUBICON, sections 3.3 and 4.2).

    LC(R)  = mean score of the good − mean score of the bad
    θc(R)  = half of the sum of these two means
    LS(R)  = mean over θ of ½·(|t₊(θ) − Prec₊(R, θ)| + |t₋(θ) − Prec₋(R, θ)|)
    t₊(θ)  = π + (1 − π)·(1 + tanh(θ − θc))/2,   t₋(θ) = (1 − π) + π·(1 − tanh(θ − θc))/2

Prec₊(θ) is the share of good ones among conversations that score above θ, Prec₋(θ) the share of bad ones among the
others; θ runs over the midpoints between distinct scores, in points, and π is the share of good conversations. A set of
rubrics maximises LC/range − α·LS, where the range is what its scores could span: neither term has a unit then. Decision
0018 says why the targets are not scaled to the spread of the scores (`pooled`). Scores are whole thousandths: sums are
exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics import DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate

Floats = NDArray[np.float64]
Whole = NDArray[np.int32]
Flags = NDArray[np.bool_]

POINT = 1000
"""Thousandths in a point of the Likert range 0 to 10."""
TOP = 10 * POINT


def sharpness_loss(keys: Whole, good: int, threshold: Floats, spread: Floats | None = None) -> Floats:
    """LS of m candidate sets, each in [0, 1]; 1 for one whose scores are all equal.

    With U = 1 + tanh(θ − θc) this is a quarter of |2·(1 − Prec₊) − (1 − π)·(2 − U)| + |2·(1 − Prec₋) − π·U|.

    Args:
        keys: (m, C) twice each score, plus one where the conversation is good: what sorts by score tells the classes
            apart in its last bit. They are sorted in place.
        good: How many conversations are good.
        threshold: (m,) θc.
        spread: (m,) pooled standard deviations; where given, targets run from 0 to 1 and θ − θc is divided by them.
    """
    keys.sort(axis=1)
    size, found = keys.shape[1], np.cumsum(keys[:, :-1] & 1, axis=1, dtype=np.int32)
    below = np.arange(1, size, dtype=np.int32)
    keys >>= 1
    unit = np.full(len(keys), float(POINT)) if spread is None else spread
    curve = steps(keys[:, 1:] + keys[:, :-1], threshold[:, None], unit[:, None])
    curve += 1.0
    positive, negative = (good / size, 1 - good / size) if spread is None else (1.0, 1.0)
    errors = (found + (size - good - below)) * (2.0 / (size - below))  # the bad ones above, by all above
    errors -= negative * (2.0 - curve)
    np.abs(errors, out=errors)
    others = found * (2.0 / below)
    curve *= positive
    others -= curve
    np.abs(others, out=others)
    errors += others
    apart = keys[:, 1:] != keys[:, :-1]
    if apart.all():
        return np.asarray(errors.sum(axis=1) / (4 * (size - 1)))
    errors *= apart  # between equal scores there is no threshold
    count = np.count_nonzero(apart, axis=1)
    return np.where(count > 0, errors.sum(axis=1) / np.maximum(4 * count, 1), 1.0)


def targets(theta: Floats, threshold: float, share: float) -> tuple[Floats, Floats]:
    """t₊ and t₋ at thresholds in points, where a `share` of the conversations is good."""
    step = np.tanh(theta - threshold)
    return share + (1 - share) * (1 + step) / 2, 1 - share + share * (1 - step) / 2


def steps(twice: Whole, threshold: Floats, unit: Floats) -> Floats:
    """tanh((θ − θc)/unit) where `twice` is 2·θ; a unit of nothing makes it a step."""
    if not unit.all():
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.tanh(np.nan_to_num((twice / 2 - threshold) / unit, nan=0.0)))
    x = twice * (0.5 / unit)
    x -= threshold / unit
    return np.tanh(x, out=x)


GOOD, BAD, UNCERTAIN = "good", "bad", "uncertain"


@dataclass(frozen=True)
class Curves:
    """Prec₊ (`good`) and Prec₋ (`bad`) at the midpoints between distinct scores (`theta`), rising; each (t,)."""

    theta: Floats
    good: Floats
    bad: Floats


def curves(scores: Floats, good: Flags) -> Curves:
    """The precision curves of (C,) scores."""
    order = np.argsort(scores, kind="stable")
    ordered, found = scores[order], np.cumsum(good[order])
    at = np.flatnonzero(ordered[1:] > ordered[:-1])
    below = at + 1.0
    above = (good.sum() - found[at]) / (len(scores) - below)
    return Curves((ordered[at] + ordered[at + 1]) / 2, above, 1.0 - found[at] / below)


@dataclass(frozen=True)
class Window:
    """Scores up to `low` are labelled bad (−∞: none is), scores above `high` good (∞: none is)."""

    low: float
    high: float

    @classmethod
    def read(cls, scores: Floats, good: Flags, threshold: float, precision: float) -> Window:
        """The window between the largest θ with Prec₋ ≥ precision and the smallest θ with Prec₊ ≥ precision.

        Where the two overlap nothing is uncertain, and the threshold decides as far as both allow it.
        """
        found = curves(scores, good)
        sure_bad, sure_good = found.theta[found.bad >= precision], found.theta[found.good >= precision]
        low, high = sure_bad.max(initial=-np.inf), sure_good.min(initial=np.inf)
        if low >= high:
            low = high = float(np.clip(threshold, high, low))
        return cls(float(low), float(high))

    def says(self, scores: Floats) -> NDArray[np.object_]:
        """(n,) `good`, `bad` or `uncertain` for each score."""
        return np.where(scores > self.high, GOOD, np.where(scores <= self.low, BAD, UNCERTAIN)).astype(object)


def threshold_of(scores: Floats, good: Flags) -> float:
    """θc: halfway between the mean score of the good and that of the bad."""
    return float((scores[good].mean() + scores[~good].mean()) / 2)


# --- figures ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """NetSAT of n conversations with what people called them, and how the training side would label them.

    `scores` are (n,) points, the sum of `sat` and `dsat` (negative); `threshold` and `window` are the training side's;
    `precision` is what a label's precision has to be, such as .9.
    """

    scores: Floats
    good: Flags
    threshold: float
    window: Window
    precision: float
    sat: Floats
    dsat: Floats

    def take(self, rows: NDArray[np.intp]) -> Outcome:
        """Some of the conversations, each as often as it is named."""
        some = (self.scores[rows], self.good[rows], self.threshold, self.window, self.precision)
        return Outcome(*some, self.sat[rows], self.dsat[rows])


def figures(tested: Outcome) -> dict[str, float | None]:
    """Every figure of a line of a table (RUBICON, section 4.2); `None` where it is not defined.

    `delta_netsat` is the difference of the classes' means, in points; `accuracy`, `precision`, `recall` and `f1` are of
    calling good what scores above the training side's threshold. `yield_rate` is the share outside the window as the
    paper reads it, from the labels that are tested on; `yield_deployed` the share outside the training side's window,
    `precision_deployed` how often a label given there is right. `sat_dsat` is Pearson's r of both parts of the score.
    """
    good, scores = tested.good, tested.scores
    if not good.any() or good.all():
        return dict.fromkeys(NAMES)
    called = scores > tested.threshold
    right = int((called & good).sum())
    precision = right / int(called.sum()) if called.any() else None
    recall = right / int(good.sum())
    said = tested.window.says(scores)
    labelled = said != UNCERTAIN
    hindsight = Window.read(scores, good, tested.threshold, tested.precision).says(scores)
    varied = np.ptp(tested.sat) > 0 and np.ptp(tested.dsat) > 0
    return {
        "delta_netsat": float(scores[good].mean() - scores[~good].mean()),
        "yield_rate": float((hindsight != UNCERTAIN).mean()),
        "yield_deployed": float(labelled.mean()),
        "precision_deployed": float((said == np.where(good, GOOD, BAD))[labelled].mean()) if labelled.any() else None,
        "accuracy": float((called == good).mean()),
        "precision": precision,
        "recall": recall,
        "f1": 0.0 if not right or precision is None else 2 * precision * recall / (precision + recall),
        "sat_dsat": float(np.corrcoef(tested.sat, tested.dsat)[0, 1]) if varied else None,
    }


NAMES = (
    "delta_netsat", "yield_rate", "yield_deployed", "precision_deployed",
    "accuracy", "precision", "recall", "f1", "sat_dsat",
)  # fmt: skip


def with_intervals(tested: Outcome, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> dict[str, Estimate]:
    """The figures, each with its interval over resamples of whole conversations."""
    own, draws = figures(tested), draws if len(clusters) > 1 else 0
    drawn = [figures(tested.take(clusters.rows(count))) for count in clusters.counts(draws, seed)]
    spread = {name: estimate_from_draws(own[name], np.array([one[name] for one in drawn], float)) for name in NAMES}
    return {name: Estimate() if value is None else spread[name] for name, value in own.items()}
