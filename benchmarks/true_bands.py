"""Bands for new annotators: coverage and width in new conversations, on planted data.

new-annotator-bands      share of ratings inside the nominal 90% band, by new annotators in new conversations, and the
                         mean width of the band in units of the scale; mean over draws, by number of annotators, labels
                         and systems. `value` of the first row is the mean coverage of all settings; a setting fits if
                         its coverage is within .02 of .90. `noted` is the share of scores with a note on the band.

A rating on 1 to 5 is round(3 + system + u + (.8 + g)·quality + noise), with u ~ N(0, .6²), g ~ N(0, .2²) of the
annotator, and noise of .6; the evidence is three answers of a judge and four metrics, some of which follow the quality.
Each label is on a conversation of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from harness import Row
from true_shared import row

from accord.evidence import Column, EvidenceTable
from accord.learning import make_head
from accord.values import Label, Labels, Question, Scale, Score, Target

ANNOTATORS, LABELS, SYSTEMS = (2, 4, 6, 12, 30), (20, 40, 80), (1, 3)
NEW = 400
"""New conversations, each rated by a new annotator of its own."""
NOMINAL, NEAR = 0.90, 0.02
FOLLOWS = (0.8, 0.6, 0.6, 0.3, 0.0, 0.0, 0.0)
"""Correlation of each column with the quality: three answers of the judge, four metrics."""
QUESTION = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
COLUMNS = (
    Column("main", "judge", question="main"),
    *(Column(f"q{place}", "judge", question=f"q{place}") for place in (1, 2)),
    *(Column(f"m{place}", "metric", source="metrics") for place in range(4)),
)


class World(NamedTuple):
    """Labels to learn from, and the ratings of new annotators in new conversations.

    Attributes:
        evidence: Evidence of the rated conversations.
        labels: One rating of each.
        new: Evidence of the new conversations.
        truth: (NEW,) their ratings.
    """

    evidence: EvidenceTable
    labels: Labels
    new: EvidenceTable
    truth: np.ndarray


def planted_annotators(annotators: int, labels: int, systems: int, seed: int) -> World:
    """Draw annotators with levels and slopes of their own, who take turns, and new ones."""
    rng = np.random.default_rng([seed, annotators, labels, systems])
    count, people = labels + NEW, annotators + NEW
    who = np.concatenate([rng.permutation(np.arange(labels) % annotators), annotators + np.arange(NEW)])
    system = rng.integers(systems, size=count)
    means = np.linspace(-0.8, 0.8, systems) if systems > 1 else np.zeros(1)
    quality = rng.normal(size=count)
    level, slope = rng.normal(0, 0.6, people), 0.8 + rng.normal(0, 0.2, people)
    value = np.clip(
        np.rint(3 + means[system] + level[who] + slope[who] * quality + rng.normal(0, 0.6, count)), 1, 5
    ).astype(int)
    follows = np.array(FOLLOWS)
    x = follows * quality[:, None] + np.sqrt(1 - follows**2) * rng.normal(size=(count, len(follows)))
    targets = tuple(Target(f"c{place:04d}") for place in range(count))
    metadata = {target: {"system": f"s{each}"} for target, each in zip(targets, system, strict=True)}
    table = EvidenceTable(targets, COLUMNS, x, np.ones(x.shape, dtype=bool), metadata=metadata)
    rated = Labels(Label(targets[i], "main", f"p{who[i]:02d}", int(value[i])) for i in range(labels))
    return World(table.take(list(range(labels))), rated, table.take(list(range(labels, count))), value[labels:])


def band_of_new_annotators(head: str, world: World) -> tuple[float, float, float]:
    """Return the share of new ratings inside their bands, the mean width, and the share of scores with a note."""
    learned = make_head(head, QUESTION, {}).fit(world.evidence, world.labels)
    scores = [s for s in learned.predict_each(world.new, [None] * len(world.new)) if isinstance(s, Score)]
    ends = np.array([score.band for score in scores], dtype=float)
    held = (ends[:, 0] <= world.truth) & (world.truth <= ends[:, 1])
    noted = [score.warning is not None and "band" in score.warning for score in scores]
    return float(held.mean()), float(np.ptp(ends, axis=1).mean()), float(np.mean(noted))


def new_annotator_bands(data: Path, draws: int, head: str = "auto") -> list[Row]:
    """Return coverage and mean width for each number of annotators, labels and systems, and overall."""
    rows, every = list[Row](), list[float]()
    for systems in SYSTEMS:
        for annotators in ANNOTATORS:
            for labels in LABELS:
                found = np.array([
                    band_of_new_annotators(head, planted_annotators(annotators, labels, systems, seed))
                    for seed in range(draws)
                ])  # fmt: skip
                coverage, width, noted = found.mean(axis=0).tolist()
                what = f"new-annotator-bands {annotators} annotators, {labels} labels, {systems} systems"
                fits = abs(coverage - NOMINAL) <= NEAR
                rows.append(row(what, found[:, 0].tolist(), width=width, noted=noted, fits=fits, draws=draws))
                every.append(coverage)
    share = float(np.mean([each["fits"] for each in rows]))
    width = float(np.mean([each["width"] for each in rows]))
    return [row("new-annotator-bands", every, width=width, fits=share, draws=draws), *rows]


RUN: dict[str, Callable[[Path, int], list[Row]]] = {"new-annotator-bands": new_annotator_bands}
NEEDS: dict[str, str] = {}
