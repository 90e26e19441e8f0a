"""What each role does with a flow's requests: asks its model, and keeps every answer in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeGuard

from accord.edges import BadInput, BudgetReached, ModelError, NotSent
from accord.models.ask_judge import AT_ONCE, Judged, foreseen, judge_all, kept_answers, questions_for
from accord.models.batching import Batched, BatchEndpoint
from accord.models.budget import Budget
from accord.models.context_window import own_context
from accord.models.cost_plan import Plan
from accord.models.factory import (
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
from accord.models.flow import OUT_OF_BUDGET, Request, as_finished, ask
from accord.models.judges.recorded import RecordedJudge
from accord.models.likelihood import Likelihood, LikelihoodModel, Measured, Passage
from accord.models.model import ChatModel, Failure, Judge, Prompt, Reply, Unanswered, in_requests, located_model
from accord.models.request_ledger import Ledger
from accord.models.requests import (
    GIVEN,
    MODEL_ERROR,
    NEVER_SENT,
    NOT_APPLICABLE,
    NOT_ASKED,
    NOT_MEASURED,
    NOT_YET,
    Known,
    Questions,
)
from accord.models.settings import ModelSettings
from accord.models.wrappers import Cached, Once, decode_reply, kept_key
from accord.store import Store, batches
from accord.values import Rubric, content_hash

# --- roles ----------------------------------------------------------------------------------------------------------


@dataclass
class Shared:
    """Settings and state that all roles of a run share; relative paths of models start from `folder`.

    `failures` holds the failed requests of a run by their keys while they are recorded (`Models.recorded_failures`).
    """

    store: Store
    budget: Budget
    asks: bool
    in_batches: bool
    folder: Path = Path()
    batches: list[tuple[Batched, BatchEndpoint]] = field(default_factory=list)
    failures: dict[Any, Any] | None = None


class Role:
    """One role's model, opened when it is first needed."""

    def __init__(self, name: str, settings: ModelSettings, shared: Shared, given: Any = None) -> None:
        self.name, self.settings, self.shared, self.given = name, settings, shared, given
        self._judges: dict[tuple[str, bool], Judge] = {}
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

    @property
    def located(self) -> str:
        """The model's name with the path of its file or folder made relative to the working folder."""
        return located_model(self.model, self.shared.folder)

    @cached_property
    def options(self) -> ClientOptions:
        """On what terms it is asked."""
        own = self.settings
        return ClientOptions(own.at_once, own.attempts, own.timeout, self.shared.budget)

    @cached_property
    def context(self) -> int | None:
        """Tokens of one request: as configured, or what a model in this process is known to read."""
        return self.settings.context or own_context(located_model(self.settings.model or "", self.shared.folder))

    # --- as a judge

    def judge(self, rubric: Rubric, keeps: bool = True) -> Judge:
        """The judge, told a rubric's instructions; one that `keeps` nothing is asked anew whatever it has said before.

        Raises:
            BadInput: What its mode needs is not named.
        """
        told, own = rubric.instructions, self.settings
        if self.given is not None:
            return self.given  # type: ignore[no-any-return]
        if (told, keeps) not in self._judges:
            self._judges[told, keeps] = self._opened(told, own, keeps)
        return self._judges[told, keeps]

    def _opened(self, told: str, own: ModelSettings, keeps: bool) -> Judge:
        if own.mode is None:
            raise BadInput(f"models: {{{self.name}: ...}} gives distributions; say how: mode: decisions, logprobs, ...")
        if own.mode == "recorded":
            if not own.paths:
                raise BadInput(f"a recorded {self.name} needs the paths of its judgements: paths: [...]")
            return RecordedJudge.read([self.shared.folder / path for path in own.paths], own.model)
        if self.shared.in_batches:
            opened = open_batched(
                own.mode, self.located, own.base_url, told, self.shared.store, own.samples, own.timeout
            )
            self.shared.batches.append(opened[1:])
            return opened[0]
        store = self.shared.store if keeps else None
        return open_judge(own.mode, self.located, own.base_url, told, self.options, own.samples, store)

    async def judged(self, asked: Sequence[Questions], step: Callable[[], None]) -> list[Judged]:
        """Each sample's answers, from the store where it holds them."""
        found: dict[int, Judged] = {}
        for rubric, places in _by_rubric(asked):
            judge, samples = self.judge(rubric), [asked[place].sample for place in places]
            if not self.shared.asks and judge.mode != "recorded":
                kept = kept_answers(judge, rubric, samples, self.shared.store, self.context)
                found |= dict(zip(places, map(self._with_failures, kept), strict=True))
                continue
            at_once = self.settings.at_once or AT_ONCE
            order: dict[tuple[Any, ...], list[int]] = {}
            for place, sample in zip(places, samples, strict=True):
                order.setdefault((sample.target, sample.hidden), []).append(place)
            first = [samples[places.index(mine[0])] for mine in order.values()]
            by_target = {asked[mine[0]].sample.target: mine for mine in order.values()}
            run = judge_all(judge, rubric, first, self.shared.store, at_once, self.context, self.shared.budget)
            async with aclosing(run) as answered:
                async for judged in answered:
                    found |= dict.fromkeys(by_target[judged.target], judged)
                    for each in judged.answers:
                        if isinstance(each, Unanswered):
                            self._record((self.name, judged.target, each.question), each)
                    step()
        return [found[place] for place in range(len(asked))]

    def _with_failures(self, judged: Judged) -> Judged:
        """Return the stored answers of a sample with the recorded failures in place of missing ones."""
        known = self.shared.failures or {}
        lacking = {each.question for each in judged.answers if isinstance(each, Unanswered) and each.reason == NOT_YET}
        places = [(each, (self.name, judged.target, each.question)) for each in judged.answers]
        return replace(
            judged, answers=[known.get(key, each) if each.question in lacking else each for each, key in places]
        )

    def _record(self, key: object, failure: Failure | Unanswered) -> None:
        """Record a failed request, unless it was never sent."""
        if self.shared.failures is not None and failure.reason not in {NOT_APPLICABLE, *NEVER_SENT}:
            self.shared.failures[key] = failure

    def _record_error(self, keys: Iterable[object], error: ModelError) -> None:
        """Record requests that were sent and that no request can get an answer to."""
        for key in keys if not isinstance(error, NotSent) else ():
            self._record(key, Failure(MODEL_ERROR, str(error)))

    def price_judging(self, asked: Sequence[Questions], plan: Plan) -> list[Judged]:
        """What the store holds; the questions are counted, and the requests of those that it does not answer."""
        found: dict[int, Judged] = {}
        for rubric, places in _by_rubric(asked):
            judge, samples = self.judge(rubric), [asked[place].sample for place in places]
            looked = foreseen(judge, rubric, samples, self.shared.store, self.context)
            keys = {question.id: question.key for question in questions_for(judge, rubric)}
            for place, (judged, shown, applicable, missing) in zip(places, looked, strict=True):
                found[place] = judged
                plan.steps += 1
                about = (judge.name, judge.mode, rubric.instructions, shown.target, shown.hidden)
                new = {question.id for question in applicable if plan.is_new((*about, keys[question.id]))}
                missing = [question for question in missing if question.id in new]
                plan.samples += plan.is_new(about)
                plan.questions += len(new)
                plan.answered += len(new) - len(missing)
                groups = in_requests(judge, missing)
                requests = [request for group in groups for request in judge.requests(shown, group)]
                plan.add(self.name, judge.name, requests, self.options.attempts)
        return [found[place] for place in range(len(asked))]

    # --- as a chat model

    def endpoint(self, about: Any) -> str:
        """Where it answers, as its kept replies are keyed."""
        own = self.settings
        if self.given is not None:
            return GIVEN
        if own.mode in DIALECTS:
            return decided_endpoint_of(own.mode, self.located, own.base_url, about)
        return endpoint_of(self.located, own.base_url)

    def chat(self, about: Any) -> ChatModel:
        """The chat model; a decisions endpoint answers prompts about one question."""
        decides = self.settings.mode in DIALECTS
        key = about.key if decides and self.given is None else ""
        if key not in self._chats:
            self._chats[key] = self._chat(about, decides)
        return self._chats[key]

    def _chat(self, about: Any, decides: bool) -> ChatModel:
        own, store = self.settings, self.shared.store
        if self.given is not None:
            return Once(Cached(self.given, store, GIVEN, decode_reply, self.shared.budget))
        if decides:
            return open_decided(str(own.mode), self.located, own.base_url, about, store, self.options)
        return open_chat(self.located, own.base_url, store, self.options)

    def key_of(self, prompt: Prompt, about: Any) -> str:
        """Under which key a reply is kept."""
        return kept_key(self.endpoint(about), self.model, prompt)

    def _kept(self, keys: Sequence[str]) -> list[Reply | None]:
        """The replies that the store holds."""
        kept = self.shared.store.replies(dict.fromkeys(keys))
        return [decode_reply(json.loads(kept[key])) if key in kept else None for key in keys]

    def price_replies(self, asked: Sequence[Request], plan: Plan) -> list[Reply | Failure]:
        """What the store holds, or a stand-in, for each prompt; those that would be asked are counted."""
        keys = [self.key_of(request.content, request.about) for request in asked]
        found: list[Reply | Failure] = []
        for request, key, kept in zip(asked, keys, self._kept(keys), strict=True):
            plan.steps += 1
            plan.has_follow_ups = plan.has_follow_ups or request.stand_in is not None
            # Assumed replies may lead to equal requests where real replies differ: count all, unless for the lower end.
            if (request.stand_in is not None and plan.assume != "fewest") or plan.is_new(key):
                plan.questions += 1
                plan.answered += kept is not None
                plan.add(self.name, self.model, [request.content] if kept is None else [], self.options.attempts)
            assumed = getattr(request, plan.assume) or request.stand_in
            found.append(kept or assumed or Failure(NOT_ASKED, f"the {self.name}"))
        return found

    async def replied(self, asked: Sequence[Request], step: Callable[[], None]) -> list[Reply | Failure]:
        """A reply, or a failure, for each prompt; each is kept as it comes."""
        if not self.shared.asks:
            keys = [self.key_of(request.content, request.about) for request in asked]
            known, missing = self.shared.failures or {}, Failure(NOT_ASKED, f"the {self.name}")
            return [reply or known.get(key, missing) for key, reply in zip(keys, self._kept(keys), strict=True)]
        found: dict[int, Reply | Failure] = {}
        over = False

        async def one(place: int) -> Reply | Failure:
            nonlocal over
            request = asked[place]
            try:
                reply = await ask(self.chat(request.about), request.content)
            except ModelError as error:
                self._record_error([self.key_of(request.content, request.about)], error)
                raise
            if isinstance(reply, Failure):
                over = over or reply.reason == OUT_OF_BUDGET
                self._record(self.key_of(request.content, request.about), reply)
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
        left = Failure(OUT_OF_BUDGET, next((f.detail for f in found.values() if _is_over(f)), "the budget is spent"))
        return [found.get(place, left) for place in range(len(asked))]

    # --- as a likelihood model

    @cached_property
    def likelihood(self) -> LikelihoodModel:
        """The model whose likelihoods are asked for."""
        if self.given is not None:
            return self.given  # type: ignore[no-any-return]
        return open_likelihood(self.located, self.settings.base_url, self.options)

    @cached_property
    def _measurements(self) -> Ledger[str]:
        return Ledger(self.shared.store, self.shared.store.replies, self.shared.budget)

    def _key(self, passage: Passage) -> str:
        return content_hash(dict(self.likelihood.made_from(passage)), length=40)

    def price_measuring(self, passages: Sequence[Passage], plan: Plan) -> list[Measured]:
        """What the store holds of each passage; those that would be measured are counted."""
        keys = [self._key(passage) for passage in passages]
        kept = self.shared.store.replies(dict.fromkeys(keys))
        for passage, key in zip(passages, keys, strict=True):
            if plan.is_new((self.name, key)):
                plan.questions += 1
                plan.answered += key in kept
                plan.steps += key not in kept
                requests = [] if key in kept else self.likelihood.requests([passage])
                plan.add(self.name, self.likelihood.name, requests, self.options.attempts)
        return [_likelihoods(kept[key]) if key in kept else Failure(NOT_MEASURED) for key in keys]

    async def measured(self, passages: Sequence[Passage], step: Callable[[], None]) -> list[Measured]:
        """Each passage's likelihoods, from the store where it holds them; each is kept as it comes.

        Raises:
            BudgetReached: The budget is spent, or asking was stopped; what was under way is finished and kept.
        """
        by_key = {self._key(passage): passage for passage in dict.fromkeys(passages)}
        found: dict[str, Measured] = {}
        kept = await self._measurements.looked(by_key)
        found |= {key: _likelihoods(pairs) for key, pairs in kept.items()}
        missing = [key for key in by_key if key not in found]
        if not self.shared.asks:
            known, unknown = self.shared.failures or {}, Failure(NOT_MEASURED, "run: accord judge")
            found |= {key: known.get(key, unknown) for key in missing}
            missing = []
        # What goes over a wire is paid for: a piece of work is one passage, kept as soon as it is there. A model in
        # this process reads passages that begin alike together.
        is_wired = bool(self.likelihood.requests([by_key[key] for key in missing[:1]]))
        parts = batches(missing, 1 if is_wired else PASSAGES_TOGETHER)
        over: list[str] = []

        async def one(part: list[str]) -> dict[str, Measured]:
            mine = await self._measured([(key, by_key[key]) for key in part])
            over.extend(each.detail for each in mine.values() if _is_over(each))
            return mine

        within = takewhile(lambda _: not over, parts)
        async with aclosing(as_finished(one, within, self.settings.at_once if is_wired else 1)) as finished:
            async for part, mine in finished:
                found |= mine
                for _ in part:
                    step()
        if over:
            raise BudgetReached(over[0])
        return [found[self._key(passage)] for passage in passages]

    async def _measured(self, part: Sequence[tuple[str, Passage]]) -> dict[str, Measured]:
        """Some passages by their keys, each measured by one process alone."""
        passages, new = dict(part), dict[str, Measured]()

        async def ask(keys: list[str]) -> None:
            mine = [passages[key] for key in keys]
            try:
                measured = await self.likelihood.measure(mine)
            except ModelError as error:
                self._record_error(keys if self.likelihood.requests(mine) else (), error)
                raise
            for key, each in zip(keys, measured, strict=True):
                new[key] = each
                if isinstance(each, Failure):
                    self._record(key, each)
            await self._measurements.keep(
                {"kind": "reply", "key": key, "maker": self.likelihood.name, "content": _packed(each)}
                for key, each in zip(keys, measured, strict=True)
                if not isinstance(each, Failure)
            )

        others = await self._measurements.once(passages, ask)
        return {**new, **{key: _likelihoods(kept) for key, kept in others.items()}}

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
        for model in (
            *self._judges.values(),
            *self._chats.values(),
            *map(vars(self).get, ("_measurements", "likelihood")),
        ):
            if model is not None:
                await model.close()


PASSAGES_TOGETHER = 64
"""Passages that a model in this process measures before they are kept: what an interruption may lose."""


def _likelihoods(kept: str) -> Measured:
    return tuple(Likelihood(*pair) for pair in json.loads(kept))


def _packed(measured: tuple[Likelihood, ...]) -> str:
    return json.dumps([[each.log_probability, each.tokens] for each in measured])


def _by_rubric(asked: Sequence[Questions]) -> list[tuple[Rubric, list[int]]]:
    """The places of requests by their rubric."""
    found: dict[int, tuple[Rubric, list[int]]] = {}
    for place, each in enumerate(asked):
        found.setdefault(id(each.rubric), (each.rubric, []))[1].append(place)
    return list(found.values())


def _is_over(found: object) -> TypeGuard[Failure]:
    return isinstance(found, Failure) and found.reason == OUT_OF_BUDGET
