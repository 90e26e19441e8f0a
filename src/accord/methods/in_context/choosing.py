"""The selectors by name, the simplest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from accord.methods.in_context.learned import TOWERS, Towers, TowerSettings
from accord.methods.in_context.nodes import Library, Pairs, Query, Selector
from accord.methods.in_context.retrieval import Diverse, Neighbours, Random, SharedWords
from accord.statistics import DRAWS, Clusters, interval
from accord.values import BadInput, UnknownName

SELECTORS = ("random", "bm25", "neighbours", "diverse", "utility", "adoror")


def make_selector(name: str, seed: int = 0, **settings: Any) -> Selector:
    """The selector of a name.

    Args:
        name: One of `SELECTORS`.
        seed: Of what is drawn: the weights of `random`, the training of `utility` and `adoror`.
        settings: `relevance` of `diverse`; `TowerSettings` of `utility` and `adoror`.
    """
    if name in TOWERS:
        return Towers(name, replace(TOWERS[name], **settings), seed)
    if name == "random":
        return Random(seed, **settings)
    kinds: dict[str, type[Selector]] = {"bm25": SharedWords, "neighbours": Neighbours, "diverse": Diverse}
    if name not in kinds:
        raise UnknownName("selector", name, SELECTORS)
    return kinds[name](**settings)


Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

AUTO = "auto"

Make = Callable[[str], Selector]


@dataclass(frozen=True)
class Tried:
    """How one selector did.

    Attributes:
        name: Of the selector.
        targets: (Q,) the target of the set that it put first, for each example; for `random`, the mean of all that
            were tried.
        folds: The selectors as they were fitted without each fold; one that does not learn is the same in all.
    """

    name: str
    targets: Floats
    folds: Sequence[Selector]


def try_selectors(
    library: Library, pairs: Pairs, fold: Indices, make: Make, names: Sequence[str] = SELECTORS
) -> list[Tried]:
    """Each selector on examples of which it has not learned.

    Args:
        library: What can be shown.
        pairs: What was tried; inputs are the library's examples.
        fold: (Q,) the fold of each input.
        make: Makes a selector by its name.
        names: Which are tried.
    """
    return [_tried(name, library, pairs, fold, make) for name in names]


def _tried(name: str, library: Library, pairs: Pairs, fold: Indices, make: Make) -> Tried:
    fitted = _without_each(make, name, library, pairs, fold)
    targets = np.full(len(pairs.texts), np.nan)
    for query in range(len(pairs.texts)):
        rows = pairs.of_query(query)
        if not len(rows):
            continue
        if name == SELECTORS[0]:
            targets[query] = pairs.target[rows].mean()
            continue
        selector, nodes = fitted[fold[query]], pairs.nodes.take(rows)
        weights = selector.weights(Query(pairs.queries[query], pairs.texts[query]), selector.prepare(nodes))
        best = np.flatnonzero(weights >= weights.max())
        targets[query] = pairs.target[rows[best]].mean()
    return Tried(name, targets, fitted)


def _without_each(make: Make, name: str, library: Library, pairs: Pairs, fold: Indices) -> list[Selector]:
    """The selector as it is fitted without each fold: only once, where it does not learn from pairs."""
    count, selector = int(fold.max()) + 1, make(name)
    if not selector.needs_pairs:
        return [selector.fit(library)] * count
    return [make(name).fit(library, pairs.take(np.flatnonzero(fold[pairs.query] != each))) for each in range(count)]


def simplest(tried: Sequence[Tried], groups: Sequence[str]) -> Tried:
    """The simplest selector that is not worse: its mean target is within one standard error of the best one's.

    `tried` comes in the order of simplicity. The standard error is that of the mean difference over groups.
    """
    best = max(tried, key=lambda each: (np.nanmean(each.targets), -tried.index(each)))
    for each in tried:
        behind, error = _difference(best, each, groups)
        if behind <= error:
            return each
    return best


def _difference(one: Tried, other: Tried, groups: Sequence[str]) -> tuple[float, float]:
    """The mean difference of two selectors' targets, and its standard error over groups."""
    names, place = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    differences = one.targets - other.targets
    known = np.isfinite(differences)
    count = np.bincount(place[known], minlength=len(names))
    means = np.bincount(place[known], differences[known], minlength=len(names))[count > 0] / count[count > 0]
    if len(means) < 2:
        return float(np.nanmean(differences)), 0.0
    return float(np.nanmean(differences)), float(means.std(ddof=1) / np.sqrt(len(means)))


def rows_of(tried: Sequence[Tried], chosen: str, groups: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """A row a selector: the mean target of its picks, the gain over random ones, with 95 % intervals over groups."""
    base = tried[0].targets
    rows = []
    for each in tried:
        known = np.isfinite(each.targets) & np.isfinite(base)
        clusters = Clusters(np.asarray(groups, dtype=object)[known])
        counts = clusters.counts(DRAWS, seed)
        sizes = counts @ clusters.sizes
        row: dict[str, Any] = {"selector": each.name, "chosen": each.name == chosen}
        for name, values in (("target", each.targets), ("gain", each.targets - base)):
            drawn = interval((counts @ clusters.sums(values[known][:, None]))[:, 0] / sizes)
            row |= {name: float(values[known].mean()), f"{name}_low": drawn.low, f"{name}_high": drawn.high}
        rows.append(row)
    return rows


def check_towers(selector: str, settings: Mapping[str, Any]) -> None:
    """Refuse, before anything is paid for, what cannot be trained.

    Raises:
        UnknownName: No selector is called so, or the towers have no such setting.
        BadInput: A setting has a value that cannot be.
        MissingExtra: JAX is not installed.
    """
    if selector not in (*SELECTORS, AUTO):
        raise UnknownName("selector", selector, (*SELECTORS, AUTO))
    known = [each.name for each in fields(TowerSettings)]
    for name in settings:
        if name not in known:
            raise UnknownName("setting of in_context: towers", name, known)
    try:
        given = TypeAdapter(TowerSettings).validate_json(
            json.dumps({**asdict(TOWERS["adoror"]), **settings}, default=str), strict=True
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(f"in_context: towers: {first['loc'][0]}: {first['msg']}, got {first['input']!r}") from None
    if given.width is not None and given.width % given.heads:
        raise BadInput(f"in_context: towers: width {given.width} cannot be shared by {given.heads} heads")
    if selector == AUTO or selector in TOWERS:
        import accord.methods.in_context.tower_training  # noqa: F401 - says how to install what it needs
