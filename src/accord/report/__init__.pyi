from .check_page import check_ending as check_ending, write_check as write_check
from .issues_page import write_issues_page as write_issues_page
from .judge_alone import check_of_judge as check_of_judge
from .page import render_page as render_page, show_section as show_section
from .report import report_body as report_body, write_report as write_report
from .run_results import DISPUTED as DISPUTED, RunOptions as RunOptions, RunResult as RunResult
from .verdict_view import verdict_view as verdict_view
