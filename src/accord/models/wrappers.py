"""Replies that were paid for are kept: an equal question to the same model is answered from the store."""

from __future__ import annotations

import asyncio
import json
import random
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Generic

from accord.edges import NotSent
from accord.models.budget import Budget
from accord.models.model import A, CallFailed, Failure, Model, Q, Reply, Usage, key_of
from accord.models.request_ledger import Ledger
from accord.store import Paid, Store


def kept_key(endpoint: str, model: str, question: Any) -> str:
    """The key of a kept reply: the same name at another endpoint is another model."""
    return key_of(f"{endpoint} {model}", question)


def decode_reply(kept: dict[str, Any]) -> Reply:
    """A kept reply; it cost nothing this time."""
    return Reply(**{**kept, "usage": Usage()})


class Cached(Generic[Q, A]):
    """A model whose replies outlive it, each asked for by one process alone. Failures and refusals are never kept."""

    def __init__(
        self,
        model: Model[Q, A],
        store: Store,
        endpoint: str,
        decode: Callable[[dict[str, Any]], A],
        budget: Budget | None = None,
    ) -> None:
        """`endpoint` is part of the key: the same name elsewhere is another model. `decode` inverts `asdict`."""
        self.name = model.name
        self._model, self._endpoint, self._decode = model, endpoint, decode
        self._ledger = Ledger(store, store.replies, budget)

    async def ask(self, question: Q) -> A:
        """The kept reply, or a new one, kept before it is returned.

        Raises:
            BudgetReached: The store failed: nothing is asked that could not be kept.
        """
        key = kept_key(self._endpoint, self.name, question)
        new: list[A] = []

        async def ask(_: list[str]) -> None:
            new.append(await self._model.ask(question))
            await self._ledger.keep([paid_reply(key, self.name, new[0])])

        kept = await self._ledger.looked([key]) or await self._ledger.once([key], ask)
        return new[0] if new else self._decode(json.loads(kept[key]))

    async def close(self) -> None:
        """Let go of the model's connections, and give up what was claimed."""
        await self._ledger.close()
        await self._model.close()


def paid_reply(key: str, maker: str, reply: Any) -> Paid:
    """A reply as it is kept."""
    return {"kind": "reply", "key": key, "maker": maker, "content": json.dumps(asdict(reply))}


class Once(Generic[Q, A]):
    """A model that joins equal questions while one of them is being answered."""

    def __init__(self, model: Model[Q, A]) -> None:
        self.name = model.name
        self._model = model
        self._running: dict[str, asyncio.Future[A]] = {}

    async def ask(self, question: Q) -> A:
        """The answer, or the failure, of whoever asked first; where that one gave up, the next in line asks."""
        key = key_of(self.name, question)
        while (first := self._running.get(key)) is not None:
            try:
                return await asyncio.shield(first)
            except asyncio.CancelledError:
                if not first.cancelled():
                    raise
        answered: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._running[key] = answered
        try:
            answer = await self._model.ask(question)
        except asyncio.CancelledError:
            answered.cancel()
            raise
        except BaseException as error:
            answered.set_exception(error)
            answered.exception()  # seen: nobody may be waiting for it
            raise
        else:
            answered.set_result(answer)
            return answer
        finally:
            del self._running[key]

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


START = 8.0
SHRINK = 0.7


