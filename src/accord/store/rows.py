"""Conversations and annotations as table rows, their keys, histories of answers, and messages about invalid rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, or_, select

from accord.edges import parse_time
from accord.formats import UNNAMED
from accord.store.engine import read_json
from accord.store.group_commit import Conflict
from accord.store.schema import annotation_table
from accord.values import (
    ISSUE,
    Annotation,
    Conversation,
    Json,
    Label,
    PlainTurns,
    Target,
    Turn,
    canonical_json,
    content_hash,
    text_hash,
)

T = TypeVar("T")

PERSON, MODEL = "person", "model"
BATCH = 500
TableRow = dict[str, str | int | None]
"""A row to store, by column name (`accord.store.schema`)."""


class Run(NamedTuple):
    """A command in progress: its ID and its results so far."""

    id: str
    results: dict[str, Any]


class AddedCounts(NamedTuple):
    """Numbers of rows that were new to the store, that it held already, and that name something erased."""

    new: int = 0
    known: int = 0
    erased: int = 0

    def plus(self, other: AddedCounts) -> AddedCounts:
        """Return the sum of two counts."""
        return AddedCounts(*(first + second for first, second in zip(self, other, strict=True)))

    def to_json(self) -> dict[str, int]:
        """Return the counts; the count of erased rows only if it is positive."""
        counts = {"new": self.new, "known": self.known}
        return {**counts, "erased": self.erased} if self.erased else counts


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` rows; if the source fails, the rows before the failure are yielded first."""
    batch: list[T] = []
    try:
        for row in rows:
            batch.append(row)
            if len(batch) == size:
                full, batch = batch, []
                yield full
    except (Exception, KeyboardInterrupt):
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def now(after: str | None = None) -> str:
    """Return the time as the tables store it; at least one millisecond `after` another time."""
    time = datetime.now(UTC)
    if after is not None:
        time = max(time, datetime.fromisoformat(after) + timedelta(milliseconds=1))
    return time.isoformat(timespec="milliseconds")


# --- rows that cannot be stored -------------------------------------------------------------------------------------


def unknown_target(row: Mapping[str, Any]) -> str:
    """Return the message about an annotation whose conversation or turn is not in the store."""
    targets = [(row["conversation"], row["turn"])]
    targets += [] if row["against"] is None else [(row["against"], row["against_turn"])]
    names = " or no ".join(
        f"conversation {name!r}" if turn is None else f"turn {turn} of a conversation {name!r}"
        for name, turn in targets
    )
    hint = " (turns count from 0)" if any(turn is not None for _, turn in targets) else ""
    return (
        f"label of {row['by']!r}: no {names} in the store{hint}; import it first: accord import chats.jsonl labels.csv;"
        " or leave such labels out: --skip-bad-rows"
    )


def missing_overall_score(row: Mapping[str, Any]) -> str:
    """Return the message about an issue whose turn has no overall score in the store."""
    target = Target(row["conversation"], row["turn"])
    return (
        f"{row['question']!r} of {target}: the overall score that {row['by']!r} gave with it is neither in the store "
        "nor in the file; import it too"
    )


def changed_conversation(name: str) -> str:
    """Return the message about a conversation whose ID is taken."""
    return (
        f"conversation {name!r} is in the store with other content; give the new one another ID, or use another store"
    )


def has_target(row: TableRow, turns: Mapping[str, int]) -> bool:
    """Return True if the conversations and turns of an annotation exist.

    `turns` has the number of turns of each stored conversation; any turn is accepted for 0 turns, a log without texts.
    """
    against: Any = row["against"]
    name: Any = row["conversation"]
    turn: Any = row["turn"]
    exists = name in turns if turn is None else _has_turn(turns, name, turn)
    return exists and (against is None or _has_turn(turns, against, row["against_turn"]))  # type: ignore[arg-type]


def _has_turn(turns: Mapping[str, int], conversation: str, turn: int | None) -> bool:
    count = turns.get(conversation)
    return count is not None and (turn is None or count == 0 or turn < count)


