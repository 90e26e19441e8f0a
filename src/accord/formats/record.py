"""Rows, records and formats: the contract of a reader.

A reader turns the rows of a conversation into a `Record`: the conversation with its labels and annotations.
"""

from __future__ import annotations

import json
import logging
import math
import re
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache
from itertools import chain
from operator import itemgetter
from typing import IO, Any, NamedTuple, TypeVar

from accord.edges import MAX_DEPTH, MB, BadInput, format_size, is_sendable, sendable, sendable_json
from accord.values import (
    ISSUE,
    Annotation,
    Contract,
    Conversation,
    Document,
    IssueAnnotation,
    Label,
    PlainTurns,
    Registry,
    Turn,
    plugin_error,
)

Fields = Mapping[str, Any]
"""One row of a file: a JSON object, or a row of a table by column name."""


ANNOTATOR_KEYS = (
    "annotator", "annotator_id", "rater", "rater_id", "worker_id", "worker", "labeler", "labeller", "reviewer",
    "coder", "rated_by", "annotated_by", "evaluator_id", "bewerter", "bewerterin", "prüfer", "gutachter", "evaluador",
    "anotador", "anotadora", "avaliador", "évaluateur", "annotateur", "valutatore", "评分人", "评分者", "标注员",
    "标注者", "評価者", "평가자",
)  # fmt: skip
"""Names of the column with the annotator."""

FOREIGN_IDS = (
    "gesprächs_id", "gespraechs_id", "gesprächsnummer", "id_conversación", "id_conversacion", "id_conversa",
    "id_conversation", "id_диалога", "编号", "对话id", "会话id", "对话编号", "会话编号", "会話id", "대화id",
)  # fmt: skip
"""Names of the column with a conversation's id in languages other than English."""

FILE_NAMES = ("file", "filename", "file_name", "datei", "dateiname", "fichier", "archivo", "arquivo")
"""Names of the column with the file of a conversation, which is its id if no other column is."""

FOREIGN_CONVERSATIONS = (
    "gespräch", "conversación", "conversa", "conversazione", "диалог", "разговор", "对话", "会话", "会話", "대화",
    "diálogo", "dialogo",
)  # fmt: skip
"""Words for "conversation" in other languages: the name of a column with an id or with the text of a conversation."""

RATED_ROWS = "rated_rows"
"""Metadata entry with the rows of several annotators of a conversation, without its text."""


