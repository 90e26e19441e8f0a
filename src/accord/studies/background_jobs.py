"""A background thread that runs one job at a time, in order. A job that is already waiting is not added again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent import futures
from threading import Lock

from accord.edges import AccordError, hide_folders, one_line
from accord.values import plugin_error


def failure_text(error: Exception) -> str:
    """Return the reason of a failure for a page; of an unexpected error, only the server's log has the details.

    >>> failure_text(ZeroDivisionError("1/0"))
    "internal error; see the server's log"
    """
    if isinstance(error, AccordError | OSError):
        text = error.for_commands if isinstance(error, AccordError) else str(error)
        return one_line(" ".join(hide_folders(text).split()))
    return one_line(str(plugin_error(error) or "internal error; see the server's log"))


class BackgroundJobs:
    """Queue of named jobs.

    Attributes:
        running: Name of the running job, or `None`.
        failed: Error of each failed job, by name.
    """

    def __init__(self) -> None:
        self._executor = futures.ThreadPoolExecutor(1, "accord-background")
        self._lock = Lock()
        self._waiting = set[str]()
        self._last: futures.Future[None] | None = None
        self.running: str | None = None
        self.failed: dict[str, str] = {}

    def add(self, name: str, job: Callable[[], object]) -> bool:
        """Add a job. Return False if it is already waiting, or if the queue is closed."""
        with self._lock:
            if name in self._waiting:
                return False
            try:
                self._last = self._executor.submit(self._run, name, job)
            except RuntimeError:  # closed
                return False
            self._waiting.add(name)
            return True

    def state(self, name: str) -> str:
        """Return `running`, `waiting`, or an empty text for a job that is neither."""
        return "running" if self.running == name else "waiting" if name in self._waiting else ""

    def wait(self, seconds: float | None = None) -> None:
        """Wait until no job is left, or until the timeout."""
        while (last := self._last) is not None and not last.done() and not futures.wait([last], seconds).not_done:
            pass  # a job may have added another one

    def close(self) -> None:
        """Drop waiting jobs and wait for the running one."""
        self._executor.shutdown(cancel_futures=True)

    def _run(self, name: str, job: Callable[[], object]) -> None:
        with self._lock:
            self._waiting.discard(name)
            self.running = name
        try:
            job()
            self.failed.pop(name, None)
        except Exception as error:
            self.failed[name] = failure_text(error)
            if not isinstance(error, AccordError | OSError):
                logging.getLogger("accord").exception("background job %s failed", name)
        finally:
            self.running = None
