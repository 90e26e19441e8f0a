from .annotation import Annotation as Annotation, ANNOTATOR_KINDS as ANNOTATOR_KINDS, AnnotatorKind as AnnotatorKind
from .annotation import issues_from as issues_from, OVERALL as OVERALL
from .chat_settings import Assistant as Assistant, TalkSettings as TalkSettings, Topic as Topic
from .conversation import canonical_json as canonical_json, content_hash as content_hash, Conversation as Conversation
from .conversation import Document as Document, Growing as Growing, NOBODY as NOBODY, PlainTurns as PlainTurns
from .conversation import Sample as Sample, SYNTHETIC as SYNTHETIC, Synthetic as Synthetic, Target as Target
from .conversation import text_hash as text_hash, Turn as Turn, WITHOUT as WITHOUT
from .estimate import Estimate as Estimate
from .issue_annotation import digests as digests, HIGHEST as HIGHEST, Issue as Issue, IssueAnnotation as IssueAnnotation
from .issue_annotation import located as located, LOWEST as LOWEST, Span as Span, span_of as span_of
from .issue_annotation import Unannotated as Unannotated
from .json_types import Json as Json, JsonSchema as JsonSchema
from .labels import check_label as check_label, check_value as check_value, Label as Label, Labels as Labels
from .project_file import find_project_file as find_project_file, PROJECT_FILE as PROJECT_FILE
from .project_file import project_folder as project_folder
from .registry import Registry as Registry
from .report_blocks import Charts as Charts, Findings as Findings, Fold as Fold, Histogram as Histogram
from .report_blocks import html_table as html_table, number as number, percent as percent, Point as Point
from .report_blocks import Points as Points, Section as Section, Table as Table, Text as Text, text_table as text_table
from .rubric import Applies as Applies, dump_rubric as dump_rubric, load_rubric as load_rubric, Question as Question
from .rubric import read_rubric as read_rubric, Reason as Reason, Rubric as Rubric, shipped_rubrics as shipped_rubrics
from .rubric import Side as Side
from .scale import Frozen as Frozen, Kind as Kind, MOST_ASKED as MOST_ASKED, Scale as Scale, Value as Value
from .score import central_interval as central_interval, decision as decision, decode as decode
from .score import INTERVAL_MASS as INTERVAL_MASS, least_cost as least_cost, POPULATION as POPULATION, Score as Score
from .score import SCORE_COLUMNS as SCORE_COLUMNS, score_from as score_from, ScoreRow as ScoreRow
from .score import Signature as Signature, Unscored as Unscored
from .study_settings import BrokenStudy as BrokenStudy, Items as Items, Order as Order, read_study as read_study
from .study_settings import ROUNDS as ROUNDS, Stage as Stage, study_or_broken as study_or_broken, StudyName as StudyName
from .study_settings import StudySettings as StudySettings
from .taxonomy import ISSUE as ISSUE, IssueType as IssueType, load_taxonomy as load_taxonomy
from .taxonomy import read_taxonomy as read_taxonomy, Taxonomy as Taxonomy
