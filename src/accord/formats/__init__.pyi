from .annotations import AnnotationWriter as AnnotationWriter, looks_like_annotations as looks_like_annotations
from .annotations import read_annotations as read_annotations
from .beside import Answered as Answered, UNNAMED as UNNAMED, VALUE_KEYS as VALUE_KEYS, answers_beside as answers_beside
from .beside import RATING as RATING, is_rating_name as is_rating_name, labels_beside as labels_beside
from .beside import number_in as number_in, words_of as words_of
from .excel import EXCEL_SUFFIXES as EXCEL_SUFFIXES
from .label_files import NOT_APPLICABLE as NOT_APPLICABLE, answer_to as answer_to
from .label_files import looks_like_labels as looks_like_labels, mapped as mapped, raw_label_rows as raw_label_rows
from .label_files import on_scales as on_scales, read_labels as read_labels
from .memory import MemoryTable as MemoryTable, Source as Source, source_of as source_of, tables_of as tables_of
from .messages import documents_from as documents_from, intended_role as intended_role, role_named as role_named
from .objects import READ as READ, File as File, at as at, find as find, is_remote as is_remote, names_in as names_in
from .objects import here as here, opened as opened, put as put, remove as remove, shown_place as shown_place
from .objects import storage_options as storage_options
from .parquet import row_groups as row_groups
from .pieces import Piece as Piece, pieces_of as pieces_of, read_piece as read_piece
from .reading import OnBadRow as OnBadRow, T as T, chunks_of_lines as chunks_of_lines, columns_of as columns_of
from .reading import check_column_names as check_column_names
from .reading import detect as detect, is_annotation_file as is_annotation_file, is_label_file as is_label_file
from .reading import is_part as is_part, read as read, record_of as record_of, records_of_lines as records_of_lines
from .reading import stands_alone as stands_alone
from .record import Fields as Fields, Format as Format, Record as Record, Row as Row, WrongShape as WrongShape
from .record import formats as formats, grouped as grouped, under_our_names as under_our_names
from .row_writer import ConversationWriter as ConversationWriter, ENDINGS as ENDINGS, QueueWriter as QueueWriter
from .row_writer import SCORE_NESTED as SCORE_NESTED, ScoreWriter as ScoreWriter
from .rows import BAD_AT_ONCE as BAD_AT_ONCE, Lines as Lines, decoded_json as decoded_json, line_rows as line_rows
from .rows import locate as locate, read_rows as read_rows
from .score_table import BAD_ROW as BAD_ROW, SCORED as SCORED, SCORE_TYPES as SCORE_TYPES, UNSCORED as UNSCORED
from .score_table import arrow_schema as arrow_schema, score_frame as score_frame, score_schema as score_schema
from .score_table import score_table as score_table
from .text_files import TEXT_SUFFIX as TEXT_SUFFIX
from .soda_eval import REPEAT as REPEAT
from .spans import NO_CALL as NO_CALL, NO_CONTENT as NO_CONTENT, NO_MESSAGES as NO_MESSAGES, SAYS_A_CALL as SAYS_A_CALL
from .spans import is_silent as is_silent
