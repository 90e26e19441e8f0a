"""Requests that are paid for once: claimed in the store before they are sent, stored as answers arrive.

Judges, chat models, likelihood models and embedders send requests through `RequestLedger.ask_each_once`. Claims and
answers of the same moment go to the database in one batch, in a thread. If the store fails, the budget is stopped:
answers in progress are spooled, and nothing new is sent.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future, TimerHandle, get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

from accord.edges import BudgetReached
from accord.models.model import Caps
from accord.models.requests.budget import Budget
from accord.store import (
    LEASE_SECONDS,
    ClaimResult,
    Claims,
    PaidRow,
    Spool,
    Store,
    StoreError,
    UnsavedAnswers,
    add_paid_rows,
    answer_count,
    utc_now,
)

T = TypeVar("T")

POLL_SECONDS = 0.25
"""Seconds between lookups of answers that another process is asking for."""
LONGEST_REST_SECONDS = 0.05
"""Longest time that claims and answers are collected for one transaction."""
DATABASE_SHARE = 0.2
"""Largest share of its time that a ledger spends on the database."""
_logger = logging.getLogger("accord")


@dataclass(frozen=True)
class Lease:
    """Terms of a claim.

    Attributes:
        seconds: Seconds that a claim holds unless it is renewed.
        look: Seconds between lookups of answers that others have claimed.
        clock: Function that returns the time in UTC.
    """

    seconds: float = LEASE_SECONDS
    look: float = POLL_SECONDS
    clock: Callable[[], datetime] = utc_now


class Claimed(NamedTuple, Generic[T]):
    """Result of a claim.

    Attributes:
        keys: Keys that this process claimed.
        stored: Answers that the store has by now, by key.
        until: Time (UTC) at which the last claim of another process on the other keys ends.
    """

    keys: set[str]
    stored: dict[str, T]
    until: str


class _Work(NamedTuple, Generic[T]):
    """Rows to store or keys to claim, and the future of the result."""

    rows: Sequence[PaidRow]
    keys: Collection[str]
    done: Future[Claimed[T]]


class RequestLedger(Generic[T]):
    """Claims and answers of one kind of request in one store.

    Attributes:
        stored: Function that returns stored answers by key.
    """

    def __init__(
        self,
        store: Store,
        stored: Callable[[Iterable[str]], Mapping[str, T]],
        budget: Budget | None = None,
        lease: Lease = Lease(),
    ) -> None:
        """`budget` is stopped if the store fails."""
        self._spool = Spool(store)
        self._store, self.stored, self._lease = store, stored, lease
        self._budget = budget or Budget(Caps(), {})
        self._claims = Claims(store, lease.clock, lease.seconds)
        self._queue: list[_Work[T]] = []
        self._released: set[str] = set()
        self._renews = False
        self._held: set[str] = set()
        self._worker: asyncio.Task[None] | None = None
        self._renewal: TimerHandle | None = None
        self._has_warned = False
        self._failure: UnsavedAnswers | None = None
        self._release: Future[None] | None = None
        self._rests_until = 0.0

    async def ask_each_once(
        self, keys: Iterable[str], ask: Callable[[list[str]], Awaitable[None]], waits: bool = True
    ) -> dict[str, T]:
        """Let only one process ask for each key, and return the answers that other processes got.

        Args:
            keys: Keys that the store did not have.
            ask: Awaited with the keys that are claimed here, in order; it `keep`s the answers. Another process may ask
                for keys without an answer afterwards.
            waits: True to wait for keys that another process is asking for; False to leave them out.

        Raises:
            BudgetReached: The store failed, so nothing more is asked.
        """
        order = list(dict.fromkeys(keys))
        left, stored = set(order), dict[str, T]()
        while left:
            async with self.claimed(left) as claim:
                stored |= claim.stored
                left -= claim.keys | claim.stored.keys()
                if claim.keys:
                    await ask([key for key in order if key in claim.keys])
            if left and not claim.keys:
                if not waits:
                    break
                await self._wait_for_others(left, claim.until)
        return stored

    @asynccontextmanager
    async def claimed(self, keys: Iterable[str]) -> AsyncIterator[Claimed[T]]:
        """Claim the keys that are free, for the duration of a block; see `ask_each_once` for errors."""
        claim = await self._claim(frozenset(keys))
        try:
            yield claim
        finally:
            self._free(claim.keys)

    def find(self, keys: Iterable[str]) -> Mapping[str, T]:
        """Return stored answers by key; see `ask_each_once` for errors."""
        try:
            return self.stored(keys)
        except StoreError as error:
            self._break(error)
            raise BudgetReached(str(error)) from None

    async def look_up(self, keys: Iterable[str]) -> dict[str, T]:
        """Return stored answers by key, without blocking the event loop; see `ask_each_once` for errors."""
        return dict(await asyncio.to_thread(self.find, list(keys)))

    async def keep(self, rows: Iterable[PaidRow]) -> None:
        """Store answers, or spool them after the store has failed."""
        new = list(rows)
        if new:
            await self._result(_Work(new, (), get_running_loop().create_future()))

    async def close(self) -> None:
        """Finish writes in progress and release all claims."""
        self._start_worker()
        if self._worker is not None and self._worker.get_loop() is get_running_loop():
            await asyncio.shield(self._worker)

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Close at the end of a block, and raise the store's failure in place of errors that followed from it.

        Raises:
            StoreError: The store failed; its message names the spool.
        """
        try:
            yield
        except BudgetReached:
            if self._failure is None:
                raise
        finally:
            await self.close()
        if self._failure is not None:
            raise self._failure

    # --- work on the database, one batch at a time ---------------------------------------------------------------

    async def _result(self, work: _Work[T]) -> Claimed[T]:
        self._queue.append(work)
        self._start_worker()
        return await work.done

    async def _claim(self, keys: Collection[str]) -> Claimed[T]:
        if self._budget.stopped is not None:
            raise BudgetReached(str(self._budget.stopped))
        self._failure = None
        work = _Work[T]((), keys, get_running_loop().create_future())
        try:
            return await self._result(work)
        except asyncio.CancelledError:
            if work.done.done() and not work.done.cancelled() and work.done.exception() is None:
                self._free(work.done.result().keys)  # the claim succeeded while the wait was cancelled
            raise

    def _free(self, keys: Collection[str]) -> None:
        """Release claims with the next batch."""
        if keys:
            self._held.difference_update(keys)
            self._released.update(keys)
            if self._release is not None and not self._release.done():
                self._release.set_result(None)
            self._start_worker()

    async def _wait_for_others(self, keys: Collection[str], until: str) -> None:
        """Wait until a claim of this process is released, or until it is time for another lookup."""
        if not self._has_warned and not self._held.issuperset(keys):
            self._has_warned = True
            _logger.warning(
                "another process has claimed some of the same prompts until %s: waiting for its answers", until
            )
        if self._release is None or self._release.done():
            self._release = get_running_loop().create_future()
        await asyncio.wait([self._release], timeout=self._lease.look)

    def _start_worker(self) -> None:
        worker = self._worker
        is_idle = worker is None or worker.done() or worker.get_loop() is not get_running_loop()
        if is_idle and (self._queue or self._released or self._renews):
            self._worker = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._queue or self._released or self._renews:
            await asyncio.sleep(max(0.0, self._rests_until - perf_counter()))
            queue, released, renews = self._queue, self._released, self._renews
            self._queue, self._released, self._renews = [], set(), False
            start = perf_counter()
            try:
                taken, stored = await asyncio.to_thread(self._transact, queue, released, renews)
                self._give(queue, taken, stored)
            except BaseException as error:
                # An unexpected error or the end of the loop: nothing may wait forever.
                for _, _, done in queue:
                    if not done.done():
                        done.set_exception(error) if isinstance(error, Exception) else done.cancel()
                raise
            if self._held and self._renewal is None and self._failure is None:
                self._renewal = get_running_loop().call_later(self._lease.seconds / 4, self._renew)
            spent = perf_counter() - start
            self._rests_until = perf_counter() + min(LONGEST_REST_SECONDS, spent * (1 / DATABASE_SHARE - 1))

    def _transact(
        self, queue: Sequence[_Work[T]], released: Collection[str], renews: bool
    ) -> tuple[ClaimResult, Mapping[str, T]]:
        """Store rows, or spool them from the store's first failure on; then release, renew and make claims."""
        rows = [row for work in queue for row in work.rows]
        keys = {key for work in queue for key in work.keys}
        try:
            if rows and self._failure is None:
                add_paid_rows(self._store, rows)
                rows = []
            if self._failure is None and (keys or released or renews):
                taken = self._claims.exchange(released, keys, renews)
                # The lookup follows the claim: a process stores its answers before it releases their claims.
                return taken, self.stored(keys) if keys else {}
        except StoreError as error:
            self._break(error)
        if rows and self._failure is not None:
            self._failure.spooled(answer_count(rows), self._spool.put(rows))
        return ClaimResult(), {}

    def _give(self, queue: Sequence[_Work[T]], taken: ClaimResult, stored: Mapping[str, T]) -> None:
        """Give each waiting task its result, and release claims of tasks that were cancelled."""
        if taken.over:
            _logger.warning("sending %d prompts that another process claimed: its claims have expired", taken.over)
        left = set(taken.mine)
        for _, keys, done in queue:
            if done.done():
                continue
            if keys and self._failure is not None:
                done.set_exception(BudgetReached(str(self._failure)))
                continue
            claimed = left.intersection(keys) - stored.keys()
            done.set_result(Claimed(claimed, {key: stored[key] for key in keys if key in stored}, taken.until))
            self._held |= claimed
            left -= claimed
        self._free(left)

    def _renew(self) -> None:
        """Renew claims as long as there are some."""
        self._renewal, self._renews = None, bool(self._held)
        self._start_worker()

    def _break(self, error: StoreError) -> None:
        """Stop requests after a failure of the store; answers in progress are spooled."""
        stopped = self._budget.stopped
        self._failure = stopped if isinstance(stopped, UnsavedAnswers) else UnsavedAnswers(str(error))
        self._budget.stopped = self._failure
