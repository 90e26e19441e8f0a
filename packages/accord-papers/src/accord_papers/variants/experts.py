"""MoE-Concat and MoE-CIU as published: each bin of each metric is a trained vector (Choi et al., CIU, section 3.3).

    concat:  ŷ = b + Σ_m u_m·e_m          gated:  ŷ = b + M·Σ_m g_m u·e_m,   g = softmax(W [e_1; …; e_M])

e_m = E_m[bin of metric m], E of shape (M, bins, D). The model is a regressor (squared error), or a classifier
(cross-entropy) of the rating's position between the ends of the scale: ŷ = low + (high - low)·σ(z). It is trained by
Adam with early stopping on inner folds. With a few hundred labels it overfits within tens of steps, so it is only a
baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from accord.edges import MissingExtra
from accord.evidence import Arrays
from accord.learning.answer_models.metric_curves import BINS, Bins, Floats, Indices

WIDTH = 16
"""Embedding size D."""
RATE, STEPS = 0.02, 200
START = 0.3
"""Standard deviation of the initial embeddings."""


class ExpertParameters(NamedTuple):
    """E (M, BINS + 1, D), u (M, D) or, gated, (D,), b (), and W (M·D, M) of a gate; JAX arrays during training."""

    E: Floats
    u: Floats
    b: Floats
    W: Floats | None = None

    def arrays(self) -> dict[str, Floats]:
        """Return the parameters by name, without missing ones."""
        return {name: array for name, array in self._asdict().items() if array is not None}


@dataclass(frozen=True)
class Experts:
    """Trained embeddings and their readout.

    Attributes:
        bins: Stored values of each metric.
        parameters: Trained parameters.
        scale: Center and unit of a prediction (squared), or the low end and width of the scale (cross-entropy).
        loss: `squared` or `cross-entropy`.
        steps: Number of training steps.
        level: Mean prediction in training, in units of the scale.
        centre: (M,) mean of each metric's part in training.
    """

    bins: Bins
    parameters: ExpertParameters
    scale: tuple[float, float]
    loss: str
    steps: int
    level: float
    centre: Floats

    @classmethod
    def learn(
        cls, X: Floats, y: Floats, weight: Floats, fold: Indices, ends: tuple[float, float], gated: bool, loss: str,
        seed: int = 0,
    ) -> tuple[Self, Floats]:  # fmt: skip
        """Train for the number of steps that predicts other folds best; also return (n,) held-out predictions.

        Args:
            X: (n, M) metrics, NaN for missing ones.
            y: (n,) mean ratings.
            weight: (n,) number of ratings in each mean.
            fold: (n,) fold of each text.
            ends: Ends of the scale.
            gated: True if a gate mixes the metrics.
            loss: `squared` or `cross-entropy`.
            seed: Random seed of the initial embeddings.

        Raises:
            MissingExtra: JAX is not installed.
        """
        scale = _scale(y, ends, loss)
        target = (y - scale[0]) / scale[1]
        start = _start(X.shape[1], gated, float(target.mean()) if loss == "squared" else 0.0, seed)
        held_out = np.zeros((STEPS, len(y)))
        for each in np.unique(fold):
            train = fold != each
            bins = Bins.fit(X[train])
            predictions_by_step, _ = _trained(start, bins.hard(X), target, weight * train, loss)
            held_out[:, ~train] = predictions_by_step[:, ~train]
        predictions = _in_units(held_out, scale, loss)
        steps = int(np.argmin(((predictions - y) ** 2 * weight).sum(axis=1))) + 1
        bins = Bins.fit(X)
        _, learned = _trained(start, bins.hard(X), target, weight, loss)
        parameters = ExpertParameters(**{k: np.asarray(v[steps - 1], dtype=float) for k, v in learned.arrays().items()})
        plain = cls(bins, parameters, scale, loss, steps, 0.0, np.zeros(X.shape[1]))
        centre = plain._parts(bins.hard(X)).mean(axis=0)
        level = float(_in_units(plain.parameters.b + centre.sum(), scale, loss))
        return replace(plain, level=level, centre=centre), predictions[steps - 1]

    def _parts(self, basis: Floats) -> Floats:
        """Return (n, M) the part of each metric, before it is centered and scaled."""
        return np.asarray(parts(np, self.parameters, basis))

    def contributions(self, X: Floats) -> Floats:
        """Return (n, M) the contribution of each metric in units of the scale.

        For a classifier, the prediction is divided among the metrics in proportion.
        """
        own = self._parts(self.bins.hard(X)) - self.centre
        if self.loss == "squared":
            return np.asarray(own * self.scale[1])
        total = own.sum(axis=1, keepdims=True)
        moved = _in_units(self.parameters.b + self.centre.sum() + total, self.scale, self.loss) - self.level
        slope = np.divide(moved, total, out=np.zeros_like(total), where=np.abs(total) > 1e-9)
        return np.asarray(own * slope)

    def among(self, X: Floats) -> Self:
        """Return the model with ranks among other texts."""
        return replace(self, bins=Bins.fit(X))

    def curves(self) -> Floats:
        """Return (M, BINS + 1) the contribution of each bin for an even gate.

        For a classifier it is taken at the middle of the scale.
        """
        E, u = self.parameters.E, self.parameters.u
        slope = self.scale[1] if self.loss == "squared" else self.scale[1] / 4
        return np.asarray(np.einsum("mbd,md->mb", E, np.broadcast_to(u, (len(E), WIDTH))) * slope)

    def settings(self) -> dict[str, float]:
        """Return the number of training steps."""
        return {"steps": self.steps}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        card = {"level": self.level, "scale": list(self.scale), "loss": self.loss, "steps": self.steps}
        return card, {**self.parameters.arrays(), "centre": self.centre, "seen": self.bins.seen}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the model from `state`."""
        low, width = card["scale"]
        parameters = ExpertParameters(arrays["E"], arrays["u"], arrays["b"], arrays.get("W"))
        bins, centre = Bins(arrays["seen"]), arrays["centre"]
        return cls(bins, parameters, (low, width), card["loss"], card["steps"], card["level"], centre)


