"""Active learning: the labels that reduce the uncertainty of predictions most.

Under the mixed model the value of a label is known before its answer. With C the posterior covariance of all effects
over s², w the design of a rating and s the sum of the designs of the k ratings that its text already has, one more
rating is an observation of u = w - s/(k + 1/r) with variance 1 + 1/(k + 1/r), where r is the variance ratio of the text
effect: a second label of a text adds less. Then

    gain = Σ_p (pᵀCu)² / (uᵀCu + 1 + 1/(k + 1/r)),   C ← C - Cu uᵀC / (uᵀCu + 1 + 1/(k + 1/r))

is the decrease of the summed variance of the predictions of each annotator and text (rows p). Labels are chosen one
after another, and each changes the value of the next.

The design holds the evidence, each annotator's offset and slopes, and a smooth function of the evidence for errors of
the judge on some kinds of texts, with one column per typical text, so that labels spread over all kinds. A few labels
often give a variance estimate of 0; each ratio is at least `LEAST`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable, Ratings
from accord.learning.answer_models.contract import judge_columns, known_ratings, matrix, sources_of
from accord.learning.answer_models.mixed.layout import GROUP, OFFSET, TEXT, standardization
from accord.learning.answer_models.mixed.model import MixedModel
from accord.learning.answer_models.simple import FEWEST_LABELS
from accord.values import Labels, Question, Target

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

POOL = 1000
"""Largest number of texts to consider; more are thinned evenly."""
PEOPLE = 50
"""Largest number of annotators with effects of their own: requested ones first, then those with the most labels."""
LEAST = {"slope": 0.02, "level": 0.2, "weight": 0.01, "text": 0.1, "deviation": 0.1}
"""Smallest variance ratios to the noise, typical for ratings of conversations."""
TYPICAL = 20
"""Number of typical texts that span the judge's deviation."""
_ANY_LEVEL = 1e4


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A label to collect.

    Attributes:
        target: Text to label.
        annotator: Annotator to ask.
        gain: Share of the remaining uncertainty that the label removes.
    """

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
    """Return the most valuable missing labels, best first.

    Args:
        evidence: Evidence of every text that could be labelled.
        labels: Existing labels.
        question: Main question.
        count: Number of suggestions.
        annotators: Annotators who can label; empty means all who have labelled.
        among: Pairs of text and annotator that can be labelled and should be predicted; None allows all. Annotators
            named here may be new.
        only: Restricts suggestions to these texts, one annotator each; returns an empty list if none has evidence.

    Raises:
        BadInput: There are too few labels to estimate uncertainty, or nothing is left to label.
        UnknownName: An annotator has no labels yet.
    """
    rated = known_ratings(evidence, labels, question)
    if len(rated) < FEWEST_LABELS:
        raise BadInput(
            f"{len(rated)} labels have evidence, {FEWEST_LABELS} are needed; label random conversations first"
        )
    people, asked = _people(rated, annotators, among or ())
    features = evidence.expected()
    X = matrix(features)
    rows = _pool(evidence, X, only)
    if not len(rows):
        return []
    targets = [evidence.targets[row] for row in rows]
    done = {(label.target, str(label.annotator)) for label in rated.labels}
    can = _pairs(targets, people, lambda target, name: among is None or (target, name) in among)
    is_open = can & _pairs(targets, people, lambda target, name: name in asked and (target, name) not in done)
    groups = [str(labels.group_of(target)) for target in targets]
    outlook = _Outlook.of(X, rated, sources_of(features.columns), people, can, rows, groups)
    suggestions: list[Suggestion] = []
    while len(suggestions) < count and is_open.any():
        gains = np.where(is_open, outlook.gains(), -1.0)
        place, who = np.unravel_index(int(np.argmax(gains)), gains.shape)
        is_open[place, slice(None) if only is not None else who] = False
        outlook.learn(int(place), int(who))
        suggestions.append(Suggestion(targets[place], people[who], float(gains[place, who])))
    if not suggestions and only is None:
        raise BadInput("all texts with evidence are labelled by all annotators; import more conversations")
    return suggestions


def _people(
    rated: Ratings, annotators: Collection[str], among: Collection[tuple[Target, str]]
) -> tuple[list[str], set[str]]:
    """Return at most `PEOPLE` annotators with effects of their own, and those who can be asked.

    Raises:
        UnknownName: A requested annotator has no labels yet.
    """
    known = sorted({str(name) for name in rated.annotator} | {str(name) for _, name in among})
    requested = [str(name) for name in annotators]
    for name in requested:
        if name not in known:
            raise UnknownName("annotator", name, known)
    asked, given = set(requested or known), rated.counts(known)
    return sorted(known, key=lambda name: (name not in asked, -given[name]))[:PEOPLE], asked


def _pool(evidence: EvidenceTable, X: Floats, only: Collection[Target] | None) -> Indices:
    """Return the rows of at most `POOL` texts with evidence (n, d), evenly thinned; only texts in `only`, if given."""
    known = np.flatnonzero(np.isfinite(X).any(axis=1))
    if only is not None:
        wanted = set(only)
        known = known[np.array([evidence.targets[row] in wanted for row in known], dtype=bool)]
    return np.asarray(known[np.unique(np.linspace(0, len(known) - 1, min(len(known), POOL)).astype(int))])


def _pairs(targets: Sequence[Target], people: Sequence[str], holds: Callable[[Target, str], bool]) -> NDArray[np.bool_]:
    """Return (T, A) True for pairs of a text and an annotator for which a condition holds."""
    found = [holds(target, name) for target in targets for name in people]
    return np.array(found, dtype=bool).reshape(len(targets), len(people))


def spread_targets(evidence: EvidenceTable, done: Collection[Target], count: int) -> list[Target]:
    """Return texts to label first: evenly spread over the mean of the judge's standardized answers.

    Without a judge, the mean of all columns is used. In 15 draws on each of five data sets no order beat random texts
    by more than chance for the first 10 to 40 labels; the error of this one was .998 to 1.000 of theirs.

    Args:
        evidence: Evidence of every text that could be labeled.
        done: Texts that are labeled already.
        count: Number of texts.
    """
    known = set(done)
    rows = np.array([row for row, target in enumerate(evidence.targets) if target not in known], dtype=np.intp)
    if not len(rows):
        return []
    order = rows[np.argsort(judge_level(evidence)[rows], kind="stable")]
    places = np.unique(np.floor((np.arange(count) + 0.5) * len(order) / count).astype(int).clip(max=len(order) - 1))
    return [evidence.targets[row] for row in order[places]]


def judge_level(evidence: EvidenceTable) -> Floats:
    """Return (n,) the mean of the judge's standardized answers; without a judge, of all columns."""
    features = evidence.expected()
    X, is_judge = matrix(features), judge_columns(features)
    X = X[:, is_judge] if is_judge.any() else X
    mean, scale = standardization(X)
    return np.nan_to_num((X - mean) / scale).mean(axis=1) if X.shape[1] else np.zeros(len(X))


