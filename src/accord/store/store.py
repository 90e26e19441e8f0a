"""Values as rows of tables, and what is said of those that cannot become one."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Table, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from accord.store.engine import open_engine, said
from accord.store.schema import answers, conversations, labels, replies, runs, scores
from accord.values import BadInput, Conversation, Label, Labels, Target, canonical_json, content_hash

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


BATCH = 500


class Added(NamedTuple):
    """How many rows were new, and how many the store had already."""

    new: int = 0
    known: int = 0

    def plus(self, other: Added) -> Added:
        """Both counts added up."""
        return Added(self.new + other.new, self.known + other.known)


class Run(NamedTuple):
    """A command under way: its id, and what it found so far."""

    id: str
    results: dict[str, Any]


class Store:
    """Conversations, labels, answers, runs and scores behind one URL.

    Every write is one transaction a batch: what a batch wrote stays, whatever happens after it. Writing the same
    row again changes nothing, so an interrupted command can be run again.
    """

    def __init__(self, url: str) -> None:
        """Open (and create or migrate) the store at `url`; see `engine.open_engine` for what it may be."""
        self.url = url
        self._engine = open_engine(url)
        dialect = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        self._insert = dialect.insert

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    # --- conversations ------------------------------------------------------------------------------------------

    def add_conversations(
        self, found: Iterable[Conversation], on_changed: Callable[[str], None] | None = None
    ) -> Added:
        """Keep conversations, a batch a transaction.

        Args:
            found: The conversations.
            on_changed: Called with the id of each conversation that the store holds with other content; the stored
                one stays.

        Raises:
            BadInput: There is one, and `on_changed` is not given; the others of its batch are kept.
        """
        total = Added()
        for batch in batches(found, BATCH):
            rows = [conversation_row(conversation) for conversation in batch]
            with said(self.url), self._engine.begin() as connection:
                new = self._add(connection, conversations, rows)
            total = total.plus(Added(new, len(rows) - new))
            for name in self._changed(rows) if new < len(rows) else ():
                if on_changed is None:
                    raise BadInput(changed_conversation(name))
                on_changed(name)
        return total

    def _changed(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """The ids that the store holds with other content than these rows."""
        named = conversations.c.id.in_([row["id"] for row in rows])
        query = select(conversations.c.id, conversations.c.hash).where(named)
        stored = dict(tuple(row) for row in self._stream(query))
        return [row["id"] for row in rows if stored[row["id"]] != row["hash"]]

    def conversations(self, ids: Iterable[str] | None = None) -> Iterator[Conversation]:
        """All conversations, or those named, in the order of their ids; one at a time."""
        if ids is not None:
            for batch in batches(sorted(set(ids)), BATCH):
                query = select(conversations.c.content).where(conversations.c.id.in_(batch))
                yield from self._conversations(query.order_by(conversations.c.id))
        else:
            yield from self._conversations(select(conversations.c.content).order_by(conversations.c.id))

    def _conversations(self, query: Any) -> Iterator[Conversation]:
        for (content,) in self._stream(query):
            yield Conversation.from_json(json.loads(content))

    def conversation_ids(self) -> Iterator[str]:
        """All ids in order, read a page at a time, so that others may write in between."""
        last = ""
        while page := list(self._stream(_ids_after(last))):
            yield from (name for (name,) in page)
            last = page[-1][0]

    def count_conversations(self) -> int:
        """How many conversations the store holds."""
        return self._one(select(func.count()).select_from(conversations)) or 0

    # --- labels -------------------------------------------------------------------------------------------------

    def add_labels(self, found: Iterable[Label], on_unknown: Callable[[Label], None] | None = None) -> Added:
        """Keep labels of conversations, and of turns of them, that the store holds.

        Equal labels within one call are kept apart (a person may rate twice); the same call again adds nothing.

        Args:
            found: The labels.
            on_unknown: Called with each label of something the store does not hold, which is then skipped.

        Raises:
            BadInput: Such a label, and `on_unknown` is not given; the others of its batch are kept.
        """
        total, seen = Added(), Counter[bytes]()
        place = self._one(select(func.max(labels.c.place))) or 0
        for batch in batches(found, BATCH):
            turns = self._turns(side.conversation for side in Labels(batch).targets)
            known = [label for label in batch if is_there(label, turns)]
            rows = [label_row(label, seen, place + offset) for offset, label in enumerate(known, 1)]
            place += len(rows)
            with said(self.url), self._engine.begin() as connection:
                new = self._add(connection, labels, rows)
            total = total.plus(Added(new, len(rows) - new))
            for label in batch if len(known) < len(batch) else ():
                if not is_there(label, turns):
                    if on_unknown is None:
                        raise BadInput(unknown_target(label))
                    on_unknown(label)
        return total

    def _turns(self, ids: Iterable[str]) -> dict[str, int]:
        """How many turns each of the named conversations has; those the store does not hold are left out."""
        query = select(conversations.c.id, conversations.c.turns)
        return dict(tuple(row) for row in self._stream(query.where(conversations.c.id.in_(sorted(set(ids))))))

    def labels(self) -> Labels:
        """All labels, in the order they were added."""
        columns = (labels.c.conversation, labels.c.turn, labels.c.question, labels.c.annotator, labels.c.value)
        others = (labels.c.time, labels.c.wording, labels.c.against, labels.c.against_turn)
        query = select(*columns, *others).order_by(labels.c.place, labels.c.key)
        return Labels(map(_label, self._stream(query)))

    # --- answers ------------------------------------------------------------------------------------------------

    def add_answers(self, rows: Iterable[Mapping[str, Any]]) -> Added:
        """Keep judge answers, given as rows of the `answers` table without its `added`; equal keys are kept once."""
        total = Added()
        for batch in batches(rows, BATCH):
            stamped = [{**row, "added": now()} for row in batch]
            with said(self.url), self._engine.begin() as connection:
                new = self._add(connection, answers, stamped)
            total = total.plus(Added(new, len(stamped) - new))
        return total

    def answers(self, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """The answers with these keys, by key: `probabilities` (JSON), the mass `outside`, the judge's `version`."""
        columns = (answers.c.key, answers.c.probabilities, answers.c.outside, answers.c.version)
        return {
            key: {"probabilities": probabilities, "outside": outside, "version": version or ""}
            for batch in batches(keys, BATCH)
            for key, probabilities, outside, version in self._stream(select(*columns).where(answers.c.key.in_(batch)))
        }

    def answered(self) -> list[tuple[str, str]]:
        """The conversation and the question of every answer."""
        return [(name, question) for name, question in self._stream(select(answers.c.conversation, answers.c.question))]

    def add_reply(self, key: str, model: str, content: str) -> None:
        """Keep one reply of a chat model, given as JSON."""
        with said(self.url), self._engine.begin() as connection:
            self._add(connection, replies, [{"key": key, "model": model, "content": content, "added": now()}])

    def reply(self, key: str) -> str | None:
        """The reply with this key, as JSON."""
        return next(
            (content for (content,) in self._stream(select(replies.c.content).where(replies.c.key == key))), None
        )

    # --- runs and scores ----------------------------------------------------------------------------------------

    def start_run(self, command: str, settings: Mapping[str, Any]) -> str:
        """Note that a command began, after all others whatever the clock says; returns the run's id."""
        run = uuid.uuid4().hex[:12]
        row = {
            "id": run,
            "command": command,
            "settings": canonical_json(settings),
            "status": "running",
            "started": now(after=self._one(select(func.max(runs.c.started)))),
        }
        with said(self.url), self._engine.begin() as connection:
            self._add(connection, runs, [{**row, "results": None, "finished": None}])
        return run

    def change_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Put other settings in the place of a run's: what it knows by now."""
        with said(self.url), self._engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.id == run).values(settings=canonical_json(settings)))

    def finish_run(self, run: str, status: str, results: Mapping[str, Any]) -> None:
        """Note how a run ended (`done`, `failed`, `interrupted`) and what it found."""
        change = {"status": status, "results": canonical_json(results), "finished": now()}
        with said(self.url), self._engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.id == run).values(**change))

    @contextmanager
    def run(self, command: str, settings: Mapping[str, Any]) -> Iterator[Run]:
        """A command as a run: what is put into `results` is kept, and how the block ended."""
        run = Run(self.start_run(command, settings), {})
        try:
            yield run
        except KeyboardInterrupt:
            self.finish_run(run.id, "interrupted", run.results)
            raise
        except BaseException:
            self.finish_run(run.id, "failed", run.results)
            raise
        self.finish_run(run.id, "done", run.results)

    def runs(self) -> list[dict[str, Any]]:
        """All runs, oldest first, with their settings and results."""
        return [
            {**row._mapping, "settings": json.loads(row.settings), "results": json.loads(row.results or "null")}
            for row in self._stream(select(runs).order_by(runs.c.started, runs.c.id))
        ]

    def add_scores(self, run: str, rows: Iterable[Mapping[str, Any]], start: int = 0) -> None:
        """Keep scores of a run, given as `Score.to_json()` rows, in their order; `start` is the first one's place."""
        for batch in batches(enumerate(rows, start), BATCH):
            stored = [
                {"run": run, "place": place, "conversation": row["conversation"], "content": canonical_json(row)}
                for place, row in batch
            ]
            with said(self.url), self._engine.begin() as connection:
                self._add(connection, scores, stored)

    def scores(self, run: str) -> Iterator[dict[str, Any]]:
        """The scores of a run as they were added."""
        query = select(scores.c.content).where(scores.c.run == run).order_by(scores.c.place)
        return (json.loads(content) for (content,) in self._stream(query))

    # --- one place that speaks to the database ------------------------------------------------------------------

    def _add(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
        """Insert the rows whose primary key is new; returns how many were.

        Rows go in the order of their keys: two writers of the same rows then wait for each other, and never in a ring.
        """
        if not rows:
            return 0
        keys = [column.name for column in table.primary_key.columns]
        insert = self._insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
        return len(connection.execute(insert, sorted(rows, key=lambda row: [row[key] for key in keys])).all())

    def _stream(self, query: Any) -> Iterator[Any]:
        with said(self.url), self._engine.connect() as connection:
            reading = connection.execution_options(reading=True, yield_per=BATCH)
            with reading.execute(query) as rows:
                yield from rows

    def _one(self, query: Any) -> Any:
        with said(self.url), self._engine.connect() as connection:
            return connection.execution_options(reading=True).execute(query).scalar()


def _label(row: Any) -> Label:
    against = None if row.against is None else Target(row.against, row.against_turn)
    target, value = Target(row.conversation, row.turn), json.loads(row.value)
    return Label(target, row.question, row.annotator, value, row.time, row.wording, against)


def _ids_after(last: str) -> Any:
    return select(conversations.c.id).where(conversations.c.id > last).order_by(conversations.c.id).limit(BATCH)
