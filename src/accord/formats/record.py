"""What one reader yields: a conversation with the labels that came with it, or the reason why there is none."""

from __future__ import annotations

import json
import math
import re
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import IO, Any, NamedTuple, TypeVar

from accord.edges import MAX_DEPTH, MB, BadInput, format_size, is_sendable, sendable, sendable_json
from accord.values import ISSUE, Annotation, Conversation, Document, IssueAnnotation, Label, PlainTurns, Registry, Turn

Fields = Mapping[str, Any]
"""One row of a file, whatever its format: a JSON object, or a line of a table by column name."""


ANNOTATOR_KEYS = (
    "annotator", "annotator_id", "rater", "rater_id", "judge", "worker_id", "worker", "labeler", "labeller", "reviewer",
    "coder", "rated_by", "annotated_by", "evaluator_id", "bewerter", "bewerterin", "prüfer", "gutachter", "evaluador",
    "anotador", "anotadora", "avaliador", "évaluateur", "annotateur", "valutatore", "评分人", "评分者", "标注员",
    "标注者", "評価者", "평가자",
)  # fmt: skip
"""What a column is called that says who rated."""

FOREIGN_IDS = (
    "gesprächs_id", "gespraechs_id", "gesprächsnummer", "id_conversación", "id_conversacion", "id_conversa",
    "id_conversation", "id_диалога", "编号", "对话id", "会话id", "对话编号", "会话编号", "会話id", "대화id",
)  # fmt: skip
"""Names of the column with a conversation's id in other languages than English."""

FOREIGN_CONVERSATIONS = (
    "gespräch", "conversación", "conversa", "conversazione", "диалог", "разговор", "对话", "会话", "会話", "대화",
    "diálogo", "dialogo",
)  # fmt: skip
"""Words for "conversation" in other languages: the name of a column with an id or with the text of a conversation."""

RATED_ROWS = "rated_rows"
"""Where a conversation keeps the rows of several people who rated it, without the text that they share."""


def mapping_of(value: Any) -> Fields:
    """An object of JSON; in place of anything else an empty one."""
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
    """The name of a column in lower case with underscores.

    >>> plain_name("Conversation ID"), plain_name("Bewertung")
    ('conversation_id', 'bewertung')
    """
    return _GAPS.sub("_", name.strip().casefold())


_GAPS = re.compile(r"[\s-]+")


ROW_BYTES = 8 * MB
"""The longest row: longer than the context of any model. Reading one takes about seventeen times its size in memory."""
ROW_VALUES = 2_000_000
"""The most values in a row."""


def too_long(what: str) -> str:
    """Return the reason to refuse a row over these limits."""
    return f"{what} is longer than {format_size(ROW_BYTES)} or holds more than {ROW_VALUES:,} values"


