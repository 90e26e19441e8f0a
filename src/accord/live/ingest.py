"""From messages to rows: each message is scored, monitored and saved; an invalid one does not affect the others."""

from __future__ import annotations

import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from accord.edges import AccordError, count_of, open_private, regular_size, sendable
from accord.evidence import EvidenceTable
from accord.learning import Evaluator, load_evaluator
from accord.live.messages import CONVERSATIONS, Message
from accord.live.monitoring import (
    MonitoredReply,
    MonitoringThread,
    ScoreMonitor,
    logged_values,
    recover,
)
from accord.live.scorer import SECONDS, IngestResult, LiveScorer
from accord.models import Models
from accord.project import LiveConfig, WatchConfig, Workspace, change_report, check_question
from accord.redaction import Redaction, Redactor
from accord.scoring import ConversationFacts, RowOrigin, input_of, milliseconds
from accord.store import COUNTED, Mart, MartWriter, MonitoringTables, Store, StoreError
from accord.values import LIVE_ROWS, POPULATION, Score, Signature, Unscored

if TYPE_CHECKING:
    from accord.decisions import BatchChange

EVALUATOR_FILE = "evaluator.json"
CHECK_SECONDS = 2.0
FolderVersion = tuple[tuple[str, int, int, int], ...]
"""Name, inode, modification time and size of each file."""


def folder_version(folder: Path) -> FolderVersion | None:
    """Return a value that changes with any file of an evaluator's folder; `None` if it holds no evaluator."""
    try:
        stats = {path.relative_to(folder).as_posix(): path.stat() for path in folder.rglob("*") if path.is_file()}
    except OSError:
        return None
    if EVALUATOR_FILE not in stats:
        return None
    return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()))


