"""Page of a check: a judge against the labels of people in a table, as HTML, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from accord.charts import Axis, ChartRow, row_chart
from accord.edges import BadInput, escape_controls, truncate_middle, write_atomically
from accord.report.page import render_page
from accord.results import agreement_word, markdown_table, p_text, plain_markdown
from accord.table_check import (
    CheckResult,
    cell_rows,
    confusion_rows,
    decision_lines,
    disputed_lines,
    mean_rows,
    pair_lines,
    people_text,
    plain,
    plan_lines,
    repeat_lines,
    row_columns,
    signed,
    slice_text,
)
from accord.values import Estimate
from accord.version import __version__

MAX_BIASES, MAX_SLICES, MAX_ROWS = 20, 20, 50
"""Rows of the table of biases, of errors by slice, and behind a cell of the counts."""
MAX_TEXT = 400
"""Characters of a text in a row."""


def check_ending(path: Path) -> None:
    """Raise `BadInput` for a file with an ending that `write_check` does not write."""
    if path.suffix.lower() not in (".html", ".json", ".md"):
        raise BadInput(f"{path}: a check is written as .html, .json or .md; name a file with one of these endings")


def write_check(result: CheckResult, path: str | Path) -> Path:
    """Write a check as a self-contained HTML page, as Markdown, or as JSON, by the ending of the file.

    Raises:
        BadInput: The ending is another one.
    """
    path = Path(path)
    check_ending(path)
    ending = path.suffix.lower()
    if ending == ".html":
        write_atomically(path, check_page(result), "xmlcharrefreplace")
    elif ending == ".md":
        write_atomically(path, check_markdown(result), "backslashreplace")
    else:
        text = json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n"
        write_atomically(path, text, "backslashreplace")
    return path


def check_markdown(result: CheckResult) -> str:
    """Return a check as Markdown; texts of users are escaped."""
    name, counts = plain_markdown(result.name), f"{result.rows:,} rows, {result.judged:,} with a score"
    lines = [f"# Accord check: {name}", "", f"{counts}, {result.labeled:,} of them with a label.", ""]
    lines += [f"**{plain_markdown(result.verdict)}**", ""]
    lines += [f"- {plain_markdown(_sentence(f'warning: {each}'))}" for each in result.warnings]
    lines += [f"- {plain_markdown(_sentence(each))}" for each in decision_lines(result)]
    rows = [[row.statistic, people_text(row), plain(row.judge)] for row in result.agreement]
    lines += ["", "## Agreement", "", *markdown_table(["", "among people", "judge with people"], rows)]
    if result.confusion is not None:
        lines += ["", "## Counts", "", *markdown_table(*confusion_rows(result.confusion))]
    lines += ["", *(plain_markdown(_sentence(each)) for each in disputed_lines(result))]
    if result.means.rows:
        lines += ["", "## Means", "", *markdown_table([result.mean_name, "95% interval"], mean_rows(result)), ""]
        lines += [f"{plain_markdown(_sentence(each))}  " for each in plan_lines(result)]
    if result.automation is not None and result.automation.slices:
        lines += ["", "## Decided alone, by slice", ""]
        lines += [f"- {plain_markdown(slice_text(each))}" for each in result.automation.slices[:MAX_SLICES]]
    lines += ["", "## What ran", "", f"- Ran: {plain_markdown(', '.join(result.supported) or 'nothing')}"]
    lines += [f"- Not run: {plain_markdown(name)}: {plain_markdown(reason)}" for name, reason in result.missing]
    columns = (f"{role} = {column}" for role, column in result.columns.items())
    lines += [f"- Columns: {plain_markdown('; '.join(columns))}", f"- Scale: {plain_markdown(str(result.scale))}", ""]
    return escape_controls("\n".join(lines) + f"\nAccord {__version__}\n")


def check_page(result: CheckResult) -> str:
    """Return the page as HTML."""
    bias = mean_rows(result)[-1][1] if result.means.bias.value is not None and result.means.bias_p is not None else ""
    return render_page("check.html", {
        "result": result, "version": __version__, "picture": _means(result), "bias": bias,
        "calibration": _calibration(result), "systems": _systems(result), "agreement": _agreement(result),
        "biases": _biases(result), "bias_rows": result.biases[:MAX_BIASES], "p_text": p_text,
        "headline": _headline(result), "plan": [_sentence(line) for line in plan_lines(result)],
        "repeats": [_sentence(line.partition(": ")[2]) for line in repeat_lines(result)],
        "strengths": _strengths(result), "pairs": [_sentence(line.partition(": ")[2]) for line in pair_lines(result)],
        "has_people": any(row.people.value is not None for row in result.agreement),
        "decisions": _decisions(result), "counts": _counts(result), "cells": _cells(result),
        "disputed": [_sentence(line) for line in disputed_lines(result)], "slice_text": slice_text,
        "max_slices": MAX_SLICES, "max_rows": MAX_ROWS, "people_text": people_text, "plain": plain, "signed": signed,
        "gap": lambda each: Estimate(each.difference, each.low, each.high),
        "mean": lambda each: Estimate(each.mean, each.low, each.high),
        "warnings": [_sentence(line) for line in result.warnings], "notes": [_sentence(line) for line in result.notes],
    })  # fmt: skip


def _decisions(result: CheckResult) -> list[tuple[str, str]]:
    """Return what to decide as names with their sentences; a line that belongs to the one before it is added to it."""
    found: list[tuple[str, str]] = []
    for line in decision_lines(result):
        if line.startswith(" ") and found:
            found[-1] = found[-1][0], f"{found[-1][1]} {_sentence(line)}"
        else:
            name, _, text = line.partition(": ")
            found.append((name, _sentence(text)))
    return found


def _sentence(line: str) -> str:
    """Return a line of the terminal as a sentence."""
    text = line.strip()
    return f"{text[0].upper()}{text[1:]}."


def _counts(result: CheckResult) -> list[tuple[str, list[tuple[int, str]]]]:
    """Return the rows of the table of counts: each count with the anchor of its rows, empty for none."""
    found = result.confusion
    if found is None:
        return []
    return [
        (name, [(count, f"cell-{first}-{second}" if count and result.table is not None else "")
                for second, count in enumerate(row)])
        for first, (name, row) in enumerate(zip(found.values, found.counts, strict=True))
    ]  # fmt: skip


def _cells(result: CheckResult) -> list[dict[str, Any]]:
    """Return the first rows behind each cell of the counts, with their columns."""
    if result.confusion is None or result.table is None:
        return []
    values, columns = result.confusion.values, row_columns(result.table)
    return [
        {
            "anchor": f"cell-{first}-{second}", "count": result.confusion.counts[first][second],
            "name": f"people say {values[first]}, the judge {values[second]}", "columns": columns,
            "rows": [[truncate_middle(row[column] or "", MAX_TEXT) for column in columns] for row in rows],
        }
        for first, second, rows in cell_rows(result.table, result.confusion, MAX_ROWS)
    ]  # fmt: skip


def _headline(result: CheckResult) -> str:
    """Return the heading: the finding in a few words."""
    judge, bias = result.main.judge, result.means.bias
    if judge.value is None or judge.low is None:
        return "Agreement is unknown"
    if result.disagrees:
        return "The judge and people clearly disagree: reversed?"
    agrees = judge.low > 0
    if result.is_biased and bias.value is not None:
        word = "too generous" if bias.value > 0 else "too strict"
        if result.pairs is not None:
            return f"The judge prefers {'A' if bias.value > 0 else 'B'} too often, by {abs(bias.value):.2f}"
        return f"The judge is {word} by {abs(bias.value):.2f}" + ("" if agrees else ", and agrees by chance only")
    if not agrees:
        return "The judge may agree by chance only"
    return f"The judge agrees {agreement_word(judge)} with people"


def _means(result: CheckResult) -> Markup:
    """Draw the mean by each estimator."""
    rows = [
        ChartRow(
            f"{row.method} *" if row.method == result.means.best else row.method,
            row.mean,
            "tool" if row.method == first else "people",
        )
        for first in [result.means.rows[0].method if result.means.rows else ""]
        for row in result.means.rows
        if row.mean.value is not None
    ]
    return _drawn(rows, Axis(result.mean_name), f"{result.mean_name} of all rows by each estimator")


def _agreement(result: CheckResult) -> Markup:
    """Draw the agreement of the judge with people, and that among people."""
    shown = [row for row in result.agreement if row.statistic != "mean absolute error"]
    has_people = any(row.people.value is not None for row in shown)
    rows = [
        ChartRow(row.statistic, row.judge, "tool", more=[(row.people, "people")] if has_people else ())
        for row in shown
        if row.judge.value is not None or row.people.value is not None
    ]
    return _drawn(rows, Axis("agreement"), "Agreement with people", heads=["judge", "people"] if has_people else ())


def _calibration(result: CheckResult) -> Markup:
    """Draw the mean label for each score of the judge."""
    rows = [ChartRow(row.name, row.mean, "people", count=row.n) for row in result.calibration]
    low, high = result.scale.ends
    ends = [end for row in rows for end in (row.estimate.low, row.estimate.high) if end is not None]
    axis = Axis(f"{result.mean_name} among labels", min(low, *ends, low), max(high, *ends, high))
    return _drawn(rows, axis, "Mean label for each score of the judge")


def _systems(result: CheckResult) -> Markup:
    """Draw the corrected mean of each system, and the judge's."""
    judged = result.systems.judge_means
    has_judge = any(judge is not None for judge in judged)
    rows = [
        ChartRow(
            mean.system,
            Estimate(mean.mean, mean.low, mean.high),
            "people",
            more=[(Estimate(judge), "tool")] if has_judge else (),
        )
        for mean, judge in zip(result.systems.systems, judged, strict=True)
    ]
    axis = Axis(result.mean_name if result.pairs is None else "win rate")
    return _drawn(rows, axis, "Corrected means of systems", heads=["corrected", "judge"] if has_judge else ())


def _strengths(result: CheckResult) -> Markup:
    """Draw the strengths of versions in a table of pairs, and those by the judge alone."""
    rows = [
        ChartRow(each.version, each.strength, "people", more=[(Estimate(each.judge), "tool")])
        for each in (() if result.pairs is None else result.pairs.strengths)
    ]
    heads = ["corrected", "judge"]
    return _drawn(rows, Axis("strength (log-odds)"), "Strengths of versions", heads=heads, is_signed=True)


def _biases(result: CheckResult) -> Markup:
    """Draw the bias of each slice; those that are significant have the color of the judge."""
    rows = [
        ChartRow(f"{row.by}: {row.group}" if row.group else f"per doubling of the {row.by}", row.bias,
                 "tool" if row.is_biased else "neutral")
        for row in result.biases[:MAX_BIASES]
    ]  # fmt: skip
    return _drawn(rows, Axis("bias compared with the other rows"), "Bias by slice", is_signed=True)


def _drawn(
    rows: Sequence[ChartRow], axis: Axis, title: str, *, heads: Sequence[str] = (), is_signed: bool = False
) -> Markup:
    """Draw rows; empty without any."""
    return row_chart(rows, axis, title, heads=heads, is_signed=is_signed) if rows else Markup("")
