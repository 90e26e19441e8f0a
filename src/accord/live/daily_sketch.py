"""Sketches of live scores: mergeable statistics of bounded size for each system and day.

Sums are exact. Distributions come from a sample: at most `MAX_CONVERSATIONS` conversations with the smallest hashes,
and of each the reply with the smallest hash. The result depends neither on the order of messages nor on the process
that scored them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.statistics import CONFIDENCE, ClusteredMean, clustered_error, gamma_quantile
from accord.store import name_hash
from accord.values import Estimate, Score, Unscored

Floats = NDArray[np.float64]

OTHER_SYSTEMS = "other systems"
MAX_CONVERSATIONS = 200
"""Maximum number of conversations in a sketch."""
MAX_UNCERTAIN = 20
"""Number of replies with the highest variance that a sketch keeps."""
_NO_HASH = 2**64
_COUNTS = ("replies", "scored", "total", "warned", "is_full")


class NameLimit:
    """Limit of the number of distinct names: further names are replaced by `OTHER_SYSTEMS`."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._names: set[str] = set()

    def limit(self, name: str) -> str:
        """Return the name to count under."""
        if name not in self._names and len(self._names) >= self.maximum:
            return OTHER_SYSTEMS
        self._names.add(name)
        return name


@dataclass(slots=True)
class SampledConversation:
    """Conversation of a sketch: sum of its scores, and score and features of the reply with the smallest `key`."""

    count: int
    total: float
    key: int
    score: float
    evidence: list[float | None]
    unscored: int = 0

    def add(self, other: SampledConversation) -> None:
        """Add another part of the same conversation."""
        self.count, self.total = self.count + other.count, self.total + other.total
        self.unscored += other.unscored
        if other.key < self.key:
            self.key, self.score, self.evidence = other.key, other.score, other.evidence


@dataclass(frozen=True)
class DailyMean(Estimate):
    """Mean over all scored replies, its interval over conversations within the scale, and its standard error."""

    error: float | None = None


