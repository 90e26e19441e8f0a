"""One writer for many: what arrives while a transaction is being written waits and goes into the next one together.

SQLite has one writer at a time, and a write that survives a power cut waits for the disk. Fifty people who save at once
would wait for fifty such writes, one after another; in groups they wait for two.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from accord.store.engine import database_errors

T = TypeVar("T")
TOGETHER = 256
"""The most pieces of work in one transaction."""

_Waiting = tuple[Callable[[Connection], Any], "Future[Any]"]


class GroupWriter:
    """Runs pieces of work in transactions: each whole or not at all, and on disk before its caller goes on.

    On PostgreSQL every piece has a transaction of its own, in its caller's thread; writers there need not queue.
    """

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine, self._url = engine, url
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._lock = Lock()

    def run(self, work: Callable[[Connection], T]) -> T:
        """What the work returns, once it is on disk.

        Raises:
            StoreError: The database failed; nothing of this piece is kept.
            BadInput: As the work raises it; nothing of this piece is kept.
        """
        if self._engine.dialect.name != "sqlite":
            with database_errors(self._url), self._engine.begin() as connection:
                return work(connection)
        done: Future[T] = Future()
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._write, name="accord-writer", daemon=True)
                self._thread.start()
            self._waiting.put((work, done))
        return done.result()

    def close(self) -> None:
        """Finish what waits, and end."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._waiting.put(None)
        if thread is not None:
            thread.join()

    def _write(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, is_last = [first], False
            while len(batch) < TOGETHER and not is_last:
                try:
                    more = self._waiting.get_nowait()
                except Empty:
                    break
                if more is None:
                    is_last = True
                else:
                    batch.append(more)
            self._write_together(batch)
            if is_last:
                return

    def _write_together(self, batch: list[_Waiting]) -> None:
        """One transaction; the work of each in a savepoint, so that one that fails undoes nothing of the others'."""
        results: list[tuple[Future[Any], Any]] = []
        try:
            with database_errors(self._url), self._engine.connect() as connection:
                driver: Any = connection.connection  # a setting may not be changed within a transaction
                driver.execute("PRAGMA synchronous=FULL")  # what was thanked for survives a power cut
                with connection.begin():
                    for work, done in batch:
                        try:
                            with connection.begin_nested():
                                results.append((done, work(connection)))
                        except Exception as error:  # told to whoever asked for it
                            done.set_exception(_said(error, self._url))
        except BaseException as error:
            for _, done in batch:
                if not done.done():
                    done.set_exception(error)
            return
        for done, result in results:
            done.set_result(result)


def _said(error: Exception, url: str) -> Exception:
    try:
        with database_errors(url):
            raise error
    except Exception as told:
        return told