def parts(xp: Any, parameters: ExpertParameters, basis: Any) -> Any:
    """Return (n, M) the part of each metric; `xp` is NumPy or JAX's NumPy."""
    e = xp.einsum("nmb,mbd->nmd", basis, parameters.E)
    read = (e * parameters.u).sum(axis=-1)
    if parameters.W is None:
        return read
    # The same order of summation as `by_row`.
    z = xp.einsum("nk,km->nm", e.reshape(len(e), -1), parameters.W)
    gate = xp.exp(z - z.max(axis=1, keepdims=True))
    return read * gate / gate.mean(axis=1, keepdims=True)


def _start(metrics: int, gated: bool, level: float, seed: int) -> ExpertParameters:
    rng = np.random.default_rng(seed)
    return ExpertParameters(
        rng.normal(scale=START, size=(metrics, BINS + 1, WIDTH)),
        rng.normal(scale=WIDTH**-0.5, size=WIDTH if gated else (metrics, WIDTH)),
        np.array(level),
        np.zeros((metrics * WIDTH, metrics)) if gated else None,
    )


def _trained(
    start: ExpertParameters, basis: Floats, target: Floats, weight: Floats, loss: str
) -> tuple[Floats, ExpertParameters]:
    """Return (STEPS, n) the predictions of each step for every row, and the parameters after each step, stacked."""
    run = _program(loss)
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        predictions_by_step, learned = run(jax.tree.map(jnp.asarray, start), *map(jnp.asarray, (basis, target, weight)))
    return np.asarray(predictions_by_step), jax.tree.map(np.asarray, learned)


@cache
def _program(loss: str) -> Any:
    """Return the training program, compiled once for all folds, which share their shapes and differ in weights.

    Raises:
        MissingExtra: JAX is not installed.
    """
    try:
        import jax
        import jax.numpy as jnp
        import optax
    except ImportError:
        raise MissingExtra("training experts", "networks") from None

    adam = optax.adam(RATE)

    def misfit(parameters: ExpertParameters, basis: Any, target: Any, weight: Any) -> Any:
        z = parameters.b + parts(jnp, parameters, basis).sum(axis=1)
        off = (z - target) ** 2 if loss == "squared" else jax.nn.softplus(z) - target * z
        return (weight * off).sum() / weight.sum()

    @jax.jit
    def run(begun: ExpertParameters, *data: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            parameters, moments = state
            change, moments = adam.update(jax.grad(misfit)(parameters, *data), moments)
            moved = optax.apply_updates(parameters, change)
            return (moved, moments), (moved.b + parts(jnp, moved, data[0]).sum(axis=1), moved)

        return jax.lax.scan(step, (begun, adam.init(begun)), None, STEPS)[1]

    return run


def _scale(y: Floats, ends: tuple[float, float], loss: str) -> tuple[float, float]:
    if loss == "cross-entropy":
        return ends[0], ends[1] - ends[0]
    return float(y.mean()), float(y.std()) or 1.0


def _in_units(z: Any, scale: tuple[float, float], loss: str) -> Floats:
    return np.asarray(scale[0] + scale[1] * (z if loss == "squared" else scipy.special.expit(z)))
