"""The workbench's order: how many labels it needs for the agreement that 400 random ones give (row `order`).

As in a study with `order: informative`: 20 labels at random, then 20 at a time, of which a tenth (`random_share`) are
random and the others follow `accord.studies.item_order.ItemOrder`; no label occurs twice. The head is fitted after each
step and predicts ratings of conversations outside the pool. The random order starts with the same 20. `share` is the
first number of labels, interpolated between steps, at which the mean squared error over draws is not above that of the
random order's 400, as a share of 400 (1 if never reached); the interval is over draws. `share_pearson` is the same for
Pearson's r. For planted annotators, predictions are compared with expected ratings, so that the noise of single ratings
does not blur the comparison.

- `planted`: 300 conversations, nine features (as many as LLM-RUBRIC asks questions), six annotators of own levels,
  a scale of nine; half can be labeled.
- `planted_levels`: the same of three features, twelve annotators and a scale of four: mostly levels can be
  learned, which any order teaches equally, and the scale cuts off extreme values.
- `llm_rubric_synth`: LLM-RUBRIC's synthetic dialogues with the judge's answers; four fifths can be labeled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import Row
from numpy.typing import NDArray
from scipy.stats import norm

from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import Calibration
from accord.statistics import pearson
from accord.studies.item_order import UPDATE_EVERY, ItemOrder
from accord.testing import planted
from accord.values import Labels, Question, StudySettings

Floats = NDArray[np.float64]

FIRST, STEP, LAST = UPDATE_EVERY, UPDATE_EVERY, 400
AT_RANDOM = StudySettings.model_fields["random_share"].default
NOISE = 0.8
"""Standard deviation of a planted rating, in steps of its scale."""
DRAWS, RESAMPLES = 20, 2000
SETS = {"planted": 0.5, "planted_levels": 0.5, "llm_rubric_synth": 0.8}
"""Share of the conversations that can be labeled."""


def order_rows(data: Path, draws: int = DRAWS) -> Iterator[Row]:
    """One row per set of data."""
    for name, share in SETS.items():
        world = _synth(data) if name == "llm_rubric_synth" else _planted(name == "planted_levels")
        both = [_drawn(world, share, seed) for seed in range(draws)]
        ordered, random = np.array([one for one, _ in both]), np.array([other for _, other in both])
        rng = np.random.default_rng(0)
        again = [rng.integers(0, draws, draws) for _ in range(RESAMPLES)]
        row: Row = {"what": "order", "dataset": name, "draws": draws, "labels": LAST}
        for place, (called, sign) in enumerate((("share", 1), ("share_pearson", -1))):
            found = [_needed(sign * ordered[:, :, place], sign * random[:, place], each) for each in again]
            row[called] = _needed(sign * ordered[:, :, place], sign * random[:, place], np.arange(draws))
            row[f"{called}_low"], row[f"{called}_high"] = (float(np.quantile(found, q)) for q in (0.025, 0.975))
        row["rmse"], row["rmse_random"] = (float(np.sqrt(each[..., 0].mean())) for each in (ordered[:, -1], random))
        yield row


class World(NamedTuple):
    """Ratings, and (n,) their planted expectations."""

    evidence: EvidenceTable
    question: Question
    rated: Ratings
    truth: Floats


def _planted(levels: bool) -> World:
    people, features, options = (12, 3, 4) if levels else (6, 9, 9)
    corpus = planted(conversations=300, annotators=people, features=features, options=options, share=1.0, noise=NOISE)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    level = np.array([corpus.levels[str(name)] for name in rated.annotator])
    middle = (1 + options) / 2 + corpus.evidence.values[rated.row] @ corpus.weights + level
    below = norm.cdf((np.arange(1, options) + 0.5 - middle[:, None]) / NOISE)  # (n, K - 1) at most that option
    return World(corpus.evidence, corpus.question, rated, options - below.sum(axis=1))


def _synth(data: Path) -> World:
    from accord_papers.llm_rubric import protocols as paper

    synth, _ = paper.both(data)
    return World(synth.evidence, synth.question, synth.rated, synth.rated.value)


def _drawn(world: World, share: float, seed: int) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Squared error and r after each step of the order, and after all random labels."""
    evidence, question, rated, _ = world
    rng = np.random.default_rng(1000 + seed)
    names = sorted(set(rated.conversation))
    open_ = set(rng.permutation(names)[: round(share * len(names))])
    is_open = np.array([name in open_ for name in rated.conversation])
    pool, test = rng.permutation(np.flatnonzero(is_open)).tolist(), np.flatnonzero(~is_open)
    pairs = {(rated.labels[row].target, str(rated.labels[row].annotator)): row for row in pool}
    people = sorted({name for _, name in pairs})
    shown, taken = evidence.filter(open_), pool[:FIRST]
    steps = [_tested(world, taken, test)]
    while len(taken) < LAST:
        left = [row for row in pool if row not in set(taken)]
        given = Labels(rated.labels[row] for row in taken)
        chance = left[: round(AT_RANDOM * STEP)]  # the pool is shuffled
        order = ItemOrder.compute(shown, given, question, people, 2 * STEP, among=pairs.keys())
        ranked = [pairs[each] for each in order.suggested]
        taken = taken + chance + [row for row in ranked if row not in chance][: STEP - len(chance)]
        steps.append(_tested(world, taken, test))
    return steps, _tested(world, pool[:LAST], test)


def _tested(world: World, rows: list[int], test: NDArray[np.intp]) -> tuple[float, float]:
    labels, asked = Labels(world.rated.labels[row] for row in rows), world.rated.take(test)
    head = Calibration(world.question, answer_model="mixed", shift_groups=()).fit(world.evidence, labels)
    known = set(head.annotators)
    who = [str(name) if name in known else None for name in asked.annotator]
    scores = head.predict_each(world.evidence.take(asked.row), who)
    value = np.array([score.value for score in scores])  # type: ignore[union-attr]  # these sets leave none unscored
    truth = world.truth[test]
    return float(((truth - value) ** 2).mean()), pearson(truth, value) or 0.0


def _needed(ordered: Floats, random: Floats, draws: NDArray[np.intp]) -> float:
    """The share of `LAST` labels at which the mean over draws of (draws, steps) losses reaches that of random ones."""
    mean, goal = ordered[draws].mean(axis=0), float(random[draws].mean())
    reached = np.flatnonzero(mean <= goal)
    if not len(reached):
        return 1.0
    step = int(reached[0])
    if step == 0:
        return FIRST / LAST
    part = (mean[step - 1] - goal) / (mean[step - 1] - mean[step])
    return float((FIRST + STEP * (step - 1 + part)) / LAST)
