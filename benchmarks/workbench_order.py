"""The workbench's order: how many labels it needs for the agreement that 400 random ones give (row `order`).

As in a study with `order: informative`: 40 labels at random, then 20 at a time, of which a fifth are random draws and
the others those that `accord.workbench.ordering.Order` puts first; no label is asked for twice. The head learns from
what is there after each step, and predicts the ratings of conversations that nobody could label. The random order takes
the same 40 and goes on at random. `share` is the first number of labels, on the line between steps, at which the mean
squared error over draws is not above that of the random order's 400, in shares of 400 (1 where it is never reached);
the interval is over draws. The same of Pearson's r is `share_pearson`.

- `planted`: 300 conversations, nine features (as many as LLM-RUBRIC asks questions), six annotators of own levels,
  a scale of nine; half can be labelled.
- `planted_levels`: the same of three features, twelve annotators and a scale of four: hardly anything but levels is to
  be learned, which any order teaches alike, and what is far from the middle is cut off by the scale.
- `llm_rubric_synth`: LLM-RUBRIC's synthetic dialogues with the judge's answers; four fifths can be labelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import Row
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import Calibration
from accord.statistics import STATISTICS, Paired
from accord.testing import planted
from accord.values import Labels, Question
from accord.workbench.ordering import Order

Floats = NDArray[np.float64]

FIRST, STEP, LAST, AT_RANDOM = 40, 20, 400, 0.2
DRAWS, RESAMPLES = 20, 2000
SETS = {"planted": 0.5, "planted_levels": 0.5, "llm_rubric_synth": 0.8}
"""Which share of the conversations can be labelled."""


def order_rows(data: Path, draws: int = DRAWS) -> Iterator[Row]:
    """One row per set of data."""
    for name, share in SETS.items():
        evidence, question, rated = _synth(data) if name == "llm_rubric_synth" else _planted(name == "planted_levels")
        both = [_drawn(evidence, question, rated, share, seed) for seed in range(draws)]
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


def _planted(levels: bool) -> tuple[EvidenceTable, Question, Ratings]:
    people, features, options = (12, 3, 4) if levels else (6, 9, 9)
    corpus = planted(conversations=300, annotators=people, features=features, options=options, share=1.0, noise=0.8)
    return corpus.evidence, corpus.question, ratings(corpus.evidence, corpus.labels, corpus.question)


def _synth(data: Path) -> tuple[EvidenceTable, Question, Ratings]:
    import llm_rubric as paper

    synth, _ = paper.both(data)
    return synth.evidence, synth.question, synth.rated


def _drawn(
    evidence: EvidenceTable, question: Question, rated: Ratings, share: float, seed: int
) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Squared error and r after each step of the order, and after all random labels."""
    rng = np.random.default_rng(1000 + seed)
    names = sorted(set(rated.conversation))
    open_ = set(rng.permutation(names)[: round(share * len(names))])
    is_open = np.array([name in open_ for name in rated.conversation])
    pool, test = rng.permutation(np.flatnonzero(is_open)).tolist(), rated.take(np.flatnonzero(~is_open))
    pairs = {(rated.labels[row].target, str(rated.labels[row].annotator)): row for row in pool}
    people = sorted({name for _, name in pairs})
    shown, taken = evidence.filter(open_), pool[:FIRST]
    steps = [_tested(evidence, question, rated, taken, test)]
    while len(taken) < LAST:
        left = [row for row in pool if row not in set(taken)]
        given = Labels(rated.labels[row] for row in taken)
        chance = left[: round(AT_RANDOM * STEP)]  # the pool is shuffled
        order = Order.of(shown, given, question, people, 2 * STEP, among=pairs.keys())
        ranked = [pairs[each] for each in order.suggested]
        taken = taken + chance + [row for row in ranked if row not in chance][: STEP - len(chance)]
        steps.append(_tested(evidence, question, rated, taken, test))
    return steps, _tested(evidence, question, rated, pool[:LAST], test)


def _tested(
    evidence: EvidenceTable, question: Question, rated: Ratings, rows: list[int], test: Ratings
) -> tuple[float, float]:
    labels = Labels(rated.labels[row] for row in rows)
    head = Calibration(question, core="mixed", even_by=()).fit(evidence, labels)
    known = set(head.annotators)
    scores = head.predict_each(evidence.take(test.row), [name if name in known else None for name in test.annotator])
    value = np.array([score.value for score in scores])  # type: ignore[union-attr]  # these sets leave none unscored
    paired = Paired(test.options, test.answer, np.zeros((len(test), len(test.options))), value)
    return float(((paired.truth - value) ** 2).mean()), STATISTICS["pearson"](paired) or 0.0


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