@dataclass
class DaySketch:
    """Statistics of one day of one system.

    Attributes:
        replies: Number of replies, with or without a score.
        scored: Number of scored replies.
        total: Sum of their scores.
        unscored: Number of other replies by reason.
        warned: Number of scored replies with a warning.
        sample: Sampled conversations by hash.
        is_full: True if the day had more conversations than the sample.
        uncertain: (variance, conversation, turn, score) of the replies with the highest variance.
        limits: Ends of the scale; `None` before the first score.
    """

    replies: int = 0
    scored: int = 0
    total: float = 0.0
    unscored: Counter[str] = field(default_factory=Counter)
    warned: int = 0
    sample: dict[int, SampledConversation] = field(default_factory=dict)
    is_full: bool = False
    uncertain: list[tuple[float, str, int | None, float]] = field(default_factory=list)
    limits: tuple[float, float] | None = None

    def add(self, score: Score | Unscored, evidence: Sequence[float | None]) -> None:
        """Add a reply."""
        self.replies += 1
        name, turn = score.target
        if isinstance(score, Unscored):
            self.unscored[score.reason] += 1
            self._add_conversation(name_hash(name), SampledConversation(0, 0.0, _NO_HASH, 0.0, [], 1))
            return
        self.scored, self.total = self.scored + 1, self.total + score.value
        self.warned += score.warning is not None
        self._widen_limits((score.options[0], score.options[-1]))
        values = [None if value is None else float(f"{value:.5g}") for value in evidence]
        reply = SampledConversation(1, score.value, name_hash(score.target), float(f"{score.value:.5g}"), values)
        self._add_conversation(name_hash(name), reply)
        self._add_uncertain((score.variance, name, turn, score.value))

    def merge(self, other: DaySketch) -> None:
        """Add another sketch of the same day."""
        for count in ("replies", "scored", "total", "warned"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.is_full = self.is_full or other.is_full
        self.unscored.update(other.unscored)
        for key, conversation in other.sample.items():
            self._add_conversation(key, replace(conversation))
        for reply in other.uncertain:
            self._add_uncertain(reply)
        if other.limits is not None:
            self._widen_limits(other.limits)

    def _widen_limits(self, limits: tuple[float, float]) -> None:
        low, high = self.limits or limits
        self.limits = min(low, limits[0]), max(high, limits[1])

    def _add_conversation(self, key: int, new: SampledConversation) -> None:
        known = self.sample.get(key)
        if known is not None:
            known.add(new)
            return
        if len(self.sample) >= MAX_CONVERSATIONS:
            self.is_full = True
            largest = max(self.sample)
            if key > largest:
                return
            del self.sample[largest]
        self.sample[key] = new

    def _add_uncertain(self, reply: tuple[float, str, int | None, float]) -> None:
        if len(self.uncertain) < MAX_UNCERTAIN:
            heapq.heappush(self.uncertain, reply)
        elif reply[0] > self.uncertain[0][0]:
            heapq.heapreplace(self.uncertain, reply)

    @property
    def conversations(self) -> int:
        """Number of conversations: counted, or estimated from the hashes of a full sample."""
        return round((len(self.sample) - 1) / self._hash_share()) if self.is_full else len(self.sample)

    def conversations_interval(self) -> tuple[int, int]:
        """Return the 95% interval of the number of conversations; both ends equal if they were counted.

        The k-th smallest of n hashes, as a share of their range, is approximately a Gamma(k) variable divided by n
        (Beyer et al., 2007).
        """
        if not self.is_full:
            return len(self.sample), len(self.sample)
        probabilities = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
        low, high = (gamma_quantile(p, len(self.sample)) / self._hash_share() for p in probabilities)
        return max(round(low), len(self.sample)), round(high)

    def _hash_share(self) -> float:
        """Return the largest hash of the sample as a share of the range of hashes."""
        return max(self.sample) / 2**64

    def mean(self) -> DailyMean:
        """Return the mean score m = Σ scores / replies.

        It has the variance of a ratio over C conversations, C/(C-1)·Σ(tᶜ - m·nᶜ)²/(Σnᶜ)².
        """
        if not self.scored:
            return DailyMean()
        scored = [conversation for conversation in self.sample.values() if conversation.count]
        mean, C = self.total / self.scored, len(scored)
        if C < 2:
            return DailyMean(mean)
        totals, counts = np.array([c.total for c in scored]), np.array([c.count for c in scored])
        error = self._ratio_error(mean, totals, counts)
        interval = ClusteredMean(mean, error, C, int(counts.sum())).interval()
        assert interval.low is not None and interval.high is not None
        lowest, highest = self.limits or (-np.inf, np.inf)  # a mean of scores lies within the scale
        return DailyMean(mean, max(interval.low, lowest), min(interval.high, highest), error)

    def unscored_share(self) -> tuple[float, float]:
        """Return the share of replies without a score, and its standard error.

        The error is at least the error of half a reply in one of the sampled conversations.
        """
        share = sum(self.unscored.values()) / max(self.replies, 1)
        unscored = np.array([conversation.unscored for conversation in self.sample.values()], dtype=float)
        if len(unscored) < 2:
            return share, 1.0
        replies = unscored + np.array([conversation.count for conversation in self.sample.values()])
        return share, max(self._ratio_error(share, unscored, replies), 1 / (2 * float(replies.sum())))

    def _ratio_error(self, ratio: float, part: Floats, whole: Floats) -> float:
        """Return the standard error of Σ part / Σ whole for all conversations of the day.

        It is the standard error clustered by conversation. The ratio covers all conversations, and a full sketch keeps
        a share s of their finite number, so the error is √s times the error of a sample from infinitely many.

        Args:
            ratio: Σ part / Σ whole.
            part: (C,) numerators of the sampled conversations.
            whole: (C,) denominators.
        """
        sampled_share = len(self.sample) / max(self.conversations, len(self.sample))
        return clustered_error(part - ratio * whole, float(whole.sum())) * math.sqrt(sampled_share)

    def sampled_values(self) -> tuple[Floats, Floats]:
        """Return the (C,) scores and (C, d) features of one reply per conversation; NaN marks missing values."""
        scored = [self.sample[key] for key in sorted(self.sample) if self.sample[key].count]
        width = len(scored[0].evidence) if scored else 0
        features = np.array([conversation.evidence for conversation in scored], dtype=float)
        return np.array([conversation.score for conversation in scored]), features.reshape(len(scored), width)

    def to_json(self) -> dict[str, Any]:
        """Return the sketch as JSON; hashes are texts, because JSON numbers have too few digits."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        sample = {
            str(key): [c.count, c.total, str(c.key), c.score, c.evidence, c.unscored] for key, c in self.sample.items()
        }
        uncertain = [list(reply) for reply in self.uncertain]
        limits = self.limits and list(self.limits)
        return {**counts, "unscored": dict(self.unscored), "uncertain": uncertain, "limits": limits, "sample": sample}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> DaySketch:
        """Return the sketch of `to_json`."""
        sample = {
            int(key): SampledConversation(count, total, int(reply_key), *rest)
            for key, (count, total, reply_key, *rest) in row["sample"].items()
        }
        uncertain = [(variance, name, turn, score) for variance, name, turn, score in row["uncertain"]]
        return cls(
            **{name: row[name] for name in _COUNTS},
            unscored=Counter(row["unscored"]),
            uncertain=uncertain,
            sample=sample,
            limits=(row["limits"][0], row["limits"][1]) if row["limits"] else None,
        )
