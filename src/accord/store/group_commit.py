"""Group commit: writes that arrive during a transaction share the next one.

SQLite has one writer at a time, and a durable write waits for the disk. Fifty simultaneous writes would wait for fifty
disk writes one after another; in groups they wait for two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from accord.edges import BadInput
from accord.store.engine import database_errors, lock_writing
from accord.values import Annotation

T = TypeVar("T")
MAX_GROUP = 256
"""Maximum number of writes in one transaction."""

_Write = tuple[Callable[[Connection], Any], "Future[Any]"]
"""A write and its result."""


class Conflict(BadInput):
    """A write that contradicts the store; `kept` is the stored annotation, if there is one."""

    def __init__(self, reason: str, kept: Annotation | None = None) -> None:
        super().__init__(reason)
        self.kept = kept


class GroupWriter:
    """Runs writes in transactions, each completely or not at all, and on disk before its caller continues.

    On PostgreSQL, whose writers do not exclude each other, every write has its own transaction in its caller's thread.
    """

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine, self._url = engine, url
        self._queue: SimpleQueue[list[_Write] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._lock = Lock()

    def run(self, write: Callable[[Connection], T]) -> T:
        """Run a write and return its result once it is on disk.

        Raises:
            StoreError: The database failed; the write left nothing.
            BadInput: The write raised it and left nothing.
        """
        [result] = self.run_each([write])
        if isinstance(result, BadInput):
            raise result
        return result

    def run_each(self, writes: Sequence[Callable[[Connection], T]]) -> list[T | BadInput]:
        """Run writes in order in one transaction, and return the result of each, or the BadInput that it raised.

        Raises:
            StoreError: The database failed; it is unknown which writes took effect.
        """
        group: list[_Write] = [(write, Future()) for write in writes]
        if not group:
            return []
        if self._engine.dialect.name != "sqlite":
            with database_errors(self._url), self._engine.begin() as connection:
                lock_writing(connection)
                results = self._run_group(connection, group)
            for future, result in results:
                future.set_result(result)
        else:
            with self._lock:
                if self._thread is None:
                    self._thread = Thread(target=self._run_queue, name="accord-writer", daemon=True)
                    self._thread.start()
                self._queue.put(group)
        found: list[T | BadInput] = []
        for _, future in group:
            error = future.exception()
            if error is not None and not isinstance(error, BadInput):
                raise error
            found.append(future.result() if error is None else error)
        return found

    def close(self) -> None:
        """Finish the waiting writes, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            thread.join()

    def _run_queue(self) -> None:
        while (first := self._queue.get()) is not None:
            group, is_last = list(first), False
            while len(group) < MAX_GROUP and not is_last:
                try:
                    following = self._queue.get_nowait()
                except Empty:
                    break
                if following is None:
                    is_last = True
                else:
                    group += following
            self._commit(group)
            if is_last:
                return

    def _commit(self, group: list[_Write]) -> None:
        """Run a group in one transaction on SQLite."""
        results: list[tuple[Future[Any], Any]] = []
        try:
            with database_errors(self._url), self._engine.connect() as connection:
                driver: Any = connection.connection  # the pragma must be set outside the transaction
                driver.execute("PRAGMA synchronous=FULL")  # acknowledged writes survive a power failure
                with connection.begin():
                    results = self._run_group(connection, group)
                with connection.execution_options(reading=True).begin():
                    pass  # fails if the file of the store was moved in the meantime
        except BaseException as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for future, result in results:
            future.set_result(result)

    def _run_group(self, connection: Connection, group: list[_Write]) -> list[tuple[Future[Any], Any]]:
        """Run each write in a savepoint, so that a failing one leaves the others, and return the results."""
        results: list[tuple[Future[Any], Any]] = []
        for write, future in group:
            try:
                with connection.begin_nested():
                    results.append((future, write(connection)))
            except Exception as error:  # raised in the caller's thread
                future.set_exception(_translated(error, self._url))
        return results


def _translated(error: Exception, url: str) -> Exception:
    try:
        with database_errors(url):
            raise error
    except Exception as translated:
        return translated
