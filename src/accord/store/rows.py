"""Values as rows of tables and back, and what is said of those that cannot become one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from accord.store.engine import read_json
from accord.values import (
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

BATCH = 500
TableRow = dict[str, str | int | None]
"""A row to be stored, by the names of its columns (`accord.store.schema`)."""


class AddedCounts(NamedTuple):
    """How many rows were new, and how many the store had already."""

    new: int = 0
    known: int = 0

    def plus(self, other: AddedCounts) -> AddedCounts:
        """Both counts added up."""
        return AddedCounts(self.new + other.new, self.known + other.known)


class Kept(NamedTuple):
    """How many annotations of a batch were new, and the issues whose overall score the store lacks."""

    new: int
    issues: int
    alone: list[Annotation]

    def added(self, given: int) -> AddedCounts:
        """The counts of a batch of so many annotations."""
        new = self.new + self.issues
        return AddedCounts(new, given - len(self.alone) - new)


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` rows, in order; where the source fails, the rows before the failure come out first."""
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
    """The time, as the tables keep it; a millisecond `after` a time that the clock, set back, has not reached."""
    time = datetime.now(UTC)
    if after is not None:
        time = max(time, datetime.fromisoformat(after) + timedelta(milliseconds=1))
    return time.isoformat(timespec="milliseconds")


# --- what is said of rows that cannot be kept ----------------------------------------------------------------------


def unknown_target(label: Label | Annotation) -> str:
    """Return the message about a label whose conversation or turn is not in the store."""
    annotator = label.annotator if isinstance(label, Label) else label.by
    who, sides = f"label of {annotator!r}", [label.target, *([label.against] if label.against else [])]
    counted = " (turns count from 0)" if any(side.turn is not None for side in sides) else ""
    named = " or no ".join(map(_named, sides))
    return f"{who}: no {named} in the store{counted}; import it first: accord import CHATS LABELS"


def issue_alone(issue: Annotation) -> str:
    """The message about an issue whose turn has no overall score in the store."""
    overall = f"the overall score that {issue.by!r} gave with it"
    return f"{issue.question!r} of {issue.target}: {overall} is neither in the store nor in the file; import it too"


def changed_conversation(name: str) -> str:
    """The message about a conversation whose id is taken."""
    taken = f"conversation {name!r} is in the store with other content"
    return f"{taken}; give the new one another id, or use another store"


def _named(target: Target) -> str:
    conversation, turn = target
    whole = f"conversation {conversation!r}"
    return whole if turn is None else f"turn {turn} of a {whole}"


def is_there(label: Label | Annotation, turns: Mapping[str, int]) -> bool:
    """Whether a label's target exists, and what it is held against; of a log without texts any turn may."""
    return all(_is_there(side, turns) for side in (label.target, label.against) if side is not None)


def is_row_there(row: TableRow, turns: Mapping[str, int]) -> bool:
    """The same of the row of a label."""
    against: Any = row["against"]
    name: Any = row["conversation"]
    turn: Any = row["turn"]
    there = name in turns if turn is None else _is_there((name, turn), turns)
    return there and (against is None or _is_there((against, row["against_turn"]), turns))  # type: ignore[arg-type]


def _is_there(target: tuple[str, int | None], turns: Mapping[str, int]) -> bool:
    conversation, turn = target
    count = turns.get(conversation)
    return count is not None and (turn is None or count == 0 or turn < count)


# --- conversations -------------------------------------------------------------------------------------------------


def conversation_row(conversation: Conversation, added: str) -> TableRow:
    """A row of `conversations`, `added` at a time."""
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


_FAST = msgspec.json.Encoder(order="sorted")
_DELETE = b"\x7f"


def _content(conversation: Conversation) -> str:
    """The canonical JSON of a conversation.

    Texts are nearly all of it, which the faster encoder writes; floats may only stand beside them.
    """
    turns = None if conversation.documents else _turns(conversation.turns)
    name, metadata = conversation.id, dict(conversation.metadata)
    fast = None
    if turns is not None and _FLAT.issuperset(map(type, metadata.values())) and _TEXT.issuperset(map(type, metadata)):
        fast = _fast({"documents": (), "id": name, "metadata": metadata, "turns": turns})
    elif turns is not None and (written := _fast(turns)) is not None:
        fast = f'{{"documents":[],{canonical_json({"id": name, "metadata": metadata})[1:-1]},"turns":{written}}}'
    return canonical_json(conversation.to_json()) if fast is None else fast


def _turns(turns: Sequence[Turn]) -> Sequence[Mapping[str, Any]] | None:
    """Turns as JSON that both encoders write alike, but for some of their texts; `None` where that cannot be said."""
    if isinstance(turns, PlainTurns):
        return turns.messages
    return None if any(turn.extra for turn in turns) else [turn.to_json() for turn in turns]


_TEXT = frozenset({str})
_FLAT = frozenset({str, int, bool, type(None)})
"""Types that both encoders write alike."""


