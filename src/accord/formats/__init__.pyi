from .annotations import AnnotationWriter as AnnotationWriter, looks_like_annotations as looks_like_annotations
from .annotations import read_annotations as read_annotations
from .benchmark_items import REPEAT as REPEAT
from .column_roles import FileRoles as FileRoles, is_model_name as is_model_name, judge_in as judge_in
from .column_roles import JudgedAnswer as JudgedAnswer, may_be_answer as may_be_answer
from .column_roles import OTHER_WORDS as OTHER_WORDS, unclear_text as unclear_text
from .file_chunks import FilePiece as FilePiece, read_piece as read_piece, split_files as split_files
from .answers import answer_to as answer_to, NOT_APPLICABLE as NOT_APPLICABLE, on_scales as on_scales
from .label_files import looks_like_labels as looks_like_labels, mapped as mapped
from .label_files import file_roles as file_roles, label_ids as label_ids
from .label_files import raw_label_rows as raw_label_rows
from .label_files import read_labels as read_labels, RECORDED_JUDGEMENTS as RECORDED_JUDGEMENTS
from .label_scales import label_wordings as label_wordings, LabelWordings as LabelWordings
from .label_scales import on_present_scale as on_present_scale, OTHER_SCALES as OTHER_SCALES
from .label_scales import other_scale as other_scale, OtherScales as OtherScales
from .memory import MemoryTable as MemoryTable, Source as Source, source_of as source_of, tables_of as tables_of
from .object_storage import delete_file as delete_file, display_path as display_path, File as File
from .object_storage import find_files as find_files, is_remote as is_remote, join_path as join_path
from .object_storage import list_names as list_names, local_copy as local_copy, open_file as open_file, READ as READ
from .object_storage import storage_options as storage_options, write_file as write_file
from .openai_messages import documents_from as documents_from, intended_role as intended_role, role_named as role_named
from .otel import has_no_content as has_no_content, NO_CALL as NO_CALL, NO_CONTENT as NO_CONTENT
from .otel import NO_MESSAGES as NO_MESSAGES, SUPPORTED_CONVENTIONS as SUPPORTED_CONVENTIONS
from .table_files import row_groups as row_groups
from .rating_columns import is_rating_name as is_rating_name, number_in as number_in, RATING as RATING
from .rating_columns import rating_cells as rating_cells, rating_labels as rating_labels, RatingCell as RatingCell
from .rating_columns import UNNAMED as UNNAMED, VALUE_KEYS as VALUE_KEYS, words_of as words_of
from .reader import check_column_names as check_column_names, convert_row as convert_row, detect as detect
from .reader import FileKind as FileKind, HeldRows as HeldRows, is_part as is_part
from .reader import line_batches as line_batches, OnBadRow as OnBadRow
from .reader import OnSkip as OnSkip, read as read, read_lines as read_lines, reason_to_skip as reason_to_skip
from .reader import scores_error as scores_error
from .reader import sniff as sniff, sniff_rows as sniff_rows, T as T
from .record import Fields as Fields, Format as Format, formats as formats, grouped as grouped, Record as Record
from .record import Row as Row, under_our_names as under_our_names, WrongShape as WrongShape
from .openai_messages import check_roles as check_roles, RoleCounts as RoleCounts, with_roles as with_roles
from .row_reader import encoding_notes as encoding_notes
from .row_reader import decoded_json as decoded_json, line_rows as line_rows, Lines as Lines, locate as locate
from .row_reader import MAX_BAD_ROWS as MAX_BAD_ROWS, read_rows as read_rows
from .row_writer import ConversationWriter as ConversationWriter, ENDINGS as ENDINGS, QueueWriter as QueueWriter
from .row_writer import SCORE_NESTED as SCORE_NESTED, ScoreWriter as ScoreWriter
from .row_writer import arrow_schema as arrow_schema, BAD_ROW as BAD_ROW, score_frame as score_frame
from .row_writer import score_schema as score_schema, SCORE_TYPES as SCORE_TYPES, SCORED as SCORED
from .row_writer import UNSCORED as UNSCORED
from .workbooks import EXCEL_SUFFIXES as EXCEL_SUFFIXES
from .transcript import TEXT_SUFFIX as TEXT_SUFFIX
from .openai_messages import LARGEST_ANSWER as LARGEST_ANSWER
