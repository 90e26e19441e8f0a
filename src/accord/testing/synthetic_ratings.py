"""Synthetic ratings with known weights and annotators; apart from the contracts, since it imports little."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Column, EvidenceTable
from accord.values import Label, Labels, Question, Scale, Target

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Planted:
    """A synthetic corpus and its parameters.

    Attributes:
        question: Main question, with `options` values from 1.
        evidence: (n, p) features of n conversations.
        labels: Labels of each annotator on a random half of the conversations.
        weights: (p,) weights of the features.
        levels: Generosity of each annotator, in units of the scale.
    """

    question: Question
    evidence: EvidenceTable
    labels: Labels
    weights: Floats
    levels: dict[str, float]

    @classmethod
    def of(
        cls,
        targets: tuple[Target, ...],
        x: Floats,
        labels: list[Label],
        options: int,
        weights: Floats,
        levels: dict[str, float],
    ) -> Planted:
        """Build a corpus from drawn features and labels."""
        columns = tuple(Column(f"f{i}", "planted") for i in range(x.shape[1]))
        evidence = EvidenceTable(targets, columns, x, np.ones(x.shape, dtype=bool))
        question = Question(id="main", text="How good is it?", scale=Scale(options=tuple(range(1, options + 1))))
        return cls(question, evidence, Labels(labels), weights, levels)


def planted(
    conversations: int = 200,
    annotators: int = 6,
    features: int = 3,
    options: int = 4,
    noise: float = 0.5,
    share: float = 0.5,
    seed: int = 0,
) -> Planted:
    """Draw y = round(middle + x·w + level of the annotator + noise), clipped to the scale.

    Args:
        conversations: Number of conversations.
        annotators: Number of annotators.
        features: Number of features x; their weights w fall from 0.8 to 0.1.
        options: Number of options of the scale, from 1.
        noise: Standard deviation of the noise, in units of the scale.
        share: Share of the conversations that each annotator rates, 0 to 1.
        seed: Seed of all draws.

    >>> corpus = planted(conversations=20, annotators=2)
    >>> corpus.evidence.values.shape, corpus.labels.annotators, corpus.question.scale.range
    ((20, 3), ['p0', 'p1'], '1..4 (4)')
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(conversations, features))
    weights = np.linspace(0.8, 0.1, features)
    levels = annotator_levels(annotators, 0.6)
    targets = tuple(Target(f"c{i:04d}") for i in range(conversations))
    middle = (1 + options) / 2
    labels = []
    for row, target in enumerate(targets):
        for name, level in levels.items():
            if rng.random() < share:
                value = middle + x[row] @ weights + level + rng.normal(scale=noise)
                labels.append(Label(target, "main", name, int(np.clip(round(value), 1, options))))
    return Planted.of(targets, x, labels, options, weights, levels)


def annotator_levels(annotators: int, most: float) -> dict[str, float]:
    """Return the generosity of each annotator, evenly spaced from -most to most."""
    return dict(zip([f"p{i}" for i in range(annotators)], np.linspace(-most, most, annotators).tolist(), strict=True))
