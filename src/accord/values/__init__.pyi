from .annotation import ANNOTATOR_KINDS as ANNOTATOR_KINDS, Annotation as Annotation, AnnotatorKind as AnnotatorKind
from .annotation import OVERALL as OVERALL, issues_from as issues_from
from .assessment import HIGHEST as HIGHEST, Issue as Issue, IssueAnnotation as IssueAnnotation, LOWEST as LOWEST
from .assessment import Span as Span, Unannotated as Unannotated, digests as digests, located as located
from .assessment import span_of as span_of
from .conversation import Conversation as Conversation, Document as Document, Growing as Growing, NOBODY as NOBODY
from .conversation import PlainTurns as PlainTurns, SYNTHETIC as SYNTHETIC, Sample as Sample, Synthetic as Synthetic
from .conversation import Target as Target, Turn as Turn, WITHOUT as WITHOUT, canonical_json as canonical_json
from .conversation import content_hash as content_hash, text_hash as text_hash
from .errors import AccordError as AccordError, BadInput as BadInput, BadRow as BadRow, BudgetReached as BudgetReached
from .errors import GateFailed as GateFailed, MissingExtra as MissingExtra, ModelError as ModelError
from .errors import NotFitted as NotFitted, NotSent as NotSent, UnknownName as UnknownName, Unmeasured as Unmeasured
from .incoming import ARRAYS_BYTES as ARRAYS_BYTES, CARD_BYTES as CARD_BYTES, DEEPEST as DEEPEST
from .incoming import FREE_BYTES as FREE_BYTES, MB as MB, PACKED_ENDINGS as PACKED_ENDINGS, RATIO as RATIO
from .incoming import FIRST_MOMENT as FIRST_MOMENT, LAST_MOMENT as LAST_MOMENT, in_calendar as in_calendar
from .incoming import is_sendable as is_sendable, sendable as sendable, sendable_json as sendable_json
from .incoming import first_line as first_line, unreadable_parquet as unreadable_parquet
from .incoming import whole_number as whole_number
from .incoming import is_too_deep as is_too_deep, open_regular as open_regular, open_unpacked as open_unpacked
from .incoming import is_plain_json as is_plain_json, read_card as read_card, read_text as read_text
from .incoming import read_whole as read_whole, regular as regular
from .incoming import shown_size as shown_size, unpacked_name as unpacked_name
from .installing import install_command as install_command
from .json_types import Json as Json, JsonSchema as JsonSchema
from .labels import Label as Label, Labels as Labels, check_label as check_label, check_value as check_value
from .outgoing import LONGEST_NAME as LONGEST_NAME, bounded as bounded, in_lines as in_lines, inert as inert
from .outgoing import count_of as count_of
from .outgoing import on_page as on_page, one_line as one_line, visible as visible, written as written
from .output_files import make_private as make_private, open_private as open_private, write_whole as write_whole
from .output_paths import ProtectedFile as ProtectedFile, check_output as check_output, is_inside as is_inside
from .output_paths import is_same_path as is_same_path
from .project_file import PROJECT_FILE as PROJECT_FILE, find_project_file as find_project_file
from .project_file import project_folder as project_folder
from .registry import Registry as Registry
from .rubric import Applies as Applies, Question as Question, Reason as Reason, Rubric as Rubric, Side as Side
from .rubric import dump_rubric as dump_rubric, load_rubric as load_rubric, read_rubric as read_rubric
from .rubric import shipped_rubrics as shipped_rubrics
from .scale import Frozen as Frozen, Kind as Kind, MOST_ASKED as MOST_ASKED, Scale as Scale, Value as Value
from .score import INTERVAL_MASS as INTERVAL_MASS, POPULATION as POPULATION, ROW as ROW, Score as Score
from .score import Signature as Signature, Unscored as Unscored, central_interval as central_interval
from .score import decision as decision, decode as decode, least_cost as least_cost, score_from as score_from
from .secrets import is_secret_name as is_secret_name, keep_secret as keep_secret, keep_url_secrets as keep_url_secrets
from .secrets import redacted as redacted, redacted_json as redacted_json, redacted_message as redacted_message
from .strict_yaml import check as check, is_web_address as is_web_address, load_yaml as load_yaml
from .strict_yaml import parse_yaml as parse_yaml, plain_url as plain_url, reasons as reasons
from .study import BrokenStudy as BrokenStudy, Items as Items, Order as Order, ROUNDS as ROUNDS, Stage as Stage
from .study import StudyName as StudyName, StudySettings as StudySettings, read_study as read_study
from .study import study_or_broken as study_or_broken
from .talk import Assistant as Assistant, TalkSettings as TalkSettings, Topic as Topic
from .taxonomy import ISSUE as ISSUE, IssueType as IssueType, Taxonomy as Taxonomy, load_taxonomy as load_taxonomy
from .taxonomy import read_taxonomy as read_taxonomy
