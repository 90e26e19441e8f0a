"""Evidence as a linear model's inputs: standardised columns, missing ones at their mean, meaning in few directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence.meaning import MEANING
from accord.evidence.table import Column, EvidenceTable

Floats = NDArray[np.float64]

DIRECTIONS = 24
"""Principal components of the meaning of replies that are looked at."""


@dataclass(frozen=True)
class Design:
    """How columns become inputs.

    Attributes:
        columns: The d plain columns that were learned from.
        mean: (d,) and `scale` (d,): each column is standardised by them; a missing value is its mean.
        meaning: The e columns of an embedder's vectors; none where there were none.
        centre: (e,) their mean.
        directions: (e, k) the first principal components, each divided by its standard deviation.
    """

    columns: tuple[Column, ...]
    mean: Floats
    scale: Floats
    meaning: tuple[Column, ...]
    centre: Floats
    directions: Floats

    @classmethod
    def fit(cls, evidence: EvidenceTable) -> Self:
        """What these rows ask for; columns that never vary, or are never there, are left out."""
        plain = [place for place, column in enumerate(evidence.columns) if not column.name.startswith(MEANING)]
        of_meaning = [place for place, column in enumerate(evidence.columns) if column.name.startswith(MEANING)]
        counts = np.maximum(evidence.present.sum(axis=0), 1)
        mean = evidence.values.sum(axis=0) / counts
        scale = np.sqrt((np.where(evidence.present, evidence.values - mean, 0.0) ** 2).sum(axis=0) / counts)
        kept = [place for place in plain if scale[place] > 0]
        known = evidence.present[:, of_meaning].all(axis=1) if of_meaning else np.zeros(len(evidence), dtype=bool)
        vectors = evidence.values[known][:, of_meaning]
        centre = vectors.mean(axis=0) if len(vectors) else np.zeros(len(of_meaning))
        return cls(
            tuple(evidence.columns[place] for place in kept), mean[kept], scale[kept],
            tuple(evidence.columns[place] for place in of_meaning), centre, _directions(vectors - centre),
        )  # fmt: skip

    def of(self, evidence: EvidenceTable) -> Floats:
        """(n, d + k) inputs; 0 stands for a column's mean.

        Raises:
            BadInput: A column is missing, or made otherwise than what was learned from.
        """
        plain, meaning = evidence.like(self.columns), evidence.like(self.meaning)
        values = np.where(plain.present, (plain.values - self.mean) / self.scale, 0.0)
        there = meaning.present.all(axis=1, keepdims=True)
        return np.hstack([values, np.where(there, (meaning.values - self.centre) @ self.directions, 0.0)])

    def to_json(self) -> dict[str, Any]:
        """The columns."""
        return {"columns": [_row(each) for each in self.columns], "meaning": [_row(each) for each in self.meaning]}

    def arrays(self) -> dict[str, Floats]:
        """The rest."""
        return {
            "design.mean": self.mean, "design.scale": self.scale, "design.centre": self.centre,
            "design.directions": self.directions,
        }  # fmt: skip

    @classmethod
    def restore(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of both."""
        columns, meaning = (tuple(Column(**row) for row in card[name]) for name in ("columns", "meaning"))
        mean, scale, centre, directions = (
            arrays[f"design.{name}"] for name in ("mean", "scale", "centre", "directions")
        )
        return cls(columns, mean, scale, meaning, centre, directions)


def _directions(centred: Floats) -> Floats:
    """(e, k) principal components that have any spread, scaled so that projections have a variance of 1."""
    if len(centred) < 2 or not centred.shape[1]:
        return np.zeros((centred.shape[1], 0))
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    kept = min(DIRECTIONS, int((spread > 1e-9).sum()))
    signs = np.sign(axes[np.arange(kept), np.abs(axes[:kept]).argmax(axis=1)])
    return np.asarray((axes[:kept] * signs[:, None]).T * np.sqrt(len(centred)) / spread[:kept])


def _row(column: Column) -> dict[str, Any]:
    return {"name": column.name, "made_by": column.made_by, "question": column.question, "option": column.option}
