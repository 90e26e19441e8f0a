"""Learned selector: ADOROR's two towers (figure 3, eq. 2 to 4).

    E    = E_text + E_pos[pos] + E_score[bucket]
    h_d  = pool(transformer(E)) + f₁(p)    h_in = f₂(x) + f₃(p)    ŷ = σ(h_d · h_in)

`xp` is NumPy or JAX: training differentiates the same formula that prediction evaluates with NumPy. JAX is imported
for training only.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, MissingExtra, NotFitted
from accord.methods.in_context.selectors import (
    Arrays,
    ExampleLibrary,
    Floats,
    Indices,
    Nodes,
    Pairs,
    PreparedNodes,
    Query,
    Selector,
    TowerSettings,
    Vectors,
    selectors,
)

Array = Any
"""Array of `xp`."""
Tables = dict[str, Array]
Parameters = dict[str, dict[str, Array]]
"""Weights by part: `embedding`, `layer0`…, and the affine maps `demonstrations` f₁, `input` f₂, `prompt` f₃."""

PARTS = frozenset({"relative", "absolute", "scores"})
"""Inputs of the towers besides texts: distances between demonstrations, distance from the input, scores."""
MOST_BUCKETS = 32
_STEADY = 1e-5
_SMALL = 0.1


@dataclass(frozen=True)
class TowerShape:
    """Shapes of the towers' arrays.

    Attributes:
        embedding: Width of the prompt embeddings.
        width: h, width of the texts.
        k: Demonstrations per set.
        buckets: Number of score buckets.
        relative: Use the distance between demonstrations in attention (Shaw et al., 2018).
        absolute: Use a demonstration's distance from the input.
        scores: Use the scores of demonstrations.
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
        """Return the shape of each weight by part."""
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


def initial(shape: TowerShape, seed: int) -> Parameters:
    """Return initial weights: matrices after Glorot & Bengio (2010), small tables, zero biases, unit scales.

    The entries of demonstrations' texts are around 1, and layer normalization keeps them so; inputs and prompts have
    length 1. Then h_d · h_in starts near 0 and does not reach the flat ends of σ.
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
    """Return the (b-1,) edges between score buckets (Freedman & Diaconis, 1981).

    Buckets are 2·IQR/∛n wide, and their number is 1 to 32.
    """
    low, high = float(scores.min()), float(scores.max())
    quarter, three = np.percentile(scores, [25, 75])
    width = 2 * float(three - quarter) / len(scores) ** (1 / 3)
    count = int(np.clip(np.ceil((high - low) / width), 1, MOST_BUCKETS)) if width > 0 else 1
    return np.linspace(low, high, count + 1)[1:-1]


def demonstration_tower(
    xp: Any, shape: TowerShape, parameters: Parameters, text: Array, bucket: Array, prompt: Array
) -> Array:
    """Return (…, h) h_d (eq. 2).

    Args:
        xp: `numpy` or `jax.numpy`.
        shape: Shapes of the towers.
        parameters: Weights.
        text: (…, k, h) E_text, in the order shown.
        bucket: (…, k) ỹ, bucket of each demonstration's score.
        prompt: (…, embedding) embedding of the prompt.
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
    """Return (…, h) h_in (eq. 3) of (…, h) texts and (…, embedding) prompts."""
    return _affine(parameters["input"], text) + _affine(parameters["prompt"], prompt)


def utility(xp: Any, demonstrations: Array, inputs: Array) -> Array:
    """Return (…) ŷ = σ(h_d · h_in) (eq. 4)."""
    return sigmoid(xp, (demonstrations * inputs).sum(axis=-1))


def sigmoid(xp: Any, z: Array) -> Array:
    """Return 1/(1 + e⁻ᶻ)."""
    return 0.5 * (1 + xp.tanh(0.5 * z))


def _affine(weights: dict[str, Array], x: Array) -> Array:
    return x @ weights["weight"] + weights["bias"]


def _layer(xp: Any, shape: TowerShape, weights: dict[str, Array], E: Array) -> Array:
    """Apply one encoder layer (Vaswani et al., 2017): attention and two maps, with residuals and normalization."""
    E = _normalised(xp, weights, "norm1", E + _attention(xp, shape, weights, E))
    hidden = xp.maximum(E @ weights["first"] + weights["first_bias"], 0)
    return _normalised(xp, weights, "norm2", E + hidden @ weights["second"] + weights["second_bias"])


