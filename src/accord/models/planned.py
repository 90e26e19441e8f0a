"""What a run would cost before it starts: requests, tokens, money, and what is answered already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from accord.models.budget import Budget
from accord.models.model import Usage, estimated_usage, in_process


@dataclass
class Plan:
    """The calls a run would make, counted without making one.

    Tokens are estimates from the prompts' lengths: an upper bound for most scripts, four bytes a token. `steps` is how
    often a run tells that one more is done.
    """

    samples: int = 0
    steps: int = 0
    questions: int = 0
    answered: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    unpriced: str | None = None
    used: dict[str, Usage] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)

    def is_new(self, request: object) -> bool:
        """Whether this was not counted before: what is asked twice is answered from the store the second time."""
        known = request in self.seen
        self.seen.add(request)
        return not known

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
        self.steps += other.steps
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
        return {name: value for name, value in vars(self).items() if name not in {"used", "seen", "steps"}}
