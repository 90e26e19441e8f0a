"""A hard budget: it stops before the request that would exceed it, and counts every request that was sent."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from pydantic import BaseModel, ConfigDict, Field

from accord.edges import AccordError, BadInput, BudgetReached, NotSent, check, load_yaml
from accord.models.model import (
    A,
    CallFailed,
    Model,
    Q,
    Usage,
    estimated_tokens,
    estimated_usage,
    in_process,
    least_tokens,
)
from accord.store import MONEY, Account, Amounts, StoreError

PRICES_FILE = "prices.yaml"


class Price(BaseModel):
    """What a million tokens cost, in the currency the user thinks in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def of(self, usage: Usage) -> float:
        """The price of some tokens."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: dict[str, Price]


def load_prices(folder: Path = Path()) -> dict[str, Price]:
    """Read prices by model name from `prices.yaml` (`models: {NAME: {input: 0.15, output: 0.6}}`, per million tokens).

    Without the file there are no prices. Accord ships none, because they change.

    Raises:
        BadInput: The file cannot be read, or holds something else.
    """
    path = folder / PRICES_FILE
    return check(_PriceFile, load_yaml(path), str(path)).models if path.is_file() else {}


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that may be spent; `None` caps nothing.

    Raises:
        BadInput: A cap is negative, infinite or no number.
    """

    requests: int | None = None
    tokens: int | None = None
    money: float | None = None

    def __post_init__(self) -> None:
        for what, cap in (("requests", self.requests), ("tokens", self.tokens), ("money", self.money)):
            if cap is not None and not 0 <= cap < math.inf:
                raise BadInput(f"a budget of {cap} {what} is no cap; allowed: a finite number from 0 up, or none")

    @property
    def any(self) -> bool:
        """Whether anything is capped."""
        return (self.requests, self.tokens, self.money) != (None, None, None)


class Budget:
    """What was spent so far, what is under way, and how much is left; shared by all calls of a run.

    With an `account` the caps are those of all processes that share it: this one spends slices that it takes there.
    """

    def __init__(self, caps: Caps, prices: Mapping[str, Price], account: Account | None = None) -> None:
        self.caps = caps
        self.account = account
        self._granted = Amounts()
        self._taking = threading.Lock()
        self.prices = prices
        self.requests = 0
        self.requests_by_model = Counter[str]()
        self.spent = Usage()
        self._reserved = Usage()
        self.money = 0.0
        self._reserved_money = 0.0
        self.stopped: AccordError | None = None
        """Why nobody is asked any more, whatever is left to spend: the store cannot keep what would be paid for."""

    def price(self, model: str) -> Price | None:
        """The model's price, where the user named one; a model in this process is free."""
        return self.prices.get(model, Price(input=0, output=0) if in_process(model) else None)

    def reserve(self, model: str, estimate: Usage) -> None:
        """Set the estimate of a call aside.

        Raises:
            BudgetReached: The call could pass a cap, or asking was stopped.
            BadInput: Money is capped and the model has no price.
        """
        after = self._after(model, estimate)
        for what, cap in self._most.items():
            amount = getattr(after, what)
            if cap is not None and amount > cap:
                raise BudgetReached(
                    f"the budget of {_shown(what, cap)} {what} would be passed by the next call; what was answered is "
                    "kept. Run again with a larger budget to go on."
                )
        if self._lacks(after):
            self._take(model, estimate)
        self.requests += 1
        self.requests_by_model[model] += 1
        self._reserved = self._reserved.plus(estimate)
        self._reserved_money += self._cost(model, estimate)

    async def afford(self, model: str, estimate: Usage) -> None:
        """See to it that `reserve` need not wait for the store; for calls in an event loop.

        Raises:
            BudgetReached: All who share the budget could pass a cap with this call.
        """
        while self.stopped is None and self._lacks(self._after(model, estimate)):
            await asyncio.to_thread(self._take, model, estimate)

    def _cost(self, model: str, usage: Usage) -> float:
        price = self.price(model)
        return price.of(usage) if price else 0.0

    def _after(self, model: str, estimate: Usage) -> Amounts:
        """What is spent after a call that costs its estimate.

        Raises:
            BudgetReached: Asking was stopped.
            BadInput: Money is capped and the model has no price.
        """
        if self.stopped is not None:
            raise BudgetReached(str(self.stopped))
        if self.caps.money is not None and self.price(model) is None:
            raise BadInput(f"no price for {model!r}, so money cannot be capped; add it to {PRICES_FILE}")
        tokens = self.spent.total + self._reserved.total + estimate.total
        return Amounts.of(self.requests + 1, tokens, self.money + self._reserved_money + self._cost(model, estimate))

    @property
    def _most(self) -> dict[str, int | None]:
        """The caps as amounts are counted."""
        money = None if self.caps.money is None else math.floor(self.caps.money * MONEY + 1e-6)
        return {"requests": self.caps.requests, "tokens": self.caps.tokens, "money": money}

    def _lacks(self, after: Amounts) -> bool:
        """Whether more has to be taken from what all share, before so much may be spent."""
        if self.account is None:
            return False
        return any(getattr(after, what) > getattr(self._granted, what)
                   for what, cap in self._most.items() if cap is not None)  # fmt: skip

    def _take(self, model: str, estimate: Usage) -> None:
        """Take a slice that the call fits into; where several threads are here at once, one takes it for all."""
        assert self.account is not None
        with self._taking:
            after = self._after(model, estimate)
            if not self._lacks(after):
                return
            need = Amounts(*(max(0, amount) for amount in after.minus(self._granted)))
            taken = self.account.take(need, self._most)
            if taken is None:
                raise BudgetReached(
                    f"the budget {self.account.name!r}, which others share, would be passed by the next call; what was "
                    "answered is kept. Run again with a larger budget to go on."
                )
            self._granted = self._granted.plus(taken)

    def close(self) -> None:
        """Give back what was taken of a shared budget and not spent; what was spent without a cap is counted there too.

        What is under way keeps what was set aside for it. Whoever asks again takes another slice.

        Raises:
            StoreError: The store cannot be written: what was taken stays taken.
        """
        if self.account is None:
            return
        with self._taking:
            tokens, money = self.spent.total + self._reserved.total, self.money + self._reserved_money
            held = Amounts.of(self.requests, tokens, money)
            more, self._granted = held.minus(self._granted), held
            try:
                self.account.settle(more)
            except StoreError:
                self._granted = self._granted.minus(more)
                raise

    def settle(self, model: str, estimate: Usage, used: Usage | None) -> None:
        """Replace a request's estimate by its usage; None cancels the reservation of a request that was not sent."""
        self._reserved = self._reserved.minus(estimate)
        self._reserved_money -= self._cost(model, estimate)
        if used is None:
            self.requests -= 1
            self.requests_by_model[model] -= 1
            return
        self.spent = self.spent.plus(used)
        self.money += self._cost(model, used)

    def to_json(self) -> dict[str, Any]:
        """What was spent."""
        tokens = {"input_tokens": self.spent.input_tokens, "output_tokens": self.spent.output_tokens}
        return {"requests": self.requests, **tokens, "money": self.money if self.prices else None}


