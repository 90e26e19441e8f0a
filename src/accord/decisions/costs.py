"""Value of a score by the loss or the costs of its errors: Bayes decisions (LLM-RUBRIC, eq. 2)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName, one_line
from accord.values import Score, mean, quantile

Numbers = Sequence[float] | NDArray[np.float64]

LOSSES: Mapping[str, Callable[[Numbers, Numbers], float]] = {
    "squared": mean,  # (ŷ - y)²
    "absolute": lambda options, shares: quantile(options, shares, 0.5),  # |ŷ - y|
    "zero-one": lambda options, shares: float(options[int(max(range(len(shares)), key=shares.__getitem__))]),  # [ŷ ≠ y]
}
"""The answer with the least expected loss, by the name of the loss."""


def decision(loss: str) -> Callable[[Numbers, Numbers], float]:
    """Return the function from a distribution to the answer with the least expected loss.

    Raises:
        UnknownName: No loss has this name.
    """
    if loss not in LOSSES:
        raise UnknownName("loss", loss, LOSSES)
    return LOSSES[loss]


def decode(options: Numbers, probabilities: Numbers, loss: str = "squared") -> float:
    """Return the Bayes decision: the answer with the least expected loss under the distribution.

    Raises:
        UnknownName: No loss has this name.
    """
    return decision(loss)(options, probabilities)


Costs = tuple[tuple[float, ...], ...]
"""(D, K) cost of each of D decisions for each of K true answers."""


def least_cost(probabilities: Numbers, costs: Sequence[Numbers]) -> int:
    """Return the index of the decision with the least expected cost.

    Args:
        probabilities: (K,) of the answers.
        costs: (D, K) cost of each of D decisions for each true answer; the table need not be square.
    """
    expected = [sum(c * p for c, p in zip(row, probabilities, strict=True)) for row in costs]
    return expected.index(min(expected))


def parse_costs(text: str, where: str) -> Costs:
    """Read a table of costs: rows on lines or separated by `;`, numbers separated by commas or white space.

    Args:
        text: The table; a row is a reported answer, a column a true one.
        where: Name of the table in errors.

    Raises:
        BadInput: A cell is not a finite number, or the table is empty.
    """
    rows: list[tuple[float, ...]] = []
    for line in filter(None, (line.strip() for line in re.split(r"[;\n]", text))):
        row = []
        for cell in filter(None, re.split(r"[,\s]+", line)):
            try:
                row.append(float(cell))
            except ValueError:
                row.append(math.nan)
            if not math.isfinite(row[-1]):
                raise BadInput(
                    f"{where}: row {len(rows) + 1}, column {len(row)} is {one_line(cell, 40)!r}; allowed: finite "
                    "numbers, such as 0,1,4;1,0,1;4,1,0"
                )
        rows.append(tuple(row))
    if not rows:
        raise BadInput(f"{where} holds no costs; give a row for each answer, such as 0,1,4;1,0,1;4,1,0")
    return tuple(rows)


def check_costs(costs: Costs, options: Sequence[float]) -> None:
    """Check that a table has one row and one column for each option.

    Raises:
        BadInput: It has another shape.
    """
    count = len(options)
    named = ", ".join(f"{option:g}" for option in options[:10]) + (", ..." if count > 10 else "")
    expected = f"the scale {named} needs {count} rows (reported answers) of {count} costs (true answers)"
    if len(costs) != count:
        raise BadInput(f"the table of costs has {len(costs)} rows; {expected}")
    for number, row in enumerate(costs, start=1):
        if len(row) != count:
            raise BadInput(f"row {number} of the table of costs has {len(row)} costs; {expected}")


def decoded(score: Score, loss: str) -> Score:
    """Return a score with the Bayes decision under a loss as its value.

    The loss is `squared` (the mean), `absolute` (a median) or `zero-one` (the most probable option).

    Raises:
        UnknownName: No loss has this name.
    """
    value = decode(score.options, score.probabilities, loss)
    return replace(score, value=value, signature=score.signature.with_part("loss", loss))


def at_least_cost(score: Score, costs: Costs, name: str) -> Score:
    """Return a score with the option of the least expected cost as its value; `name` is in its signature."""
    place = least_cost(score.probabilities, costs)
    return replace(score, value=score.options[place], signature=score.signature.with_part("costs", name))
