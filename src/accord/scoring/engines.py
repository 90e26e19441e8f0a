"""Engines: how pieces are scored at the same time. Processes of this machine by default, Ray where it is named.

Each gives every part as it is finished. A worker that is killed costs the piece it was at, which is tried again.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import cloudpickle

from accord.edges import AccordError, MissingExtra, UnknownName
from accord.formats import FilePiece
from accord.learning import ONE_THREAD, Worker, WorkerLost
from accord.scoring.parts import (
    Job,
    Part,
    Run,
    score_piece,
)

ATTEMPTS = 3
"""A piece whose process was killed so often is given up: it may be what takes the memory."""
_IMPORTS = ("accord.scoring.parts",)


def engine(name: str) -> Run:
    """An engine by its name.

    Raises:
        UnknownName: There is none of that name.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    return ENGINES[name]


def local(job: Job, pieces: Sequence[FilePiece], workers: int) -> Iterator[Part]:
    """Score in processes of this machine; with one worker in this one."""
    if workers == 1 or len(pieces) <= 1:
        yield from (score_piece(job, piece) for piece in pieces)
        return
    left, done, over = deque(pieces), SimpleQueue[Part | Exception](), Event()
    started = list[_Worker]()
    try:
        for _ in range(min(workers, len(pieces))):
            started.append(_Worker(job, left, done, over))
        for _ in pieces:
            found = done.get()
            if isinstance(found, Exception):
                raise found
            yield found
    finally:
        over.set()
        for worker in started:
            worker.end()


class _Worker(Thread):
    """A thread that gives a process what is left, piece by piece; where that is killed, another one."""

    def __init__(self, job: Job, left: deque[FilePiece], done: SimpleQueue[Part | Exception], over: Event) -> None:
        super().__init__(daemon=True)
        self._work, self._left, self._done, self._over = cloudpickle.dumps(_Scoring(job)), left, done, over
        self._process = self._begun()
        self.start()

    def _begun(self) -> Worker:
        try:
            process = Worker(_IMPORTS)
        except OSError as error:
            raise AccordError(f"no more processes can begin: {error.strerror}; give --workers fewer") from None
        with suppress(WorkerLost):  # where it is not even there to be told, it does not answer either
            process.send_work(self._work)
        return process

    def run(self) -> None:
        """Until nothing is left, or all is over."""
        try:
            while not self._over.is_set():
                self._done.put(self._scored(self._left.popleft()))
        except IndexError:
            pass
        except AccordError as error:
            self._done.put(error)
        self._process.close()

    def _scored(self, piece: FilePiece) -> Part | Exception:
        for _ in range(ATTEMPTS):
            if self._over.is_set():
                break
            try:
                return self._process.ask(piece)  # type: ignore[no-any-return]
            except WorkerLost:
                self._process.close()
                if not self._over.is_set():
                    self._process = self._begun()
        return _given_up(piece)

    def end(self) -> None:
        """End the process, whatever it is at, and the thread."""
        self._process.kill()
        self.join()


@dataclass(frozen=True)
class _Scoring:
    """What a process does with a piece: its part, or what stops all of them."""

    job: Job

    def __call__(self, piece: FilePiece) -> Part | Exception:
        try:
            return score_piece(self.job, piece)
        except Exception as error:
            return error


def _given_up(piece: FilePiece) -> Part:
    why = f"the process that scored it was killed {ATTEMPTS} times, perhaps for want of memory; give --workers fewer"
    return replace(Part.of(piece), failed=why)


def ray(job: Job, pieces: Sequence[FilePiece], workers: int) -> Iterator[Part]:
    """Score on Ray Data: a pool of actors, each of which scores a piece at a time.

    On the cluster that RAY_ADDRESS names, else on a Ray of this machine that ends with the work. No usage is reported.

    Raises:
        MissingExtra: `accord[ray]` is not installed.
    """
    if not pieces:
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is imported
    try:
        import ray as _ray
        import ray.data as _data
    except ImportError:
        raise MissingExtra("--engine ray", "ray") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    begun = not _ray.is_initialized()
    with redirect_stdout(sys.stderr):  # Ray tells of a worker that died on stdout, where a result is to be read
        if begun:
            _begin(_ray)
        try:
            yield from _on_ray(_data, job, pieces, workers)
        finally:
            if begun:
                _ray.shutdown()


def _on_ray(data: Any, job: Job, pieces: Sequence[FilePiece], workers: int) -> Iterator[Part]:
    data.DataContext.get_current().enable_progress_bars = False
    rows = [{"piece": json.dumps(piece.to_json())} for piece in pieces]
    parts = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _actor_of(job), batch_size=1, batch_format="pyarrow",
        # Whole CPUs would leave none to hand out the work: on two, two such actors hang.
        num_cpus=0.5, compute=data.ActorPoolStrategy(min_size=1, max_size=workers),
    )  # fmt: skip
    for row in parts.iter_rows():
        yield _part(json.loads(row["part"]))


def _begin(ray: Any) -> None:
    """Join the cluster that is named, or start one of this machine that nobody else can reach."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(logging_level=logging.ERROR, log_to_driver=False)
        return
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)  # what Ray starts inherits it
    ray.init(
        address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        num_cpus=max(2, os.cpu_count() or 2), _node_ip_address="127.0.0.1",
    )  # fmt: skip


def _actor_of(job: Job) -> type:
    """An actor that scores pieces; the job travels inside it, so that one that is begun again has it too."""

    class Pieces:
        def __call__(self, batch: Any) -> Any:
            import pyarrow as pa

            pieces = [FilePiece.from_json(json.loads(text)) for text in batch.column("piece").to_pylist()]
            return pa.table({"part": [_as_text(score_piece(job, piece)) for piece in pieces]})

    return Pieces


def _as_text(part: Part) -> str:
    more = {"failed": part.failed, "seconds": part.seconds, "size": part.size}
    return json.dumps({**part.to_json(), "more": more})


def _part(row: Mapping[str, Any]) -> Part:
    return replace(Part.from_json(row), **row["more"])


ENGINES: Mapping[str, Callable[[Job, Sequence[FilePiece], int], Iterator[Part]]] = {"local": local, "ray": ray}
"""How pieces are scored, by name."""
