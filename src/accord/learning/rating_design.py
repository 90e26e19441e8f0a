"""Ratings laid out for the mixed model's equations: the design, and which ratings share a text or a group."""

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
"""Dense, or sparse (scipy.sparse has no types)."""

SLOPE, OFFSET, OWN_SLOPE, TEXT, GROUP = range(5)
"""Places of the variance ratios; a second source's slopes and own slopes come after them, then a third's."""
FIXED = -1
LOG_RATIO_BOUNDS = (-12.0, 4.0)


@dataclass(frozen=True)
class Nesting:
    """Which ratings share a text, and which texts share a group: what is eliminated first.

    Attributes:
        text: (n,) each rating's text.
        size: (T,) ratings of each text.
        group: (T,) each text's group.
        groups: G.
    """

    text: Indices
    size: Floats
    group: Indices
    groups: int

    @classmethod
    def of(cls, n: int, text: Indices, group: Indices) -> Nesting:
        """Of n ratings; without `text` no two share one, without `group` no two texts do.

        Ratings of one text belong to one group.
        """
        text = text if text.size else np.arange(n)
        texts = int(text.max()) + 1 if n else 0
        of_text = np.arange(texts)
        if group.size:
            of_text[text] = group
        return cls(text, np.bincount(text, minlength=texts).astype(float), of_text, int(of_text.max(initial=-1)) + 1)

    @property
    def present(self) -> list[int]:
        """TEXT where a text was rated more than once, GROUP where a group has more than one text."""
        several = np.bincount(self.group, minlength=self.groups) > 1
        grouped = self.groups > 1 and several.any()  # the level of a single group is the model's own
        return [*([TEXT] if (self.size > 1).any() else []), *([GROUP] if grouped else [])]

    @property
    def group_of_row(self) -> Indices:
        """(n,) each rating's group."""
        return self.group[self.text]

    def by_text(self) -> scipy.sparse.csr_array:
        """(T, n) sums over the ratings of a text."""
        n = len(self.text)
        return scipy.sparse.csr_array((np.ones(n), (self.text, np.arange(n))), shape=(len(self.size), n))

    def weights(self, ratios: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """As the file's opening has them: w (T,), a (T,), s (G,), k (G,); w and k are 0 for an absent effect."""
        w: Floats = 1.0 / (self.size + 1.0 / ratios[TEXT]) if ratios[TEXT] > 0 else np.zeros(len(self.size))
        a = 1.0 - self.size * w
        s = np.bincount(self.group, self.size * a, self.groups).astype(np.float64)
        k: Floats = 1.0 / (s + 1.0 / ratios[GROUP]) if ratios[GROUP] > 0 else np.zeros(self.groups)
        return w, a, s, k

    def shared(self, a: Floats, k: Floats, sums: Floats) -> Floats:
        """(T,) what each text's group takes from every rating in it, k·a·aᵀ, of something's sums by text (T,)."""
        return np.asarray(a * (self.by_group.T @ (k * (self.by_group @ (a * sums)))))

    @cached_property
    def by_group(self) -> scipy.sparse.csr_array:
        """(G, T) sums over the texts of a group."""
        texts = np.arange(len(self.group))
        return scipy.sparse.csr_array((np.ones(len(texts)), (self.group, texts)), shape=(self.groups, len(texts)))

    def left_out(self) -> Iterator[Indices]:
        """(G, m) the ratings of each group, the groups of one size together; of a single group, of each text."""
        of_row, size = self.group_of_row, np.bincount(self.group_of_row, minlength=self.groups)
        if self.groups == 1:  # no other group can speak
            of_row, size = self.text, self.size.astype(np.intp)
        order = np.argsort(of_row, kind="stable")
        starts = np.concatenate([[0], np.cumsum(size)]).astype(int)
        for each in np.unique(size):
            yield order[starts[np.flatnonzero(size == each)][:, None] + np.arange(int(each))]

    def take(self, kept: Indices) -> Nesting:
        """Of some of the ratings."""
        text = np.unique(self.text[kept], return_inverse=True)[1].astype(np.intp)
        group = np.unique(self.group_of_row[kept], return_inverse=True)[1].astype(np.intp)
        return Nesting.of(len(kept), text, group)


L = TypeVar("L", bound="Layout")


@dataclass(frozen=True)
class Layout:
    """n ratings laid out as the design W = [1, Z, U, U∘Z] (n, q), and what their texts and groups share.

    Attributes:
        rows: W, sparse; each rating has 2 + 2p entries at most.
        y: (n,) ratings.
        block: (q,) where each effect has its variance ratio; `FIXED` for the level.
        count: How many ratios there are.
        Z: (n, p) features.
        who: (n,) whose rating it is, of so many `people`.
        source: (p,) the number of each column's source; without it all columns share one variance.
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
        """Lay out n ratings; without `people` nobody differs.

        Without `text` no two ratings share one, without `group` no two texts do.
        """
        W, block, count = _laid_out(Z, who, people, own_slopes, source)
        nesting = Nesting.of(len(y), text, np.zeros(0, dtype=np.intp) if group is None else group)
        return cls(W, y, block, count, Z, who, people, nesting, own_slopes, source)

    def as_kind(self, kind: type[L]) -> L:
        """The same ratings for the equations of another kind."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(Layout)})

    @cached_property
    def members(self) -> dict[int, NDArray[np.bool_]]:
        """(q,) for each kind of random effect which of all effects are of it."""
        return {effect: self.block == effect for effect in np.unique(self.block[self.block != FIXED]).tolist()}

    @property
    def freedom(self) -> float:
        """How many ratings there are, less one for the level."""
        return max(len(self.y) - 1.0, 1.0)

    def penalty(self, ratios: Floats) -> Floats:
        """(q,) the diagonal of D⁻¹, with D the effects' variances over s²; nothing for the level."""
        fixed = self.block == FIXED
        return np.where(fixed, 0.0, 1.0 / np.where(fixed, 1.0, ratios[self.block]))

    def present(self) -> list[int]:
        """The random effects that this design has; texts that were rated once each say nothing of their own."""
        return sorted({*self.members, *self.nesting.present})

    def of_present(self, ratios: Floats) -> Floats:
        """The given ratios, 0 for an effect that this design does not have."""
        least = np.exp(LOG_RATIO_BOUNDS[0])
        given = np.append(ratios, np.zeros(max(self.count - len(ratios), 0)))[: self.count]
        return np.where(np.isin(np.arange(self.count), self.present()), np.maximum(given, least), 0.0)


def own_effects(p: int, source: Indices | None, own_slopes: bool) -> tuple[Indices, Indices, int]:
    """Where each of p columns has its variance ratios: of its slope (p,), of the people's own slopes (p,); how many.

    `source` is (p,) the number of each column's source, the first 0; without it all columns share one.
    """
    of = np.zeros(p, dtype=np.intp) if source is None else source
    later = GROUP + 2 * of
    slope = np.where(of == 0, SLOPE, later - 1)
    own = np.where(of == 0, OWN_SLOPE, later)
    return slope, own, GROUP + 1 + 2 * int(of.max(initial=0))


def _laid_out(
    Z: Floats, who: Indices, people: int, own_slopes: bool, source: Indices | None
) -> tuple[scipy.sparse.csr_array, Indices, int]:
    """W = [1, Z, U, U∘Z] (n, q), where each effect has its ratio (q,), and how many ratios there are."""
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


def weighed(rows: Rows, by: Floats) -> Rows:
    """Each row times its weight."""
    return rows * by[:, None] if isinstance(rows, np.ndarray) else rows.multiply(by[:, None]).tocsr()


def dense(rows: Rows) -> Floats:
    """The same rows, dense."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def standardisation(X: Floats, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column over what is present; 0 and 1 where nothing is or nothing varies.

    With `weight` (n,), each row counts so often.
    """
    known = ~np.isnan(X) if weight is None else ~np.isnan(X) * weight[:, None]
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X * known, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, (X - mean) ** 2 * known, 0.0)).sum(axis=0) / count)
    return mean, np.where(spread > 1e-9 * (1 + np.abs(mean)), spread, 1.0)


def in_order(source: ArrayLike | None, columns: int) -> Indices:
    """(p,) the number of each column's source, in the order in which they come."""
    if source is None:
        return np.zeros(columns, dtype=np.intp)
    names = [str(name) for name in np.asarray(source)]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.intp)