def _shown(what: str, cap: int) -> str:
    return f"{cap / MONEY if what == 'money' else cap:g}"


UNBILLED = frozenset({"rate-limited", "unreachable", "rejected", "too long", "server"})
"""Reasons of failures that nobody bills; where a reply came, or may have been worked on, the estimate is counted."""


def counted(question: Any, answer: Any, estimate: Usage) -> Usage:
    """What a call is counted as: what the endpoint reports, or our own estimate where that cannot be.

    A report of fewer tokens than a text of that length can have (none, a negative number, no number) is not believed.
    """
    reported, said = getattr(answer, "usage", Usage()), str(getattr(answer, "text", ""))
    is_sent = reported.input_tokens >= max(1, least_tokens(question))
    is_got = reported.output_tokens >= (max(1, least_tokens(said)) if said else 0)
    return Usage(
        reported.input_tokens if is_sent else estimate.input_tokens,
        reported.output_tokens if is_got else estimated_tokens(said),
    )


def is_unsent(error: BaseException) -> bool:
    """Return True if a call failed before its request left this machine."""
    return isinstance(error, NotSent) or (isinstance(error, CallFailed) and not error.failure.is_sent)


class Budgeted(Generic[Q, A]):
    """A model that asks only where the budget allows it."""

    def __init__(self, model: Model[Q, A], budget: Budget) -> None:
        self.name = model.name
        self._model, self._budget = model, budget

    async def ask(self, question: Q) -> A:
        """Return the model's answer. The estimate is reserved before sending, and released if nothing was sent.

        Raises:
            BudgetReached: The request could exceed the budget; it was not sent.
        """
        estimate = estimated_usage(question)
        if self._budget.account is not None:
            await self._budget.afford(self.name, estimate)
        self._budget.reserve(self.name, estimate)
        used: Usage | None = Usage()
        try:
            answer = await self._model.ask(question)
            used = counted(question, answer, estimate)
            return answer
        except AccordError as error:
            if is_unsent(error):
                used = None
            elif isinstance(error, CallFailed) and error.failure.reason not in UNBILLED:
                used = estimate
            raise
        finally:
            self._budget.settle(self.name, estimate, used)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()
