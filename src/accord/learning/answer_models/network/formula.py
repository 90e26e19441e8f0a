"""Formula of the calibration network (Hashemi et al., ACL 2024, eq. 3 to 5), for NumPy or JAX arrays.

    z₁ = σ((W₁ + W₁ᵃ)[1; x])    z₂ = σ((W₂ + W₂ᵃ)[1; z₁])    p̂_a(y_i) = head((V_i + V_iᵃ)[1; z₂])

Rows are arranged by annotator, (A, c, d), so that each annotator's part of a layer is one matrix product. `xp` is the
array module: training differentiates this formula with JAX, prediction uses NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable
from accord.learning.answer_models.contract import matrix
from accord.learning.answer_models.mixed.layout import standardization

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Array = Any
"""Array of `xp`."""
Parameters = dict[str, dict[str, Array]]
"""`shared` (…) and `own` (A, …) weights by layer: W of eq. 3 to 5, and each annotator's Wᵃ.

Blocks of rows after the first A have no weights of their own: Wᵃ = 0 (footnote 26).
"""

_FAR = 1e4
_LARGEST = 80.0
_TINY = 1e-7
_UNKNOWN_AT_ONCE = 256


@dataclass(frozen=True)
class NetworkShape:
    """Dimensions of the network.

    Attributes:
        inputs: d, without the constant 1.
        hidden: h₁ and h₂.
        options: K_i of each question, the main one first.
        annotators: A.
        head: `softmax` (eq. 5) or `ordinal` (appendix B): a latent answer with a logistic distribution, whose mean and
            scale the network predicts, cut by each annotator's thresholds.
    """

    inputs: int
    hidden: tuple[int, int]
    options: tuple[int, ...]
    annotators: int
    head: str

    @property
    def widest(self) -> int:
        """Largest number of options of a question; others are padded."""
        return max(self.options)

    @property
    def outputs(self) -> int:
        """Number of outputs per question: one per option, or a mean and a scale."""
        return self.widest if self.head == "softmax" else 2

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each layer's shared part."""
        first, second = self.hidden
        outputs = len(self.options) * self.outputs
        layers: dict[str, tuple[int, ...]] = {
            "W1": (1 + self.inputs, first),
            "W2": (1 + first, second),
            "V": (1 + second, outputs),
        }
        return layers if self.head == "softmax" else {**layers, "cuts": (len(self.options), self.widest - 1)}


def inputs(xp: Any, values: Array, present: Array, group: Array) -> Array:
    """Return (…, d + G) x: values, 0 for missing ones, and a flag for each missing group of values (footnote 23).

    `values` is (…, d), `present` (…, G) 1 or 0, `group` (G, d) the groups of values. With G = 0 no value may be missing
    and x equals `values`.
    """
    if not group.shape[0]:
        return values
    return xp.concatenate([values * (present @ group), 1 - present], axis=-1)


def outputs(xp: Any, shape: NetworkShape, parameters: Parameters, x: Array) -> Array:
    """Return (B, c, Q, shape.outputs) outputs of the last layer; arguments as of `chances`."""
    z1 = _sigmoid(xp, _layer(xp, parameters["W1"], x))
    z2 = _sigmoid(xp, _layer(xp, parameters["W2"], z1))
    return _layer(xp, parameters["V"], z2).reshape(*x.shape[:-1], len(shape.options), shape.outputs)


def chances(xp: Any, shape: NetworkShape, parameters: Parameters, x: Array) -> Array:
    """Return (B, c, Q, K) p̂_a of every question's options, 0 for padding.

    Args:
        xp: `numpy` or `jax.numpy`.
        shape: Dimensions of the network.
        parameters: Layers of the network.
        x: (B, c, d) inputs of each annotator's rows, B ≥ A; the blocks after A belong to no annotator.
    """
    out = outputs(xp, shape, parameters, x)
    allowed = np.arange(shape.widest) < np.array(shape.options)[:, None]
    if shape.head == "softmax":
        return _softmax(xp, xp.where(allowed, out, -_FAR))
    return _cut(xp, out, _thresholds(xp, parameters["cuts"], len(x)), allowed)


