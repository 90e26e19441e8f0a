"""Which conversation, by whom, to label next: the label after which predictions are expected to be surest.

Under the mixed model the value of a label is known before it is given. With C the posterior covariance of all effects
over s², w the design of a rating and s the sum of the designs of the k ratings that its text has already, one more is
an observation of u = w - s/(k + 1/r) with variance 1 + 1/(k + 1/r), where r is the variance ratio of what a text adds
for everyone: a second label of a text says less. Then

    gain = Σ_p (pᵀCu)² / (uᵀCu + 1 + 1/(k + 1/r)),   C ← C - Cu uᵀC / (uᵀCu + 1 + 1/(k + 1/r))

is how much it lowers the summed variance of what each annotator is predicted to say of each text (rows p). Labels are
picked one after another; each changes what the next is worth, though not what it says.

The design has the evidence, each annotator's level and weights, and a smooth function of the evidence for what the
judge gets wrong of some kinds of texts, a column per typical text; so that labels are spread over all kinds. A few
labels often say of a variance that it is nil: none is taken to be less than `LEAST`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable, Ratings
from accord.learning.answer_model import known_ratings, matrix, sources_of
from accord.learning.mixed_model import MixedModel
from accord.learning.rating_layout import GROUP, OFFSET, TEXT
from accord.values import Labels, Question, Target

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST_LABELS = 8
POOL = 1000
"""The most texts that are looked at; more are thinned out evenly."""
PEOPLE = 50
"""The most annotators of whom each has a level and weights: those who were asked for first, then who labelled most."""
LEAST = {"slope": 0.02, "level": 0.2, "weight": 0.01, "text": 0.1, "deviation": 0.1}
"""The least variance ratios to the noise, as data of opinions about conversations have them."""
TYPICAL = 20
"""How many typical texts the judge's deviation is spanned by."""
_ANY_LEVEL = 1e4


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
    among: Collection[tuple[Target, str]] | None = None,
    only: Collection[Target] | None = None,
) -> list[Suggestion]:
    """The most valuable labels that are not there yet, the best first.

    Args:
        evidence: Of every text that could be labelled.
        labels: What was labelled so far.
        question: The main question.
        count: How many to suggest.
        annotators: Who can label; by default everyone who has.
        among: Which texts are shown to whom: what can be labelled, and what predictions are wanted of; by default every
            text for everyone. Whoever is named there may be new.
        only: Only of these, each by one annotator; nothing is suggested where none of them has evidence.

    Raises:
        BadInput: Too few labels to say what is not known yet, or nothing left to label.
        UnknownName: An annotator who has not labelled yet: nothing is known of what they would add.
    """
    rated = known_ratings(evidence, labels, question)
    if len(rated) < FEWEST_LABELS:
        raise BadInput(f"{len(rated)} labels have evidence; label {FEWEST_LABELS} conversations at random first")
    known = sorted({str(name) for name in rated.annotator} | {str(name) for _, name in among or ()})
    for name in annotators:
        if str(name) not in known:
            raise UnknownName("annotator", str(name), known)
    asked = {str(name) for name in annotators} or set(known)
    given = rated.counts(known)
    people = sorted(known, key=lambda name: (name not in asked, -given[name]))[:PEOPLE]
    features = evidence.expected()
    X = matrix(features)
    told = np.flatnonzero(np.isfinite(X).any(axis=1))
    if only is not None:
        wanted = set(only)
        told = told[[evidence.targets[row] in wanted for row in told]]
        if not len(told):
            return []
    rows = told[np.unique(np.linspace(0, len(told) - 1, min(len(told), POOL)).astype(int))]
    targets = [evidence.targets[row] for row in rows]
    done = {(label.target, str(label.annotator)) for label in rated.labels}
    shape = len(rows), len(people)
    can = np.array([[among is None or (t, name) in among for name in people] for t in targets]).reshape(shape)
    is_open = np.array([[name in asked and (t, name) not in done for name in people] for t in targets]).reshape(shape)
    is_open &= can
    groups = [str(labels.group_of(target)) for target in targets]
    outlook = _Outlook.of(X, rated, sources_of(features.columns), people, can, rows, groups)
    found: list[Suggestion] = []
    while len(found) < count and is_open.any():
        gains = np.where(is_open, outlook.gains(), -1.0)
        place, who = np.unravel_index(int(np.argmax(gains)), gains.shape)
        is_open[place, slice(None) if only is not None else who] = False
        outlook.learn(int(place), int(who))
        found.append(Suggestion(targets[place], people[who], float(gains[place, who])))
    if not found and only is None:
        raise BadInput("everyone has labelled everything there is evidence of; import more conversations")
    return found


