"""Significance marks of LLM-RUBRIC's tables 1 and 2: paired permutation tests with p < .05, not corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accord.statistics import STATISTICS, Clusters, MeanStatistic, Paired, paired_test
from accord_papers.llm_rubric.protocols import DataSet
from accord_papers.study import Row

NUMBERED = {"random": "1", "judge-argmax": "2", "judge-expected": "3", "calibrated Q0 alone": "4", "accord": "6"}
"""Numbers of the rows of table 1, which its superscripts name; row 5 is absent."""
MARKED = {"rmse": "RMSE", "pearson": "r"}
LEVEL = 0.05


def superscripts(data: DataSet, systems: Mapping[str, Sequence[Paired]]) -> dict[str, str]:
    """Return the marks of table 1: for each numbered row, the rows with a worse RMSE or r (p < .05, not corrected)."""
    clusters, found = Clusters(data.rated.group), dict[str, str]()
    numbered = [name for name in NUMBERED if name in systems]
    for name in numbered:
        marks = []
        for statistic, shown in MARKED.items():
            of = STATISTICS[statistic]
            assert isinstance(of, MeanStatistic)
            tests = {other: paired_test(clusters, of, systems[name], systems[other])
                     for other in numbered if other != name}  # fmt: skip
            sign = -1 if statistic == "rmse" else 1
            better = [NUMBERED[other] for other, test in tests.items()
                      if test is not None and test.p < LEVEL and sign * test.difference > 0]  # fmt: skip
            marks += [f"{shown} {''.join(better)}"] if better else []
        found[name] = ", ".join(marks)
    return found


def drops(rows: Sequence[Row]) -> dict[str, str]:
    """Return the marks of table 2: statistics of each ablation that are worse than the whole's (p < .05)."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.get("statistic") in MARKED:
            sign = -1 if row["statistic"] == "rmse" else 1
            marks = found.setdefault(row["against"], [])
            if row["p"] < LEVEL and sign * row["difference"] > 0:
                marks.append(f"▽ {MARKED[row['statistic']]}")
    return {name: ", ".join(marks) for name, marks in found.items()}
