"""Check of a judge's pairwise preferences against people's: rates, position bias, and strengths of versions.

A preference is the share of a win of the response that is shown first (A): 1, 0.5 for a tie, or 0. The mean of
the table is the rate of preferring A. The judge's bias in this rate is its preference for the first position beyond
people's. For win rates, every pair counts once for each of its versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, count_of
from accord.formats import PairRoles, TableOptions, TableRoles, check_sides, group_columns, pair_roles, preferences
from accord.statistics import (
    KAPPA,
    Clusters,
    Paired,
    Preferences,
    bradley_terry,
    corrected_strengths,
    jackknife,
    parts_apart,
    share_interval,
)
from accord.table_check.agreement import KAPPA as KAPPA_NAME
from accord.table_check.agreement import MIN_LABELS, AgreementRow, Pairs, alpha_of, judge_pairs, people_pairs
from accord.table_check.biases import LENGTH, BiasRows
from accord.table_check.columns import check_given
from accord.table_check.means import MAX_SYSTEMS, Means, SystemRows, compare_systems
from accord.table_check.scales import TableScale
from accord.table_check.table import JudgedTable, ReadCells
from accord.values import Estimate

Floats = NDArray[np.float64]
Names = NDArray[np.object_]

ALPHA_NAME, SAME, DECIDED = "Krippendorff's α", "same preference", "same, without ties"
MIN_SWAPPED = 5
"""Smallest number of pairs in both orders for a figure."""


@dataclass(frozen=True, kw_only=True)
class PairTable(JudgedTable):
    """Pairs with preferences of a judge and of people; `score` and `labels` are shares of a win of the first side.

    Attributes:
        pair: (n,) the compared versions or responses in a fixed order, with the item, or `None` if the item is unknown.
        versions: (n, 2) version of the first and of the second side, if there are names.
        is_turned: (n,) True if the first side is the second one of `pair`.
        sides: Columns of both sides.
    """

    pair: Names
    versions: Names | None
    is_turned: NDArray[np.bool_]
    sides: tuple[str, ...]

    def named(self, found: BiasRows) -> BiasRows:
        """Return biases with a name of the length of pairs."""
        rows = [replace(row, by="length of A compared with B") if row.by == LENGTH else row for row in found.rows]
        if self.length is not None:
            return BiasRows(rows, found.missing)
        reason = "no columns hold the two responses, such as response_a and response_b"
        return BiasRows(rows, [(name, reason if name == "bias by length" else why) for name, why in found.missing])


@dataclass(frozen=True)
class Strength:
    """Bradley–Terry strength of a version.

    Attributes:
        version: Its name.
        pairs: Number of its judged pairs.
        strength: Log-odds of a win against a version of mean strength, corrected by labels.
        judge: The strength by the judge's preferences alone.
    """

    version: str
    pairs: int
    strength: Estimate
    judge: float


@dataclass(frozen=True)
class PairFigures:
    """Figures that only pairs have.

    Attributes:
        swapped: Number of pairs that the judge judged in both orders.
        same_position: Share of these pairs with the same preferred position in both orders.
        first_twice: Share of these pairs with A preferred in both orders.
        same_version: Share of these pairs with the same preferred version, or a tie, in both orders.
        ties: Share of ties of the judge, and of people.
        strengths: Versions, the strongest first.
        analyses: Reason of each missing analysis, and an empty text for the others.
    """

    swapped: int
    same_position: Estimate
    first_twice: Estimate
    same_version: Estimate
    ties: tuple[float, float]
    strengths: Sequence[Strength]
    analyses: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "analyses"}


def pair_table(cells: ReadCells, given: TableOptions) -> PairTable | None:
    """Return the rows of a table of pairs, or `None` if it is another table.

    Raises:
        BadInput: A value is not a preference, a version meets itself, or a side, the judge or people are missing.
    """
    columns, name = cells.columns, cells.name
    roles = pair_roles(columns, list(given.judges), given.rated, given.item, given.system, name)
    if roles is None:
        return None
    _check_roles(columns, roles, name)
    check_given(columns, replace(given, judges={}), TableRoles(), name)
    check_sides(columns, roles, name)
    notes = list(cells.notes)
    said = {each: preferences(columns, each, roles, name) for each in (*roles.judges, *roles.people)}
    if not given.judges and len(roles.judges) > 1:
        notes.append(f"other judges are not checked: {', '.join(roles.judges[1:])}; name one with --judge")
    judges = roles.judges if given.judges else roles.judges[:1]
    models = roles.models if given.judges else roles.models[:1]
    if len(roles.models) > len(models):
        notes.append(f"other judges are not checked: {', '.join(roles.models[1:])}; name one with --judge")
    entries = _entries(columns, roles, judges, models, said)
    if not any(source < 0 for _, source, _ in entries):
        raise BadInput(f"{name}: the judge {', '.join(judges or models)} has no preferences; name another with --judge")
    if not any(source >= 0 for _, source, _ in entries):
        raise BadInput(f"{name}: people have no preferences; name their column with --human")
    pair, turned = _pairs_of(columns, roles, cells.rows)
    place, flip, first = _joined(entries, pair, turned, cells.rows, is_long=roles.annotator is not None)
    runs, people = _sources(columns, roles, judges, models)
    score, labels = (np.full((len(first), max(len(each), 1)), np.nan) for each in (runs, people))
    for row, source, value in entries:
        matrix, column = (score, -1 - source) if source < 0 else (labels, source)
        if place[row] >= 0 and np.isnan(matrix[place[row], column]):
            matrix[place[row], column] = 1 - value if flip[row] else value
    kept = np.flatnonzero((~np.isnan(score)).any(axis=1) | (~np.isnan(labels)).any(axis=1))
    score, labels, first = score[kept], labels[kept], first[kept]
    present = np.concatenate([score[np.isfinite(score)], labels[np.isfinite(labels)]])
    is_two_valued = not (present == 0.5).any()
    scale = TableScale(
        "two-valued" if is_two_valued else "ordered", np.array([0.0, 1.0] if is_two_valued else [0.0, 0.5, 1.0]),
        {0.0: "B", 0.5: "tie", 1.0: "A"}, True, 1.0,
    )  # fmt: skip
    taken = {*said, *roles.sides, *roles.unclear, roles.item, roles.prompt, roles.turn, roles.annotator}
    groups = tuple(given.groups) or group_columns(columns, {*taken, given.length})
    item = [f"row {row + 1}" if roles.item is None else str(columns[roles.item][row]) for row in first]
    versions = None
    if roles.versions is not None:
        versions = np.array([[str(columns[each][row]) for each in roles.versions] for row in first], dtype=object)
    return PairTable(
        name=name, rows=cells.rows, scale=scale, item=np.array(item, dtype=object), system=None, score=score,
        roles=TableRoles(
            judges=dict.fromkeys(judges, "judge"), people=() if roles.annotator else roles.people, item=roles.item,
            system=", ".join(roles.versions) if roles.versions else None, groups=groups, annotator=roles.annotator,
            models=models, text=None,
        ),
        labels=labels, people=people, groups={each: _names(columns[each], first) for each in groups},
        length=_length_ratio(columns, roles, first), split=None, notes=notes, pair=pair[first], versions=versions,
        is_turned=turned[first], sides=roles.sides,
    )  # fmt: skip


def _check_roles(columns: Any, roles: PairRoles, name: str) -> None:
    """Raise `BadInput` if the column of the judge or of people is unknown."""
    listed = ", ".join(map(repr, list(columns)[:30]))
    if roles.unclear:
        first = roles.unclear[0]
        raise BadInput(
            f"{name}: nothing says if people or a judge gave the preferences in {', '.join(map(repr, roles.unclear))}. "
            f"Name both: --judge COLUMN --human {first}, or the other way round; its columns: {listed}"
        )
    if not (roles.judges or roles.models):
        raise BadInput(
            f"{name}: no column holds preferences of a judge; its columns: {listed}. Name it: --judge COLUMN, or the "
            "name of an annotator that is a model"
        )
    if not roles.people:
        raise BadInput(f"{name}: no column holds preferences of people; its columns: {listed}. Name it: --human COLUMN")


def _entries(
    columns: Any, roles: PairRoles, judges: Sequence[str], models: Sequence[str], said: Any
) -> list[tuple[int, int, float]]:
    """Return row, source and value of each preference; the judge's sources are -1, -2, ..., people's 0, 1, ..."""
    found: list[tuple[int, int, float]] = []
    for number, column in enumerate(judges):
        found += [(row, -1 - number, value) for row, value in enumerate(said[column]) if value is not None]
    if roles.annotator is None:
        for number, column in enumerate(roles.people):
            found += [(row, number, value) for row, value in enumerate(said[column]) if value is not None]
        return found
    names: dict[str, int] = {each: -1 - number for number, each in enumerate(models)}
    left, people = set(roles.models) - set(models), 0
    for row, value in enumerate(said[roles.people[0]]):
        name = str(columns[roles.annotator][row])
        if value is None or name in left:
            continue
        if name not in names:
            names[name], people = people, people + 1
        found.append((row, names[name], value))
    return found


def _sources(
    columns: Any, roles: PairRoles, judges: Sequence[str], models: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the names of the judge's runs and of people, in the order of their numbers."""
    runs = list(judges or models)
    if roles.annotator is None:
        return runs, list(roles.people)
    names = dict.fromkeys(
        str(who) for who, value in zip(columns[roles.annotator], columns[roles.people[0]], strict=True)
        if value is not None and str(who) not in roles.models and str(who) not in models
    )  # fmt: skip
    return runs, list(names)


