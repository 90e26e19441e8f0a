"""A limit on requests under way that finds its own height: one more after a round of successes, fewer after a 429."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections import deque
from typing import Generic

from accord.llm.model import A, Failure, Model, Q

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
            self.height = min(self.most, self.height + 1.0 / self.height)
        self._since_shrink += 1
        self._leave()

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


def slows(limit: Limit, failure: Failure) -> None:
    """Tell the limit of a failed attempt; only an endpoint that is asked too much lowers it."""
    if failure.reason == "rate-limited":
        limit.slow_down()
