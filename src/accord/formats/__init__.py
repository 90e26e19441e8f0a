"""Conversations, labels and annotations from files, one file per format, one at a time; scores and annotations out."""

from accord.formats.annotations import AnnotationWriter, looks_like_annotations, read_annotations
from accord.formats.beside import Answered, UNNAMED, VALUE_KEYS, answers_beside, is_rating_name, labels_beside, number_in, words_of
from accord.formats.label_files import NOT_APPLICABLE, answer_to, looks_like_labels, mapped, raw_label_rows, read_labels
from accord.formats.messages import documents_from, role_named
from accord.formats.reading import OnBadRow, T, chunks_of_lines, columns_of, detect, is_annotation_file, is_label_file, is_part, read, record_of, records_of_lines
from accord.formats.record import Fields, Format, Record, Row, WrongShape, formats, grouped, under_our_names
from accord.formats.row_writer import ENDINGS, QueueWriter, SCORE_NESTED, ScoreWriter
from accord.formats.rows import BAD_AT_ONCE, Lines, decoded_json, locate, read_rows
from accord.formats.objects import File, at, find, is_remote, names_in, opened, put, remove, shown_place, storage_options
from accord.formats.pieces import Piece, pieces_of, read_piece
from accord.formats.score_table import BAD_ROW, SCORED, SCORE_TYPES, UNSCORED, arrow_schema, score_schema, score_table
from accord.formats.soda_eval import REPEAT
from accord.formats.spans import NO_CONTENT, NO_MESSAGES, SAYS_A_CALL

__all__ = [
    "AnnotationWriter",
    "Answered",
    "BAD_AT_ONCE",
    "BAD_ROW",
    "ENDINGS",
    "Fields",
    "File",
    "Format",
    "Lines",
    "NOT_APPLICABLE",
    "NO_CONTENT",
    "NO_MESSAGES",
    "OnBadRow",
    "Piece",
    "QueueWriter",
    "REPEAT",
    "Record",
    "Row",
    "SAYS_A_CALL",
    "SCORED",
    "SCORE_NESTED",
    "SCORE_TYPES",
    "ScoreWriter",
    "T",
    "UNNAMED",
    "UNSCORED",
    "VALUE_KEYS",
    "WrongShape",
    "answer_to",
    "answers_beside",
    "arrow_schema",
    "at",
    "chunks_of_lines",
    "columns_of",
    "decoded_json",
    "detect",
    "documents_from",
    "find",
    "formats",
    "grouped",
    "is_annotation_file",
    "is_label_file",
    "is_part",
    "is_rating_name",
    "is_remote",
    "labels_beside",
    "locate",
    "looks_like_annotations",
    "looks_like_labels",
    "mapped",
    "names_in",
    "number_in",
    "opened",
    "pieces_of",
    "put",
    "raw_label_rows",
    "read",
    "read_annotations",
    "read_labels",
    "read_piece",
    "read_rows",
    "record_of",
    "records_of_lines",
    "remove",
    "role_named",
    "score_schema",
    "score_table",
    "shown_place",
    "storage_options",
    "under_our_names",
    "words_of",
]
