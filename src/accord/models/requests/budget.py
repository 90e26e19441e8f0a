"""A hard budget: it stops before the request that would exceed it, and counts every request that was sent."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from accord.edges import AccordError, BadInput, BudgetReached, NotSent, load_yaml, validate
from accord.models.model import (
    A,
    CallFailed,
    Caps,
    Model,
    ModelWrapper,
    Q,
    Usage,
    estimated_tokens,
    estimated_usage,
    in_process,
    least_tokens,
)
from accord.store import MONEY_UNITS, Amounts, SharedBudget, Store, StoreError

PRICES_FILE = "prices.yaml"


class Price(BaseModel):
    """Price of a million tokens, in the user's currency."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def of(self, usage: Usage) -> float:
        """Return the price of a number of tokens."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: dict[str, Price]


def load_prices(folder: Path = Path()) -> dict[str, Price]:
    """Read prices by model name from `prices.yaml` (`models: {NAME: {input: 0.15, output: 0.6}}`, per million tokens).

    If the file is missing, no model has a price. Accord ships no prices, because they change.

    Raises:
        BadInput: The file cannot be read, or its content is invalid.
    """
    path = folder / PRICES_FILE
    return validate(_PriceFile, load_yaml(path), str(path)).models if path.is_file() else {}


class Budget:
    """Usage so far and in progress, against caps; shared by all requests of a run.

    With an `account` the caps hold for all processes that share it, and this process takes its budget from it in
    slices.
    """

    def __init__(self, caps: Caps, prices: Mapping[str, Price], account: SharedBudget | None = None) -> None:
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
        """Error of the store; no request is sent after it, because a paid answer could not be stored."""

    def price(self, model: str) -> Price | None:
        """Return the model's price, or `None` if it is unknown. A model in this process is free."""
        return self.prices.get(model, Price(input=0, output=0) if in_process(model) else None)

    def reserve(self, model: str, estimate: Usage) -> None:
        """Reserve the estimate of a request.

        Raises:
            BudgetReached: The request could exceed a cap, or requests were stopped.
            BadInput: Money is capped and the model has no price.
        """
        after = self._after(model, estimate)
        for unit, cap in self._caps.items():
            if cap is not None and getattr(after, unit) > cap:
                raise BudgetReached(
                    f"stopped: the next request would exceed the budget of {_display(unit, cap)} {unit}. "
                    "Earlier answers are stored. Run again with a larger budget to continue."
                )
        if self._lacks(after):
            self._take(model, estimate)
        self.requests += 1
        self.requests_by_model[model] += 1
        self._reserved = self._reserved.plus(estimate)
        self._reserved_money += self._cost(model, estimate)

    async def afford(self, model: str, estimate: Usage) -> None:
        """Take slices for a request in advance, so that `reserve` does not block the event loop.

        Raises:
            BudgetReached: This request could exceed a cap of the shared budget.
        """
        while self.stopped is None and self._lacks(self._after(model, estimate)):
            await asyncio.to_thread(self._take, model, estimate)

    def _cost(self, model: str, usage: Usage) -> float:
        price = self.price(model)
        return price.of(usage) if price else 0.0

    def _after(self, model: str, estimate: Usage) -> Amounts:
        """Return the amounts including the estimate of a request."""
        if self.stopped is not None:
            raise BudgetReached(str(self.stopped))
        if self.caps.money is not None and self.price(model) is None:
            raise BadInput(f"no price for model {model!r}, which a budget in money needs. Add it to {PRICES_FILE}")
        tokens = self.spent.total + self._reserved.total + estimate.total
        return Amounts.of(self.requests + 1, tokens, self.money + self._reserved_money + self._cost(model, estimate))

    @property
    def _caps(self) -> dict[str, int | None]:
        """Caps in the units of `Amounts`."""
        money = None if self.caps.money is None else math.floor(self.caps.money * MONEY_UNITS + 1e-6)
        return {"requests": self.caps.requests, "tokens": self.caps.tokens, "money": money}

    def _lacks(self, after: Amounts) -> bool:
        """Return True if these amounts need another slice of the shared budget."""
        if self.account is None:
            return False
        return any(getattr(after, unit) > getattr(self._granted, unit)
                   for unit, cap in self._caps.items() if cap is not None)  # fmt: skip

    def _take(self, model: str, estimate: Usage) -> None:
        """Take a slice that covers the request; only one thread at a time takes slices."""
        assert self.account is not None
        with self._taking:
            after = self._after(model, estimate)
            if not self._lacks(after):
                return
            need = Amounts(*(max(0, amount) for amount in after.minus(self._granted)))
            taken = self.account.take(need, self._caps)
            if taken is None:
                raise BudgetReached(
                    f"stopped: the next request would exceed the shared budget {self.account.name!r}. Earlier "
                    "answers are stored. Run again with a larger budget to continue."
                )
            self._granted = self._granted.plus(taken)

    def close(self) -> None:
        """Give the unspent part of the slices back to the shared budget, and record uncapped amounts there.

        Requests in progress keep their reservations. Later requests take new slices.

        Raises:
            StoreError: The store cannot be written; the slices stay taken.
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
        """Replace a request's estimate with its usage; None cancels the reservation of a request that was not sent."""
        self._reserved = self._reserved.minus(estimate)
        self._reserved_money -= self._cost(model, estimate)
        if used is None:
            self.requests -= 1
            self.requests_by_model[model] -= 1
            return
        self.spent = self.spent.plus(used)
        self.money += self._cost(model, used)

    def to_json(self) -> dict[str, Any]:
        """Return the amounts spent."""
        tokens = {"input_tokens": self.spent.input_tokens, "output_tokens": self.spent.output_tokens}
        return {"requests": self.requests, **tokens, "money": self.money if self.prices else None}


