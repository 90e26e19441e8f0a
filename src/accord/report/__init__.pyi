from .card_files import card_badge as card_badge, card_markdown as card_markdown, write_card as write_card
from .cards import card_of as card_of, CardOptions as CardOptions, check_card as check_card, gate_checks as gate_checks
from .gate import check_gate as check_gate
from .issues_page import write_issues_page as write_issues_page
from .project_run import run_project as run_project, run_settings as run_settings, RunOptions as RunOptions
from .project_run import RunResult as RunResult
from .report import write_report as write_report