class EvaluatorReloader:
    """Thread that checks an evaluator's folder for changes; a context manager.

    A promotion on the lead's page, `accord fit`, or a folder renamed into place change the files. If the new evaluator
    cannot be loaded, or `use` raises an error, the current one stays in use; the error is reported once, and loading is
    tried again at each check, because a folder that is being copied becomes complete later.
    """

    def __init__(
        self,
        folder: Path,
        version: FolderVersion | None,
        use: Callable[[Evaluator], None],
        log: Callable[[str], None] = lambda text: None,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self.folder, self.use, self.log, self.seconds = folder, use, log, seconds
        self._version, self._reported = version, ""
        self._stop = Event()
        self._thread = Thread(target=self._run, name="reload", daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(self.seconds):
            self.check()

    def check(self) -> None:
        """Check the folder once."""
        version = folder_version(self.folder)
        if version is None or version == self._version:
            return
        try:
            evaluator = load_evaluator(self.folder)
            if folder_version(self.folder) != version:
                return  # the folder is being written
            self.use(evaluator)
        except (AccordError, OSError) as error:
            reason = str(error)
        except Exception as error:  # the current evaluator stays in use
            reason = f"{type(error).__name__}, which is a bug; please report it"
        else:
            self._version, self._reported = version, ""
            self.log(f"switched to a new evaluator: {evaluator.signature()}|learned:{evaluator.digest()}")
            return
        if reason != self._reported:
            self._reported = reason
            self.log(f"cannot switch to the new evaluator in {self.folder}, the current one stays in use: {reason}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


# --- hot reload ------------------------------------------------------------------------------------------------------


FIRST_TURNS = 3
"""Last turn with a hash of its input in the mart: replies to the same first messages are compared."""
MAX_UNSAVED = 10_000
"""Maximum number of rows that wait while the disk is full."""


LiveRow = dict[str, Any]
"""JSON object of one message: the fields of `ScoreRow` and those that `service.schemas.ROW` describes."""


class NewScore(NamedTuple):
    """A reply that was scored for the first time: its message, its result, its row, and its values for monitoring."""

    message: Message
    result: IngestResult
    row: LiveRow
    reply: MonitoredReply | None


class Sink(Protocol):
    """Receiver of live scores: the board, a file, a host, a collector of events."""

    def take(self, scorer: LiveScorer, new: Sequence[NewScore]) -> None:
        """Take the new scores of a batch of messages, which may be none, in the order in which they are counted.

        A sink other than a file waits for nothing and raises nothing. An error is raised by `Ingestor.take`, and the
        sinks after this one get nothing.
        """
        ...


class Ingestor:
    """Takes messages in from a service or a log follower; thread-safe.

    Args:
        scorer: Scores the replies.
        monitor: Aggregates the scores.
        sinks: Receive the scores before `take` returns; a file comes last.
        redactor: Redacts messages before anything else reads them; None leaves them as they are.
        store: Store of the monitor's aggregates.
        board: Receives the scores before they are counted.
    """

    monitoring: MonitoringThread | None = None

    def __init__(
        self,
        scorer: LiveScorer,
        monitor: ScoreMonitor | None = None,
        sinks: Sequence[Sink] = (),
        redactor: Redactor | None = None,
        store: Store | None = None,
        board: BoardSink | None = None,
    ) -> None:
        self._redactor, self._redactions = redactor, OrderedDict[str, Redaction]()
        self.scorer, self.monitor, self.sinks, self._store, self._board = scorer, monitor, sinks, store, board
        self._first = None if monitor is None else monitor.evaluator
        self._later: dict[Signature, str] = {}  # evaluators that took over, by the signature of their scores
        self._lock = Lock()

    @property
    def change(self) -> BatchChange | None:
        """Change of the latest batch of scores, as the last check found it."""
        return None if self.monitoring is None else self.monitoring.change

    def take(self, batch: Sequence[Message]) -> list[LiveRow]:
        """Return a row per message, in order; `status` is `scored`, `unscored`, or `heard` if it is not a reply."""
        batch = self.redacted(batch)
        results = self.scorer.take(batch)
        rows = list(map(_row, batch, results))
        with self._lock:
            new = [
                NewScore(message, result, row, self._monitored(message, result))
                for message, result, row in zip(batch, results, rows, strict=True)
                if is_new_score(row)
            ]
            if self._board is not None:  # a log has the replies in the order in which they are counted
                self._board.take(self.scorer, new)
            if self.monitor is not None:
                replies = [each.reply for each in new if each.reply is not None]
                self.monitor.add_all(replies, None if self._board is None else self._board.place)
            for sink in self.sinks:
                sink.take(self.scorer, new)
        return rows

    def settle(self, position: tuple[str, str] | None = None) -> None:
        """Write the monitor's aggregates to the store, with the position in a log that they count up to."""
        if self.monitor is not None and self._store is not None:
            self.monitor.flush(self._store, position)

    def position(self, key: str) -> str | None:
        """Return the JSON of the position that was settled last, by its key."""
        return None if self._store is None else MonitoringTables(self._store).position(key)

    def _monitored(self, message: Message, result: IngestResult) -> MonitoredReply | None:
        """Return a new reply as the monitor counts it, or `None` for a message that it does not count."""
        if result.score is None or result.evidence is None:
            return None
        evaluator = self._later.get(result.score.signature, self._first)
        return MonitoredReply(message.system, message.day, result.score, result.evidence, evaluator)

    def redacted(self, batch: Sequence[Message]) -> list[Message]:
        """Return messages with placeholders; a value keeps its placeholder while the conversation is remembered."""
        if self._redactor is None:
            return list(batch)
        with self._lock:
            return [self._redacted(message) for message in batch]

    def _redacted(self, message: Message) -> Message:
        assert self._redactor is not None
        redaction = self._redactions.pop(message.conversation, None) or self._redactor.begin()
        self._redactions[message.conversation] = redaction
        while len(self._redactions) > CONVERSATIONS:
            self._redactions.popitem(last=False)
        redaction.reserve(message.content, *(message.documents or ()))
        documents = None if message.documents is None else tuple(map(redaction.text, message.documents))
        return replace(message, content=redaction.text(message.content), documents=documents)

    def take_over(self, prepared: LiveScorer) -> None:
        """Switch to another evaluator; its scores are monitored separately."""
        signature = prepared.signature.with_part("learned", prepared.evaluator.digest())
        if self.monitor is not None:
            evaluator = str(signature.with_part("for", prepared.speaker or POPULATION))
            with self._lock:
                self._later[signature] = evaluator
            self.monitor.take_over(evaluator, prepared.columns)
        self.scorer.take_over(prepared)


def _row(message: Message, result: IngestResult) -> LiveRow:
    row: LiveRow = {"status": "heard", "id": message.id, "system": message.system, "conversation": message.conversation}
    if result.score is not None:
        row |= {"status": "scored" if isinstance(result.score, Score) else "unscored", **result.score.to_json()}
    elif result.warning:
        row["warning"] = result.warning
    return {**row, "again": True} if result.again else row


def is_new_score(row: LiveRow) -> bool:
    """Return True for the row of a reply that is not repeated."""
    return row["status"] != "heard" and not row.get("again")


def timed_out_row(message: Message, reason: str) -> LiveRow:
    """Return the row of a message that timed out before it was taken in."""
    return {
        "status": "unscored", "id": message.id, "system": message.system, "conversation": message.conversation,
        "unscored": reason, "taken": False,
    }  # fmt: skip


def refused_row(reason: str, value: Any = None) -> LiveRow:
    """Return the row of an invalid message, with its ids if it has any."""
    fields = value if isinstance(value, Mapping) else {}
    ids = {name: fields[name] for name in ("id", "conversation") if isinstance(fields.get(name), str)}
    return {"status": "refused", **{name: sendable(text)[:512] for name, text in ids.items()}, "error": reason}


class RowLog:
    """A file of JSON lines to which rows are appended durably.

    Raises:
        BadInput: The file is a folder, a pipe or a device.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            regular_size(path)
        is_torn = path.exists() and path.stat().st_size > 0 and not _ends_a_line(path)
        self._stream = open_private(path, "ab", buffering=0)
        self._unsaved: list[LiveRow] = []
        if is_torn:
            self._stream.write(b"\n")  # a process was killed while writing a row

    def take(self, scorer: LiveScorer, new: Sequence[NewScore]) -> None:
        """Append the rows of new scores; rows that could not be written come first at the next call."""
        self._unsaved = [*self._unsaved, *(each.row for each in new)][-MAX_UNSAVED:]
        self.write(self._unsaved)
        self._unsaved = []

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows, all or none, and flush them to the disk."""
        if not rows:
            return
        file, content = self._stream.fileno(), "".join(json.dumps(row) + "\n" for row in rows).encode()
        before = os.fstat(file).st_size
        try:
            while content:
                content = content[self._stream.write(content) or 0 :]
            os.fsync(file)
        except OSError:
            os.ftruncate(file, before)
            raise

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self._stream.fileno()).st_size

    def after(self, size: int) -> Iterator[LiveRow]:
        """Yield the rows after a position; incomplete lines are skipped."""
        with self.path.open("rb") as stream:
            stream.seek(size)
            for line in stream:
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    yield row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


Log = Callable[[str], None]


@dataclass(frozen=True)
class LiveContext:
    """Parts of a project that live scoring uses.

    Attributes:
        store: Store of the monitoring data; None turns monitoring off.
        mart: Mart that receives the scores for the board.
        models: Models that may be asked about every reply; None sends no requests.
        watching: Settings of the monitoring.
        limits: Limits on words per message and on memory.
        redactor: Redacts messages before they are scored and stored; None leaves them as they are.
        check: Called with each evaluator before it scores; raises `BadInput` to refuse it.
        check_batches: Compares the latest batch of an evaluator's scores with the earlier ones; returns the change, and
            True if it raised a new alarm. None checks no batches.
    """

    store: Store | None = None
    mart: Mart | None = None
    models: Models | None = None
    watching: WatchConfig = field(default_factory=WatchConfig)
    limits: LiveConfig | None = None
    redactor: Redactor | None = None
    check: Callable[[Evaluator], object] = lambda evaluator: None
    check_batches: Callable[[Evaluator], tuple[BatchChange | None, bool]] | None = None

    @classmethod
    def of(cls, project: Workspace, monitoring: bool = True, ask: bool = False) -> LiveContext:
        """Return the parts of a project.

        Args:
            project: The project.
            monitoring: True to aggregate scores in the store and to show them on the board.
            ask: True to let sources that are not live send requests.
        """
        config = project.config
        return cls(
            project.store if monitoring else None, project.mart if monitoring else None,
            project.models if ask else None, config.monitoring, config.live, config.privacy.redactor("import"),
            lambda loaded: check_question(project.store, project.rubric, loaded),
            lambda evaluator: change_report(project, used=evaluator),
        )  # fmt: skip


@contextmanager
def open_ingestor(
    evaluator: str | Path,
    annotator: str | None = None,
    context: LiveContext = LiveContext(),
    sinks: Sequence[Sink] = (),
    log: Log = lambda text: None,
    conversations: int = CONVERSATIONS,
    seconds: float = SECONDS,
    every: float = CHECK_SECONDS,
    follows: bool = False,
) -> Iterator[Ingestor]:
    """Open an ingestor for a fitted evaluator.

    Args:
        evaluator: Folder of the evaluator.
        annotator: Annotator whose answers are predicted; None predicts a new annotator.
        context: Parts of the project.
        sinks: Receivers of the scores, besides the board; a file comes last.
        log: Called with one line per alarm or problem.
        conversations: Maximum number of remembered conversations.
        seconds: Seconds that a conversation is remembered after its last message.
        every: Seconds between checks for a new evaluator in the folder (`EvaluatorReloader`).
        follows: True if a `LogFollower` of a file settles the monitoring data, each time with its position.

    Raises:
        BadInput: The folder holds no evaluator, or it cannot score live.
        UnknownName: The evaluator has not learned the annotator.
    """
    folder, store, mart = Path(evaluator), context.store, context.mart
    version = folder_version(folder)
    loaded = load_evaluator(folder)
    context.check(loaded)
    scorer = LiveScorer(loaded, annotator, conversations, seconds, models=context.models, limits=context.limits)
    with ExitStack() as stack:
        monitor: ScoreMonitor | None = None
        if store is not None:
            signature = scorer.signature.with_part("learned", scorer.evaluator.digest())
            monitor = ScoreMonitor(str(signature.with_part("for", scorer.speaker or POPULATION)), scorer.columns)
        board: BoardSink | None = None
        if mart is not None:
            if store is not None:
                _recover(store, mart, log)
            logged = None if follows else monitor  # a follower counts again from its own position
            settles = store is not None and logged is not None
            writer = mart.writer(lambda: ingestor.settle() if settles else None)
            board = BoardSink(writer, log, logged)
            if store is not None:
                stack.callback(_forget, store, mart, board.logs)
            stack.enter_context(writer)
        ingestor = Ingestor(scorer, monitor, sinks, context.redactor, store, board)
        thread: MonitoringThread | None = None
        if store is not None and monitor is not None:
            watching, training, check = context.watching, _training_evidence(scorer), context.check_batches
            thread = stack.enter_context(
                MonitoringThread(
                    monitor, store, watching.webhook, watching.false_alarm_rate, training, log,
                    flushes=not follows, mart=mart,
                    check_batches=None if check is None else lambda: check(ingestor.scorer.evaluator),
                )
            )  # fmt: skip
            ingestor.monitoring = thread

        def take_over(new_evaluator: Evaluator) -> None:
            context.check(new_evaluator)
            prepared = scorer.prepared(new_evaluator)
            ingestor.take_over(prepared)
            if thread is not None:
                thread.training = _training_evidence(prepared)

        stack.enter_context(EvaluatorReloader(folder, version, take_over, log, every))
        yield ingestor


def _recover(store: Store, mart: Mart, log: Log) -> None:
    """Count the replies of processes that were killed; after a failure, the next start does."""
    try:
        if count := recover(store, mart):
            log(f"counted now: {count_of(count, 'score')} of a process that was killed")
    except (StoreError, OSError) as error:
        log(f"the replies of processes that were killed are not counted yet: {error}")


def _forget(store: Store, mart: Mart, logs: set[str]) -> None:
    """Delete the positions in logs that became parts."""
    with suppress(StoreError):
        MonitoringTables(store).drop_positions([log for log in logs if not (mart.folder / f"{log}.jsonl").exists()])


class BoardSink:
    """Writes scores to the mart; each kind of failure is logged once, and scoring goes on.

    With a monitor, rows have the values that it counts, from which they are counted if the process is killed.
    """

    def __init__(self, writer: MartWriter, log: Log, monitor: ScoreMonitor | None) -> None:
        self.logs = set[str]()
        """Names of the logs whose size was read."""
        self._writer, self._log, self._monitor = writer, log, monitor
        self._origins: dict[Signature, RowOrigin] = {}  # by signature, since another evaluator may take over
        self._logged = set[str]()
        self._named = set[tuple[str, str]]()  # logs and evaluators whose columns are written

    @property
    def place(self) -> tuple[str, str] | None:
        """Name and size of the log with all replies so far, if the monitor counts them; see `ScoreMonitor.add_all`."""
        if self._monitor is None or (place := self._writer.place) is None:
            return None
        self.logs.add(place[0])
        return place[0], str(place[1])

    def take(self, scorer: LiveScorer, new: Sequence[NewScore]) -> None:
        """Write new scores."""
        if not new:
            return
        try:
            name, rows = self._writer.prepare(), []
            for each in new:
                score, message = each.result.score, each.message
                assert score is not None
                if score.signature not in self._origins:
                    used = scorer.evaluator
                    origin = RowOrigin.of(used.name, used.digest(), used.question.id, LIVE_ROWS)
                    self._origins[score.signature] = origin
                moment = _now() if message.time is None else milliseconds(message.time.isoformat())
                facts = ConversationFacts(message.system, time=moment)
                made = self._origins[score.signature].rows(score.to_json(), facts, _now(), _input(scorer, score))
                main, *others = made
                rows += [{**main, **self._counted(name, each.reply)}, *others]
            self._writer.write(rows)
        except StoreError as error:
            if str(error) not in self._logged:
                self._log(f"the board does not show these scores: {error}")
            self._logged.add(str(error))

    def _counted(self, name: str, reply: MonitoredReply | None) -> dict[str, Any]:
        if self._monitor is None or reply is None:
            return {}
        evaluator = reply.evaluator or self._monitor.evaluator
        is_first = (name, evaluator) not in self._named
        self._named.add((name, evaluator))
        return {COUNTED: logged_values(reply, evaluator, self._monitor.columns_of(evaluator), is_first)}


def _now() -> int:
    return int(time.time() * 1000)


def _input(scorer: LiveScorer, score: Score | Unscored) -> str | None:
    """Return the hash of the input of a first reply; hashing the input of later ones would take ever longer."""
    turn = score.target.turn
    if turn is None or turn > FIRST_TURNS:
        return None
    conversation = scorer.conversation(score.target.conversation)
    return None if conversation is None else input_of(conversation.turns, turn)


def _training_evidence(scorer: LiveScorer) -> EvidenceTable | None:
    """Return the evidence of the training replies, or `None` for conversations, whose means differ from replies."""
    head = scorer.evaluator.head
    columns = EvidenceTable.from_rows(head.columns or (), {})
    seen = head.seen(columns) if scorer.evaluator.level == "turn" else None
    return None if seen is None else seen[0]
