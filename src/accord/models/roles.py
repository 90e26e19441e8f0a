"""Who answers a flow's requests: roles by name, each opened when it is first asked, and the drivers of a flow.

`run` asks, `plan` prices without asking, and a `Models` that may not ask (`ask=False`) answers from the store alone:
what needs nobody needs no key. Providers' batch files are `accord.models.overnight`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from accord.models.batching import Batched, BatchEndpoint
from accord.models.budget import Budget, Caps
from accord.models.embedders import open_embedder
from accord.models.flow import OUT_OF_BUDGET, Flow, Request, as_finished, ask
from accord.models.judges.recorded import RecordedJudge
from accord.models.judging import AT_ONCE, Judged, judge_all, kept_answers, unjudged
from accord.models.kept_embeddings import embedded
from accord.models.likelihood import Likelihood, LikelihoodModel, Measured, Passage
from accord.models.model import ChatModel, Failure, Judge, Prompt, Reply, in_requests
from accord.models.opening import (
    DIALECTS,
    ClientOptions,
    decided_endpoint_of,
    endpoint_of,
    open_batched,
    open_chat,
    open_decided,
    open_judge,
    open_likelihood,
)
from accord.models.plan import Plan
from accord.models.settings import ModelSettings
from accord.models.waiting import wait
from accord.models.windowing import own_context
from accord.models.wrappers import Cached, decode_reply, kept_key
from accord.store import IssueAnnotations, Store
from accord.values import (
    BadInput,
    BudgetReached,
    IssueAnnotation,
    Rubric,
    Sample,
    content_hash,
)

JUDGE, WRITER, SCORER, FINDER, LIKELIHOOD = "judge", "writer", "scorer", "finder", "likelihood"
EMBEDDER, STORE = "embedder", "store"
"""Roles that need no entry under `models:`."""
NOT_ASKED = "not asked yet"
GIVEN = "given"
"""Where a model of one's own answers, as its kept replies are keyed."""
T = TypeVar("T")
Step = Callable[[str], None]


# --- what can be asked, beside a Prompt -----------------------------------------------------------------------------


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
    """A text to place; the answer is its vector. `embedder` is a name that `open_embedder` knows."""

    embedder: str
    text: str


@dataclass(frozen=True)
class Recall:
    """The issue annotations of a signature that the store holds of some samples' conversations."""

    signature: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Makers:
    """The signatures of all issue annotations in the store, with how many turns each has."""


@dataclass(frozen=True)
class Keep:
    """Issue annotations to be kept; the answer is `None`."""

    annotations: tuple[IssueAnnotation, ...]


# --- roles ----------------------------------------------------------------------------------------------------------


@dataclass
class _Shared:
    """What all roles of a run share."""

    store: Store
    budget: Budget
    asks: bool
    in_batches: bool
    batches: list[tuple[Batched, BatchEndpoint]] = field(default_factory=list)


