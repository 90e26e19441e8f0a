"""Weekly batches of scores: false alarms without a change, and planted falls of people's ratings.

A stream has 12 weeks of 200 conversations by two assistant versions, whose shares change from week to week, about four
topics in two languages. Each
conversation has a quality; a rating is the quality plus the leniency of the person and noise, rounded to 1 to 5, and
half of the variance of ratings is quality. A score is a shrunk, noisy image of the quality with a correlation r with
single ratings. The evaluator's held-out data are 200 conversations, each rated by two of four people (`one rating`: by
one person). From week 5 on, the quality of all conversations falls.

batches-quiet    streams of 12 weeks without a change that state one in any week. In `busy` streams, all scores of a
                 week move together by a random amount with a standard deviation of .075 of a conversation's score, as
                 in weeks of the busy days of `drift.py`.
batches-fall     for falls of people's mean rating in standard deviations of ratings: weeks from the first fallen one
                 (1) until the fall is stated; streams without a statement in 8 weeks; share of intervals for people's
                 ratings that hold the true change of the compared weeks (`held`), and at the first statement the
                 whole fall (`held_fall`); share of weeks in which the evaluator cannot tell the fall in people's
                 points, of all weeks (`cannot_tell`) and of the weeks with a statement (`cannot_tell_stated`); median
                 width of the intervals of statements in points. In `half seen` streams, the scores see half of the
                 cause, which no rule can know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from itertools import product

import numpy as np
from harness import Row, chosen, finish, options, rows_of_part

from accord.decisions.batches import Batch, BatchChange, batch_change
from accord.statistics import share_interval
from accord.statistics.batch_changes import Sight, sight

PARTS = ("batches-quiet", "batches-fall")
WEEKS, FALL, CONVERSATIONS, TEXTS = 12, 4, 200, 200
MIDDLE, SPREAD, LENIENCY, NOISE = 3.2, 0.75, 0.3, 0.69
"""Quality of version 1, standard deviations of quality within versions, of people's leniency and of their noise."""
VERSION_GAP, SHRINKAGE, BUSY = 0.3, 0.3, 0.075
RS, FALLS = (0.2, 0.4, 0.6), (0.25, 0.5, 1.0)
KINDS = {"two ratings": (2, 1.0), "one rating": (1, 1.0), "half seen": (2, 0.5)}
"""Ratings of each held-out conversation, and the part of the cause that the scores see."""
SPAN = 4.0
QUIET_STREAMS, STREAMS = 300, 50
COLUMNS = ("what", "kind", "r", "fall", "streams", "alarms", "share", "weeks_median", "weeks_90", "never", "held",
           "held_fall", "cannot_tell", "cannot_tell_stated", "width")  # fmt: skip


def rated(quality: np.ndarray, rng: np.random.Generator, leniency: np.ndarray | None = None) -> np.ndarray:
    """Return a rating of each quality, by a new person or with a given leniency."""
    own = rng.normal(0, LENIENCY, len(quality)) if leniency is None else leniency
    return np.asarray(np.clip(np.round(quality + own + rng.normal(0, NOISE, len(quality))), 1, 5))


