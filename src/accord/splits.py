"""Honest splits: whole conversations go to one side, folds follow from a seed, and selection stays inside training."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from accord.errors import BadInput

FOLDS = 5
INNER_FOLDS = 4
"""Folds inside a training side, by which settings are chosen."""


@dataclass(frozen=True, slots=True)
class Split:
    """Names of the groups to learn from, and of those to test on."""

    train: frozenset[str]
    test: frozenset[str]


def fold_of(groups: Iterable[str], folds: int = FOLDS, seed: int = 0) -> dict[str, int]:
    """Each group's fold: names sorted, shuffled by `random.Random(seed)`, position modulo `folds`."""
    names = sorted(set(groups))
    random.Random(seed).shuffle(names)
    return {name: position % folds for position, name in enumerate(names)}


def grouped_folds(
    groups: Sequence[str], folds: int = FOLDS, seed: int = 0, always: Collection[str] = ()
) -> Iterator[Split]:
    """Cross-validation over groups: every group is tested once, and never learned from in that fold.

    Other groups, that are `always` learned from, are never tested.

    Raises:
        BadInput: There are fewer groups than folds.
    """
    place = fold_of(groups, folds, seed)
    if len(place) < folds:
        raise BadInput(f"{len(place)} rated conversations cannot make {folds} folds; rate more, or use fewer folds")
    for fold in range(folds):
        test = frozenset(name for name, at in place.items() if at == fold)
        yield Split((frozenset(place) - test) | frozenset(always), test)
