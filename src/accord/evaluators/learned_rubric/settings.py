"""The settings of a learned rubric: what they are where nobody says, and which there can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accord.errors import BadInput, UnknownName
from accord.evaluators.learned_rubric.likert import READINGS
from accord.evaluators.learned_rubric.policies import POLICIES, RUBICON
from accord.rubric import Side

POOLED = "pooled"
ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)
BUDGETS = ((10, 10),)


def check_settings(
    policy: str,
    answers: str,
    targets: str,
    classes: Mapping[str, str],
    alphas: Sequence[float],
    budgets: Sequence[Sequence[int]],
    precision: float,
    weights: Mapping[str, float],
) -> None:
    """Refuse settings that do not exist, or select nothing.

    Raises:
        UnknownName: No policy, reading, target or class is called so.
        BadInput: Says which number is wrong, and what is allowed.
    """
    for what, name, known in (
        ("policy", policy, (RUBICON, *POLICIES)),
        ("reading of answers", answers, READINGS),
        ("targets", targets, ("paper", POOLED)),
        *(("class of an assertion", name, tuple(map(str, Side))) for name in classes.values()),
    ):
        if name not in known:
            raise UnknownName(what, str(name), known)
    if not isinstance(alphas, Sequence) or not alphas or not all(is_number(a) and 0 <= a < np.inf for a in alphas):
        raise BadInput(f"alphas are one or more weights of at least 0, got {alphas!r}")
    if not isinstance(budgets, Sequence) or not budgets or not all(map(_is_budget, budgets)):
        raise BadInput(f"budgets are pairs [SAT, DSAT] of how many assertions to choose, got {budgets}")
    for name, weight in weights.items():
        if not is_number(weight) or not 0 < weight <= 100:
            raise BadInput(f"the weight of {name!r} is a number above 0 and up to 100, got {weight!r}")
    if not is_number(precision) or not 0.5 < precision < 1:
        raise BadInput(f"precision is a share above one half and below 1, got {precision}")


def _is_budget(each: Any) -> bool:
    pair = isinstance(each, Sequence) and len(each) == 2 and all(type(count) is int and count >= 0 for count in each)
    return pair and max(each) > 0


def is_number(value: Any) -> bool:
    """Whether a setting is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
