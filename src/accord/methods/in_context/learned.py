"""The learned selectors: ADOROR's two towers, and the same without its transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from accord.methods.in_context.nodes import Arrays, Floats, Library, Nodes, Pairs, Prepared, Query, Selector, Vectors
from accord.methods.in_context.towers import Shape, bucket_edges, buckets, demonstration_tower, input_tower, sigmoid
from accord.values import BadInput, NotFitted

if TYPE_CHECKING:
    from accord.methods.in_context.tower_training import ClientOptions, Sheet


AT_ONCE = 2048
"""Nodes that go through the demonstration tower together: they stay in the processor's cache."""


@dataclass(frozen=True)
class TowerSettings:
    """How the towers are built and trained.

    Attributes:
        layers: Of the transformer; 0 pools the embeddings as they are, and then there are no positions either.
        width: h; texts are reduced to it by their principal components. `None` is the embeddings' own, as in the paper.
        heads: Of attention.
        feed_forward: Width of the transformer's hidden layer.
        relative: Whether attention knows distances between demonstrations.
        absolute: Whether demonstrations know their distance from the input.
        scores: Whether demonstrations come with their scores.
        rate: Adam's step size.
        batch: Pairs of a step.
        epochs: Times that each pair is met.
        decay: Strength of weight decay; 0 is the paper's Adam.
    """

    layers: Annotated[int, Field(ge=0, le=12)] = 2
    width: Annotated[int, Field(ge=1)] | None = 64
    heads: Annotated[int, Field(ge=1)] = 4
    feed_forward: Annotated[int, Field(ge=1)] = 128
    relative: bool = True
    absolute: bool = True
    scores: bool = True
    rate: Annotated[float, Field(gt=0)] = 1e-3
    batch: Annotated[int, Field(ge=1)] = 32
    epochs: Annotated[int, Field(ge=1)] = 50
    # Measured in one planted world with all mechanisms and 5,760 pairs: correlation with utility on unseen inputs 0.75
    # without decay, 0.81 with it, 0.80 with twice the rate; in an easier one 0.83 with a third of the rate, not 0.89.
    decay: Annotated[float, Field(ge=0)] = 1.0


TOWERS = {"utility": TowerSettings(layers=0), "adoror": TowerSettings()}
"""The learned selectors by name."""


class Towers(Selector):
    """Utility learned from a judge's observed errors, by a demonstration tower and an input tower.

    Args:
        name: What it is chosen by.
        settings: Of the towers.
        seed: Of training.
    """

    needs_pairs = True

    def __init__(self, name: str, settings: TowerSettings, seed: int = 0) -> None:
        self.name = name
        self.settings = settings
        self.seed = seed

    def fit(self, library: Library, pairs: Pairs | None = None) -> Self:
        """Train the towers on the pairs."""
        from accord.methods.in_context.tower_training import train

        if pairs is None or not len(pairs):
            raise BadInput(f"selector {self.name!r} learns from observed pairs; got none.")
        self.shape_, sheet, terms = self.training_sheet(library, pairs)
        self.parameters_ = train(self.shape_, sheet, terms)
        return self

    def training_sheet(self, library: Library, pairs: Pairs) -> tuple[Shape, Sheet, ClientOptions]:
        """What training takes: the towers' shape, the pairs as they take them in, and how they are trained."""
        from accord.methods.in_context.tower_training import ClientOptions, Sheet

        given, nodes = self.settings, pairs.nodes
        self.centre_, self.reduce_ = reduction(library.vectors, given.width)
        self.edges_ = bucket_edges(library.scores)
        shape = Shape(
            embedding=library.vectors.shape[1],
            width=given.width or library.vectors.shape[1],
            k=nodes.demonstrations.shape[1],
            buckets=len(self.edges_) + 1,
            layers=given.layers,
            heads=given.heads,
            feed_forward=given.feed_forward,
            relative=given.relative and given.layers > 0,
            absolute=given.absolute and given.layers > 0,
            scores=given.scores,
        )
        self._take_in(library)
        sheet = Sheet(
            text=self._text,
            bucket=self._bucket,
            prompts=self._prompts,
            queries=self._short(pairs.queries),
            demonstrations=nodes.demonstrations,
            prompt=nodes.prompt,
            query=pairs.query,
            target=pairs.target,
        )
        return shape, sheet, ClientOptions(given.rate, given.batch, given.epochs, given.decay, self.seed)

    def prepare(self, nodes: Nodes) -> Prepared:
        """(N, h) what the demonstration tower makes of each node."""
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
        """Be as after `fit`."""
        self.shape_ = Shape(**card["shape"])
        self.centre_, self.reduce_, self.edges_ = arrays["centre"], arrays["reduce"], arrays["edges"]
        self.parameters_ = {
            part: {name: arrays[f"{part}/{name}"] for name in names} for part, names in self.shape_.sizes().items()
        }
        self._take_in(library)
        return self

    def _take_in(self, library: Library) -> None:
        self._text = self._reduced(library.vectors)
        self._bucket = buckets(self.edges_, library.scores)
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
