"""Equal questions under way are asked once: the second waits for the first one's answer."""

from __future__ import annotations

import asyncio
from typing import Generic

from accord.llm.model import A, Model, Q, key_of


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
