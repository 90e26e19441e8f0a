"""Messages in, rows out: each is scored, watched and kept, and one that is no message costs the others nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypedDict, cast

from accord.edges import open_private, regular_size, sendable
from accord.evidence import EvidenceTable
from accord.learning import Evaluator, load_evaluator
from accord.live.alarms import Alarm
from accord.live.hot_reload import CHECK_SECONDS as RELOAD_SECONDS
from accord.live.hot_reload import EvaluatorReloader, folder_version
from accord.live.messages import CONVERSATIONS, Message
from accord.live.monitoring import MonitoringThread, ScoreMonitor
from accord.live.scorer import SECONDS, IngestResult, LiveScorer
from accord.models import Models
from accord.project import LiveConfig, WatchConfig
from accord.scoring import (
    ConversationFacts,
    RowOrigin,
    input_of,
    milliseconds,
)
from accord.store import LIVE_ROWS, Mart, MartWriter, Store, StoreError
from accord.values import POPULATION, Score, Signature, Unscored

FIRST = 3
"""The last turn that counts as a first reply: replies to the same first messages are held against each other."""
UNKEPT = 10_000
"""The most rows that wait for room on the disk."""


class Row(TypedDict, total=False):
    """What came of one message: what a score's row has, with `status` and what the message was (`schemas.ROW`)."""

    status: Literal["scored", "unscored", "heard", "refused"]
    id: str | None
    system: str | None
    conversation: str
    turn: int | None
    annotator: str
    value: float | None
    low: float | None
    high: float | None
    band_low: float | None
    band_high: float | None
    variance: float | None
    entropy: float | None
    distribution: dict[str, float] | None
    warning: str | None
    attributions: dict[str, float] | None
    notes: dict[str, Any] | None
    unscored: str | None
    signature: str
    again: bool
    error: str
    taken: bool  # false: its turn did not come, and it may be sent again
    at: int  # where the line of a log begins


Keep = Callable[[Sequence[Row]], None]
Note = Callable[[Sequence[tuple[Message, IngestResult]]], None]


class Takes(Protocol):
    """What takes messages in, in their order."""

    def take(self, batch: Sequence[Message]) -> list[Row]:
        """A row a message."""


class Ingestor:
    """Takes messages in for whoever serves them or reads them from a log; may be called from several threads.

    Args:
        scorer: Scores the replies.
        watch: Adds up what was scored.
        keep: Called with the rows of replies, before anyone is answered; what it raises is raised, and it is called
            with the same rows, and those that follow, the next time.
        settle: Puts what was watched where it outlives the process.
        note: Called with each message and what came of it, before anyone is answered; it raises nothing.
    """

    def __init__(
        self,
        scorer: LiveScorer,
        watch: ScoreMonitor | None = None,
        keep: Keep | None = None,
        settle: Callable[[], None] = lambda: None,
        note: Note = lambda found: None,
    ) -> None:
        self.scorer, self.watch, self.keep, self.settle, self.note = scorer, watch, keep, settle, note
        self._first = None if watch is None else watch.evaluator
        self._later: dict[Signature, str] = {}  # whose the scores are of evaluators that took over
        self._unkept: list[Row] = []
        self._lock = Lock()

    def take(self, batch: Sequence[Message]) -> list[Row]:
        """A row a message, in their order: `status` is `scored`, `unscored`, or `heard` of what is no reply."""
        found = list(zip(batch, self.scorer.take(batch), strict=True))
        rows = [_row(said, taken) for said, taken in found]
        self.note(found)
        with self._lock:
            if self.watch is not None:
                for said, taken in found:
                    if taken.score is not None and taken.evidence is not None and not taken.again:
                        whose = self._later.get(taken.score.signature, self._first)
                        self.watch.add(said.system, said.day, taken.score, taken.evidence, whose)
            self._keep([row for row in rows if is_kept(row)])
        return rows

    def take_over(self, prepared: LiveScorer) -> None:
        """Score from now on with another evaluator; what is watched is watched apart."""
        signature = prepared.signature.with_part("learned", prepared.evaluator.digest())
        if self.watch is not None:
            evaluator = str(signature.with_part("for", prepared.speaker or POPULATION))
            with self._lock:
                self._later[signature] = evaluator
            self.watch.take_over(evaluator, prepared.columns)
        self.scorer.take_over(prepared)

    def _keep(self, rows: Sequence[Row]) -> None:
        """Keep rows, and before them those that could not be kept."""
        if self.keep is not None and (rows or self._unkept):
            self._unkept = [*self._unkept, *rows][-UNKEPT:]
            self.keep(self._unkept)
            self._unkept = []


