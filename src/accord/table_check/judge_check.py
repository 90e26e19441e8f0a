"""Check of a judge against the labels of people in a table: `accord check` and `accord.check`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from accord.edges import BadInput
from accord.formats import SMALLEST_ANSWER, TableOptions, parse_orders
from accord.results import told_apart
from accord.table_check.agreement import MIN_LABELS, AgreementRow, agreement_rows, repeatability
from accord.table_check.automation import ERROR, check_error, share_to_automate
from accord.table_check.biases import calibration_map, judge_biases
from accord.table_check.label_checks import label_warnings
from accord.table_check.means import Means, compare_systems, table_means
from accord.table_check.pairs import pair_agreement, pair_figures, pair_table, win_rates
from accord.table_check.result import CheckResult
from accord.table_check.rows import confusion_table, differing_rows, is_split, write_differing_rows
from accord.table_check.sufficiency import alternative_annotators, compared_with_people, meets_need, parse_need
from accord.table_check.table import JudgedTable, judged_table, read_cells

Columns = str | Sequence[str] | None
Found = TypeVar("Found")
AUTOMATION = "share to automate"


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
    order: Columns = None,
    confidence: str | None = None,
    error: float = ERROR,
    need: str | None = None,
) -> CheckResult:
    """Check a judge against human labels in any table: agreement, the corrected mean, bias, and labels that it needs.

    Columns are recognized by their names and values, and `CheckResult.columns` has the choices. Rows without a label
    count for the mean. The labeled rows must be a random part of all rows. A table with two responses per row and
    preferences between them is checked as pairs, with win rates and strengths of versions.

    Args:
        table: Path of a CSV, Excel, Parquet or JSON file, a pandas or Polars data frame, or a list of dicts.
        judge: Column with the judge's scores; several columns are runs of one judge.
        human: Column with labels; several columns are several people.
        system: Column that names the system of each row, or of one side of a pair; systems are compared.
        item: Column that names the item of each row; rows of one item are dependent.
        group: Columns of slices for which the judge's bias is tested.
        length: Column with the length of the judged text.
        yes: The value of a two-valued label that counts as 1.
        threshold: Lowest score that counts as the upper value.
        width: Width of the interval of the mean for which the number of labels is computed; by default half the present
            one.
        tuned: True if the judge was tuned on these labels.
        order: Order of the words of the labels, the highest first, such as `A>B>C`; by default known ones are detected.
        confidence: Column with the judge's confidence in each answer; higher is surer.
        error: Largest share of errors in the rows that the judge decides alone.
        need: Requirements for the judge, such as `kappa=.6` or `tpr=.9,tnr=.8`.

    Raises:
        BadInput: The table cannot be read, a column is missing, its values form no scale, or a requirement is unknown.

    >>> rows = [{"judge": "pass", "human": "pass" if n % 4 else "fail"} for n in range(60)]
    >>> rows += [{"judge": "fail", "human": "fail"} for _ in range(20)]
    >>> rows += [{"judge": "pass" if n % 4 else "fail"} for n in range(120)]
    >>> result = check(rows)
    >>> result.columns["judge"], result.columns["people"], str(result.means.corrected)
    ('judge', 'human', '0.56 [0.47, 0.65]')
    """
    if width is not None and not SMALLEST_ANSWER <= width < math.inf:
        raise BadInput(
            f"width is {width}; it is the width of an interval, a number above 0, at least {SMALLEST_ANSWER:g}"
        )
    if threshold is not None and not math.isfinite(threshold):
        raise BadInput(f"threshold is {threshold}; it is a score of the judge, a finite number")
    check_error(error)
    needs = None if need is None else parse_need(need)
    options = {"judge": judge, "human": human, "system": system, "item": item, "group": group, "length": length,
               "confidence": confidence}  # fmt: skip
    for name, columns in options.items():
        if columns is not None and not all(each.strip() for each in _names(columns) or [""]):
            raise BadInput(f"--{name} is empty; name a column of the table, or leave the option out")
    given = TableOptions(
        dict.fromkeys(_names(judge), ""), dict.fromkeys(_names(human), ""), (), item, system, length, _names(group),
        confidence,
    )  # fmt: skip
    orders = parse_orders(order)
    cells = read_cells(table, orders)
    of_pairs = pair_table(cells, given)
    unused = {"yes": yes, "threshold": threshold, "length": length, "order": order, "confidence": confidence}
    if of_pairs is not None and (names := [f"--{name} {value}" for name, value in unused.items() if value is not None]):
        raise BadInput(
            f"{cells.name} holds pairs with preferences, where {names[0]} has no meaning; leave the option out"
        )
    read = judged_table(cells, given, yes, threshold, orders) if of_pairs is None else of_pairs
    if threshold is not None and read.scale.judge_threshold is None:
        _check_threshold(read, threshold)
    means, biases, repeats = table_means(read, width), judge_biases(read), repeatability(read)
    biases = biases if of_pairs is None else of_pairs.named(biases)
    agreement = agreement_rows(read) if of_pairs is None else pair_agreement(of_pairs)
    systems = compare_systems(read) if of_pairs is None else win_rates(of_pairs)
    pairs = None if of_pairs is None else pair_figures(of_pairs, means, systems)
    roles = read.roles.texts() | ({"sides": ", ".join(of_pairs.sides)} if of_pairs is not None else {})
    confusion, automation = confusion_table(read), share_to_automate(read, error, means)
    annotators, labeled = alternative_annotators(read), int(read.is_labeled.sum())
    if needs is None:
        sufficiency = compared_with_people(read, agreement[0])
    else:
        sufficiency = meets_need(needs, agreement, labeled, int(read.is_judged.sum()), read.name)
    analyses = _agreement_reasons(read, agreement) | {
        "corrected mean": means.reason,
        "comparison of systems": systems.reason,
        "repeatability of the judge": _reason(repeats),
        AUTOMATION: _reason(automation),
        "alternative annotator test": _reason(annotators),
        **({} if pairs is None else pairs.analyses),
    }
    missing = [(name, reason) for name, reason in analyses.items() if reason]
    missing += [*biases.missing, *_missing_figures(read, means)]
    if isinstance(confusion, str) and read.answer is not None and read.scale.kind != "continuous":
        missing.append(("counts by label and answer", confusion))
    supported = [name for name, reason in analyses.items() if not reason]
    supported += ["bias of the judge"] if biases.rows else []
    calibration = calibration_map(read) if labeled >= MIN_LABELS else []
    return CheckResult(
        name=read.name, rows=read.rows, judged=int(read.is_judged.sum()), labeled=labeled,
        items=len(set(read.item)), columns=roles, scale=read.scale, supported=supported, missing=missing,
        warnings=label_warnings(read, tuned), notes=list(read.notes), agreement=agreement, means=means, systems=systems,
        biases=biases.rows, calibration=calibration, repeats=_found(repeats),
        labels_by=read.labels_by, digests=read.digests, confusion=_found(confusion), automation=_found(automation),
        sufficiency=_found(sufficiency), annotators=_found(annotators),
        disputed=0 if read.answer is None else len(differing_rows(read)), split=int(is_split(read).sum()), table=read,
        pairs=pairs,
    )  # fmt: skip


def _check_threshold(table: JudgedTable, threshold: float) -> None:
    """Raise `BadInput` for a threshold that no figure uses: it turns scores into two values, or counts their flips."""
    kind = table.scale.kind
    if kind in ("two-valued", "nominal"):
        reason = "the judge answers with the values of the labels"
    elif table.answer is None:
        reason = f"the labels are {table.scale}, and a threshold turns scores into two values"
    elif table.score.shape[1] < 2:
        reason = "the judge answers on the scale of the labels, where a threshold is for several runs of the judge"
    else:
        return
    raise BadInput(f"{table.name}: --threshold {threshold:g} sets nothing: {reason}. Leave the option out")


def _reason(found: object) -> str:
    return found if isinstance(found, str) else ""


def _found(found: Found | str) -> Found | None:
    return None if isinstance(found, str) else found


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


def check_share(result: CheckResult, least: float) -> tuple[bool, str]:
    """Return whether the judge may decide a share of the rows alone, and a sentence.

    Args:
        result: A check.
        least: Smallest share, above 0 and at most 1.

    Raises:
        BadInput: The smallest share is out of range.
    """
    if not 0 < least <= 1:
        raise BadInput(f"--min-share {least:g}: the smallest share is above 0 and at most 1; for example .5")
    found = result.automation
    if found is None:
        reason = dict(result.missing)[AUTOMATION]
        return False, f"share that the judge may decide alone: unknown ({reason}), required {least:g}: failed"
    passed = found.share >= least
    return passed, (
        f"share that the judge may decide alone with an error of at most {found.limit:g}: "
        f"{told_apart(found.share, least, '.2f')[0]}, required {least:g}: {'passed' if passed else 'failed'}"
    )


def write_rows(result: CheckResult, path: str | Path) -> Path:
    """Write the rows where the judge and a person differ as CSV, JSON lines or Parquet, by the ending of the file.

    Columns are the id, the system, the judge's answer (of each run), each person's label, `labels` (`unanimous`,
    `split` or `one label`), the cell of the table of counts, and the text if the table has one.

    Raises:
        BadInput: The file has another ending, or the judge answers on another scale.
    """
    assert result.table is not None
    write_differing_rows(result.table, Path(path))
    return Path(path)
