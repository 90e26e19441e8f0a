"""What a run would cost before it starts: requests, tokens, money, and what is answered already."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from accord.evidence import key_of_passage, passages_of
from accord.models import (
    Budget,
    Judge,
    LikelihoodModel,
    Prompt,
    Reply,
    Usage,
    decode_reply,
    estimated_usage,
    in_process,
    in_requests,
    kept_key,
    windowing,
)
from accord.pipeline.models import Models
from accord.store import Store
from accord.values import Rubric, Sample, content_hash


@dataclass
class Plan:
    """The calls a run would make, counted without making one.

    Tokens are estimates from the prompts' lengths: an upper bound for most scripts, four bytes a token.
    """

    samples: int = 0
    questions: int = 0
    answered: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    unpriced: str | None = None
    used: dict[str, Usage] = field(default_factory=dict)

    def add(self, model: str, requests: Sequence[Any]) -> None:
        """Count requests to a model."""
        for request in requests:
            estimate = estimated_usage(request)
            self.requests += 1
            self.input_tokens += estimate.input_tokens
            self.output_tokens += estimate.output_tokens
            self.used[model] = self.used.get(model, Usage()).plus(estimate)

    def plus(self, other: Plan) -> None:
        """Count what another plan counts."""
        self.questions, self.answered = self.questions + other.questions, self.answered + other.answered
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        for model, usage in other.used.items():
            self.used[model] = self.used.get(model, Usage()).plus(usage)

    def price(self, budget: Budget) -> None:
        """Put a price on what was counted; a model without one is named, and there is no sum."""
        prices = {model: budget.price(model) for model in self.used}
        self.unpriced = next((model for model, price in prices.items() if price is None), None)
        if self.unpriced is None and any(not in_process(model) for model in self.used):
            self.money = sum(price.of(self.used[model]) for model, price in prices.items() if price is not None)

    def to_json(self) -> dict[str, Any]:
        """The counts."""
        return {name: value for name, value in vars(self).items() if name != "used"}


class Counting:
    """A chat model that answers from the store, or with a stand-in that it counts."""

    def __init__(self, name: str, endpoint: str, store: Store, plan: Plan, stand_in: Callable[[Prompt], Reply]) -> None:
        """`endpoint` is what the model's kept replies are keyed by."""
        self.name, self.endpoint = name, endpoint
        self._store, self._plan, self._stand_in = store, plan, stand_in

    async def ask(self, prompt: Prompt, /) -> Reply:
        """A kept reply, or a stand-in."""
        kept = self._store.reply(kept_key(self.endpoint, self.name, prompt))
        if kept is not None:
            return decode_reply(json.loads(kept))
        self._plan.add(self.name, [prompt])
        return self._stand_in(prompt)

    async def close(self) -> None:
        """Nothing is open."""


def plan_asking(
    models: Models,
    rubric: Rubric,
    samples: Iterable[Sample],
    store: Store,
    budget: Budget,
    context: int | None = None,
) -> Plan:
    """Price what the models would be asked about subjects; what the store answers costs nothing."""
    plan = Plan()
    show = None if models.judge is None else windowing(models.judge, rubric.judged, context)
    for sample in samples:
        plan.samples += 1
        if models.judge is not None and show is not None:
            _plan_judging(plan, models.judge, rubric, show(sample), store)
        if models.likelihood is not None:
            _plan_likelihood(plan, models.likelihood, sample, store)
    plan.price(budget)
    return plan


def _plan_judging(plan: Plan, judge: Judge, rubric: Rubric, sample: Sample, store: Store) -> None:
    """Count one subject's questions, and the requests of those that the store does not answer."""
    applicable = [question for question in rubric.judged if question.applies_to(sample.conversation)]
    keys = {q.id: content_hash(judge.made_from(sample, q), length=40) for q in applicable}
    stored = store.answers(keys.values())
    missing = [question for question in applicable if keys[question.id] not in stored]
    plan.questions += len(applicable)
    plan.answered += len(applicable) - len(missing)
    requests = [request for group in in_requests(judge, missing) for request in judge.requests(sample, group)]
    plan.add(judge.name, requests)


def _plan_likelihood(plan: Plan, model: LikelihoodModel, sample: Sample, store: Store) -> None:
    """Count the requests of one subject's passages that the store does not hold."""
    wanted = passages_of(sample)
    passages = wanted.all() if wanted is not None else ()
    missing = [p for p in passages if store.reply(key_of_passage(model, p)) is None]
    plan.add(model.name, model.requests(missing))
