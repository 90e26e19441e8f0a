"""Flows: methods as generators of requests, the values that they ask for, and their event loop.

A `PromptFlow` yields prompts for one chat model. A `Flow` yields requests that name the role that answers them
(`judge`, `writer`, ...). `to` turns the first into the second, and `together` runs several at once. A flow is tested
without a model: the test sends the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, TypeVar

from accord.edges import BudgetReached
from accord.models.model import CallFailed, ChatModel, Failure, Prompt, Reply

if TYPE_CHECKING:
    from accord.store import Store
from accord.values import Rubric, Sample

T = TypeVar("T")
R = TypeVar("R")

# --- roles and reasons ----------------------------------------------------------------------------------------------

JUDGE, WRITER, SCORER, FINDER, LIKELIHOOD = "judge", "writer", "scorer", "finder", "likelihood"
USER, ASSISTANT = "user", "assistant"
"""The two speakers of a synthetic conversation; one model speaks for both if the project names only one."""
EMBEDDER, STORE = "embedder", "store"
"""Roles that need no entry under `models:`."""
NOT_ASKED, NOT_YET, NOT_MEASURED = "not asked yet", "not judged yet", "not measured yet"
OUT_OF_BUDGET, IN_BATCH = "out of budget", "in batch"
LATER = frozenset({OUT_OF_BUDGET, IN_BATCH})
"""Reasons of missing replies that a later run gets."""
NEVER_SENT = frozenset({NOT_ASKED, NOT_YET, NOT_MEASURED, OUT_OF_BUDGET})
"""Reasons of missing answers whose requests were never sent."""
NOT_APPLICABLE = "does not apply"
MODEL_ERROR = "model error"
"""Reason of a missing answer whose request was sent and raised a `ModelError`, for example HTTP 401."""
GIVEN = "given"
"""Endpoint of models that the caller passes in, in the keys of their stored replies."""

# --- requests -------------------------------------------------------------------------------------------------------

PromptFlow = Generator[Sequence[Prompt], Sequence[Reply | Failure], T]
"""Yields prompts that are answered together, receives their replies in order, returns its result."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model of a role.

    Attributes:
        role: A name under `models:` of `accord.yaml`, or a role that needs no model (`embedder`, `store`).
        content: A `Prompt`, `Questions`, `Passage`, `Text`, `Who`, `StoreRead` or `StoreWrite`.
        about: The question that a prompt asks, if its answer is a distribution over the question's options.
        purpose: Name of the request in progress reports and counts.
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


@dataclass(frozen=True, slots=True)
class Who:
    """Asks who has a role; the answer is a `Known`. Nobody is asked anything."""


@dataclass(frozen=True, slots=True)
class Known:
    """Who has a role.

    Attributes:
        name: The model's name.
        mode: How a distribution is obtained from it; empty where it gives none.
        where: Where it answers: the same name elsewhere is another model.
        context: Tokens of one request, where that is known.
    """

    name: str
    mode: str = ""
    where: str = ""
    context: int | None = None


@dataclass(frozen=True)
class Questions:
    """A rubric's questions about one sample; the answer is a `Judged`."""

    sample: Sample
    rubric: Rubric


@dataclass(frozen=True, slots=True)
class Text:
    """A text to place; the answer is its vector.

    Attributes:
        embedder: A name that `open_embedder` knows.
        text: What to place.
        width: Of the vectors that it is to be held against, where they are known.
    """

    embedder: str
    text: str
    width: int | None = None


@dataclass(frozen=True)
class StoreRead:
    """Reads from the store; the answer is what `call` returns."""

    call: Callable[[Store], Any]


@dataclass(frozen=True)
class StoreWrite:
    """Writes to the store; a plan leaves it out."""

    call: Callable[[Store], None]


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


# --- running prompts ------------------------------------------------------------------------------------------------


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


# --- the event loop -------------------------------------------------------------------------------------------------

_NAME = "accord-waiting"
LAST_SECONDS = 10.0
"""How long an interrupted call may take to let go of what it holds."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=_NAME, daemon=True).start()
    return loop


def wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. An interrupt cancels it, and is passed on when it has let go of what it holds."""
    if current_thread().name == _NAME:
        work.close()
        raise RuntimeError("wait() was called from the loop it would wait for; await the work instead")
    done: Future[T] = Future()
    started: Future[asyncio.Task[None]] = Future()

    async def run() -> None:
        try:
            done.set_result(await work)
        except BaseException as error:  # handed over to whoever waits
            done.set_exception(error)

    _loop().call_soon_threadsafe(lambda: started.set_result(_loop().create_task(run())))
    try:
        return done.result()
    except KeyboardInterrupt:
        _loop().call_soon_threadsafe(started.result().cancel)
        with suppress(BaseException):
            done.result(timeout=LAST_SECONDS)
        raise


def start(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin `work` on the same loop without waiting for it; to cancel what is returned cancels the work."""
    return asyncio.run_coroutine_threadsafe(work, _loop())
