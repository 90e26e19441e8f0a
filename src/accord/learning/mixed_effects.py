"""The linear mixed model as a scikit-learn regressor; what Accord learns itself needs no scikit-learn for it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from accord.learning.mixed_model import MixedModel
from accord.learning.rating_design import Floats


class MixedEffects(RegressorMixin, MixedModel, BaseEstimator):  # type: ignore[misc]
    """`MixedModel`, its input checked as scikit-learn asks.

    Args:
        own_slopes: Whether annotators may weigh the evidence differently, or differ in level alone.
        ratios: The variance ratios as in `ratios_`, where they are known; otherwise REML finds them.
    """

    def __init__(self, own_slopes: bool = True, ratios: ArrayLike | None = None) -> None:
        super().__init__(own_slopes, ratios)  # written out: scikit-learn reads its names from here

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        annotator: ArrayLike | None = None,
        text: ArrayLike | None = None,
        group: ArrayLike | None = None,
        source: ArrayLike | None = None,
    ) -> Self:
        """As `MixedModel.fit`.

        Raises:
            ValueError: There are no rows, no columns, infinite numbers, or another number of ratings than of rows.
        """
        rows, rated = validate_data(self, X, y, y_numeric=True, ensure_all_finite="allow-nan", dtype=np.float64)
        return super().fit(rows, rated, annotator, text, group, source)

    def predict(self, X: ArrayLike, annotator: ArrayLike | None = None) -> Floats:
        """As `MixedModel.predict`.

        Raises:
            ValueError: The columns are not those that were learned from; NotFittedError, nothing was learned.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, ensure_all_finite="allow-nan", dtype=np.float64)
        return super().predict(rows, annotator)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