@dataclass
class _Outlook:
    """What is known of the effects, as labels are added in thought.

    A row of the design is [1, z, φ], then [1, z] in the places of its annotator. Texts of one group count as one.

    Attributes:
        shown: (T, c) [1, z, φ] of the T texts of the pool.
        own: 1 + p, how many of these columns each annotator has too.
        asked: (T, A) what may be predicted of whom.
        unit: (T,) which texts share an effect.
        sums: (units, q) the summed designs of each unit's labels.
        counts: (units,) how many these are, and 1/r.
        covariance: (q, q) C.
    """

    shown: Floats
    own: int
    asked: NDArray[np.bool_]
    unit: Indices
    sums: Floats
    counts: Floats
    covariance: Floats

    def __post_init__(self) -> None:
        """The sum of p pᵀ over what may be predicted, and the variance that there is of it at first."""
        own, common = self.own, self.shown.shape[1]
        self.wanted = np.zeros_like(self.covariance)
        for who in range(self.asked.shape[1]):
            theirs = self.shown[self.asked[:, who]]
            p = np.hstack([theirs, theirs[:, :own]])
            self.wanted[np.ix_(*2 * [_places(common, own, who)])] += p.T @ p
        self.total = float((self.covariance * self.wanted).sum())

    @classmethod
    def of(
        cls,
        X: Floats,
        rated: Ratings,
        source: Sequence[str],
        people: Sequence[str],
        asked: NDArray[np.bool_],
        rows: Indices,
        groups: Sequence[str],
    ) -> _Outlook:
        """After the ratings; `rows` of X (n, p) are the pool, of these `groups`."""
        model = MixedModel().fit(X[rated.row], rated.value, rated.annotator, rated.text, rated.group, source)
        Z = model.standardize(X)
        shown = np.hstack([np.ones((len(Z), 1)), Z, _kinds(Z, rows)])
        own = 1 + Z.shape[1]
        ratios = {place: float(model.ratios_[place]) for place in (OFFSET, TEXT, GROUP)}
        habits = [max(ratios[OFFSET], LEAST["level"]), *np.maximum(model.own_ratios, LEAST["weight"])]
        slopes, kinds = np.maximum(model.slope_ratios, LEAST["slope"]), shown.shape[1] - own
        prior = np.array([_ANY_LEVEL, *slopes, *[LEAST["deviation"]] * kinds, *habits * len(people)])
        W = np.zeros((len(rated), len(prior)))
        W[:, : shown.shape[1]] = shown[rated.row]
        for who, name in enumerate(people):
            mine = np.flatnonzero(rated.annotator.astype(str) == name)
            W[np.ix_(mine, _places(shown.shape[1], own, who)[shown.shape[1] :])] = shown[rated.row[mine], :own]
        units, unit = np.unique([*map(str, rated.group), *groups], return_inverse=True)
        sums = np.zeros((len(units), len(prior)))
        np.add.at(sums, unit[: len(rated)], W)
        counts = np.bincount(unit[: len(rated)], minlength=len(units)).astype(float)
        counts += 1 / max(ratios[TEXT] + ratios[GROUP], LEAST["text"])
        known = np.diag(1 / prior) + W.T @ W - sums.T @ (sums / counts[:, None])
        covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(known), np.eye(len(prior)))
        return cls(shown[rows], own, asked, unit[len(rated) :], sums, counts, covariance)

    def gains(self) -> Floats:
        """(T, A) the share of the variance at first that each label would take away."""
        C, M = self.covariance, self.covariance @ self.wanted @ self.covariance
        s, k = self.sums[self.unit], self.counts[self.unit]
        parts = [(each, s @ each) for each in (M, C)]
        found = np.empty(self.asked.shape)
        for who in range(self.asked.shape[1]):
            places = _places(self.shown.shape[1], self.own, who)
            w = np.hstack([self.shown, self.shown[:, : self.own]])
            lowered, doubt = (
                ((w @ each[np.ix_(places, places)]) * w).sum(axis=1)
                - 2 * (along[:, places] * w).sum(axis=1) / k
                + (along * s).sum(axis=1) / k**2
                for each, along in parts
            )
            found[:, who] = lowered / (doubt + 1 + 1 / k)
        return found / max(self.total, 1e-12)

    def learn(self, place: int, who: int) -> None:
        """One more rating: its value is not needed."""
        w = np.zeros(len(self.covariance))
        w[_places(self.shown.shape[1], self.own, who)] = [*self.shown[place], *self.shown[place, : self.own]]
        unit = self.unit[place]
        u = w - self.sums[unit] / self.counts[unit]
        Cu = self.covariance @ u
        self.covariance = self.covariance - np.outer(Cu, Cu) / (u @ Cu + 1 + 1 / self.counts[unit])
        self.sums[unit] += w
        self.counts[unit] += 1


def _places(common: int, own: int, who: int) -> Indices:
    """Where a row of one annotator has its entries."""
    return np.concatenate([np.arange(common), common + who * own + np.arange(own)])


def _kinds(Z: Floats, rows: Indices) -> Floats:
    """(n, m) the columns of a smooth function of z: a Gaussian process of variance 1, spanned by typical texts."""
    centres = Z[rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), TYPICAL)).astype(int))]]

    def alike(A: Floats, B: Floats) -> Floats:
        return np.asarray(np.exp(-scipy.spatial.distance.cdist(A, B, "sqeuclidean") / (2 * max(Z.shape[1], 1))))

    values, vectors = np.linalg.eigh(alike(centres, centres))
    kept = values > 1e-6 * values.max()
    return np.asarray(alike(Z, centres) @ (vectors[:, kept] / np.sqrt(values[kept])))
