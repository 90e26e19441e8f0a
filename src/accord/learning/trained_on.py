"""Answers on a long or real scale as a few levels: what a core learns, and the way back to every option.

A core gives each level a probability for each annotator; inside a level the options keep the shares that all
annotators together give them. The two make a piecewise density over the scale (LLM-RUBRIC, appendix B, asks for a
parametric one; this one follows the data).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, Column, EvidenceTable, Ratings
from accord.learning.conformal import band_width
from accord.learning.core import matrix
from accord.learning.mixed import standardisation
from accord.values import Target, content_hash

Floats = NDArray[np.float64]

MOST_LEVELS = 10


@dataclass(frozen=True)
class Levels:
    """How K options fall into L levels; with `MOST_LEVELS` options or fewer each is a level of its own.

    Attributes:
        of: (K,) each option's level, rising from 0 to L-1.
        within: (K,) each option's share of its level, summing to 1 in each.
    """

    of: NDArray[np.intp]
    within: Floats

    @classmethod
    def fit(cls, rated: Ratings) -> Levels:
        """Levels with about equally many of the ratings in each."""
        options = len(rated.options)
        if options <= MOST_LEVELS:
            return cls(np.arange(options), np.ones(options))
        ranks = np.arange(1, MOST_LEVELS) / MOST_LEVELS
        last = np.unique(np.quantile(rated.answer, ranks, method="higher"))
        inner = last[last < options - 1]
        of = np.searchsorted(inner if len(inner) else np.array([options // 2]), np.arange(options))
        counts = np.bincount(rated.answer, minlength=options) + 1.0
        return cls(of, counts / np.bincount(of, weights=counts)[of])

    def coarse(self, rated: Ratings) -> Ratings:
        """The ratings with levels as their options; what was said keeps its value."""
        if len(self.of) == self.of[-1] + 1:
            return rated
        middles = np.bincount(self.of, weights=self.within * rated.options).astype(float)
        return replace(rated, answer=self.of[rated.answer], options=middles)

    def fine(self, distributions: Floats) -> Floats:
        """(n, K) distributions over the options from (n, L) over the levels."""
        return np.asarray(distributions[:, self.of] * self.within)


IN_DISTRIBUTION = 0.99
"""Share of inputs like the training data that pass without a warning."""
_FEWEST = 20
_FOLDS = 5


@dataclass(frozen=True)
class OutOfDistribution:
    """Mahalanobis distance to the training inputs, √(z'Σ⁻¹z) with Σ shrunk (Ledoit & Wolf, 2004).

    Attributes:
        mean: (d,) of the training inputs.
        scale: (d,) their standard deviations.
        precision: (d, d) Σ⁻¹ of the standardised inputs; missing ones are their mean.
        limit: The distance within which `FAMILIAR` of the training inputs lie, each measured from the others.
    """

    mean: Floats
    scale: Floats
    precision: Floats
    limit: float

    @classmethod
    def fit(cls, features: EvidenceTable) -> Self:
        """Of the rows that were learned from; with fewer than twenty of them nothing is called unlike."""
        X = matrix(features)
        whole = cls._of(X)
        if len(X) < _FEWEST or not X.shape[1]:
            return cls(whole.mean, whole.scale, whole.precision, float("inf"))
        fold = np.arange(len(X)) % _FOLDS
        apart = np.concatenate([cls._of(X[fold != each])._distance(X[fold == each]) for each in range(_FOLDS)])
        return cls(
            whole.mean, whole.scale, whole.precision, float(np.quantile(apart, IN_DISTRIBUTION, method="higher"))
        )

    @classmethod
    def _of(cls, X: Floats) -> Self:
        from sklearn.covariance import ledoit_wolf

        mean, scale = standardisation(X)
        Z = np.nan_to_num((X - mean) / scale, nan=0.0)
        if not X.shape[1] or len(X) < 2:
            return cls(mean, scale, np.eye(X.shape[1]), float("inf"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a single row or column, which need no shrinking
            covariance, _ = ledoit_wolf(Z, assume_centered=True)
        return cls(mean, scale, np.linalg.pinv(covariance, hermitian=True), float("inf"))

    def _distance(self, X: Floats) -> Floats:
        Z = np.nan_to_num((X - self.mean) / self.scale, nan=0.0)
        return np.asarray(np.sqrt(np.maximum(((Z @ self.precision) * Z).sum(axis=1), 0.0)))

    def warnings(self, features: EvidenceTable) -> list[str | None]:
        """For each row what to say of it, `None` where it is like what was learned from."""
        distance = self._distance(matrix(features))
        return [self._said(each) if each > self.limit else None for each in distance]

    def _said(self, distance: float) -> str:
        return (
            f"unlike what was learned from: its evidence lies {distance:.1f} away, "
            f"{IN_DISTRIBUTION:.0%} of the training data within {self.limit:.1f}"
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as arrays to save."""
        return {
            "familiar.mean": self.mean,
            "familiar.scale": self.scale,
            "familiar.precision": self.precision,
            "familiar.limit": np.array([self.limit]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `arrays`."""
        mean, scale, precision = (np.asarray(arrays[f"familiar.{name}"]) for name in ("mean", "scale", "precision"))
        return cls(mean, scale, precision, float(arrays["familiar.limit"][0]))


HISTORY = 400
"""The most texts whose evidence is kept, for the adaptive rubric to guess missing answers from."""
CHANGED_JUDGE = "the judge answered as version"


@dataclass(frozen=True)
class TrainedOn:
    """The training side of a fitted calibration.

    Attributes:
        columns: The evidence, by how it was made.
        options: (K,) of the main question.
        levels: What the core learned of them.
        counts: Labels of each annotator.
        width: q of the conformal bands.
        out_of_distribution: How far inputs like these lie from each other.
        versions: Of the judge, sorted; none where its endpoint does not say.
        history: (m, d) evidence of texts of which the judge gave all answers; NaN where something else is missing.
        of_turns: Whether the texts were single turns, not whole conversations.
    """

    columns: tuple[Column, ...]
    options: Floats
    levels: Levels
    counts: Mapping[str, int]
    width: float
    out_of_distribution: OutOfDistribution
    versions: tuple[str, ...]
    history: Floats
    of_turns: bool = False

    @classmethod
    def of(
        cls,
        features: EvidenceTable,
        rated: Ratings,
        levels: Levels,
        distributions: Floats,
        annotators: list[str],
        coverage: float,
    ) -> Self:
        """From the evaluator's own evidence, its ratings, and what its core said of each without its text."""
        return cls(
            columns=features.columns,
            options=rated.options,
            levels=levels,
            counts=rated.counts(annotators),
            width=band_width(rated.options, levels.fine(distributions), rated.value, coverage),
            out_of_distribution=OutOfDistribution.fit(features.take(np.unique(rated.row))),
            versions=tuple(judge_versions(features, rated)),
            history=_complete(features.take(np.unique(rated.row))),
            of_turns=all(target.turn is not None for target in rated.target),
        )

    @cached_property
    def made(self) -> str:
        """A short digest of how the evidence is made."""
        return content_hash(sorted(column.signature for column in self.columns), length=8)

    def texts(self) -> EvidenceTable:
        """The history as a table, without the texts' names."""
        names = tuple(Target(f"learned from {place}") for place in range(len(self.history)))
        present = np.isfinite(self.history)
        return EvidenceTable(names, self.columns, np.where(present, self.history, 0.0), present)

    def warnings(self, features: EvidenceTable) -> list[str | None]:
        """Why each row's score deserves less trust: unlike what was learned from, or judged by a changed judge."""
        found = []
        for target, unlike in zip(features.targets, self.out_of_distribution.warnings(features), strict=True):
            version = features.versions.get(target, "")
            strange = bool(version) and bool(self.versions) and version not in self.versions
            changed = f"{CHANGED_JUDGE} {version}, learned from {', '.join(self.versions)}" if strange else None
            found.append("; ".join(part for part in (changed, unlike) if part) or None)
        return found

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The same as JSON and arrays."""
        card = {
            "columns": [asdict(column) for column in self.columns],
            "counts": dict(self.counts),
            "width": self.width,
            "versions": list(self.versions),
            "of_turns": self.of_turns,
        }
        levels = {"level_of": self.levels.of, "share_within": self.levels.within}
        return card, {"options": self.options, **levels, "history": self.history, **self.out_of_distribution.arrays()}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        return cls(
            columns=tuple(Column(**column) for column in card["columns"]),
            options=arrays["options"],
            levels=Levels(arrays["level_of"], arrays["share_within"]),
            counts=dict(card["counts"]),
            width=card["width"],
            out_of_distribution=OutOfDistribution.from_arrays(arrays),
            versions=tuple(card["versions"]),
            history=arrays["history"],
            of_turns=card.get("of_turns", False),
        )


def judge_versions(evidence: EvidenceTable, rated: Ratings) -> list[str]:
    """Every version of the judge that answered about what was rated, sorted."""
    return sorted({version for target in rated.target if (version := evidence.versions.get(target, ""))})


def _complete(features: EvidenceTable) -> Floats:
    """(m, d) the rows with all answers, evenly spaced ones where they are more than `HISTORY`."""
    answers = [place for place, column in enumerate(features.columns) if column.question is not None]
    whole = np.flatnonzero(features.present[:, answers].all(axis=1))
    spaced = np.linspace(0, len(whole) - 1, min(len(whole), HISTORY)).astype(int)
    return np.asarray(matrix(features)[whole[spaced]])