def _pairs_of(columns: Any, roles: PairRoles, rows: int) -> tuple[Names, NDArray[np.bool_]]:
    """Return the (n,) item with both sides in a fixed order, and True for rows whose sides are turned."""
    pair: Names = np.full(rows, None, dtype=object)
    turned = np.zeros(rows, dtype=bool)
    one, other = roles.versions or roles.texts or ("", "")
    for row in range(rows):
        sides = (str(columns[one][row]), str(columns[other][row]))
        turned[row] = sides[0] > sides[1]
        if roles.item is not None and columns[roles.item][row] is not None:
            turn = "" if roles.turn is None else str(columns[roles.turn][row])
            pair[row] = (str(columns[roles.item][row]), turn, *sorted(sides))
    return pair, turned


def _joined(
    entries: Sequence[tuple[int, int, float]], pair: Names, turned: NDArray[np.bool_], rows: int, is_long: bool
) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.intp]]:
    """Return the place of each row in the table of pairs, if its preference is turned there, and each place's row.

    Rows of a long table with the same pair are one row. People's preferences for the other order than the judge's are
    turned, because a preference for a version means the same in both orders.
    """
    if not is_long or len({(source, pair[row], turned[row]) for row, source, _ in entries}) < len(entries):
        return np.arange(rows), np.zeros(rows, dtype=bool), np.arange(rows)
    judged = {(pair[row], turned[row]) for row, source, _ in entries if source < 0}
    places: dict[Any, int] = {}
    first: list[int] = []
    place, flip = np.full(rows, -1, dtype=np.intp), np.zeros(rows, dtype=bool)
    for row in dict.fromkeys(row for row, *_ in entries):
        key = (pair[row], turned[row])
        if pair[row] is None:
            key = (row, False)
        elif key not in judged and (pair[row], not turned[row]) in judged:
            key, flip[row] = (pair[row], not turned[row]), True
        if key not in places:
            places[key] = len(first)
            first.append(row)
        elif turned[first[places[key]]] != key[1] and not flip[row]:
            first[places[key]] = row
        place[row] = places[key]
    return place, flip, np.array(first, dtype=np.intp)


