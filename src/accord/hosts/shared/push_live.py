"""Sending live scores of `accord serve` and `accord follow` to hosts.

Scoring hands its rows to a bounded queue and never waits. A thread per host writes them to a spool, sends them, and
removes them from the spool when the host has confirmed them. While a host is down, scores wait in the spool, also over
a restart of the process. Several processes may share a spool: the host keeps one score if two processes send it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from accord.edges import MB, AccordError, check_address, read_text, write_atomically
from accord.hosts.shared.push import HostScore, HostSender, host_named, host_score
from accord.hosts.shared.push_file import live_place
from accord.project import config_sections
from accord.store import batches
from accord.verbs import Project

if TYPE_CHECKING:
    from accord.live import LiveScorer, NewScore

Row = Mapping[str, Any]
Log = Callable[[str], None]
MAX_QUEUED, MAX_FILES, BATCH_ROWS = 10_000, 2_000, 100
"""Maximum numbers of rows that wait in memory, of files of a spool, and of rows of a file."""
GATHER_SECONDS, STOP_SECONDS = 0.5, 10.0
"""Seconds in which rows of one request are gathered, and for the last requests when the process stops."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds after which a host that is down is asked again, doubled each time."""


class LivePusher:
    """Thread that sends live scores to one host; a context manager. Its errors never reach the caller.

    Args:
        name: Name of the host.
        settings: Its settings.
        spool: Folder of scores that the host has not confirmed.
        label: Name of the scores.
        log: Called with one line per kind of problem.
        first_pause: Seconds after which a host that is down is asked again.

    Raises:
        BadInput: A setting is missing.
        NotSent: A project names the address, and the user has not confirmed it.
    """

    def __init__(
        self,
        name: str,
        settings: config_sections.HostConfig,
        spool: Path,
        label: str,
        log: Log,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self.name, self.spool, self.log = name, spool, log
        self._settings, self._label, self._host = settings, label, host_named(name)
        self._stop = Event()
        self._sender = HostSender(name, settings, self._stop, attempts=2)
        self._queue: Queue[Row] = Queue(MAX_QUEUED)
        self._pause, self._first_pause, self._ask_at = first_pause, first_pause, 0.0
        self._logged = set[str]()
        self._thread = Thread(target=self._run, name=f"push-{name}", daemon=True)

    def take(self, scorer: LiveScorer, new: Sequence[NewScore]) -> None:
        """Take the rows of new scores, see `add`."""
        self.add([each.row for each in new])

    def add(self, rows: Sequence[Row]) -> None:
        """Take rows of replies without waiting; rows beyond `MAX_QUEUED` are dropped with a message."""
        for row in rows:
            try:
                self._queue.put_nowait(row)
            except Full:
                self._log_once(
                    f"{self.name}: more than {MAX_QUEUED:,} scores wait to be sent, and further ones are dropped. Send "
                    f"them later: accord push --to {self.name} ROWS, with the file of --out"
                )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._attempt(self._round)
        self._attempt(lambda: self._keep(self._gathered(0.0)))

    def _attempt(self, work: Callable[[], None]) -> None:
        """Call a function and report its error, so that the thread never ends by itself."""
        try:
            work()
        except (AccordError, OSError) as error:
            self._log_once(f"{self.name}: scores were not sent: {error}")
            self._stop.wait(1.0)
        except Exception as error:
            self._log_once(f"{self.name}: scores were not sent: {type(error).__name__}, a bug; please report it")
            self._stop.wait(1.0)

    def _round(self) -> None:
        """Spool the rows that have arrived, and send the oldest files of the spool while the host answers."""
        self._keep(self._gathered(GATHER_SECONDS))
        if time.monotonic() < self._ask_at:
            return
        for file in self._files():
            if self._stop.is_set() or not self._send(file):
                return
            if not self._queue.empty():
                return

    def _gathered(self, seconds: float) -> list[Row]:
        """Return the rows of the queue, after waiting for the first one."""
        rows: list[Row] = []
        with suppress(Empty):
            rows.append(self._queue.get(timeout=seconds) if seconds else self._queue.get_nowait())
            while len(rows) < MAX_QUEUED:
                rows.append(self._queue.get_nowait())
        return rows

    def _keep(self, rows: Sequence[Row]) -> None:
        """Write the scores of rows to files of the spool; rows without a score have nothing to send."""
        now, scores = datetime.now(UTC).isoformat(timespec="seconds"), dict[str, HostScore]()
        for row in rows:
            score = host_score(row, live_place(self._settings, self._host, str(row["conversation"]), now), self._label)
            reason = score if isinstance(score, str) else self._host.problem(score)
            if isinstance(score, HostScore) and reason is None:
                scores[score.id] = score
            elif not str(reason).startswith("unscored"):
                self._log_once(f"{self.name}: a score was not sent: {reason}")
        for batch in batches(scores.values(), BATCH_ROWS):
            if len(self._files()) >= MAX_FILES:
                self._log_once(f"{self.name}: the spool {self.spool} is full, and further scores are dropped")
                return
            self.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
            lines = "".join(json.dumps(asdict(score)) + "\n" for score in batch)
            write_atomically(self.spool / f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}.jsonl", lines)

    def _files(self) -> list[Path]:
        return sorted(self.spool.glob("*.jsonl"))

    def _send(self, file: Path) -> bool:
        """Send the scores of a file and remove it; return False if the host is down."""
        try:
            scores = [HostScore(**json.loads(line)) for line in read_text(file, 16 * MB).splitlines()]
        except FileNotFoundError:  # another process has sent it
            return True
        except (ValueError, TypeError, RecursionError):
            file.replace(file.with_suffix(".damaged"))
            self._log_once(f"{self.name}: {file.with_suffix('.damaged')} holds no scores and was not sent")
            return True
        self._sender.problem = None
        for kind in sorted({score.kind for score in scores}):
            of_kind = [score for score in scores if score.kind == kind]
            for batch in batches(of_kind, self._sender.batch_size):
                sent = self._sender.send(batch)
                for _, reason in sent.refused:
                    self._log_once(f"{self.name}: a score was {reason}")
                if sent.left:
                    self._back_off()
                    return False
        file.unlink(missing_ok=True)
        self._pause = self._first_pause
        self._logged.discard(self._down)
        return True

    @property
    def _down(self) -> str:
        return f"{self.name} does not take scores; they wait in {self.spool} and are sent later"

    def _back_off(self) -> None:
        if self._stop.is_set():
            return
        self._log_once(self._down, f" ({self._sender.problem})")
        self._ask_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _log_once(self, text: str, more: str = "") -> None:
        if text not in self._logged:
            self._logged.add(text)
            self.log(text + more)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and self._ask_at == 0.0 and not (self._queue.empty() and not self._files()):
            time.sleep(0.05)
        self._stop.set()
        self._thread.join(STOP_SECONDS)


@contextmanager
def live_pushers(project: Project, log: Log) -> Iterator[list[LivePusher]]:
    """Yield a sink of live scores for each host of `push:` with `live`.

    A host without a key, or at an address that was not confirmed, is reported and left out.
    """
    with ExitStack() as stack:
        pushers = []
        for name, settings in project.config.push.hosts.items():
            if not settings.live:
                continue
            spool = project.config.folder / config_sections.PUSH_SPOOL / name
            try:
                check_address(str(spool))  # it may be a link to other files
                pusher = LivePusher(name, settings, spool, settings.name or project.question.id, log)
            except AccordError as error:
                log(f"live scores are not sent to {name}: {error}")
                continue
            pushers.append(stack.enter_context(pusher))
            log(f"live scores are sent to {name}")
        yield pushers
