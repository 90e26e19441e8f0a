"""Ratings as a sparse design matrix, with the texts and groups that share effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Rows = Floats | Any
"""Dense or sparse matrix (scipy.sparse has no types)."""

SLOPE, OFFSET, OWN_SLOPE, TEXT, GROUP = range(5)
"""Indices of the variance ratios. Slopes and annotator slopes of a second source follow, then of a third."""
FIXED = -1
"""Marks an effect without a variance ratio."""
LOG_RATIO_BOUNDS = (-12.0, 4.0)


@dataclass(frozen=True)
class Nesting:
    """Ratings within texts, and texts within groups.

    Attributes:
        text: (n,) text of each rating.
        size: (T,) number of ratings of each text.
        group: (T,) group of each text.
        groups: Number of groups G.
    """

    text: Indices
    size: Floats
    group: Indices
    groups: int

    @classmethod
    def of(cls, n: int, text: Indices, group: Indices) -> Nesting:
        """Return the nesting of n ratings.

        An empty `text` puts each rating into a text of its own; an empty `group` puts each text into a group of its
        own. All ratings of a text must belong to one group.
        """
        text = text if text.size else np.arange(n)
        texts = int(text.max()) + 1 if n else 0
        of_text = np.arange(texts)
        if group.size:
            of_text[text] = group
        return cls(text, np.bincount(text, minlength=texts).astype(float), of_text, int(of_text.max(initial=-1)) + 1)

    @property
    def present(self) -> list[int]:
        """TEXT if a text was rated more than once, GROUP if a group has more than one text."""
        several = np.bincount(self.group, minlength=self.groups) > 1
        grouped = self.groups > 1 and several.any()  # the effect of a single group is the intercept
        return [*([TEXT] if (self.size > 1).any() else []), *([GROUP] if grouped else [])]

    @property
    def group_of_row(self) -> Indices:
        """(n,) group of each rating."""
        return self.group[self.text]

    def by_text(self) -> scipy.sparse.csr_array:
        """Return the (T, n) matrix that sums over the ratings of each text."""
        n = len(self.text)
        return scipy.sparse.csr_array((np.ones(n), (self.text, np.arange(n))), shape=(len(self.size), n))

    def weights(self, ratios: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return w (T,), a (T,), s (G,) and k (G,) of the module's formula; w and k are 0 for an absent effect."""
        w: Floats = 1.0 / (self.size + 1.0 / ratios[TEXT]) if ratios[TEXT] > 0 else np.zeros(len(self.size))
        a = 1.0 - self.size * w
        s = np.bincount(self.group, self.size * a, self.groups).astype(np.float64)
        k: Floats = 1.0 / (s + 1.0 / ratios[GROUP]) if ratios[GROUP] > 0 else np.zeros(self.groups)
        return w, a, s, k

    def shared(self, a: Floats, k: Floats, sums: Floats) -> Floats:
        """Return (T,) the group part of V⁻¹, k·a·aᵀ, applied to sums by text (T,)."""
        return a * (k * self.group_sums(a * sums))[self.group]

    def group_sums(self, sums: Floats) -> Floats:
        """Return (G,) sums by group of sums by text (T,)."""
        return np.bincount(self.group, sums, self.groups).astype(np.float64, copy=False)

    @cached_property
    def by_group(self) -> scipy.sparse.csr_array:
        """(G, T) matrix that sums over the texts of each group."""
        texts = np.arange(len(self.group))
        return scipy.sparse.csr_array((np.ones(len(texts)), (self.group, texts)), shape=(self.groups, len(texts)))

    def left_out(self) -> Iterator[Indices]:
        """Yield (G, m) ratings to leave out together, one array per group size.

        With a single group, the ratings of each text are left out together.
        """
        of_row, size = self.group_of_row, np.bincount(self.group_of_row, minlength=self.groups)
        if self.groups == 1:  # no other group to fit from
            of_row, size = self.text, self.size.astype(np.intp)
        order = np.argsort(of_row, kind="stable")
        starts = np.concatenate([[0], np.cumsum(size)]).astype(int)
        for each in np.unique(size):
            yield order[starts[np.flatnonzero(size == each)][:, None] + np.arange(int(each))]

    def take(self, kept: Indices) -> Nesting:
        """Return the nesting of the ratings at these indices."""
        text = np.unique(self.text[kept], return_inverse=True)[1].astype(np.intp)
        group = np.unique(self.group_of_row[kept], return_inverse=True)[1].astype(np.intp)
        return Nesting.of(len(kept), text, group)


L = TypeVar("L", bound="RatingLayout")


