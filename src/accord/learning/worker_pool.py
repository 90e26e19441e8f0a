"""Work that several processes share: this one takes the first piece that is left, each beside it the last."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from subprocess import PIPE, Popen
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

import cloudpickle

from accord.edges import BadInput, whole_number

ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
}
"""A process beside others has one core: its libraries need not fight for the rest."""
MOST = 4
"""So many processes work at the same time where nobody says how many: each has a copy of what it works on."""
IMPORTS = ("accord.learning.fitting", "accord.learning.calibration", "scipy.sparse.linalg", "sklearn.svm")
"""What learning imports late, and takes a second for."""
_BEGIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from accord.learning.worker_pool import serve; serve()"
)

K = TypeVar("K")
T = TypeVar("T")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processes(given: int | None) -> int:
    told = os.environ.get("ACCORD_JOBS", "") if given is None else str(given)
    if not told:
        return min(cores(), MOST)
    number = whole_number(told)
    if not number:
        raise BadInput(f"{'ACCORD_JOBS' if given is None else 'jobs'} is a number of processes from 1 on, got {told!r}")
    return number


class AtOnce:
    """Processes beside this one, which begin when it is made: where there is work, they have imported what it takes.

    They are fresh ones: threads of this one may hold any lock, and a script that calls it needs no
    `if __name__ == "__main__"`. Use it in a `with`, at whose end they are gone. They also end where this process does.

    Args:
        processes: How many work at the same time, this one among them; by default one a core, at most `MOST`, or
            ACCORD_JOBS.
        imports: Modules that the work takes.

    Raises:
        BadInput: That is no number of processes.
    """

    def __init__(self, processes: int | None = None, imports: Sequence[str] = IMPORTS) -> None:
        self.is_named = processes is not None
        self._beside = list[_Beside]()
        with suppress(OSError):  # the machine lets none begin any more
            for _ in range(_processes(processes) - 1):
                self._beside.append(_Beside(imports))
        self.processes = 1 + len(self._beside)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the processes beside this one, which does all that comes now."""
        for each in self._beside:
            each.end()
        self._beside, self.processes = [], 1

    def __call__(
        self,
        work: Callable[[K], T],
        pieces: Sequence[K],
        on_begin: Callable[[K], None] = lambda piece: None,
    ) -> list[T]:
        """What the work makes of each piece, in their order.

        Each process is sent the work once, with all that it needs. What cannot be done beside this one is done here:
        work that cannot be sent, what a process that was killed was at, an error, which is then raised as if there were
        one process. `on_begin` is told what this process begins with.
        """
        work_sent = sent(work) if self._beside and len(pieces) > 1 else None
        shared = _Round(pieces, work_sent or b"")
        for each in self._beside if work_sent else ():
            each.rounds.put(shared)
        found = dict[int, T]()
        while (place := shared.take(first=True)) is not None:
            on_begin(pieces[place])
            found[place] = work(pieces[place])
        while len(found) < len(pieces):  # under way elsewhere
            place, answer = shared.done.get()
            found[place] = work(pieces[place]) if answer is None else answer[0]
        return [found[place] for place in range(len(pieces))]


def sent(work: Callable[..., Any]) -> bytes | None:
    """The work as another process reads it; `None` where it cannot be sent."""
    try:
        return bytes(cloudpickle.dumps(work))
    except Exception:  # whatever holds a lock, a file or a connection: this process does all of it
        return None


class _Round:
    """One call: the places of the pieces that are left, and what became of those that another process took."""

    def __init__(self, pieces: Sequence[Any], work: bytes) -> None:
        self.pieces, self.work, self._left = pieces, work, deque(range(len(pieces)))
        self.done = SimpleQueue[tuple[int, tuple[Any] | None]]()

    def take(self, first: bool = False) -> int | None:
        """The place of the first piece that is left, or of the last; `None` where there is none."""
        try:
            return self._left.popleft() if first else self._left.pop()
        except IndexError:
            return None


class _Beside:
    """A process beside this one, and the thread that gives it what is left once it is ready."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._process = Process(imports)
        self.rounds = SimpleQueue[_Round | None]()
        self._thread = Thread(target=self._hand_out, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._process.kill()
        self.rounds.put(None)
        self._thread.join()
        self._process.end()

    def _hand_out(self) -> None:
        shared, place = None, None
        try:
            self._process.begin()
            while (shared := self.rounds.get()) is not None:
                self._process.take_up(shared.work)
                while (place := shared.take()) is not None:
                    shared.done.put((place, (self._process.ask(shared.pieces[place]),)))
        except Exception:  # whatever it is, the process that is asked meets it again, where it can be told
            if shared is not None and place is not None:
                shared.done.put((place, None))


class Ended(Exception):
    """A process beside this one is no more."""


class Process:
    """A fresh process of Python beside this one, which is sent work once and then asked for pieces of it.

    Args:
        imports: Modules that it begins with.
    """

    def __init__(self, imports: Sequence[str]) -> None:
        # A session of its own: an interruption from the keyboard is for this process to answer.
        self._child = Popen(
            [sys.executable, "-c", _BEGIN, json.dumps(sys.path), *imports], stdin=PIPE, stdout=PIPE,
            env={**os.environ, **ONE_THREAD}, start_new_session=True,
        )  # fmt: skip
        assert self._child.stdin is not None and self._child.stdout is not None
        self._to, self._from, self._is_ready = self._child.stdin, self._child.stdout, False

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.pid

    def begin(self) -> None:
        """Wait until it is ready for work.

        Raises:
            Ended: It is no more.
        """
        if not self._is_ready:
            self._is_ready = self._heard()

    def take_up(self, work: bytes) -> None:
        """Send what is done with each piece from here on, as `sent` gives it."""
        self._say(cloudpickle.dumps(None) + work)

    def ask(self, piece: Any) -> Any:
        """What the work makes of a piece.

        Raises:
            Ended: It was killed, or the work raised something.
        """
        self.begin()
        self._say(cloudpickle.dumps((piece,)))
        return self._heard()

    def kill(self) -> None:
        """End it at once: it holds nothing that is lost, and its own end would take a third of a second."""
        self._child.kill()

    def end(self) -> None:
        """The same, and wait until it is gone; nobody may be asking it any more."""
        self.kill()
        with suppress(BrokenPipeError), self._child:  # closes what leads to it
            pass

    def _say(self, said: bytes) -> None:
        try:
            self._to.write(said)
            self._to.flush()
        except OSError:
            raise Ended from None

    def _heard(self) -> Any:
        try:
            return cloudpickle.load(self._from)
        except Exception:  # whatever its last words were
            raise Ended from None


# --- beside ---------------------------------------------------------------------------------------------------------


def serve() -> None:
    """What a process beside another does: work on what comes in, until nothing can come any more."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what the work prints is no answer
        coming = SimpleQueue[Any]()
        Thread(target=_read, args=(coming,), daemon=True).start()
        try:
            for module in sys.argv[2:]:
                import_module(module)
            cloudpickle.dump(True, out)  # ready
            work: Any = None
            while True:
                out.flush()
                while (piece := coming.get()) is None:
                    work = coming.get()  # from here on
                cloudpickle.dump(work(*piece), out)
        except Exception:
            os._exit(1)


def _read(coming: SimpleQueue[Any]) -> None:
    """Take what comes in; end where it cannot be read, also in the middle of work: whoever sent it is gone."""
    try:
        while True:
            coming.put(cloudpickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)
