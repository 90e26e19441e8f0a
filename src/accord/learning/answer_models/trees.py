"""Answer models `trees` and `boosting`: ensembles of regression trees, stored as arrays.

    trees     P(y ≤ k | x) = mean over trees of the frequency of y ≤ k in the leaf of x   (Geurts et al., 2006)
    boosting  μ(x) = ȳ + η Σ_t h_t(x), followed by an ordered probit                      (Friedman, 2001)

Trees split by the sum of squared errors of the K - 1 indicators y ≤ k, which is the ranked probability score. The
contribution of a column is the change of the prediction at the splits on it, along the path to the leaf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.learning.answer_models.contract import (
    AnswerModel,
    Floats,
    Indices,
    TextMeanModel,
    card_names,
    card_number,
    fold_masks,
    inner_folds,
    matrix,
    part_arrays,
    prefixed,
)
from accord.learning.answer_models.mixed.layout import standardization
from accord.learning.answer_models.ordinal import OrdinalLink
from accord.values import Labels

TREES = 60
"""Number of randomized trees."""
LEAST_IN_LEAF, MOST_LEAVES = 5, 200
"""Smallest number of texts in a leaf, or of ratings in every second randomized tree, and largest number of leaves of
a tree with leaves of equal size."""
ROUNDS, DEPTH, LEARNING_RATE = 40, 3, 0.15
"""Boosting: number of trees of each ensemble, their depth, and the share of each tree that is added."""
_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class TreeEnsemble:
    """Binary trees whose values add up.

    Attributes:
        roots: (T,) node of each tree's root.
        feature: (N,) column that a node splits on.
        threshold: (N,) rows with at most this value go left.
        children: (N, 2) left and right child; a leaf is its own child.
        value: (N, m) mean of the training rows in a node, or of their residuals, divided by T for a mean of trees.
        fill: (d,) replacement of missing values.
    """

    roots: Indices
    feature: Indices
    threshold: Floats
    children: Indices
    value: Floats
    fill: Floats

    @classmethod
    def of(cls, trees: Iterable[Any], scale: float, fill: Floats) -> Self:
        """Return fitted trees of scikit-learn (`tree_`), their values multiplied by `scale`."""
        parts = list(trees)
        sizes = np.array([tree.node_count for tree in parts])
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        children = [np.column_stack([tree.children_left, tree.children_right]) for tree in parts]
        own = [np.arange(size)[:, None] for size in sizes]
        joined = [np.where(side < 0, leaf, side) + root for side, leaf, root in zip(children, own, roots, strict=True)]
        return cls(
            roots.astype(np.intp),
            np.concatenate([np.maximum(tree.feature, 0) for tree in parts]).astype(np.intp),
            np.concatenate([tree.threshold for tree in parts]),
            np.concatenate(joined).astype(np.intp),
            scale * np.concatenate([tree.value[:, :, 0] for tree in parts]),
            fill,
        )

    @classmethod
    def restored(cls, arrays: Arrays, width: int) -> Self:
        """Return saved trees whose values have `width` columns, after a check that every path ends in a leaf.

        Raises:
            ValueError: The arrays contradict each other.
        """
        roots, feature, children = (np.asarray(arrays[name]) for name in ("roots", "feature", "children"))
        threshold, value, fill = (np.asarray(arrays[name], dtype=float) for name in ("threshold", "value", "fill"))
        nodes, count = np.arange(feature.size), feature.size
        shapes = (threshold.shape, children.shape, value.shape, roots.ndim, feature.ndim, fill.ndim)
        if shapes != ((count,), (count, 2), (count, width), 1, 1, 1) or not roots.size:
            raise ValueError("arrays of trees have different lengths")
        if any(array.dtype.kind not in "iu" for array in (roots, feature, children)):
            raise ValueError("places of trees are not whole numbers")
        is_leaf = (children == nodes[:, None]).all(axis=1)
        follows = ((children > nodes[:, None]) & (children < count)).all(axis=1)
        if not (is_leaf | follows).all() or not (_in_range(roots, count) and _in_range(feature, len(fill))):
            raise ValueError("a node of a tree refers to no later node, or to no column")
        if not all(np.isfinite(array).all() for array in (threshold, value, fill)):
            raise ValueError("a number of a tree is not finite")
        roots, feature, children = (array.astype(np.intp) for array in (roots, feature, children))
        return cls(roots, feature, threshold, children, value, fill)

    def sums(self, X: Floats) -> Floats:
        """Return (n, m) the sum over trees of the values of the rows' leaves."""
        result = np.empty((len(X), self.value.shape[1]))
        for rows, paths in self._paths(X):
            result[rows] = self.value[paths[-1]].sum(axis=1)
        return result

    def contributions(self, X: Floats, weights: Floats) -> Floats:
        """Return (n, d) the contribution of each column to `sums` @ weights (m,)."""
        value = self.value @ weights
        result = np.zeros(X.shape)
        for rows, paths in self._paths(X):
            own = np.arange(rows.start, rows.start + len(paths[0]))[:, None]
            for node, following in zip(paths, paths[1:], strict=False):
                np.add.at(
                    result, (np.broadcast_to(own, node.shape), self.feature[node]), value[following] - value[node]
                )
        return result

    def _paths(self, X: Floats) -> Iterable[tuple[slice, list[Indices]]]:
        """Yield rows and the (rows, T) nodes on their paths, from the roots to the leaves."""
        known = np.where(np.isnan(X), self.fill, X).astype(np.float32)  # the precision in which the trees were learned
        for start in range(0, len(known), _ROWS_AT_ONCE):
            part = known[start : start + _ROWS_AT_ONCE]
            own = np.arange(len(part))[:, None]
            paths = [np.broadcast_to(self.roots, (len(part), len(self.roots)))]
            while True:
                node = paths[-1]
                goes_right = part[own, self.feature[node]] > self.threshold[node]
                following = self.children[node, goes_right.astype(np.intp)]
                if (following == node).all():
                    break
                paths.append(following)
            yield slice(start, start + len(part)), paths

    def arrays(self) -> Arrays:
        """Return the fields as arrays to save."""
        return {name: np.asarray(array) for name, array in vars(self).items()}


