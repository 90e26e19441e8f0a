"""Page of a check: a judge against the labels of people in a table, as HTML or JSON."""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from accord.charts import Axis, ChartRow, Guide, interval_plot
from accord.edges import BadInput, count_of, write_atomically
from accord.report.page import render_page
from accord.table_check import CheckResult, pair_lines, plain, plan_lines, repeat_lines, signed
from accord.values import Estimate, agreement_word, p_text
from accord.version import __version__

MAX_BIASES = 20
"""Rows of the table of biases."""


def write_check(result: CheckResult, path: str | Path) -> Path:
    """Write a check as a self-contained HTML page, or as JSON, by the ending of the file.

    Raises:
        BadInput: The ending is another one.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".json"):
        raise BadInput(f"{path}: a check is written as .html or .json; name a file with one of these endings")
    is_page = path.suffix.lower() == ".html"
    text = check_page(result) if is_page else json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text, "xmlcharrefreplace" if is_page else "backslashreplace")
    return path


def check_page(result: CheckResult) -> str:
    """Return the page as HTML."""
    return render_page("check.html", {
        "result": result, "version": __version__, "facts": _facts(result), "picture": _means(result),
        "calibration": _calibration(result), "systems": _systems(result), "agreement": _agreement(result),
        "biases": _biases(result), "bias_rows": result.biases[:MAX_BIASES], "p_text": p_text,
        "headline": _headline(result), "plan": list(plan_lines(result)), "repeats": list(repeat_lines(result)),
        "strengths": _strengths(result), "pairs": list(pair_lines(result)),
        "has_people": any(row.people.value is not None for row in result.agreement),
        "plain": plain, "signed": signed, "gap": lambda each: Estimate(each.difference, each.low, each.high),
    })  # fmt: skip


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


def _facts(result: CheckResult) -> list[tuple[str, str]]:
    """Return three numbers with their meanings."""
    main, mean = result.main, result.means.corrected
    facts = [(_number(main.judge), f"{main.statistic} of the judge with people{_among(main.people)}")]
    facts.append((_number(mean), f"{result.mean_name}, corrected by the labels{_ends(mean)}"))
    facts.append((f"{result.labeled:,} of {result.rows:,}", "rows have a score and a label of a person"))
    return facts


def _number(figure: Estimate) -> str:
    return "unknown" if figure.value is None else f"{figure.value:.2f}"


def _among(people: Estimate) -> str:
    return "" if people.value is None else f"; {people.value:.2f} among people"


def _ends(figure: Estimate) -> str:
    return "" if figure.low is None else f", between {figure.low:.2f} and {figure.high:.2f}"


def _means(result: CheckResult) -> Markup:
    """Draw the mean by each estimator."""
    rows = [
        ChartRow(
            f"{row.method} *" if row.method == result.means.best else row.method,
            row.mean,
            "model" if row.method == first else "people",
        )
        for first in [result.means.rows[0].method if result.means.rows else ""]
        for row in result.means.rows
        if row.mean.value is not None
    ]
    if not rows:
        return Markup("")
    return interval_plot(rows, Axis(result.mean_name), f"{result.mean_name} of all rows by each estimator", None)


def _agreement(result: CheckResult) -> Markup:
    """Draw the agreement of the judge with people, and that among people."""
    rows = []
    for row in result.agreement:
        if row.statistic == "mean absolute error":
            continue
        rows += [ChartRow(row.statistic, row.judge, "model")] if row.judge.value is not None else []
        if row.people.value is not None:
            rows.append(ChartRow(f"{row.statistic}, among people", row.people, "people"))
    return interval_plot(rows, Axis("agreement"), "Agreement with people", None) if rows else Markup("")


def _calibration(result: CheckResult) -> Markup:
    """Draw the mean label for each score of the judge."""
    rows = [ChartRow(f"{row.name} ({count_of(row.n, 'label')})", row.mean, "people") for row in result.calibration]
    if not rows:
        return Markup("")
    low, high = result.scale.ends
    middle = [Guide(result.means.corrected.value, "corrected mean")] if result.means.corrected.value is not None else []
    axis = Axis(f"{result.mean_name} among labels", low, high)
    return interval_plot(rows, axis, "Mean label for each score of the judge", None, middle)


def _systems(result: CheckResult) -> Markup:
    """Draw the corrected mean of each system, and the judge's."""
    rows = []
    for mean, judge in zip(result.systems.systems, result.systems.judge_means, strict=True):
        rows.append(ChartRow(mean.system, Estimate(mean.mean, mean.low, mean.high), "people"))
        rows += [ChartRow(f"{mean.system}, judge alone", Estimate(judge), "model")] if judge is not None else []
    axis = Axis(result.mean_name if result.pairs is None else "win rate")
    return interval_plot(rows, axis, "Corrected means of systems", None) if rows else Markup("")


def _strengths(result: CheckResult) -> Markup:
    """Draw the strengths of versions in a table of pairs, and those by the judge alone."""
    rows = []
    for each in () if result.pairs is None else result.pairs.strengths:
        rows.append(ChartRow(each.version, each.strength, "people"))
        rows.append(ChartRow(f"{each.version}, judge alone", Estimate(each.judge), "model"))
    return interval_plot(rows, Axis("strength (log-odds)"), "Strengths of versions", 0.0) if rows else Markup("")


def _biases(result: CheckResult) -> Markup:
    """Draw the bias of each slice."""
    rows = [
        ChartRow(f"{row.by}: {row.group}" if row.group else f"per doubling of the {row.by}", row.bias,
                 "flagged" if row.is_biased else "model")
        for row in result.biases[:MAX_BIASES]
    ]  # fmt: skip
    return interval_plot(rows, Axis("bias compared with the other rows"), "Bias by slice", 0.0) if rows else Markup("")
