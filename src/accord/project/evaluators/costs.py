"""Cost of scoring 1,000 conversations with an evaluator, measured on the requests that the store holds, by role.

A request's usage is stored with its answer, under the role and the model that were asked. Evaluators that ask no model
cost nothing. A model whose requests have no stored usage (a recording, a plug-in, answers of Accord 0.2.0) has no cost
that could be stated: it is not recorded, which is not 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.edges import AccordError
from accord.learning.presets import JUDGE_PANEL
from accord.models import Usage, located_model
from accord.results import Figure
from accord.statistics import clustered_mean
from accord.validation import BEST_COLUMN
from accord.values import Estimate

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

NOT_RECORDED = "not recorded"
NO_MODEL = "0, asks no model"
PER = 1000
COSTS = "accord.project.evaluators.costs.costs_of"
_FREE = ("constant", "annotator-mean", "random")
_ROLES = {"label-free": ("likelihood",), "judge-argmax": ("judge",), "judge-expected": ("judge",)}
"""Roles of the models behind baselines, by name."""


@dataclass(frozen=True)
class Cost:
    """Cost of scoring 1,000 conversations.

    Attributes:
        tokens: Input and output tokens, with a 95% interval over conversations; without a value if not recorded.
        money: Price at `prices.yaml`; without a value if a model has no price, or if not recorded.
        requests: Number of requests.
        conversations: Smallest number of conversations that a role was asked about.
        roles: Roles that are asked.
    """

    tokens: Estimate = Estimate()
    money: Estimate = Estimate()
    requests: float | None = None
    conversations: int = 0
    roles: tuple[str, ...] = ()

    @property
    def is_recorded(self) -> bool:
        """True if the cost is known."""
        return self.tokens.value is not None

    def figures(self, part: str) -> list[Figure]:
        """Return the tokens and, with prices, the money as figures; empty if the cost is not recorded."""
        if not self.is_recorded:
            return []
        about = f"{self.conversations:,} conversations with stored requests" if self.roles else "no model is asked"
        found = {"cost_tokens": self.tokens, "cost_money": self.money}
        return [
            Figure.measured(name, each, None, about, part=part, source=COSTS)
            for name, each in found.items()
            if each.value is not None
        ]

    def shown(self, part: str, in_money: bool) -> Figure | str:
        """Return the cost in one of its units as a figure, or in words where it is none."""
        if not self.is_recorded or not self.roles:
            return self.text()
        found = {figure.name: figure for figure in self.figures(part)}
        return found["cost_money" if in_money else "cost_tokens"]

    def text(self, part: str = "", in_money: bool = True) -> str:
        """Return the money, or the tokens without prices, in words.

        >>> Cost(Estimate(0.0), Estimate(0.0)).text(), Cost().text()
        ('0, asks no model', 'not recorded')
        >>> Cost(Estimate(250_000.0, 240_000, 260_000), roles=("judge",), conversations=40).text()
        '250,000 tokens [240,000, 260,000]'
        """
        if not self.is_recorded:
            return NOT_RECORDED
        if not self.roles:
            return NO_MODEL
        found = {figure.name: figure for figure in self.figures(part)}
        if in_money and "cost_money" in found:
            return found["cost_money"].text()
        tokens = found["cost_tokens"]
        return tokens.text().replace(tokens.short, f"{tokens.short} tokens", 1)

    def to_json(self) -> dict[str, Any]:
        """Return the cost as JSON; null where it is not recorded."""
        return {
            "tokens": self.tokens.to_json(), "money": self.money.to_json(), "requests": self.requests,
            "conversations": self.conversations, "roles": list(self.roles), "is_recorded": self.is_recorded,
            "text": self.text(),
        }  # fmt: skip


FREE = Cost(Estimate(0.0), Estimate(0.0), 0.0)


def costs_of(project: Workspace, systems: Iterable[str]) -> dict[str, Cost]:
    """Return the cost of each evaluator and baseline with known roles, by name."""
    by_role, found = role_costs(project), dict[str, Cost]()
    for name in systems:
        roles = _roles_of(project, name)
        if roles is not None:
            found[name] = _summed(roles, by_role)
    return found


def _roles_of(project: Workspace, name: str) -> tuple[str, ...] | None:
    """Return the roles that a system asks when it scores, or `None` if they are unknown."""
    if name in _FREE:
        return ()
    if name == BEST_COLUMN:  # a judge's answer, or a count of words
        return None
    if name in _ROLES:
        return _ROLES[name]
    if name in JUDGE_PANEL:
        return tuple(role for role in project.models.settings if role.split("-")[0] == "judge")
    try:
        evaluator = project.evaluator(name)
    except AccordError:
        return None
    return tuple(role for role in evaluator.roles if project.models.has(role))


def role_costs(project: Workspace) -> dict[str, Cost]:
    """Return the cost of each role with stored usage.

    The usage of a conversation is the sum over its requests; one whose request holds texts of several conversations
    counts once for each, so such a role has a mean without an interval.
    """
    used: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    totals: dict[tuple[str, str], dict[str, tuple[float, ...]]] = defaultdict(dict)
    for conversation, model, key, usage in project.store.usage():
        row = float(usage["requests"]), float(usage["input_tokens"]), float(usage["output_tokens"])
        totals[usage["role"], model][key] = row
        for place, value in enumerate(row):
            used[usage["role"], model][conversation][place] += value
    found: dict[str, Cost] = {}
    for (role, model), rows in used.items():
        if not _is_present(project, role, model):
            continue
        table, sums = np.array(list(rows.values())), np.array(list(totals[role, model].values())).sum(axis=0)
        is_single = np.isclose(table.sum(axis=0), sums).all()
        price = project.budget.price(model)

        def mean(values: Any, total: float, exact: bool = bool(is_single), count: int = len(table)) -> Estimate:
            if not exact:
                return Estimate(PER * total / count)
            each = clustered_mean(values, np.arange(len(values))).interval()
            ends = [None if end is None else PER * max(end, 0.0) for end in (each.low, each.high)]
            return Estimate(PER * float(np.mean(values)), *ends)

        money = Estimate()
        if price is not None:
            prices = [price.of(Usage(int(row[1]), int(row[2]))) for row in table]
            money = mean(np.array(prices), price.of(Usage(int(sums[1]), int(sums[2]))))
        cost = Cost(
            mean(table[:, 1] + table[:, 2], float(sums[1] + sums[2])), money, PER * float(sums[0]) / len(table),
            len(table), (role,),
        )  # fmt: skip
        found[role] = cost
    return found


def _is_present(project: Workspace, role: str, model: str) -> bool:
    """Return True if a role still asks a model; another model or a recording has taken its place otherwise."""
    settings = project.models.settings.get(role)
    if settings is None or role in project.given:
        return True
    return settings.mode != "recorded" and model in (
        settings.model, located_model(settings.model or "", project.config.folder)
    )  # fmt: skip


def _summed(roles: tuple[str, ...], by_role: Mapping[str, Cost]) -> Cost:
    """Return the cost of several roles, which is known if each is recorded."""
    if not roles:
        return FREE
    if any(role not in by_role for role in roles):
        return Cost(roles=roles)
    parts = [by_role[role] for role in roles]
    return Cost(
        _sum([each.tokens for each in parts]), _sum([each.money for each in parts]),
        sum(each.requests or 0.0 for each in parts), min(each.conversations for each in parts), roles,
    )  # fmt: skip


def _sum(parts: list[Estimate]) -> Estimate:
    """Return the sum of independent estimates; without ends if one has none, and without a value if one has none."""
    values = [each.value for each in parts if each.value is not None]
    if len(values) < len(parts):
        return Estimate()
    halves = [(each.high - each.low) / 2 for each in parts if each.high is not None and each.low is not None]
    half = float(np.hypot.reduce(halves)) if len(halves) == len(parts) else None
    total = float(sum(values))
    return Estimate(total) if half is None else Estimate(total, max(total - half, 0.0), total + half)