class _Role:
    """One role's model, opened when it is first needed."""

    def __init__(self, name: str, settings: ModelSettings, shared: _Shared, given: Any = None) -> None:
        self.name, self.settings, self.shared, self.given = name, settings, shared, given
        self._judges: dict[str, Judge] = {}
        self._chats: dict[str, ChatModel] = {}

    @property
    def model(self) -> str:
        """The model's name.

        Raises:
            BadInput: The project names none.
        """
        if self.given is not None:
            return str(self.given.name)
        if not self.settings.model:
            raise BadInput(f"the {self.name} needs a model: models: {{{self.name}: {{model: NAME}}}}")
        return self.settings.model

    @cached_property
    def options(self) -> ClientOptions:
        """On what terms it is asked."""
        own = self.settings
        return ClientOptions(own.at_once, own.attempts, own.timeout, self.shared.budget)

    @cached_property
    def context(self) -> int | None:
        """Tokens of one request: as configured, or what a model in this process is known to read."""
        return self.settings.context or own_context(self.settings.model or "")

    # --- as a judge

    def judge(self, rubric: Rubric) -> Judge:
        """The judge, told a rubric's instructions.

        Raises:
            BadInput: What its mode needs is not named.
        """
        told, own = rubric.instructions, self.settings
        if self.given is not None:
            return self.given  # type: ignore[no-any-return]
        if told not in self._judges:
            self._judges[told] = self._opened(told, own)
        return self._judges[told]

    def _opened(self, told: str, own: ModelSettings) -> Judge:
        if own.mode is None:
            raise BadInput(f"models: {{{self.name}: ...}} gives distributions; say how: mode: decisions, logprobs, ...")
        if own.mode == "recorded":
            if not own.paths:
                raise BadInput(f"a recorded {self.name} needs the paths of its judgements: paths: [...]")
            return RecordedJudge.read(own.paths, own.model)
        if self.shared.in_batches:
            opened = open_batched(own.mode, self.model, own.base_url, told, self.shared.store, own.samples, own.timeout)
            self.shared.batches.append(opened[1:])
            return opened[0]
        return open_judge(own.mode, self.model, own.base_url, told, self.options, own.samples)

    async def judged(self, asked: Sequence[Questions], step: Callable[[], None]) -> list[Judged]:
        """Each sample's answers, from the store where it holds them."""
        found: dict[int, Judged] = {}
        for rubric, places in _by_rubric(asked):
            judge, samples = self.judge(rubric), [asked[place].sample for place in places]
            if not self.shared.asks and judge.mode != "recorded":
                kept = kept_answers(judge, rubric, samples, self.shared.store, self.context)
                found |= dict(zip(places, kept, strict=True))
                continue
            at_once = self.settings.at_once or AT_ONCE
            order: dict[tuple[Any, ...], list[int]] = {}
            for place, sample in zip(places, samples, strict=True):
                order.setdefault((sample.target, sample.hidden), []).append(place)
            first = [samples[places.index(mine[0])] for mine in order.values()]
            by_target = {asked[mine[0]].sample.target: mine for mine in order.values()}
            run = judge_all(judge, rubric, first, self.shared.store, at_once, self.context)
            async with aclosing(run) as answered:
                async for judged in answered:
                    found |= dict.fromkeys(by_target[judged.target], judged)
                    step()
        return [found[place] for place in range(len(asked))]

    def price_judging(self, asked: Sequence[Questions], plan: Plan) -> None:
        """Count the questions, and the requests of those that the store does not answer."""
        for rubric, places in _by_rubric(asked):
            judge, samples = self.judge(rubric), [asked[place].sample for place in places]
            for shown, applicable, missing in unjudged(judge, rubric, samples, self.shared.store, self.context):
                plan.samples += 1
                plan.questions += len(applicable)
                plan.answered += len(applicable) - len(missing)
                groups = in_requests(judge, missing)
                plan.add(judge.name, [request for group in groups for request in judge.requests(shown, group)])

    # --- as a chat model

    def endpoint(self, about: Any) -> str:
        """Where it answers, as its kept replies are keyed."""
        own = self.settings
        if self.given is not None:
            return GIVEN
        if own.mode in DIALECTS:
            return decided_endpoint_of(own.mode, self.model, own.base_url, about)
        return endpoint_of(self.model, own.base_url)

    def chat(self, about: Any) -> ChatModel:
        """The chat model; a decisions endpoint answers prompts about one question."""
        own, decides = self.settings, self.settings.mode in DIALECTS
        if self.given is not None:
            return Cached(self.given, self.shared.store, GIVEN, decode_reply)
        key = about.key if decides else ""
        if key not in self._chats:
            self._chats[key] = (
                open_decided(str(own.mode), self.model, own.base_url, about, self.shared.store, self.options)
                if decides
                else open_chat(self.model, own.base_url, self.shared.store, self.options)
            )
        return self._chats[key]

    def kept_reply(self, prompt: Prompt, about: Any) -> Reply | None:
        """The reply that the store holds."""
        kept = self.shared.store.reply(kept_key(self.endpoint(about), self.model, prompt))
        return None if kept is None else decode_reply(json.loads(kept))

    async def replied(self, asked: Sequence[Request], step: Callable[[], None]) -> list[Reply | Failure]:
        """A reply, or a failure, for each prompt; each is kept as it comes."""
        if not self.shared.asks:
            return [self.kept_reply(r.content, r.about) or Failure(NOT_ASKED, f"the {self.name}") for r in asked]
        found: dict[int, Reply | Failure] = {}
        over = False

        async def one(place: int) -> Reply | Failure:
            nonlocal over
            request = asked[place]
            reply = await ask(self.chat(request.about), request.content)
            over = over or (isinstance(reply, Failure) and reply.reason == OUT_OF_BUDGET)
            return reply

        def until_over() -> Iterable[int]:
            for place in range(len(asked)):
                if over:
                    return
                yield place

        async with aclosing(as_finished(one, until_over(), self.settings.at_once)) as finished:
            async for place, reply in finished:
                found[place] = reply
                step()
        left = Failure(OUT_OF_BUDGET, next((f.detail for f in found.values() if _is_over(f)), "the budget is spent"))  # type: ignore[union-attr]
        return [found.get(place, left) for place in range(len(asked))]

    # --- as a likelihood model

    @cached_property
    def likelihood(self) -> LikelihoodModel:
        """The model whose likelihoods are asked for."""
        if self.given is not None:
            return self.given  # type: ignore[no-any-return]
        return open_likelihood(self.model, self.settings.base_url, self.options)

    def _key(self, passage: Passage) -> str:
        return content_hash(dict(self.likelihood.made_from(passage)), length=40)

    def kept_likelihood(self, passage: Passage) -> Measured | None:
        """What the store holds of a passage."""
        kept = self.shared.store.reply(self._key(passage))
        return None if kept is None else tuple(Likelihood(*pair) for pair in json.loads(kept))

    async def measured(self, passages: Sequence[Passage], step: Callable[[], None]) -> list[Measured]:
        """Each passage's likelihoods, from the store where it holds them."""
        found = {passage: self.kept_likelihood(passage) for passage in dict.fromkeys(passages)}
        missing = [passage for passage, kept in found.items() if kept is None]
        if not self.shared.asks:
            found |= dict.fromkeys(missing, Failure("not measured yet", "run: accord judge"))
            missing = []
        for start in range(0, len(missing), PASSAGES_KEPT):
            part = missing[start : start + PASSAGES_KEPT]
            for passage, measured in zip(part, await self.likelihood.measure(part), strict=True):
                found[passage] = measured
                step()
                if not isinstance(measured, Failure):
                    pairs = [[each.log_probability, each.tokens] for each in measured]
                    self.shared.store.add_reply(self._key(passage), self.likelihood.name, json.dumps(pairs))
                elif measured.reason == OUT_OF_BUDGET:
                    raise BudgetReached(measured.detail)
        return [found[passage] for passage in passages]  # type: ignore[misc]

    def known(self, about: Any) -> Known:
        """Who has this role."""
        own = self.settings
        if self.given is not None:
            return Known(self.given.name, getattr(self.given, "mode", ""), f"{self.given.name} {GIVEN}", own.context)
        if own.mode == "recorded":
            judge = self.judge(Rubric.model_construct(instructions="")) if not own.model else None
            return Known(judge.name if judge else str(own.model), "recorded")
        where = f"{self.model} {self.endpoint(about)}" if own.mode not in DIALECTS or about is not None else self.model
        return Known(self.model, own.mode or "", where, self.context)

    async def close(self) -> None:
        """Let go of connections."""
        for model in (*self._judges.values(), *self._chats.values(), vars(self).get("likelihood")):
            if model is not None:
                await model.close()


