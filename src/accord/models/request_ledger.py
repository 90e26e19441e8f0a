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
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

from accord.edges import BudgetReached
from accord.models.budget import Budget, Caps
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


@dataclass
class _PendingWork(Generic[T]):
    """Work that waits for the database."""

    rows: list[tuple[Sequence[PaidRow], Future[None]]] = field(default_factory=list)
    claims: list[tuple[Collection[str], Future[Claimed[T]]]] = field(default_factory=list)
    released: set[str] = field(default_factory=set)
    renews: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows or self.claims or self.released or self.renews)


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
        self._next: _PendingWork[T] = _PendingWork()
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
        """Claim the keys that are free, for the duration of a block.

        Raises:
            BudgetReached: The store failed, so nothing more is asked.
        """
        claim = await self._claim(frozenset(keys))
        try:
            yield claim
        finally:
            self._free(claim.keys)

    def find(self, keys: Iterable[str]) -> Mapping[str, T]:
        """Return stored answers by key.

        Raises:
            BudgetReached: The store failed, so nothing more is asked.
        """
        try:
            return self.stored(keys)
        except StoreError as error:
            self._break(error)
            raise BudgetReached(str(error)) from None

    async def look_up(self, keys: Iterable[str]) -> dict[str, T]:
        """Return stored answers by key, without blocking the event loop; see `find` for errors."""
        return dict(await asyncio.to_thread(self.find, list(keys)))

    async def keep(self, rows: Iterable[PaidRow]) -> None:
        """Store answers, or spool them after the store has failed."""
        new = list(rows)
        if new:
            done: Future[None] = get_running_loop().create_future()
            self._next.rows.append((new, done))
            self._start_worker()
            await done

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

    async def _claim(self, keys: Collection[str]) -> Claimed[T]:
        if self._budget.stopped is not None:
            raise BudgetReached(str(self._budget.stopped))
        self._failure = None
        done: Future[Claimed[T]] = get_running_loop().create_future()
        self._next.claims.append((keys, done))
        self._start_worker()
        try:
            return await done
        except asyncio.CancelledError:
            if done.done() and not done.cancelled() and done.exception() is None:
                self._free(done.result().keys)  # the claim succeeded while the wait was cancelled
            raise

    def _free(self, keys: Collection[str]) -> None:
        """Release claims with the next batch."""
        if keys:
            self._held.difference_update(keys)
            self._next.released.update(keys)
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
        if self._next and is_idle:
            self._worker = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._next:
            await asyncio.sleep(max(0.0, self._rests_until - perf_counter()))
            batch, self._next = self._next, _PendingWork()
            start = perf_counter()
            try:
                await asyncio.to_thread(self._write, [row for rows, _ in batch.rows for row in rows])
                for _, written in batch.rows:
                    if not written.done():
                        written.set_result(None)
                await self._exchange_claims(batch)
            except BaseException as error:
                # An unexpected error or the end of the loop: nothing may wait forever.
                waiting: list[Future[Any]] = [done for _, done in batch.rows]
                waiting += [done for _, done in batch.claims]
                for future in waiting:
                    if not future.done():
                        future.set_exception(error) if isinstance(error, Exception) else future.cancel()
                raise
            spent = perf_counter() - start
            self._rests_until = perf_counter() + min(LONGEST_REST_SECONDS, spent * (1 / DATABASE_SHARE - 1))

    def _write(self, rows: Sequence[PaidRow]) -> None:
        """Store rows, or spool them from the store's first failure on."""
        if rows and self._failure is None:
            try:
                return add_paid_rows(self._store, rows)
            except StoreError as error:
                self._break(error)
        if rows and self._failure is not None:
            self._failure.spooled(len(rows), self._spool.put(rows))

    async def _exchange_claims(self, batch: _PendingWork[T]) -> None:
        """Release, renew and make claims, and give each waiting task its result."""
        keys = {key for some, _ in batch.claims for key in some}
        try:
            taken, stored = await asyncio.to_thread(self._exchange, batch, keys)
        except StoreError as error:
            self._break(error)
            for _, done in batch.claims:
                if not done.done():
                    done.set_exception(BudgetReached(str(error)))
            return
        if taken.over:
            _logger.warning("sending %d prompts that another process claimed: its claims have expired", taken.over)
        left = set(taken.mine)
        for some, done in batch.claims:
            claimed = left.intersection(some) - stored.keys()
            if not done.done():
                done.set_result(Claimed(claimed, {key: stored[key] for key in some if key in stored}, taken.until))
                self._held |= claimed
                left -= claimed
        self._free(left)
        self._schedule_renewal()

    def _exchange(self, batch: _PendingWork[T], keys: Collection[str]) -> tuple[ClaimResult, Mapping[str, T]]:
        if self._failure is not None and keys:
            raise self._failure
        if self._failure is not None or not (keys or batch.released or batch.renews):
            return ClaimResult(), {}
        taken = self._claims.exchange(batch.released, keys, batch.renews)
        # The lookup follows the claim: a process stores its answers before it releases their claims.
        return taken, self.stored(keys) if keys else {}

    def _schedule_renewal(self) -> None:
        """Renew claims as long as there are some."""
        if self._renewal is not None and not self._held:
            self._renewal.cancel()
            self._renewal = None
        elif self._renewal is None and self._held and self._failure is None:
            self._renewal = get_running_loop().call_later(self._lease.seconds / 4, self._renew)

    def _renew(self) -> None:
        self._renewal = None
        self._next.renews = True
        self._start_worker()

    def _break(self, error: StoreError) -> None:
        """Stop requests after a failure of the store; answers in progress are spooled."""
        stopped = self._budget.stopped
        self._failure = stopped if isinstance(stopped, UnsavedAnswers) else UnsavedAnswers(str(error))
        self._budget.stopped = self._failure
