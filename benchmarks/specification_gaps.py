"""Planted specification gaps: how many `accord gaps` finds, and how often it names one that is not there.

    python benchmarks/specification_gaps.py --json OUT [--quick]

Each world has 60, 120 or 240 conversations with two ratings each by people with habits of their own, on a scale from 1
to 5, a noisy judge that is too generous and uses half of the scale, and 30 properties that hold for a third of the
conversations. In half of the worlds people rate conversations with one property a point lower, and the judge ignores
it; in the others nobody does. `found` is the share of planted gaps that are named, `false` the share of worlds without
a gap in which any property is named, and `wrong` the share of worlds with one in which another property is named. The
target is at most 5% for `false`. `people` repeats this for a property where people differ among themselves.
"""

from __future__ import annotations

import numpy as np
from harness import Row, finish, options

from accord.evidence import Ratings
from accord.validation import Property, specification_gaps
from accord.values import Label, Target

SIZES, WORLDS, PROPERTIES = (60, 120, 240), 300, 30
OPTIONS = np.arange(1.0, 6.0)


def world(rng: np.random.Generator, size: int, planted: str) -> tuple[Ratings, np.ndarray, list[Property]]:
    """Return ratings, judge scores and properties; `planted` is `judge`, `people` or nothing."""
    quality, holds = rng.normal(3, 1, size), rng.random((size, PROPERTIES)) < 1 / 3
    habit, labels, values = rng.normal(0, 0.4, 6), [], []
    for place in range(size):
        for person in rng.choice(6, 2, replace=False):
            noise = rng.normal(0, 1.4 if planted == "people" and holds[place, 0] else 0.5)
            lower = 1.0 if planted == "judge" and holds[place, 0] else 0.0
            value = float(np.clip(np.round(quality[place] + habit[person] + noise - lower), 1, 5))
            labels.append(Label(Target(f"c{place}"), "q", f"p{person}", value))
            values.append(value)
    rows = np.repeat(np.arange(size), 2)
    given = np.array(values)
    rated = Ratings(labels, rows, (given - 1).astype(int), given, OPTIONS)
    judge = (3.5 + 0.5 * (quality - 3) + rng.normal(0, 0.4, size))[rows]
    everywhere = np.ones(len(rows), dtype=bool)
    properties = [
        Property(f"p{place}", f"property {place}", holds[rows, place], everywhere) for place in range(PROPERTIES)
    ]
    return rated, judge, properties


def measure(against: str, size: int, worlds: int) -> Row:
    """Return the shares of worlds with planted, false and further gaps."""
    found, false, wrong = [], [], []
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        is_planted = seed % 2 == 0
        rated, judge, properties = world(rng, size, against if is_planted else "")
        named = [gap.key for gap in specification_gaps(rated, judge, properties)]
        if is_planted:
            found.append("p0" in named)
            wrong.append(any(name != "p0" for name in named))
        else:
            false.append(bool(named))
    shares = {name: float(np.mean(each)) for name, each in (("found", found), ("false", false), ("wrong", wrong))}
    return {"against": against, "conversations": size, "worlds": worlds, **shares}


def main() -> None:
    """Measure all sizes."""
    arguments = options("specification_gaps", __doc__ or "").parse_args()
    worlds = arguments.limit or (60 if arguments.quick else WORLDS)
    rows = [measure(against, size, worlds) for against in ("judge", "people") for size in SIZES]
    columns = ["against", "conversations", "worlds", "found", "false", "wrong"]
    finish("specification_gaps", rows, columns, arguments.json)


if __name__ == "__main__":
    main()