# --- conversations --------------------------------------------------------------------------------------------------


def conversation_row(conversation: Conversation, added: str) -> TableRow:
    """Return a row of `conversations` that was added at a time."""
    content = _content(conversation)
    return {
        "id": conversation.id,
        "hash": text_hash(content),
        "system": _storable(conversation.system),
        "turns": len(conversation.turns),
        "content": content,
        "added": added,
        "synthetic": 1 if conversation.is_synthetic else None,
        "imported": None,
    }


_ENCODER = msgspec.json.Encoder(order="sorted")
_DELETE = b"\x7f"


def _content(conversation: Conversation) -> str:
    """Return the canonical JSON of a conversation, written by msgspec if it writes the same text."""
    turns = None if conversation.documents else _plain_turns(conversation.turns)
    name, metadata = conversation.id, dict(conversation.metadata)
    text = None
    if turns is not None and _FLAT.issuperset(map(type, metadata.values())) and _TEXT.issuperset(map(type, metadata)):
        text = _encode({"documents": (), "id": name, "metadata": metadata, "turns": turns})
    elif turns is not None and (encoded := _encode(turns)) is not None:
        text = f'{{"documents":[],{canonical_json({"id": name, "metadata": metadata})[1:-1]},"turns":{encoded}}}'
    return canonical_json(conversation.to_json()) if text is None else text


def _plain_turns(turns: Sequence[Turn]) -> Sequence[Mapping[str, Any]] | None:
    """Return turns as JSON values that both encoders write identically, or `None` if a turn has other fields."""
    if isinstance(turns, PlainTurns):
        return turns.messages
    return None if any(turn.extra for turn in turns) else [turn.to_json() for turn in turns]


_TEXT = frozenset({str})
_FLAT = frozenset({str, int, bool, type(None)})
"""Types that both encoders write identically."""


def _encode(value: Any) -> str | None:
    """Return the canonical JSON of a value without floats, or `None` if the output of msgspec is not canonical.

    msgspec does not escape characters beyond ASCII, nor DEL, and writes floats differently.
    """
    try:
        encoded = _ENCODER.encode(value)
    except (ValueError, OverflowError):  # half a surrogate pair; an integer of more than 64 bits
        return None
    return encoded.decode("ascii") if encoded.isascii() and _DELETE not in encoded else None


def _storable(text: str | None) -> str | None:
    """Return a text without characters that databases reject; the conversation's content keeps them."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


# --- annotations ----------------------------------------------------------------------------------------------------


class AnnotationKeys:
    """Keys of the annotations of one call.

    Equal annotations of a person are counted, so each has its own key: a person may rate twice. The key of a judge's
    answer is the hash of its inputs. An overall score is keyed by signature and turn, so that the first one stays.
    Other annotations are keyed by their whole content.
    """

    def __init__(self) -> None:
        self._counts = dict[bytes, int]()

    def of(self, annotation: Annotation) -> str:
        """Return the key of an annotation."""
        if annotation.kind == "person":
            return self.of_label(annotation.to_label(), annotation.details())
        if annotation.is_of_issues:
            key = content_hash([*annotation.target, annotation.signature, annotation.seen], length=40)
            return content_hash([key, annotation.group, annotation.part], length=40) if annotation.part else key
        if annotation.is_answer:
            return content_hash(annotation.made_from, length=40)
        return content_hash({**annotation.to_json(), "time": None}, length=40)

    def of_label(self, label: Label, details: Mapping[str, Json] = {}) -> str:
        """Return the key of a person's annotation with the fields of a label and other details."""
        name, turn = label.target
        fields: list[Any] = [name, turn, label.question, label.annotator, label.value, label.time]
        if label.against is not None:
            fields += label.against
        is_flat = not details and _FLAT.issuperset(map(type, fields))
        listed = (_encode(fields) if is_flat else None) or canonical_json([*fields, details] if details else fields)
        first = hashlib.sha256(f"{listed[:-1]},1]".encode("ascii"))  # the list with the count appended
        digest = first.digest()[:12]
        self._counts[digest] = count = self._counts.get(digest, 0) + 1
        return "s256:" + first.hexdigest()[:40] if count == 1 else text_hash(f"{listed[:-1]},{count}]", length=40)


