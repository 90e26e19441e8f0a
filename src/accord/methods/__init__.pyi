from .in_context.experiment import at_random as at_random, Choose as Choose, FEW_SHOT as FEW_SHOT
from .in_context.experiment import InContextFindings as InContextFindings, InContextSettings as InContextSettings
from .in_context.experiment import InContextTraining as InContextTraining, PromptFigures as PromptFigures
from .in_context.experiment import rivals as rivals, ZERO_SHOT as ZERO_SHOT
from .in_context.prompt_assembly import at_level as at_level, EnsembleSizes as EnsembleSizes
from .in_context.prompt_assembly import greedy_subgraph as greedy_subgraph, Recipe as Recipe, recipe_from as recipe_from
from .in_context.prompt_assembly import shared_with as shared_with
from .in_context.prompt_inversion import checked as checked, COPY as COPY, distinct as distinct
from .in_context.prompt_inversion import dump_tasks as dump_tasks, EXAMPLES as EXAMPLES, GONE_ON as GONE_ON
from .in_context.prompt_inversion import invert as invert, load_tasks as load_tasks, prompt_search as prompt_search
from .in_context.prompt_inversion import read_tasks as read_tasks, SHORT as SHORT, squared_error as squared_error
from .in_context.prompt_inversion import TaskPrompt as TaskPrompt
from .in_context.scoring_requests import AMBIGUOUS as AMBIGUOUS, as_evidence as as_evidence, ECHO as ECHO
from .in_context.scoring_requests import Ensemble as Ensemble, ensemble_of as ensemble_of, NO_NUMBER as NO_NUMBER
from .in_context.scoring_requests import OUTSIDE as OUTSIDE, ParsedScore as ParsedScore, read as read
from .in_context.scoring_requests import RequestCounts as RequestCounts, score_each as score_each
from .in_context.scoring_requests import ScoreRequest as ScoreRequest, SPREAD as SPREAD, spread_out as spread_out
from .in_context.selectors import AUTO as AUTO, by_cost as by_cost, CHANCE as CHANCE, ExampleLibrary as ExampleLibrary
from .in_context.selectors import Floats as Floats, highest as highest, Indices as Indices, LEAST_TARGET as LEAST_TARGET
from .in_context.selectors import make_selector as make_selector, Neighbours as Neighbours, Nodes as Nodes
from .in_context.selectors import pair_draws as pair_draws, Pairs as Pairs, PreparedNodes as PreparedNodes
from .in_context.selectors import Query as Query, random_nodes as random_nodes, Selector as Selector
from .in_context.selectors import selector_figures as selector_figures, SelectorFigures as SelectorFigures
from .in_context.selectors import selectors as selectors, SelectorTrial as SelectorTrial, simplest as simplest
from .in_context.selectors import target as target, TowerSettings as TowerSettings, try_pairs as try_pairs
from .in_context.selectors import try_selector as try_selector, Vectors as Vectors
from .in_context.source import IN_CONTEXT as IN_CONTEXT, InContext as InContext
from .in_context.template import contexts_of as contexts_of, DIALOGUE as DIALOGUE, examples_of as examples_of
from .in_context.template import level_of as level_of, LOGPROBS as LOGPROBS, NUMBER as NUMBER, private_by as private_by
from .in_context.template import prompt_text as prompt_text, PromptTemplate as PromptTemplate
from .in_context.template import RatedExample as RatedExample, RatedExamples as RatedExamples, SEPARATOR as SEPARATOR
from .in_context.template import TURN as TURN
from .in_context.tower_selector import bucket_edges as bucket_edges, demonstration_tower as demonstration_tower
from .in_context.tower_selector import initial as initial, input_tower as input_tower, PARTS as PARTS
from .in_context.tower_selector import TowerSelector as TowerSelector, TowerShape as TowerShape
from .issues.annotate import annotate as annotate, EMPTY as EMPTY, has_only_people as has_only_people
from .issues.annotate import judged_turns as judged_turns, JudgedTurns as JudgedTurns, largest as largest
from .issues.annotate import MORE_SPEAKERS as MORE_SPEAKERS, NO_CONTEXT as NO_CONTEXT, NO_KIND as NO_KIND
from .issues.annotate import NO_REPLY as NO_REPLY, postprocess as postprocess, postprocessed as postprocessed
from .issues.annotate import settled as settled, speakers as speakers
from .issues.evidence import assessed as assessed, COUNT as COUNT, CRITICAL as CRITICAL, issue_table as issue_table
from .issues.evidence import kind_question as kind_question, LOWEST_SCORE as LOWEST_SCORE, NOT_ASSESSED as NOT_ASSESSED
from .issues.evidence import probable as probable, SCORE as SCORE, WHY as WHY, WORST as WORST
from .issues.issue_prompts import IssuePromptBuilder as IssuePromptBuilder, read_verdict as read_verdict
from .issues.issue_prompts import read_verdicts as read_verdicts, SHIPPED_SHOTS as SHIPPED_SHOTS, Shot as Shot
from .issues.issue_prompts import shots_of as shots_of, ReplyVerdict as ReplyVerdict, verdict_of as verdict_of
from .issues.source import DetectedIssues as DetectedIssues, IssueCounts as IssueCounts, Issues as Issues
from .issues.source import IssueSettings as IssueSettings, turns_of as turns_of
from .learned_rubric.assertion_pool import only as only, PrivateNames as PrivateNames, questions_of as questions_of
from .learned_rubric.assertion_pool import rubric_of as rubric_of, write_pool as write_pool
from .learned_rubric.assertion_pool import WriterOptions as WriterOptions, WritingSettings as WritingSettings
from .learned_rubric.assertion_selector import AssertionSelector as AssertionSelector
from .learned_rubric.assertion_selector import ClassifiedSamples as ClassifiedSamples, NET_SAT as NET_SAT
from .learned_rubric.assertion_selector import NetSatOutcome as NetSatOutcome, points as points, signed as signed
from .learned_rubric.assertion_selector import verdict_statistics as verdict_statistics
from .learned_rubric.assertion_selector import with_intervals as with_intervals
from .learned_rubric.assertion_writer import Assertion as Assertion, deduplicate as deduplicate
from .learned_rubric.assertion_writer import deduplicate_by_cosine as deduplicate_by_cosine, extract as extract
from .learned_rubric.assertion_writer import extraction_prompt as extraction_prompt, load_prompts as load_prompts
from .learned_rubric.assertion_writer import load_task as load_task, nearest as nearest, PROMPTS as PROMPTS
from .learned_rubric.assertion_writer import RubricPromptBuilder as RubricPromptBuilder, shipped as shipped
from .learned_rubric.assertion_writer import summarise as summarise, summary_parts as summary_parts
from .learned_rubric.assertion_writer import TaskDescription as TaskDescription, windowed as windowed
from .learned_rubric.assertion_writer import WrittenAssertions as WrittenAssertions
from .learned_rubric.findings import ask_held_out as ask_held_out, clusters_of as clusters_of
from .learned_rubric.findings import compare_rubrics as compare_rubrics, JUDGE_DIRECTLY as JUDGE_DIRECTLY
from .learned_rubric.findings import passage as passage, RubricFindings as RubricFindings
from .learned_rubric.findings import RubricFit as RubricFit, RubricResult as RubricResult
from .learned_rubric.selection_policies import ALL as ALL, ALPHAS as ALPHAS, AssertionBudget as AssertionBudget
from .learned_rubric.selection_policies import Candidates as Candidates, correctness_alone as correctness_alone
from .learned_rubric.selection_policies import curves as curves, DIGITS as DIGITS, POINT as POINT, Policy as Policy
from .learned_rubric.selection_policies import Pool as Pool, RUBICON as RUBICON, select as select
from .learned_rubric.selection_policies import selection_policies as selection_policies
from .learned_rubric.selection_policies import SelectionSettings as SelectionSettings, sharpness_loss as sharpness_loss
from .learned_rubric.selection_policies import stratified as stratified, threshold_of as threshold_of, TOP as TOP
from .learned_rubric.selection_policies import tuned as tuned, UncertaintyWindow as UncertaintyWindow
from .learned_rubric.source import LearnedRubric as LearnedRubric, LearnedRubricSettings as LearnedRubricSettings
from .learned_rubric.source import POOL_FILE as POOL_FILE, RUBRIC_FILE as RUBRIC_FILE
