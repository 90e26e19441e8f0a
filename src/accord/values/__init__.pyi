from .annotation import Annotation as Annotation, ANNOTATOR_KINDS as ANNOTATOR_KINDS, AnnotatorKind as AnnotatorKind
from .annotation import issues_from as issues_from, OVERALL as OVERALL
from .settings import Assistant as Assistant, ChatSettings as ChatSettings, Topic as Topic
from .conversation import canonical_json as canonical_json, content_hash as content_hash, Conversation as Conversation
from .conversation import Document as Document, GrowingTurns as GrowingTurns, Json as Json, JsonSchema as JsonSchema
from .conversation import NON_SPEAKERS as NON_SPEAKERS, PlainTurns as PlainTurns, Sample as Sample
from .conversation import SYNTHETIC as SYNTHETIC, Synthetic as Synthetic, Target as Target, text_hash as text_hash
from .conversation import Turn as Turn, WITHOUT_SYNTHETIC as WITHOUT_SYNTHETIC
from .report_blocks import Estimate as Estimate
from .issues import find_quote as find_quote, Issue as Issue, IssueAnnotation as IssueAnnotation
from .issues import MAX_SCORE as MAX_SCORE, MIN_SCORE as MIN_SCORE, Span as Span, turn_digests as turn_digests
from .issues import Unannotated as Unannotated, with_located_quotes as with_located_quotes
from .annotation import check_label as check_label, check_value as check_value, Label as Label, Labels as Labels
from .settings import find_project_file as find_project_file, PROJECT_FILE as PROJECT_FILE
from .settings import project_folder as project_folder
from .registry import Registry as Registry
from .report_blocks import Charts as Charts, Findings as Findings, Fold as Fold, Histogram as Histogram
from .report_blocks import (
    html_table as html_table,
    number as number,
    p_text as p_text,
    percent as percent,
    Point as Point,
)
from .report_blocks import Points as Points, Section as Section, Table as Table, Text as Text, text_table as text_table
from .rubric import Applies as Applies, AssertionReason as AssertionReason, dump_rubric as dump_rubric
from .rubric import load_rubric as load_rubric, Polarity as Polarity, Question as Question, read_rubric as read_rubric
from .rubric import Rubric as Rubric, shipped_rubrics as shipped_rubrics
from .rubric import FrozenModel as FrozenModel, MAX_JUDGE_OPTIONS as MAX_JUDGE_OPTIONS, Scale as Scale
from .rubric import ScaleKind as ScaleKind, Value as Value
from .score import central_interval as central_interval, entropy as entropy, mean as mean, quantile as quantile
from .score import INTERVAL_MASS as INTERVAL_MASS, POPULATION as POPULATION, Score as Score
from .score import SCORE_COLUMNS as SCORE_COLUMNS, score_from as score_from, ScoreRow as ScoreRow
from .score import Signature as Signature, Unscored as Unscored, variance as variance
from .settings import InvalidStudy as InvalidStudy, ItemSettings as ItemSettings, MAX_ROUNDS as MAX_ROUNDS
from .settings import Order as Order, read_study as read_study, Stage as Stage, StudyName as StudyName
from .settings import StudySettings as StudySettings, validate_study as validate_study
from .issues import ISSUE as ISSUE, IssueType as IssueType, load_taxonomy as load_taxonomy
from .issues import read_taxonomy as read_taxonomy, Taxonomy as Taxonomy
