from .automation import slice_text as slice_text
from .cards import card_of_check as card_of_check
from .judge_check import check as check, check_at_least as check_at_least, check_share as check_share
from .judge_check import write_rows as write_rows
from .result import CheckResult as CheckResult, confusion_rows as confusion_rows, decision_lines as decision_lines
from .result import disputed_lines as disputed_lines, mean_rows as mean_rows, people_text as people_text
from .result import (
    pair_lines as pair_lines,
    plain as plain,
    plan_lines as plan_lines,
    repeat_lines as repeat_lines,
    signed as signed,
)
from .rows import cell_rows as cell_rows, most_different as most_different, row_columns as row_columns
