from .judge_check import check as check, check_at_least as check_at_least
from .result import CheckResult as CheckResult, pair_lines as pair_lines, plain as plain, plan_lines as plan_lines
from .result import repeat_lines as repeat_lines, signed as signed