class Row(NamedTuple):
    """One row and the line (from 1) it began on."""

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
    """

    conversation: Conversation
    labels: tuple[Label, ...] = ()
    assessments: tuple[IssueAnnotation, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    line: int = 0


def answered(conversation: Conversation, found: Sequence[Annotation]) -> Record:
    """A conversation with what people said of it: plain answers as labels, all else as annotations."""
    plain = [each for each in found if not (each.quote or each.comment or each.question.startswith(ISSUE))]
    others = tuple(each for each in found if each not in plain)
    return Record(conversation, tuple(each.to_label() for each in plain), (), others)


class WrongShape(BadInput):
    """A row that is not what its format says; the reader adds file and line."""


@dataclass(frozen=True, slots=True)
class Format:
    """One conversation format.

    Attributes:
        recognises: Whether a row looks like this format; asked of a file's first row.
        convert: The rows of one conversation, in file order, to a record. The second argument is the id to use
            where the rows name none. `None` where they hold no conversation (a span of something else).
            Raises `WrongShape`.
        key: The id that rows of one conversation share, where a conversation spans rows; else `None`.
        split: One row of the file to the rows it bundles (an OTLP batch holds many spans); else `None`.
        passed_over: Why nothing is read from a row (or a part of one), or `None` where something is.
        is_whole: Of a format with a `key`: whether a row holds a conversation by itself; the answer `None` says that it
            does unless another row has the same key. Without the function no row does.
        alone: Whether a row holds answers about conversations that stand in another file; such files are read last.
    """

    recognises: Callable[[Fields], bool]
    convert: Callable[[Sequence[Fields], str], Record | None]
    key: Callable[[Fields], str | None] | None = None
    split: Callable[[Fields], Sequence[Fields]] | None = None
    passed_over: Callable[[Fields], str | None] | None = None
    is_whole: Callable[[Fields], bool | None] | None = None
    alone: Callable[[Fields], bool] | None = None


def admitted(record: Record) -> Record:
    """Return the record in the form that every later stage accepts.

    Metadata become JSON: a date, bytes or an infinite number becomes text, and NaN, the
    empty cell of a table, becomes null. NUL and halves of surrogate pairs become U+FFFD in every text.

    Raises:
        WrongShape: A role, a text or a document is not a string, or tool calls are not a list.
    """
    found, said = record.conversation, _admitted_annotations(record)
    turns = found.turns
    if isinstance(turns, PlainTurns):
        clean = _admitted_messages(turns)
        if clean is turns and not found.documents and _are_plain_cells(found.metadata):
            return said
        turns = clean
    else:
        turns = tuple(_admitted_turn(place, turn) for place, turn in enumerate(turns))
    documents, metadata = tuple(map(_admitted_document, found.documents)), _plain(dict(found.metadata))
    return replace(said, conversation=Conversation(found.id, turns, documents, metadata))


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
    """Return a frozen dataclass with `sendable` applied to its texts, those of dataclasses inside it included."""
    changed = {}
    for name in (field.name for field in fields(value)):  # type: ignore[arg-type]
        found = getattr(value, name)
        is_group = isinstance(found, tuple) and bool(found) and is_dataclass(found[0])
        clean = tuple(map(_sendable_fields, found)) if is_group else sendable_json(found)
        if clean != found:
            changed[name] = clean
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


def _admitted_messages(turns: PlainTurns) -> PlainTurns:
    if all(is_sendable(each["content"]) and is_sendable(each["role"]) for each in turns.messages):
        return turns
    return PlainTurns([{name: sendable(text) for name, text in each.items()} for each in turns.messages])


def _are_plain_cells(cells: Fields) -> bool:
    """Return True if all cells are scalars with sendable texts, which need no conversion."""
    if not (_SCALARS.issuperset(map(type, cells.values())) and _TEXT.issuperset(map(type, cells))):
        return False
    return all(map(is_sendable, cells)) and all(is_sendable(each) for each in cells.values() if type(each) is str)


_TEXT = frozenset({str})
_SCALARS = frozenset({str, int, bool, type(None)})


def _is_plain_turn(turn: Turn) -> bool:
    """Return True if a turn is only a role and a text, both sendable."""
    is_text = type(turn.role) is str and turn.role and type(turn.content) is str
    is_bare = bool(is_text) and turn.name is None and turn.time is None and not turn.extra
    return is_bare and is_sendable(turn.content) and is_sendable(turn.role)


def _admitted_turn(place: int, turn: Turn) -> Turn:
    if _is_plain_turn(turn):
        return turn
    if not isinstance(turn.role, str) or not turn.role or not isinstance(turn.content, str):
        raise WrongShape(
            f"turn {place} has no role or no text: {type(turn.role).__name__}, {type(turn.content).__name__}"
        )
    extra: dict[str, Any] = _plain(dict(turn.extra))
    if "tool_calls" in extra:
        extra["tool_calls"] = _calls(place, extra["tool_calls"])
    return Turn(sendable(turn.role), sendable(turn.content), _as_text(turn.name), _as_text(turn.time), extra)


def _calls(place: int, value: Any) -> list[Any]:
    """What a turn called, as a list: given as one, as a single call, or as the JSON of either."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError):
            raise WrongShape(f"the tool calls of turn {place} are a list, got a text that is no JSON") from None
        value = _plain(value)
    if value is None:
        return []
    calls = [value] if isinstance(value, dict) else value
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise WrongShape(f"the tool calls of turn {place} are a list of objects, got {str(value)[:60]!r}")
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


_FILES = (
    "argilla", "benchmark_items", "label_studio", "langfuse", "langfuse_scores", "langsmith", "mlflow",
    "openai_messages", "otel", "potato", "soda_eval", "table",
)  # fmt: skip
formats: Registry[Format] = Registry("format", *(f"accord.formats.{name}" for name in _FILES))


def grouped(rows: Iterable[tuple[str | None, Row]]) -> Generator[list[Row]]:
    """Rows that share a key, together and in file order; groups in the order of their first row.

    Rows are spooled to an unnamed temporary file; memory holds one key and a few integers a row, whatever the
    length of the texts. A row without a key is a group of its own.
    """
    places: dict[str, array[int]] = {}
    with tempfile.TemporaryFile() as spool:
        for key, row in rows:
            name = key or f"\0line {row.line}"
            places.setdefault(name, array("q")).extend((row.line, spool.tell()))
            spool.write(json.dumps(row.fields, default=str).encode("ascii") + b"\n")
        for found in places.values():
            yield [_at(spool, found[i], found[i + 1]) for i in range(0, len(found), 2)]


def _at(spool: IO[bytes], line: int, offset: int) -> Row:
    spool.seek(offset)
    return Row(line, json.loads(spool.readline()))
