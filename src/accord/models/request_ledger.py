"""Paid once: what is asked is claimed in the store before, kept there as it comes, and spooled where that fails.

Every part that pays for answers (judges, chat models, likelihoods, embeddings) asks through
`RequestLedger.ask_each_once`. Claims and writes of one moment go to the database together, one piece of work at a time
and in a thread of their own. Where the store fails, the budget is stopped: what is under way comes in and is spooled,
and nothing new is asked.
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
from accord.store import LEASE_SECONDS, Claims, Paid, Spool, Store, StoreError, Taken, Unsaved, add_paid, utc

T = TypeVar("T")

LOOK_SECONDS = 0.25
"""How often what somebody else is asking is looked for."""
MOMENT_SECONDS = 0.05
"""The longest that claims and answers are collected for one transaction."""
SHARE = 0.2
"""Of its time, the most that a ledger spends on the database."""
_SAYS = logging.getLogger("accord")


@dataclass(frozen=True)
class Lease:
    """How long a claim holds without being renewed, how often others look, and what tells the time (UTC)."""

    seconds: float = LEASE_SECONDS
    look: float = LOOK_SECONDS
    clock: Callable[[], datetime] = utc


class Claimed(NamedTuple, Generic[T]):
    """The keys that are claimed here, what the store holds by now, and until when others have claimed what is left."""

    mine: set[str]
    known: dict[str, T]
    until: str


@dataclass
class _Moment(Generic[T]):
    """What waits for the next piece of work on the database."""

    rows: list[tuple[Sequence[Paid], Future[None]]] = field(default_factory=list)
    wanted: list[tuple[Collection[str], Future[Claimed[T]]]] = field(default_factory=list)
    freed: set[str] = field(default_factory=set)
    is_due: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows or self.wanted or self.freed or self.is_due)


class RequestLedger(Generic[T]):
    """What one part of this process is asking, and pays for, with one store."""

    def __init__(
        self,
        store: Store,
        find: Callable[[Iterable[str]], Mapping[str, T]],
        budget: Budget | None = None,
        lease: Lease = Lease(),
    ) -> None:
        """`find` gives what the store holds under some keys; `budget` is stopped where the store fails."""
        self._spool = Spool(store)
        self._store, self._find, self._lease = store, find, lease
        self._budget = budget or Budget(Caps(), {})
        self._claims = Claims(store, lease.clock, lease.seconds)
        self._next: _Moment[T] = _Moment()
        self._held: set[str] = set()
        self._working: asyncio.Task[None] | None = None
        self._renewal: TimerHandle | None = None
        self._has_said = False
        self._failure: Unsaved | None = None
        self._change: Future[None] | None = None
        self._rests_until = 0.0

    async def ask_each_once(
        self, keys: Iterable[str], ask: Callable[[list[str]], Awaitable[None]], waits: bool = True
    ) -> dict[str, T]:
        """Have each key asked by one process alone; returns what others have answered.

        Args:
            keys: What the store was seen not to hold.
            ask: Awaited with the keys that are claimed here, in their order; `keep`s what it gets. What it does not
                keep may be asked by others then.
            waits: Whether to wait for what others are asking right now; otherwise it is left out.

        Raises:
            BudgetReached: The store failed, so that nothing more is asked.
        """
        order = list(dict.fromkeys(keys))
        left, found = set(order), dict[str, T]()
        while left:
            async with self.claimed(left) as got:
                found |= got.known
                left -= got.mine | got.known.keys()
                if got.mine:
                    await ask([key for key in order if key in got.mine])
            if left and not got.mine:
                if not waits:
                    break
                await self._a_while(left, got.until)
        return found

    @asynccontextmanager
    async def claimed(self, keys: Iterable[str]) -> AsyncIterator[Claimed[T]]:
        """Claim what nobody else is asking, for the length of a block.

        Raises:
            BudgetReached: The store failed, so that nothing more is asked.
        """
        got = await self._claimed(frozenset(keys))
        try:
            yield got
        finally:
            self._free(got.mine)

    def find(self, keys: Iterable[str]) -> Mapping[str, T]:
        """Return what the store holds under some keys.

        Raises:
            BudgetReached: The store failed, so nothing more is asked.
        """
        try:
            return self._find(keys)
        except StoreError as error:
            self._break(error)
            raise BudgetReached(str(error)) from None

    async def look_up(self, keys: Iterable[str]) -> dict[str, T]:
        """Return what the store holds under some keys, without blocking the event loop; see `find` for errors."""
        return dict(await asyncio.to_thread(self.find, list(keys)))

    async def keep(self, rows: Iterable[Paid]) -> None:
        """Keep what was paid for: in the store or, once that has failed, in the spool."""
        found = list(rows)
        if found:
            done: Future[None] = get_running_loop().create_future()
            self._next.rows.append((found, done))
            self._work_soon()
            await done

    async def close(self) -> None:
        """Finish what is being written, and give up all claims."""
        self._work_soon()
        if self._working is not None and self._working.get_loop() is get_running_loop():
            await asyncio.shield(self._working)

    @asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Give up all claims at the end of a block, and raise the store's failure in place of what followed from it.

        Raises:
            StoreError: The store failed; it says where what came then was spooled.
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

    # --- one piece of work at a time ----------------------------------------------------------------------------

    async def _claimed(self, keys: Collection[str]) -> Claimed[T]:
        if self._budget.stopped is not None:
            raise BudgetReached(str(self._budget.stopped))
        self._failure = None
        done: Future[Claimed[T]] = get_running_loop().create_future()
        self._next.wanted.append((keys, done))
        self._work_soon()
        try:
            return await done
        except asyncio.CancelledError:
            if done.done() and not done.cancelled() and done.exception() is None:
                self._free(done.result().mine)  # they came just as the wait was given up
            raise

    def _free(self, keys: Collection[str]) -> None:
        """Give up claims, with the next piece of work."""
        if keys:
            self._held.difference_update(keys)
            self._next.freed.update(keys)
            if self._change is not None and not self._change.done():
                self._change.set_result(None)
            self._work_soon()

    async def _a_while(self, keys: Collection[str], until: str) -> None:
        """Wait until it is worth looking again for what somebody else is asking, here or elsewhere."""
        if not self._has_said and not self._held.issuperset(keys):
            self._has_said = True
            _SAYS.warning(
                "another process is asking some of the same prompts (claimed until %s): waiting for its answers", until
            )
        if self._change is None or self._change.done():
            self._change = get_running_loop().create_future()
        await asyncio.wait([self._change], timeout=self._lease.look)

    def _work_soon(self) -> None:
        is_over = self._working is None or self._working.done() or self._working.get_loop() is not get_running_loop()
        if self._next and is_over:
            self._working = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._next:
            await asyncio.sleep(max(0.0, self._rests_until - perf_counter()))
            moment, self._next = self._next, _Moment()
            start = perf_counter()
            try:
                await asyncio.to_thread(self._write, [row for rows, _ in moment.rows for row in rows])
                await self._exchange(moment)
            except BaseException as error:
                # Nobody may wait for what will not come: a bug, or the end of the loop.
                waiting: list[Future[Any]] = [done for _, done in moment.rows]
                waiting += [done for _, done in moment.wanted]
                for each in waiting:
                    if not each.done():
                        each.set_exception(error) if isinstance(error, Exception) else each.cancel()
                raise
            spent = perf_counter() - start
            self._rests_until = perf_counter() + min(MOMENT_SECONDS, spent * (1 / SHARE - 1))

    def _write(self, rows: Sequence[Paid]) -> None:
        """Put rows into the store, or into the spool from its first failure on."""
        if rows and self._failure is None:
            try:
                return add_paid(self._store, rows)
            except StoreError as error:
                self._break(error)
        if rows and self._failure is not None:
            self._failure.spooled(len(rows), self._spool.put(rows))

    async def _exchange(self, moment: _Moment[T]) -> None:
        """Settle claims, and hand over to each who waits what became of its own."""
        for _, kept in moment.rows:
            if not kept.done():
                kept.set_result(None)
        wanted = {key for keys, _ in moment.wanted for key in keys}
        try:
            taken, known = await asyncio.to_thread(self._settle, moment, wanted)
        except StoreError as error:
            self._break(error)
            for _, done in moment.wanted:
                if not done.done():
                    done.set_exception(BudgetReached(str(error)))
            return
        if taken.over:
            _SAYS.warning("%d prompts that another process claimed are asked here: its claims have run out", taken.over)
        left = set(taken.mine)
        for keys, done in moment.wanted:
            mine = left.intersection(keys) - known.keys()
            if not done.done():
                done.set_result(Claimed(mine, {key: known[key] for key in keys if key in known}, taken.until))
                self._held |= mine
                left -= mine
        self._free(left)
        self._renew_in_time()

    def _settle(self, moment: _Moment[T], wanted: Collection[str]) -> tuple[Taken, Mapping[str, T]]:
        if self._failure is not None and wanted:
            raise self._failure
        if self._failure is not None or not (wanted or moment.freed or moment.is_due):
            return Taken(), {}
        taken = self._claims.exchange(moment.freed, wanted, moment.is_due)
        # Looked for after they are claimed: whoever held a claim before has kept its answer by then.
        return taken, self._find(wanted) if wanted else {}

    def _renew_in_time(self) -> None:
        """See to it that claims are renewed as long as some are held."""
        if self._renewal is not None and not self._held:
            self._renewal.cancel()
            self._renewal = None
        elif self._renewal is None and self._held and self._failure is None:
            self._renewal = get_running_loop().call_later(self._lease.seconds / 4, self._renew)

    def _renew(self) -> None:
        self._renewal = None
        self._next.is_due = True
        self._work_soon()

    def _break(self, error: StoreError) -> None:
        """Note that the store failed: from now on nothing is asked, and what comes is spooled."""
        stopped = self._budget.stopped
        self._failure = stopped if isinstance(stopped, Unsaved) else Unsaved(str(error))
        self._budget.stopped = self._failure
