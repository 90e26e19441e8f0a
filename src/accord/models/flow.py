"""Methods yield prompts, one driver does the waiting: a method is a plain generator, testable without a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from accord.models.model import CallFailed, ChatModel, Failure, Prompt, Reply
from accord.models.waiting import wait
from accord.values import BudgetReached

OUT_OF_BUDGET, IN_BATCH = "out of budget", "in batch"
LATER = frozenset({OUT_OF_BUDGET, IN_BATCH})
"""Reasons why there is no reply yet, although there will be one."""

T = TypeVar("T")
R = TypeVar("R")

Flow = Generator[Sequence[Prompt], Sequence[Reply | Failure], T]
"""Yields the prompts it needs answered together, is sent their replies in order, returns its result."""


async def drive(flow: Flow[T], model: ChatModel) -> T:
    """Run one flow to its end, answering each round of prompts at once."""
    try:
        prompts = next(flow)
        while True:
            replies = await asyncio.gather(*(ask(model, prompt) for prompt in prompts))
            prompts = flow.send(replies)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def ask(model: ChatModel, prompt: Prompt) -> Reply | Failure:
    """A model's reply, or its failure as a value; a budget that is reached is one too, so that others can finish."""
    try:
        return await model.ask(prompt)
    except CallFailed as error:
        return error.failure
    except BudgetReached as error:
        return Failure(OUT_OF_BUDGET, str(error))


async def as_finished(
    work: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], at_once: int
) -> AsyncGenerator[tuple[T, R], None]:
    """Each item with its result, as results arrive; `at_once` are under way, and items are taken as slots come free.

    After an exception no further item is taken; what is under way is finished and yielded, then it is raised.
    """
    source = iter(items)
    running: dict[asyncio.Task[R], T] = {}
    failed: BaseException | None = None
    try:
        while True:
            for item in islice(source, 0 if failed else at_once - len(running)):
                running[asyncio.create_task(work(item))] = item
            if not running and failed is not None:
                raise failed
            if not running:
                return
            finished, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                item = running.pop(task)
                error = asyncio.CancelledError() if task.cancelled() else task.exception()
                if error is None:
                    yield item, task.result()
                else:
                    failed = failed or error
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def run_flow(flow: Flow[T], model: ChatModel) -> T:
    """`drive`, for callers without an event loop."""
    return wait(drive(flow, model))