def issue_group(row: TableRow) -> tuple[str, str] | None:
    """Return the key of the overall score that an issue belongs to, and the group of both, or `None` for other rows."""
    content = row["content"]
    if row["kind"] != "model" or not isinstance(content, str) or '"part":' not in content:
        return None
    details = read_json(content)
    if not (details.get("group") and details.get("part")):
        return None
    turn = [row["conversation"], row["turn"], row["signature"], details.get("seen", "")]
    return content_hash(turn, length=40), details["group"]


def annotation_row(annotation: Annotation, key: str, added: str) -> TableRow:
    """Return a row of `annotations` that was added at a time; the store sets its place."""
    details = annotation.details()
    return {
        **_person_row(annotation.to_label(), key, added),
        "kind": annotation.kind,
        "distribution": None if annotation.distribution is None else canonical_json(dict(annotation.distribution)),
        "signature": annotation.signature,
        "content": canonical_json(details) if details else None,
        "answer": annotation.answer or None,
        "replaces": annotation.replaces or None,
    }


def label_row(label: Label, keys: AnnotationKeys, added: str, wording: str | None = None) -> TableRow:
    """Return a row of `annotations` for a label, with its own wording or another one; the store sets its place."""
    details: dict[str, Json] = {"repeat": label.repeat} if label.repeat else {}
    row = _person_row(label, keys.of_label(label, details), added, wording)
    return {**row, "content": canonical_json(details)} if details else row


_EMPTY_ROW: TableRow = dict.fromkeys(column.name for column in annotation_table.columns)


def _person_row(label: Label, key: str, added: str, wording: str | None = None) -> TableRow:
    target, against, value = label.target, label.against, label.value
    encoded = str(value) if type(value) is int else canonical_json(value)
    row = {
        **_EMPTY_ROW, "key": key, "conversation": target.conversation, "turn": target.turn, "question": label.question,
        "by": label.annotator, "kind": PERSON, "value": encoded, "time": label.time, "added": added, "place": 0,
        "wording": wording or label.wording,
    }  # fmt: skip
    return row if against is None else {**row, "against": against.conversation, "against_turn": against.turn}


def answer_row(answer: Mapping[str, Any], added: str) -> TableRow:
    """Return a row of `annotations` for a judge's answer; see `Store.add_answers` for its fields."""
    decoded = {name: read_json(answer[name]) for name in ("probabilities", "made_from")}
    target = Target(answer["conversation"], answer["turn"])
    annotation = Annotation.from_answer(target, answer["question"], answer["judge"], {**answer, **decoded})
    return annotation_row(annotation, str(answer["key"]), added)


def annotation_from(row: Any) -> Annotation:
    """Return the annotation in a whole row of the table."""
    _, name, turn, question, by, kind, value, shares, signature, time, wording, other, other_turn, details, *_ = row
    return Annotation(
        Target(name, turn),
        question,
        by,
        kind,
        read_json(value or "null"),
        distribution=None if shares is None else read_json(shares),
        signature=signature,
        time=time,
        wording=wording,
        against=None if other is None else Target(other, other_turn),
        **(Annotation.details_from(read_json(details)) if details else {}),
    )


def label_from(row: Any) -> Label:
    """Return the label in a person's row."""
    against = None if row.against is None else Target(row.against, row.against_turn)
    target, value = Target(row.conversation, row.turn), read_json(row.value or "null")
    details = read_json(row.content) if row.content and '"repeat":' in row.content else {}
    return Label(target, row.question, row.by, value, row.time, row.wording, against, details.get("repeat", 0))