def stratified_targets(
    targets: Sequence[Target], score: Floats, done: Collection[Target], count: int, seed: int = 0
) -> list[Target]:
    """Return texts to label for an estimate of agreement: a random one from each of `count` strata of equal size.

    The strata follow the scores, so that all scores are represented and every text has the same chance: means, errors
    and correlations of these labels need no weights. `benchmarks/agreement_labels.py` compares it with random texts.

    Args:
        targets: The n texts.
        score: (n,) score of each text; NaN without one.
        done: Texts that are labeled already.
        count: Number of texts.
        seed: Random seed.
    """
    known, rng = set(done), np.random.default_rng(seed)
    rows = rng.permutation([row for row, target in enumerate(targets) if target not in known]).astype(np.intp)
    order = rows[np.argsort(score[rows], kind="stable")]
    ends = np.linspace(0, len(order), min(count, len(order)) + 1).astype(int)
    return [targets[order[rng.integers(low, high)]] for low, high in pairwise(ends)]


@dataclass
class _Outlook:
    """Posterior of the effects as labels are added.

    A row of the design is [1, z, φ], then [1, z] in the columns of its annotator. Texts of a group count once.

    Attributes:
        shown: (T, c) [1, z, φ] of the T texts of the pool.
        own: 1 + p, the number of these columns that each annotator has too.
        asked: (T, A) True for predictions that count.
        unit: (T,) index of the texts that share an effect.
        sums: (units, q) summed designs of each unit's labels.
        counts: (units,) number of these labels plus 1/r.
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
        """Compute the sum of p pᵀ over all predictions, and their initial variance."""
        own, common = self.own, self.shown.shape[1]
        self.wanted = np.zeros_like(self.covariance)
        for who in range(self.asked.shape[1]):
            predicted = self.shown[self.asked[:, who]]
            p = np.hstack([predicted, predicted[:, :own]])
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
        """Return the posterior after the ratings; `rows` of X (n, p) form the pool, with these `groups`."""
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
            own_rows = np.flatnonzero(rated.annotator.astype(str) == name)
            W[np.ix_(own_rows, _places(shown.shape[1], own, who)[shown.shape[1] :])] = shown[rated.row[own_rows], :own]
        units, unit = np.unique([*map(str, rated.group), *groups], return_inverse=True)
        sums = np.zeros((len(units), len(prior)))
        np.add.at(sums, unit[: len(rated)], W)
        counts = np.bincount(unit[: len(rated)], minlength=len(units)).astype(float)
        counts += 1 / max(ratios[TEXT] + ratios[GROUP], LEAST["text"])
        known = np.diag(1 / prior) + W.T @ W - sums.T @ (sums / counts[:, None])
        covariance = scipy.linalg.cho_solve(scipy.linalg.cho_factor(known), np.eye(len(prior)))
        return cls(shown[rows], own, asked, unit[len(rated) :], sums, counts, covariance)

    def gains(self) -> Floats:
        """Return (T, A) the share of the initial variance that each label would remove."""
        C, M = self.covariance, self.covariance @ self.wanted @ self.covariance
        s, k = self.sums[self.unit], self.counts[self.unit]
        parts = [(each, s @ each) for each in (M, C)]
        suggestions = np.empty(self.asked.shape)
        for who in range(self.asked.shape[1]):
            places = _places(self.shown.shape[1], self.own, who)
            w = np.hstack([self.shown, self.shown[:, : self.own]])
            lowered, doubt = (
                ((w @ each[np.ix_(places, places)]) * w).sum(axis=1)
                - 2 * (along[:, places] * w).sum(axis=1) / k
                + (along * s).sum(axis=1) / k**2
                for each, along in parts
            )
            suggestions[:, who] = lowered / (doubt + 1 + 1 / k)
        return suggestions / max(self.total, 1e-12)

    def learn(self, place: int, who: int) -> None:
        """Add one rating; its value is not needed."""
        w = np.zeros(len(self.covariance))
        w[_places(self.shown.shape[1], self.own, who)] = [*self.shown[place], *self.shown[place, : self.own]]
        unit = self.unit[place]
        u = w - self.sums[unit] / self.counts[unit]
        Cu = self.covariance @ u
        self.covariance = self.covariance - np.outer(Cu, Cu) / (u @ Cu + 1 + 1 / self.counts[unit])
        self.sums[unit] += w
        self.counts[unit] += 1


def _places(common: int, own: int, who: int) -> Indices:
    """Return the columns of one annotator's rows."""
    return np.concatenate([np.arange(common), common + who * own + np.arange(own)])


def _kinds(Z: Floats, rows: Indices) -> Floats:
    """Return (n, m) columns of a smooth function of z: a Gaussian process of variance 1, spanned by typical texts."""
    centres = Z[rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), TYPICAL)).astype(int))]]

    def alike(A: Floats, B: Floats) -> Floats:
        return np.asarray(np.exp(-scipy.spatial.distance.cdist(A, B, "sqeuclidean") / (2 * max(Z.shape[1], 1))))

    values, vectors = np.linalg.eigh(alike(centres, centres))
    kept = values > 1e-6 * values.max()
    return np.asarray(alike(Z, centres) @ (vectors[:, kept] / np.sqrt(values[kept])))
