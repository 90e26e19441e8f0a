"""The models by role, each opened when it is first asked, and the drivers of a flow.

`run` asks, `plan` prices without asking, and a `Models` that may not ask answers from the store alone: what needs
nobody needs no key. Providers' batch files are `accord.models.batching`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from accord.edges import BadInput
from accord.models.batching import Batched, BatchEndpoint
from accord.models.budget import Budget, Caps
from accord.models.client import Texts
from accord.models.cost_plan import Assumed, Plan
from accord.models.embedders import AT_ONCE, ENDPOINT, Embedder, Remote, open_embedder, open_remote, paid_from
from accord.models.embedding_cache import embed, foreseen
from accord.models.event_loop import wait
from accord.models.flow import Flow, Request, all_of
from accord.models.likelihood import Passage
from accord.models.model import Prompt
from accord.models.requests import (
    ASSISTANT,
    EMBEDDER,
    SCORER,
    STORE,
    USER,
    WRITER,
    Keep,
    Makers,
    Questions,
    Recall,
    Text,
    Who,
)
from accord.models.role_models import Role, Shared
from accord.models.settings import ModelSettings
from accord.models.wrappers import ATTEMPTS
from accord.store import IssueAnnotations, Store

T = TypeVar("T")
Step = Callable[[str], None]


class Models:
    """The models of a run, by role.

    Args:
        settings: Which model has which role.
        store: Keeps and gives back what was answered.
        budget: What may be spent.
        asks: Whether anybody may be asked; otherwise what the store holds is all there is.
        in_batches: Whether chat models are asked by a provider's batch files.
        given: Models of one's own, by role: a `Judge`, a `ChatModel`, a `LikelihoodModel`; they are left open.
        folder: The folder that relative paths of models and recordings start from.
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
    ) -> None:
        self.settings = {**settings, **{role: ModelSettings() for role in given or {} if role not in settings}}
        self._given = given or {}
        self.budget = budget or Budget(Caps(), {})
        self._shared = Shared(store, self.budget, asks, in_batches, folder)
        self._roles: dict[str, Role] = {}
        self._remote: dict[str, Remote] = {}

    @property
    def store(self) -> Store:
        """Where answers are kept."""
        return self._shared.store

    @contextmanager
    def recorded_failures(self) -> Iterator[dict[Any, Any]]:
        """Record the failed requests inside the block, for `replayed`; the caller clears the record between flows."""
        self._shared.failures = {}
        try:
            yield self._shared.failures
        finally:
            self._shared.failures = None

    def replayed(self) -> Models:
        """Return models that send no request: answers come from the store and from the recorded failures."""
        made = Models(self.settings, self.store, self.budget, asks=False, given=self._given, folder=self._shared.folder)
        made._shared.failures = self._shared.failures
        return made

    @property
    def batches(self) -> Sequence[tuple[Batched, BatchEndpoint]]:
        """The batch models that were opened, with their endpoints."""
        return self._shared.batches

    def has(self, role: str) -> bool:
        """Whether somebody has a role."""
        return role in {EMBEDDER, STORE} or _substitute(role, self.settings) in self.settings

    def role(self, name: str) -> Role:
        """A role's model; where nobody writes, whoever scores does.

        Raises:
            BadInput: The project names nobody for it.
        """
        own = _substitute(name, self.settings)
        if own not in self.settings:
            raise BadInput(f"nobody has the role {name!r}; name a model: models: {{{name}: {{model: NAME}}}}")
        if own not in self._roles:
            self._roles[own] = Role(own, self.settings[own], self._shared, self._given.get(own))
        return self._roles[own]

    def close(self) -> None:
        """Let go of connections."""

        async def close() -> None:
            for role in self._roles.values():
                await role.close()

        if self._roles:
            wait(close())
        for remote in self._remote.values():
            remote.close()

    # --- answering ----------------------------------------------------------------------------------------------

    async def answer(self, requests: Sequence[Request], step: Step = lambda purpose: None) -> list[Any]:
        """An answer to each request, in their order; those of different roles are asked at the same time.

        Raises:
            StoreError: The store failed: asking stopped, and what was under way is spooled.
        """
        found: dict[int, Any] = {}

        async def one(key: tuple[str, type, str], places: list[int]) -> None:
            mine = [requests[place] for place in places]
            answers = await self._answer_alike(key[0], key[1], mine, lambda: step(key[2] or key[0]))
            found.update(zip(places, answers, strict=True))

        try:
            await all_of(one(key, places) for key, places in _alike(requests).items())
        finally:
            stopped, self.budget.stopped = self.budget.stopped, None
            if stopped is not None:
                raise stopped from None
        return [found[place] for place in range(len(requests))]

    async def _answer_alike(
        self, role: str, kind: type, requests: Sequence[Request], step: Callable[[], None]
    ) -> Sequence[Any]:
        contents = [request.content for request in requests]
        if kind is Prompt:
            return await self.role(role).replied(requests, step)
        if kind is Questions:
            return await self.role(role).judged(contents, step)
        if kind is Passage:
            return await self.role(role).measured(contents, step)
        return [self._without_asking(role, request) for request in requests] if kind is not Text else (
            await asyncio.to_thread(self._vectors, contents)
        )  # fmt: skip

    def _embedder(self, name: str) -> Embedder:
        """The embedder of a name; one at an endpoint is paid from the budget."""
        if not name.startswith(ENDPOINT):
            return open_embedder(name)
        if name not in self._remote:
            self._remote[name] = open_remote(name, self.budget)
        return self._remote[name]

    def _vectors(self, texts: Sequence[Text]) -> list[Any]:
        found: list[Any] = [None] * len(texts)
        for name in dict.fromkeys(each.embedder for each in texts):
            places = [place for place, each in enumerate(texts) if each.embedder == name]
            said = [texts[place].text for place in places]
            if name.startswith(ENDPOINT) and not self._shared.asks:
                _, lacking = foreseen(said, self._embedder(name), self.store)
                if lacking:
                    raise BadInput(
                        f"{len(lacking)} texts have no vector by {name} yet, and nobody is asked here: accord fit"
                    )
            vectors = embed(said, self._embedder(name), self.store, self.budget)
            for place, vector in zip(places, vectors, strict=True):
                found[place] = vector
        return found

    def _vectors_priced(self, texts: Sequence[Text], plan: Plan) -> list[Any]:
        """The vectors; an endpoint is not asked, but counted, with a stand-in for each vector that is not kept."""
        if not any(each.embedder.startswith(ENDPOINT) for each in texts):
            return self._vectors(texts)
        found: list[Any] = [None] * len(texts)
        for name in dict.fromkeys(each.embedder for each in texts):
            places = [place for place, each in enumerate(texts) if each.embedder == name]
            if name.startswith(ENDPOINT):
                said = [texts[place].text for place in places]
                width = next((width for place in places if (width := texts[place].width)), None)
                vectors, lacking = foreseen(said, open_embedder(name), self.store, width)
                new = [text for text in lacking if plan.is_new((name, text))]
                requests = [Texts(tuple(new[at : at + AT_ONCE])) for at in range(0, len(new), AT_ONCE)]
                plan.has_follow_ups = True
                if plan.assume == "most":  # texts of a request that is rejected are embedded one by one
                    requests += [Texts((text,)) for each in requests if len(each.texts) > 1 for text in each.texts]
                plan.add(EMBEDDER, name, requests, ATTEMPTS)
            else:
                vectors = np.stack(self._vectors([texts[place] for place in places]))
            for place, vector in zip(places, vectors, strict=True):
                found[place] = vector
        return found

    def _without_asking(self, role: str, request: Request) -> Any:
        """What the store, or the project itself, answers."""
        content = request.content
        if isinstance(content, Who):
            return self.role(role).known(request.about)
        if isinstance(content, Recall):
            conversations = {sample.conversation.id: sample.conversation for sample in content.samples}
            return list(IssueAnnotations(self.store).of(conversations.values(), content.signature))
        if isinstance(content, Makers):
            return IssueAnnotations(self.store).makers()
        if isinstance(content, Keep):
            IssueAnnotations(self.store).add(content.annotations)
            return None
        raise TypeError(f"nobody answers a {type(content).__name__}")

    def price(self, requests: Sequence[Request], plan: Plan) -> list[Any]:
        """What is kept, or a stand-in, for each request; what would be asked is counted."""
        found: dict[int, Any] = {}
        for (role, kind, _), places in _alike(requests).items():
            mine = [requests[place] for place in places]
            found.update(zip(places, self._price_alike(role, kind, mine, plan), strict=True))
        return [found[place] for place in range(len(requests))]

    def _price_alike(self, role: str, kind: type, requests: Sequence[Request], plan: Plan) -> Sequence[Any]:
        contents = [request.content for request in requests]
        if kind is Prompt:
            return self.role(role).price_replies(requests, plan)
        if kind is Questions:
            return self.role(role).price_judging(contents, plan)
        if kind is Passage:
            return self.role(role).price_measuring(contents, plan)
        if kind is Text:
            return self._vectors_priced(contents, plan)
        return [None if kind is Keep else self._without_asking(role, request) for request in requests]