def _row(said: Message, taken: IngestResult) -> Row:
    again: Row = {"again": True} if taken.again else {}
    if taken.score is None:
        why = taken.late or taken.cut
        about: Row = {"status": "heard", "id": said.id, "system": said.system, "conversation": said.conversation}
        warned: Row = {"warning": why} if why else {}
        return {**about, **warned, **again}
    status: Literal["scored", "unscored"] = "scored" if isinstance(taken.score, Score) else "unscored"
    of_score = cast("Row", taken.score.to_json())
    return {"status": status, "id": said.id, "system": said.system, **of_score, **again}


def is_kept(row: Row) -> bool:
    """Whether a row says something new of a reply."""
    return row["status"] != "heard" and not row.get("again")


def not_taken(said: Message, reason: str) -> Row:
    """The row of a message whose turn did not come."""
    return {"status": "unscored", "id": said.id, "system": said.system, "conversation": said.conversation,
            "unscored": reason, "taken": False}  # fmt: skip


def refused(reason: str, about: Any = None) -> Row:
    """The row of what is no message."""
    named = about if isinstance(about, Mapping) else {}
    texts = {name: named[name] for name in ("id", "conversation") if isinstance(named.get(name), str)}
    known = cast("Row", {name: sendable(text)[:512] for name, text in texts.items()})
    return {"status": "refused", **known, "error": reason}


class RowLog:
    """Appends rows to a file of JSON lines, and sees to it that they are on the disk.

    Raises:
        BadInput: The file is a folder, a pipe or a device.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            regular_size(path)
        torn = path.exists() and path.stat().st_size > 0 and not _ends_a_line(path)
        self._stream = open_private(path, "ab", buffering=0)
        if torn:
            self._stream.write(b"\n")  # a process ended within a row; the next one begins a line of its own

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append some rows, all or none; they outlive the process once this returns."""
        if not rows:
            return
        file, left = self._stream.fileno(), "".join(json.dumps(row) + "\n" for row in rows).encode()
        before = os.fstat(file).st_size
        try:
            while left:
                left = left[self._stream.write(left) or 0 :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, before)
            raise

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return os.fstat(self._stream.fileno()).st_size

    def after(self, size: int) -> Iterator[Row]:
        """The rows that were written since it had a size; what was torn is passed over."""
        with self.path.open("rb") as stream:
            stream.seek(size)
            for line in stream:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield cast("Row", row)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


Say = Callable[[str], None]