def _attention(xp: Any, shape: TowerShape, weights: dict[str, Array], E: Array) -> Array:
    """Apply attention with relative distances (Shaw et al., 2018, eq. 3 and 4).

    e_ij = q_i·(k_j + a^K_{j-i})/√d    z_i = Σ_j softmax_j(e_ij)·(v_j + a^V_{j-i})
    """
    k, heads, d = shape.k, shape.heads, shape.width // shape.heads
    projected = (E @ weights["attend"] + weights["attend_bias"]).reshape(*E.shape[:-1], 3, heads, d)
    queries, keys, values = (xp.swapaxes(projected[..., part, :, :], -2, -3) for part in range(3))
    distance = np.arange(k) - np.arange(k)[:, None] + k - 1
    logits = queries @ xp.swapaxes(keys, -1, -2)
    if shape.relative:
        to_keys = xp.swapaxes(weights["key_distance"][distance], -1, -2)
        logits = logits + _by_place(xp, queries, to_keys)
    share = _softmax(xp, logits / np.float32(np.sqrt(d)))
    attended = share @ values
    if shape.relative:
        attended = attended + _by_place(xp, share, weights["value_distance"][distance])
    return xp.swapaxes(attended, -2, -3).reshape(E.shape) @ weights["mix"] + weights["mix_bias"]


def _by_place(xp: Any, rows: Array, matrices: Array) -> Array:
    """Return (…, k, n): row (…, k, m) of each position times the matrix (k, m, n) of that position."""
    flat = xp.swapaxes(rows.reshape(-1, *rows.shape[-2:]), 0, 1)
    return xp.swapaxes(flat @ matrices, 0, 1).reshape(*rows.shape[:-1], matrices.shape[-1])


def _softmax(xp: Any, logits: Array) -> Array:
    powers = xp.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _normalised(xp: Any, weights: dict[str, Array], name: str, E: Array) -> Array:
    """Apply layer normalization (Ba et al., 2016)."""
    centred = E - E.mean(axis=-1, keepdims=True)
    spread = xp.sqrt((centred**2).mean(axis=-1, keepdims=True) + _STEADY)
    return centred / spread * weights[f"{name}_scale"] + weights[f"{name}_bias"]


# --- training -----------------------------------------------------------------------------------------------------

_STEPS, _PAIRS = 256, 256
"""Steps and pairs are padded to multiples of these, so that the folds of a data set share one compiled program."""


def train(shape: TowerShape, tables: Arrays, settings: TowerSettings, seed: int) -> Parameters:
    """Minimize the mean squared error (eq. 5) by Adam, in one compiled program.

    Deterministic for equal `TowerSelector.training_tables`, settings and seed.
    """
    jax, _ = _jax()
    _on_one_thread()
    begun = jax.tree.map(jax.numpy.asarray, initial(shape, seed))
    steps = batches(len(tables["target"]), settings, seed)
    padded = jax.numpy.asarray(np.pad(steps, ((0, -len(steps) % _STEPS), (0, 0))), dtype=jax.numpy.int32)
    learned = _compiled()(shape, to_jax(tables), begun, padded, len(steps), settings.rate, settings.decay)
    trained: Parameters = jax.tree.map(np.asarray, learned)
    return trained


def _jax() -> tuple[Any, Any]:
    """Return JAX and Optax; raise `MissingExtra` if either is not installed."""
    try:
        import jax
        import optax
    except ImportError:
        raise MissingExtra("training a selector", "networks") from None
    return jax, optax


@cache
def _on_one_thread() -> None:
    """Start XLA with one thread, unless it is running: splitting steps this small doubles their time."""
    previous = os.environ.get("NPROC")
    os.environ["NPROC"] = previous or "1"
    try:
        _jax()[0].local_devices(backend="cpu")
    finally:
        if previous is None:
            del os.environ["NPROC"]


def batches(pairs: int, settings: TowerSettings, seed: int) -> Indices:
    """Return the (S, b) pairs of each step, reshuffled in each epoch; b is the batch size, or the number of pairs.

    Pairs after the last whole batch of an epoch are skipped, so that all steps have one size.
    """
    rng = np.random.default_rng(seed)
    size = min(settings.batch, pairs)
    used = pairs // size * size
    return np.concatenate([rng.permutation(pairs)[:used].reshape(-1, size) for _ in range(settings.epochs)])