def _alike(requests: Sequence[Request]) -> dict[tuple[str, type, str], list[int]]:
    """The places of requests by role, kind and purpose: each group is answered in one go."""
    groups: dict[tuple[str, type, str], list[int]] = {}
    for place, request in enumerate(requests):
        groups.setdefault((request.role, type(request.content), request.purpose), []).append(place)
    return groups


_STANDS_IN = {WRITER: SCORER, USER: ASSISTANT, ASSISTANT: USER}
"""Whoever scores also writes, and one of the two who hold a synthetic conversation speaks for both."""


def _substitute(role: str, settings: Mapping[str, ModelSettings]) -> str:
    """Who does what nobody is named for."""
    other = _STANDS_IN.get(role)
    return other if other is not None and role not in settings and other in settings else role


# --- drivers --------------------------------------------------------------------------------------------------------


def run(flow: Flow[T], models: Models, step: Step = lambda purpose: None) -> T:
    """A flow's result, every round of its requests answered at once.

    Raises:
        BudgetReached: The budget is spent; what was answered is kept, and the same flow goes on from there.
        ModelError: No call can succeed.
    """
    try:
        with paid_from(models.budget):
            requests = next(flow)
            while True:
                requests = flow.send(wait(models.answer(requests, step)))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def plan_range(make: Callable[[], Flow[Any]], models: Models) -> Plan:
    """Plan a flow, with the range of its requests if replies decide about further requests.

    Args:
        make: Function that returns a new flow, for each end of the range.
        models: Models of the flow; none is asked.
    """
    found = plan(make(), models)
    if found.has_follow_ups:
        found.extend(plan(make(), models, "fewest"), plan(make(), models, "most"))
        found.price(models.budget)
    return found


def plan(flow: Flow[Any], models: Models, assume: Assumed = "stand_in") -> Plan:
    """Plan a flow: run it with answers of the store and with assumed replies; no model is asked."""
    found = Plan(assume=assume)
    try:
        with paid_from(models.budget):
            requests = next(flow)
            while True:
                requests = flow.send(models.price(requests, found))
    except StopIteration:
        found.price(models.budget)
        return found
    except BadInput:
        # The assumed replies may be too little to go on with: return the counts so far.
        if not found.requests:
            raise
        found.price(models.budget)
        return found


def memory_models(settings: Mapping[str, ModelSettings] | None = None) -> Models:
    """Models whose answers nothing outlives: for one process, or where there is no project."""
    return Models(settings or {}, Store("sqlite:///:memory:"))
