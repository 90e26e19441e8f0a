"""Reference to the training data: levels of long scales, distance to training inputs, bands and warnings.

Answers on a long or real scale are reduced to a few levels for learning. A model gives each level a probability for
each annotator; inside a level the options keep the shares that all annotators together give them. Together they form a
piecewise density over the scale (LLM-RUBRIC, appendix B, asks for a parametric one; this one follows the data).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from accord.evidence import Arrays, Column, EvidenceTable, Ratings, by_row, columns_from
from accord.learning.answer_models.contract import matrix
from accord.learning.answer_models.mixed.layout import standardization
from accord.learning.calibration.conformal import (
    FEW_ANNOTATORS,
    band_quantile,
    bands,
    groups_needed,
    moments,
    new_annotator_factor,
)
from accord.statistics import fold_of, normal_quantile
from accord.values import Target

Floats = NDArray[np.float64]

MOST_LEVELS = 10
IMAGINED = 1.0
"""Imagined ratings in all, spread evenly over the options of a long scale, as in the constant model.

n ratings of K options give an option within a level a weight of its count + `IMAGINED` / K. The share of imagined
ratings is `IMAGINED` / (n + `IMAGINED`) on every scale, so that many options cannot outweigh few ratings.
"""


@dataclass(frozen=True)
class ScaleLevels:
    """Assignment of K options to L levels; with at most `MOST_LEVELS` options each one is a level.

    Attributes:
        of: (K,) level of each option, rising from 0 to L-1.
        within: (K,) share of each option in its level, summing to 1 in each level.
    """

    of: NDArray[np.intp]
    within: Floats

    @classmethod
    def fit(cls, rated: Ratings) -> ScaleLevels:
        """Return levels with about the same number of ratings each, and shares inside them with `IMAGINED` ratings."""
        options = len(rated.options)
        if options <= MOST_LEVELS:
            return cls(np.arange(options), np.ones(options))
        if not len(rated):
            of = np.arange(options) * MOST_LEVELS // options
            return cls(of, 1 / np.bincount(of)[of])
        ranks = np.arange(1, MOST_LEVELS) / MOST_LEVELS
        last = np.unique(np.quantile(rated.answer, ranks, method="higher"))
        inner = last[last < options - 1]
        of = np.searchsorted(inner if len(inner) else np.array([options // 2]), np.arange(options))
        counts = np.bincount(rated.answer, minlength=options) + IMAGINED / options
        return cls(of, counts / np.bincount(of, weights=counts)[of])

    def coarse(self, rated: Ratings) -> Ratings:
        """Return the ratings with levels as options; values stay unchanged."""
        if len(self.of) == self.of[-1] + 1:
            return rated
        middles = np.bincount(self.of, weights=self.within * rated.options).astype(float)
        return replace(rated, answer=self.of[rated.answer], options=middles)

    def fine(self, distributions: Floats) -> Floats:
        """Return (n, K) distributions over the options from (n, L) distributions over the levels."""
        return np.asarray(distributions[:, self.of] * self.within)


USUAL = 0.95
"""A row without a value gets a warning if at least this share of training rows has one."""
UNLIKE = "unlike the training data"
"""Words of the warning of a score whose evidence is out of distribution."""
IN_DISTRIBUTION = 0.99
"""Share of inputs like the training data that pass without a warning."""
_FEWEST = 20
_FOLDS = 5


def shrunk_covariance(Z: Floats) -> Floats:
    """Return (d, d) Σ = (1 - ρ)S + ρ·(tr S/d)·I, S = ZᵀZ/n, of n centered rows Z (n, d) (Ledoit & Wolf, 2004).

    ρ = min(b², δ²)/δ² with δ² = |S - (tr S/d)·I|² and b² = Σᵢ |zᵢzᵢᵀ - S|²/n².
    """
    rows, columns = Z.shape
    S = Z.T @ Z / rows
    sphere = np.trace(S) / columns * np.eye(columns)
    apart = float(((S - sphere) ** 2).sum())
    doubt = float((((Z**2).sum(axis=1) ** 2).mean() - (S**2).sum()) / rows)
    share = min(doubt, apart) / apart if apart > 0 else 0.0
    return np.asarray((1 - share) * S + share * sphere)


@dataclass(frozen=True)
class OutOfDistribution:
    """Mahalanobis distance to the training inputs, √(z'Σ⁻¹z) with Σ shrunk (Ledoit & Wolf, 2004).

    Attributes:
        mean: (d,) mean of the training inputs.
        scale: (d,) standard deviation of the training inputs.
        usual: (d,) True if nearly all training rows (`USUAL`) have a value; a row without it lacks evidence.
        precision: (d, d) Σ⁻¹ of the standardized inputs, with missing values at their mean.
        limit: Distance within which `IN_DISTRIBUTION` of the training inputs are, each measured from other groups.
    """

    mean: Floats
    scale: Floats
    precision: Floats
    limit: float
    usual: NDArray[np.bool_]

    @classmethod
    def fit(cls, features: EvidenceTable, group: Sequence[str]) -> Self:
        """Fit to the training rows, each of a group; with fewer than twenty rows no input is out of distribution."""
        X = matrix(features)
        whole = cls._of(X)
        if len(X) < _FEWEST or not X.shape[1] or len(set(group)) < 2:
            return whole
        place = fold_of(group, _FOLDS)
        fold = np.array([place[name] for name in group])
        apart = np.concatenate([cls._of(X[fold != each])._distance(X[fold == each]) for each in np.unique(fold)])
        return replace(whole, limit=float(np.quantile(apart, IN_DISTRIBUTION, method="higher")))

    @classmethod
    def _of(cls, X: Floats) -> Self:
        mean, scale = standardization(X)
        Z = np.nan_to_num((X - mean) / scale, nan=0.0)
        usual = np.isfinite(X).mean(axis=0) >= USUAL if len(X) else np.zeros(X.shape[1], dtype=bool)
        if not X.shape[1] or len(X) < 2:
            return cls(mean, scale, np.eye(X.shape[1]), float("inf"), usual)
        precision = np.asarray(np.linalg.pinv(shrunk_covariance(Z), hermitian=True), dtype=np.float64)
        return cls(mean, scale, precision, float("inf"), usual)

    def _distance(self, X: Floats) -> Floats:
        Z = (X - self.mean) / self.scale
        Z[np.isnan(Z)] = 0.0
        return np.asarray(np.sqrt(np.maximum((by_row(Z, self.precision) * Z).sum(axis=1), 0.0)))

    def warnings(self, features: EvidenceTable) -> list[str | None]:
        """Return a warning for each row that is out of distribution, None for the others."""
        distance = self._distance(matrix(features))
        return [self._said(each) if each > self.limit else None for each in distance]

    def _said(self, distance: float) -> str:
        return (
            f"{UNLIKE}: its evidence is {distance:.1f} away, {IN_DISTRIBUTION:.0%} of the training "
            f"data are within {self.limit:.1f}"
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays to save."""
        return {
            "distance.mean": self.mean,
            "distance.scale": self.scale,
            "distance.precision": self.precision,
            "distance.limit": np.array([self.limit] if np.isfinite(self.limit) else []),  # saved arrays are finite
            "distance.usual": self.usual.astype(np.float64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the distance from `arrays`."""
        mean, scale, precision = (np.asarray(arrays[f"distance.{name}"]) for name in ("mean", "scale", "precision"))
        limit = arrays["distance.limit"]
        return cls(
            mean, scale, precision, float(limit[0]) if len(limit) else float("inf"), arrays["distance.usual"] > 0
        )


HISTORY = 400
"""Largest number of texts whose evidence is stored, to complete missing evidence."""
DRAWN = 20
"""Number of stored texts that complete a row."""
_ROWS_AT_ONCE = 500
_MOST_PATTERNS = 1000
_NAMED = 3
Predict = Callable[[EvidenceTable, NDArray[np.intp]], Floats]
"""Return (n, m) predictions for a table, given the original row of each of its rows."""
CHANGED_JUDGE = "the judge answered as version"


class _ReferenceCard(BaseModel):
    """JSON of `TrainingReference.state`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    columns: list[dict[str, Any]]
    counts: dict[str, Annotated[int, Field(ge=0)]]
    quantile: float | None = Field(ge=0, allow_inf_nan=False)
    quantile_new: float | None = Field(ge=0, allow_inf_nan=False)
    groups: int = Field(ge=0)
    band_annotators: int | None = Field(default=None, ge=0)
    coverage: float = Field(gt=0, lt=1)
    versions: list[str]
    of_turns: bool = False


@dataclass(frozen=True)
class TrainingReference:
    """Facts about the training data of a fitted calibration.

    Attributes:
        columns: Evidence columns, by how they were computed.
        options: (K,) options of the main question.
        levels: Levels that the answer model learned.
        counts: Number of labels by annotator.
        quantile: q of the conformal bands for known annotators; ∞ if there are too few groups.
        quantile_new: q for a new annotator.
        groups: Number of groups that the bands rest on.
        band_annotators: Number of annotators that the bands rest on; None if an earlier version learned them.
        coverage: Coverage of the bands.
        out_of_distribution: Distance to the training inputs.
        versions: Sorted versions of the judge; empty if its API reports none.
        history: (m, d) evidence of texts with all answers of the judge; NaN for other missing values.
        history_group: (m,) group of each of these texts.
        of_turns: True if the texts were single turns.
    """

    columns: tuple[Column, ...]
    options: Floats
    levels: ScaleLevels
    counts: Mapping[str, int]
    quantile: float
    quantile_new: float
    out_of_distribution: OutOfDistribution
    versions: tuple[str, ...]
    history: Floats
    history_group: NDArray[np.intp]
    of_turns: bool = False
    groups: int = 0
    band_annotators: int | None = None
    coverage: float = 0.9

    @classmethod
    def of(
        cls,
        features: EvidenceTable,
        rated: Ratings,
        levels: ScaleLevels,
        distributions: tuple[Floats, Floats],
        annotators: list[str],
        raters: NDArray[np.object_],
        coverage: float,
    ) -> Self:
        """Return the reference of an evaluator's evidence and ratings.

        Args:
            features: Evidence that the answer model read.
            rated: n ratings.
            levels: Levels of the scale.
            distributions: (n, K) held-out distributions for each rating's annotator, and for a new one.
            annotators: Names of the annotators that the model learned from.
            raters: (n,) annotator of each rating, before annotators are pooled.
            coverage: Coverage of the bands.
        """
        rows, first = np.unique(rated.row, return_index=True)
        learned_from, groups = features.take(rows), [str(name) for name in rated.group]
        known, new = (band_quantile(rated.options, each, rated.value, coverage, groups) for each in distributions)
        mean, spread = moments(rated.options, distributions[1])
        new *= new_annotator_factor((rated.value - mean) / spread, raters, groups, coverage)
        kept = _complete(learned_from)
        group = np.unique(groups, return_inverse=True)[1][first]
        return cls(
            columns=features.columns,
            options=rated.options,
            levels=levels,
            counts=rated.counts(annotators),
            quantile=known,
            quantile_new=new,
            out_of_distribution=OutOfDistribution.fit(learned_from, [groups[row] for row in first]),
            versions=tuple(judge_versions(features, rated)),
            history=matrix(learned_from)[kept],
            history_group=group[kept],
            of_turns=all(target.turn is not None for target in rated.target),
            groups=len(set(groups)),
            band_annotators=len(set(raters)),
            coverage=coverage,
        )

    def over_missing(self, features: EvidenceTable, predict: Predict) -> Floats:
        """Return (n, m) predictions, averaged over possible values of usual evidence that a row lacks.

            p(y | known) = 1/D Σ_d p(y | known, missing = that of training row d)

        Filling in the mean would leave the prediction as certain as with the value. Drawing from training rows adds
        the variance of the missing value and widens the band accordingly.
        """
        lacks = self.lacking(features)
        patterns: dict[bytes, list[int]] = {}
        if lacks.any():
            for row in np.flatnonzero(lacks.any(axis=1) & features.present.any(axis=1)).tolist():
                patterns.setdefault(lacks[row].tobytes(), []).append(row)
        patterns = {pattern: rows for pattern, rows in patterns.items() if len(self._draws(pattern))}
        replaced = {row for rows in patterns.values() for row in rows}
        whole = np.array([row for row in range(len(features)) if row not in replaced], dtype=np.intp)
        if not replaced:
            return predict(features, whole)
        parts = [(whole, predict(features.take(whole), whole))] if len(whole) else []
        for pattern, rows in patterns.items():
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                part = np.array(rows[start : start + _ROWS_AT_ONCE], dtype=np.intp)
                parts.append((part, self._averaged(features, part, pattern, predict)))
        if len(parts) == 1:
            return parts[0][1]
        found = np.empty((len(features), parts[0][1].shape[1]))
        for rows_of_part, predicted in parts:
            found[rows_of_part] = predicted
        return found

    def _averaged(self, features: EvidenceTable, rows: NDArray[np.intp], pattern: bytes, predict: Predict) -> Floats:
        """Average predictions over draws of the evidence that rows lack by one pattern."""
        drawn, lacking = self._draws(pattern), np.frombuffer(pattern, dtype=bool)
        again = rows.repeat(len(drawn))
        values, present = features.values[again], features.present[again]
        values.reshape(len(rows), len(drawn), -1)[:, :, lacking], present[:, lacking] = drawn, True
        targets = tuple([features.targets[row] for row in again.tolist()])
        table = EvidenceTable(
            targets, features.columns, values, present, features.absences, features.versions, features.notes,
            features.metadata,
        )  # fmt: skip
        predicted = predict(table, again).reshape(len(rows), len(drawn), -1)
        return np.asarray(np.add.reduce(predicted, axis=1) / len(drawn))

    def _draws(self, pattern: bytes) -> Floats:
        """Return (D, k) values of training rows for the k columns of a pattern; D is at most `DRAWN`."""
        drawn = self._known_draws.get(pattern)
        if drawn is None:
            known = self.history[:, np.frombuffer(pattern, dtype=bool)]
            known = known[np.isfinite(known).all(axis=1)]
            places = np.linspace(0, len(known) - 1, min(len(known), DRAWN)).astype(int)
            if len(self._known_draws) >= _MOST_PATTERNS:
                self._known_draws.clear()
            drawn = self._known_draws[pattern] = known[places]
        return drawn

    @cached_property
    def _known_draws(self) -> dict[bytes, Floats]:
        return {}

    def texts(self) -> EvidenceTable:
        """Return the history as a table without names: a group is a conversation, a text is a turn of it."""
        names = tuple(Target(f"group {group}", place) for place, group in enumerate(self.history_group.tolist()))
        present = np.isfinite(self.history)
        return EvidenceTable(names, self.columns, np.where(present, self.history, 0.0), present)

    def bands(self, features: EvidenceTable, distributions: Floats, is_new: NDArray[np.bool_]) -> Floats:
        """Return (n, 2) the band of each row; a row that lacks usual evidence gets at least a normal interval.

        `is_new` (n,) is True for predictions for a new annotator.

        q was measured on complete rows, so it does not apply to distributions that are wide because evidence is
        missing.
        """
        is_lacking = self.lacking(features).any(axis=1)
        quantile = np.where(is_new, self.quantile_new, self.quantile)
        least = float(normal_quantile((1 + self.coverage) / 2))
        return bands(self.options, distributions, np.where(is_lacking, np.maximum(quantile, least), quantile))

    def lacking(self, features: EvidenceTable) -> NDArray[np.bool_]:
        """Return (n, d) True for missing values that nearly all training rows had."""
        return np.asarray(~features.present & self.out_of_distribution.usual)

    def warnings(self, features: EvidenceTable, lacking: bool = True) -> list[str | None]:
        """Return a warning for each row, or None.

        A row gets one if it is out of distribution, lacks usual evidence (unless `lacking` is false), was judged by
        another version of the judge, or if there were too few groups for a band.
        """
        found = []
        lacks = self.lacking(features) & lacking
        is_lacking = np.asarray(lacks.any(axis=1)).tolist()
        for row, (target, unlike) in enumerate(
            zip(features.targets, self.out_of_distribution.warnings(features), strict=True)
        ):
            version = features.versions.get(target, "")
            missing = None
            if is_lacking[row]:
                places = np.flatnonzero(lacks[row]).tolist()
                missing = _named([features.columns[p].question or features.columns[p].name for p in places])
            strange = bool(version) and bool(self.versions) and version not in self.versions
            changed = f"{CHANGED_JUDGE} {version}, learned from {', '.join(self.versions)}" if strange else None
            found.append("; ".join(part for part in (changed, missing, unlike, self.no_band) if part) or None)
        return found

    @property
    def no_band(self) -> str | None:
        """Reason why the band is the whole scale, or None."""
        if np.isfinite(self.quantile):
            return None
        return (
            f"its band is the whole scale: a {self.coverage:.0%} band needs {groups_needed(self.coverage)} groups, "
            f"learned from {self.groups}"
        )

    @property
    def few_annotators(self) -> str | None:
        """Sentence on the bands for new annotators if they rest on few annotators, or None."""
        count = self.band_annotators
        if self.no_band or count is None or not 0 < count < FEW_ANNOTATORS:
            return None
        return (
            f"Bands for a new annotator are learned from {count} annotator{'s' if count > 1 else ''}, so they may hold "
            f"less often than {self.coverage:.0%}; with {FEW_ANNOTATORS} annotators the ratings show how much "
            "annotators differ"
        )

    def describe(self) -> dict[str, Any]:
        """Return the band as JSON."""
        if self.no_band:
            return {"band_quantile": None, "band": self.no_band}
        found = {"band_quantile": self.quantile, "band_quantile_new": self.quantile_new}
        return {**found, **({"band_new": self.few_annotators} if self.few_annotators else {})}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the reference as JSON and arrays."""
        card = {
            "columns": [asdict(column) for column in self.columns],
            "counts": dict(self.counts),
            "quantile": self.quantile if np.isfinite(self.quantile) else None,
            "quantile_new": self.quantile_new if np.isfinite(self.quantile_new) else None,
            "groups": self.groups,
            "band_annotators": self.band_annotators,
            "coverage": self.coverage,
            "versions": list(self.versions),
            "of_turns": self.of_turns,
        }
        levels = {"level_of": self.levels.of, "share_within": self.levels.within}
        history = {"history": self.history, "history_group": self.history_group}
        return card, {"options": self.options, **levels, **history, **self.out_of_distribution.arrays()}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the reference from `state`.

        Raises:
            ValueError: The card or an array has a wrong type or shape.
        """
        about = _ReferenceCard.model_validate(card)
        return cls(
            columns=columns_from(about.columns),
            options=arrays["options"],
            levels=ScaleLevels(arrays["level_of"], arrays["share_within"]),
            counts=about.counts,
            quantile=float("inf") if about.quantile is None else about.quantile,
            quantile_new=float("inf") if about.quantile_new is None else about.quantile_new,
            groups=about.groups,
            band_annotators=about.band_annotators,
            coverage=about.coverage,
            out_of_distribution=OutOfDistribution.from_arrays(arrays),
            versions=tuple(about.versions),
            history=arrays["history"],
            history_group=arrays.get("history_group", np.arange(len(arrays["history"]))),
            of_turns=about.of_turns,
        )


def _named(names: Sequence[str]) -> str:
    """Return a sentence on missing evidence that names a few columns."""
    lacking = list(dict.fromkeys(names))
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    return f"lacks evidence that nearly all of the training data had: {', '.join(lacking[:_NAMED])}{more}"


def judge_versions(evidence: EvidenceTable, rated: Ratings) -> list[str]:
    """Return the sorted versions of the judge that answered about rated targets."""
    return sorted({version for target in rated.target if (version := evidence.versions.get(target, ""))})


def _complete(features: EvidenceTable) -> NDArray[np.intp]:
    """Return (m,) the rows with all answers, evenly thinned to `HISTORY`."""
    answers = [place for place, column in enumerate(features.columns) if column.question is not None]
    whole = np.flatnonzero(features.present[:, answers].all(axis=1))
    spaced = np.linspace(0, len(whole) - 1, min(len(whole), HISTORY)).astype(int)
    return np.asarray(whole[spaced])
