from .in_context.demonstration_sets import Floats as Floats, greedy_subgraph as greedy_subgraph, Indices as Indices
from .in_context.demonstration_sets import LEAST_TARGET as LEAST_TARGET, Library as Library, Nodes as Nodes
from .in_context.demonstration_sets import pair_draws as pair_draws, Pairs as Pairs, Query as Query
from .in_context.demonstration_sets import random_nodes as random_nodes, shared_with as shared_with, target as target
from .in_context.demonstration_sets import try_pairs as try_pairs, Vectors as Vectors
from .in_context.experiment import at_random as at_random, Choose as Choose, Experiment as Experiment
from .in_context.experiment import ExperimentResult as ExperimentResult, FEW_SHOT as FEW_SHOT, rivals as rivals
from .in_context.experiment import ZERO_SHOT as ZERO_SHOT
from .in_context.findings import InContextFindings as InContextFindings, PromptFigures as PromptFigures
from .in_context.findings import StageCounts as StageCounts
from .in_context.prompt_assembly import at_level as at_level, Recipe as Recipe, recipe_from as recipe_from
from .in_context.prompt_assembly import Sizes as Sizes
from .in_context.prompt_inversion import checked as checked, COPY as COPY, distinct as distinct
from .in_context.prompt_inversion import dump_tasks as dump_tasks, EXAMPLES as EXAMPLES, GONE_ON as GONE_ON
from .in_context.prompt_inversion import invert as invert, load_tasks as load_tasks, prompt_search as prompt_search
from .in_context.prompt_inversion import PromptSearch as PromptSearch, read_tasks as read_tasks, SHORT as SHORT
from .in_context.prompt_inversion import squared_error as squared_error, TaskPrompt as TaskPrompt
from .in_context.rated_examples import contexts_of as contexts_of, DIALOGUE as DIALOGUE, Example as Example
from .in_context.rated_examples import Examples as Examples, examples_of as examples_of, level_of as level_of
from .in_context.rated_examples import private_by as private_by, prompt_text as prompt_text, TURN as TURN
from .in_context.score_parser import AMBIGUOUS as AMBIGUOUS, ECHO as ECHO, NO_NUMBER as NO_NUMBER, OUTSIDE as OUTSIDE
from .in_context.score_parser import read as read, Reading as Reading, spread_out as spread_out
from .in_context.scoring_requests import as_evidence as as_evidence, Asked as Asked, common as common, Counts as Counts
from .in_context.scoring_requests import Ensemble as Ensemble, ensemble_of as ensemble_of, score_each as score_each
from .in_context.scoring_requests import SPREAD as SPREAD
from .in_context.selectors import AUTO as AUTO, by_cost as by_cost, CHANCE as CHANCE, highest as highest
from .in_context.selectors import make_selector as make_selector, Neighbours as Neighbours, Prepared as Prepared
from .in_context.selectors import Selector as Selector, selector_figures as selector_figures
from .in_context.selectors import SelectorFigures as SelectorFigures, selectors as selectors, simplest as simplest
from .in_context.selectors import TowerSettings as TowerSettings, Tried as Tried, try_selector as try_selector
from .in_context.source import IN_CONTEXT as IN_CONTEXT, InContext as InContext, InContextSettings as InContextSettings
from .in_context.template import LOGPROBS as LOGPROBS, NUMBER as NUMBER, PromptTemplate as PromptTemplate
from .in_context.template import SEPARATOR as SEPARATOR
from .in_context.tower_selector import bucket_edges as bucket_edges, demonstration_tower as demonstration_tower
from .in_context.tower_selector import initial as initial, input_tower as input_tower, PARTS as PARTS, Shape as Shape
from .in_context.tower_selector import Towers as Towers
from .issues.annotate import annotate as annotate, Asking as Asking, NO_KIND as NO_KIND, postprocess as postprocess
from .issues.annotate import postprocessed as postprocessed, prompts_of as prompts_of, settled as settled
from .issues.evidence import assessed as assessed, COUNT as COUNT, CRITICAL as CRITICAL, issue_table as issue_table
from .issues.evidence import kind_question as kind_question, LOWEST_SCORE as LOWEST_SCORE, NOT_ASSESSED as NOT_ASSESSED
from .issues.evidence import probable as probable, SCORE as SCORE, WHY as WHY, WORST as WORST
from .issues.issue_prompts import IssuePromptBuilder as IssuePromptBuilder, SHIPPED_SHOTS as SHIPPED_SHOTS, Shot as Shot
from .issues.issue_prompts import shots_of as shots_of, verdict_of as verdict_of
from .issues.selection import EMPTY as EMPTY, judged_turns as judged_turns, largest as largest
from .issues.selection import MORE_SPEAKERS as MORE_SPEAKERS, NO_CONTEXT as NO_CONTEXT, NO_REPLY as NO_REPLY
from .issues.selection import Selection as Selection, Speakers as Speakers, speakers as speakers
from .issues.source import asking_of as asking_of, Detected as Detected, issue_rows as issue_rows
from .issues.source import IssueCounts as IssueCounts, Issues as Issues, issues_source as issues_source
from .issues.source import IssueSettings as IssueSettings, tuned_with as tuned_with, turns_of as turns_of
from .issues.statistics import GroupCounts as GroupCounts, IssueStatistics as IssueStatistics
from .issues.statistics import KindAtScore as KindAtScore, KindCounts as KindCounts, statistics as statistics
from .issues.verdict_parser import read_verdict as read_verdict, read_verdicts as read_verdicts, Unread as Unread
from .issues.verdict_parser import Verdict as Verdict
from .learned_rubric.as_rubric import questions_of as questions_of, rubric_of as rubric_of
from .learned_rubric.assertion_pool import Names as Names, write_pool as write_pool, Writing as Writing
from .learned_rubric.assertion_pool import WritingSettings as WritingSettings
from .learned_rubric.assertion_selector import AssertionSelector as AssertionSelector, NET_SAT as NET_SAT
from .learned_rubric.assertion_writer import Assertion as Assertion, deduplicate as deduplicate
from .learned_rubric.assertion_writer import deduplicate_by_cosine as deduplicate_by_cosine, extract as extract
from .learned_rubric.assertion_writer import extraction_prompt as extraction_prompt, load_prompts as load_prompts
from .learned_rubric.assertion_writer import load_task as load_task, nearest as nearest, PROMPTS as PROMPTS
from .learned_rubric.assertion_writer import RubricPromptBuilder as RubricPromptBuilder, shipped as shipped
from .learned_rubric.assertion_writer import summarise as summarise, summary_parts as summary_parts, Task as Task
from .learned_rubric.assertion_writer import windowed as windowed, Written as Written
from .learned_rubric.experiment import ASKED as ASKED, passage as passage
from .learned_rubric.findings import RubricFindings as RubricFindings
from .learned_rubric.judge_points import Decided as Decided, points as points, signed as signed
from .learned_rubric.selection_policies import ALPHAS as ALPHAS, Budget as Budget, Candidates as Candidates
from .learned_rubric.selection_policies import correctness_alone as correctness_alone, DIGITS as DIGITS
from .learned_rubric.selection_policies import Policy as Policy, Pool as Pool, RUBICON as RUBICON, select as select
from .learned_rubric.selection_policies import selection_policies as selection_policies
from .learned_rubric.selection_policies import SelectionSettings as SelectionSettings, stability as stability
from .learned_rubric.selection_policies import stratified as stratified, tuned as tuned
from .learned_rubric.separation_metrics import curves as curves, figures as figures, Outcome as Outcome, POINT as POINT
from .learned_rubric.separation_metrics import sharpness_loss as sharpness_loss, threshold_of as threshold_of
from .learned_rubric.separation_metrics import TOP as TOP, Window as Window, with_intervals as with_intervals
from .learned_rubric.source import LearnedRubric as LearnedRubric, LearnedRubricSettings as LearnedRubricSettings
from .learned_rubric.source import POOL_FILE as POOL_FILE, RUBRIC_FILE as RUBRIC_FILE