def mapping_of(value: Any) -> Fields:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def under_our_names(fields: Fields, aliases: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the row with columns that have an alias under Accord's names, and all others unchanged.

    An alias matches in any case and with spaces or hyphens for underscores (`Conversation ID`); an exact match wins.
    """
    row = dict(fields)
    plain: dict[str, str] | None = None
    for name, others in aliases.items():
        if name in row:
            continue
        alias = next((other for other in others if other in row), None)
        if alias is None:
            plain = {plain_name(key): key for key in fields if isinstance(key, str)} if plain is None else plain
            alias = next((plain[other] for other in (name, *others) if plain.get(other) in row), None)
        if alias is not None:
            row[name] = row.pop(alias)
    return row


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return the name of a column in lower case with underscores.

    >>> plain_name("Conversation ID"), plain_name("Bewertung")
    ('conversation_id', 'bewertung')
    """
    return _GAPS.sub("_", name.strip().casefold())


_GAPS = re.compile(r"[\s-]+")


ROW_BYTES = 8 * MB
"""Maximum size of a row, above the context of any model. Reading a row takes about 17 times its size in memory."""
ROW_VALUES = 2_000_000
"""Maximum number of values in a row."""
EMPTY_LINES = 1_000_000
"""Maximum number of empty lines in succession in a file with a row per line."""


def too_empty(path: object, line: int) -> str:
    """Return the error for more empty lines than `EMPTY_LINES`."""
    return f"{path}: {EMPTY_LINES:,} empty lines in succession, up to line {line:,}; remove them"


def too_long(name: str) -> str:
    """Return the error for a row over these limits."""
    return f"{name} is longer than {format_size(ROW_BYTES)} or holds more than {ROW_VALUES:,} values"


def abbreviated(value: Any) -> str:
    """Return the repr of a value, shortened to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Row(NamedTuple):
    """A row and the line, from 1, on which it begins."""

    line: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class Record:
    """A conversation with the labels, assessments and other annotations of the same rows.

    Attributes:
        conversation: The conversation.
        labels: Labels that the format itself marks as such.
        assessments: Assessments of single turns.
        annotations: Human annotations that a label cannot hold: marked spans with quotes, answers with a comment.
        line: Line of the file on which the first row begins; 0 if unknown.
        scales: Scale of each label as the row states it; empty if none is stated.

    >>> Record(Conversation("c1", ()), line=3).labels
    ()
    """

    conversation: Conversation
    labels: tuple[Label, ...] = ()
    assessments: tuple[IssueAnnotation, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    line: int = 0
    scales: tuple[Any, ...] = ()


def answered(conversation: Conversation, answers: Sequence[Annotation]) -> Record:
    """Create a record whose plain answers are labels; answers with a quote, a comment or an issue are annotations."""
    labels = [answer for answer in answers if not (answer.quote or answer.comment or answer.question.startswith(ISSUE))]
    others = tuple(answer for answer in answers if answer not in labels)
    return Record(conversation, tuple(answer.to_label() for answer in labels), (), others)


class WrongShape(BadInput):
    """A row is invalid in its format; the reader adds the file and the line."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of conversations.

    Attributes:
        matches: Returns True if a row looks like this format; called with the first row of a file.
        convert: Converts the rows of one conversation, in the order of the file, to a record. The second argument is
            the id of a conversation without one. Returns `None` if the rows hold no conversation, such as a span of a
            database. Raises `WrongShape`. The first line of its docstring is shown by `accord plugins`.
        key: Returns the id that the rows of a conversation share. Without it, every row is a conversation.
        split: Splits a row into the rows that it bundles, such as the spans of an OTLP batch.
        skip_reason: Returns the reason to skip a row or a part of one, or `None` to read it.
        is_whole: For formats with a `key`: returns True if a row holds a whole conversation, and `None` if it does
            unless another row has the same key. By default, no row holds a whole conversation.
        is_answer: Returns True if a row holds answers on a conversation of another file; such files are read last.
        parse: Reads one line of a text log as a row; `None` for a line of another form. A text file whose first line
            with content it can read is read line by line, and lines of another form are left out.

    >>> def convert(rows, name):
    ...     return Record(Conversation(str(rows[0]["ticket"]), ()))
    >>> tickets = Format(matches=lambda row: "ticket" in row, convert=convert)
    >>> tickets.matches({"ticket": 7}), tickets.convert([{"ticket": 7}], "row-1").conversation.id
    (True, '7')
    """

    matches: Callable[[Fields], bool]
    convert: Callable[[Sequence[Fields], str], Record | None]
    key: Callable[[Fields], str | None] | None = None
    split: Callable[[Fields], Sequence[Fields]] | None = None
    skip_reason: Callable[[Fields], str | None] | None = None
    is_whole: Callable[[Fields], bool | None] | None = None
    is_answer: Callable[[Fields], bool] | None = None
    parse: Callable[[str], Fields | None] | None = None

    def accepts(self, fields: Fields) -> bool:
        """Return True if a row looks like this format; a `matches` of a plug-in that fails is a warning."""
        return _says(self.matches, fields)

    def holds_answers(self, fields: Fields) -> bool:
        """Return True if a row holds answers on a conversation of another file."""
        return self.is_answer is not None and _says(self.is_answer, fields)


def admitted(record: Record) -> Record:
    """Normalize a record for all later stages.

    Metadata become JSON: dates, bytes and infinite numbers become text, and NaN (an empty cell) becomes null. NUL and
    unpaired surrogates become U+FFFD in every text.

    Raises:
        WrongShape: A role, a text or a document is not a string, or tool calls are not a list.
    """
    conversation, cleaned = record.conversation, _admitted_annotations(record)
    turns = conversation.turns
    if isinstance(turns, PlainTurns):
        clean = _admitted_messages(turns)
        if clean is turns and not conversation.documents and _are_plain_cells(conversation.metadata):
            return cleaned
        turns = clean
    else:
        turns = tuple(_admitted_turn(number, turn) for number, turn in enumerate(turns))
    documents = tuple(map(_admitted_document, conversation.documents))
    metadata = _plain(dict(conversation.metadata))
    return replace(cleaned, conversation=Conversation(conversation.id, turns, documents, metadata))


def _admitted_annotations(record: Record) -> Record:
    """Return the record with every text of its labels, assessments and annotations sendable."""
    for label in record.labels:
        if not is_sendable(f"{label.question}{label.annotator}{label.value}{label.time}"):
            record = replace(record, labels=tuple(map(_sendable_fields, record.labels)))
            break
    if record.assessments or record.annotations:
        assessments = tuple(map(_sendable_fields, record.assessments))
        record = replace(record, assessments=assessments, annotations=tuple(map(_sendable_fields, record.annotations)))
    return record


T = TypeVar("T")


def _sendable_fields(value: T) -> T:
    """Return a frozen dataclass with `sendable` applied to all its texts."""
    changed = {}
    for name in (field.name for field in fields(value)):  # type: ignore[arg-type]
        current = getattr(value, name)
        is_group = isinstance(current, tuple) and bool(current) and is_dataclass(current[0])
        clean = tuple(map(_sendable_fields, current)) if is_group else sendable_json(current)
        if clean != current:
            changed[name] = clean
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


def _admitted_messages(turns: PlainTurns) -> PlainTurns:
    # One check of the joined texts takes a fraction of the time of a check per message.
    if is_sendable("".join(chain(map(_CONTENT, turns.messages), map(_ROLE, turns.messages)))):
        return turns
    return PlainTurns([{name: sendable(text) for name, text in message.items()} for message in turns.messages])


def _are_plain_cells(cells: Fields) -> bool:
    """Return True if all cells are scalars with sendable texts, which need no conversion."""
    if not (_SCALARS.issuperset(map(type, cells.values())) and _TEXT.issuperset(map(type, cells))):
        return False
    return is_sendable("".join([*cells, *(cell for cell in cells.values() if type(cell) is str)]))


_ROLE, _CONTENT = itemgetter("role"), itemgetter("content")
_TEXT = frozenset({str})
_SCALARS = frozenset({str, int, bool, type(None)})


def _is_plain_turn(turn: Turn) -> bool:
    """Return True if a turn is only a role and a text, both sendable."""
    is_text = type(turn.role) is str and turn.role and type(turn.content) is str
    is_bare = bool(is_text) and turn.name is None and turn.time is None and not turn.extra
    return is_bare and is_sendable(turn.content) and is_sendable(turn.role)


def _admitted_turn(number: int, turn: Turn) -> Turn:
    if _is_plain_turn(turn):
        return turn
    if not isinstance(turn.role, str) or not turn.role or not isinstance(turn.content, str):
        raise WrongShape(
            f"turn {number} has no role or no text: {type(turn.role).__name__}, {type(turn.content).__name__}"
        )
    extra: dict[str, Any] = _plain(dict(turn.extra))
    if "tool_calls" in extra:
        extra["tool_calls"] = _calls(number, extra["tool_calls"])
    return Turn(sendable(turn.role), sendable(turn.content), _as_text(turn.name), _as_text(turn.time), extra)


def _calls(number: int, value: Any) -> list[Any]:
    """Return tool calls as a list, from a list, a single call, or the JSON text of either."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError):
            raise WrongShape(f"the tool calls of turn {number} are a list, got a text that is not JSON") from None
        value = _plain(value)
    if value is None:
        return []
    calls = [value] if isinstance(value, dict) else value
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise WrongShape(f"the tool calls of turn {number} are a list of objects, got {str(value)[:60]!r}")
    return calls


def _admitted_document(document: Document) -> Document:
    if not isinstance(document.text, str):
        raise WrongShape(f"a document is a text, got {type(document.text).__name__}")
    return Document(sendable(document.text), _as_text(document.id), _as_text(document.title))


def _as_text(value: Any) -> str | None:
    return None if value is None else sendable(str(value))


def _plain(value: Any, depth: int = 0) -> Any:
    """Return the value as JSON with sendable texts."""
    if isinstance(value, str):
        return sendable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if depth > MAX_DEPTH:
        raise WrongShape(f"a value is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {sendable(str(key)): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner, depth + 1) for inner in value]
    return sendable(value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value))


def _says(test: Callable[[Fields], bool], fields: Fields) -> bool:
    try:
        return bool(test(fields))
    except Exception as error:
        if (fault := plugin_error(error)) is None:
            raise
        _warn_once(f"the format is left out: {fault}")
        return False


@cache
def _warn_once(text: str) -> None:
    """Log a warning; a survey and an import ask the same formats several times."""
    logging.getLogger("accord").warning("%s", text)


formats: Registry[Format] = Registry(
    "format",
    "accord.formats.labels.annotation_tools",
    "accord.formats.benchmark_items",
    "accord.formats.chat_exports",
    "accord.formats.openai_messages",
    "accord.formats.otel",
    "accord.formats.pairs",
    "accord.formats.support_tickets",
    "accord.formats.table",
    "accord.formats.traces",
    contract=Contract(
        lambda plugin: isinstance(plugin, Format) and callable(plugin.matches) and callable(plugin.convert),
        "an object: accord.formats.Format(matches=..., convert=...)",
        "check_format",
    ),
)
"""Formats of conversations: instances of `Format`."""


def grouped(rows: Iterable[tuple[str | None, Row]]) -> Generator[list[Row]]:
    """Yield the rows of each key together, in the order of the file; groups in the order of their first rows.

    Rows are spooled to an unnamed temporary file, so that memory holds one key and a few integers per row. A row
    without a key is a group of its own.
    """
    offsets: dict[str, array[int]] = {}
    with tempfile.TemporaryFile() as spool:
        for key, row in rows:
            name = key or f"\0line {row.line}"
            offsets.setdefault(name, array("q")).extend((row.line, spool.tell()))
            spool.write(json.dumps(row.fields, default=str).encode("ascii") + b"\n")
        for pairs in offsets.values():
            yield [_row_at(spool, pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)]


def _row_at(spool: IO[bytes], line: int, offset: int) -> Row:
    spool.seek(offset)
    return Row(line, json.loads(spool.readline()))
