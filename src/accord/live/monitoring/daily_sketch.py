"""What one day of one system came to, in a sketch of bounded size that other sketches of the day can be added to.

Sums are exact. Distributions are of a sample: at most `KEPT` conversations with the smallest hashes, of each the reply
with the smallest hash, so that the order of messages, and which process saw them, makes no difference.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.statistics import CONFIDENCE, gamma_quantile, t_quantile
from accord.values import Score, Target, Unscored

OTHERS = "other systems"


class Names:
    """The first names that are met; all further ones share `OTHERS`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._met: set[str] = set()

    def of(self, name: str) -> str:
        """The name under which to count."""
        if name not in self._met and len(self._met) >= self.most:
            return OTHERS
        self._met.add(name)
        return name


Floats = NDArray[np.float64]

KEPT = 200
"""The most conversations of a day that are kept in the sketch."""
_NONE = 2**64
UNSURE = 20
"""Replies of a day that are remembered because the evaluator is least sure of them."""


@dataclass(slots=True)
class Sampled:
    """A conversation in the sketch.

    Attributes:
        count, total: Its scored replies, and the sum of their scores.
        key: The hash of the reply that was drawn: the smallest one so far; `_NONE` where none was scored.
        score: Of that reply.
        evidence: Its features; `None` where there was nothing to measure.
        unscored: Its replies without a score.
    """

    count: int
    total: float
    key: int
    score: float
    evidence: list[float | None]
    unscored: int = 0

    def add(self, other: Sampled) -> None:
        """Put another part of the same conversation beside this one."""
        self.count, self.total = self.count + other.count, self.total + other.total
        self.unscored += other.unscored
        if other.key < self.key:
            self.key, self.score, self.evidence = other.key, other.score, other.evidence


@dataclass(frozen=True, slots=True)
class DayMean:
    """The mean score of a day, with its 95 % interval over conversations, within the scale; `None` where too few."""

    mean: float | None
    low: float | None
    high: float | None
    error: float | None


