"""Is the judge good enough? A requirement by the user, people among themselves, and the alternative annotator test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, count_of
from accord.results import told_apart
from accord.statistics import (
    PASSES,
    STATISTICS,
    TWO_VALUED,
    AlternativeAnnotators,
    Clusters,
    MeanStatistic,
    alternative_annotator_test,
    jackknife_of,
    units_alpha,
)
from accord.table_check.agreement import (
    AC1_NAME,
    ALPHA,
    KAPPA,
    MIN_LABELS,
    AgreementRow,
    Pairs,
    judge_pairs,
    paired,
    people_pairs,
)
from accord.table_check.automation import majority
from accord.table_check.table import JudgedTable
from accord.values import Estimate

Floats = NDArray[np.float64]

NAMES: Mapping[str, str] = {
    "kappa": KAPPA, "ac1": AC1_NAME, "same": "same answer", "tpr": "TPR", "tnr": "TNR", "alpha": ALPHA, "r": "r",
    "rho": "Spearman's ρ", "within": "within",
}  # fmt: skip
"""Names of statistics in `--need`, and the beginnings of their names in the table of agreement."""
YES, NO, MORE, UNKNOWN = "yes", "no", "label more", "unknown"


@dataclass(frozen=True)
class Sufficiency:
    """Answer to the question if the judge is good enough.

    Attributes:
        answer: `yes`, `no`, `label more`, or `unknown`; empty without a requirement.
        text: The answer as a sentence.
        labels: Approximate number of further labels that decide it; missing if unknown or unnecessary.
        gap: The judge's agreement with people minus people's among themselves, in rows of two or more people.
    """

    answer: str
    text: str
    labels: int | None = None
    gap: Estimate = Estimate()


def parse_need(text: str) -> dict[str, float]:
    """Return the requirements of a text such as `tpr=.9,tnr=.8` by name.

    Raises:
        BadInput: A name is unknown or occurs twice, or a value is not a number from -1 to 1.

    >>> parse_need("tpr=.9, tnr=.8")
    {'tpr': 0.9, 'tnr': 0.8}
    """
    needs: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name.casefold() not in NAMES:
            allowed = ", ".join(NAMES)
            raise BadInput(
                f"--need {text}: {part.strip()!r} is not a requirement; for example kappa=.6. Names: {allowed}"
            )
        try:
            least = float(value)
        except ValueError:
            least = math.nan
        if not -1 <= least <= 1:
            raise BadInput(f"--need {text}: {value!r} is not a number from -1 to 1; for example {name}=.6")
        if name.casefold() in needs:
            raise BadInput(f"--need {text}: {name} has two requirements; name one")
        needs[name.casefold()] = least
    return needs


def meets_need(
    needs: Mapping[str, float], agreement: Sequence[AgreementRow], labels: int, judged: int, name: str
) -> Sufficiency:
    """Return whether the judge meets every requirement, with 95% intervals.

    A requirement is met if the interval lies above it, and missed if it lies below. Else the half of the interval that
    holds the requirement must shrink until it does not; it shrinks with the square root of the number of labels.

    Args:
        needs: Requirements by name.
        agreement: Statistics of the table.
        labels: Number of labeled rows.
        judged: Number of rows with a score.
        name: Name of the table, for errors.

    Raises:
        BadInput: The table has no such statistic.
    """
    rows = {each: _row(each, agreement) for each in needs}
    absent = [each for each, row in rows.items() if row is None]
    if absent:
        present = [each for each in NAMES if _row(each, agreement) is not None]
        raise BadInput(f"{name}: no {absent[0]} on this scale for --need; allowed are {', '.join(present)}")
    said, more, missed, unknown = [], list[float](), list[float](), list[str]()
    is_no = False
    for each, least in needs.items():
        row = rows[each]
        assert row is not None
        value, low, high = row.judge.value, row.judge.low, row.judge.high
        if value is None or low is None or high is None:
            unknown.append(f"{row.statistic} is unknown ({row.reason or 'too few labels'})")
            continue
        ends = f"[{told_apart(low, least)[0]}, {told_apart(high, least)[0]}]"
        said.append(f"{row.statistic} {value:.2f} {ends}, needed {least:g}")
        if high < least:
            is_no = True
        elif low < least:
            near = value - low if value > least else high - value
            factor = (near / abs(value - least)) ** 2 if value != least else math.inf
            (more if value > least else missed).append(labels * (factor - 1))
    found = "; ".join([*said, *unknown])
    if is_no:
        return Sufficiency(NO, f"no: {found}")
    if unknown:
        return Sufficiency(UNKNOWN, f"unknown: {found}")
    if not more and not missed:
        return Sufficiency(YES, f"yes: {found}")
    further = min(missed) if missed else max(more)
    if labels + further > judged:
        count = "" if math.isinf(further) else f"about {_rounded(further)} more labels, "
        return Sufficiency(
            MORE, f"label more: {found}; to decide it takes {count}more than the "
            f"{count_of(judged - labels, 'row')} with a score and no label",
            None if math.isinf(further) else math.ceil(further),
        )  # fmt: skip
    so_far = "too low so far" if missed else "high enough so far"
    return Sufficiency(
        MORE, f"label about {_rounded(further)} more to be sure ({so_far}): {found}", math.ceil(further)
    )  # fmt: skip


def _row(name: str, agreement: Sequence[AgreementRow]) -> AgreementRow | None:
    beginning = NAMES[name]
    return next(
        (each for each in agreement if each.statistic.startswith(beginning) and (name != "r" or each.statistic == "r")),
        None,
    )


def _rounded(labels: float) -> str:
    """Return a number of labels with two digits, rounded up."""
    step = 10 ** max(len(str(math.ceil(labels))) - 2, 0)
    return f"{math.ceil(labels / step) * step:,}"


# --- people among themselves ------------------------------------------------------------------------------------------


def compared_with_people(table: JudgedTable, main: AgreementRow) -> Sufficiency | str:
    """Compare the judge's agreement with people and people's among themselves, or return the reason why it is unknown.

    Both figures are from rows with a score and two or more labels, and the interval of their difference is over items.
    """
    rows = table.is_judged & ((~np.isnan(table.labels)).sum(axis=1) > 1)
    items = len(set(table.item[rows]))
    if rows.sum() < MIN_LABELS or items < 2:
        return f"{count_of(int(rows.sum()), 'row')} with labels of two people; at least {MIN_LABELS} are needed"
    shared = replace(table, labels=table.labels[rows], score=table.score[rows], item=table.item[rows])
    answers = shared.score if shared.answer is None else shared.answer
    gap = _gap(shared, judge_pairs(shared, answers), people_pairs(shared))
    if gap.value is None or gap.low is None or gap.high is None:
        return f"{main.statistic} is unknown in rows of two or more people"
    size = f"{main.statistic} {gap.value:+.2f} [{gap.low:+.2f}, {gap.high:+.2f}] in {count_of(int(rows.sum()), 'row')}"
    if gap.high < 0:
        text = f"the judge agrees less with people than people among themselves ({size})"
    elif gap.low > 0:
        text = f"the judge agrees more with people than people among themselves ({size})"
    else:
        text = f"it is not clear that the judge agrees less with people than people among themselves ({size})"
    return Sufficiency("", text, None, gap)


def _gap(table: JudgedTable, judge: Pairs, people: Pairs) -> Estimate:
    """Return the difference of the main statistic of the judge's pairs and of people's pairs."""
    clusters = Clusters(np.concatenate([judge.item, people.item]))
    first = clusters.of_row[: len(judge)]
    second = clusters.of_row[len(judge) :]
    parts = [_statistic(table, judge, first, len(clusters)), _statistic(table, people, second, len(clusters))]

    def of(kept: Floats) -> Floats:
        return np.asarray(parts[0](kept) - parts[1](kept))

    value = float(of(np.ones((1, len(clusters))))[0])
    if not np.isfinite(value):
        return Estimate()
    return jackknife_of(of, len(clusters), int(table.is_labeled.sum()), value, is_bounded=False)


def _statistic(table: JudgedTable, pairs: Pairs, group: NDArray[np.intp], groups: int) -> Callable[[Floats], Floats]:
    """Return the function from (B, G) weights of groups to the main statistic."""
    if table.scale.kind == "nominal" and table.answer is not None:
        values = np.union1d(pairs.first, pairs.second)
        counts = np.stack([(pairs.first == value).astype(float) + (pairs.second == value) for value in values], axis=1)
        return lambda kept: units_alpha(counts, kept[:, group], False)
    name = "pearson" if table.answer is None or table.scale.kind == "continuous" else "weighted_kappa"
    statistic = TWO_VALUED["kappa"] if table.scale.is_two_valued and table.answer is not None else STATISTICS[name]
    assert isinstance(statistic, MeanStatistic)
    rows = np.column_stack([statistic.rows(paired(table, pairs)), np.ones(len(pairs))])
    sums = np.column_stack([np.bincount(group, column, groups) for column in rows.T])

    def of(kept: Floats) -> Floats:
        found = kept @ sums
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(statistic.finish(found[:, :-1] / found[:, -1:]))

    return of


# --- the alternative annotator test -----------------------------------------------------------------------------------


def alternative_annotators(table: JudgedTable) -> AlternativeAnnotators | str:
    """Return the alternative annotator test of the judge, or the reason why it cannot run."""
    if table.answer is None or table.mean_answer is None:
        return table.no_answer
    is_ordered = table.scale.kind in ("ordered", "continuous")
    answer = table.mean_answer if is_ordered else majority(table.answer)[0]
    return alternative_annotator_test(table.labels, answer, table.item, is_ordered)


def annotator_text(found: AlternativeAnnotators) -> str:
    """Return the result of the alternative annotator test as a sentence."""
    rates = ", ".join(f"{rate:.2f} at ε = {margin:g}" for margin, rate in found.winning_rates.items())
    passed = [f"{margin:g}" for margin, rate in found.winning_rates.items() if rate >= PASSES]
    verdict = f"passes at ε = {', '.join(passed)}" if passed else "passes at none"
    return (
        f"winning rate ω {rates} over {len(found.annotators)} people; advantage probability ρ {found.advantage}; "
        f"{verdict} (ω of at least {PASSES:g})"
    )
