"""Answers on a long or real scale as a few levels: what a core learns, and the way back to every option.

A core gives each level a probability for each annotator; inside a level the options keep the shares that all
annotators together give them. The two make a piecewise density over the scale (LLM-RUBRIC, appendix B, asks for a
parametric one; this one follows the data).
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
from accord.learning.answer_model import matrix
from accord.learning.conformal import band_quantile, bands, groups_needed
from accord.learning.rating_layout import standardization
from accord.statistics import fold_of, normal_quantile
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


USUAL = 0.95
"""Evidence that so large a share of the training rows had is missed where it is missing."""
IN_DISTRIBUTION = 0.99
"""Share of inputs like the training data that pass without a warning."""
_FEWEST = 20
_FOLDS = 5


def shrunk_covariance(Z: Floats) -> Floats:
    """(d, d) Σ = (1 - ρ)S + ρ·(tr S/d)·I, S = ZᵀZ/n, of n centred rows Z (n, d) (Ledoit & Wolf, 2004).

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
        mean: (d,) of the training inputs.
        scale: (d,) their standard deviations.
        usual: (d,) whether nearly all training rows (`USUAL`) had it: a row without it lacks something.
        precision: (d, d) Σ⁻¹ of the standardised inputs; missing ones are their mean.
        limit: The distance within which `FAMILIAR` of the training inputs lie, each measured from the others.
    """

    mean: Floats
    scale: Floats
    precision: Floats
    limit: float
    usual: NDArray[np.bool_]

    @classmethod
    def fit(cls, features: EvidenceTable, group: Sequence[str]) -> Self:
        """Of the rows that were learned from, each of a group; with fewer than twenty nothing is called unlike."""
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
            "familiar.limit": np.array([self.limit] if np.isfinite(self.limit) else []),  # what is saved is finite
            "familiar.usual": self.usual.astype(np.float64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `arrays`."""
        mean, scale, precision = (np.asarray(arrays[f"familiar.{name}"]) for name in ("mean", "scale", "precision"))
        limit = arrays["familiar.limit"]
        return cls(
            mean, scale, precision, float(limit[0]) if len(limit) else float("inf"), arrays["familiar.usual"] > 0
        )


HISTORY = 400
"""The most texts whose evidence is kept, to guess from them what is missing."""
DRAWN = 20
"""How many of them stand for what a row lacks."""
_ROWS_AT_ONCE = 500
_MOST_PATTERNS = 1000
_NAMED = 3
Predict = Callable[[EvidenceTable, NDArray[np.intp]], Floats]
"""(n, m) of a table, given for each of its rows which row of the first table it is."""
CHANGED_JUDGE = "the judge answered as version"