def _in_range(places: NDArray[Any], count: int) -> bool:
    return bool(((places >= 0) & (places < count)).all())


def _filled(X: Floats) -> tuple[Floats, Floats]:
    """Return columns (n, d) with missing values at their means, and these means (d,)."""
    fill = standardization(X)[0]
    return np.where(np.isnan(X), fill, X), fill


def _forest(X: Floats, share: Floats, weight: Floats, count: int, seed: int) -> list[Any]:
    """Return extremely randomized trees for the frequencies of y ≤ k of T texts (T, K - 1).

    The smallest leaf is counted in texts and in ratings by turns. The trees equal the trees of scikit-learn's
    `ExtraTreesRegressor`, which copies and checks an estimator and makes a random generator for each tree; for the few
    texts of an inner fold, that takes most of its time.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    ratings = float(weight.sum())
    least = max(min(LEAST_IN_LEAF, len(X) // 3), len(X) // MOST_LEAVES, 1)
    least_share = max(min(LEAST_IN_LEAF / ratings, 1 / 3), 1 / MOST_LEAVES) - 1e-9  # a leaf of exactly that many counts
    seeds = np.random.RandomState(seed).randint(np.iinfo(np.int32).max, size=count).tolist()
    draw, single, trees = np.random.RandomState(), X.astype(np.float32), []
    of_texts = ExtraTreeRegressor(min_samples_leaf=least, random_state=draw)
    of_ratings = ExtraTreeRegressor(min_weight_fraction_leaf=least_share, random_state=draw)
    with config_context(skip_parameter_validation=True, assume_finite=True):
        for each, tree in zip(seeds, cycle((of_texts, of_ratings)), strict=False):
            draw.seed(each)
            trees.append(tree.fit(single, share, weight, check_input=False).tree_)
    return trees


class _RatedTexts:
    """T texts, equal by content: evidence (T, d), shares of y ≤ k (T, K - 1), ratings (T,) and inner folds (T,)."""

    def __init__(self, X: Floats, share: Floats, weight: Floats, fold: Indices) -> None:
        self.X, self.share, self.weight, self.fold = X, share, weight, fold
        digest = hashlib.sha256(repr([X.shape, share.shape]).encode())
        for array in (X, share, weight, fold):
            digest.update(np.ascontiguousarray(array).tobytes())
        self._digest = digest.digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RatedTexts) and self._digest == other._digest


@lru_cache(maxsize=2)
def _grown(texts: _RatedTexts) -> tuple[Floats, TreeEnsemble]:
    """Return (T, K - 1) predictions from the trees without each text's inner fold, and all trees.

    On one fold of a comparison, the head `trees` and the average of the default evaluator learn the same trees.
    """
    X, fill = _filled(texts.X)
    held_out, trees, count = np.empty(texts.share.shape), [], TREES // len(np.unique(texts.fold))
    for seed, (train, test) in enumerate(fold_masks(texts.fold)):
        forest = _forest(X[train], texts.share[train], texts.weight[train], count, seed)
        single = X[test].astype(np.float32)
        held_out[test] = sum(tree.predict(single).reshape(-1, texts.share.shape[1]) for tree in forest) / count
        trees += forest
    return held_out, TreeEnsemble.of(trees, 1 / len(trees), fill)


class TreeAnswers(AnswerModel):
    """Mean frequencies of the leaves of extremely randomized trees.

    Each tree leaves one inner fold of the groups out, so the same trees predict new texts and held-out ones.
    """

    name = "trees"
    uses_other_questions = False
    differs_by_annotator = False

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn, and return (n, K) distributions from the trees without each rating's inner fold."""
        self._rated, fold = rated, inner_folds(rated)
        texts, first, place = np.unique(rated.row, return_index=True, return_inverse=True)
        weight, fold = np.bincount(place).astype(float), fold[first]
        below = rated.answer[:, None] <= np.arange(len(rated.options) - 1)
        share = np.column_stack([np.bincount(place, column) for column in below.T]) / weight[:, None]
        self.options_, self.people_ = rated.options, sorted({str(name) for name in rated.annotator})
        self.floor_ = 1 / (2 * len(rated) + len(rated.options))
        held_out, self.trees_ = _grown(_RatedTexts(matrix(features)[texts], share, weight, fold))
        return self._shares(held_out)[place]

    def cross_predict(
        self, make: Callable[[], AnswerModel], features: EvidenceTable, rated: Ratings, labels: Labels
    ) -> tuple[Floats, Floats]:
        """Return (n, K) held-out distributions, for `fit` to keep; `make` is not used."""
        known = self.fit_predict(features, rated, labels)
        return known, known

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn the share of answers y ≤ k of each text."""
        if getattr(self, "_rated", None) is not rated:
            self.fit_predict(features, rated, labels)
        del self._rated

    def _shares(self, below: Floats) -> Floats:
        """Return (n, K) distributions from the frequencies of y ≤ k (n, K - 1)."""
        shares = np.diff(below, axis=1, prepend=0.0, append=1.0)
        return np.asarray((1 - shares.shape[1] * self.floor_) * np.maximum(shares, 0.0) + self.floor_)

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the mean frequencies of each row's leaves, the same for every annotator."""
        return self._shares(self.trees_.sums(matrix(features)))

    def contributions(self, features: EvidenceTable) -> Floats:
        """Return (n, d) the contribution of each column to the predicted mean rating."""
        # E[y] = y_K - Σ_k P(y ≤ k)·(y_{k+1} - y_k)
        return self.trees_.contributions(matrix(features), -np.diff(self.options_))

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the model learned from; all get the same predictions."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """Return the number of trees and nodes."""
        return {"trees": len(self.trees_.roots), "nodes": len(self.trees_.feature)}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        return {"people": self.people_, "floor": self.floor_}, {
            "options": self.options_,
            **prefixed("trees", self.trees_.arrays()),
        }

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.people_, self.floor_ = card_names(card, "people"), card_number(card, "floor")
        self.options_ = arrays["options"]
        self.trees_ = TreeEnsemble.restored(part_arrays("trees", arrays), len(self.options_) - 1)
        return self


class BoostedAnswers(TextMeanModel):
    """Ordered probit of gradient-boosted trees on each text's mean rating: the mean of one ensemble per inner fold."""

    name = "boosting"
    uses_other_questions = False

    def fit_texts(
        self, features: EvidenceTable, texts: Indices, mean: Floats, weight: Floats, fold: Indices, group: Indices
    ) -> Floats:
        """Learn from T rated texts."""
        from sklearn import config_context
        from sklearn.ensemble import GradientBoostingRegressor

        X, fill = _filled(matrix(features)[texts])
        held_out, trees, levels = np.empty(len(texts)), [], []
        for train, test in fold_masks(fold):
            model = GradientBoostingRegressor(
                n_estimators=ROUNDS, max_depth=DEPTH, learning_rate=LEARNING_RATE, min_samples_leaf=LEAST_IN_LEAF,
                subsample=0.7, random_state=0,
            )  # fmt: skip
            with config_context(skip_parameter_validation=True):  # it would check the settings of each tree
                model.fit(X[train], mean[train], weight[train])
            held_out[test] = model.predict(X[test])
            trees += [tree.tree_ for tree in model.estimators_[:, 0]]
            levels.append(float(np.average(mean[train], weights=weight[train])))
        self.level_ = float(np.mean(levels))
        self.trees_ = TreeEnsemble.of(trees, LEARNING_RATE / len(levels), fill)
        return held_out

    def predict_texts(self, features: EvidenceTable) -> Floats:
        """Return (n,) predicted mean ratings."""
        return np.asarray(self.level_ + self.trees_.sums(matrix(features))[:, 0])

    def contributions(self, features: EvidenceTable) -> Floats:
        """Return (n, d) the contribution of each column to the predicted mean rating."""
        return self.trees_.contributions(matrix(features), np.ones(1))

    def describe(self) -> dict[str, Any]:
        """Return the number of trees and nodes."""
        return {"trees": len(self.trees_.roots), "nodes": len(self.trees_.feature)}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        link, link_arrays = self.link_.state()
        card = {"level": self.level_, "link": link, "people": self.people_}
        return card, {**prefixed("link", link_arrays), **prefixed("trees", self.trees_.arrays()), "unit_": self.unit_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.people_, self.level_ = card_names(card, "people"), card_number(card, "level")
        self.unit_ = arrays["unit_"]
        self.link_ = OrdinalLink.restored(card["link"], part_arrays("link", arrays))
        self.trees_ = TreeEnsemble.restored(part_arrays("trees", arrays), 1)
        return self
