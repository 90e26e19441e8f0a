"""Training data that scores refer to: columns, levels, bands, distance, and texts that complete missing evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from accord.evidence import Arrays, Column, EvidenceTable, Ratings, columns_from
from accord.learning.answer_models.contract import matrix
from accord.learning.calibration.bands import Bands
from accord.learning.calibration.distance import OutOfDistribution
from accord.learning.calibration.levels import ScaleLevels
from accord.values import Target

Floats = NDArray[np.float64]

HISTORY = 400
"""Largest number of texts whose evidence is stored, to complete missing evidence."""
DRAWN = 20
"""Number of stored texts that complete a row."""
_ROWS_AT_ONCE = 500
_MOST_PATTERNS = 1000
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
        bands: Widths of the conformal bands.
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
    bands: Bands
    out_of_distribution: OutOfDistribution
    versions: tuple[str, ...]
    history: Floats
    history_group: NDArray[np.intp]
    of_turns: bool = False

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
        kept = _complete(learned_from)
        group = np.unique(groups, return_inverse=True)[1][first]
        return cls(
            columns=features.columns,
            options=rated.options,
            levels=levels,
            counts=rated.counts(annotators),
            bands=Bands.fit(rated, distributions, raters, coverage),
            out_of_distribution=OutOfDistribution.fit(learned_from, [groups[row] for row in first]),
            versions=tuple(judge_versions(features, rated)),
            history=matrix(learned_from)[kept],
            history_group=group[kept],
            of_turns=all(target.turn is not None for target in rated.target),
        )

    def over_missing(self, features: EvidenceTable, predict: Predict) -> Floats:
        """Return (n, m) predictions, averaged over possible values of usual evidence that a row lacks.

            p(y | known) = 1/D Σ_d p(y | known, missing = value of training row d)

        Filling in the mean would leave the prediction as certain as with the value. Drawing from training rows adds
        the variance of the missing value and widens the band accordingly.
        """
        lacks = self.out_of_distribution.lacking(features)
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
        """Return the history as a table without names: a group is a conversation, a text is one of its turns."""
        names = tuple(Target(f"group {group}", place) for place, group in enumerate(self.history_group.tolist()))
        present = np.isfinite(self.history)
        return EvidenceTable(names, self.columns, np.where(present, self.history, 0.0), present)

    def bands_of(self, features: EvidenceTable, distributions: Floats, is_new: NDArray[np.bool_]) -> Floats:
        """Return (n, 2) the ends of each row's band; `is_new` (n,) is True for predictions for a new annotator."""
        is_lacking = np.asarray(self.out_of_distribution.lacking(features).any(axis=1))
        return self.bands.ends(self.options, distributions, is_new, is_lacking)

    def warnings(self, features: EvidenceTable, lacking: bool = True) -> list[str | None]:
        """Return a warning for each row, or None.

        A row gets one if it is out of distribution, lacks usual evidence (unless `lacking` is false), was judged by
        another version of the judge, or if there were too few groups for a band.
        """
        found = []
        unlike = self.out_of_distribution.warnings(features, lacking)
        for target, warning in zip(features.targets, unlike, strict=True):
            version = features.versions.get(target, "")
            strange = bool(version) and bool(self.versions) and version not in self.versions
            changed = f"{CHANGED_JUDGE} {version}, learned from {', '.join(self.versions)}" if strange else None
            found.append("; ".join(part for part in (changed, warning, self.bands.no_band) if part) or None)
        return found

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the reference as JSON and arrays."""
        bands = self.bands
        card = {
            "columns": [asdict(column) for column in self.columns],
            "counts": dict(self.counts),
            "quantile": bands.quantile if np.isfinite(bands.quantile) else None,
            "quantile_new": bands.quantile_new if np.isfinite(bands.quantile_new) else None,
            "groups": bands.groups,
            "band_annotators": bands.annotators,
            "coverage": bands.coverage,
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
        known, new = (float("inf") if each is None else each for each in (about.quantile, about.quantile_new))
        return cls(
            columns=columns_from(about.columns),
            options=arrays["options"],
            levels=ScaleLevels(arrays["level_of"], arrays["share_within"]),
            counts=about.counts,
            bands=Bands(known, new, about.groups, about.band_annotators, about.coverage),
            out_of_distribution=OutOfDistribution.from_arrays(arrays),
            versions=tuple(about.versions),
            history=arrays["history"],
            history_group=arrays.get("history_group", np.arange(len(arrays["history"]))),
            of_turns=about.of_turns,
        )


def judge_versions(evidence: EvidenceTable, rated: Ratings) -> list[str]:
    """Return the sorted versions of the judge that answered about rated targets."""
    return sorted({version for target in rated.target if (version := evidence.versions.get(target, ""))})


def _complete(features: EvidenceTable) -> NDArray[np.intp]:
    """Return (m,) the rows with all answers, evenly thinned to `HISTORY`."""
    answers = [place for place, column in enumerate(features.columns) if column.question is not None]
    whole = np.flatnonzero(features.present[:, answers].all(axis=1))
    spaced = np.linspace(0, len(whole) - 1, min(len(whole), HISTORY)).astype(int)
    return np.asarray(whole[spaced])
