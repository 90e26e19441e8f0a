"""Evidence as a network's inputs: probabilities as they are, the rest standardised, missing groups marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.calibration.core import matrix
from accord.evaluators.calibration.mixed import standardisation
from accord.evidence.table import EvidenceTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Inputs:
    """How columns become inputs.

    Attributes:
        mean: (d,) subtracted from each column; 0 for the probability of an option.
        scale: (d,) each is divided by; 1 for the probability of an option.
        groups: (d,) the group of each column: the options of one question are there together or missing together.
        group: (G, d) the same as a table; G is 0 where nothing was ever missing, nor is hidden in training.
    """

    mean: Floats
    scale: Floats
    groups: NDArray[np.intp]
    group: Floats

    @classmethod
    def fit(cls, features: EvidenceTable, with_mask: bool) -> Self:
        """What the training rows ask for; `with_mask` marks missing groups even if none is missing here."""
        mean, scale = standardisation(matrix(features))
        is_chance = np.array([column.option is not None for column in features.columns], dtype=bool)
        names = [column.question if column.option is not None else column.name for column in features.columns]
        order = {name: place for place, name in enumerate(dict.fromkeys(names))}
        groups = np.array([order[name] for name in names], dtype=np.intp)
        masked = with_mask or not features.present.all()
        table = (np.arange(len(order))[:, None] == groups).astype(float) if masked else np.zeros((0, len(names)))
        return cls(np.where(is_chance, 0.0, mean), np.where(is_chance, 1.0, scale), groups, table)

    def of(self, features: EvidenceTable) -> tuple[Floats, Floats]:
        """Values (n, d), 0 where missing, and which groups are there (n, G)."""
        values = np.where(features.present, (features.values - self.mean) / self.scale, 0.0)
        if not len(self.group):
            return values, np.ones((len(values), 0))
        missing = ~features.present @ (self.group.T > 0)
        return values, 1.0 - missing.astype(float)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as arrays to save."""
        return {
            "inputs.mean": self.mean,
            "inputs.scale": self.scale,
            "inputs.groups": self.groups,
            "inputs.group": self.group,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `arrays`."""
        return cls(*(arrays[f"inputs.{name}"] for name in ("mean", "scale", "groups", "group")))
