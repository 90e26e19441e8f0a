from .in_context.asking import Asked as Asked, Counts as Counts, Ensemble as Ensemble, SPREAD as SPREAD
from .in_context.asking import as_evidence as as_evidence, common as common, ensemble_of as ensemble_of
from .in_context.asking import score_each as score_each
from .in_context.examples import DIALOGUE as DIALOGUE, Example as Example, Examples as Examples, TURN as TURN
from .in_context.examples import contexts_of as contexts_of, examples_of as examples_of, level_of as level_of
from .in_context.examples import private_by as private_by, prompt_text as prompt_text
from .in_context.experiment import Choose as Choose, Experiment as Experiment, ExperimentResult as ExperimentResult
from .in_context.experiment import FEW_SHOT as FEW_SHOT, ZERO_SHOT as ZERO_SHOT, at_random as at_random
from .in_context.experiment import rivals as rivals
from .in_context.findings import InContextFindings as InContextFindings, PromptFigures as PromptFigures
from .in_context.findings import StageCounts as StageCounts
from .in_context.inversion import COPY as COPY, EXAMPLES as EXAMPLES, GONE_ON as GONE_ON, PromptSearch as PromptSearch
from .in_context.inversion import SHORT as SHORT, TaskPrompt as TaskPrompt, checked as checked, distinct as distinct
from .in_context.inversion import dump_tasks as dump_tasks, invert as invert, load_tasks as load_tasks
from .in_context.inversion import prompt_search as prompt_search, read_tasks as read_tasks
from .in_context.inversion import squared_error as squared_error
from .in_context.nodes import Floats as Floats, Indices as Indices, LEAST_TARGET as LEAST_TARGET, Library as Library
from .in_context.nodes import Nodes as Nodes, Pairs as Pairs, Query as Query, Vectors as Vectors
from .in_context.nodes import greedy_subgraph as greedy_subgraph, pair_draws as pair_draws, random_nodes as random_nodes
from .in_context.nodes import shared_with as shared_with, target as target, try_pairs as try_pairs
from .in_context.reading import AMBIGUOUS as AMBIGUOUS, ECHO as ECHO, NO_NUMBER as NO_NUMBER, OUTSIDE as OUTSIDE
from .in_context.reading import Reading as Reading, read as read, spread_out as spread_out
from .in_context.recipe import Recipe as Recipe, Sizes as Sizes, at_level as at_level, recipe_from as recipe_from
from .in_context.selectors import AUTO as AUTO, CHANCE as CHANCE, Neighbours as Neighbours, Prepared as Prepared
from .in_context.selectors import Selector as Selector, SelectorFigures as SelectorFigures
from .in_context.selectors import TowerSettings as TowerSettings, Tried as Tried, by_cost as by_cost, highest as highest
from .in_context.selectors import make_selector as make_selector, selector_figures as selector_figures
from .in_context.selectors import selectors as selectors, simplest as simplest, try_selector as try_selector
from .in_context.source import IN_CONTEXT as IN_CONTEXT, InContext as InContext, InContextSettings as InContextSettings
from .in_context.template import LOGPROBS as LOGPROBS, NUMBER as NUMBER, PromptTemplate as PromptTemplate
from .in_context.template import SEPARATOR as SEPARATOR
from .in_context.towers import PARTS as PARTS, Shape as Shape, Towers as Towers, bucket_edges as bucket_edges
from .in_context.towers import demonstration_tower as demonstration_tower, initial as initial
from .in_context.towers import input_tower as input_tower
from .issues.annotating import Asking as Asking, NO_KIND as NO_KIND, annotate as annotate, postprocess as postprocess
from .issues.annotating import postprocessed as postprocessed, prompts_of as prompts_of, settled as settled
from .issues.evidence import COUNT as COUNT, CRITICAL as CRITICAL, LOWEST_SCORE as LOWEST_SCORE
from .issues.evidence import NOT_ASSESSED as NOT_ASSESSED, SCORE as SCORE, WHY as WHY, WORST as WORST
from .issues.evidence import assessed as assessed, issue_table as issue_table, kind_question as kind_question
from .issues.evidence import probable as probable
from .issues.guidance import IssuePromptBuilder as IssuePromptBuilder, SHIPPED_SHOTS as SHIPPED_SHOTS, Shot as Shot
from .issues.guidance import shots_of as shots_of, verdict_of as verdict_of
from .issues.reading import Unread as Unread, Verdict as Verdict, read_verdict as read_verdict
from .issues.reading import read_verdicts as read_verdicts
from .issues.selection import EMPTY as EMPTY, MORE_SPEAKERS as MORE_SPEAKERS, NO_CONTEXT as NO_CONTEXT
from .issues.selection import NO_REPLY as NO_REPLY, Selection as Selection, Speakers as Speakers
from .issues.selection import judged_turns as judged_turns, largest as largest, speakers as speakers
from .issues.source import Detected as Detected, IssueCounts as IssueCounts, IssueSettings as IssueSettings
from .issues.source import Issues as Issues, asking_of as asking_of, issue_rows as issue_rows
from .issues.source import issues_source as issues_source, tuned_with as tuned_with, turns_of as turns_of
from .issues.statistics import GroupCounts as GroupCounts, IssueStatistics as IssueStatistics
from .issues.statistics import KindAtScore as KindAtScore, KindCounts as KindCounts, statistics as statistics
from .learned_rubric.answers import Decided as Decided, points as points, signed as signed
from .learned_rubric.experiment import ASKED as ASKED, passage as passage
from .learned_rubric.findings import RubricFindings as RubricFindings
from .learned_rubric.fitting import AssertionSelector as AssertionSelector, NET_SAT as NET_SAT
from .learned_rubric.pool import Names as Names, Writing as Writing, WritingSettings as WritingSettings
from .learned_rubric.pool import write_pool as write_pool
from .learned_rubric.rubrics import questions_of as questions_of, rubric_of as rubric_of
from .learned_rubric.selection import ALPHAS as ALPHAS, Budget as Budget, Candidates as Candidates, DIGITS as DIGITS
from .learned_rubric.selection import Policy as Policy, Pool as Pool, RUBICON as RUBICON
from .learned_rubric.selection import SelectionSettings as SelectionSettings, correctness_alone as correctness_alone
from .learned_rubric.selection import select as select, selection_policies as selection_policies, stability as stability
from .learned_rubric.selection import stratified as stratified, tuned as tuned
from .learned_rubric.separation import Outcome as Outcome, POINT as POINT, TOP as TOP, Window as Window
from .learned_rubric.separation import curves as curves, figures as figures, sharpness_loss as sharpness_loss
from .learned_rubric.separation import threshold_of as threshold_of, with_intervals as with_intervals
from .learned_rubric.source import LearnedRubric as LearnedRubric, LearnedRubricSettings as LearnedRubricSettings
from .learned_rubric.source import POOL_FILE as POOL_FILE, RUBRIC_FILE as RUBRIC_FILE
from .learned_rubric.writing import Assertion as Assertion, PROMPTS as PROMPTS
from .learned_rubric.writing import RubricPromptBuilder as RubricPromptBuilder, Task as Task, Written as Written
from .learned_rubric.writing import deduplicate as deduplicate, deduplicate_by_cosine as deduplicate_by_cosine
from .learned_rubric.writing import extract as extract, extraction_prompt as extraction_prompt
from .learned_rubric.writing import load_prompts as load_prompts, load_task as load_task, nearest as nearest
from .learned_rubric.writing import shipped as shipped, summarise as summarise, summary_parts as summary_parts
from .learned_rubric.writing import windowed as windowed
