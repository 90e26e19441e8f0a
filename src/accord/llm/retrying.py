"""Try again what can succeed the next time, waiting as long as the endpoint asks, or a little longer each time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Generic

from accord.llm.model import A, CallFailed, Failure, Model, Q

PASSING = frozenset({"timeout", "unreachable", "rate-limited", "server", "malformed"})
"""Reasons that may be gone the next time; a refusal or a rejected request will be the same again."""

ATTEMPTS = 5
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 60.0


class Retrying(Generic[Q, A]):
    """A model that asks again, up to `attempts` times in all.

    A Retry-After longer than `longest` seconds ends the attempts: nobody waits an hour in silence.
    """

    def __init__(
        self,
        model: Model[Q, A],
        attempts: int = ATTEMPTS,
        first: float = FIRST_WAIT_SECONDS,
        longest: float = LONGEST_WAIT_SECONDS,
        on_failure: Callable[[Failure], None] = lambda _: None,
    ) -> None:
        """`on_failure` is told of every failed attempt, those that are tried again included."""
        self.name = model.name
        self._model, self._attempts = model, attempts
        self._first, self._longest, self._on_failure = first, longest, on_failure
        self._random = random.Random(0)

    async def ask(self, question: Q) -> A:
        """The model's answer.

        Raises:
            CallFailed: The last attempt failed, or the failure cannot pass.
        """
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._model.ask(question)
            except CallFailed as error:
                self._on_failure(error.failure)
                wait = self._wait(attempt, error.failure)
                if attempt == self._attempts or error.failure.reason not in PASSING or wait > self._longest:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _wait(self, attempt: int, failure: Failure) -> float:
        """Seconds to wait: as asked for, else doubling, spread so that clients do not march in step."""
        if failure.retry_after is not None:
            return failure.retry_after
        return min(self._first * 2.0 ** (attempt - 1), self._longest) * self._random.uniform(0.75, 1.25)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()