@dataclass(frozen=True)
class RatingLayout:
    """n ratings with their design matrix W = [1, Z, U, U∘Z] (n, q), texts and groups.

    Attributes:
        rows: W, sparse, with at most 2 + 2p entries per rating.
        y: (n,) ratings.
        block: (q,) index of each effect's variance ratio; `FIXED` for the intercept.
        count: Number of variance ratios.
        Z: (n, p) features.
        who: (n,) annotator of each rating.
        people: Number of annotators.
        nesting: Texts and groups.
        own_slopes: True if annotators have slopes of their own.
        source: (p,) source index of each column; None gives all columns one variance.
    """

    rows: scipy.sparse.csr_array
    y: Floats
    block: Indices
    count: int
    Z: Floats
    who: Indices
    people: int
    nesting: Nesting
    own_slopes: bool
    source: Indices | None

    @classmethod
    def of(
        cls,
        Z: Floats,
        y: Floats,
        who: Indices,
        people: int,
        text: Indices,
        own_slopes: bool,
        group: Indices | None = None,
        source: Indices | None = None,
    ) -> Self:
        """Lay out n ratings.

        `people` = 0 fits no annotator effects. An empty `text` or a missing `group` means that no effect is shared.
        """
        W, block, count = _design_matrix(Z, who, people, own_slopes, source)
        nesting = Nesting.of(len(y), text, np.zeros(0, dtype=np.intp) if group is None else group)
        return cls(W, y, block, count, Z, who, people, nesting, own_slopes, source)

    def as_kind(self, kind: type[L]) -> L:
        """Return the same ratings as another class of equations."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(RatingLayout)})

    @cached_property
    def members(self) -> dict[int, NDArray[np.bool_]]:
        """(q,) mask of the effects that share each variance ratio, by index of the ratio."""
        return {effect: self.block == effect for effect in np.unique(self.block[self.block != FIXED]).tolist()}

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the noise: the number of ratings less one for the intercept."""
        return max(len(self.y) - 1.0, 1.0)

    def penalty(self, ratios: Floats) -> Floats:
        """Return (q,) the diagonal of D⁻¹, with D the effects' variances over s²; 0 for the intercept."""
        fixed = self.block == FIXED
        return np.where(fixed, 0.0, 1.0 / np.where(fixed, 1.0, ratios[self.block]))

    def present(self) -> list[int]:
        """Return the indices of the variance ratios that this design can estimate."""
        return sorted({*self.members, *self.nesting.present})

    def of_present(self, ratios: Floats) -> Floats:
        """Return the given ratios, with 0 for effects that this design lacks."""
        lowest = np.exp(LOG_RATIO_BOUNDS[0])
        given = np.append(ratios, np.zeros(max(self.count - len(ratios), 0)))[: self.count]
        return np.where(np.isin(np.arange(self.count), self.present()), np.maximum(given, lowest), 0.0)


def own_effects(p: int, source: Indices | None, own_slopes: bool) -> tuple[Indices, Indices, int]:
    """Return the variance ratio of each column's slope (p,), of its annotator slopes (p,), and the number of ratios.

    `source` holds (p,) source indices starting at 0; None gives all columns one source.
    """
    of = np.zeros(p, dtype=np.intp) if source is None else source
    later = GROUP + 2 * of
    slope = np.where(of == 0, SLOPE, later - 1)
    own = np.where(of == 0, OWN_SLOPE, later)
    return slope, own, GROUP + 1 + 2 * int(of.max(initial=0))


def _design_matrix(
    Z: Floats, who: Indices, people: int, own_slopes: bool, source: Indices | None
) -> tuple[scipy.sparse.csr_array, Indices, int]:
    """Return W = [1, Z, U, U∘Z] (n, q), the ratio index of each effect (q,), and the number of ratios."""
    n, p = Z.shape
    slope, own, count = own_effects(p, source, own_slopes)
    parts: list[Any] = [scipy.sparse.csr_array(np.hstack([np.ones((n, 1)), Z]))]
    blocks = [np.array([FIXED]), slope]
    if people:
        parts.append(scipy.sparse.csr_array((np.ones(n), (np.arange(n), who)), shape=(n, people)))
        blocks.append(np.full(people, OFFSET))
        if own_slopes:
            columns = (who[:, None] * p + np.arange(p)).ravel()
            by_person = (Z.ravel(), columns, np.arange(0, n * p + 1, max(p, 1)) if p else np.zeros(n + 1, dtype=int))
            parts.append(scipy.sparse.csr_array(by_person, shape=(n, people * p)))
            blocks.append(np.tile(own, people))
    return scipy.sparse.hstack(parts, format="csr"), np.concatenate(blocks).astype(np.intp), count


def weighted(rows: Rows, by: Floats) -> Rows:
    """Multiply each row by its weight."""
    return rows * by[:, None] if isinstance(rows, np.ndarray) else rows.multiply(by[:, None]).tocsr()


def dense(rows: Rows) -> Floats:
    """Return the rows as a dense array."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def standardization(X: Floats, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column, ignoring missing values.

    Both are 0 and 1 for a column without values or without variation. `weight` (n,) counts each row that often.
    """
    known = ~np.isnan(X) if weight is None else ~np.isnan(X) * weight[:, None]
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X * known, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, (X - mean) ** 2 * known, 0.0)).sum(axis=0) / count)
    return mean, np.where(spread > 1e-9 * (1 + np.abs(mean)), spread, 1.0)


def source_numbers(source: ArrayLike | None, columns: int) -> Indices:
    """Return (p,) the index of each column's source, numbered in order of appearance."""
    if source is None:
        return np.zeros(columns, dtype=np.intp)
    names = [str(name) for name in np.asarray(source)]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.intp)
