from .annotations import AnnotationWriter as AnnotationWriter, looks_like_annotations as looks_like_annotations
from .annotations import read_annotations as read_annotations
from .excel import EXCEL_SUFFIXES as EXCEL_SUFFIXES
from .file_chunks import Piece as Piece, pieces_of as pieces_of, read_piece as read_piece
from .genai_spans import is_silent as is_silent, NO_CALL as NO_CALL, NO_CONTENT as NO_CONTENT
from .genai_spans import NO_MESSAGES as NO_MESSAGES, SAYS_A_CALL as SAYS_A_CALL
from .label_files import answer_to as answer_to, looks_like_labels as looks_like_labels, mapped as mapped
from .label_files import NOT_APPLICABLE as NOT_APPLICABLE, on_scales as on_scales, raw_label_rows as raw_label_rows
from .label_files import read_labels as read_labels
from .memory import MemoryTable as MemoryTable, Source as Source, source_of as source_of, tables_of as tables_of
from .object_storage import at as at, File as File, find as find, here as here, is_remote as is_remote
from .object_storage import names_in as names_in, opened as opened, put as put, READ as READ, remove as remove
from .object_storage import shown_place as shown_place, storage_options as storage_options
from .openai_messages import documents_from as documents_from, intended_role as intended_role, role_named as role_named
from .parquet import row_groups as row_groups
from .rating_columns import Answered as Answered, answers_beside as answers_beside, is_rating_name as is_rating_name
from .rating_columns import labels_beside as labels_beside, number_in as number_in, RATING as RATING, UNNAMED as UNNAMED
from .rating_columns import VALUE_KEYS as VALUE_KEYS, words_of as words_of
from .reader import check_column_names as check_column_names, chunks_of_lines as chunks_of_lines
from .reader import columns_of as columns_of, detect as detect, is_annotation_file as is_annotation_file
from .reader import is_label_file as is_label_file, is_part as is_part, OnBadRow as OnBadRow, read as read
from .reader import reason_to_pass_over as reason_to_pass_over, record_of as record_of
from .reader import records_of_lines as records_of_lines, stands_alone as stands_alone, T as T
from .record import Fields as Fields, Format as Format, formats as formats, grouped as grouped, Record as Record
from .record import Row as Row, under_our_names as under_our_names, WrongShape as WrongShape
from .role_mapping import check_roles as check_roles, RoleCounts as RoleCounts, with_roles as with_roles
from .row_reader import BAD_AT_ONCE as BAD_AT_ONCE, decoded_json as decoded_json, line_rows as line_rows, Lines as Lines
from .row_reader import locate as locate, read_rows as read_rows
from .row_writer import ConversationWriter as ConversationWriter, ENDINGS as ENDINGS, QueueWriter as QueueWriter
from .row_writer import SCORE_NESTED as SCORE_NESTED, ScoreWriter as ScoreWriter
from .score_schema import arrow_schema as arrow_schema, BAD_ROW as BAD_ROW, score_frame as score_frame
from .score_schema import score_schema as score_schema, score_table as score_table, SCORE_TYPES as SCORE_TYPES
from .score_schema import SCORED as SCORED, UNSCORED as UNSCORED
from .soda_eval import REPEAT as REPEAT
from .text_files import TEXT_SUFFIX as TEXT_SUFFIX
