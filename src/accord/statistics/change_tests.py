"""Tests for a change of a stream, valid at every time: e-processes that bet on conformal ranks.

**Ranks.** If nothing changes, values of one stratum (a weekday of one system; one anchor) arrive in random order. Then
the smoothed rank of each value among itself and the earlier values of its stratum,

    u_n = (#{i < n: x_i < x_n} + θ_n · (1 + #{i < n: x_i = x_n})) / n,    θ_n uniform,

is uniform on 0 to 1 and independent of the earlier ranks, for any distribution of the values (Vovk, Gammerman &
Shafer, "Algorithmic Learning in a Random World", 2005, theorem 8.2; by stratum: its Mondrian predictors).

**Bets.** A bet λ against the mean rank 1/2 that starts on day s has the capital Π (1 + λ·(u - 1/2)) over all ranks from
day s on: a martingale, the bets of `intervals.mean_sequence` with a fixed λ. The day of a change is unknown, so the
capital is divided over all starts and bets:

    E_t = Σ_{s ≤ t} w_s · mean_λ Π_{s ≤ day ≤ t} (1 + λ·(u - 1/2)) + Σ_{s > t} w_s,    w_s = h·(1 - h)^(s - 1).

E is an e-process: without a change, it ever exceeds 1/α with probability at most α (Ville's inequality), however often
it is read (Vovk et al., "Retrain or not retrain: conformal test martingales for change-point detection", COPA 2021).

**Days.** Values of one day may move together, as the traffic of a campaign does. Then the factor of day d is raised to
the power 1/φ_d, with

    φ_d = max(1, median of z_s² over s < d / 0.455),    z_s = Σ_{day s} (u - 1/2) / √(n_s/12),

the spread of earlier days over the spread of independent ranks (0.455 is the median of χ² with one degree of freedom).
As φ_d ≥ 1 is known before the day, E stays an e-process by Jensen's inequality. If values of a day move together, the
logarithm of the factor has the mean -λ²·n/24 and the variance φ·λ²·n/12; the power makes the mean minus half of
the variance, so that the factor is 1 on average, to the second order in λ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BETS = np.array([-1.75, -1.0, -0.5, -0.25, 0.25, 0.5, 1.0, 1.75])
"""Bets λ; their absolute values stay below 2, so that no capital is lost."""
HAZARD = 1 / 90
"""Weight h of a start on the next day: a change is expected once in 90 days. False alarms do not depend on it."""
CHI2_MEDIAN = 0.4549
"""Median of the χ² distribution with one degree of freedom."""
FIRST_SPREADS = (16.0, 16.0, 16.0)
"""Spreads φ assumed in addition to the spreads of earlier days, so that the first days count little."""


@dataclass(frozen=True, slots=True)
class ChangeTest:
    """State of the test on one day.

    Attributes:
        log_e: Logarithm of the largest value of the e-process so far.
        alarm: Index of the first day on which the e-process reached 1/α, or `None` if it never did.
        start: Index of the likeliest first day of a change, on the day of the alarm, or without one on the last day.
        days: Number of days.
    """

    log_e: float
    alarm: int | None
    start: int
    days: int

    @property
    def is_alarm(self) -> bool:
        """True if the stream has changed, with the confidence 1 - α at all times together."""
        return self.alarm is not None


def conformal_ranks(
    values: Sequence[float] | Floats, strata: Iterable[Hashable], uniforms: Sequence[float] | Floats
) -> Floats:
    """Return the smoothed rank, (n,) from 0 to 1, of each value among itself and earlier ones of its stratum.

    Args:
        values: (n,) values in order of arrival.
        strata: (n,) stratum of each value.
        uniforms: (n,) random numbers from 0 to 1, which break ties.
    """
    codes: dict[Hashable, int] = {}
    stratum = np.array([codes.setdefault(each, len(codes)) for each in strata], dtype=np.intp)
    arrival = np.argsort(stratum, kind="stable")
    stratum, value = stratum[arrival], np.asarray(values, dtype=float)[arrival]
    order = np.lexsort((value, stratum))  # by stratum, value and arrival
    is_new = np.ones(len(order), bool)
    is_new[1:] = (stratum[order][1:] != stratum[order][:-1]) | (value[order][1:] != value[order][:-1])
    of_order = np.arange(len(order))
    equal = np.empty(len(order), np.intp)
    equal[order] = of_order - np.maximum.accumulate(np.where(is_new, of_order, 0))
    starts = np.searchsorted(stratum, stratum)
    low = _earlier_and_smaller(order) - starts - equal
    ranks = np.empty(len(values))
    ranks[arrival] = (low + np.asarray(uniforms, dtype=float)[arrival] * (equal + 1)) / (of_order - starts + 1)
    return ranks


def _earlier_and_smaller(order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return, (n,), the number of earlier rows with a smaller value than each row, by merging halves.

    `order` has the rows, numbered by arrival, in the order of their values. On each level, the rows of a block of
    2^(k+1) arrivals are in this order, and the rows of its right half count the rows of its left half before them.
    """
    counts, level = np.zeros(len(order), np.intp), order
    for bit in reversed(range(int(len(order)).bit_length())):
        is_right = (level >> bit) & 1
        lefts = np.cumsum(1 - is_right)
        block_starts = (level >> (bit + 1)) << (bit + 1)
        before = np.concatenate(([0], lefts))[block_starts]
        counts[level] += is_right * (lefts - before)
        rights = np.arange(1, len(level) + 1) - block_starts - (lefts - before)
        place = block_starts + np.where(is_right, (1 << bit) + rights, lefts - before) - 1
        level, rows = np.empty_like(level), level
        level[place] = rows
    return counts