def qualities(n: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the quality and the version (0 or 1) of n conversations, of which a share is by version 1."""
    version = (rng.random(n) < share).astype(int)
    return MIDDLE - VERSION_GAP * version + rng.normal(0, SPREAD, n), version


class World:
    """Ratings without a fall: their standard deviation, and the mean for each fall of the quality."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.quality = qualities(200_000, 0.5, rng)[0]
        self.ratings = rated(self.quality, rng)
        self.spread = float(self.ratings.std())

    def mean(self, fall: float) -> float:
        """Return people's mean rating if the quality of all conversations falls."""
        return float(rated(self.quality - fall, np.random.default_rng(1)).mean())

    def quality_fall(self, fall: float) -> float:
        """Return the fall of the quality behind a fall of people's mean rating, in their standard deviations."""
        low, high, wanted = 0.0, 4.0, self.mean(0.0) - fall * self.spread
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if self.mean(middle) > wanted else (low, middle)
        return low

    def noise(self, r: float) -> float:
        """Return the noise of scores that correlate with single ratings by r."""
        covariance = float(np.cov(self.quality, self.ratings)[0, 1])
        return float(np.sqrt(max((covariance / (r * self.spread)) ** 2 - self.quality.var(), 0.0)))


def scores(quality: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Return the scores of an evaluator: shrunk images of quality and noise."""
    return np.asarray(MIDDLE + SHRINKAGE * (quality + rng.normal(0, noise, len(quality)) - MIDDLE))


def held_out(noise: float, ratings: int, rng: np.random.Generator) -> Sight | None:
    """Return the sight of an evaluator by its held-out ratings."""
    quality, _ = qualities(TEXTS, 0.5, rng)
    score, people = scores(quality, noise, rng), rng.normal(0, LENIENCY, 4)
    places = np.repeat(np.arange(TEXTS), ratings)
    by = np.concatenate([rng.permutation(4)[:ratings] for _ in range(TEXTS)])
    return sight(score[places], rated(quality[places], rng, people[by]), places, places)


def weeks(noise: float, fall: float, busy: float, rng: np.random.Generator) -> list[Batch]:
    """Return 12 weeks of scores; from week 5 on, the quality that the scores see falls."""
    found, spread = [], SHRINKAGE * float(np.hypot(SPREAD, noise))
    for week in range(WEEKS):
        quality, version = qualities(CONVERSATIONS, rng.uniform(0.3, 0.7), rng)
        value = scores(quality - fall * (week >= FALL), noise, rng) + busy * spread * rng.normal()
        names = np.array([f"{week}-{place}" for place in range(CONVERSATIONS)], dtype=object)
        topic, language = (np.array(names, dtype=object)[rng.integers(0, len(names), CONVERSATIONS)]
                           for names in (("orders", "refunds", "offers", "repairs"), ("en", "de")))  # fmt: skip
        found.append(Batch(str(week), f"week {week + 1}", names, value, np.array(["v1", "v2"], dtype=object)[version],
                           topic, language))  # fmt: skip
    return found


def is_alarm(seed: int, noise: float, busy: float) -> bool:
    """Return True if a stream without a change states one."""
    rng = np.random.default_rng(seed)
    return any(each.is_alarm for each in read_weekly(weeks(noise, 0.0, busy, rng), None))


def read_weekly(batches: list[Batch], sees: Sight | None) -> Iterator[BatchChange]:
    """Yield the comparison of each week, read at its end."""
    return (batch_change(batches[:end], sees, SPAN) for end in range(1, len(batches) + 1))


def quiet(streams: int, pool: Executor) -> Iterator[Row]:
    """Yield the share of streams without a change that state one."""
    noise = World().noise(0.4)
    for kind, busy in (("independent", 0.0), ("busy", BUSY)):
        found = list(pool.map(partial(is_alarm, noise=noise, busy=busy), range(streams), chunksize=10))
        interval = share_interval(found, np.arange(streams))
        yield {"what": "batches-quiet", "kind": kind, "streams": streams, "alarms": sum(found), "share": interval.value,
               "share_low": interval.low, "share_high": interval.high}  # fmt: skip


def fall_of(
    seed: int, noise: float, ratings: int, seen: float, quality: float, fall: float
) -> tuple[int | None, list[bool], bool | None, list[bool], list[bool], list[float]]:
    """Return the week of the statement, and for the fallen weeks which intervals hold and which cannot tell.

    Args:
        seed: Seed of the stream.
        noise: Noise of the scores.
        ratings: Ratings of each held-out conversation.
        seen: Part of the fall that the scores see.
        quality: Fall of the quality.
        fall: Fall of people's mean rating in points.
    """
    rng = np.random.default_rng([seed, 7])
    sees, stated = held_out(noise, ratings, rng), None
    held, held_fall, cannot, cannot_stated, widths = list[bool](), None, list[bool](), list[bool](), list[float]()
    for week, change in enumerate(read_weekly(weeks(noise, seen * quality, 0.0, rng), sees)):
        if week < FALL:
            continue
        fallen = [np.mean([int(key) >= FALL for key in keys]) for keys in (change.keys, change.reference_keys)]
        true = -fall * float(fallen[0] - fallen[1])
        low, high = change.people.low, change.people.high
        is_known = low is not None and high is not None
        cannot.append(not is_known)
        if low is not None and high is not None:
            held.append(low <= true <= high)
        if change.state == "fell":
            cannot_stated.append(not is_known)
            if low is not None and high is not None:
                widths.append(high - low)
                held_fall = low <= -fall <= high if stated is None else held_fall
            stated = week - FALL + 1 if stated is None else stated
    return stated, held, held_fall, cannot, cannot_stated, widths


def falls(streams: int, pool: Executor) -> Iterator[Row]:
    """Yield what is found of planted falls."""
    world = World()
    for (kind, (ratings, seen)), r, fall in product(KINDS.items(), RS, FALLS):
        work = partial(fall_of, noise=world.noise(r), ratings=ratings, seen=seen, quality=world.quality_fall(fall),
                       fall=fall * world.spread)  # fmt: skip
        rows = list(pool.map(work, range(streams), chunksize=5))
        known = [row[0] for row in rows if row[0] is not None]
        yield {
            "what": "batches-fall", "kind": kind, "r": r, "fall": fall, "streams": streams,
            "points": fall * world.spread,
            "weeks_median": float(np.median(known)) if known else None,
            "weeks_90": float(np.quantile(known, 0.9)) if known else None, "never": len(rows) - len(known),
            "held": _share([each for row in rows for each in row[1]]),
            "held_fall": _share([row[2] for row in rows if row[2] is not None]),
            "cannot_tell": _share([each for row in rows for each in row[3]]),
            "cannot_tell_stated": _share([each for row in rows for each in row[4]]),
            "width": _median([each for row in rows for each in row[5]]),
        }  # fmt: skip


def _share(found: list[bool]) -> float | None:
    return float(np.mean(found)) if found else None


def _median(found: list[float]) -> float | None:
    return float(np.median(found)) if found else None


def main() -> None:
    """Run the parts and print their rows."""
    parser = options("batches", __doc__ or "", PARTS)
    asked = parser.parse_args()
    names = chosen(parser, asked.only, PARTS)
    few = 5 if asked.quick else None
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        run: dict[str, Callable[[], Iterator[Row]]] = {
            "batches-quiet": lambda: quiet(asked.limit or few or QUIET_STREAMS, pool),
            "batches-fall": lambda: falls(asked.limit or few or STREAMS, pool),
        }
        rows = [row for part in names for row in rows_of_part(part, run[part])]
    finish("batches", rows, COLUMNS, asked.json)


if __name__ == "__main__":
    main()
