from .gate import check_gate as check_gate
from .issues_page import Part as Part, parts as parts, write_issues_page as write_issues_page
from .report import render as render, verdict as verdict, write_report as write_report
from .run_folder import run_settings as run_settings
from .whole_run import positions_said as positions_said, RunOptions as RunOptions, Whole as Whole
from .whole_run import whole_run as whole_run
