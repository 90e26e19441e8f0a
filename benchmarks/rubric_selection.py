"""Speed of selecting assertions from a pool, relative to a plain loop over algorithm 1 in the same run.

    python benchmarks/rubric_selection.py [--only speed|growth] [--quick] --json OUT

`speed` selects 10 + 10 of 200 rubrics on 500 conversations with a 5-fold search of α; the loop does the same from the
definitions, a candidate set and a threshold at a time, and has to come to the same α, the same rubrics in the same
order, the same threshold and the same window (about a quarter of an hour). `growth` prints the same search for larger
pools and more conversations.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import tanh

import numpy as np
from harness import Row, chosen, finish, options
from numpy.typing import NDArray

from accord.methods import (
    AssertionBudget,
    Pool,
)
from accord.methods.learned_rubric.selection_policies import (
    ALPHAS,
    DIGITS,
    POINT,
    Candidates,
    UncertaintyWindow,
    select,
    stratified,
    threshold_of,
    tuned,
)

PARTS = ("speed", "growth")
COLUMNS = ("part", "system", "pool", "conversations", "seconds", "ratio", "same")
BUDGET = AssertionBudget(10, 10)
SIZES = ((200, 500), (500, 1000), (1000, 2000), (2000, 2000), (500, 10000), (2000, 10000))
REPEATS = 5
Result = tuple[float, list[int], float, float, float]
Scores = NDArray[np.float64]


def main() -> None:
    parser = options("rubric_selection", str(__doc__), PARTS)
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, PARTS):
        if part == "speed":
            rows += _speed(*((30, 60) if given.quick else (200, 500)))
        else:
            rows += [_growth(*size) for size in (SIZES[:2] if given.quick else SIZES)[: given.limit]]
    finish("rubric_selection", rows, COLUMNS, given.json)


def drawn(rubrics: int, conversations: int, seed: int = 0) -> tuple[Pool, NDArray[np.intp]]:
    """A pool of rubrics of all strengths, and the folds of its conversations."""
    rng = np.random.default_rng(seed)
    good, sat = rng.random(conversations) < 0.5, np.arange(rubrics) % 2 == 0
    sign = np.where(good, 1.0, -1.0) * np.where(sat, 1.0, -1.0)[:, None]
    raw = 5 + sign * rng.gamma(1.0, 0.35, rubrics)[:, None] + rng.normal(scale=2.5, size=(rubrics, conversations))
    values = np.rint(np.clip(raw, 0, 10) * POINT) * np.where(sat, 1.0, -1.0)[:, None]
    return Pool(values.astype(np.int32), sat, good), stratified([str(i) for i in range(conversations)], good, seed)


def _speed(rubrics: int, conversations: int) -> list[Row]:
    pool, fold = drawn(rubrics, conversations)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        ours = _ours(pool, fold)
        seconds.append(time.perf_counter() - started)
    started = time.perf_counter()
    theirs = _straightforward(pool, fold)
    loop, median = time.perf_counter() - started, float(np.median(seconds))
    about: Row = {"part": "speed", "pool": rubrics, "conversations": conversations}
    print(f"α {ours[0]}, rubrics {ours[1]}, threshold {ours[2]!r}, window {ours[3]!r} to {ours[4]!r}")
    return [
        {**about, "system": "accord", "seconds": median, "ratio": loop / median, "same": str(ours == theirs)},
        {**about, "system": "loop over algorithm 1", "seconds": loop, "ratio": 1.0, "same": "–"},
    ]


def _growth(rubrics: int, conversations: int) -> Row:
    pool, fold = drawn(rubrics, conversations)
    started = time.perf_counter()
    _ours(pool, fold)
    row: Row = {"part": "growth", "system": "accord", "pool": rubrics, "conversations": conversations}
    row["seconds"] = time.perf_counter() - started
    print(f"{rubrics} × {conversations}: {row['seconds']:.1f} s", flush=True)
    return row


def _ours(pool: Pool, fold: NDArray[np.intp]) -> Result:
    found = tuned(pool, fold, ALPHAS, [BUDGET])
    chosen = select(Candidates(pool), BUDGET, found.alpha)
    scores = pool.net_sat(chosen) / POINT
    threshold = threshold_of(scores, pool.good)
    window = UncertaintyWindow.read(scores, pool.good, threshold, 0.9)
    return found.alpha, chosen, threshold, window.low, window.high


# --- the straightforward loop -------------------------------------------------------------------------------------


def _straightforward(pool: Pool, fold: NDArray[np.intp]) -> Result:
    points = pool.points / POINT
    best, alpha = -np.inf, 0.0
    for candidate in ALPHAS:
        units = np.zeros(len(pool.good))
        for each in np.unique(fold):
            inside, outside = fold != each, fold == each
            chosen = _selected(points[:, inside], pool.sat, pool.good[inside], candidate)
            scores, good = points[chosen].sum(axis=0), pool.good[inside]
            means = scores[inside][good].mean(), scores[inside][~good].mean()
            residual = scores[inside] - np.where(good, *means)
            spread = float(np.sqrt((residual**2).sum() / (len(residual) - 2)))
            units[outside] = (scores[outside] - sum(means) / 2) / spread
        value = -float(np.logaddexp(0.0, np.where(pool.good, -2.0, 2.0) * units).mean())
        if value > best + 1e-9:
            best, alpha = value, candidate
    chosen = _selected(points, pool.sat, pool.good, alpha)
    scores = np.round(points[chosen].sum(axis=0), 3)
    threshold = threshold_of(scores, pool.good)
    window = UncertaintyWindow.read(scores, pool.good, threshold, 0.9)
    return alpha, chosen, threshold, window.low, window.high


def _selected(points: Scores, sat: NDArray[np.bool_], good: NDArray[np.bool_], alpha: float) -> list[int]:
    chosen: list[int] = []
    while True:
        taken = sum(bool(sat[row]) for row in chosen)
        best, objective = -1, -np.inf
        for row in range(len(points)):
            full = taken >= BUDGET.sat if sat[row] else len(chosen) - taken >= BUDGET.dsat
            if row in chosen or full:
                continue
            value = round(_objective(points, [*chosen, row], good, alpha), DIGITS)
            if value > objective:
                best, objective = row, value
        if best < 0:
            return chosen
        chosen.append(best)


def _objective(points: Scores, rows: Sequence[int], good: NDArray[np.bool_], alpha: float) -> float:
    scores = np.round(points[list(rows)].sum(axis=0), 3)
    plus, minus = scores[good].mean(), scores[~good].mean()
    correctness = float(plus - minus) / (10 * len(rows))
    return correctness - alpha * _sharpness(scores, good, float(plus + minus) / 2) if alpha else correctness


def _sharpness(scores: Scores, good: NDArray[np.bool_], threshold: float) -> float:
    share, distinct, total = float(good.mean()), np.unique(scores), 0.0
    if len(distinct) < 2:
        return 1.0
    for theta in (distinct[1:] + distinct[:-1]) / 2:
        above = scores > theta
        plus, minus = good[above].mean(), 1.0 - good[~above].mean()
        curve = tanh(theta - threshold)
        total += abs(share + (1 - share) * (1 + curve) / 2 - plus) + abs(1 - share + share * (1 - curve) / 2 - minus)
    return total / (2 * (len(distinct) - 1))


if __name__ == "__main__":
    main()
