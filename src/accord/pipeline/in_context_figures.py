"""How well ways to score in context do on examples that were neither learned from nor shown, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from accord.comparison import Difference, Result, differences_of, other_people, result_of
from accord.evaluators.baselines import AnnotatorMean, Constant
from accord.evaluators.held_out import Factory, held_out
from accord.evaluators.in_context import InContext
from accord.evaluators.ratings import ratings
from accord.evidence import EvidenceTable
from accord.labels import Labels
from accord.resampling import Clusters
from accord.rubric import Question
from accord.splits import Split

RAW = ", as answered"
"""What the name of the method's own answers, before they are calibrated, ends with."""


@dataclass(frozen=True)
class Figures:
    """How systems compare.

    Attributes:
        results: A line a system; the method itself first.
        differences: The first system against each other one.
        people: How well the other people predict each rating; `None` where nobody shares a target.
    """

    results: Sequence[Result]
    differences: Sequence[Difference]
    people: Result | None


def figures_of(
    question: Question,
    labels: Labels,
    split: Split,
    tables: Mapping[str, EvidenceTable],
    calibrate: bool,
    draws: int,
    seed: int,
) -> Figures:
    """Every system's figures on the ratings of one side.

    Args:
        question: The dimension.
        labels: What people said of it.
        split: The two sides.
        tables: Each system's answers about both sides, all with the same rows; the method's own are the first.
        calibrate: Whether the method's answers are calibrated on the one side.
        draws: Of the intervals.
        seed: Of the draws.
    """
    own = tables[InContext.method]
    everything = ratings(own, labels, question)
    rated = everything.take(np.flatnonzero([name in split.test for name in everything.conversation]))
    raw = partial(InContext, calibrate=False)
    tried: list[tuple[str, Factory, EvidenceTable]] = [
        (InContext.method, partial(InContext, calibrate=calibrate), own),
        (f"{InContext.method}{RAW}", raw, own),
        *((name, raw, table) for name, table in tables.items() if name != InContext.method),
        ("constant", Constant, own),
        ("annotator-mean", AnnotatorMean, own),
    ]
    systems = [held_out(name, make, question, table, labels, rated, [split]) for name, make, table in tried]
    clusters = Clusters(rated.conversation)
    results = [result_of(system, rated, clusters, draws, seed) for system in systems]
    differences = differences_of(systems, rated, clusters, draws, seed)
    return Figures(results, differences, other_people(rated, draws, seed))
