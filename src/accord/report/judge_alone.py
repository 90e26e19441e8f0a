"""The judge alone, compared with the evaluator that learned from it: errors, the corrected mean, rows that differ.

The figures come from the verdict's ledger, and from a check (`accord check`) of the judge's mean answers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accord.decisions import Figures
from accord.edges import BadInput
from accord.project import Compared, short_section
from accord.results import Section, Table, Text, p_text
from accord.statistics import SIGNIFICANT
from accord.table_check import CheckResult, check, disputed_lines, most_different
from accord.validation import JUDGE_ALONE

ROWS_SHOWN = 3
_LABELS, _CELL = "labels", "cell"


def check_of_judge(tried: Compared) -> CheckResult | None:
    """Check the judge's mean answers against a comparison's ratings; None if there is no judge or no common scale."""
    found = tried.comparison
    judge = next((each for each in found.systems if each.name == JUDGE_ALONE), None)
    if judge is None:
        return None
    rated, answers = found.ratings, np.round(judge.new_value, 2)
    rows = [
        {"item": str(label.target), "annotator": label.annotator, "rating": value, "judge": answer}
        for label, value, answer in zip(rated.labels, rated.value.tolist(), answers.tolist(), strict=True)
        if np.isfinite(answer)
    ]
    try:
        checked = check(rows, judge="judge", human="rating", item="item")
    except BadInput:
        return None
    return None if checked.table is None or checked.table.answer is None else checked


def judge_sections(tried: Compared, checked: CheckResult, listed: str) -> list[Section]:
    """Return the errors of judge, evaluator and people, what learning adds, the corrected mean, and rows that differ.

    Args:
        tried: Comparison with the judge.
        checked: Check of the judge.
        listed: File that lists the rows where the judge and a person differ.
    """
    found, figures = tried.comparison, tried.verdict.figures
    own = found.systems[0].name
    names = {JUDGE_ALONE: "the judge alone", own: f"{own}, learned from it", "other people": "other people"}
    [short] = (part for part in short_section(found, figures.ledger, None).parts if isinstance(part, Table))
    rows = {str(row[0]): row for row in short.rows}
    errors = Table(["", *short.header[1:3]], [[text, *rows[key][1:3]] for key, text in names.items() if key in rows])
    said = [*_learned(figures), *_mean(checked), *disputed_lines(checked, f"in {listed}")]
    return [Section("", "", [errors, Text("\n".join(said))]), *_rows(checked)]


def _learned(figures: Figures) -> Iterator[str]:
    """Yield whether the judge alone helps, and whether learning from people makes its error smaller."""
    ledger, test = figures.ledger, figures.tests.get(JUDGE_ALONE)
    judge, constant, own = (ledger[name] for name in ("judge_error", "constant_error", "error"))
    if judge.value is not None and constant.value is not None and judge.value >= constant.value:
        yield f"the judge alone does not help: error {judge.short}, of a constant guess {constant.short}"
    if test is None:
        return
    p = p_text(test.p)
    if test.p >= SIGNIFICANT:
        yield f"learning does not clearly change the judge's error: {judge.short} alone, {own.short} learned ({p})"
    else:
        verb = "lowers" if test.difference < 0 else "raises"
        yield f"learning from people {verb} the judge's error from {judge.short} to {own.short} ({p})"


def _mean(checked: CheckResult) -> Iterator[str]:
    """Yield the bias of the judge and the corrected mean, if they are known."""
    if checked.means.corrected.low is not None and not checked.means.is_selective:
        yield f"the judge alone: {checked.bias_text}; {checked.report_text}"


def _rows(checked: CheckResult) -> list[Section]:
    """Return the rows where the judge and people differ most, as a section; empty if there are none."""
    shown = [] if checked.table is None else most_different(checked.table, ROWS_SHOWN)
    if not shown:
        return []
    columns = [name for name in shown[0] if name not in (_LABELS, _CELL)]
    cells = [[row[name] or "–" for name in columns] for row in shown]
    return [Section("", "", [Table(["largest differences", *columns[1:]], cells)])]
