"""Annotators' habits in a new domain: shrunk before anything is known of it, and moved by its first labels."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from accord.learning.mixed_model import MixedModel
from accord.learning.rating_design import OFFSET, TEXT, Floats


def shrunk_habits(model: MixedModel, domain_correlation: float) -> MixedModel:
    """The model as it is believed before anything is known of the new domain: habits shrunk by `domain_correlation`."""
    moved = copy.copy(model)
    moved.offsets_ = domain_correlation * model.offsets_
    moved.own_slopes_ = domain_correlation * model.own_slopes_
    return moved


def adapted(
    model: MixedModel,
    domain_correlation: float,
    X: Floats,
    y: Floats,
    annotator: NDArray[np.object_],
    text: NDArray[np.object_],
) -> MixedModel:
    """The model after k labels from the new domain; annotators nobody met join with those labels.

    The rows' residuals r around the carried-over model have covariance
    K = τ·1 + same annotator·h·s²·(r_u + Σ_s r_gs·z_s·z_s') + same text·s²·r_v + s²·I, h = 1 - domain_correlation² for
    those the model knows and 1 for others; τ, the variance of the domain's own level, is that of the ratings.
    """
    moved = _with_newcomers(shrunk_habits(model, domain_correlation), annotator)
    Z = moved.standardised(X)
    who = moved.index_of(annotator, len(Z))
    known = np.isin(moved.annotators_, model.annotators_)
    looseness = np.where(known, 1 - domain_correlation**2, 1.0)[who]
    offset = model.noise_ * model.ratios_[OFFSET]
    slope = model.noise_ * model.own_ratios
    level = float(np.var(y)) or model.noise_
    same_person = (who[:, None] == who) * looseness
    covariance = (
        level
        + same_person * (offset + (Z * slope) @ Z.T)
        + (text[:, None] == text) * model.noise_ * model.ratios_[TEXT]
        + model.noise_ * np.eye(len(Z))
    )
    pull = np.linalg.solve(covariance, y - moved.predict(X, annotator))
    moved.intercept_ = moved.intercept_ + level * float(pull.sum())
    # An annotator the training never told apart (no person effects) has nothing to update.
    np.add.at(moved.offsets_, who, offset * looseness * pull)
    np.add.at(moved.own_slopes_, who, (looseness * pull)[:, None] * Z * slope)
    return moved


def remaining_doubt(
    model: MixedModel, domain_correlation: float, annotators: NDArray[np.object_], labels: Mapping[str, int]
) -> Floats:
    """(A,) the share of each annotator's habit that k labels from the new domain leave unknown.

    Of the level's prior variance h·s²·r_u, one label explains what a normal mean learns from one draw with the
    noise of a rating and of a text: h / (1 + k·h·r_u / (1 + r_v)).
    """
    prior = np.where(np.isin(annotators, model.annotators_), 1 - domain_correlation**2, 1.0)
    given = np.array([labels.get(str(name), 0) for name in annotators], dtype=float)
    return np.asarray(prior / (1 + given * prior * model.ratios_[OFFSET] / (1 + model.ratios_[TEXT])))


def _with_newcomers(model: MixedModel, annotator: NDArray[np.object_]) -> MixedModel:
    newcomers = sorted(set(map(str, annotator)) - set(model.annotators_))
    grown = copy.copy(model)
    grown.annotators_ = np.array([*model.annotators_, *newcomers], dtype=object)
    grown.offsets_ = np.append(model.offsets_, np.zeros(len(newcomers)))
    grown.own_slopes_ = np.vstack([model.own_slopes_, np.zeros((len(newcomers), model.own_slopes_.shape[1]))])
    return grown
