"""The model of each role: opens it from its settings, and answers or prices the role's requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from accord.edges import BadInput, ModelSetting
from accord.models.ask_judge import SAMPLES_AT_ONCE, Judged, JudgeExchange, judge_all
from accord.models.context_window import context_of
from accord.models.factory import (
    DIALECTS,
    ClientOptions,
    judge_object,
    open_batch_judge,
    open_judge,
    open_likelihood,
    open_uncached,
)
from accord.models.judges.recorded import RecordedJudge
from accord.models.likelihood import LikelihoodExchange, LikelihoodModel
from accord.models.model import MODES, ChatModel, Judge, ModelSettings, Prompt, judge_modes, located_model
from accord.models.requests.batching import BatchChat, BatchEndpoint
from accord.models.requests.budget import Budget
from accord.models.requests.exchange import Exchange, Plan, count
from accord.models.requests.flow import GIVEN, ModelInfo, Questions, Request
from accord.models.requests.redacting import address_of, redactor_for
from accord.models.requests.wrappers import ReplyExchange
from accord.redaction import Redactor
from accord.store import Store
from accord.values import Rubric

E = TypeVar("E", bound=Exchange[Any, Any])


@dataclass(eq=False)
class Shared:
    """Settings and state that all roles of a run share; relative paths of models start from `folder`.

    `failures` holds the failed requests of a run by their keys while they are recorded (`Models.recorded_failures`).
    `redactor` redacts requests that leave this machine.
    """

    store: Store
    budget: Budget
    asks: bool
    in_batches: bool
    folder: Path = Path()
    batches: list[tuple[BatchChat, BatchEndpoint]] = field(default_factory=list)
    failures: dict[Any, Any] | None = None
    redactor: Redactor | None = None


class Role:
    """One role's model, opened on first use."""

    def __init__(self, name: str, settings: ModelSettings, shared: Shared, given: Any = None) -> None:
        self.name, self.settings, self.shared, self.given = name, settings, shared, given
        if given is not None and not hasattr(given, "name"):
            raise BadInput(
                f"the model given for the role {name!r} is an object of type {type(given).__name__} without 'name'; "
                "give a Judge or a ChatModel of accord.models"
            )
        self._judges: dict[tuple[str, bool], Judge] = {}
        self._chats: dict[str, ChatModel] = {}

    @property
    def model(self) -> str:
        """Name of the model.

        Raises:
            BadInput: The role's settings name no model.
        """
        if self.given is not None:
            return str(self.given.name)
        if not self.settings.model:
            setting = ModelSetting(self.name, model="NAME")
            raise BadInput(f"no model for role {self.name!r}. {setting}", setting)
        return self.settings.model

    @property
    def located(self) -> str:
        """Name of the model with the path of its file or folder made relative to the working folder."""
        return located_model(self.model, self.shared.folder)

    @cached_property
    def options(self) -> ClientOptions:
        """Options of its endpoint."""
        settings = self.settings
        return ClientOptions(settings.concurrency, settings.attempts, settings.timeout, self.shared.budget)

    @cached_property
    def context(self) -> int | None:
        """Maximum tokens per request: the setting, or the context length of a model in this process."""
        return self.settings.context or context_of(located_model(self.settings.model or "", self.shared.folder))

    @cached_property
    def redactor(self) -> Redactor | None:
        """Redactor of its requests, or `None` if they stay on this machine or nothing is redacted."""
        settings = self.settings
        if settings.mode == "recorded":
            return None
        if self.given is not None:
            return redactor_for(self.shared.redactor, str(self.given.name), str(getattr(self.given, "endpoint", "")))
        is_own = settings.mode is None or settings.mode in MODES
        address = address_of(settings.base_url) if is_own else settings.base_url or ""  # a plug-in may send anywhere
        return redactor_for(self.shared.redactor, settings.model or "", address)

    # --- judge

    def judge(self, rubric: Rubric, keeps: bool = True) -> Judge:
        """Return the judge with a rubric's instructions; without `keeps` it neither stores nor reads draws.

        Raises:
            BadInput: A setting that its mode needs is missing.
        """
        if self.given is not None:
            return judge_object(self.given, f"the model given for the role {self.name!r}")
        key = (rubric.instructions, keeps)
        if key not in self._judges:
            self._judges[key] = self._opened(rubric.instructions, self.settings, keeps)
        return self._judges[key]

    def _opened(self, instructions: str, settings: ModelSettings, keeps: bool) -> Judge:
        if settings.mode is None:
            setting = ModelSetting(self.name, mode="logprobs")
            raise BadInput(f"no mode for role {self.name!r}, which gives distributions. {setting}", setting)
        if settings.mode == "recorded":
            if not settings.paths:
                raise BadInput(
                    f"no recording for role {self.name!r}. Add its files to accord.yaml: "
                    f"models: {{{self.name}: {{mode: recorded, paths: [...]}}}}"
                )
            return RecordedJudge.read([self.shared.folder / path for path in settings.paths], settings.model)
        if settings.mode not in MODES:
            made = judge_modes.get(settings.mode)(settings, instructions)
            return judge_object(made, f"the judge of mode {settings.mode!r}")
        at, store = (settings.mode, self.located, settings.base_url, instructions), self.shared.store
        if self.shared.in_batches:
            judge, batched, endpoint = open_batch_judge(*at, store, settings.samples, settings.timeout)
            self.shared.batches.append((batched, endpoint))
            return judge
        return open_judge(*at, self.options, settings.samples, store if keeps else None)

    async def judged(self, requests: Sequence[Questions], step: Callable[[], None]) -> list[Judged]:
        """Return each sample's answers, from the store if it has them."""
        judged: dict[int, Judged] = {}
        for rubric, places in _by_rubric(requests):
            judge = self.judge(rubric)
            if not self.shared.asks and judge.mode != "recorded":
                samples = [requests[place].sample for place in places]
                stored = (each for _, each in self._exchange(judge, rubric).stored(samples))
                judged |= dict(zip(places, stored, strict=True))
                continue
            first: dict[tuple[Any, ...], int] = {}
            for place in places:
                sample = requests[place].sample
                first.setdefault((sample.target, sample.hidden), place)
            run = judge_all(
                judge,
                rubric,
                [requests[place].sample for place in first.values()],
                self.shared.store,
                self.settings.concurrency or SAMPLES_AT_ONCE,
                self.context,
                self.shared.budget,
                failures=self.shared.failures,
                redactor=self.redactor,
                role=self.name,
            )
            by_target: dict[Any, Judged] = {}
            async with aclosing(run) as answered:
                async for each in answered:
                    by_target[each.target] = each
                    step()
            judged |= {place: by_target[requests[place].sample.target] for place in places}
        return [judged[place] for place in range(len(requests))]

    def price_judging(self, requests: Sequence[Questions], plan: Plan) -> list[Judged]:
        """Count the questions, and the requests of those without a stored answer; return the stored answers."""
        judged: dict[int, Judged] = {}
        for rubric, places in _by_rubric(requests):
            judge = self.judge(rubric)
            exchange = self._exchange(judge, rubric)
            samples = [requests[place].sample for place in places]
            for place, (unit, stored) in zip(places, exchange.stored(samples), strict=True):
                judged[place] = stored
                plan.steps += 1
                hidden = unit.sample.hidden if unit.sample else None
                plan.samples += plan.is_new((judge.name, judge.mode, rubric.instructions, stored.target, hidden))
                count(exchange, unit.requests.items(), unit.answers, plan)
        return [judged[place] for place in range(len(requests))]

    def _exchange(self, judge: Judge, rubric: Rubric) -> JudgeExchange:
        return self._own(JudgeExchange(judge, rubric, self.shared.store, self.context, redactor=self.redactor))

    def _own(self, exchange: E) -> E:
        """Return an exchange with the role's name, attempts and current record of failures."""
        exchange.role, exchange.attempts, exchange.failures = self.name, self.options.attempts, self.shared.failures
        return exchange

    # --- chat model

    def endpoint(self, about: Any) -> str:
        """Return the endpoint in the keys of stored replies."""
        return GIVEN if self.given is not None else self.chat(about).endpoint

    def chat(self, about: Any) -> ChatModel:
        """Return the chat model, which stores nothing; a decisions endpoint answers prompts about one question."""
        if self.given is not None:
            return self.given  # type: ignore[no-any-return]
        mode = self.settings.mode
        key = about.key if mode in DIALECTS else ""
        if key not in self._chats:
            self._chats[key] = open_uncached(self.located, self.settings.base_url, self.options, mode, about)
        return self._chats[key]

    @cached_property
    def _replies(self) -> ReplyExchange:
        exchange = ReplyExchange(self.shared.store, self.model, self.chat, self.endpoint, self.shared.budget)
        exchange.hint, exchange.concurrency = f"the {self.name}", self.settings.concurrency
        return exchange

    # --- likelihood model

    @cached_property
    def likelihood(self) -> LikelihoodModel:
        """The likelihood model."""
        if self.given is not None:
            return self.given  # type: ignore[no-any-return]
        return open_likelihood(self.located, self.settings.base_url, self.options)

    @cached_property
    def _passages(self) -> LikelihoodExchange:
        return LikelihoodExchange(self.likelihood, self.shared.store, self.settings.concurrency, self.shared.budget)

    # --- all roles

    def exchange(self, kind: type) -> Exchange[Request, Any]:
        """Return the exchange of prompts or of passages."""
        exchange: Exchange[Request, Any] = self._replies if kind is Prompt else self._passages
        return self._own(exchange)

    def known(self, about: Any) -> ModelInfo:
        """Return the name, mode, address, context and redaction of the role's model."""
        known = self._known(about)
        if self.redactor is None:
            return known
        signature = self.redactor.signature
        return replace(known, where=f"{known.where} redacted:{signature}", redacted=signature)

    def _known(self, about: Any) -> ModelInfo:
        settings = self.settings
        if self.given is not None:
            address = f"{self.given.name} {GIVEN}"
            return ModelInfo(self.given.name, getattr(self.given, "mode", ""), address, settings.context)
        if settings.mode == "recorded":
            name = settings.model or self.judge(Rubric.model_construct(instructions="")).name
            return ModelInfo(name, "recorded")
        has_address = settings.mode not in DIALECTS or about is not None
        address = f"{self.model} {self.endpoint(about)}" if has_address else self.model
        return ModelInfo(self.model, settings.mode or "", address, self.context)

    async def close(self) -> None:
        """Close connections and release claims."""
        for name in ("_replies", "_passages"):
            if name in vars(self):
                await vars(self)[name].ledger.close()
        likelihood = vars(self).get("likelihood") if self.given is None else None
        for model in (*self._judges.values(), *self._chats.values(), likelihood):
            if model is not None:
                await model.close()


def _by_rubric(requests: Sequence[Questions]) -> list[tuple[Rubric, list[int]]]:
    """Return the indices of requests by rubric."""
    places: dict[int, tuple[Rubric, list[int]]] = {}
    for place, request in enumerate(requests):
        places.setdefault(id(request.rubric), (request.rubric, []))[1].append(place)
    return list(places.values())
