"""Work in the background: one piece at a time, in the order in which it was asked for, each at most once in waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread

from accord.edges import AccordError, one_line


class Jobs:
    """A thread that is there as long as there is work."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: dict[str, Callable[[], object]] = {}
        self._thread: Thread | None = None
        self._is_closed = False
        self.doing: str | None = None
        self.failed: dict[str, str] = {}

    def add(self, name: str, work: Callable[[], object]) -> bool:
        """Do it after what waits already; returns whether it did not wait already."""
        with self._changed:
            is_new = name not in self._waiting and not self._is_closed
            if is_new:
                self._waiting[name] = work
                if self._thread is None:
                    self._thread = Thread(target=self._work, name="accord-lead", daemon=True)
                    self._thread.start()
            return is_new

    def state(self, name: str) -> str:
        """`running`, `waiting`, or empty."""
        with self._changed:
            return "running" if self.doing == name else "waiting" if name in self._waiting else ""

    def wait(self, seconds: float | None = None) -> None:
        """Until nothing is left to do, or for so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, seconds)

    def close(self) -> None:
        """Begin nothing more, and wait for what is being done."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
        self.wait()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            self.doing = next(iter(self._waiting), None)
            if self.doing is None:
                self._thread = None
                self._changed.notify_all()
                return None
            return self._waiting.pop(self.doing)

    def _work(self) -> None:
        while (work := self._next()) is not None:
            name = str(self.doing)
            try:
                work()
                self.failed.pop(name, None)
            except (AccordError, OSError) as error:  # told on the page of whoever asked for it
                self.failed[name] = one_line(str(error))
            except Exception:
                self.failed[name] = "it failed by a fault of Accord; the log says where"
                logging.getLogger("accord").exception("the workbench: %s failed", name)
