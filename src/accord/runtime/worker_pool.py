"""Pool of worker processes. The main process takes pieces of work from the front, the workers from the back.

Workers are fresh Python processes, so that no lock of this process is copied and scripts need no `if __name__ ==
"__main__"`. Work is sent by cloudpickle.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE, Popen
from threading import Thread, local
from types import TracebackType
from typing import Any, Self, TypeVar

import cloudpickle

from accord.edges import AccordError, BadInput, Noted, accept_trust, noted_trust, parse_whole_number
from accord.values import load_plugins, note_plugins, noted_plugins

PYTHON = (sys.executable, "-P")
"""Command that starts a Python process of ours; without -P, a file such as `json.py` in the working folder, which may
hold a project of another person, would replace the module of that name."""
ONE_THREAD = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
}
"""Environment that restricts the libraries of a worker to its own core."""
MOST = 4
"""Default limit of processes: each holds a copy of the data."""
IMPORTS = (
    "accord.learning.experiment",
    "accord.learning.calibration.heads",
    "scipy.sparse.linalg",
)
"""Modules that learning imports late and that take a second to load."""
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from accord.runtime.worker_pool import serve; serve()"
)

K = TypeVar("K")
T = TypeVar("T")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _process_count(given: int | None) -> int:
    text = os.environ.get("ACCORD_JOBS", "") if given is None else str(given)
    if not text:
        return min(cores(), MOST)
    number = parse_whole_number(text)
    if not number:
        raise BadInput(
            f"{'ACCORD_JOBS' if given is None else 'jobs'} must be a number of processes from 1, got {text!r}"
        )
    return number


class WorkerPool:
    """Worker processes that start when the pool is made, so that their imports are done before the first work.

    Use it in a `with` statement, which ends the workers. They also end when this process ends.

    Args:
        processes: Number of processes, this one included; None takes ACCORD_JOBS, or one per core and at most `MOST`.
        imports: Modules that the work needs.

    Raises:
        BadInput: The number of processes is not a whole number from 1.
    """

    def __init__(self, processes: int | None = None, imports: Sequence[str] = IMPORTS) -> None:
        self.is_explicit = processes is not None
        self._workers = list[_WorkerThread]()
        with suppress(OSError):  # the system refuses further processes
            for _ in range(_process_count(processes) - 1):
                self._workers.append(_WorkerThread(imports))
        self.processes = 1 + len(self._workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; this process does all later work itself."""
        for worker in self._workers:
            worker.close()
        self._workers, self.processes = [], 1

    def __call__(
        self,
        work: Callable[[K], T],
        pieces: Sequence[K],
        on_begin: Callable[[K], None] = lambda piece: None,
    ) -> list[T]:
        """Return the result of the work for each piece, in order.

        Each worker receives the work once. This process does what workers cannot: work that cannot be pickled, the
        piece of a worker that was killed, and a piece that raised an error, which is then raised here.

        Args:
            work: Function of one piece.
            pieces: Pieces of work.
            on_begin: Called with each piece that this process begins.
        """
        payload = pickled(work) if self._workers and len(pieces) > 1 else None
        batch = _PoolCall(pieces, payload or b"")
        for worker in self._workers if payload else ():
            worker.batches.put(batch)
        results = dict[int, T]()
        while (place := batch.take(first=True)) is not None:
            on_begin(pieces[place])
            results[place] = work(pieces[place])
        while len(results) < len(pieces):
            place, answer = batch.done.get()
            results[place] = work(pieces[place]) if answer is None else answer[0]
        return [results[place] for place in range(len(pieces))]


def pickled(work: Callable[..., Any]) -> bytes | None:
    """Return the work as bytes, or `None` if it cannot be pickled."""
    try:
        return _dumped(work)
    except Exception:  # anything that holds a lock, a file or a connection
        return None


def _dumped(work: Callable[..., Any]) -> bytes:
    """Return the work as bytes, with the plug-ins and what needs trust in the projects that this process has opened."""
    return bytes(cloudpickle.dumps(_Packed(noted_plugins(), noted_trust(), bytes(cloudpickle.dumps(work)))))


@dataclass(frozen=True)
class _Packed:
    """Work that is unpickled after plug-ins are loaded, as it may hold their functions and classes."""

    plugins: Sequence[tuple[str, str]]
    trust: Noted
    data: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self.plugins, self.trust, self.data)


def _unpacked(plugins: Sequence[tuple[str, str]], trust: Noted, data: bytes) -> Any:
    accept_trust(trust)
    names: dict[str, list[str]] = {}
    for folder, name in plugins:
        names.setdefault(folder, []).append(name)
    for folder, each in names.items():
        note_plugins(Path(folder), each)
        with suppress(AccordError):  # the lookup of a plug-in reports it
            load_plugins()
    return cloudpickle.loads(data)


class _PoolCall:
    """One call of the pool: pieces that are left, and results of the workers."""

    def __init__(self, pieces: Sequence[Any], work: bytes) -> None:
        self.pieces, self.work, self._left = pieces, work, deque(range(len(pieces)))
        self.done = SimpleQueue[tuple[int, tuple[Any] | None]]()

    def take(self, first: bool = False) -> int | None:
        """Return the index of the first or the last remaining piece, or `None` if all pieces are taken."""
        try:
            return self._left.popleft() if first else self._left.pop()
        except IndexError:
            return None