@cache
def _compiled() -> Any:
    return _jax()[0].jit(_train, static_argnums=0)


def _train(
    shape: TowerShape, tables: Tables, begun: Parameters, steps: Array, count: int, rate: float, decay: float
) -> Parameters:
    jax, optax = _jax()
    adam = optax.scale_by_adam()
    slope = jax.grad(partial(loss, shape, tables))

    def step(state: tuple[Parameters, Any], at: tuple[Array, Array]) -> tuple[tuple[Parameters, Any], None]:
        parameters, moments = state
        rows, progress = at
        change, moments = adam.update(slope(parameters, rows), moments)
        now = rate * 0.5 * (1 + jax.numpy.cos(jax.numpy.pi * progress))
        moved = jax.tree.map(lambda weight, by: weight - now * (by + decay * weight), parameters, change)
        return (moved, moments), None

    progress = jax.numpy.minimum(jax.numpy.arange(len(steps)) / count, 1.0)  # steps beyond `count` have rate 0
    (learned, _), _ = jax.lax.scan(step, (begun, adam.init(begun)), (steps, progress))
    return learned  # type: ignore[no-any-return]


def loss(shape: TowerShape, tables: Tables, parameters: Parameters, rows: Array) -> Array:
    """Return the mean squared error of some pairs (eq. 5)."""
    jnp = _jax()[0].numpy
    demonstrations, prompt = tables["demonstrations"][rows], tables["prompts"][tables["prompt"][rows]]
    h_d = demonstration_tower(
        jnp, shape, parameters, tables["text"][demonstrations], tables["bucket"][demonstrations], prompt
    )
    h_in = input_tower(parameters, tables["queries"][tables["query"][rows]], prompt)
    return ((utility(jnp, h_d, h_in) - tables["target"][rows]) ** 2).mean()


def to_jax(tables: Arrays) -> Tables:
    """Return the tables for the compiled program: single precision, 32-bit integers, padded pairs."""
    jnp, converted = _jax()[0].numpy, {}
    dtypes = {"i": jnp.int32, "f": jnp.float32}
    for name, value in tables.items():
        pad = -len(value) % _PAIRS if name in ("demonstrations", "prompt", "query", "target") else 0
        padded = np.pad(value, [(0, pad), *[(0, 0)] * (value.ndim - 1)])
        converted[name] = jnp.asarray(padded, dtype=dtypes[value.dtype.kind])
    return converted


# --- the selector ------------------------------------------------------------------------------------------------

AT_ONCE = 2048
"""Nodes per pass through the demonstration tower; they fit into the processor's cache."""


