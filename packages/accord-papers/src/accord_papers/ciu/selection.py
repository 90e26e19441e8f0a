"""The paper's static combinations: 17 ways to select metrics, each with a support vector regressor (section 5.2).

Metrics and the regressor's settings are chosen on the training side, the latter by grid search over folds of whole
contexts. Metrics are ranks among the training responses, with missing ones in the middle.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import RFE, SelectFpr, SelectFromModel, SequentialFeatureSelector, f_regression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.svm import SVR

Floats = NDArray[np.float64]

GRID = {"C": [0.1, 1.0, 10.0], "epsilon": [0.1, 0.3], "kernel": ["rbf", "linear"]}
FOLDS = 3
STRATEGIES = (
    "univariate", "random-forest",
    *(f"{mode}-{k}" for mode in ("recursive", "forward", "backward") for k in range(1, 6)),
)  # fmt: skip
"""`recursive-k` drops k metrics, `forward-k` and `backward-k` keep k."""


def selected(strategy: str, X: Floats, y: Floats, context: NDArray[np.object_], seed: int) -> NDArray[np.bool_]:
    """Return (M,) the metrics that a strategy keeps; at least one."""
    mode, _, count = strategy.rpartition("-")
    metrics = X.shape[1]
    if strategy == "all" or (mode in {"recursive", "forward", "backward"} and int(count) >= metrics):
        return np.ones(metrics, dtype=bool)
    if strategy == "univariate":
        chosen = SelectFpr(f_regression, alpha=0.05).fit(X, y)
    elif strategy == "random-forest":
        chosen = SelectFromModel(RandomForestRegressor(100, random_state=seed), threshold="mean").fit(X, y)
    elif mode == "recursive":
        chosen = RFE(SVR(kernel="linear"), n_features_to_select=metrics - int(count)).fit(X, y)
    else:
        folds = list(GroupKFold(FOLDS).split(X, y, context))
        options = {"direction": mode, "scoring": "r2", "cv": folds, "n_features_to_select": int(count)}
        chosen = SequentialFeatureSelector(SVR(kernel="linear"), **options).fit(X, y)
    kept = np.asarray(chosen.get_support())
    return kept if kept.any() else np.ones(metrics, dtype=bool)


def regressed(X: Floats, y: Floats, context: NDArray[np.object_], new: Floats) -> Floats:
    """Return (n,) predictions of a support vector regressor with settings from grid search."""
    folds = list(GroupKFold(FOLDS).split(X, y, context))
    search = GridSearchCV(SVR(), GRID, scoring="neg_mean_squared_error", cv=folds).fit(X, y)
    return np.asarray(search.predict(new))