class _TrainedOnCard(BaseModel):
    """The JSON of `TrainingReference.state`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    columns: list[dict[str, Any]]
    counts: dict[str, Annotated[int, Field(ge=0)]]
    quantile: float | None = Field(ge=0, allow_inf_nan=False)
    groups: int = Field(ge=0)
    coverage: float = Field(gt=0, lt=1)
    versions: list[str]
    of_turns: bool = False


@dataclass(frozen=True)
class TrainingReference:
    """The training side of a fitted calibration.

    Attributes:
        columns: The evidence, by how it was made.
        options: (K,) of the main question.
        levels: What the core learned of them.
        counts: Labels of each annotator.
        quantile: q of the conformal bands; ∞ where there are too few groups for one.
        groups: How many groups the band rests on.
        coverage: Of the bands.
        out_of_distribution: How far inputs like these lie from each other.
        versions: Of the judge, sorted; none where its endpoint does not say.
        history: (m, d) evidence of texts of which the judge gave all answers; NaN where something else is missing.
        history_group: (m,) which of these texts belong together.
        of_turns: Whether the texts were single turns, not whole conversations.
    """

    columns: tuple[Column, ...]
    options: Floats
    levels: Levels
    counts: Mapping[str, int]
    quantile: float
    out_of_distribution: OutOfDistribution
    versions: tuple[str, ...]
    history: Floats
    history_group: NDArray[np.intp]
    of_turns: bool = False
    groups: int = 0
    coverage: float = 0.9

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
        """From the evaluator's own evidence, its ratings, and (n, K) what was said of each without its group."""
        rows, first = np.unique(rated.row, return_index=True)
        learned_from, groups = features.take(rows), [str(name) for name in rated.group]
        kept = _complete(learned_from)
        group = np.unique(groups, return_inverse=True)[1][first]
        return cls(
            columns=features.columns,
            options=rated.options,
            levels=levels,
            counts=rated.counts(annotators),
            quantile=band_quantile(rated.options, distributions, rated.value, coverage, groups),
            out_of_distribution=OutOfDistribution.fit(learned_from, [groups[row] for row in first]),
            versions=tuple(judge_versions(features, rated)),
            history=matrix(learned_from)[kept],
            history_group=group[kept],
            of_turns=all(target.turn is not None for target in rated.target),
            groups=len(set(groups)),
            coverage=coverage,
        )

    def over_missing(self, features: EvidenceTable, predict: Predict) -> Floats:
        """(n, m) what `predict` says, averaged over what usual evidence that a row lacks might be.

            p(y | known) = 1/D Σ_d p(y | known, missing = that of training row d)

        A mean put in its place would leave the prediction as sure as if it were known; draws from the training rows
        add the variance of what is missing, so that the band widens by what it could have said.
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

    @cached_property
    def made(self) -> str:
        """A short digest of how the evidence is made."""
        return content_hash(sorted(column.signature for column in self.columns), length=8)

    def texts(self) -> EvidenceTable:
        """The history as a table, without the texts' names: a group of them is a conversation, a text a turn of it."""
        names = tuple(Target(f"group {group}", place) for place, group in enumerate(self.history_group.tolist()))
        present = np.isfinite(self.history)
        return EvidenceTable(names, self.columns, np.where(present, self.history, 0.0), present)

    def bands(self, features: EvidenceTable, distributions: Floats) -> Floats:
        """(n, 2) each row's band; one that lacks usual evidence reaches at least as far as a normal's would.

        q was measured on rows that lack nothing: of a distribution that is wide for want of evidence it says nothing.
        """
        is_lacking = self.lacking(features).any(axis=1)
        return bands(self.options, distributions, np.where(is_lacking, self._normal_quantile, self.quantile))

    @cached_property
    def _normal_quantile(self) -> float:
        return max(self.quantile, float(normal_quantile((1 + self.coverage) / 2)))

    def lacking(self, features: EvidenceTable) -> NDArray[np.bool_]:
        """(n, d) what each row lacks of the evidence that nearly all training rows had."""
        return np.asarray(~features.present & self.out_of_distribution.usual)

    def warnings(self, features: EvidenceTable, lacking: bool = True) -> list[str | None]:
        """Why each row's score deserves less trust.

        It is unlike what was learned from, lacks what nearly all of that had (unless `lacking` is false), was judged by
        a changed judge, or there were too few groups for a band.
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
        """Why the band is the whole scale, where it is."""
        if np.isfinite(self.quantile):
            return None
        return (
            f"its band is the whole scale: a {self.coverage:.0%} band takes {groups_needed(self.coverage)} groups, "
            f"learned from {self.groups}"
        )

    def describe(self) -> dict[str, Any]:
        """The band, as JSON."""
        if self.no_band:
            return {"band_quantile": None, "band": self.no_band}
        return {"band_quantile": self.quantile}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The same as JSON and arrays."""
        card = {
            "columns": [asdict(column) for column in self.columns],
            "counts": dict(self.counts),
            "quantile": self.quantile if np.isfinite(self.quantile) else None,
            "groups": self.groups,
            "coverage": self.coverage,
            "versions": list(self.versions),
            "of_turns": self.of_turns,
        }
        levels = {"level_of": self.levels.of, "share_within": self.levels.within}
        history = {"history": self.history, "history_group": self.history_group}
        return card, {"options": self.options, **levels, **history, **self.out_of_distribution.arrays()}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`.

        Raises:
            ValueError: The card or an array is of another type or shape.
        """
        about = _TrainedOnCard.model_validate(card)
        return cls(
            columns=columns_from(about.columns),
            options=arrays["options"],
            levels=Levels(arrays["level_of"], arrays["share_within"]),
            counts=about.counts,
            quantile=float("inf") if about.quantile is None else about.quantile,
            groups=about.groups,
            coverage=about.coverage,
            out_of_distribution=OutOfDistribution.from_arrays(arrays),
            versions=tuple(about.versions),
            history=arrays["history"],
            history_group=arrays.get("history_group", np.arange(len(arrays["history"]))),
            of_turns=about.of_turns,
        )


def _named(names: Sequence[str]) -> str:
    """What a row lacks, by name as far as few words can say it."""
    lacking = list(dict.fromkeys(names))
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    return f"lacks evidence that nearly all of the training data had: {', '.join(lacking[:_NAMED])}{more}"


def judge_versions(evidence: EvidenceTable, rated: Ratings) -> list[str]:
    """Every version of the judge that answered about what was rated, sorted."""
    return sorted({version for target in rated.target if (version := evidence.versions.get(target, ""))})


def _complete(features: EvidenceTable) -> NDArray[np.intp]:
    """(m,) the rows with all answers, evenly spaced ones where they are more than `HISTORY`."""
    answers = [place for place, column in enumerate(features.columns) if column.question is not None]
    whole = np.flatnonzero(features.present[:, answers].all(axis=1))
    spaced = np.linspace(0, len(whole) - 1, min(len(whole), HISTORY)).astype(int)
    return np.asarray(whole[spaced])
