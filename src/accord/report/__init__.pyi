from .card_files import write_card as write_card
from .table_cards import card_of_check as card_of_check
from .cards import card_of as card_of, CardOptions as CardOptions, gate_checks as gate_checks
from .cards import remake_card as remake_card
from .check_page import check_ending as check_ending, write_check as write_check
from .issues_page import write_issues_page as write_issues_page
from .project_run import run_project as run_project, run_settings as run_settings, RunOptions as RunOptions
from .project_run import RunResult as RunResult
from .report import report_body as report_body, write_report as write_report
from .verdict_view import verdict_view as verdict_view
