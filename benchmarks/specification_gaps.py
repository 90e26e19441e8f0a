"""Planted specification gaps: how many `accord gaps` finds, and how often it names one that is not there.

    python benchmarks/specification_gaps.py --json OUT [--only unrelated,related] [--quick]

Each world has 60, 120 or 240 conversations with two ratings each by people with habits of their own, on a scale from 1
to 5, a noisy judge that is too generous and uses half of the scale, and properties that hold for a third of the
conversations. In half of the worlds people rate conversations with one property a point lower, and the judge ignores
it; in the others nobody does. `found` is the share of planted gaps that are named, `false` the share of worlds without
a gap in which any property is named (`false_judge` and `false_people`: as a gap of this kind), and `wrong` the share of
worlds with one in which another property is named. The target is at most 5% for `false`; 200 worlds without a gap
exceed 8.5% by chance in about 1% of all cases.

unrelated    30 properties that have nothing to do with quality. `people` plants a property where people differ among
             themselves.
related      properties that are correlated with quality, 4 of 12 with r = .27 or 20 of 20 with r = .53, half of them
             with low quality. The planted property is one of them; people rate it lower (`low`) or higher (`high`).
             The judge of `saturated` worlds cannot tell good conversations apart, `precise` ones have little noise, and
             in `single` worlds each conversation has one rating.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
from harness import Row, chosen, finish, options, rows_of_part

from accord.evidence import Ratings
from accord.validation import Property, specification_gaps
from accord.values import Label, Target

PARTS = ("unrelated", "related")
SIZES, WORLDS = (60, 120, 240), 400
OPTIONS = np.arange(1.0, 6.0)
SHARE = 1 / 3
"""Share of conversations with a property."""
COLUMNS = (
    "what", "against", "conversations", "properties", "related", "r", "judge", "gap", "worlds", "found", "false",
    "false_judge", "false_people", "wrong",
)  # fmt: skip


def held(rng: np.random.Generator, quality: np.ndarray, properties: int, related: int, r: float) -> np.ndarray:
    """Return which conversations have which properties; the first `related` ones have the correlation ±r with quality.

    A property holds if a normal variable that has the correlation ρ with quality exceeds a threshold t; then
    r = ρ·φ(t)/√(p·(1 - p)), with the share p.
    """
    normal = NormalDist()
    threshold = normal.inv_cdf(1 - SHARE)
    rho = r * np.sqrt(SHARE * (1 - SHARE)) / normal.pdf(threshold)
    signs = np.where(np.arange(properties) < related, np.where(np.arange(properties) % 2, -rho, rho), 0.0)
    noise = rng.normal(size=(len(quality), properties))
    return np.asarray(signs * (quality - 3)[:, None] + np.sqrt(1 - signs**2) * noise > threshold)


def world(
    rng: np.random.Generator,
    size: int,
    planted: str,
    properties: int = 30,
    related: int = 0,
    r: float = 0.0,
    judge: str = "noisy",
    gap: str = "low",
) -> tuple[Ratings, np.ndarray, list[Property]]:
    """Return ratings, judge scores and properties; `planted` is `judge`, `people` or nothing."""
    quality = rng.normal(3, 1, size)
    holds = held(rng, quality, properties, related, r)
    habit, labels, values, rows = rng.normal(0, 0.4, 6), [], [], []
    for place in range(size):
        for person in rng.choice(6, 1 if judge == "single" else 2, replace=False):
            noise = rng.normal(0, 1.4 if planted == "people" and holds[place, 0] else 0.5)
            moved = (1.0 if gap == "high" else -1.0) if planted == "judge" and holds[place, 0] else 0.0
            value = float(np.clip(np.round(quality[place] + habit[person] + noise + moved), 1, 5))
            labels.append(Label(Target(f"c{place}"), "q", f"p{person}", value))
            values.append(value)
            rows.append(place)
    row, given = np.array(rows), np.array(values)
    rated = Ratings(labels, row, (given - 1).astype(int), given, OPTIONS)
    read = np.minimum(quality - 3, 0.3 if judge == "saturated" else np.inf)
    scores = (3.5 + 0.5 * read + rng.normal(0, 0.1 if judge == "precise" else 0.4, size))[row]
    everywhere = np.ones(len(row), dtype=bool)
    names = [Property(f"p{place}", f"property {place}", holds[row, place], everywhere) for place in range(properties)]
    return rated, scores, names


def measure(what: str, against: str, size: int, worlds: int, **kind: Any) -> Row:
    """Return the shares of worlds with planted, false and further gaps."""
    found, false, wrong = [], [], []
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        is_planted = seed % 2 == 0
        named = [
            (gap.against, gap.key)
            for gap in specification_gaps(*world(rng, size, against if is_planted else "", **kind))
        ]
        if is_planted:
            found.append((against, "p0") in named)
            wrong.append(any(key != "p0" for _, key in named))
        else:
            kinds = {name for name, _ in named}
            false.append((bool(kinds), "judge" in kinds, "people" in kinds))
    shares = {"found": float(np.mean(found)), "wrong": float(np.mean(wrong))}
    for place, name in enumerate(("false", "false_judge", "false_people")):
        shares[name] = float(np.mean([each[place] for each in false]))
    return {"what": what, "against": against, "conversations": size, **kind, "worlds": worlds, **shares}


def unrelated(worlds: int) -> Iterator[Row]:
    """Yield a row for each kind of gap and number of conversations."""
    for against, size in product(("judge", "people"), SIZES):
        yield measure("unrelated", against, size, worlds)


def related(worlds: int) -> Iterator[Row]:
    """Yield a row for each number of conversations, kind of properties and kind of judge."""
    few, all_ = {"properties": 12, "related": 4, "r": 0.27}, {"properties": 20, "related": 20, "r": 0.53}
    for kind, size in product((few, all_), SIZES):
        yield measure("related", "judge", size, worlds, **kind, judge="noisy", gap="low")
    for judge in ("saturated", "precise", "single"):
        yield measure("related", "judge", 120, worlds, **all_, judge=judge, gap="low")
    yield measure("related", "judge", 120, worlds, **few, judge="noisy", gap="high")
    yield measure("related", "people", 240, worlds, **all_, judge="noisy", gap="low")


def main() -> None:
    """Measure the parts."""
    parser = options("specification_gaps", __doc__ or "", PARTS)
    asked = parser.parse_args()
    worlds = asked.limit or (60 if asked.quick else WORLDS)
    parts = {"unrelated": unrelated, "related": related}
    rows = [
        row
        for part in chosen(parser, asked.only, PARTS)
        for row in rows_of_part(part, lambda part=part: parts[part](worlds))  # type: ignore[misc]
    ]
    finish("specification_gaps", rows, COLUMNS, asked.json)


if __name__ == "__main__":
    main()
