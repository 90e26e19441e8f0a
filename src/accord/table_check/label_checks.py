"""Warnings about labels: made by a model, copied from the judge, too few, or used to tune the judge."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from accord.formats import is_machine
from accord.statistics import share_interval
from accord.table_check.agreement import MIN_LABELS
from accord.table_check.table import JudgedTable

MIN_EQUAL = 20
"""Smallest number of rows without a disagreement that looks like a copy."""
MOST_EQUAL = 3
"""Largest number of pairs of equal people that are named."""
TUNED = {"train", "training", "dev", "development", "tune", "tuning", "calibration", "calib", "fewshot", "example",
         "examples", "prompt", "optimize", "optimise", "fit"}  # fmt: skip
_TESTED = {"test", "testing", "heldout", "holdout", "eval", "evaluation", "validation", "valid", "val"}


def label_warnings(table: JudgedTable, is_tuned: bool) -> list[str]:
    """Return sentences on labels that are not independent evidence of the judge's quality.

    Args:
        table: The table.
        is_tuned: True if the user says that the judge was tuned on these labels.
    """
    return [*_model_made(table), *_tuned(table, is_tuned), *_few(table)]


def _model_made(table: JudgedTable) -> Iterator[str]:
    for name in table.people:
        if is_machine(name):
            yield f"the labels of {name!r} look model-made by the name; they say nothing about agreement with people"
    answers = table.score if table.answer is None else table.answer
    for person, name in enumerate(table.people):
        for run in range(answers.shape[1]):
            both = ~np.isnan(table.labels[:, person]) & ~np.isnan(answers[:, run])
            if both.sum() >= MIN_EQUAL and (table.labels[both, person] == answers[both, run]).all():
                yield (
                    f"all {both.sum()} labels of {name!r} equal the judge's scores; labels that were copied, or made "
                    "with the judge in view, are no evidence"
                )
                break
    equal = list(_equal_pairs(table))
    for one, other, rows in equal[:MOST_EQUAL]:
        yield (
            f"{table.people[one]!r} and {table.people[other]!r} agree on all {rows} rows that both labeled, "
            "as people rarely do; check that both labeled on their own"
        )
    if len(equal) > MOST_EQUAL:
        yield f"{len(equal) - MOST_EQUAL:,} further pairs of people agree on all rows that both labeled"


def _equal_pairs(table: JudgedTable) -> Iterator[tuple[int, int, int]]:
    """Yield two people without a disagreement, and the number of rows that both labeled."""
    people = np.flatnonzero((~np.isnan(table.labels)).sum(axis=0) >= MIN_EQUAL)
    labels = table.labels[:, people]
    known = ~np.isnan(labels)
    for place, one in enumerate(people):
        both = known[:, place, None] & known[:, place + 1 :]
        rows = both.sum(axis=0)
        differs = (both & (labels[:, place, None] != labels[:, place + 1 :])).any(axis=0)
        for other in np.flatnonzero((rows >= MIN_EQUAL) & ~differs):
            yield int(one), int(people[place + 1 + other]), int(rows[other])


def _tuned(table: JudgedTable, is_tuned: bool) -> Iterator[str]:
    if is_tuned:
        yield "the judge was tuned on these labels, so its agreement with new labels will be lower; label new rows"
    if table.split is None:
        return
    labeled = table.is_labeled
    parts = np.array([re.sub(r"[\W_]+", "", str(each or "")).casefold() for each in table.split], dtype=object)
    seen = labeled & np.isin(parts, list(TUNED))
    if not seen.any():
        return
    column = table.roles.split
    names = sorted({str(each) for each in table.split[seen]})
    tested = labeled & np.isin(parts, list(_TESTED))
    text = f"{seen.sum()} of {labeled.sum()} labeled rows are of {column} {', '.join(names)}; "
    if table.answer is None or not tested.any():
        yield text + "if the judge was tuned on them, its agreement with new labels will be lower"
        return
    shares = []
    for rows in (seen, tested):
        same = np.isclose(table.answer[rows][:, :, None], table.labels[rows][:, None, :]).reshape(rows.sum(), -1)
        shares.append(share_interval(same.any(axis=1), table.item[rows]).text())
    yield text + (
        f"if the judge was tuned on them, count the others only: same answer {shares[0]} there, {shares[1]} in the "
        f"{tested.sum()} tested rows"
    )


def _few(table: JudgedTable) -> Iterator[str]:
    labels = table.mean_label[table.is_labeled]
    if table.scale.is_two_valued and len(labels) >= MIN_LABELS:
        high = table.scale.ends[1]
        for value in table.scale.ends:
            count = int((labels == value).sum())
            if 0 < count < 5:
                share = "TPR" if value == high else "TNR"
                yield f"only {count} of {len(labels)} labels are {table.scale.name(value)}, so {share} is hardly known"
