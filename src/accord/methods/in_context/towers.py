"""The selector as a formula (ADOROR, figure 3 and eq. 2 to 4), with NumPy or JAX as its arrays.

    E    = E_text + E_pos[pos] + E_score[bucket]
    h_d  = pool(transformer(E)) + f₁(p)    h_in = f₂(x) + f₃(p)    ŷ = σ(h_d · h_in)

`xp` is the module of arrays: training differentiates this very formula, prediction needs NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accord.methods.in_context.nodes import Floats, Indices

Array = Any
"""An array of `xp`."""
Parameters = dict[str, dict[str, Array]]
"""By part, its weights: `embedding`, `layer0`…, and the affine maps `demonstrations` f₁, `input` f₂, `prompt` f₃."""

MOST_BUCKETS = 32
_STEADY = 1e-5
_SMALL = 0.1


@dataclass(frozen=True)
class Shape:
    """What the towers' arrays look like.

    Attributes:
        embedding: Width of the embeddings, as prompts come in.
        width: h, in which texts come in; the embeddings' own, or what they are reduced to.
        k: Demonstrations of a set.
        buckets: Of scores.
        layers: Of the transformer; without one, the embeddings are pooled as they are.
        heads: Of its attention.
        feed_forward: Width of its hidden layer.
        relative: Whether attention knows how far demonstrations stand from each other (Shaw et al., 2018).
        absolute: Whether a demonstration knows how far it stands from the input.
        scores: Whether a demonstration comes with its score.
    """

    embedding: int
    width: int
    k: int
    buckets: int
    layers: int = 2
    heads: int = 4
    feed_forward: int = 128
    relative: bool = True
    absolute: bool = True
    scores: bool = True

    def sizes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shape of each weight of each part."""
        h, distances = self.width, (2 * self.k - 1, self.width // self.heads)
        embedding = {"position": (self.k, h)} if self.absolute else {}
        affine = {"weight": (self.embedding, h), "bias": (h,)}
        layer: dict[str, tuple[int, ...]] = {
            "attend": (h, 3 * h),
            "attend_bias": (3 * h,),
            "mix": (h, h),
            "mix_bias": (h,),
            "first": (h, self.feed_forward),
            "first_bias": (self.feed_forward,),
            "second": (self.feed_forward, h),
            "second_bias": (h,),
            **{f"{norm}_{part}": (h,) for norm in ("norm1", "norm2") for part in ("scale", "bias")},
            **({"key_distance": distances, "value_distance": distances} if self.relative else {}),
        }
        return {
            "embedding": {**embedding, **({"score": (self.buckets, h)} if self.scores else {})},
            **{f"layer{number}": layer for number in range(self.layers)},
            "demonstrations": affine,
            "input": {"weight": (h, h), "bias": (h,)},
            "prompt": affine,
        }


def initial(shape: Shape, seed: int) -> Parameters:
    """Weights to start from: matrices after Glorot & Bengio (2010), tables small, constants 0, scales 1.

    Demonstrations' texts come in with entries around 1, as layer normalisation keeps them, inputs and prompts with
    length 1: h_d · h_in then starts around 0, and no step takes it to the ends of σ, where nothing is learned any more.
    """
    rng = np.random.default_rng(seed)

    def drawn(part: str, name: str, size: tuple[int, ...]) -> Array:
        if name.endswith("scale"):
            return np.ones(size, dtype=np.float32)
        if name.endswith("bias"):
            return np.zeros(size, dtype=np.float32)
        if part == "embedding" or name.endswith("distance"):
            return rng.normal(scale=_SMALL, size=size).astype(np.float32)
        reach = np.sqrt(6 / sum(size))
        return rng.uniform(-reach, reach, size).astype(np.float32)

    return {
        part: {name: drawn(part, name, size) for name, size in names.items()} for part, names in shape.sizes().items()
    }


def bucket_edges(scores: Floats) -> Floats:
    """(b-1,) where one bucket of scores ends and the next begins (Freedman & Diaconis, 1981).

    Buckets are 2·IQR/∛n wide; there are 1 to 32 of them.
    """
    low, high = float(scores.min()), float(scores.max())
    quarter, three = np.percentile(scores, [25, 75])
    width = 2 * float(three - quarter) / len(scores) ** (1 / 3)
    count = int(np.clip(np.ceil((high - low) / width), 1, MOST_BUCKETS)) if width > 0 else 1
    return np.linspace(low, high, count + 1)[1:-1]


def buckets(edges: Floats, scores: Floats) -> Indices:
    """(n,) which bucket each score is in."""
    return np.searchsorted(edges, scores, side="right")


def demonstration_tower(
    xp: Any, shape: Shape, parameters: Parameters, text: Array, bucket: Array, prompt: Array
) -> Array:
    """(…, h) h_d (eq. 2).

    Args:
        xp: `numpy` or `jax.numpy`.
        shape: Of the towers.
        parameters: Their weights.
        text: (…, k, h) E_text, in the order shown.
        bucket: (…, k) ỹ, which bucket each demonstration's score is in.
        prompt: (…, embedding) the prompt's embedding.
    """
    embedding, E = parameters["embedding"], text
    if shape.absolute:
        E = E + embedding["position"][::-1]
    if shape.scores:
        E = E + embedding["score"][bucket]
    for number in range(shape.layers):
        E = _layer(xp, shape, parameters[f"layer{number}"], E)
    return E.mean(axis=-2) + _affine(parameters["demonstrations"], prompt)


def input_tower(parameters: Parameters, text: Array, prompt: Array) -> Array:
    """(…, h) h_in (eq. 3) of (…, h) texts and (…, embedding) prompts."""
    return _affine(parameters["input"], text) + _affine(parameters["prompt"], prompt)


def utility(xp: Any, demonstrations: Array, inputs: Array) -> Array:
    """(…) ŷ = σ(h_d · h_in) (eq. 4)."""
    return sigmoid(xp, (demonstrations * inputs).sum(axis=-1))


def sigmoid(xp: Any, z: Array) -> Array:
    """1/(1 + e⁻ᶻ)."""
    return 0.5 * (1 + xp.tanh(0.5 * z))


def _affine(weights: dict[str, Array], x: Array) -> Array:
    return x @ weights["weight"] + weights["bias"]


def _layer(xp: Any, shape: Shape, weights: dict[str, Array], E: Array) -> Array:
    """One layer of an encoder (Vaswani et al., 2017): attention, then two maps, each added and normalised."""
    E = _normalised(xp, weights, "norm1", E + _attention(xp, shape, weights, E))
    hidden = xp.maximum(E @ weights["first"] + weights["first_bias"], 0)
    return _normalised(xp, weights, "norm2", E + hidden @ weights["second"] + weights["second_bias"])


def _attention(xp: Any, shape: Shape, weights: dict[str, Array], E: Array) -> Array:
    """Attention that knows distances (Shaw et al., 2018, eq. 3 and 4).

    e_ij = q_i·(k_j + a^K_{j-i})/√d    z_i = Σ_j softmax_j(e_ij)·(v_j + a^V_{j-i})
    """
    k, heads, d = shape.k, shape.heads, shape.width // shape.heads
    whole = (E @ weights["attend"] + weights["attend_bias"]).reshape(*E.shape[:-1], 3, heads, d)
    queries, keys, values = (xp.swapaxes(whole[..., part, :, :], -2, -3) for part in range(3))
    distance = np.arange(k) - np.arange(k)[:, None] + k - 1
    logits = queries @ xp.swapaxes(keys, -1, -2)
    if shape.relative:
        to_keys = xp.swapaxes(weights["key_distance"][distance], -1, -2)
        logits = logits + _by_place(xp, queries, to_keys)
    share = _softmax(xp, logits / np.float32(np.sqrt(d)))
    found = share @ values
    if shape.relative:
        found = found + _by_place(xp, share, weights["value_distance"][distance])
    return xp.swapaxes(found, -2, -3).reshape(E.shape) @ weights["mix"] + weights["mix_bias"]


def _by_place(xp: Any, rows: Array, matrices: Array) -> Array:
    """(…, k, n) each place's row (…, k, m) times that place's own matrix (k, m, n)."""
    flat = xp.swapaxes(rows.reshape(-1, *rows.shape[-2:]), 0, 1)
    return xp.swapaxes(flat @ matrices, 0, 1).reshape(*rows.shape[:-1], matrices.shape[-1])


def _softmax(xp: Any, logits: Array) -> Array:
    powers = xp.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _normalised(xp: Any, weights: dict[str, Array], name: str, E: Array) -> Array:
    """Layer normalisation (Ba et al., 2016)."""
    centred = E - E.mean(axis=-1, keepdims=True)
    spread = xp.sqrt((centred**2).mean(axis=-1, keepdims=True) + _STEADY)
    return centred / spread * weights[f"{name}_scale"] + weights[f"{name}_bias"]
