from .gate import check_gate as check_gate
from .issues_page import (
    issue_plots as issue_plots,
    quoted_parts as quoted_parts,
    QuotedPart as QuotedPart,
    write_issues_page as write_issues_page,
)
from .project_run import run_project as run_project, run_settings as run_settings
from .project_run import RunOptions as RunOptions, RunResult as RunResult
from .report import reliability_curve as reliability_curve, write_report as write_report