@contextmanager
def opened(
    evaluator: str | Path,
    annotator: str | None = None,
    out: Path | None = None,
    store: Store | None = None,
    watching: WatchConfig | None = None,
    say: Say = lambda text: None,
    conversations: int = CONVERSATIONS,
    seconds: float = SECONDS,
    models: Models | None = None,
    limits: LiveConfig | None = None,
    mart: Mart | None = None,
    every: float = RELOAD_SECONDS,
) -> Iterator[Ingestor]:
    """An ingestor for a fitted evaluator.

    Args:
        evaluator: Its folder.
        annotator: Whom scores imitate; without one, a person nobody has met.
        out: A file of JSON lines to which the rows of replies are appended.
        store: Where what was scored is added up; without one nothing is watched.
        watching: How it is watched.
        say: Told of alarms, and of what could not be done, in a line each.
        conversations: How many are remembered.
        seconds: How long they are remembered after their last message.
        models: Whom sources that are not live may ask about every reply; without them nobody is asked.
        limits: Words that are looked at, and the memory of all conversations together.
        mart: Where scores go that the board shows.
        every: Seconds between looks at the folder: a new evaluator takes over (`EvaluatorReloader`).

    Raises:
        BadInput: There is no such evaluator, or it cannot score live.
        UnknownName: It does not know the annotator.
    """
    folder = Path(evaluator)
    seen = folder_version(folder)
    scorer = LiveScorer(load_evaluator(folder), annotator, conversations, seconds, models=models, limits=limits)
    with ExitStack() as open_:
        log = None if out is None else open_.enter_context(RowLog(out))
        keep = None if log is None else log.write
        note: Note = (lambda found: None) if mart is None else _noting(scorer, open_.enter_context(mart.writer()), say)
        scheduler: MonitoringThread | None = None
        if store is None:
            ingestor = Ingestor(scorer, None, keep, note=note)
        else:
            watch = ScoreMonitor(_whose(scorer), scorer.columns)
            scheduler = open_.enter_context(_rounds(watch, store, watching or WatchConfig(), scorer, say))
            ingestor = Ingestor(scorer, watch, keep, partial(watch.flush, store), note)

        def take_over(found: Evaluator) -> None:
            prepared = scorer.prepared(found)
            ingestor.take_over(prepared)
            if scheduler is not None:
                scheduler.training = _learned(prepared)

        open_.enter_context(EvaluatorReloader(folder, seen, take_over, say, every))
        yield ingestor


def _noting(scorer: LiveScorer, writer: MartWriter, say: Say) -> Note:
    """Puts what was scored where the board sees it; that it cannot be written is said once, and scoring goes on."""
    origins: dict[Signature, RowOrigin] = {}  # another evaluator may take over
    told = set[str]()

    def origin_of(score: Score | Unscored) -> RowOrigin:
        if score.signature not in origins:
            evaluator = scorer.evaluator
            origin = RowOrigin.of(evaluator.name, evaluator.digest(), evaluator.question.id, LIVE_ROWS)
            origins[score.signature] = origin
        return origins[score.signature]

    def note(found: Sequence[tuple[Message, IngestResult]]) -> None:
        rows = [
            row
            for said, taken in found
            if (score := taken.score) is not None and not taken.again
            for row in origin_of(score).rows(score.to_json(), _facts(said), _now(), _asked(scorer, score))
        ]
        try:
            writer.write(rows)
        except StoreError as error:
            if str(error) not in told:
                say(f"the board does not see these scores: {error}")
            told.add(str(error))

    return note


def _facts(said: Message) -> ConversationFacts:
    return ConversationFacts(said.system, time=_now() if said.time is None else milliseconds(said.time.isoformat()))


def _now() -> int:
    return int(time.time() * 1000)


def _asked(scorer: LiveScorer, score: Score | Unscored) -> str | None:
    """The hash of what a first reply answers; of later ones it would take the longer the longer they are."""
    turn = score.target.turn
    known = scorer.conversation(score.target.conversation) if turn is not None and turn <= FIRST else None
    return None if known is None else input_of(known.turns, turn)


def _whose(scorer: LiveScorer) -> str:
    """Whose scores are comparable: what was learned, down to the last number, and for whom it speaks."""
    signature = scorer.signature.with_part("learned", scorer.evaluator.digest())
    return str(signature.with_part("for", scorer.speaker or POPULATION))


def _rounds(watch: ScoreMonitor, store: Store, config: WatchConfig, scorer: LiveScorer, say: Say) -> MonitoringThread:
    def alarm(found: Alarm) -> None:
        say(f"alarm: {found.message}")

    def trouble(reason: str) -> None:
        say(f"not done yet: {reason}")

    return MonitoringThread(watch, store, config.webhook, config.false_alarm_rate, _learned(scorer), alarm, trouble)


def _learned(scorer: LiveScorer) -> EvidenceTable | None:
    """The evidence of replies that its evaluator learned from."""
    head = scorer.evaluator.head
    seen = head.seen(EvidenceTable.from_rows(head.columns or (), {})) if scorer.evaluator.level == "turn" else None
    return None if seen is None else seen[0]  # means over a conversation are unlike a reply's own values