class Limit:
    """How many requests may be under way at an endpoint; shared by all models that use the same one with the same key.

    Grows by one for every full round of successes, shrinks to `SHRINK` of itself when the endpoint says that it is
    too much, and not again before a round at the new height is over.
    """

    def __init__(self, most: int, start: float = START) -> None:
        self.most = most
        self.height = min(start, float(most))
        self.running = 0
        self.is_reachable = False
        """True once the endpoint has accepted a connection, until it refuses every attempt of a request."""
        self._since_shrink = 0
        self._waiting: deque[Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self.running >= int(self.height) or self._waiting:
            turn: Future[None] = get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self._leave()  # the slot came just as the wait was given up
                else:
                    self._waiting.remove(turn)
                raise
        else:
            self.running += 1

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.is_reachable = True
            self.height = min(self.most, self.height + 1.0 / self.height)
        self._since_shrink += 1
        self._leave()

    def note(self, failure: Failure) -> None:
        """Take account of a failed attempt."""
        if failure.is_sent:
            self.is_reachable = True
        if failure.reason == "rate-limited":
            self.slow_down()

    def slow_down(self) -> None:
        """The endpoint said that it is too much."""
        if self._since_shrink >= self.height:
            self.height = max(1.0, self.height * SHRINK)
            self._since_shrink = 0

    def _leave(self) -> None:
        """Give the slot up, and hand slots to those who wait, first come first served."""
        self.running -= 1
        while self._waiting and self.running < int(self.height):
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)


class Limited(Generic[Q, A]):
    """A model that waits for a slot before it asks."""

    def __init__(self, model: Model[Q, A], limit: Limit) -> None:
        self.name = model.name
        self._model, self._limit = model, limit

    async def ask(self, question: Q) -> A:
        """The model's answer, once there is room."""
        async with self._limit:
            return await self._model.ask(question)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


PASSING = frozenset({"timeout", "unreachable", "rate-limited", "server", "malformed"})
"""Reasons that may be gone the next time; a refusal or a rejected request will be the same again."""

ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0


class Retrying(Generic[Q, A]):
    """A model that asks again, up to `attempts` times in all.

    A Retry-After longer than `longest` seconds ends the attempts. A refused connection ends them at once, unless the
    endpoint has answered before and may be restarting.
    """

    def __init__(
        self,
        model: Model[Q, A],
        attempts: int = ATTEMPTS,
        first: float = FIRST_WAIT_SECONDS,
        longest: float = LONGEST_WAIT_SECONDS,
        limit: Limit | None = None,
    ) -> None:
        """`limit` is the endpoint's; every failed attempt is noted there."""
        self.name = model.name
        self._model, self._attempts = model, attempts
        self._first, self._longest, self._limit = first, longest, limit
        self._random = random.Random(0)

    async def ask(self, question: Q) -> A:
        """Return the model's answer.

        Raises:
            CallFailed: The last attempt failed, or the failure cannot pass.
            NotSent: The endpoint accepts no connection: no request can succeed.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._model.ask(question)
            except CallFailed as error:
                wait = self.wait_after(attempt, error.failure)
                if self._limit is not None:
                    self._limit.note(error.failure)
                    self._check_reachable(self._limit, error.failure, is_last=wait is None)
                if wait is None:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_reachable(self, limit: Limit, failure: Failure, is_last: bool) -> None:
        """Stop all requests to an endpoint that accepts no connection.

        Raises:
            NotSent: No attempt of this request connected, and no request before it did.
        """
        if failure.reason == "unreachable" and not failure.is_sent and (is_last or not limit.is_reachable):
            limit.is_reachable = False
            raise NotSent(
                f"{failure.detail} for model {self.name!r}: nothing was sent. Check base_url or OPENAI_BASE_URL, and "
                "that the server is running"
            ) from None

    def wait_after(self, attempt: int, failure: Failure) -> float | None:
        """Seconds to wait after an attempt (from 1) that failed; `None` where it is not tried again."""
        wait = self._wait(attempt, failure)
        is_last = attempt >= self._attempts or failure.reason not in PASSING or wait > self._longest
        return None if is_last else wait

    def _wait(self, attempt: int, failure: Failure) -> float:
        """Seconds to wait: as asked for, else doubling, spread so that clients do not march in step."""
        if failure.retry_after is not None:
            return failure.retry_after
        return min(self._first * 2.0 ** (attempt - 1), self._longest) * self._random.uniform(0.75, 1.25)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()
