"""The report: one self-contained HTML file, no script, no network; every figure with its interval."""

from accord.report.report import render, write_report

__all__ = ["render", "write_report"]
