"""Retention: conversations and replies that are erased after the times of `privacy.retention`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from accord.edges import BadInput, count_of
from accord.project.erasing.erase import Erasure, erase, plan_erasure
from accord.project.erasing.selection import Selection
from accord.project.repeated_task import RepeatedTask
from accord.store import Erasures

if TYPE_CHECKING:
    from accord.project.config import Config
    from accord.project.workspace import Workspace

DAY_SECONDS = 24 * 3600.0


def expire(project: Workspace, plan: bool = False, now: datetime | None = None) -> Erasure:
    """Erase data older than the periods of `privacy.retention`; with `plan`, only count them.

    Raises:
        BadInput: The settings name no time.
        StoreError: The store or the scores cannot be written; the next call continues.
    """
    periods, time = project.config.privacy.retention, now or datetime.now(UTC)
    if not periods.has_period:
        raise BadInput(
            "nothing expires: accord.yaml names no time. For example: privacy: {retention: {conversations: 90 days, "
            "replies: 30 days}}"
        )
    receipt = Erasure()
    if periods.conversations is not None or periods.rated is not None:
        kept = None if periods.conversations is None else time - periods.conversations
        rated = None if periods.rated is None else time - periods.rated
        selection = Selection(before=kept, rated_before=rated)
        receipt = (plan_erasure if plan else erase)(project, selection)
    if periods.replies is not None:
        count = Erasures(project.store).expire_replies(time - periods.replies, plan)
        rows = {**receipt.rows, "cache": receipt.rows.get("cache", 0) + count}
        receipt = replace(receipt, rows={table: rows for table, rows in rows.items() if rows})
    return receipt


class DailyExpiry(RepeatedTask):
    """A thread that calls `expire` at once and then once a day; a context manager that stops it.

    Args:
        config: Settings; without a period, nothing is started.
        open_project: Opens the project with connections of its own.
        log: Called with a sentence after each call that erased something or failed.
    """

    def __init__(
        self,
        config: Config,
        open_project: Callable[[], AbstractContextManager[Workspace]],
        log: Callable[[str], None],
    ) -> None:
        self._open = open_project
        hint = "tried again tomorrow, or now with: accord store expire"
        super().__init__("retention", DAY_SECONDS, log, hint, config.privacy.retention.has_period)

    def work(self) -> None:
        """Erase expired data."""
        with self._open() as project:
            receipt = expire(project)
        if not receipt.is_empty or receipt.rows.get("cache"):
            rows = count_of(receipt.rows.get("cache", 0), "cached row")
            self.log(f"{self.name}: {count_of(receipt.conversations, 'conversation')} and {rows} erased")