PASSAGES_KEPT = 64
"""Passages that are measured before they are kept: what an interruption may lose."""


def _by_rubric(asked: Sequence[Questions]) -> list[tuple[Rubric, list[int]]]:
    """The places of requests by their rubric."""
    found: dict[int, tuple[Rubric, list[int]]] = {}
    for place, each in enumerate(asked):
        found.setdefault(id(each.rubric), (each.rubric, []))[1].append(place)
    return list(found.values())


def _is_over(found: Reply | Failure) -> bool:
    return isinstance(found, Failure) and found.reason == OUT_OF_BUDGET


class Models:
    """The models of a run, by role.

    Args:
        settings: Which model has which role.
        store: Keeps and gives back what was answered.
        budget: What may be spent.
        asks: Whether anybody may be asked; otherwise what the store holds is all there is.
        in_batches: Whether chat models are asked by a provider's batch files.
        given: Models of one's own, by role: a `Judge`, a `ChatModel`, a `LikelihoodModel`; they are left open.
    """

    def __init__(
        self,
        settings: Mapping[str, ModelSettings],
        store: Store,
        budget: Budget | None = None,
        asks: bool = True,
        in_batches: bool = False,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = {**settings, **{role: ModelSettings() for role in given or {} if role not in settings}}
        self._given = given or {}
        self.budget = budget or Budget(Caps(), {})
        self._shared = _Shared(store, self.budget, asks, in_batches)
        self._roles: dict[str, _Role] = {}

    @property
    def store(self) -> Store:
        """Where answers are kept."""
        return self._shared.store

    @property
    def batches(self) -> Sequence[tuple[Batched, BatchEndpoint]]:
        """The batch models that were opened, with their endpoints."""
        return self._shared.batches

    def has(self, role: str) -> bool:
        """Whether somebody has a role."""
        return role in {EMBEDDER, STORE} or _substitute(role, self.settings) in self.settings

    def role(self, name: str) -> _Role:
        """A role's model; where nobody writes, whoever scores does.

        Raises:
            BadInput: The project names nobody for it.
        """
        own = _substitute(name, self.settings)
        if own not in self.settings:
            raise BadInput(f"nobody has the role {name!r}; name a model: models: {{{name}: {{model: NAME}}}}")
        if own not in self._roles:
            self._roles[own] = _Role(own, self.settings[own], self._shared, self._given.get(own))
        return self._roles[own]

    def close(self) -> None:
        """Let go of connections."""

        async def close() -> None:
            for role in self._roles.values():
                await role.close()

        if self._roles:
            wait(close())

    # --- answering ----------------------------------------------------------------------------------------------

    async def answer(self, requests: Sequence[Request], step: Step = lambda purpose: None) -> list[Any]:
        """An answer to each request, in their order; those of different roles are asked at the same time."""
        groups: dict[tuple[str, type, str], list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault((request.role, type(request.content), request.purpose), []).append(place)
        found: dict[int, Any] = {}

        async def one(key: tuple[str, type, str], places: list[int]) -> None:
            mine = [requests[place] for place in places]
            answers = await self._answer_alike(key[0], key[1], mine, lambda: step(key[2] or key[0]))
            found.update(zip(places, answers, strict=True))

        await asyncio.gather(*(one(key, places) for key, places in groups.items()))
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

    def _vectors(self, texts: Sequence[Text]) -> list[Any]:
        found: list[Any] = [None] * len(texts)
        for name in dict.fromkeys(each.embedder for each in texts):
            places = [place for place, each in enumerate(texts) if each.embedder == name]
            vectors = embedded([texts[place].text for place in places], open_embedder(name), self.store)
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
        found: list[Any] = []
        for request in requests:
            content = request.content
            if isinstance(content, Prompt):
                role = self.role(request.role)
                kept = role.kept_reply(content, request.about)
                plan.questions += 1
                plan.answered += kept is not None
                if kept is None:
                    plan.add(role.model, [content])
                found.append(kept or request.stand_in or Failure(NOT_ASKED, f"the {request.role}"))
            elif isinstance(content, Questions):
                role = self.role(request.role)
                role.price_judging([content], plan)
                judge = role.judge(content.rubric)
                found += kept_answers(judge, content.rubric, [content.sample], self.store, role.context)
            elif isinstance(content, Passage):
                role = self.role(request.role)
                known = role.kept_likelihood(content)
                plan.questions += 1
                plan.answered += known is not None
                if known is None:
                    plan.add(role.likelihood.name, role.likelihood.requests([content]))
                found.append(known or Failure("not measured yet"))
            elif isinstance(content, Text):
                found += self._vectors([content])
            else:
                found.append(None if isinstance(content, Keep) else self._without_asking(request.role, request))
        return found


def _substitute(role: str, settings: Mapping[str, ModelSettings]) -> str:
    """Whoever scores also writes and finds where nobody else does."""
    return SCORER if role == WRITER and role not in settings and SCORER in settings else role


# --- drivers --------------------------------------------------------------------------------------------------------


def run(flow: Flow[T], models: Models, step: Step = lambda purpose: None) -> T:
    """A flow's result, every round of its requests answered at once.

    Raises:
        BudgetReached: The budget is spent; what was answered is kept, and the same flow goes on from there.
        ModelError: No call can succeed.
    """
    try:
        requests = next(flow)
        while True:
            requests = flow.send(wait(models.answer(requests, step)))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def plan(flow: Flow[Any], models: Models) -> Plan:
    """What running a flow would cost: it is run with what is kept and with stand-ins; nobody is asked."""
    found = Plan()
    try:
        requests = next(flow)
        while True:
            requests = flow.send(models.price(requests, found))
    except StopIteration:
        found.price(models.budget)
        return found
    except BadInput:
        # What stands in for answers may be too little to go on with: what was counted so far is what can be said.
        if not found.requests:
            raise
        found.price(models.budget)
        return found


def memory_models(settings: Mapping[str, ModelSettings] | None = None) -> Models:
    """Models whose answers nothing outlives: for one process, or where there is no project."""
    return Models(settings or {}, Store("sqlite:///:memory:"))
