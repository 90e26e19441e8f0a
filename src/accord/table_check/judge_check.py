"""Check of a judge against the labels of people in a table: `accord check` and `accord.check`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from accord.edges import BadInput
from accord.table_check.agreement import MIN_LABELS, AgreementRow, agreement_rows, repeatability
from accord.table_check.biases import calibration_map, judge_biases
from accord.table_check.columns import GivenColumns
from accord.table_check.label_checks import label_warnings
from accord.table_check.means import Means, compare_systems, table_means
from accord.table_check.pairs import pair_agreement, pair_figures, pair_table, win_rates
from accord.table_check.result import CheckResult
from accord.table_check.table import JudgedTable, judged_table, read_cells
from accord.values import told_apart

Columns = str | Sequence[str] | None


def check(
    table: Any,
    *,
    judge: Columns = None,
    human: Columns = None,
    system: str | None = None,
    item: str | None = None,
    group: Columns = None,
    length: str | None = None,
    yes: str | None = None,
    threshold: float | None = None,
    width: float | None = None,
    tuned: bool = False,
) -> CheckResult:
    """Check a judge against human labels in any table: agreement, the corrected mean, bias, and labels that it needs.

    Columns are recognized by their names and values, and `CheckResult.columns` has the choices. Rows without a label
    count for the mean. The labeled rows must be a random part of all rows. A table with two responses per row and
    preferences for one of them is checked as pairs, with win rates and strengths of versions.

    Args:
        table: Path of a CSV, Excel, Parquet or JSON file, a pandas or Polars data frame, or a list of dicts.
        judge: Column with the judge's scores; several columns are runs of one judge.
        human: Column with labels; several columns are several people.
        system: Column that names the system of each row, or of one side of a pair; systems are compared.
        item: Column that names the item of each row; rows of one item are dependent.
        group: Columns of slices for which the judge's bias is tested.
        length: Column with the length of what is judged.
        yes: The value of a two-valued label that counts as 1.
        threshold: Lowest score that counts as the upper value.
        width: Width of the interval of the mean for which the number of labels is computed; by default half the present
            one.
        tuned: True if the judge was tuned on these labels.

    Raises:
        BadInput: The table cannot be read, a column is missing, or its values form no scale.

    >>> rows = [{"judge": "pass", "human": "pass" if n % 4 else "fail"} for n in range(60)]
    >>> rows += [{"judge": "fail", "human": "fail"} for _ in range(20)]
    >>> rows += [{"judge": "pass" if n % 4 else "fail"} for n in range(120)]
    >>> result = check(rows)
    >>> result.columns["judge"], result.columns["people"], str(result.means.corrected)
    ('judge', 'human', '0.56 [0.47, 0.65]')
    """
    if width is not None and not (math.isfinite(width) and width > 0):
        raise BadInput(f"width is {width}; it is the width of an interval, a number above 0")
    options = {"judge": judge, "human": human, "system": system, "item": item, "group": group, "length": length}
    for name, columns in options.items():
        if columns is not None and not all(each.strip() for each in _names(columns) or [""]):
            raise BadInput(f"--{name} is empty; name a column of the table, or leave the option out")
    given = GivenColumns(_names(judge), _names(human), item, system, _names(group), length)
    cells = read_cells(table)
    of_pairs = pair_table(cells, given)
    unused = {"yes": yes, "threshold": threshold, "length": length}
    if of_pairs is not None and (names := [f"--{name} {value}" for name, value in unused.items() if value is not None]):
        raise BadInput(
            f"{cells.name} holds pairs with preferences, where {names[0]} has no meaning; leave the option out"
        )
    read = judged_table(cells, given, yes, threshold) if of_pairs is None else of_pairs
    means, biases, repeats = table_means(read, width), judge_biases(read), repeatability(read)
    biases = biases if of_pairs is None else of_pairs.named(biases)
    agreement = agreement_rows(read) if of_pairs is None else pair_agreement(of_pairs)
    systems = compare_systems(read) if of_pairs is None else win_rates(of_pairs)
    pairs = None if of_pairs is None else pair_figures(of_pairs, means, systems)
    roles = read.roles.texts() | ({"sides": ", ".join(of_pairs.sides)} if of_pairs is not None else {})
    analyses = _agreement_reasons(read, agreement) | {
        "corrected mean": means.reason,
        "comparison of systems": systems.reason,
        "repeatability of the judge": repeats if isinstance(repeats, str) else "",
        **({} if pairs is None else pairs.analyses),
    }
    missing = [(name, reason) for name, reason in analyses.items() if reason]
    missing += [*biases.missing, *_missing_figures(read, means)]
    supported = [name for name, reason in analyses.items() if not reason]
    supported += ["bias of the judge"] if biases.rows else []
    calibration = calibration_map(read) if read.is_labeled.sum() >= MIN_LABELS else []
    return CheckResult(
        name=read.name, rows=read.rows, judged=int(read.is_judged.sum()), labeled=int(read.is_labeled.sum()),
        items=len(set(read.item)), columns=roles, scale=read.scale, supported=supported, missing=missing,
        warnings=label_warnings(read, tuned), notes=list(read.notes), agreement=agreement, means=means, systems=systems,
        biases=biases.rows, calibration=calibration,
        repeats=None if isinstance(repeats, str) else repeats,
        labels_by=read.labels_by, digests=read.digests, pairs=pairs,
    )  # fmt: skip


def _names(given: Columns) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _agreement_reasons(table: JudgedTable, agreement: Sequence[AgreementRow]) -> dict[str, str]:
    """Return the reason why agreement is unknown, among people and with the judge; empty for a known one."""
    people = judge = ""
    if all(row.people.value is None for row in agreement):
        is_single = len(table.people) < 2
        people = "one person labeled" if is_single else f"fewer than {MIN_LABELS} rows have labels of two people"
    if agreement[0].judge.value is None:
        judge = agreement[0].reason
    return {"agreement among people": people, "agreement of the judge with people": judge}


def _missing_figures(table: JudgedTable, means: Means) -> list[tuple[str, str]]:
    """Return the figures that are missing within an analysis, with the reasons."""
    missing = []
    if table.answer is None and table.scale.is_two_valued:
        reason = "the judge's scores have no threshold; set one with --threshold"
        missing.append(("κ, TPR, TNR and the bias of the judge", reason))
    for row in means.rows:
        if row.reason and not means.reason and row.mean.value is None:
            missing.append((f"mean by {row.method}", row.reason))
    return missing


def check_at_least(result: CheckResult, least: float) -> tuple[bool, str]:
    """Return whether the lower bound of agreement reaches a minimum, and a sentence.

    Args:
        result: A check.
        least: Minimum of the lower bound of the main statistic (`CheckResult.main`), from -1 to 1.

    Raises:
        BadInput: The minimum is out of range.
    """
    if not -1 <= least <= 1:
        raise BadInput(f"at least {least:g}: agreement lies between -1 and 1; give a number in this range")
    row: AgreementRow = result.main
    name = f"{row.statistic} of the judge with people, lower bound of the 95% interval"
    low = row.judge.low
    if low is None:
        return False, f"{name}: unknown ({row.reason or 'too few labels'}), required {least:g}: failed"
    passed = low >= least
    return passed, f"{name}: {told_apart(low, least, '.3f')[0]}, required {least:g}: {'passed' if passed else 'failed'}"
