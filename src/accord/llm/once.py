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
        self._running: dict[str, asyncio.Task[A]] = {}

    async def ask(self, question: Q) -> A:
        """The answer, or the failure, of whoever asked first."""
        key = key_of(self.name, question)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._model.ask(question))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        # One who gives up waiting does not take the answer from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()
