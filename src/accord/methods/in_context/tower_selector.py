"""The learned selector: ADOROR's two towers (figure 3 and eq. 2 to 4).

    E    = E_text + E_pos[pos] + E_score[bucket]
    h_d  = pool(transformer(E)) + f₁(p)    h_in = f₂(x) + f₃(p)    ŷ = σ(h_d · h_in)

`xp` is the module of arrays, NumPy or JAX: training differentiates this very formula, prediction needs NumPy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, NotFitted
from accord.methods.in_context.selectors import (
    Arrays,
    Floats,
    Library,
    Nodes,
    Pairs,
    Prepared,
    Query,
    Selector,
    TowerSettings,
    Vectors,
    selectors,
)

Array = Any
"""An array of `xp`."""
Parameters = dict[str, dict[str, Array]]
"""By part, its weights: `embedding`, `layer0`…, and the affine maps `demonstrations` f₁, `input` f₂, `prompt` f₃."""

PARTS = frozenset({"relative", "absolute", "scores"})
"""What the towers know beside the texts: distances between demonstrations, distance from the input, scores."""
MOST_BUCKETS = 32
_STEADY = 1e-5
_SMALL = 0.1


@dataclass(frozen=True)
class Shape:
    """Shapes of the towers' arrays.

    Attributes:
        embedding: Width of the embeddings, as prompts come in.
        width: h, of texts.
        k: Demonstrations per set.
        buckets: Of scores.
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


# --- the selector ------------------------------------------------------------------------------------------------

AT_ONCE = 2048
"""Nodes that go through the demonstration tower together: they stay in the processor's cache."""


@selectors.register("adoror")
class Towers(Selector):
    """Utility learned from a scorer's observed errors, by a demonstration tower and an input tower.

    Args:
        seed: Of training.
        towers: Settings of the towers.
        parts: Of `PARTS`, what the towers know; without a transformer there are no positions.
    """

    cost, needs_pairs = 6, True

    def __init__(self, seed: int = 0, towers: TowerSettings | None = None, parts: Collection[str] = PARTS) -> None:
        super().__init__(seed, towers)
        self.parts = frozenset(parts) if self.towers.layers else frozenset(parts) & {"scores"}

    def check(self) -> None:
        """Refuse where JAX is not installed.

        Raises:
            MissingExtra: Says how to install it.
        """
        import accord.methods.in_context.tower_training  # noqa: F401

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Train the towers on the pairs."""
        from accord.methods.in_context.tower_training import train

        if pairs is None or not len(pairs):
            raise BadInput(f"selector {self.name!r} learns from observed pairs; got none.")
        self.shape_, tables = self.training_tables(library, pairs)
        self.parameters_ = train(self.shape_, tables, self.towers, self.seed)
        return self

    def training_tables(self, library: Library, pairs: Pairs) -> tuple[Shape, Arrays]:
        """The towers' shape, and n examples, Q inputs and P pairs as they take them in.

        Returns:
            The shape, and by name `text` (n, h), `bucket` (n,), `prompts` (ℓ, embedding), `queries` (Q, h),
            `demonstrations` (P, k), `prompt` (P,), `query` (P,), `target` (P,) of eq. 6.
        """
        given, nodes, embedding = self.towers, pairs.nodes, library.vectors.shape[1]
        self.centre_, self.reduce_ = reduction(library.vectors, given.width)
        self.edges_ = bucket_edges(library.scores)
        self._take_in(library)
        shape = Shape(
            embedding, given.width or embedding, nodes.demonstrations.shape[1], len(self.edges_) + 1, given.layers,
            given.heads, given.feed_forward, **{part: part in self.parts for part in PARTS},
        )  # fmt: skip
        tables: Arrays = {
            "text": self._text, "bucket": self._bucket, "prompts": self._prompts,
            "queries": self._short(pairs.queries), "demonstrations": nodes.demonstrations, "prompt": nodes.prompt,
            "query": pairs.query, "target": pairs.target,
        }  # fmt: skip
        return shape, tables

    def prepare(self, nodes: Nodes) -> Prepared:
        """(N, h) the demonstration tower's vector of each node."""
        shape, parameters = self._fitted(), self.parameters_
        made = np.empty((len(nodes), shape.width), dtype=np.float32)
        for start in range(0, len(nodes), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            shown, prompt = nodes.demonstrations[rows], self._prompts[nodes.prompt[rows]]
            made[rows] = demonstration_tower(np, shape, parameters, self._text[shown], self._bucket[shown], prompt)
        return Prepared(nodes, made)

    def weights(self, query: Query, prepared: Prepared) -> Floats:
        """(N,) ŷ of eq. 4: one product of the nodes' vectors with the input's, one of those for each prompt."""
        self._fitted()
        assert prepared.known is not None
        inputs = input_tower(self.parameters_, self._short(query.vector), self._prompts)
        products = np.take_along_axis(prepared.known @ inputs.T, prepared.nodes.prompt[:, None], axis=1)[:, 0]
        return np.asarray(sigmoid(np, products), dtype=np.float64)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The shape, and the weights by part and name, with the reduction and the ends of the buckets."""
        card = {"shape": asdict(self._fitted())}
        weights = {f"{part}/{name}": each for part, names in self.parameters_.items() for name, each in names.items()}
        return card, {**weights, "centre": self.centre_, "reduce": self.reduce_, "edges": self.edges_}

    def restore(self, library: Library, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `state`."""
        self.shape_ = Shape(**card["shape"])
        self.centre_, self.reduce_, self.edges_ = arrays["centre"], arrays["reduce"], arrays["edges"]
        self.parameters_ = {
            part: {name: arrays[f"{part}/{name}"] for name in names} for part, names in self.shape_.sizes().items()
        }
        self._take_in(library)
        return self

    def _take_in(self, library: Library) -> None:
        self._text = self._reduced(library.vectors)
        self._bucket = np.searchsorted(self.edges_, library.scores, side="right")
        self._prompts = np.asarray(library.prompts, dtype=np.float32)

    def _reduced(self, vectors: Vectors) -> Vectors:
        return np.asarray((vectors - self.centre_) @ self.reduce_, dtype=np.float32)

    def _short(self, vectors: Vectors) -> Vectors:
        """Inputs as long as prompts are, around 1: their maps' steps then move h_d · h_in little at a time."""
        return np.asarray(self._reduced(vectors) / np.sqrt(self.reduce_.shape[1]), dtype=np.float32)

    def _fitted(self) -> Shape:
        if not hasattr(self, "parameters_"):
            raise NotFitted(f"selector {self.name!r} has learned nothing yet; call fit first.")
        return self.shape_


def reduction(vectors: Vectors, width: int | None) -> tuple[Vectors, Vectors]:
    """((h,), (h, width)) centre and matrix that bring embeddings to `width` entries around 1.

    The directions are the principal components of the library's vectors; beyond as many as there are, they are 0.
    With width `None` embeddings keep theirs and are only made longer.
    """
    h = vectors.shape[1]
    if width is None:
        return np.zeros(h, dtype=np.float32), (np.eye(h) * np.sqrt(h)).astype(np.float32)
    centre = vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors - centre, full_matrices=False)
    matrix = np.zeros((h, width))
    found = directions[:width]
    matrix[:, : len(found)] = found.T
    length = np.sqrt((((vectors - centre) @ matrix) ** 2).mean())
    return centre, (matrix / (length or 1.0)).astype(np.float32)
