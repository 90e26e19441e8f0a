"""Findings of scoring in context, as values: what learned, what it cost, what a user should know before trusting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from accord.methods.in_context.asking import Counts
from accord.methods.in_context.inversion import BY_HAND
from accord.methods.in_context.recipe import Recipe
from accord.methods.in_context.selectors import SelectorFigures

WRITTEN, TRIED, SETS = "prompts written", "prompts tried", "sets tried"
TRAIN_SIDE, TEST_SIDE = "training side asked", "held-out side asked"
"""Stages, as progress and counts call them."""
MANY = 0.1
"""The share from which on failures are worth a sentence."""


@dataclass(frozen=True)
class PromptFigures:
    """A task prompt that was tried: its error on [0, 1] (eq. 1), and how many replies held no score on the scale."""

    hash: str
    by: str
    error: float
    examples: tuple[str, ...]
    text: str
    kept: bool
    unreadable: int


@dataclass(frozen=True)
class StageCounts:
    """Requests of one stage, and the reasons of those that gave nothing, counted."""

    asked: int
    failures: Mapping[str, int]


@dataclass(frozen=True)
class InContextFindings:
    """Findings of learning, and of the held-out side where it was asked about.

    Attributes:
        level: `turn` or `dialogue`.
        left_out: Reasons why rated samples are no examples, counted.
        kept: How many prompts are in use.
        prompts: All prompts that were tried, the best first.
        pairs: How many observations the selectors learned from.
        failures: Reasons of requests that gave nothing, counted; `again` of these may succeed another time.
        prefix_shared: Share of the requests' characters that repeats the beginning of the request before; from 0 to 1.
        cautions: Sentences on what a user should know before scores are trusted.
    """

    dimension: str
    level: str
    trained: int
    tested: int
    left_out: Mapping[str, int]
    kept: int
    prompts: tuple[PromptFigures, ...]
    pairs: int
    selectors: tuple[SelectorFigures, ...]
    selector: str
    asked: int
    failures: Mapping[str, int]
    again: int
    stages: Mapping[str, StageCounts]
    prefix_shared: float
    recipe: str
    cautions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The findings as plain JSON values."""
        return dict(_FINDINGS.dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> InContextFindings:
        """The inverse of `to_json`.

        Raises:
            ValueError: The row is none of its rows.
        """
        return _FINDINGS.validate_python(dict(row))


_FINDINGS = TypeAdapter(InContextFindings)


def cautions(recipe: Recipe, counts: Mapping[str, Counts], left_out: Mapping[str, int]) -> Sequence[str]:
    """Sentences on what a user should know before scores are trusted."""
    found = [f"{count} rated examples were left out: {reason}" for reason, count in left_out.items()]
    whole, written = Counts.total(counts.values()), counts.get(WRITTEN, Counts())
    if written.failed > MANY * written.asked:
        [(reason, count)] = written.failures.most_common(1)
        found.append(f"{written.failed} of {written.asked} replies were no prompt: {reason} ({count})")
    unreadable = whole.unreadable - written.unreadable
    if unreadable > MANY * whole.asked:
        found.append(f"{unreadable} of {whole.asked} replies held no score on the scale")
    if whole.dropped:
        found.append(f"{whole.dropped} demonstrations did not fit beside an input and were not shown")
    if all(task.by.startswith(BY_HAND) for task in recipe.tasks):
        found.append("no written prompt did better than those by hand")
    return found