def change_test(ranks: Floats, day: NDArray[np.intp], level: float, moves_by_day: bool = False) -> ChangeTest:
    """Test whether the mean rank ever changed.

    Args:
        ranks: (n,) ranks from 0 to 1 in order of arrival.
        day: (n,) index of the day of each rank, from 0, in increasing order.
        level: Probability α of a false alarm at any time.
        moves_by_day: True if values of one day may move together without a lasting change.
    """
    days = int(day[-1]) + 1 if len(day) else 0
    if not days:
        return ChangeTest(0.0, None, 0, 0)
    spreads = _spreads(ranks, day, days) if moves_by_day else np.ones(days)
    gains = np.stack([np.bincount(day, np.log1p(bet * (ranks - 0.5)), days) / spreads for bet in BETS], axis=1)
    capital = np.cumsum(gains, axis=0)
    weights = np.log(HAZARD) + np.arange(days) * np.log1p(-HAZARD)
    before = np.vstack([np.zeros(len(BETS)), capital[:-1]])
    started, largest, alarm, start = np.full(len(BETS), -np.inf), 0.0, None, 0
    for today in range(days):
        started = np.logaddexp(started, weights[today]) + gains[today]
        waiting = (today + 1) * np.log1p(-HAZARD)
        log_e = float(np.logaddexp(np.logaddexp.reduce(started) - np.log(len(BETS)), waiting))
        largest = max(largest, log_e)
        if alarm is None and log_e >= -np.log(level):
            alarm = today
        if alarm == today or (alarm is None and today == days - 1):
            by_start = np.logaddexp.reduce(capital[today] - before[: today + 1], axis=1) + weights[: today + 1]
            start = int(by_start.argmax())
    return ChangeTest(round(largest, 9), alarm, start, days)  # equal on all machines if nothing happened


def _spreads(ranks: Floats, day: NDArray[np.intp], days: int) -> Floats:
    """Return (days,) the spread φ of the days before each day; days without ranks do not count."""
    sizes, sums = np.bincount(day, minlength=days), np.bincount(day, ranks - 0.5, days)
    known, spreads = list(FIRST_SPREADS), np.ones(days)
    for today in range(days):
        spreads[today] = max(1.0, float(np.median(known)))
        if sizes[today]:
            known.append(float(sums[today] ** 2 / (sizes[today] / 12) / CHI2_MEDIAN))
    return spreads
