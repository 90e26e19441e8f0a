"""The report: one self-contained HTML file, no script, no network; every figure with its interval."""

from accord.report.gate import check_gate
from accord.report.issues_page import Part, parts, write_issues_page
from accord.report.report import render, verdict, write_report
from accord.report.whole_run import RunOptions, Whole, positions_said, whole_run

__all__ = [
    "Part",
    "RunOptions",
    "Whole",
    "check_gate",
    "parts",
    "positions_said",
    "render",
    "verdict",
    "whole_run",
    "write_issues_page",
    "write_report",
]
