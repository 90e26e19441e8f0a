from . import steps as steps
from .annotation import Annotation as Annotation, ANNOTATOR_KINDS as ANNOTATOR_KINDS, check_label as check_label
from .annotation import check_value as check_value, issues_from as issues_from, Label as Label, Labels as Labels
from .annotation import OVERALL as OVERALL
from .conversation import canonical_json as canonical_json, content_hash as content_hash
from .conversation import Conversation as Conversation, Document as Document, GrowingTurns as GrowingTurns
from .conversation import Json as Json, JsonSchema as JsonSchema, NON_SPEAKERS as NON_SPEAKERS, TOOL_ROLES as TOOL_ROLES
from .conversation import PlainTurns as PlainTurns, Sample as Sample, SYNTHETIC as SYNTHETIC, Synthetic as Synthetic
from .conversation import Target as Target, text_hash as text_hash, Turn as Turn
from .conversation import WITHOUT_SYNTHETIC as WITHOUT_SYNTHETIC
from .estimate import Estimate as Estimate
from .issues import find_quote as find_quote, first_with_quote as first_with_quote, Issue as Issue, ISSUE as ISSUE
from .issues import IssueAnnotation as IssueAnnotation
from .issues import load_taxonomy as load_taxonomy, MAX_SCORE as MAX_SCORE, MIN_SCORE as MIN_SCORE, Span as Span
from .issues import Taxonomy as Taxonomy, turn_digests as turn_digests, Unannotated as Unannotated
from .issues import with_located_quotes as with_located_quotes
from .project_plugins import accept_code as accept_code, check_plugin_names as check_plugin_names
from .project_plugins import (
    load_plugins as load_plugins,
    note_plugins as note_plugins,
    note_plugins_of as note_plugins_of,
)
from .project_plugins import noted_plugins as noted_plugins, plugin_code as plugin_code
from .registry import BUILT_IN as BUILT_IN, Contract as Contract, plugin_error as plugin_error, Registry as Registry
from .rubric import Applies as Applies
from .rubric import AssertionReason as AssertionReason, FrozenModel as FrozenModel
from .rubric import MAX_JUDGE_OPTIONS as MAX_JUDGE_OPTIONS, MAX_NAME as MAX_NAME, Polarity as Polarity
from .rubric import Question as Question, Rubric as Rubric, Scale as Scale, ScaleKind as ScaleKind, Value as Value
from .rubric_files import dump_rubric as dump_rubric, load_rubric as load_rubric, read_rubric as read_rubric
from .rubric_files import shipped_rubrics as shipped_rubrics
from .score import central_interval as central_interval, entropy as entropy, INTERVAL_MASS as INTERVAL_MASS
from .score import mean as mean, POPULATION as POPULATION, quantile as quantile, Score as Score
from .score import score_from as score_from, ScoreRow as ScoreRow
from .score import Signature as Signature, Unscored as Unscored, variance as variance
from .score_table import ADDED_COLUMNS as ADDED_COLUMNS, ANNOTATION_WORDS as ANNOTATION_WORDS
from .score_table import arrow_schema as arrow_schema, BAD_ROW as BAD_ROW
from .score_table import BUNDLES as BUNDLES
from .score_table import BATCH_ROWS as BATCH_ROWS, mart_answer as mart_answer, MART_COLUMNS as MART_COLUMNS
from .score_table import mart_frame as mart_frame, mart_lines as mart_lines, mart_schema as mart_schema
from .score_table import MartRow as MartRow, bundle_of as bundle_of, in_calendar_only as in_calendar_only
from .score_table import LIVE_ROWS as LIVE_ROWS, row_key as row_key, row_of_mart as row_of_mart
from .score_table import row_of_cells as row_of_cells, row_of_line as row_of_line, score_cell as score_cell
from .score_table import SCORE_COLUMNS as SCORE_COLUMNS, score_frame as score_frame, SCORE_NESTED as SCORE_NESTED
from .score_table import score_schema as score_schema, SCORE_TABLE as SCORE_TABLE, SCORE_TYPES as SCORE_TYPES
from .score_table import SCORED as SCORED, UNSCORED as UNSCORED, WORDS as WORDS
from .settings import Assistant as Assistant, ChatSettings as ChatSettings, find_project_file as find_project_file
from .settings import InvalidStudy as InvalidStudy, ItemSettings as ItemSettings, MAX_ROUNDS as MAX_ROUNDS
from .settings import (
    PARTS as PARTS,
    PROJECT_FILE as PROJECT_FILE,
    project_folder as project_folder,
    read_study as read_study,
)
from .settings import Stage as Stage, StudyName as StudyName, StudySettings as StudySettings, Topic as Topic
from .settings import validate_study as validate_study
