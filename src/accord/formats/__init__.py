"""Conversations and labels from files: one file per format, `Record` and `Label` out, one at a time."""

from accord.formats.label_files import looks_like_labels, mapped, read_labels
from accord.formats.messages import documents_from, role_named
from accord.formats.reading import OnBadRow, T, columns_of, detect, is_label_file, read
from accord.formats.record import Fields, Format, Record, Row, WrongShape, formats, grouped, under_our_names
from accord.formats.rows import locate, read_rows
from accord.formats.score_files import ScoreWriter
from accord.formats.soda_eval import REPEAT

__all__ = [
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
    "is_label_file",
    "locate",
    "looks_like_labels",
    "mapped",
    "read",
    "read_labels",
    "read_rows",
    "role_named",
    "under_our_names",
]
