"""What is done again and again while messages come: keep what was scored, look at it, tell of alarms."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import Self

from accord.errors import AccordError
from accord.evidence.table import EvidenceTable
from accord.store import Store
from accord.watching.alarms import LEVEL, Alarm
from accord.watching.watch import Watch, see_to, tell
from accord.watching.webhook import post

FLUSH, LOOK, LAST = 10.0, 300.0, 15.0
"""Seconds between keeping what was scored, between looks at it, and for a look under way at the end."""


class Rounds:
    """A thread that keeps and looks; a context manager that keeps a last time when it ends.

    Args:
        watch: What is scored.
        store: Where it is kept.
        webhook: Who is told of alarms; without one they are kept.
        level: The chance of a false alarm a system and day.
        learned: The evidence that the evaluator learned from.
        on_alarm: Called with each new alarm.
        on_trouble: Called with what could not be done; it is tried again the next time.
        flush, look: Seconds between rounds.
    """

    def __init__(
        self,
        watch: Watch,
        store: Store,
        webhook: str | None = None,
        level: float = LEVEL,
        learned: EvidenceTable | None = None,
        on_alarm: Callable[[Alarm], None] = lambda alarm: None,
        on_trouble: Callable[[str], None] = lambda reason: None,
        flush: float = FLUSH,
        look: float = LOOK,
    ) -> None:
        self.watch, self.store, self.webhook, self.level, self.learned = watch, store, webhook, level, learned
        self.on_alarm, self.on_trouble = on_alarm, on_trouble
        self.flush, self.look = flush, look
        self._looked: dict[tuple[str, str, str], int] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(self.flush):
            self._tried(lambda: self.watch.flush(self.store))
            if time.monotonic() - last >= self.look:
                last = time.monotonic()
                self._tried(self._see)

    def _see(self) -> None:
        for alarm in see_to(self.store, self.level, self._looked, self.learned):
            self.on_alarm(alarm)
        if self.webhook is not None:
            tell(self.store, partial(post, self.webhook))

    def _tried(self, work: Callable[[], None]) -> None:
        """Do it; whatever goes wrong is said, and tried again the next time: a watch does not end by itself."""
        try:
            work()
        except AccordError as error:
            self.on_trouble(str(error))
        except Exception as error:
            self.on_trouble(f"{type(error).__name__}, which is a bug; please report it")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LAST)
        self._tried(lambda: self.watch.flush(self.store))
