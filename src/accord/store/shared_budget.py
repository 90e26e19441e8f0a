"""A budget shared by several processes: each takes slices of the rest and spends no more than it has taken.

A slice is taken in a transaction that locks the budget's row, so the total never exceeds a cap. Slices are small shares
of the rest, so that no process holds the last of it. Unspent amounts go back when a process ends; the slices of a
killed process count as spent.
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
"""A slice is this part of the rest, or the amounts of the next call if they are larger."""
MONEY_UNITS = 10**9
"""Money is counted in whole billionths, which add up exactly."""


class Amounts(NamedTuple):
    """Costs of calls: requests, tokens, and money in billionths."""

    requests: int = 0
    tokens: int = 0
    money: int = 0

    @classmethod
    def of(cls, requests: int, tokens: int, money: float) -> Amounts:
        """Return amounts with money in units of currency, rounded up to billionths."""
        return cls(requests, tokens, math.ceil(money * MONEY_UNITS - 1e-6))

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum of two amounts."""
        return Amounts(*(first + second for first, second in zip(self, other, strict=True)))

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference of two amounts."""
        return Amounts(*(first - second for first, second in zip(self, other, strict=True)))


class SharedBudget:
    """Amounts that the processes of a shared budget have taken, under the budget's name in their store."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._store = store

    def take(self, need: Amounts, caps: Mapping[str, int | None]) -> Amounts | None:
        """Take a slice that holds at least the needed amounts.

        Args:
            need: Maximum costs of the next call.
            caps: Caps on the total of all processes: `requests`, `tokens` and `money` in billionths; None for no cap.

        Returns:
            The slice; None if the rest is too small.

        Raises:
            StoreError: The store cannot be written.
        """
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            taken = self._locked(connection)
            amounts: dict[str, int] = {}
            for name, least in need._asdict().items():
                cap, spent = caps.get(name), int(getattr(taken, name))
                if cap is not None and spent + least > cap:
                    return None
                amounts[name] = least if cap is None else max(least, (cap - spent) // SLICES)
            self._add(connection, taken, amounts)
        return Amounts(**amounts)

    def settle(self, difference: Amounts) -> None:
        """Add the spending beyond the taken slices; a negative difference goes back to the budget.

        Raises:
            StoreError: The store cannot be written.
        """
        if any(difference):
            with database_errors(self._store.url), self._store._engine.begin() as connection:
                self._add(connection, self._locked(connection), difference._asdict())

    def taken(self) -> Amounts:
        """Return the total that all processes have taken."""
        rows = list(self._store._stream(self._row()))
        return Amounts(*map(int, rows[0])) if rows else Amounts()

    def _row(self) -> Any:
        return select(budgets.c.requests, budgets.c.tokens, budgets.c.money).where(budgets.c.name == self.name)

    def _locked(self, connection: Any) -> Any:
        """Return the budget's row, locked until the transaction ends."""
        empty = {"name": self.name, **Amounts()._asdict()}
        connection.execute(self._store._insert(budgets).values(**empty).on_conflict_do_nothing())
        return connection.execute(self._row().with_for_update()).one()

    def _add(self, connection: Any, taken: Any, amounts: Mapping[str, int]) -> None:
        totals = {name: int(getattr(taken, name)) + amount for name, amount in amounts.items()}
        connection.execute(update(budgets).where(budgets.c.name == self.name).values(**totals))
