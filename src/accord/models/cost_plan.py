"""Plans: the requests, tokens and money that a run needs, before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from accord.models.budget import Budget
from accord.models.model import Usage, estimated_usage, in_process

Assumed = Literal["stand_in", "fewest", "most"]
Asked = tuple[str, str]
"""A role and its model."""
_INTERNAL = {"assume", "has_follow_ups", "used", "counts", "most_used", "seen", "steps"}


@dataclass
class Plan:
    """The requests of a run, counted without sending one.

    Tokens are estimates from the prompts' lengths: an upper bound for most scripts, four bytes a token.

    Attributes:
        samples: Samples in the run.
        steps: Number of progress reports of the run.
        questions: Questions to answer.
        answered: Questions that already have an answer in the store.
        requests: Requests if every reply is as expected.
        fewest_requests: Requests if replies lead to as few follow-up requests as possible.
        most_requests: Requests if replies lead to as many follow-up requests as possible, without failed attempts.
        attempts: Times that a request is sent if it fails each time; each attempt counts as a request.
        input_tokens: Input tokens of `requests`.
        output_tokens: Most output tokens of `requests`.
        money: Price of `requests`; None without prices.
        most_money: Price of `most_requests`.
        unpriced: First model without a price.
        assume: Replies that are assumed while counting: a field of `Request`.
        has_follow_ups: True if a reply decides about further requests.
        used: Usage by role and model.
        counts: Requests by role and model.
        most_used: Usage of `most_requests` by role and model.
        seen: Requests that were counted.
    """

    samples: int = 0
    steps: int = 0
    questions: int = 0
    answered: int = 0
    requests: int = 0
    fewest_requests: int = 0
    most_requests: int = 0
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    most_money: float | None = None
    unpriced: str | None = None
    assume: Assumed = "stand_in"
    has_follow_ups: bool = False
    used: dict[Asked, Usage] = field(default_factory=dict)
    counts: Counter[Asked] = field(default_factory=Counter)
    most_used: dict[Asked, Usage] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)

    def is_new(self, request: object) -> bool:
        """Return True if a request was not counted before; a second one is answered from the store."""
        known = request in self.seen
        self.seen.add(request)
        return not known

    def add(self, role: str, model: str, requests: Sequence[Any], attempts: int = 1) -> None:
        """Count requests to a model."""
        for request in requests:
            estimate = estimated_usage(request)
            self.requests += 1
            self.fewest_requests += 1
            self.most_requests += 1
            self.input_tokens += estimate.input_tokens
            self.output_tokens += estimate.output_tokens
            self.counts[role, model] += 1
            for used in (self.used, self.most_used):
                used[role, model] = used.get((role, model), Usage()).plus(estimate)
            self.attempts = max(self.attempts, 1 if in_process(model) else attempts)

    def extend(self, fewest: Plan, most: Plan) -> None:
        """Take the range of requests from plans of the same run under other assumptions.

        Each end is a sum over roles: replies with many follow-ups in one role may lead to few requests in another.
        """
        plans = (self, fewest, most)
        asked = {key for each in plans for key in each.counts}
        self.fewest_requests = sum(min(each.counts[key] for each in plans) for key in asked)
        self.most_requests = sum(max(each.counts[key] for each in plans) for key in asked)
        for key in asked:
            self.most_used[key] = max((each.used.get(key, Usage()) for each in plans), key=lambda usage: usage.total)

    def plus(self, other: Plan) -> None:
        """Add the counts of another plan."""
        for name in (
            "steps", "questions", "answered", "requests", "fewest_requests", "most_requests", "input_tokens",
            "output_tokens",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.attempts = max(self.attempts, other.attempts)
        self.counts.update(other.counts)
        for used, others in ((self.used, other.used), (self.most_used, other.most_used)):
            for key, usage in others.items():
                used[key] = used.get(key, Usage()).plus(usage)

    def price(self, budget: Budget) -> None:
        """Set the money from the budget's prices, or `unpriced` if a model has none."""
        prices = {key: budget.price(key[1]) for key in self.most_used}
        self.unpriced = next((model for (_, model), price in prices.items() if price is None), None)
        if self.unpriced is None and any(not in_process(model) for _, model in prices):
            known = {key: price for key, price in prices.items() if price is not None}
            self.money = sum(price.of(self.used.get(key, Usage())) for key, price in known.items())
            self.most_money = sum(price.of(self.most_used[key]) for key, price in known.items())

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return {name: value for name, value in vars(self).items() if name not in _INTERNAL}