class _WorkerThread:
    """A worker and the thread that hands it pieces."""

    def __init__(self, imports: Sequence[str]) -> None:
        self._worker = Worker(imports)
        self.batches = SimpleQueue[_PoolCall | None]()
        self._thread = Thread(target=self._hand_out, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._worker.kill()
        self.batches.put(None)
        self._thread.join()
        self._worker.close()

    def _hand_out(self) -> None:
        batch, place = None, None
        try:
            self._worker.wait_until_ready()
            while (batch := self.batches.get()) is not None:
                self._worker.send_work(batch.work)
                while (place := batch.take()) is not None:
                    batch.done.put((place, (self._worker.ask(batch.pieces[place]),)))
        except Exception:  # the main process repeats the piece, which raises the error there
            if batch is not None and place is not None:
                batch.done.put((place, None))


class WorkerLost(Exception):
    """A worker process has ended."""


class Worker:
    """A fresh Python process that receives a function and then computes it for pieces of work.

    Args:
        imports: Modules to import at the start.
        memory: Largest address space in bytes, if the platform can limit it; the process ends if it needs more, and
            its standard error is dropped. `None` sets no limit.
    """

    def __init__(self, imports: Sequence[str], memory: int | None = None) -> None:
        # A session of its own, on Windows a process group, keeps keyboard interrupts away from the worker.
        self._child = Popen(
            [*PYTHON, "-c", _START, json.dumps(sys.path), str(memory or 0), *imports], stdin=PIPE, stdout=PIPE,
            stderr=None if memory is None else subprocess.DEVNULL, env={**os.environ, **ONE_THREAD},
            start_new_session=True, creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )  # fmt: skip
        assert self._child.stdin is not None and self._child.stdout is not None
        self._to, self._from, self._is_ready = self._child.stdin, self._child.stdout, False

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def wait_until_ready(self) -> None:
        """Wait until the imports are done.

        Raises:
            WorkerLost: The process has ended.
        """
        if not self._is_ready:
            self._is_ready = self._receive()

    def send_work(self, work: bytes) -> None:
        """Send the function for all later pieces, as `pickled` returns it."""
        self._send(cloudpickle.dumps(None) + work)

    def ask(self, piece: Any) -> Any:
        """Return the result of the work for a piece.

        Raises:
            WorkerLost: The process was killed, or the work raised an error.
        """
        self.wait_until_ready()
        self._send(cloudpickle.dumps((piece,)))
        return self._receive()

    def kill(self) -> None:
        """Kill the process without waiting; a normal exit would take a third of a second."""
        self._child.kill()

    def close(self) -> None:
        """Kill the process and wait for its end; no other thread may use the worker any more."""
        self.kill()
        with suppress(BrokenPipeError), self._child:  # closes the pipes
            pass

    def _send(self, data: bytes) -> None:
        try:
            self._to.write(data)
            self._to.flush()
        except OSError:
            raise WorkerLost from None

    def _receive(self) -> Any:
        try:
            return cloudpickle.load(self._from)
        except Exception:  # a killed process may leave any bytes
            raise WorkerLost from None


class WorkerThreads:
    """Threads that each hand pieces of work to a worker process of their own; a context manager that ends them.

    Unlike a `WorkerPool`, this process does no work itself, and the results can be read as they arrive.

    Args:
        work: Function of one piece.
        count: Number of workers; each starts with its first piece.
        imports: Modules that the work needs.
        attempts: Number of workers that may be killed on a piece before it fails.
    """

    def __init__(self, work: Callable[[Any], Any], count: int, imports: Sequence[str], attempts: int = 1) -> None:
        self._work, self._imports, self._attempts = _dumped(_Guarded(work)), imports, attempts
        self._local, self._workers, self._is_closed = local(), list[Worker](), False
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def submit(self, piece: Any) -> Future[Any]:
        """Queue a piece; the future raises the work's exception, or `WorkerLost` if its workers were killed."""
        return self._threads.submit(self._ask, piece)

    def _ask(self, piece: Any) -> Any:
        for _ in range(self._attempts):
            if self._is_closed:
                break
            try:
                result = self._worker().ask(piece)
            except WorkerLost:
                self._local.worker.close()
                self._local.worker = None
                continue
            if isinstance(result, Exception):
                raise result
            return result
        raise WorkerLost

    def _worker(self) -> Worker:
        worker: Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            try:
                worker = self._local.worker = Worker(self._imports)
            except OSError as error:
                raise AccordError(f"no further worker process can start: {error.strerror}; lower --workers") from None
            self._workers.append(worker)
            if self._is_closed:  # it started while `__exit__` killed the others
                worker.kill()
            with suppress(WorkerLost):  # `ask` reports it
                worker.send_work(self._work)
        return worker


@dataclass(frozen=True)
class _Guarded:
    """Work that returns an error as a value; an error would end the worker."""

    work: Callable[[Any], Any]

    def __call__(self, piece: Any) -> Any:
        try:
            return self.work(piece)
        except Exception as error:
            return error


# --- in the worker process -------------------------------------------------------------------------------------------


def serve() -> None:
    """Run a worker: compute the pieces that arrive until the pipe closes."""
    _limit_memory(int(sys.argv[2]))
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # keep output of the work out of the pipe
        incoming = SimpleQueue[Any]()
        Thread(target=_read, args=(incoming,), daemon=True).start()
        try:
            for module in sys.argv[3:]:
                import_module(module)
            cloudpickle.dump(True, out)
            work: Any = None
            while True:
                out.flush()
                while (piece := incoming.get()) is None:
                    work = incoming.get()
                cloudpickle.dump(work(*piece), out)
        except Exception:
            os._exit(1)


def _limit_memory(most: int) -> None:
    """Limit the address space of this process, and write no memory to disk if it ends; 0 sets no limit."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limits, and macOS refuses this one
        import resource

        if most:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))


def _read(incoming: SimpleQueue[Any]) -> None:
    """Read pieces; exit the process once the pipe is closed, even in the middle of work."""
    try:
        while True:
            incoming.put(cloudpickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)