@dataclass
class Day:
    """What a day came to.

    Attributes:
        replies: Of the assistant, scored or not.
        scored, total: Scored replies, and the sum of their scores.
        unscored: The others, by reason.
        warned: Scored replies with a warning.
        kept: The conversations in the sketch, by hash.
        is_full: Whether there were more conversations than the sketch holds.
        unsure: (variance, conversation, turn, score) of the replies that the evaluator is least sure of.
        ends: Of the scale; `None` before the first score.
    """

    replies: int = 0
    scored: int = 0
    total: float = 0.0
    unscored: Counter[str] = field(default_factory=Counter)
    warned: int = 0
    kept: dict[int, Sampled] = field(default_factory=dict)
    is_full: bool = False
    unsure: list[tuple[float, str, int | None, float]] = field(default_factory=list)
    ends: tuple[float, float] | None = None

    def add(self, score: Score | Unscored, evidence: Sequence[float | None]) -> None:
        """Take a reply into account."""
        self.replies += 1
        name, turn = score.target
        if isinstance(score, Unscored):
            self.unscored[score.reason] += 1
            self._keep(hashed(name), Sampled(0, 0.0, _NONE, 0.0, [], 1))
            return
        self.scored, self.total = self.scored + 1, self.total + score.value
        self.warned += score.warning is not None
        self._widen((score.options[0], score.options[-1]))
        values = [None if value is None else float(f"{value:.5g}") for value in evidence]
        self._keep(hashed(name), Sampled(1, score.value, hashed(score.target), float(f"{score.value:.5g}"), values))
        self._note((score.variance, name, turn, score.value))

    def merge(self, other: Day) -> None:
        """Add another sketch of the same day."""
        for count in ("replies", "scored", "total", "warned"):
            setattr(self, count, getattr(self, count) + getattr(other, count))
        self.is_full = self.is_full or other.is_full
        self.unscored.update(other.unscored)
        for name, sampled in other.kept.items():
            self._keep(name, replace(sampled))
        for each in other.unsure:
            self._note(each)
        if other.ends is not None:
            self._widen(other.ends)

    def _widen(self, ends: tuple[float, float]) -> None:
        low, high = self.ends or ends
        self.ends = min(low, ends[0]), max(high, ends[1])

    def _keep(self, name: int, new: Sampled) -> None:
        found = self.kept.get(name)
        if found is not None:
            found.add(new)
            return
        if len(self.kept) >= KEPT:
            self.is_full = True
            largest = max(self.kept)
            if name > largest:
                return
            del self.kept[largest]
        self.kept[name] = new

    def _note(self, reply: tuple[float, str, int | None, float]) -> None:
        if len(self.unsure) < UNSURE:
            heapq.heappush(self.unsure, reply)
        elif reply[0] > self.unsure[0][0]:
            heapq.heapreplace(self.unsure, reply)

    @property
    def conversations(self) -> int:
        """How many conversations there were: counted, or estimated from the hashes of those that are kept."""
        return round((len(self.kept) - 1) / self._share()) if self.is_full else len(self.kept)

    def conversations_between(self) -> tuple[int, int]:
        """The 95 % interval of their number, twice the number where they were counted.

        The k-th smallest of n hashes, as a share U of their range, is about a Gamma(k) variable divided by n (Beyer et
        al., 2007).
        """
        if not self.is_full:
            return len(self.kept), len(self.kept)
        ends = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
        low, high = (gamma_quantile(p, len(self.kept)) / self._share() for p in ends)
        return max(round(low), len(self.kept)), round(high)

    def _share(self) -> float:
        """The largest hash that is kept, as a share of their range."""
        return max(self.kept) / 2**64

    def mean(self) -> DayMean:
        """M = Σ scores / replies; its variance is that of a ratio over conversations, C/(C-1)·Σ(tᶜ - m·nᶜ)²/(Σnᶜ)²."""
        if not self.scored:
            return DayMean(None, None, None, None)
        told = [each for each in self.kept.values() if each.count]
        mean, C = self.total / self.scored, len(told)
        if C < 2:
            return DayMean(mean, None, None, None)
        error = self._error(mean, np.array([each.total for each in told]), np.array([each.count for each in told]))
        reach = t_quantile((1 + CONFIDENCE) / 2, C - 1) * error
        lowest, highest = self.ends or (-np.inf, np.inf)  # no mean of scores lies beyond the scale
        return DayMean(mean, max(mean - reach, lowest), min(mean + reach, highest), error)

    def unscored_share(self) -> tuple[float, float]:
        """The share of replies without a score, and its standard error, of no less than one reply in a conversation."""
        share = sum(self.unscored.values()) / max(self.replies, 1)
        lost = np.array([each.unscored for each in self.kept.values()], dtype=float)
        if len(lost) < 2:
            return share, 1.0
        replies = lost + np.array([each.count for each in self.kept.values()])
        return share, max(self._error(share, lost, replies), 1 / (2 * float(replies.sum())))

    def _error(self, ratio: float, part: Floats, whole: Floats) -> float:
        """The standard error of Σ part / Σ whole, each of C sampled conversations, for all conversations of the day."""
        C = len(part)
        sampled = len(self.kept) / max(self.conversations, len(self.kept))
        return float(np.sqrt(C / (C - 1) * ((part - ratio * whole) ** 2).sum() * sampled) / whole.sum())

    def drawn(self) -> tuple[Floats, Floats]:
        """(C,) scores and (C, d) features of one reply of each conversation in the sketch, NaN where missing."""
        kept = [self.kept[name] for name in sorted(self.kept) if self.kept[name].count]
        width = len(kept[0].evidence) if kept else 0
        features = np.array([each.evidence for each in kept], dtype=float).reshape(len(kept), width)
        return np.array([each.score for each in kept]), features

    def to_json(self) -> dict[str, Any]:
        """The sketch as JSON; hashes as text, since JSON's numbers are too short for them."""
        kept = {
            str(name): [s.count, s.total, str(s.key), s.score, s.evidence, s.unscored] for name, s in self.kept.items()
        }
        about = {name: getattr(self, name) for name in ("replies", "scored", "total", "warned", "is_full")}
        lists = {"unsure": [list(each) for each in self.unsure], "ends": self.ends and list(self.ends)}
        return {**about, "unscored": dict(self.unscored), **lists, "kept": kept}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Day:
        """The inverse of `to_json`."""
        kept = {int(name): Sampled(n, total, int(key), *rest) for name, (n, total, key, *rest) in row["kept"].items()}
        about = {name: row[name] for name in ("replies", "scored", "total", "warned", "is_full")}
        unsure = [(each[0], each[1], each[2], each[3]) for each in row["unsure"]]
        ends = (row["ends"][0], row["ends"][1]) if row.get("ends") else None
        return cls(**about, unscored=Counter(row["unscored"]), unsure=unsure, kept=kept, ends=ends)


def hashed(name: str | Target) -> int:
    """64 bits that a name falls to, evenly."""
    return int.from_bytes(hashlib.blake2b(str(name).encode("utf-8", "replace"), digest_size=8).digest(), "big")
