"""Rows of the mart: scores with facts about their conversations, from files, folders of parts and live replies.

The metadata of a conversation give its `system`, `version`, `topic`, user group, `language` and time under the names
below; the first name that is present is used. `input` hashes everything before the scored reply, or the first user
message of a whole conversation. Versions that answered the same input share it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from accord.edges import BadInput, Step, parse_time, sendable
from accord.formats import display_path, is_remote
from accord.learning import OTHER_QUESTIONS
from accord.scoring.part_checks import check_rows
from accord.scoring.parts import check_parts, read_manifest, scored_rows
from accord.store import Mart, Store, batches
from accord.values import BATCH_ROWS, Conversation, MartRow, Sample, ScoreRow, Turn, mart_answer

TOPIC = ("topic", "domain", "category", "intent")
USER_GROUP = ("user_group", "group", "segment", "cohort", "persona")
LANGUAGE = ("language", "lang", "locale")
TIME = (
    "time", "began", "started", "created_at", "created", "timestamp", "date", "ended", "create_time", "createdAt",
    "start_time", "startTime", "started_at", "ts",
)  # fmt: skip
_WORD = re.compile(r"\w+")
_MOST_CHARACTERS = 200
_BATCH_SIZE = 500


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """Facts about a conversation from its metadata; `time` in milliseconds since 1970."""

    system: str | None = None
    version: str | None = None
    topic: str | None = None
    user_group: str | None = None
    language: str | None = None
    time: int | None = None
    synthetic: bool = False

    @classmethod
    def of(cls, conversation: Conversation) -> ConversationFacts:
        """Read the facts from a conversation's metadata, and its time from the first turn with one."""
        metadata = conversation.metadata
        times = chain([_named_time(metadata)], map(_turn_time, conversation.turns))
        time = next((each for each in times if each is not None), None)
        return cls(
            _shortened(conversation.system), _shortened(conversation.version), _first(metadata, TOPIC),
            _first(metadata, USER_GROUP), _first(metadata, LANGUAGE), time, conversation.is_synthetic,
        )  # fmt: skip


def conversation_time(turns: Iterable[Turn], metadata: Mapping[str, Any]) -> datetime | None:
    """Return the time of a conversation's last message, or of its metadata, or `None` if it is unknown."""
    latest = max((time for turn in turns if (time := _turn_time(turn)) is not None), default=_named_time(metadata))
    return None if latest is None else time_of(latest)


def _turn_time(turn: Turn) -> int | None:
    """Return the time of a message, or of its other fields, in milliseconds since 1970, or `None` if it is unknown."""
    time = milliseconds(turn.time)
    return _named_time(turn.extra) if time is None else time


def _named_time(fields: Mapping[str, Any]) -> int | None:
    """Return the first value under the names of times that is a time, in milliseconds since 1970."""
    found = (milliseconds(fields[name]) for name in TIME if name in fields)
    return next((time for time in found if time is not None), None)


def _first(metadata: Mapping[str, Any], names: Sequence[str]) -> str | None:
    values = (metadata.get(name) for name in names)
    return _shortened(next((value for value in values if isinstance(value, str | int | float)), None))


def _shortened(value: Any) -> str | None:
    return None if value is None or value == "" else sendable(str(value)[:_MOST_CHARACTERS])


