"""Rounds of anchors in a running server, at the interval of the settings, with alarms of drift."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from accord.board import drift
from accord.edges import count_of
from accord.live.monitoring import post_alarms, send_alarms
from accord.project import Workspace, repeated_task
from accord.project.judges import anchors

if TYPE_CHECKING:
    from accord.project import Config

HOUR_SECONDS = 3600.0


class AnchorRounds(repeated_task.RepeatedTask):
    """A thread that looks once an hour if anchors are due, and judges them; a context manager that stops it.

    Args:
        config: Settings; without `monitoring.anchors.every`, nothing is started.
        open_project: Opens the project with connections and a budget of its own.
        log: Called with a sentence after each round, and after each alarm.
    """

    def __init__(
        self, config: Config, open_project: Callable[[], AbstractContextManager[Workspace]], log: Callable[[str], None]
    ) -> None:
        self._open, self._webhook = open_project, config.monitoring.webhook
        hint = "tried again in an hour, or now with: accord judge --anchors"
        super().__init__("anchors", HOUR_SECONDS, log, hint, config.monitoring.anchors.every is not None)

    def work(self) -> None:
        """Judge the anchors if they are due, and test for drift."""
        with self._open() as project:
            if not anchors.is_due(project):
                return
            try:
                done = anchors.judge_anchors(project)
                failed = f", {sum(done.failed.values())} failed: {', '.join(done.failed)}" if done.failed else ""
                self.log(f"{self.name}: {count_of(done.judged, 'anchor')} judged again{failed}")
            finally:
                found, is_new = drift.drift_report(project)
                if found and is_new:
                    self.log(f"alarm: {found['summary']}")
                if self._webhook is not None:
                    send_alarms(project.store, partial(post_alarms, self._webhook))