def _fast(value: Any) -> str | None:
    """The canonical JSON of a value without floats by the faster encoder; `None` where that would be another.

    It writes ASCII as `canonical_json` does, but for one character, and floats otherwise.
    """
    try:
        fast = _FAST.encode(value)
    except (ValueError, OverflowError):  # half a surrogate pair; a number of more than 64 bits
        return None
    return fast.decode("ascii") if fast.isascii() and _DELETE not in fast else None


def _storable(text: str | None) -> str | None:
    """A text without what databases refuse; the conversation's own content keeps it."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


# --- annotations ---------------------------------------------------------------------------------------------------


class AnnotationKeys:
    """The key of each annotation of one call.

    A person may say the same thing twice: equal annotations of a person are counted, so that each has a key of its
    own. A judge's answer has the hash of what it was made from. The first overall score of a turn stays, per
    signature and words of the turn. Anything else has the hash of all it says.
    """

    def __init__(self) -> None:
        self._seen = dict[bytes, int]()

    def of(self, annotation: Annotation) -> str:
        """The annotation's key."""
        if annotation.kind == "person":
            return self._of_person(annotation.to_label(), annotation.details())
        if annotation.is_of_issues:
            key = overall_key(annotation)
            return content_hash([key, annotation.group, annotation.part], length=40) if annotation.part else key
        if annotation.is_answer:
            return content_hash(annotation.made_from, length=40)
        return content_hash({**annotation.to_json(), "time": None}, length=40)

    def of_label(self, label: Label) -> str:
        """The key of an annotation that says what a label says, and no more."""
        return self._of_person(label)

    def _of_person(self, label: Label, more: Mapping[str, Json] = {}) -> str:
        name, turn = label.target
        said: list[Any] = [name, turn, label.question, label.annotator, label.value, label.time]
        if label.against is not None:
            said += label.against
        is_flat = not more and _FLAT.issuperset(map(type, said))
        listed = (_fast(said) if is_flat else None) or canonical_json([*said, more] if more else said)
        first = hashlib.sha256(f"{listed[:-1]},1]".encode("ascii"))  # the same list with the count at its end
        digest = first.digest()[:12]
        self._seen[digest] = count = self._seen.get(digest, 0) + 1
        return "s256:" + first.hexdigest()[:40] if count == 1 else text_hash(f"{listed[:-1]},{count}]", length=40)


def overall_key(annotation: Annotation) -> str:
    """The key of the overall score that an annotation of issues belongs to."""
    return content_hash([*annotation.target, annotation.signature, annotation.seen], length=40)


def annotation_row(annotation: Annotation, key: str, place: int, added: str) -> TableRow:
    """A row of `annotations`, `added` at a time."""
    details = annotation.details()
    distribution = None if annotation.distribution is None else canonical_json(dict(annotation.distribution))
    return {
        **_said_row(annotation.to_label(), key, added),
        "kind": annotation.kind,
        "distribution": distribution,
        "signature": annotation.signature,
        "content": canonical_json(details) if details else None,
        "place": place,
        "answer": annotation.answer or None,
        "replaces": annotation.replaces or None,
    }


def label_row(label: Label, keys: AnnotationKeys, added: str, wording: str | None = None) -> TableRow:
    """A row of `annotations`, of the label's wording or this one; where in the order it stands is still to be said."""
    return _said_row(label, keys.of_label(label), added, wording)


def _said_row(label: Label, key: str, added: str, wording: str | None = None) -> TableRow:
    """A row of what a person said, and no more."""
    target, against, value = label.target, label.against, label.value
    return {
        "key": key,
        "conversation": target.conversation,
        "turn": target.turn,
        "question": label.question,
        "by": label.annotator,
        "kind": "person",
        "value": str(value) if type(value) is int else canonical_json(value),
        "distribution": None,
        "signature": None,
        "time": label.time,
        "wording": wording or label.wording,
        "against": against.conversation if against else None,
        "against_turn": against.turn if against else None,
        "content": None,
        "added": added,
        "place": 0,
        "answer": None,
        "replaces": None,
        "imported": None,
    }


def annotation_from(row: Any) -> Annotation:
    """The inverse of `annotation_row`, of a whole row of the table."""
    _, name, turn, question, by, kind, value, shares, signature, time, wording, other, other_turn, more, *_ = row
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
        **(Annotation.details_from(read_json(more)) if more else {}),
    )


def label_from(row: Any) -> Label:
    """The label in a person's row, whatever else it says."""
    against = None if row.against is None else Target(row.against, row.against_turn)
    target, value = Target(row.conversation, row.turn), read_json(row.value or "null")
    return Label(target, row.question, row.by, value, row.time, row.wording, against)


def answer_from(row: Mapping[str, Any]) -> Annotation:
    """A judge's answer as `Store.add_answers` is given it."""
    target = Target(row["conversation"], row["turn"])
    read = {name: read_json(row[name]) for name in ("probabilities", "made_from")}
    return Annotation.from_answer(target, row["question"], row["judge"], {**row, **read})