def time_of(milliseconds: float) -> datetime:
    """Return the time of milliseconds since 1970; Windows' own conversion refuses times before 1970.

    >>> str(time_of(-1000))
    '1969-12-31 23:59:59+00:00'
    """
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def milliseconds(value: Any) -> int | None:
    """Return a time as milliseconds since 1970, or `None` for a value that `parse_time` does not read as a time."""
    time = parse_time(value)
    return None if time is None else (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def input_of(turns: Sequence[Turn], turn: int | None) -> str | None:
    """Return the hash of everything before a reply, or of the first user message, or `None` if it has no words."""
    before = [each for each in turns if each.role == "user"][:1] if turn is None else turns[:turn]
    words = " ".join(word for each in before for word in _WORD.findall(each.content.casefold()))
    return blake2b(words.encode("utf-8", "replace"), digest_size=8).hexdigest() if words else None


@dataclass(frozen=True)
class RowOrigin:
    """Values that all rows of one evaluator in one run share.

    Attributes:
        question: Main question of the evaluator.
        evaluator: Name of the evaluator with a digest of its learned state; scores of another fit are not replaced.
        origin: `batch` or `live`.
        run: Id of the run, or `None` for live replies.
    """

    question: str
    evaluator: str
    origin: str = BATCH_ROWS
    run: str | None = None

    @classmethod
    def of(cls, name: str, digest: str, question: str, origin: str = BATCH_ROWS, run: str | None = None) -> RowOrigin:
        """Return the origin of the rows of an evaluator with a digest of its learned state."""
        return cls(question, f"{name}@{digest.removeprefix('s256:')[:12]}", origin, run)

    def rows(
        self, score: ScoreRow | Mapping[str, Any], facts: ConversationFacts, scored: int, input: str | None
    ) -> Iterator[MartRow]:
        """Yield the row of a score, and one for each other question in its notes.

        Args:
            score: The score.
            facts: Facts about its conversation.
            scored: Time of the score in milliseconds since 1970.
            input: Hash from `input_of`.
        """
        shared: MartRow = {
            "conversation": score["conversation"], "turn": score["turn"], "evaluator": self.evaluator,
            "signature": score["signature"], "scored": scored, "input": input, "origin": self.origin, "run": self.run,
            "rated": score["rated"], "in_training": score["in_training"], **asdict(facts),
        }  # fmt: skip
        main = {"question": self.question, "annotator": score["annotator"], "is_main": True}
        yield {**shared, **mart_answer(score), **main}
        for question, answer in ((score["notes"] or {}).get(OTHER_QUESTIONS) or {}).items():
            other = {"question": question, "annotator": answer["annotator"], "is_main": False}
            yield {**shared, **mart_answer(answer), **other}

    def batch(self, samples: Sequence[Sample], scores: Sequence[ScoreRow]) -> list[MartRow]:
        """Return the rows of a batch; a sample has several scores if each member of a panel has one."""
        scored = int(time.time() * 1000)
        known = {
            (each.target.conversation, each.target.turn): (
                ConversationFacts.of(each.conversation), input_of(each.conversation.turns, each.turn)
            )
            for each in samples
        }  # fmt: skip
        return [
            row
            for score in scores
            for facts, input in (known[score["conversation"], score["turn"]],)
            for row in self.rows(score, facts, scored, input)
        ]


def add_parts(store: Store, mart: Mart, folder: str, question: str, run: str | None = None) -> int:
    """Append the parts of a folder of scores to the mart, and those that are damaged there, and return the new rows.

    Raises:
        BadInput: The folder holds no scores in parts, or a part is damaged.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        score = Step("score", "chats.jsonl", out=str(folder))
        raise BadInput(f"{display_path(folder)} holds no scores in parts; make them: {score}", score)
    origin = RowOrigin.of(
        str(manifest.get("evaluator", "evaluator")), str(manifest.get("digest") or manifest["made_from"]),
        str(manifest.get("question") or question), run=run,
    )  # fmt: skip
    place = folder if is_remote(folder) else str(Path(folder).resolve())
    scored, count = int(time.time() * 1000), 0
    for part in check_parts(folder, [row["key"] for row in manifest["parts"]], manifest):
        name = blake2b(f"{place} {manifest['made_from']} {part.key}".encode(), digest_size=12).hexdigest()
        if not mart.has(name):
            check_rows(folder, part)
            count += mart.add(_rows_of_part(store, folder, part.key, origin, scored), name)
    return count


def _rows_of_part(store: Store, folder: str, key: str, origin: RowOrigin, scored: int) -> Iterator[MartRow]:
    """Yield the rows of a part with facts about the conversations that the store holds."""
    for batch in batches(scored_rows(folder, key), _BATCH_SIZE):
        names = dict.fromkeys(row["conversation"] for row in batch)
        known = {each.id: (ConversationFacts.of(each), each.turns) for each in store.conversations(names)}
        for row in batch:
            facts, turns = known.get(row["conversation"], (ConversationFacts(), ()))
            yield from origin.rows(row, facts, scored, input_of(turns, row["turn"]))
