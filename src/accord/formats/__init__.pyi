from .benchmark_items import REPEAT as REPEAT
from .files.file_chunks import FilePiece as FilePiece, read_piece as read_piece, split_files as split_files
from .files.memory import MemoryTable as MemoryTable, Source as Source, source_of as source_of
from .files.memory import tables_of as tables_of
from .files.object_storage import delete_file as delete_file, display_path as display_path, File as File
from .files.object_storage import find_files as find_files, is_remote as is_remote, join_path as join_path
from .files.object_storage import list_names as list_names, local_copy as local_copy, open_file as open_file
from .files.object_storage import READ as READ, storage_options as storage_options, write_file as write_file
from .files.row_reader import decoded_json as decoded_json, encoding_notes as encoding_notes
from .files.row_reader import file_texts as file_texts, Lines as Lines
from .files.row_reader import locate as locate, MAX_BAD_ROWS as MAX_BAD_ROWS, read_rows as read_rows
from .files.slack_folders import is_slack_channel as is_slack_channel
from .files.row_writer import arrow_schema as arrow_schema
from .files.row_writer import ConversationWriter as ConversationWriter, ENDINGS as ENDINGS
from .files.row_writer import QueueWriter as QueueWriter, RowWriter as RowWriter
from .files.row_writer import score_schema as score_schema, ScoreWriter as ScoreWriter
from .labels.annotations import AnnotationWriter as AnnotationWriter, read_annotations as read_annotations
from .labels.answers import answer_to as answer_to, NOT_APPLICABLE as NOT_APPLICABLE, on_scales as on_scales
from .labels.label_files import file_roles as file_roles, label_ids as label_ids, raw_label_rows as raw_label_rows
from .labels.label_files import read_labels as read_labels
from .labels.label_files import RECORDED_JUDGEMENTS as RECORDED_JUDGEMENTS
from .labels.label_scales import label_wordings as label_wordings, LabelWordings as LabelWordings
from .labels.label_scales import on_present_scale as on_present_scale, OtherScales as OtherScales
from .labels.ordered_words import has_none as has_none, is_letters as is_letters, MAX_ORDERED as MAX_ORDERED
from .labels.ordered_words import order_for as order_for, order_of as order_of, parse_orders as parse_orders
from .labels.ordered_words import WordOrder as WordOrder
from .labels.rating_columns import is_rating_name as is_rating_name, number_in as number_in, RATING as RATING
from .labels.rating_columns import rating_cells as rating_cells, rating_labels as rating_labels
from .labels.rating_columns import RatingCell as RatingCell, UNNAMED as UNNAMED, VALUE_KEYS as VALUE_KEYS
from .labels.rating_columns import words_of as words_of
from .openai_messages import documents_from as documents_from, exchange as exchange
from .openai_messages import fields_about as fields_about
from .openai_messages import intended_role as intended_role, LARGEST_ANSWER as LARGEST_ANSWER
from .openai_messages import role_named as role_named
from .otel import has_no_content as has_no_content, NO_CALL as NO_CALL, NO_CONTENT as NO_CONTENT
from .otel import NO_MESSAGES as NO_MESSAGES, SUPPORTED_CONVENTIONS as SUPPORTED_CONVENTIONS
from .pairs import check_pair_file as check_pair_file, check_sides as check_sides, on_comparison as on_comparison
from .pairs import PREFERENCE as PREFERENCE
from .pairs import pair_roles as pair_roles, PairRoles as PairRoles, preferences as preferences
from .reader import check_column_names as check_column_names, convert_row as convert_row
from .reader import FileKind as FileKind, HeldRows as HeldRows, line_batches as line_batches, read as read
from .reader import read_lines as read_lines, reason_to_skip as reason_to_skip, scores_error as scores_error
from .reader import sniff as sniff, sniff_rows as sniff_rows, live_row as live_row
from .record import admitted as admitted, ANNOTATOR_KEYS as ANNOTATOR_KEYS, Fields as Fields, Format as Format
from .record import formats as formats, plain_name as plain_name, Record as Record, Row as Row
from .record import under_our_names as under_our_names, WrongShape as WrongShape
from .roles import check_roles as check_roles, RoleCounts as RoleCounts, with_roles as with_roles
from .plain_text_chats import TEXT_SUFFIX as TEXT_SUFFIX
from .detection import detect as detect
from .tables.people import bare_name as bare_name, is_person as is_person, may_be_rater as may_be_rater
from .tables.people import may_hold_names as may_hold_names, person_in as person_in, rater_columns as rater_columns
from .tables.people import share_scale as share_scale
from .tables.column_roles import cells_of as cells_of, columns_with_names as columns_with_names, Columns as Columns
from .tables.column_roles import group_columns as group_columns
from .tables.column_roles import copies_text as copies_text, is_machine as is_machine, is_model_name as is_model_name
from .tables.column_roles import judge_in as judge_in, JudgedAnswer as JudgedAnswer, may_be_answer as may_be_answer
from .tables.column_roles import NO_COLUMN as NO_COLUMN, question_in as question_in, ROLE_ROWS as ROLE_ROWS
from .tables.column_roles import structure as structure, table_roles as table_roles, TableOptions as TableOptions
from .tables.column_roles import TableRoles as TableRoles, unclear_text as unclear_text, unread_text as unread_text
from .tables.column_roles import unclear_to_import as unclear_to_import
from .tables.scales import ends_of as ends_of, has_scale as has_scale, has_scale_values as has_scale_values
from .tables.scales import infer_scale as infer_scale, InferredScale as InferredScale, is_missing as is_missing
from .tables.scales import (
    is_none as is_none,
    is_number as is_number,
    MAX_LOCATIONS as MAX_LOCATIONS,
    MIN_PARSED as MIN_PARSED,
)
from .tables.scales import mixed_scales as mixed_scales, MixedScales as MixedScales, no_scale as no_scale
from .tables.scales import number_of as number_of, observed_answers as observed_answers
from .tables.scales import ObservedAnswers as ObservedAnswers, off_scale as off_scale
from .tables.scales import (
    plain_value as plain_value,
    positions_among as positions_among,
    rescaled as rescaled,
    RowLocation as RowLocation,
    typed as typed,
)
from .tables.scales import upper_share as upper_share, USUAL_ENDS as USUAL_ENDS, WIDEST as WIDEST
from .tables.scales import SMALLEST_ANSWER as SMALLEST_ANSWER
from .table import holds_text as holds_text
from .tables.words import (
    AGAINST as AGAINST,
    ALIASES as ALIASES,
    CONSENSUS as CONSENSUS,
    HUMAN as HUMAN,
    NOT_VALUES as NOT_VALUES,
)
from .tables.words import LABEL_COLUMNS as LABEL_COLUMNS, OTHER_WORDS as OTHER_WORDS, PEOPLE as PEOPLE
