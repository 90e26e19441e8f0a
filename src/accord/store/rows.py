"""Values as rows of tables, and what is said of those that cannot become one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from accord.conversation import Conversation, Target, canonical_json, content_hash
from accord.labels import Label

T = TypeVar("T")


def unknown_target(label: Label) -> str:
    """What to say of a label of something that is not in the store."""
    who, sides = f"label of {label.annotator!r}", [label.target, *([label.against] if label.against else [])]
    counted = " (turns count from 0)" if any(side.turn is not None for side in sides) else ""
    return f"{who}: no {' or no '.join(map(_named, sides))} in the store{counted}; import it first"


def _named(target: Target) -> str:
    conversation, turn = target
    whole = f"conversation {conversation!r}"
    return whole if turn is None else f"turn {turn} of a {whole}"


def changed_conversation(name: str) -> str:
    """What to say of a conversation whose id is taken."""
    taken = f"conversation {name!r} is in the store with other content"
    return f"{taken}; give the new one another id, or use another store"


def is_there(label: Label, turns: Mapping[str, int]) -> bool:
    """Whether a label's target exists, and what it is held against; of a log without texts any turn may."""
    return all(_is_there(side, turns) for side in (label.target, label.against) if side is not None)


def _is_there(target: Target, turns: Mapping[str, int]) -> bool:
    if target.conversation not in turns:
        return False
    count = turns[target.conversation]
    return target.turn is None or count == 0 or target.turn < count


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


def conversation_row(conversation: Conversation) -> dict[str, Any]:
    """A row of `conversations`."""
    content = canonical_json(conversation.to_json())
    digest = "s256:" + hashlib.sha256(content.encode("ascii")).hexdigest()
    return {
        "id": conversation.id,
        "hash": digest,
        "system": _storable(conversation.system),
        "turns": len(conversation.turns),
        "content": content,
        "added": now(),
    }


def label_row(label: Label, seen: Counter[bytes], place: int) -> dict[str, Any]:
    """A row of `labels`; `seen` counts equal labels, so that each has a key of its own."""
    said_ = [*label.target, label.question, label.annotator, label.value, label.time, *(label.against or ())]
    digest = hashlib.sha256(canonical_json(said_).encode("ascii")).digest()[:12]
    seen[digest] += 1
    return {
        "key": content_hash([*said_, seen[digest]], length=40),
        "conversation": label.target.conversation,
        "turn": label.target.turn,
        "question": label.question,
        "annotator": label.annotator,
        "value": canonical_json(label.value),
        "time": label.time,
        "wording": label.wording,
        "against": label.against.conversation if label.against else None,
        "against_turn": label.against.turn if label.against else None,
        "added": now(),
        "place": place,
    }


def _storable(text: str | None) -> str | None:
    """A text without what databases refuse; the conversation's own content keeps it."""
    return None if text is None else text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def now(after: str | None = None) -> str:
    """The time, as the tables keep it; a millisecond `after` a time that the clock, set back, has not reached."""
    time = datetime.now(UTC)
    if after is not None:
        time = max(time, datetime.fromisoformat(after) + timedelta(milliseconds=1))
    return time.isoformat(timespec="milliseconds")
