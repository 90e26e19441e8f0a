"""Conversations, labels and annotations from files, one file per format, one at a time; scores and annotations out."""

from accord.formats.annotations import AnnotationWriter, looks_like_annotations, read_annotations
from accord.formats.label_files import looks_like_labels, mapped, read_labels
from accord.formats.messages import documents_from, role_named
from accord.formats.reading import OnBadRow, T, columns_of, detect, is_annotation_file, is_label_file, read
from accord.formats.record import Fields, Format, Record, Row, WrongShape, formats, grouped, under_our_names
from accord.formats.rows import locate, read_rows
from accord.formats.score_files import ScoreWriter
from accord.formats.soda_eval import REPEAT

__all__ = [
    "AnnotationWriter",
    "Fields",
    "Format",
    "OnBadRow",
    "REPEAT",
    "Record",
    "Row",
    "ScoreWriter",
    "T",
    "WrongShape",
    "columns_of",
    "detect",
    "documents_from",
    "formats",
    "grouped",
    "is_annotation_file",
    "is_label_file",
    "locate",
    "looks_like_annotations",
    "looks_like_labels",
    "mapped",
    "read",
    "read_annotations",
    "read_labels",
    "read_rows",
    "role_named",
    "under_our_names",
]
