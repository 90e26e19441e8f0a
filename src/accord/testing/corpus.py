"""Corpora whose truth is known: evidence and labels drawn from a model that an evaluator should find again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.conversation import Target
from accord.evidence.table import Column, EvidenceTable
from accord.labels import Label, Labels
from accord.rubric import Question
from accord.scale import Scale

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Planted:
    """A drawn corpus and what it was drawn from.

    Attributes:
        question: The main question, with `options` values from 1.
        evidence: (n, p) features of n conversations.
        labels: Every annotator's label on a random half of the conversations, and on at least one.
        weights: (p,) how the latent quality follows from the features.
        levels: How generous each annotator is, in units of the scale.
    """

    question: Question
    evidence: EvidenceTable
    labels: Labels
    weights: Floats
    levels: dict[str, float]


def planted(
    conversations: int = 200,
    annotators: int = 6,
    features: int = 3,
    options: int = 4,
    noise: float = 0.5,
    share: float = 0.5,
    seed: int = 0,
) -> Planted:
    """Draw y = round(middle + x·w + level of the annotator + noise), cut to the scale."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(conversations, features))
    weights = np.linspace(0.8, 0.1, features)
    levels = dict(zip([f"p{i}" for i in range(annotators)], np.linspace(-0.6, 0.6, annotators).tolist(), strict=True))
    targets = tuple(Target(f"c{i:04d}") for i in range(conversations))
    middle = (1 + options) / 2
    labels = []
    for row, target in enumerate(targets):
        for name, level in levels.items():
            if rng.random() < share:
                value = middle + x[row] @ weights + level + rng.normal(scale=noise)
                labels.append(Label(target, "main", name, int(np.clip(round(value), 1, options))))
    columns = tuple(Column(f"f{i}", "planted") for i in range(features))
    evidence = EvidenceTable(targets, columns, x, np.ones(x.shape, dtype=bool))
    question = Question(id="main", text="How good is it?", scale=Scale(options=tuple(range(1, options + 1))))
    return Planted(question, evidence, Labels(labels), weights, levels)
