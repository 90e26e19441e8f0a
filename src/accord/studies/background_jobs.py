"""A background thread that runs one job at a time, in order. A job that is already waiting is not added again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread

from accord.edges import AccordError, one_line


class BackgroundJobs:
    """Queue of named jobs; its thread exits when there is no more work.

    Attributes:
        running: Name of the running job, or `None`.
        failed: Error of each failed job, by name.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: dict[str, Callable[[], object]] = {}
        self._thread: Thread | None = None
        self._is_closed = False
        self.running: str | None = None
        self.failed: dict[str, str] = {}

    def add(self, name: str, job: Callable[[], object]) -> bool:
        """Add a job. Return False if it is already waiting, or if the queue is closed."""
        with self._changed:
            is_new = name not in self._waiting and not self._is_closed
            if is_new:
                self._waiting[name] = job
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="accord-background", daemon=True)
                    self._thread.start()
            return is_new

    def state(self, name: str) -> str:
        """Return `running`, `waiting`, or an empty text for a job that is neither."""
        with self._changed:
            return "running" if self.running == name else "waiting" if name in self._waiting else ""

    def wait(self, seconds: float | None = None) -> None:
        """Wait until no job is left, or until the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, seconds)

    def close(self) -> None:
        """Drop waiting jobs and wait for the running one."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
        self.wait()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            self.running = next(iter(self._waiting), None)
            if self.running is None:
                self._thread = None
                self._changed.notify_all()
                return None
            return self._waiting.pop(self.running)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            name = str(self.running)
            try:
                job()
                self.failed.pop(name, None)
            except (AccordError, OSError) as error:
                self.failed[name] = one_line(str(error))
            except Exception:
                self.failed[name] = "internal error; see the server's log"
                logging.getLogger("accord").exception("background job %s failed", name)
