"""`Models`, the models of a run by role, and the drivers of flows.

`run` asks models, `plan` prices a flow without asking, and `Models(asks=False)` answers from the store alone, without
an API key. A provider's batch files are in `accord.models.requests.batching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from accord.edges import BadInput, MissingExtra, ModelSetting
from accord.models.embedders import (
    STAND_IN_WIDTH,
    Embedder,
    EmbeddingExchange,
    Remote,
    embed_all,
    is_remote,
    open_embedder,
    open_remote,
    paid_from,
    random_vector,
)
from accord.models.likelihood import LikelihoodRequest
from accord.models.model import Caps, Failure, ModelSettings, Prompt
from accord.models.requests.budget import Budget
from accord.models.requests.exchange import Assumption, Plan, answer_all, price, stored_answers
from accord.models.requests.flow import (
    ASSISTANT,
    EMBEDDER,
    SCORER,
    STORE,
    USER,
    WRITER,
    EmbeddingText,
    Flow,
    ModelQuery,
    Questions,
    Request,
    StoreRead,
    StoreWrite,
    gather_all,
    wait,
)
from accord.models.requests.redacting import address_of, redacted_by, redactor_for, restored, sent_requests
from accord.models.role_models import Role, Shared
from accord.redaction import Redactor
from accord.store import Store

T = TypeVar("T")
OnAnswer = Callable[[str], None]
"""Called with the purpose of each request that is answered."""


class Models(Shared):
    """The models of a run, by role.

    Args:
        settings: Settings of each role's model.
        store: Store of all answers.
        budget: Budget of the run.
        asks: False to answer from the store alone.
        in_batches: True to send prompts in a provider's batch files.
        given: Models that the caller opened, by role: a `Judge`, a `ChatModel`, a `LikelihoodModel`; the caller
            closes them.
        folder: Folder that relative paths of models and recordings start from.
        redactor: Redacts requests that leave this machine; None sends them as they are.
    """

    def __init__(
        self,
        settings: Mapping[str, ModelSettings],
        store: Store,
        budget: Budget | None = None,
        asks: bool = True,
        in_batches: bool = False,
        given: Mapping[str, Any] | None = None,
        folder: Path = Path(),
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(store, budget or Budget(Caps(), {}), asks, in_batches, folder, redactor=redactor)
        self.settings = {**settings, **{role: ModelSettings() for role in given or {} if role not in settings}}
        self._given = given or {}
        self._roles: dict[str, Role] = {}
        self._remote: dict[str, Remote] = {}

    @contextmanager
    def recorded_failures(self) -> Iterator[dict[Any, Any]]:
        """Record the failed requests inside the block, for `replayed`; the caller clears the record between flows."""
        self.failures = {}
        try:
            yield self.failures
        finally:
            self.failures = None

    def replayed(self) -> Models:
        """Return models that send no request: answers come from the store and from the recorded failures."""
        made = Models(self.settings, self.store, self.budget, False, False, self._given, self.folder, self.redactor)
        made.failures = self.failures
        return made

    def has(self, role: str) -> bool:
        """Return True if a model is configured for this role."""
        return role in {EMBEDDER, STORE} or _role_of(role, self.settings) in self.settings

    def role(self, name: str) -> Role:
        """Return a role's model; the scorer also writes if no writer is configured.

        Raises:
            BadInput: No model is configured for the role.
        """
        role = _role_of(name, self.settings)
        if role not in self.settings:
            setting = ModelSetting(name, model="NAME")
            raise BadInput(f"no model configured for role {name!r}. {setting}", setting)
        if role not in self._roles:
            self._roles[role] = Role(role, self.settings[role], self, self._given.get(role))
        return self._roles[role]

    def close(self) -> None:
        """Close connections."""

        async def close() -> None:
            for role in self._roles.values():
                await role.close()

        if self._roles:
            wait(close())
        for remote in self._remote.values():
            remote.close()

    # --- answering ----------------------------------------------------------------------------------------------

    async def answer(self, requests: Sequence[Request], step: OnAnswer = lambda purpose: None) -> list[Any]:
        """Return an answer to each request, in order; different roles are asked at the same time.

        Raises:
            StoreError: The store failed: asking stopped, and answers in progress are spooled.
        """
        answers: dict[int, Any] = {}

        async def one(kind: type, purpose: str, places: list[int]) -> None:
            same = [requests[place] for place in places]
            new = await self._answer_alike(kind, same, lambda: step(purpose or same[0].role))
            answers.update(zip(places, new, strict=True))

        try:
            await gather_all(one(kind, purpose, places) for (_, kind, purpose, _), places in _alike(requests).items())
        finally:
            stopped, self.budget.stopped = self.budget.stopped, None
            if stopped is not None:
                raise stopped from None
        return [answers[place] for place in range(len(requests))]

    async def _answer_alike(self, kind: type, requests: Sequence[Request], step: Callable[[], None]) -> Sequence[Any]:
        if kind is Questions:
            return await self.role(requests[0].role).judged([request.content for request in requests], step)
        if kind is EmbeddingText:
            return await self._vectors([request.content for request in requests])
        if kind in (Prompt, LikelihoodRequest):
            role = self.role(requests[0].role)
            sent, redactions = sent_requests(requests, role.redactor)
            exchange = role.exchange(kind)
            answers = await answer_all(exchange, sent, step) if self.asks else stored_answers(exchange, sent)
            return list(map(restored, answers, redactions))
        return [self._without_asking(request) for request in requests]

    def price(self, requests: Sequence[Request], plan: Plan) -> list[Any]:
        """Count requests in a plan; return the stored answer, or a stand-in, to each."""
        answers: dict[int, Any] = {}
        for (role, kind, _, _), places in _alike(requests).items():
            same = [requests[place] for place in places]
            new: Sequence[Any]
            if kind is Questions:
                new = self.role(role).price_judging([request.content for request in same], plan)
            elif kind is EmbeddingText:
                new = self._price_vectors([request.content for request in same], plan)
            elif kind in (Prompt, LikelihoodRequest):
                sent, redactions = sent_requests(same, self.role(role).redactor)
                new = list(map(restored, price(self.role(role).exchange(kind), sent, plan), redactions))
            else:
                new = [None if kind is StoreWrite else self._without_asking(request) for request in same]
            answers.update(zip(places, new, strict=True))
        return [answers[place] for place in range(len(requests))]

    def _embedder(self, name: str) -> Embedder:
        """Return the embedder of a name; one at an endpoint is paid from the budget."""
        if not is_remote(name):
            return open_embedder(name)
        if name not in self._remote:
            self._remote[name] = open_remote(name, self.budget)
        return self._remote[name]

    def _sent_texts(self, requests: Sequence[EmbeddingText]) -> list[str]:
        """Return the texts of requests, with placeholders if the embedder is on another machine."""
        texts, is_sent = [request.text for request in requests], is_remote(requests[0].embedder)
        redactor = redactor_for(self.redactor, "", address_of(None)) if is_sent else None
        return texts if redactor is None else [redactor.begin().text(text) for text in texts]

    async def _vectors(self, requests: Sequence[EmbeddingText]) -> Sequence[Any]:
        """Return the vectors of texts of one embedder."""
        name, texts = requests[0].embedder, self._sent_texts(requests)
        embedder = self._embedder(name)
        if self.asks or not is_remote(name):
            return await embed_all(texts, embedder, self.store, self.budget, _sources(requests))
        vectors = stored_answers(EmbeddingExchange(embedder, self.store), texts)
        missing = {text for text, vector in zip(texts, vectors, strict=True) if isinstance(vector, Failure)}
        if missing:
            raise BadInput(f"{len(missing)} texts have no vector from {name} yet. To request them, run: accord fit")
        return vectors

    def _price_vectors(self, requests: Sequence[EmbeddingText], plan: Plan) -> Sequence[Any]:
        """Return stored vectors, and stand-ins for the vectors of an endpoint, whose requests are counted.

        An embedder in this process returns its vectors, or stand-ins if it is not installed.
        """
        name, texts = requests[0].embedder, self._sent_texts(requests)
        width = next((request.width for request in requests if request.width), None)
        if not is_remote(name):
            embedder = self._embedder(name)
            try:
                return wait(embed_all(texts, embedder, self.store, self.budget, _sources(requests)))
            except (BadInput, MissingExtra):
                plan.has_follow_ups = True
                return [random_vector(text, width or STAND_IN_WIDTH) for text in texts]
        return price(EmbeddingExchange(open_embedder(name), self.store, width=width), texts, plan)

    def _without_asking(self, request: Request) -> Any:
        """Return the answer to a request that needs no model."""
        content = request.content
        if isinstance(content, ModelQuery):
            return self.role(request.role).known(request.about)
        if isinstance(content, StoreRead | StoreWrite):
            return content.call(self.store)
        raise TypeError(f"no model answers a {type(content).__name__}")


def _sources(requests: Sequence[EmbeddingText]) -> dict[str, Sequence[str] | None]:
    """Return the conversations that each text occurs in, or `None` for a text if a request does not name them."""
    sources: dict[str, Sequence[str] | None] = {}
    for request in requests:
        known, named = sources.get(request.text, ()), request.conversations
        sources[request.text] = None if known is None or named is None else sorted({*known, *named})
    return sources


def _alike(requests: Sequence[Request]) -> dict[tuple[str, type, str, str], list[int]]:
    """Return the indices of requests by role, kind, purpose and embedder; each group is answered together."""
    groups: dict[tuple[str, type, str, str], list[int]] = {}
    for place, request in enumerate(requests):
        embedder = getattr(request.content, "embedder", "")
        groups.setdefault((request.role, type(request.content), request.purpose, embedder), []).append(place)
    return groups


_STANDS_IN = {WRITER: SCORER, USER: ASSISTANT, ASSISTANT: USER}
"""The role whose model is used if a role has none: the scorer also writes, one speaker speaks for both."""


def _role_of(role: str, settings: Mapping[str, ModelSettings]) -> str:
    """Return the role itself, or the one whose model stands in for it."""
    other = _STANDS_IN.get(role)
    return other if other is not None and role not in settings and other in settings else role


# --- drivers --------------------------------------------------------------------------------------------------------


def _drive(flow: Flow[T], answer: Callable[[Sequence[Request]], list[Any]], models: Models) -> T:
    try:
        with paid_from(models.budget), redacted_by(models.redactor):
            requests = next(flow)
            while True:
                requests = flow.send(answer(requests))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def run(flow: Flow[T], models: Models, step: OnAnswer = lambda purpose: None) -> T:
    """Run a flow and return its result; the requests of each round are answered at once.

    Args:
        flow: Generator that yields lists of requests, and receives the answers in order.
        models: Models by role.
        step: Called with the purpose of each request that is answered.

    Raises:
        BudgetReached: The budget is spent; earlier answers are stored, and the same flow continues from there.
        ModelError: No request can succeed.

    >>> from accord import Conversation, load_rubric
    >>> from accord.evidence import SourceContext, make_source
    >>> from accord.values import Sample
    >>> source = make_source("metrics", {"names": ["words"]}, SourceContext(load_rubric("llm-rubric")))
    >>> len(run(source.measure([Sample(Conversation("c1", ()))]), memory_models()))
    1
    """
    return _drive(flow, lambda requests: wait(models.answer(requests, step)), models)


def plan_range(make: Callable[[], Flow[Any]], models: Models, seen: set[int] | None = None) -> Plan:
    """Plan a flow; if its number of requests depends on replies, the plan has a range.

    Args:
        make: Function that returns a new flow; called for each end of the range.
        models: Models of the flow; no request is sent.
        seen: `Plan.seen` of earlier plans of the same run, which is extended.
    """
    result = plan(make(), models, seen=seen)
    if result.has_follow_ups:
        result.extend(plan(make(), models, "fewest", seen), plan(make(), models, "most", seen))
        result.price(models.budget)
    return result


def plan(flow: Flow[Any], models: Models, assume: Assumption = "stand_in", seen: set[int] | None = None) -> Plan:
    """Plan a flow: run it with stored answers and assumed replies, without asking a model."""
    result = Plan(assume=assume, seen=set() if seen is None else seen)
    try:
        _drive(flow, lambda requests: models.price(requests, result), models)
    except BadInput:
        # A flow may be unable to continue with assumed replies: return the counts so far.
        if not result.requests:
            raise
    result.price(models.budget)
    return result


def memory_models(settings: Mapping[str, ModelSettings] | None = None) -> Models:
    """Return models with a store in memory, for use without a project.

    Args:
        settings: Settings of each role's model; without any, a flow may send no requests.

    >>> memory_models().has("judge")
    False
    """
    return Models(settings or {}, Store("sqlite:///:memory:"))
