"""Flows (methods as generators of requests), their requests, and the event loop that runs them.

A `PromptFlow` yields prompts for one chat model. A `Flow` yields requests that name the role that answers them
(`judge`, `writer`, ...). `to_role` turns the first into the second, and `together` runs several at once. A flow is
tested without a model: the test sends the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
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
"""Reasons for missing replies that a later run can get."""
NEVER_SENT = frozenset({NOT_ASKED, NOT_YET, NOT_MEASURED, OUT_OF_BUDGET})
"""Reasons for missing answers whose requests were never sent."""
NOT_APPLICABLE = "does not apply"
MODEL_ERROR = "model error"
"""Reason for a missing answer whose request was sent and raised a `ModelError`, for example HTTP 401."""
GIVEN = "given"
"""Endpoint of models that the caller passes in, in the keys of their stored replies."""

# --- requests -------------------------------------------------------------------------------------------------------

PromptFlow = Generator[Sequence[Prompt], Sequence[Reply | Failure], T]
"""Generator that yields prompts to answer together, receives their replies in order, and returns its result."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model of a role.

    Attributes:
        role: A name under `models:` of `accord.yaml`, or a role that needs no model (`embedder`, `store`).
        content: A `Prompt`, `Questions`, `Passage`, `EmbeddingText`, `ModelQuery`, `StoreRead` or `StoreWrite`.
        about: The question that a prompt asks, if its answer is a distribution over the question's options.
        purpose: Name of the request in progress reports and counts.
        stand_in: The expected answer, which a plan assumes; the requests that follow from it are planned too.
        fewest: An answer with fewer follow-up requests than `stand_in`, for the lower end of a plan.
        most: An answer with more follow-up requests, such as an unreadable one, for the upper end.

    >>> from accord.models import ChatMessage
    >>> Request("scorer", (ChatMessage("user", "Is it polite?"),), purpose="politeness").role
    'scorer'
    """

    role: str
    content: Any
    about: Any = None
    purpose: str = ""
    stand_in: Any = None
    fewest: Any = None
    most: Any = None


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """Query about a role's model; the answer is a `ModelInfo`, and no request is sent to the model."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The model of a role.

    Attributes:
        name: Name of the model.
        mode: Way to obtain a distribution; empty if it gives none.
        where: Name and endpoint; the same name at another endpoint is another model.
        context: Maximum tokens per request, if known.
        redacted: Signature of the redaction of its requests (`Redactor.signature`); empty without one.
    """

    name: str
    mode: str = ""
    where: str = ""
    context: int | None = None
    redacted: str = ""


@dataclass(frozen=True)
class Questions:
    """A rubric's questions about one sample; the answer is a `Judged`."""

    sample: Sample
    rubric: Rubric


@dataclass(frozen=True, slots=True)
class EmbeddingText:
    """A text to embed; the answer is its vector.

    Attributes:
        embedder: A name for `open_embedder`.
        text: The text.
        width: Width of the vectors that it is compared with, if known.
        conversations: As in `Prompt`.
    """

    embedder: str
    text: str
    width: int | None = None
    conversations: tuple[str, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class StoreRead:
    """Read from the store; the answer is the return value of `call`."""

    call: Callable[[Store], Any]


@dataclass(frozen=True)
class StoreWrite:
    """Write to the store; a plan skips it."""

    call: Callable[[Store], None]


StandIn = Callable[[Prompt], Reply]
"""Function that returns the reply that a plan assumes for a prompt."""

Flow = Generator[Sequence[Request], Sequence[Any], T]
"""Generator that yields requests to answer together, receives their answers in order, and returns its result."""


def to_role(
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
    flows: Iterable[Flow[T]], concurrency: int | None = None, on_result: Callable[[T], None] = lambda result: None
) -> Flow[list[T]]:
    """Run several flows, and return their results in order; the requests of one round are answered together.

    Args:
        flows: Flows; each is started when there is room for it.
        concurrency: Largest number of flows in progress; None starts all.
        on_result: Called with each result as its flow ends.
    """
    source = enumerate(flows)
    running: dict[int, Flow[T]] = {}
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[Request]] = {}
    answers: dict[int, Sequence[Any] | None] = {}
    while True:
        for place, flow in islice(source, None if concurrency is None else concurrency - len(running)):
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


def without_requests(result: T) -> Flow[T]:
    """Return a flow with a result and no requests, for a source that only measures.

    >>> from accord.models import memory_models, run
    >>> run(without_requests(3), memory_models())
    3
    """
    yield from ()
    return result


# --- running prompts ------------------------------------------------------------------------------------------------


async def drive(flow: PromptFlow[T], model: ChatModel) -> T:
    """Run a flow of prompts, and answer each round at once."""
    try:
        prompts = next(flow)
        while True:
            replies = await gather_all(ask_model(model, prompt) for prompt in prompts)
            prompts = flow.send(replies)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def ask_model(model: ChatModel, prompt: Prompt) -> Reply | Failure:
    """Return a model's reply, or its failure; a spent budget is a failure too, so that other requests can finish."""
    try:
        return await model.ask(prompt)
    except CallFailed as error:
        return error.failure
    except BudgetReached as error:
        return Failure(OUT_OF_BUDGET, str(error))


def _take(source: Iterator[T], most: int) -> tuple[list[T], Exception | None]:
    """Return the next items, and the exception that ended them."""
    taken: list[T] = []
    try:
        taken.extend(islice(source, most))
    except Exception as broken:
        return taken, broken
    return taken, None


async def as_finished(
    work: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], concurrency: int, from_store: bool = False
) -> AsyncGenerator[tuple[T, R], None]:
    """Yield each item with its result as results arrive; `concurrency` items are in progress.

    After an exception of the work or of the items, no further item is taken. Items in progress are finished and
    yielded, then the exception is raised. Items that come `from_store` are taken in a thread, so that a database does
    not block the event loop.
    """
    source = iter(items)
    running: dict[asyncio.Task[R], T] = {}
    failed: BaseException | None = None
    try:
        while True:
            free = 0 if failed else concurrency - len(running)
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


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order; raise the first failure after the others are finished, since they are paid for."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


def run_flow(flow: PromptFlow[T], model: ChatModel) -> T:
    """Run a flow of prompts without an event loop; see `drive`."""
    return wait(drive(flow, model))


# --- the event loop -------------------------------------------------------------------------------------------------

_NAME = "accord-waiting"
LAST_SECONDS = 10.0
"""Seconds that an interrupted call has to release its resources."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=_NAME, daemon=True).start()
    return loop


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, run in the process's one event loop; an interrupt cancels it and is passed on.

    Connections belong to the loop that opened them, so all calls share one, in a thread of its own. A notebook, which
    runs a loop already, can call the same functions as a script.
    """
    if current_thread().name == _NAME:
        work.close()
        raise RuntimeError("wait() was called inside its own event loop; await the work instead")
    done: Future[T] = Future()
    started: Future[asyncio.Task[None]] = Future()

    async def run() -> None:
        try:
            done.set_result(await work)
        except BaseException as error:  # raised by done.result()
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
    """Start `work` in the event loop of `wait`; cancelling the returned future cancels the work."""
    return asyncio.run_coroutine_threadsafe(work, _loop())