def log_densities(xp: Any, shape: NetworkShape, parameters: Parameters, x: Array, answers: Array) -> Array:
    """Return (B, c, Q) the log density of the latent answer's distribution at the exact answer (footnote 28).

    The k-th of K options is at k - (K - 1)/2, so that one step of the scale is one unit of the latent answer. `answers`
    is (B, c, Q, K) one-hot; a question without an answer has the density at the scale's middle.
    """
    out = outputs(xp, shape, parameters, x)
    place = (answers * _places(shape)).sum(axis=-1)
    apart = xp.abs(place - out[..., 0]) * xp.exp(-out[..., 1])
    return -apart - 2 * xp.log1p(xp.exp(-apart)) - out[..., 1]


def _places(shape: NetworkShape) -> Floats:
    """Return (Q, K) the place of each option on the latent scale."""
    return np.arange(shape.widest) - (np.array(shape.options)[:, None] - 1) / 2


def main_alone(shape: NetworkShape, parameters: Parameters) -> tuple[NetworkShape, Parameters]:
    """Return the network of the first question only, which fine-tuning starts from."""
    alone = replace(shape, options=shape.options[:1])
    V = {part: weights[..., : shape.outputs] for part, weights in parameters["V"].items()}
    if shape.head == "softmax":
        V = {part: weights[..., : alone.widest] for part, weights in V.items()}
        return alone, {**parameters, "V": V}
    cuts = {part: steps[..., :1, : alone.widest - 1] for part, steps in parameters["cuts"].items()}
    return alone, {**parameters, "V": V, "cuts": cuts}


def _layer(xp: Any, weights: dict[str, Array], z: Array) -> Array:
    """Return (W + Wᵃ)[1; z] for each annotator's rows."""
    with_one = xp.concatenate([xp.ones_like(z[..., :1]), z], axis=-1)
    return with_one @ (weights["shared"] + _own(xp, weights["own"], len(z)))


def _own(xp: Any, own: Array, count: int) -> Array:
    """Return (count, …) the own weights of each block of rows, 0 after the last annotator."""
    if count <= len(own):
        return own
    return xp.concatenate([own, xp.zeros((count - len(own), *own.shape[1:]), dtype=own.dtype)])


def _sigmoid(xp: Any, z: Array) -> Array:
    return 0.5 * (1 + xp.tanh(0.5 * z))


def _softmax(xp: Any, outputs: Array) -> Array:
    # exp overflows float32 above 88. Clipping needs one pass less than subtracting the maximum.
    powers = xp.exp(xp.minimum(outputs, _LARGEST))
    return powers / powers.sum(axis=-1, keepdims=True)


def _thresholds(xp: Any, cuts: dict[str, Array], count: int) -> Array:
    """Return (count, Q, K-1) rising thresholds; each step after the first is exponentiated."""
    steps = cuts["shared"] + _own(xp, cuts["own"], count)
    return xp.cumsum(xp.concatenate([steps[..., :1], xp.exp(steps[..., 1:])], axis=-1), axis=-1)


def _cut(xp: Any, outputs: Array, thresholds: Array, allowed: NDArray[np.bool_]) -> Array:
    """Return P(y = k) = F((θ_k - r)/s) - F((θ_{k-1} - r)/s), with F logistic, r and log s the network's outputs."""
    r, scale = outputs[..., :1], xp.exp(outputs[..., 1:])
    below = _sigmoid(xp, (thresholds[:, None] - r) / scale)
    below = xp.where(allowed[:, 1:], below, 1.0)
    edges = xp.concatenate([xp.zeros_like(r), below, xp.ones_like(r)], axis=-1)
    return xp.maximum(edges[..., 1:] - edges[..., :-1], _TINY) * allowed


# --- rows by annotator ---------------------------------------------------------------------------------------------


def blocks(annotator: Indices, annotators: int, rows: Indices, width: int = 1) -> Indices:
    """Return (A, c) rows by annotator in the order of `rows`; empty places hold `len(annotator)`.

    Args:
        annotator: (n,) annotator of each row, 0 to A-1.
        annotators: A.
        rows: Rows to arrange.
        width: Smallest c; it is at least the largest number of rows of an annotator.
    """
    owner = annotator[rows]
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=annotators)
    layout = np.full((annotators, max(int(count.max(initial=0)), width)), len(annotator), dtype=np.intp)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    layout[owner[order], place] = rows[order]
    return layout


