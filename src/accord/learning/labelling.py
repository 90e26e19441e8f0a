"""Which conversation, by whom, to label next: the label after which predictions are expected to be surest.

Under the mixed model the value of a label is known before it is given. With C the posterior covariance of all effects
over s², a rating of text t by annotator a has the design w, and

    gain(t, a) = |P C w|² / (w'Cw + 1 + r_text)

is how much it lowers the summed variance of what the annotators together are predicted to say of every text (rows of
P). Labels are picked one after another; each changes what the next is worth, though not what it says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings
from accord.learning.core import known_ratings, matrix, sources_of
from accord.learning.layout import GROUP, TEXT
from accord.learning.mixed_effects import MixedEffects
from accord.values import BadInput, Labels, Question, Target, UnknownName

Floats = NDArray[np.float64]

FEWEST_LABELS = 8
POOL = 1000
"""The most texts that are looked at; more are thinned out evenly."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A label worth having: of what, by whom, and the share of the remaining uncertainty that it takes away."""

    target: Target
    annotator: str
    gain: float


def suggest_labels(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    count: int,
    annotators: Collection[str] = (),
) -> list[Suggestion]:
    """The most valuable labels that are not there yet, the best first.

    Args:
        evidence: Of every text that could be labelled.
        labels: What was labelled so far.
        question: The main question.
        count: How many to suggest.
        annotators: Who can label; by default everyone who has.

    Raises:
        BadInput: Too few labels to say what is not known yet, or nothing left to label.
        UnknownName: An annotator who has not labelled yet: nothing is known of what they would add.
    """
    rated = known_ratings(evidence, labels, question)
    if len(rated) < FEWEST_LABELS:
        raise BadInput(f"{len(rated)} labels have evidence; label {FEWEST_LABELS} conversations at random first")
    features = evidence.expected()
    X = matrix(features)
    model = MixedEffects().fit(
        X[rated.row], rated.value, rated.annotator, rated.text, rated.group, sources_of(features.columns)
    )
    people = [str(name) for name in model.annotators_]
    for name in annotators:
        if str(name) not in people:
            raise UnknownName("annotator", str(name), people)
    wanted = [place for place, name in enumerate(people) if not annotators or name in set(map(str, annotators))]
    told = np.flatnonzero(np.isfinite(X).any(axis=1))
    rows = told[np.unique(np.linspace(0, len(told) - 1, min(len(told), POOL)).astype(int))]
    state = _State(model, X[rated.row], rated, X[rows])
    done = {(label.target, str(label.annotator)) for label in rated.labels}
    given = {(place, who) for place, row in enumerate(rows) for who in wanted
             if (evidence.targets[row], people[who]) in done}  # fmt: skip
    found: list[Suggestion] = []
    for _ in range(count):
        place, who, gain = state.best(wanted, given)
        if place < 0:
            break
        given.add((place, who))
        state.learn(place, who)
        found.append(Suggestion(evidence.targets[rows[place]], people[who], gain))
    if not found:
        raise BadInput("everyone has labelled everything there is evidence of; import more conversations")
    return found


class _State:
    """What is known of the effects, as labels are added in thought."""

    def __init__(self, model: MixedEffects, X: Floats, rated: Ratings, pool: Floats) -> None:
        self.people = len(model.annotators_)
        self.C, self.noise = model.posterior(X, rated.annotator, rated.text, rated.group)
        self.Z = model.standardised(pool)
        self.text_ratio = float(model.ratios_[[TEXT, GROUP]].sum())
        share = np.full((len(self.Z), self.people), 1 / self.people)
        self.panel = self._design(self.Z, share)
        self.total = float(np.einsum("tq,qr,tr->", self.panel, self.C, self.panel))

    def _design(self, Z: Floats, members: Floats) -> Floats:
        """(n, q) rows [1, z, members, members ⊗ z]: what the model predicts for a mixture of annotators."""
        own = (members[:, :, None] * Z[:, None, :]).reshape(len(Z), -1)
        return np.hstack([np.ones((len(Z), 1)), Z, members, own])

    def best(self, wanted: Sequence[int], given: set[tuple[int, int]]) -> tuple[int, int, float]:
        """The place in the pool, the annotator and the share of the variance that goes; place -1 where none is left."""
        M = self.C @ self.panel.T @ self.panel @ self.C
        found = (-1, -1, 0.0)
        for who in wanted:
            W = self._design(self.Z, np.eye(self.people)[np.full(len(self.Z), who)])
            lowered = np.einsum("nq,nq->n", W @ M, W)
            doubt = np.einsum("nq,nq->n", W @ self.C, W) + 1 + self.text_ratio
            gains = lowered / doubt / max(self.total, 1e-12)
            gains[[place for place, other in given if other == who]] = -1.0
            place = int(np.argmax(gains))
            if gains[place] >= 0 and gains[place] > found[2]:
                found = (place, who, float(gains[place]))
        return found

    def learn(self, place: int, who: int) -> None:
        """C after one more rating: its value is not needed."""
        w = self._design(self.Z[[place]], np.eye(self.people)[[who]])[0]
        Cw = self.C @ w
        self.C = self.C - np.outer(Cw, Cw) / (w @ Cw + 1 + self.text_ratio)