def _names(cells: Sequence[Any], rows: Sequence[int] | NDArray[np.intp]) -> Names:
    found: Names = np.full(len(rows), None, dtype=object)
    found[:] = [None if cells[row] is None else str(cells[row]) for row in rows]
    return found


def _length_ratio(columns: Any, roles: PairRoles, first: NDArray[np.intp]) -> Floats | None:
    """Return the (n,) ratio of the lengths of A and B in words, minus 1; each response counts a word more."""
    if roles.texts is None:
        return None
    words = np.array([[len(str(columns[each][row]).split()) + 1 for each in roles.texts] for row in first], dtype=float)
    return np.asarray(words[:, 0] / words[:, 1] - 1)


# --- figures ----------------------------------------------------------------------------------------------------------


def pair_agreement(table: PairTable) -> list[AgreementRow]:
    """Return κ, α and the share of the same preference: among people, and of the judge with people."""
    with_people, among = judge_pairs(table, table.score), people_pairs(table)
    rows = []
    for name in (KAPPA_NAME, SAME, DECIDED):
        judge, reason = _figure(name, with_people)
        people, _ = _figure(name, among)
        rows.append(AgreementRow(name, people, judge, reason))
    if table.labels.shape[1] > 1:
        nominal = replace(table, scale=replace(table.scale, kind="nominal"))
        among_all = alpha_of(nominal, table.labels)
        with_judge = Estimate()
        if rows[0].judge.value is not None:
            both = np.column_stack([with_people.first, with_people.second])
            with_judge = alpha_of(replace(nominal, item=with_people.item), both)
        rows.append(AgreementRow(ALPHA_NAME, among_all, with_judge, rows[0].reason))
    return rows


def _figure(name: str, pairs: Pairs) -> tuple[Estimate, str]:
    items = len(set(pairs.item))
    if len(pairs) < MIN_LABELS or items < 2:
        counts = f"{count_of(len(pairs), 'label')} of {count_of(items, 'item')}"
        return Estimate(), f"{counts}; at least {MIN_LABELS} labels of two items are needed"
    same = pairs.first == pairs.second
    if name == SAME:
        return share_interval(same, pairs.item), ""
    if name == DECIDED:
        both = (pairs.first != 0.5) & (pairs.second != 0.5)
        if both.sum() < MIN_LABELS:
            return Estimate(), f"{both.sum()} pairs have no tie; at least {MIN_LABELS} are needed"
        return share_interval(same[both], pairs.item[both]), ""
    if np.ptp(pairs.first) == 0 and np.ptp(pairs.second) == 0:
        word = {1.0: "A", 0.5: "a tie", 0.0: "B"}[float(pairs.first[0])]
        return Estimate(), f"all {len(pairs)} preferences of people are {word}, and all of the judge are equal"
    options = np.array([0.0, 0.5, 1.0])
    answer = np.searchsorted(options, pairs.first)
    paired = Paired(options, answer, np.zeros((len(pairs), 0)), pairs.second)
    found = jackknife(Clusters(pairs.item), KAPPA, paired)
    is_whole = found.low is None and found.value is not None and abs(found.value) == 1
    return found, "without a disagreement its interval is unknown" if is_whole else ""


