"""One budget for many processes: each takes slices of what is left, and spends no more than it has taken.

A slice is taken in one transaction that locks the budget's row, so that what all have taken together never passes a
cap, whatever they do at the same time. It is a small share of what is left, so that the last of it is not held by a
few; what a process did not spend goes back when it ends. A process that was killed has spent its slices, as far as
anybody can tell: a hard cap counts them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import select, update

from accord.store.engine import database_errors
from accord.store.schema import budgets
from accord.store.store import Store

SLICES = 64
"""A slice is this part of what is left, or as much as the next call needs."""
MONEY_UNITS = 10**9
"""Money is counted in whole billionths, which add up exactly."""


class Amounts(NamedTuple):
    """What calls cost: requests, tokens, and money in billionths."""

    requests: int = 0
    tokens: int = 0
    money: int = 0

    @classmethod
    def of(cls, requests: int, tokens: int, money: float) -> Amounts:
        """Money as people count it, rounded up."""
        return cls(requests, tokens, math.ceil(money * MONEY_UNITS - 1e-6))

    def plus(self, other: Amounts) -> Amounts:
        """Both added up."""
        return Amounts(*(mine + more for mine, more in zip(self, other, strict=True)))

    def minus(self, other: Amounts) -> Amounts:
        """The difference."""
        return Amounts(*(mine - less for mine, less in zip(self, other, strict=True)))


class SharedBudget:
    """What the processes that share a budget have taken of it together, under the budget's name in their store."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._store = store

    def take(self, need: Amounts, caps: Mapping[str, int | None]) -> Amounts | None:
        """A slice that holds at least what is needed; `None` where that is not left.

        Args:
            need: What the next call may cost.
            caps: The most that all may spend together: `requests`, `tokens` and `money` in billionths; `None` caps
                nothing.

        Raises:
            StoreError: The store cannot be written.
        """
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            taken = self._locked(connection)
            slice_: dict[str, int] = {}
            for what, least in need._asdict().items():
                cap, gone = caps.get(what), int(getattr(taken, what))
                if cap is not None and gone + least > cap:
                    return None
                slice_[what] = least if cap is None else max(least, (cap - gone) // SLICES)
            self._add(connection, taken, slice_)
        return Amounts(**slice_)

    def settle(self, more: Amounts) -> None:
        """Count what was spent beyond what was taken; below zero it goes back.

        Raises:
            StoreError: The store cannot be written.
        """
        if any(more):
            with database_errors(self._store.url), self._store._engine.begin() as connection:
                self._add(connection, self._locked(connection), more._asdict())

    def taken(self) -> Amounts:
        """What all have taken by now."""
        found = list(self._store._stream(self._row()))
        return Amounts(*map(int, found[0])) if found else Amounts()

    def _row(self) -> Any:
        return select(budgets.c.requests, budgets.c.tokens, budgets.c.money).where(budgets.c.name == self.name)

    def _locked(self, connection: Any) -> Any:
        """The budget's row, which nobody else reads or changes before the transaction ends."""
        empty = {"name": self.name, **Amounts()._asdict()}
        connection.execute(self._store._insert(budgets).values(**empty).on_conflict_do_nothing())
        return connection.execute(self._row().with_for_update()).one()

    def _add(self, connection: Any, taken: Any, more: Mapping[str, int]) -> None:
        after = {what: int(getattr(taken, what)) + amount for what, amount in more.items()}
        connection.execute(update(budgets).where(budgets.c.name == self.name).values(**after))
