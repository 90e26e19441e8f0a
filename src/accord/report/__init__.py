"""The report: one self-contained HTML file, no script, no network; every figure with its interval."""

from accord.report.issues_page import write_issues_page
from accord.report.report import render, write_report

__all__ = ["render", "write_issues_page", "write_report"]