def win_rates(table: PairTable) -> SystemRows:
    """Return the corrected win rate of each version with its differences; each pair counts for both versions."""
    if table.versions is None:
        return SystemRows(reason="no columns name the versions of both sides; name one with --system model_a")
    names = sorted(set(table.versions.ravel()))
    if len(names) > MAX_SYSTEMS:
        return SystemRows(reason=f"{len(names)} versions are more than {MAX_SYSTEMS}; keep the rows of fewer versions")
    return compare_systems(replace(
        table, item=np.concatenate([table.item, table.item]), system=table.versions.T.ravel(),
        score=np.concatenate([table.score, 1 - table.score]), labels=np.concatenate([table.labels, 1 - table.labels]),
    ))  # fmt: skip


def pair_figures(table: PairTable, means: Means, rates: SystemRows) -> PairFigures:
    """Return position bias and strengths."""
    analyses = {"position bias by swapped pairs": "", "strengths of versions": ""}
    same, first, consistent, swapped = _swapped(table)
    if swapped < MIN_SWAPPED:
        count = f"the judge has {swapped} pairs in both orders; at least {MIN_SWAPPED} are needed"
        unknown = "no column names the item of a pair; name it with --item COLUMN"
        analyses["position bias by swapped pairs"] = unknown if table.roles.item is None else count
        same = first = consistent = Estimate()
    strengths = _strengths(table, means, rates)
    if isinstance(strengths, str):
        analyses["strengths of versions"], strengths = strengths, []
    judged, said = table.score[np.isfinite(table.score)], table.labels[np.isfinite(table.labels)]
    ties = float((judged == 0.5).mean()), float((said == 0.5).mean())
    return PairFigures(swapped, same, first, consistent, ties, strengths, analyses)


def _swapped(table: PairTable) -> tuple[Estimate, Estimate, Estimate, int]:
    """Return the shares of pairs in both orders with one position, with A twice, and with one version; their number."""
    orders: dict[Any, tuple[list[int], list[int]]] = {}
    for row in np.flatnonzero(table.is_judged):
        if table.pair[row] is not None:
            orders.setdefault(table.pair[row], ([], []))[int(table.is_turned[row])].append(int(row))
    both = [(one, other) for plain, turned in orders.values() for one, other in zip(plain, turned, strict=False)]
    if not both:
        return Estimate(), Estimate(), Estimate(), 0
    rows = np.array(both)
    answer, item = table.mean_score[rows], table.item[rows[:, 0]]
    first, second = (answer > 0.5).all(axis=1), (answer < 0.5).all(axis=1)
    consistent = np.isclose(answer.sum(axis=1), 1.0)
    return (
        share_interval(first | second, item), share_interval(first, item), share_interval(consistent, item), len(rows)
    )  # fmt: skip


def _strengths(table: PairTable, means: Means, rates: SystemRows) -> list[Strength] | str:
    """Return strengths of the versions that have a win rate, or the reason why they are unknown."""
    if means.reason or rates.reason:
        return means.reason or rates.reason
    assert table.versions is not None
    names = [each.system for each in rates.systems]
    number = {name: place for place, name in enumerate(names)}
    first, second = (np.array([number.get(each, -1) for each in side], dtype=np.intp) for side in table.versions.T)
    among = (first >= 0) & (second >= 0)
    labeled, other = among & table.is_labeled, among & table.is_judged & ~table.is_labeled
    apart = parts_apart(first[labeled].tolist(), second[labeled].tolist(), len(names))
    if apart > 1:
        return f"labeled pairs do not connect the versions ({apart} separate sets); label pairs between them"
    group = table.item.astype(str)
    said = Preferences(first[labeled], second[labeled], table.mean_label[labeled], group[labeled])
    rest = Preferences(first[other], second[other], table.mean_score[other], group[other])
    judged = labeled | other
    alone = bradley_terry(first[judged], second[judged], table.mean_score[judged], len(names))
    count = np.bincount(first[judged], minlength=len(names)) + np.bincount(second[judged], minlength=len(names))
    found = corrected_strengths(said, table.mean_score[labeled], rest, len(names))
    rows = [
        Strength(name, int(count[place]), found[place], float(alone[place])) for place, name in enumerate(names)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -(row.strength.value or 0.0))
