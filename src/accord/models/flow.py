"""Methods yield requests, one driver does the waiting: a method is a plain generator, testable without a model.

A `PromptFlow` yields prompts for one chat model. A `Flow` yields requests, each naming the role it is for (`judge`,
`writer`, ...); `to` turns the first into the second, `together` runs several at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from accord.edges import BudgetReached
from accord.models.event_loop import wait
from accord.models.model import CallFailed, ChatModel, Failure, Prompt, Reply

OUT_OF_BUDGET, IN_BATCH = "out of budget", "in batch"
LATER = frozenset({OUT_OF_BUDGET, IN_BATCH})
"""Reasons why there is no reply yet, although there will be one."""

T = TypeVar("T")
R = TypeVar("R")

PromptFlow = Generator[Sequence[Prompt], Sequence[Reply | Failure], T]
"""Yields the prompts it needs answered together, is sent their replies in order, returns its result."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something that whoever has a role is to answer.

    Attributes:
        role: Whose: a name under `models:` of `accord.yaml`, or one that needs no model (`embedder`, `store`).
        content: What is asked: a `Prompt`, or one of the values of `accord.models.role_models`.
        about: The question that a prompt asks, where its answer is a distribution over the question's options.
        purpose: What progress and counts call it.
        stand_in: The expected answer, which a plan assumes; the requests that follow from it are planned too.
        fewest: An answer with fewer follow-up requests than `stand_in`, for the lower end of a plan.
        most: An answer with more follow-up requests, such as one that cannot be read, for the upper end.
    """

    role: str
    content: Any
    about: Any = None
    purpose: str = ""
    stand_in: Any = None
    fewest: Any = None
    most: Any = None


StandIn = Callable[[Prompt], Reply]
"""Makes the answer that a plan assumes for a prompt."""

Flow = Generator[Sequence[Request], Sequence[Any], T]
"""Yields the requests it needs answered together, is sent their answers in order, returns its result."""


def to(
    role: str,
    flow: PromptFlow[T],
    purpose: str = "",
    about: Any = None,
    stand_in: StandIn | None = None,
    fewest: StandIn | None = None,
    most: StandIn | None = None,
) -> Flow[T]:
    """Address all prompts of a flow to one role; see `Request` for the stand-ins of plans."""
    makers = (stand_in, fewest, most)
    try:
        prompts = next(flow)
        while True:
            assumed = [[make(prompt) if make else None for make in makers] for prompt in prompts]
            asked = zip(prompts, assumed, strict=True)
            prompts = flow.send((yield [Request(role, prompt, about, purpose, *replies) for prompt, replies in asked]))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def together(
    flows: Iterable[Flow[T]], at_once: int | None = None, on_result: Callable[[T], None] = lambda result: None
) -> Flow[list[T]]:
    """The results of several flows, in their order; what they ask in the same round is asked at once.

    Args:
        flows: Taken as others end.
        at_once: The most that are under way; all where it is left out.
        on_result: Called with each result as its flow ends.
    """
    source = enumerate(flows)
    running: dict[int, Flow[T]] = {}
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[Request]] = {}
    answers: dict[int, Sequence[Any] | None] = {}
    while True:
        for place, flow in islice(source, None if at_once is None else at_once - len(running)):
            running[place], answers[place] = flow, None
        if not answers:
            return [results[place] for place in range(len(results))]
        for place, given in answers.items():
            try:
                waiting[place] = running[place].send(given)  # type: ignore[arg-type]
            except StopIteration as end:
                results[place] = end.value
                del running[place]
                waiting.pop(place, None)
                on_result(end.value)
        answers = {}
        if waiting:
            flat = iter((yield [request for requests in waiting.values() for request in requests]))
            answers = {place: list(islice(flat, len(requests))) for place, requests in waiting.items()}


def nothing(result: T) -> Flow[T]:
    """A flow that asks nobody."""
    yield from ()
    return result


async def drive(flow: PromptFlow[T], model: ChatModel) -> T:
    """Run one flow to its end, answering each round of prompts at once."""
    try:
        prompts = next(flow)
        while True:
            replies = await all_of(ask(model, prompt) for prompt in prompts)
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


def _take(source: Iterator[T], most: int) -> tuple[list[T], Exception | None]:
    """The next items, and why there are no more where taking them failed."""
    taken: list[T] = []
    try:
        taken.extend(islice(source, most))
    except Exception as broken:
        return taken, broken
    return taken, None


async def as_finished(
    work: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], at_once: int, from_store: bool = False
) -> AsyncGenerator[tuple[T, R], None]:
    """Each item with its result, as results arrive; `at_once` are under way, and items are taken as slots come free.

    After an exception, of the work or of the items, no further item is taken; what is under way is finished and
    yielded, then it is raised. Items that come `from_store` are taken in a thread, so that the event loop does not wait
    for a database.
    """
    source = iter(items)
    running: dict[asyncio.Task[R], T] = {}
    failed: BaseException | None = None
    try:
        while True:
            free = 0 if failed else at_once - len(running)
            taken, broken = await asyncio.to_thread(_take, source, free) if from_store and free else _take(source, free)
            failed = failed or broken
            for item in taken:
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


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results in their order; where some fail, the others are finished before the first failure is raised.

    What is under way is paid for: nobody may walk away from it.
    """
    found = await asyncio.gather(*work, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return found  # type: ignore[return-value]


def run_flow(flow: PromptFlow[T], model: ChatModel) -> T:
    """`drive`, for callers without an event loop."""
    return wait(drive(flow, model))
