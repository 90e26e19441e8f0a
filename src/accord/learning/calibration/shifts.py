"""Group shifts that remove the bias of each audited group's mean score (multicalibration; LLM-RUBRIC, footnote 17).

    p'(y) ∝ p(y)·exp(λ·y),   λ = Σ over the groups of a conversation,   λ_group ~ N(0, τ²)

At the most likely λ the mean prediction of each group equals its mean rating, up to shrinkage (Hébert-Johnson et al.,
2018; a tilt instead of an addition, so that predictions stay on the scale). τ² is estimated from the differences
between groups beyond their standard errors over conversations (DerSimonian & Laird, 1986). λ is learned from
predictions made without the rating's group, and applies to conversations that name the group's attribute; all others
stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings

Floats = NDArray[np.float64]

FEWEST_TEXTS = 10
"""Smallest number of rated texts for a group to be shifted."""
JUDGE_VERSION = "judge-version"
"""Groups by the version of the judge; every other name is an entry of the conversation's metadata."""
_STEPS = 50
_TINY = 1e-12


@dataclass(frozen=True)
class GroupShifts:
    """Tilt of each group's distributions; empty if groups do not differ.

    Attributes:
        tilts: λ per unit of the scale, by attribute and group.
        worst: Largest |mean prediction - mean rating| of a group by attribute, on held-out ratings: before the shift,
            and with tilts learned from the other inner folds.
    """

    tilts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    worst: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def learn(
        cls,
        by: Sequence[str],
        evidence: EvidenceTable,
        rated: Ratings,
        shares: tuple[Floats, Floats],
        fold: NDArray[np.intp],
    ) -> tuple[Self, tuple[Floats, Floats]]:
        """Learn the tilts from n ratings.

        Args:
            by: Attributes that define groups.
            evidence: Evidence of the ratings.
            rated: Ratings.
            shares: (n, K) distributions predicted without the rating's group: for its annotator, which the tilts are
                learned from, and for a new annotator.
            fold: (n,) inner fold of each rating.

        Returns:
            The shifts, and both distributions with the shifts of the other folds applied.
        """
        named = {name: large for name in by if (large := _large(groups_in(evidence, name)[rated.row], rated))}
        if not named:
            return cls(), shares
        belongs = np.column_stack([fold_index for large in named.values() for fold_index in large.values()]).astype(
            float
        )
        attribute = np.repeat(np.arange(len(named)), [len(large) for large in named.values()])
        known, tilt = shares[0], np.zeros(len(rated))
        for fold_index in np.unique(fold):
            seen, rest = np.flatnonzero(fold != fold_index), fold == fold_index
            tilt[rest] = belongs[rest] @ _likeliest(rated.take(seen), known[seen], belongs[seen], attribute)
        shifted = (tilted(rated.options, known, tilt), tilted(rated.options, shares[1], tilt))
        tilts = iter(_likeliest(rated, known, belongs, attribute).tolist())
        worst = {name: (_worst(rated, known, large), _worst(rated, shifted[0], large)) for name, large in named.items()}
        return cls({name: dict(zip(large, tilts, strict=False)) for name, large in named.items()}, worst), shifted

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Entries of the metadata by which some group is shifted."""
        return tuple(by for by, own in self.tilts.items() if by != JUDGE_VERSION and any(own.values()))

    def apply(self, evidence: EvidenceTable, options: Floats, shares: Floats) -> Floats:
        """Return (n, K) the distributions, tilted by the groups that each row's conversation names."""
        tilt = np.zeros(len(evidence))
        for by, own in self.tilts.items():
            tilt += [own.get(name, 0.0) for name in groups_in(evidence, by)]
        return tilted(options, shares, tilt) if tilt.any() else shares

    def scaled(self, by: float) -> GroupShifts:
        """Return the shifts with each tilt multiplied by a number."""
        scaled = {name: {group: by * tilt for group, tilt in own.items()} for name, own in self.tilts.items()}
        return replace(self, tilts=scaled)

    def lines(self) -> list[str]:
        """Return a sentence for each attribute with shifts."""
        return [
            f"Scores are shifted by {by}: on held-out ratings the mean of one {by} was off by up to {before:.2f}, "
            f"now by {after:.2f}"
            for by, (before, after) in self.worst.items()
            if any(self.tilts[by].values())
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the tilts and the audit."""
        return {"tilts": {by: dict(own) for by, own in self.tilts.items()},
                "worst": {by: list(pair) for by, pair in self.worst.items()}}  # fmt: skip

    @classmethod
    def from_json(cls, result: Mapping[str, Any]) -> Self:
        """Return the shifts from `to_json`."""
        tilts = {by: {group: float(tilt) for group, tilt in own.items()} for by, own in result["tilts"].items()}
        return cls(tilts, {by: (float(before), float(after)) for by, (before, after) in result["worst"].items()})


def groups_in(evidence: EvidenceTable, by: str) -> NDArray[np.object_]:
    """Return (n,) the group that each row names; "" for none."""
    if by == JUDGE_VERSION:
        return np.array([evidence.versions.get(target) or "" for target in evidence.targets], dtype=object)
    result = [evidence.metadata.get(target, {}).get(by) for target in evidence.targets]
    return np.array(["" if name is None else str(name) for name in result], dtype=object)


def tilted(options: Floats, shares: Floats, tilt: Floats) -> Floats:
    """Return (n, K) distributions ∝ p(y)·exp(λ·y), with (n,) λ."""
    weight = shares * np.exp(tilt[:, None] * (options - options.mean()))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _large(names: NDArray[np.object_], rated: Ratings) -> dict[str, NDArray[np.bool_]]:
    """Return the ratings of each group with at least `FEWEST_TEXTS` texts.

    The result is empty if there are fewer than two such groups.
    """
    result = {name: names == name for name in sorted(set(names) - {""})}
    large = {name: in_group for name, in_group in result.items() if len(set(rated.text[in_group])) >= FEWEST_TEXTS}
    return large if len(large) > 1 else {}


def _worst(rated: Ratings, shares: Floats, groups: Mapping[str, NDArray[np.bool_]]) -> float:
    error = shares @ rated.options - rated.value
    return max(abs(float(error[in_group].mean())) for in_group in groups.values())


def _likeliest(rated: Ratings, shares: Floats, belongs: Floats, attribute: NDArray[np.intp]) -> Floats:
    """Return (G,) tilts that maximize the penalized likelihood, by Newton's method.

    Ratings of one conversation are dependent. The likelihood is divided by the ratio of the variance of a group's total
    error over conversations to its variance for independent ratings.
    """
    slope, curve = _likelihood(rated, shares, belongs)
    own = np.maximum(np.diag(curve), _TINY)
    _, of = np.unique(rated.group.astype(str), return_inverse=True)
    totals = np.zeros((int(of.max()) + 1, len(own)))
    np.add.at(totals, of, belongs * (rated.value - shares @ rated.options)[:, None])
    inflation = max(1.0, float(np.mean((totals**2).sum(axis=0) / own)))
    first, error = slope / own, inflation / own
    variance = np.zeros(len(own))
    for fold_index in np.unique(attribute):
        in_group = attribute == fold_index
        beyond = (first[in_group] ** 2 / error[in_group]).sum() - in_group.sum()
        variance[in_group] = max(beyond, 0.0) / (1 / error[in_group]).sum()
    tilts, moves = np.zeros(len(own)), variance > 0
    for _ in range(_STEPS if moves.any() else 0):
        slope, curve = _likelihood(rated, tilted(rated.options, shares, belongs @ tilts), belongs)
        precision = np.diag(1 / variance[moves])
        pull = slope[moves] / inflation - precision @ tilts[moves]
        step = np.linalg.solve(curve[np.ix_(moves, moves)] / inflation + precision, pull)
        tilts[moves] += step
        if np.abs(step).max() * np.ptp(rated.options) < 1e-6:
            break
    return tilts


def _likelihood(rated: Ratings, shares: Floats, belongs: Floats) -> tuple[Floats, Floats]:
    """Return the gradient (G,) of the log likelihood by the tilts, and its negative curvature (G, G)."""
    mean = shares @ rated.options
    variance = shares @ rated.options**2 - mean**2
    return belongs.T @ (rated.value - mean), belongs.T @ (variance[:, None] * belongs)