def predict(shape: NetworkShape, members: Sequence[Parameters], x: Floats, annotator: Indices) -> Floats:
    """Return (n, K) distributions of the first question's answers, averaged over an ensemble.

    A row with annotator -1 is for a new annotator: the mean over the known annotators (appendix A).
    """
    shares = _averaged(chances, shape, members, x, annotator)[:, : shape.options[0]]
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def latent_answers(shape: NetworkShape, members: Sequence[Parameters], x: Floats, annotator: Indices) -> Floats:
    """Return (n,) means of the latent answer to the first question, in steps of the scale from its first option.

    The ensemble and new annotators are treated as by `predict`.
    """
    return np.asarray(_averaged(outputs, shape, members, x, annotator)[:, 0] + (shape.options[0] - 1) / 2)


def _averaged(
    of: Callable[..., Array], shape: NetworkShape, members: Sequence[Parameters], x: Floats, annotator: Indices
) -> Floats:
    """Return (n, ...) what `of` returns for the first question, averaged over an ensemble."""
    known, unknown = np.flatnonzero(annotator >= 0), np.flatnonzero(annotator < 0)
    layout = blocks(annotator, shape.annotators, known)
    is_filled = layout < len(x)
    padded = np.vstack([x, np.zeros((1, x.shape[1]))])
    total: Floats = np.zeros((len(x), main_alone(shape, members[0])[0].outputs if of is outputs else shape.options[0]))
    for parameters in members:
        alone, own = main_alone(shape, parameters)
        if len(known):
            total[layout[is_filled]] += of(np, alone, own, padded[layout])[is_filled][:, 0]
        for start in range(0, len(unknown), _UNKNOWN_AT_ONCE):
            rows = unknown[start : start + _UNKNOWN_AT_ONCE]
            everyone = np.broadcast_to(x[rows], (shape.annotators, len(rows), x.shape[1]))
            total[rows] += of(np, alone, own, everyone).mean(axis=0)[:, 0]
    return total / len(members)


@dataclass(frozen=True)
class Inputs:
    """Conversion of columns to inputs.

    Attributes:
        mean: (d,) subtracted from each column; 0 for the probability of an option.
        scale: (d,) divisor of each column; 1 for the probability of an option.
        groups: (d,) group of each column: options of one question are missing together.
        group: (G, d) the same as a table; G is 0 if no value can be missing.
    """

    mean: Floats
    scale: Floats
    groups: NDArray[np.intp]
    group: Floats

    @classmethod
    def fit(cls, features: EvidenceTable, with_mask: bool) -> Self:
        """Return the conversion for the training rows.

        `with_mask` adds flags of missing groups even if none is missing here.
        """
        mean, scale = standardization(matrix(features))
        is_chance = np.array([column.option is not None for column in features.columns], dtype=bool)
        names = [column.question if column.option is not None else column.name for column in features.columns]
        order = {name: place for place, name in enumerate(dict.fromkeys(names))}
        groups = np.array([order[name] for name in names], dtype=np.intp)
        masked = with_mask or not features.present.all()
        table = (np.arange(len(order))[:, None] == groups).astype(float) if masked else np.zeros((0, len(names)))
        return cls(np.where(is_chance, 0.0, mean), np.where(is_chance, 1.0, scale), groups, table)

    def of(self, features: EvidenceTable) -> tuple[Floats, Floats]:
        """Return values (n, d), 0 for missing ones, and flags of present groups (n, G)."""
        values = np.where(features.present, (features.values - self.mean) / self.scale, 0.0)
        if not len(self.group):
            return values, np.ones((len(values), 0))
        missing = ~features.present @ (self.group.T > 0)
        return values, 1.0 - missing.astype(float)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays to save."""
        return {
            "inputs.mean": self.mean,
            "inputs.scale": self.scale,
            "inputs.groups": self.groups,
            "inputs.group": self.group,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the conversion from `arrays`."""
        return cls(*(arrays[f"inputs.{name}"] for name in ("mean", "scale", "groups", "group")))
