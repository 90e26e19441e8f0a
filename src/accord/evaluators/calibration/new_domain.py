"""Habits in a new place: how far an annotator's level and weights carry over, and what a few labels there add.

In a new domain (another product, another set of assistants) a person's effects are believed to correlate with
their old ones by `carry_over`. A few labels from the new domain then update level, offsets and slopes by the same
Gaussian model, in closed form.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.calibration.equations import OFFSET, OWN_SLOPE, TEXT
from accord.evaluators.calibration.mixed import MixedEffects

Floats = NDArray[np.float64]


def carried_over(model: MixedEffects, carry_over: float) -> MixedEffects:
    """The model as it is believed before anything is known of the new domain: habits shrunk by `carry_over`."""
    moved = copy.copy(model)
    moved.offsets_ = carry_over * model.offsets_
    moved.own_slopes_ = carry_over * model.own_slopes_
    return moved


def adapted(
    model: MixedEffects,
    carry_over: float,
    X: Floats,
    y: Floats,
    annotator: NDArray[np.object_],
    text: NDArray[np.object_],
) -> MixedEffects:
    """The model after k labels from the new domain; annotators nobody met join with those labels.

    The rows' residuals r around the carried-over model have covariance
    K = τ·1 + same annotator·h·s²·(r_u + r_g·z·z') + same text·s²·r_v + s²·I, with h = 1 - carry_over² for people
    the model knows and 1 for others; τ, the variance of the domain's own level, is that of the ratings.
    """
    moved = _with_newcomers(carried_over(model, carry_over), annotator)
    Z = moved.standardised(X)
    who = moved.index_of(annotator, len(Z))
    known = np.isin(moved.annotators_, model.annotators_)
    looseness = np.where(known, 1 - carry_over**2, 1.0)[who]
    offset = model.noise_ * model.ratios_[OFFSET]
    slope = model.noise_ * model.ratios_[OWN_SLOPE]
    level = float(np.var(y)) or model.noise_
    same_person = (who[:, None] == who) * looseness
    covariance = (
        level
        + same_person * (offset + slope * (Z @ Z.T))
        + (text[:, None] == text) * model.noise_ * model.ratios_[TEXT]
        + model.noise_ * np.eye(len(Z))
    )
    pull = np.linalg.solve(covariance, y - moved.predict(X, annotator))
    moved.intercept_ = moved.intercept_ + level * float(pull.sum())
    # An annotator the training never told apart (no person effects) has nothing to update.
    np.add.at(moved.offsets_, who, offset * looseness * pull)
    np.add.at(moved.own_slopes_, who, slope * (looseness * pull)[:, None] * Z)
    return moved


def remaining_doubt(
    model: MixedEffects, carry_over: float, annotators: NDArray[np.object_], labels: Mapping[str, int]
) -> Floats:
    """(A,) the share of each annotator's habit that k labels from the new domain leave unknown.

    Of the level's prior variance h·s²·r_u, one label explains what a normal mean learns from one draw with the
    noise of a rating and of a text: h / (1 + k·h·r_u / (1 + r_v)).
    """
    prior = np.where(np.isin(annotators, model.annotators_), 1 - carry_over**2, 1.0)
    given = np.array([labels.get(str(name), 0) for name in annotators], dtype=float)
    return np.asarray(prior / (1 + given * prior * model.ratios_[OFFSET] / (1 + model.ratios_[TEXT])))


def _with_newcomers(model: MixedEffects, annotator: NDArray[np.object_]) -> MixedEffects:
    newcomers = sorted(set(map(str, annotator)) - set(model.annotators_))
    grown = copy.copy(model)
    grown.annotators_ = np.array([*model.annotators_, *newcomers], dtype=object)
    grown.offsets_ = np.append(model.offsets_, np.zeros(len(newcomers)))
    grown.own_slopes_ = np.vstack([model.own_slopes_, np.zeros((len(newcomers), model.own_slopes_.shape[1]))])
    return grown
