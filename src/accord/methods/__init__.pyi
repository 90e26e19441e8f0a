from .in_context.experiment import at_random as at_random, rivals as rivals
from .in_context.score_parsing import read as read
from .in_context.selectors import Selector as Selector, selectors as selectors
from .issues.annotate import has_only_people as has_only_people, largest as largest, postprocess as postprocess
from .issues.annotate import settled as settled
from .issues.evidence import kind_question as kind_question, LOWEST_SCORE as LOWEST_SCORE
from .issues.evidence import NOT_ASSESSED as NOT_ASSESSED, SCORE as SCORE, WORST as WORST
from .issues.issue_prompts import IssuePromptBuilder as IssuePromptBuilder, read_verdict as read_verdict
from .issues.issue_prompts import shots_of as shots_of, verdict_of as verdict_of
from .issues.source import Issues as Issues
from .learned_rubric.assertion_writer import PROMPTS as PROMPTS, shipped as shipped
from .learned_rubric.selection_policies import AssertionBudget as AssertionBudget, Policy as Policy, Pool as Pool
from .learned_rubric.selection_policies import selection_policies as selection_policies, TOP as TOP
