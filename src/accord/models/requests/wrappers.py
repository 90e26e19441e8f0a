"""Wrappers around a chat model: cached replies, a limit of requests in progress, retries."""

from __future__ import annotations

import asyncio
import json
import random
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from accord.edges import NotSent
from accord.models.model import A, CallFailed, ChatModel, Failure, Model, ModelWrapper, Prompt, Q, Reply, Usage, key_of
from accord.models.requests.budget import Budget
from accord.models.requests.exchange import Assumption, Exchange, Plan, ask_once
from accord.models.requests.flow import NOT_ASKED, Request
from accord.models.requests.request_ledger import RequestLedger
from accord.store import PaidRow, Store


def reply_key(endpoint: str, model: str, question: Any) -> str:
    """Return the key of a stored reply; the same name at another endpoint is another model."""
    return key_of(f"{endpoint} {model}", question)


def decode_reply(stored: str) -> Reply:
    """Return a stored reply; its usage is zero."""
    return Reply(**{**json.loads(stored), "usage": Usage()})


def reply_row(key: str, model: str, reply: Reply, conversations: Sequence[str] | None) -> PaidRow:
    """Return a reply as a row of the store; `conversations` comes from its `Prompt`."""
    sources = None if conversations is None else list(conversations)
    return {
        "kind": "reply", "key": key, "maker": model, "content": json.dumps(asdict(reply)), "conversations": sources,
    }  # fmt: skip


class ReplyExchange(Exchange[Request, Reply]):
    """Prompts to a chat model; a request's `about` may select the model and its endpoint."""

    not_sent = NOT_ASKED

    def __init__(
        self,
        store: Store,
        model: str,
        chat: Callable[[Any], ChatModel],
        endpoint: Callable[[Any], str],
        budget: Budget | None = None,
    ) -> None:
        """`chat` and `endpoint` are functions of a request's `about`."""
        super().__init__(RequestLedger(store, store.replies, budget), model)
        self._chat, self._endpoint = chat, endpoint

    def key(self, request: Request) -> str:
        """Return the hash of endpoint, model and prompt."""
        return reply_key(self._endpoint(request.about), self.model, request.content)

    async def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Send the prompts."""
        return [await self._chat(request.about).ask(request.content) for request in requests]

    def cost(self, requests: Sequence[Request], assume: Assumption = "stand_in") -> list[Prompt]:
        """Return the prompts."""
        return [request.content for request in requests]

    def groups(self, requests: Sequence[tuple[str, Request]]) -> list[list[tuple[str, Request]]]:
        """Send each prompt on its own."""
        return [[request] for request in requests]

    def encode(self, key: str, request: Request, answer: Reply) -> PaidRow:
        """Return the reply as JSON."""
        return reply_row(key, self.model, answer, request.content.conversations)

    def decode(self, request: Request, stored: str) -> Reply:
        """Return the reply, which costs nothing this time."""
        return decode_reply(stored)

    def assumed(self, request: Request, plan: Plan) -> Any:
        """Return the request's stand-in."""
        plan.has_follow_ups = plan.has_follow_ups or request.stand_in is not None
        return getattr(request, plan.assume) or request.stand_in or super().assumed(request, plan)


class Cached(ModelWrapper[Prompt, Reply]):
    """A chat model whose replies are stored; only one process asks for each. Failures are never stored."""

    def __init__(self, model: ChatModel, store: Store, budget: Budget | None = None) -> None:
        """`budget` is stopped if the store fails."""
        super().__init__(model)
        self._exchange = ReplyExchange(store, model.name, lambda _: model, lambda _: self.endpoint, budget)

    async def ask(self, prompt: Prompt) -> Reply:
        """Return the stored reply, or a new one that is stored first.

        Raises:
            BudgetReached: The store failed: a reply could not be stored.
        """
        exchange, request = self._exchange, Request("", prompt)
        key = exchange.key(request)
        stored = await exchange.ledger.look_up([key])
        answers = {key: decode_reply(stored[key])} if stored else await ask_once(exchange, {key: request})
        return answers[key]  # type: ignore[return-value]  # a failure is raised

    async def close(self) -> None:
        """Release claims and close the model's connections."""
        await self._exchange.ledger.close()
        await super().close()


START = 8.0
SHRINK = 0.7


class Limit:
    """Limit of the requests in progress at an endpoint, shared by all models that use it with the same key.

    The limit grows by one for every full round of successes. It shrinks to `SHRINK` of itself if the endpoint reports
    too many requests, and not again before a round at the new limit is over.
    """

    def __init__(self, most: int, start: float = START) -> None:
        self.most = most
        self.height = min(start, float(most))
        self.running = 0
        self.is_reachable = False
        """True after the endpoint accepted a connection, until it refuses every attempt of a request."""
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
                    self._leave()  # the slot was given while the wait was cancelled
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
        """Adjust the limit to a failed attempt."""
        if failure.is_sent:
            self.is_reachable = True
        if failure.reason == "rate-limited":
            self.slow_down()

    def slow_down(self) -> None:
        """Shrink the limit."""
        if self._since_shrink >= self.height:
            self.height = max(1.0, self.height * SHRINK)
            self._since_shrink = 0

    def _leave(self) -> None:
        """Release a slot, and give free slots to waiting requests in order."""
        self.running -= 1
        while self._waiting and self.running < int(self.height):
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)


class Limited(ModelWrapper[Q, A]):
    """A model that waits for a slot of its endpoint's limit."""

    def __init__(self, model: Model[Q, A], limit: Limit) -> None:
        super().__init__(model)
        self._limit = limit

    async def ask(self, question: Q) -> A:
        """Return the model's answer after a slot is free."""
        async with self._limit:
            return await self._model.ask(question)


PASSING = frozenset({"timeout", "unreachable", "rate-limited", "server", "malformed"})
"""Reasons of temporary failures; a refused or rejected request would fail again."""

ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0


class Retrying(ModelWrapper[Q, A]):
    """A model that sends a failed request again, up to `attempts` times in total.

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
        """`limit` is the endpoint's limit; every failed attempt adjusts it."""
        super().__init__(model)
        self._attempts = attempts
        self._first, self._longest, self._limit = first, longest, limit
        self._random = random.Random(0)

    async def ask(self, question: Q) -> A:
        """Return the model's answer.

        Raises:
            CallFailed: The last attempt failed, or the failure would recur.
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
        """Stop all requests to an endpoint that accepts no connection."""
        if failure.reason == "unreachable" and not failure.is_sent and (is_last or not limit.is_reachable):
            limit.is_reachable = False
            raise NotSent(
                f"{failure.detail} for model {self.name!r}: nothing was sent. Check base_url or OPENAI_BASE_URL, and "
                "that the server is running"
            ) from None

    def wait_after(self, attempt: int, failure: Failure) -> float | None:
        """Return the seconds to wait after a failed attempt, counted from 1, or `None` after the last one.

        The endpoint may ask for a time; otherwise it doubles, with jitter.
        """
        wait = failure.retry_after
        if wait is None:
            wait = min(self._first * 2.0 ** (attempt - 1), self._longest) * self._random.uniform(0.75, 1.25)
        is_last = attempt >= self._attempts or failure.reason not in PASSING or wait > self._longest
        return None if is_last else wait
