"""Work that a server repeats in a thread: retention once a day, anchors when they are due."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Event, Thread
from typing import Self

from accord.edges import AccordError


class RepeatedTask(ABC):
    """A thread that works at once and then at intervals; a context manager that stops it.

    Args:
        name: Name of the work in messages.
        seconds: Seconds between the end of the work and its next start.
        log: Called with a sentence when the work failed.
        hint: Next step after a failure.
        is_needed: False if nothing is to be started.
    """

    def __init__(self, name: str, seconds: float, log: Callable[[str], None], hint: str, is_needed: bool) -> None:
        self.name, self.log = name, log
        self._seconds, self._hint, self._is_needed, self._ended = seconds, hint, is_needed, Event()
        self._thread = Thread(target=self._run, name=f"accord-{name}", daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Do the work once.

        Raises:
            AccordError: It failed; it is tried again after the interval.
        """

    def _run(self) -> None:
        while True:
            try:
                self.work()
            except (AccordError, OSError) as error:
                self.log(f"{self.name}: {error}; {self._hint}")
            if self._ended.wait(self._seconds):
                return

    def __enter__(self) -> Self:
        if self._is_needed:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
