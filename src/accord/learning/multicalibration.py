"""Scores that are right on the mean for every audited group (multicalibration: LLM-RUBRIC, footnote 17).

    p'(y) ∝ p(y)·exp(λ·y),   λ = Σ of the groups that a conversation belongs to,   λ_group ~ N(0, τ²)

At the likeliest λ the ratings of each group are on the mean what is predicted of them (Hébert-Johnson and others, 2018;
a tilt in place of an addition, so that no prediction leaves the scale), but for the shrinkage: τ² is by what the groups
differ beyond their standard errors over conversations (DerSimonian & Laird, 1986). Where that is nothing, nothing is
shifted. λ is learned from predictions made without the rating's group, and used where a conversation itself names what
the groups are made by; all others stay as they are.
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
"""A group of fewer rated texts is left as it is."""
JUDGE_VERSION = "judge-version"
"""Groups by which version of the judge answered; every other name is an entry of the conversation's metadata."""
_STEPS = 50
_TINY = 1e-12


@dataclass(frozen=True)
class GroupShifts:
    """How the scores of each group are tilted; not at all where groups do not differ.

    Attributes:
        tilts: λ, per unit of the scale: by what groups are made by, then by group.
        worst: By what groups are made by, the largest |mean prediction - mean rating| of a group, of ratings predicted
            without their conversations: as the core predicts, and with tilts learned from the other inner folds.
    """

    tilts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    worst: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def learn(
        cls, by: Sequence[str], evidence: EvidenceTable, rated: Ratings, shares: Floats, fold: NDArray[np.intp]
    ) -> tuple[Self, Floats]:
        """Learn from n ratings.

        Args:
            by: What groups are made by.
            evidence: That the ratings are of.
            rated: The ratings.
            shares: (n, K) each rating's distribution, predicted without its group.
            fold: (n,) the inner fold of each rating.

        Returns:
            The shifts, and (n, K) the distributions shifted by what the other folds say.
        """
        named = {name: large for name in by if (large := _large(groups_in(evidence, name)[rated.row], rated))}
        if not named:
            return cls(), shares
        belongs = np.column_stack([each for large in named.values() for each in large.values()]).astype(float)
        attribute = np.repeat(np.arange(len(named)), [len(large) for large in named.values()])
        shifted = shares.copy()
        for each in np.unique(fold):
            seen, rest = np.flatnonzero(fold != each), fold == each
            found = _likeliest(rated.take(seen), shares[seen], belongs[seen], attribute)
            shifted[rest] = tilted(rated.options, shares[rest], belongs[rest] @ found)
        tilts = iter(_likeliest(rated, shares, belongs, attribute).tolist())
        worst = {name: (_worst(rated, shares, large), _worst(rated, shifted, large)) for name, large in named.items()}
        return cls({name: dict(zip(large, tilts, strict=False)) for name, large in named.items()}, worst), shifted

    def apply(self, evidence: EvidenceTable, options: Floats, shares: Floats) -> Floats:
        """(n, K) the distributions of n rows, tilted by the groups that each row's conversation names."""
        tilt = np.zeros(len(evidence))
        for by, own in self.tilts.items():
            tilt += [own.get(name, 0.0) for name in groups_in(evidence, by)]
        return tilted(options, shares, tilt) if tilt.any() else shares

    def scaled(self, by: float) -> GroupShifts:
        """The same, each tilt times a number."""
        scaled = {name: {group: by * tilt for group, tilt in own.items()} for name, own in self.tilts.items()}
        return replace(self, tilts=scaled)

    def lines(self) -> list[str]:
        """What was shifted, a sentence for each way to make groups."""
        return [
            f"Scores are shifted by {by}: on held-out ratings the mean of one {by} was off by up to {before:.2f}, "
            f"now by {after:.2f}"
            for by, (before, after) in self.worst.items()
            if any(self.tilts[by].values())
        ]

    def to_json(self) -> dict[str, Any]:
        """The tilts and the audit."""
        return {"tilts": {by: dict(own) for by, own in self.tilts.items()},
                "worst": {by: list(pair) for by, pair in self.worst.items()}}  # fmt: skip

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        tilts = {by: {group: float(tilt) for group, tilt in own.items()} for by, own in found["tilts"].items()}
        return cls(tilts, {by: (float(before), float(after)) for by, (before, after) in found["worst"].items()})


def groups_in(evidence: EvidenceTable, by: str) -> NDArray[np.object_]:
    """(n,) the group that each row names; "" for none."""
    if by == JUDGE_VERSION:
        return np.array([evidence.versions.get(target) or "" for target in evidence.targets], dtype=object)
    found = [evidence.metadata.get(target, {}).get(by) for target in evidence.targets]
    return np.array(["" if name is None else str(name) for name in found], dtype=object)


def tilted(options: Floats, shares: Floats, tilt: Floats) -> Floats:
    """(n, K) distributions ∝ p(y)·exp(λ·y), with (n,) λ."""
    weight = shares * np.exp(tilt[:, None] * (options - options.mean()))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _large(names: NDArray[np.object_], rated: Ratings) -> dict[str, NDArray[np.bool_]]:
    """Which ratings belong to each group of `FEWEST_TEXTS` texts or more; none where there are not two such groups."""
    found = {name: names == name for name in sorted(set(names) - {""})}
    large = {name: mine for name, mine in found.items() if len(set(rated.text[mine])) >= FEWEST_TEXTS}
    return large if len(large) > 1 else {}


def _worst(rated: Ratings, shares: Floats, groups: Mapping[str, NDArray[np.bool_]]) -> float:
    error = shares @ rated.options - rated.value
    return max(abs(float(error[mine].mean())) for mine in groups.values())


def _likeliest(rated: Ratings, shares: Floats, belongs: Floats, attribute: NDArray[np.intp]) -> Floats:
    """(G,) the tilts with the highest penalised likelihood, by Newton's method.

    Ratings of one conversation depend on each other: the likelihood counts for as much less as the variance of a
    group's total error over conversations is more than that of independent ratings.
    """
    slope, curve = _likelihood(rated, shares, belongs)
    own = np.maximum(np.diag(curve), _TINY)
    _, of = np.unique(rated.group.astype(str), return_inverse=True)
    totals = np.zeros((int(of.max()) + 1, len(own)))
    np.add.at(totals, of, belongs * (rated.value - shares @ rated.options)[:, None])
    inflation = max(1.0, float(np.mean((totals**2).sum(axis=0) / own)))
    first, error = slope / own, inflation / own
    variance = np.zeros(len(own))
    for each in np.unique(attribute):
        mine = attribute == each
        beyond = (first[mine] ** 2 / error[mine]).sum() - mine.sum()
        variance[mine] = max(beyond, 0.0) / (1 / error[mine]).sum()
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
    """The slope (G,) of the log-likelihood by the tilts, and its negative curvature (G, G)."""
    mean = shares @ rated.options
    variance = shares @ rated.options**2 - mean**2
    return belongs.T @ (rated.value - mean), belongs.T @ (variance[:, None] * belongs)
