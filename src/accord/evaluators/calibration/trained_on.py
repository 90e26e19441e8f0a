"""What a calibration learned from, as far as its scores need to know: evidence, people, versions, and how it erred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.conversation import Target, content_hash
from accord.evaluators.base import Arrays
from accord.evaluators.calibration.conformal import band_width
from accord.evaluators.calibration.core import matrix
from accord.evaluators.calibration.familiarity import Familiarity
from accord.evaluators.calibration.levels import Levels
from accord.evaluators.ratings import Ratings
from accord.evidence.table import Column, EvidenceTable

Floats = NDArray[np.float64]

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
        familiarity: How far inputs like these lie from each other.
        versions: Of the judge, sorted; none where its endpoint does not say.
        history: (m, d) evidence of texts of which the judge gave all answers; NaN where something else is missing.
        of_turns: Whether the texts were single turns, not whole conversations.
    """

    columns: tuple[Column, ...]
    options: Floats
    levels: Levels
    counts: Mapping[str, int]
    width: float
    familiarity: Familiarity
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
            familiarity=Familiarity.fit(features.take(np.unique(rated.row))),
            versions=tuple(judge_versions(features, rated)),
            history=_complete(features.take(np.unique(rated.row))),
            of_turns=all(target.turn is not None for target in rated.target),
        )

    @cached_property
    def made(self) -> str:
        """A short digest of how the evidence is made."""
        return content_hash(sorted(column.made_by for column in self.columns), length=8)

    def texts(self) -> EvidenceTable:
        """The history as a table, without the texts' names."""
        names = tuple(Target(f"learned from {place}") for place in range(len(self.history)))
        present = np.isfinite(self.history)
        return EvidenceTable(names, self.columns, np.where(present, self.history, 0.0), present)

    def warnings(self, features: EvidenceTable) -> list[str | None]:
        """Why each row's score deserves less trust: unlike what was learned from, or judged by a changed judge."""
        found = []
        for target, unlike in zip(features.targets, self.familiarity.warnings(features), strict=True):
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
        return card, {"options": self.options, **levels, "history": self.history, **self.familiarity.arrays()}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        return cls(
            columns=tuple(Column(**column) for column in card["columns"]),
            options=arrays["options"],
            levels=Levels(arrays["level_of"], arrays["share_within"]),
            counts=dict(card["counts"]),
            width=card["width"],
            familiarity=Familiarity.from_arrays(arrays),
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