@selectors.register("adoror")
class TowerSelector(Selector):
    """Utility learned from the scorer's observed errors, by a demonstration tower and an input tower.

    `parts` is a subset of `PARTS`. Positions exist only with a transformer.
    """

    cost, needs_pairs = 6, True

    def __init__(self, seed: int = 0, towers: TowerSettings | None = None, parts: Collection[str] = PARTS) -> None:
        super().__init__(seed, towers)
        self.parts = frozenset(parts) if self.towers.layers else frozenset(parts) & {"scores"}

    def check(self) -> None:
        """Check that JAX is installed; `MissingExtra` otherwise."""
        _jax()

    def fit(self, library: ExampleLibrary, pairs: Pairs | None = None) -> Self:
        """Train the towers on the pairs."""
        if pairs is None or not len(pairs):
            raise BadInput(f"selector {self.name!r} needs observed pairs; got none.")
        self.shape_, tables = self.training_tables(library, pairs)
        self.parameters_ = train(self.shape_, tables, self.towers, self.seed)
        return self

    def training_tables(self, library: ExampleLibrary, pairs: Pairs) -> tuple[TowerShape, Arrays]:
        """Return the towers' shape, and n examples, Q inputs and P pairs as arrays.

        Returns:
            The shape, and by name `text` (n, h), `bucket` (n,), `prompts` (ℓ, embedding), `queries` (Q, h),
            `demonstrations` (P, k), `prompt` (P,), `query` (P,), `target` (P,) of eq. 6.
        """
        towers, nodes, embedding = self.towers, pairs.nodes, library.vectors.shape[1]
        self.centre_, self.reduce_ = reduction(library.vectors, towers.width)
        self.edges_ = bucket_edges(library.scores)
        self._take_in(library)
        shape = TowerShape(
            embedding, towers.width or embedding, nodes.demonstrations.shape[1], len(self.edges_) + 1, towers.layers,
            towers.heads, towers.feed_forward, **{part: part in self.parts for part in PARTS},
        )  # fmt: skip
        tables: Arrays = {
            "text": self._text, "bucket": self._bucket, "prompts": self._prompts,
            "queries": self._short(pairs.queries), "demonstrations": nodes.demonstrations, "prompt": nodes.prompt,
            "query": pairs.query, "target": pairs.target,
        }  # fmt: skip
        return shape, tables

    def prepare(self, nodes: Nodes) -> PreparedNodes:
        """Return the (N, h) demonstration vectors of the nodes."""
        shape, parameters = self._fitted(), self.parameters_
        vectors = np.empty((len(nodes), shape.width), dtype=np.float32)
        for start in range(0, len(nodes), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            demonstrations, prompt = nodes.demonstrations[rows], self._prompts[nodes.prompt[rows]]
            vectors[rows] = demonstration_tower(
                np, shape, parameters, self._text[demonstrations], self._bucket[demonstrations], prompt
            )
        return PreparedNodes(nodes, vectors)

    def weights(self, query: Query, prepared: PreparedNodes) -> Floats:
        """Return (N,) ŷ of eq. 4: products of the nodes' vectors with the input's, one input vector per prompt."""
        self._fitted()
        assert prepared.known is not None
        inputs = input_tower(self.parameters_, self._short(query.vector), self._prompts)
        products = np.take_along_axis(prepared.known @ inputs.T, prepared.nodes.prompt[:, None], axis=1)[:, 0]
        return np.asarray(sigmoid(np, products), dtype=np.float64)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the shape; and weights by part and name, the reduction, and the bucket edges."""
        card = {"shape": asdict(self._fitted())}
        weights = {f"{part}/{name}": array for part, names in self.parameters_.items() for name, array in names.items()}
        return card, {**weights, "centre": self.centre_, "reduce": self.reduce_, "edges": self.edges_}

    def restore(self, library: ExampleLibrary, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Invert `state`."""
        self.shape_ = TowerShape(**card["shape"])
        self.centre_, self.reduce_, self.edges_ = arrays["centre"], arrays["reduce"], arrays["edges"]
        self.parameters_ = {
            part: {name: arrays[f"{part}/{name}"] for name in names} for part, names in self.shape_.sizes().items()
        }
        self._take_in(library)
        return self

    def _take_in(self, library: ExampleLibrary) -> None:
        self._text = self._reduced(library.vectors)
        self._bucket = np.searchsorted(self.edges_, library.scores, side="right")
        self._prompts = np.asarray(library.prompts, dtype=np.float32)

    def _reduced(self, vectors: Vectors) -> Vectors:
        return np.asarray((vectors - self.centre_) @ self.reduce_, dtype=np.float32)

    def _short(self, vectors: Vectors) -> Vectors:
        """Return inputs reduced to about length 1, like prompts, so that training steps change h_d · h_in slowly."""
        return np.asarray(self._reduced(vectors) / np.sqrt(self.reduce_.shape[1]), dtype=np.float32)

    def _fitted(self) -> TowerShape:
        if not hasattr(self, "parameters_"):
            raise NotFitted(f"selector {self.name!r} is not fitted. Call fit first.")
        return self.shape_


def reduction(vectors: Vectors, width: int | None) -> tuple[Vectors, Vectors]:
    """Return ((h,), (h, width)) center and matrix that map embeddings to `width` entries around 1.

    The directions are the principal components of the library's vectors, padded with 0. With width `None`, embeddings
    are scaled and keep their directions.
    """
    h = vectors.shape[1]
    if width is None:
        return np.zeros(h, dtype=np.float32), (np.eye(h) * np.sqrt(h)).astype(np.float32)
    centre = vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors - centre, full_matrices=False)
    matrix = np.zeros((h, width))
    principal = directions[:width]
    matrix[:, : len(principal)] = principal.T
    length = np.sqrt((((vectors - centre) @ matrix) ** 2).mean())
    return centre, (matrix / (length or 1.0)).astype(np.float32)