def label_of(row: TableRow) -> Label:
    """Return the label in a row of `label_row`."""
    fields: dict[str, Any] = dict(row)
    against = None if fields["against"] is None else Target(fields["against"], fields["against_turn"])
    target, value = Target(fields["conversation"], fields["turn"]), read_json(fields["value"] or "null")
    repeat = read_json(fields["content"] or "{}").get("repeat", 0)
    return Label(target, fields["question"], fields["by"], value, fields["time"], fields["wording"], against, repeat)


def current_labels(labels: Iterable[Label]) -> list[Label]:
    """Return labels without those that a later one of the same person replaces, in their order.

    Of several labels of one person on the same question and target, the one with the latest time counts; if a time is
    missing or no time, the one that was added last. Labels without a name, which may be by several people, and
    deliberate repeats (`Label.repeat`) stay.
    """
    listed = list(labels)
    kept: dict[tuple[Any, ...], int] = {}
    for place, label in enumerate(listed):
        name: Any = place if label.annotator == UNNAMED else label.annotator
        key = (label.target, label.against, label.question, name, label.repeat)
        if (earlier := kept.get(key)) is None or not _is_before(label, listed[earlier]):
            kept[key] = place
    return listed if len(kept) == len(listed) else [listed[place] for place in sorted(kept.values())]


def _is_before(label: Label, other: Label) -> bool:
    """Return True if a label has an earlier time than another label; False if a time is missing or invalid."""
    times = [_seconds(label.time), _seconds(other.time)]
    return None not in times and times[0] < times[1]  # type: ignore[operator]


def _seconds(time: str | None) -> float | None:
    """Return a time as seconds since 1970 (`parse_time`), or a number that orders labels."""
    if time is None:
        return None
    if (parsed := parse_time(time)) is not None:
        return parsed.timestamp()
    try:
        return float(time)
    except ValueError:
        return None


ID_USED = "this answer's id was used for another answer; load the page and answer again"


def same_answer(kept: Annotation, new: Annotation) -> Annotation:
    """Return the stored answer if the new answer repeats it, ignoring the times.

    Raises:
        Conflict: It is another answer.
    """
    ignored: dict[str, Any] = {"time": None, "seconds": None, "replaces": ""}
    if replace(kept, **ignored) != replace(new, **ignored):
        raise Conflict(ID_USED, kept)
    return kept


def replaced_answer(new: Annotation, current: Sequence[Annotation]) -> str:
    """Return the `answer` ID that a new answer replaces; empty for a first answer.

    Raises:
        Conflict: The replaced mark is not current.
    """
    ids = [answer.answer for answer in current if answer.question == new.question]
    if not new.question.startswith(ISSUE):
        return ids[-1] if ids else ""
    if new.replaces and new.replaces not in ids:
        raise Conflict("this mark was changed already; load the page again")
    return new.replaces


def answers_of(connection: Connection, example: Annotation, only_related: bool = False) -> list[Annotation]:
    """Return all answers of the annotator, item and study of an example, in order.

    With `only_related`, only answers to the example's question, or with its ID.
    """
    table, target = annotation_table.c, example.target
    query = select(annotation_table).where(table.conversation == target.conversation, table.by == example.by)
    query = query.where(table.kind == PERSON, table.answer.is_not(None)).order_by(table.place, table.key)
    if only_related:
        query = query.where(or_(table.question == example.question, table.answer == example.answer))
    answers = [annotation_from(row) for row in connection.execute(query)]
    return [
        answer
        for answer in answers
        if (answer.study, answer.against) == (example.study, example.against)
        and (target.turn is None or answer.target == target)
    ]


def current_answers(history: Sequence[Annotation]) -> list[Annotation]:
    """Return the answers of a history that are not replaced and do not withdraw a mark."""
    replaced = {answer.replaces for answer in history}
    return [
        answer
        for answer in history
        if answer.answer not in replaced
        and not (answer.replaces and answer.value is None and answer.question.startswith(ISSUE))
    ]
