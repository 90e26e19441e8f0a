from .judge_check import check as check, check_at_least as check_at_least
from .result import CheckResult as CheckResult