def open_budget(caps: Caps, folder: Path, store: Store) -> Budget:
    """Return a budget with the prices of a folder; `Caps.shared` names the account in a store that processes share."""
    account = None if caps.shared is None else SharedBudget(store, caps.shared)
    return Budget(caps, load_prices(folder), account)


def _display(unit: str, cap: int) -> str:
    return f"{cap / MONEY_UNITS:g}" if unit == "money" else f"{cap:,}"


UNBILLED = frozenset({"rate-limited", "unreachable", "rejected", "too long", "server"})
"""Reasons of failures that are not billed; for any other failure the estimate is counted."""


def billed_usage(question: Any, answer: Any, estimate: Usage) -> Usage:
    """Return the usage of a request: the endpoint's report, or the estimate if the report is impossible.

    A report is impossible if it has fewer tokens than a text of that length can have.
    """
    reported, text = getattr(answer, "usage", Usage()), str(getattr(answer, "text", ""))
    has_input = reported.input_tokens >= max(1, least_tokens(question))
    has_output = reported.output_tokens >= (max(1, least_tokens(text)) if text else 0)
    return Usage(
        reported.input_tokens if has_input else estimate.input_tokens,
        reported.output_tokens if has_output else estimated_tokens(text),
    )


def is_unsent(error: BaseException) -> bool:
    """Return True if a request failed before it left this machine."""
    return isinstance(error, NotSent) or (isinstance(error, CallFailed) and not error.failure.is_sent)


_METERS: ContextVar[tuple[list[Usage], ...]] = ContextVar("meters", default=())


@contextmanager
def metered() -> Iterator[list[Usage]]:
    """Collect the usage of each request that is sent inside, also by tasks that are started inside."""
    used: list[Usage] = []
    token = _METERS.set((*_METERS.get(), used))
    try:
        yield used
    finally:
        _METERS.reset(token)


class Budgeted(ModelWrapper[Q, A]):
    """A model that sends a request only if the budget allows it."""

    def __init__(self, model: Model[Q, A], budget: Budget) -> None:
        super().__init__(model)
        self._budget = budget

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
            used = billed_usage(question, answer, estimate)
            return answer
        except AccordError as error:
            if is_unsent(error):
                used = None
            elif isinstance(error, CallFailed) and error.failure.reason not in UNBILLED:
                used = estimate
            raise
        finally:
            self._budget.settle(self.name, estimate, used)
            if used is not None:
                for meter in _METERS.get():
                    meter.append(used)
