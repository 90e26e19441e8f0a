"""Findings of scoring in context, as values: what learned, what it cost, what a user should know before trusting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from accord.methods.in_context.prompt_assembly import Recipe
from accord.methods.in_context.prompt_inversion import BY_HAND
from accord.methods.in_context.scoring_requests import Counts
from accord.methods.in_context.selectors import SelectorFigures
from accord.values import Estimate, Findings, Fold, Section, Table, Text, number, percent, text_table

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

    def fold(self, is_open: bool) -> Fold:
        """Its part of the report."""
        lost = f", {self.unreadable} replies without a score" if self.unreadable else ""
        summary = f"{self.hash}, {self.by}: mean squared error {number(self.error, 4)}{lost}"
        return Fold(summary, [Text(self.text, "quote")], is_open=is_open)


@dataclass(frozen=True)
class StageCounts:
    """Requests of one stage, and the reasons of those that gave nothing, counted."""

    asked: int
    failures: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class InContextFindings(Findings):
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

    def lines(self) -> list[str]:
        """What it learned from, the best prompts, who picks the examples, and the requests."""
        prompts = [
            [one.hash, one.by, f"{one.error:.4f}", "kept" if one.kept else ""] for one in self.prompts[: self.kept + 3]
        ]
        selectors = [
            [one.selector + (" *" if one.chosen else ""), one.targets.text(3, 3), one.gains.text(3, 3)]
            for one in self.selectors
        ]
        return [
            f"{self.dimension} ({self.level}s): learned from {self.trained} examples and {self.pairs} tried sets, "
            f"tested on {self.tested} others",
            f"Prompts by squared error\n{text_table(['', 'by', 'error', ''], prompts)}",
            "Selection of examples: exp(-error) of the sets they pick, and the gain over random sets (* is used)\n"
            + text_table(["", "exp(-error)", "gain"], selectors),
            f"{self.asked} requests; {self.prefix_shared:.0%} of their text repeats the beginning of the request "
            "before",
        ]

    def section(self) -> Section:
        """How it was learned, who picks the examples, and the prompts that are used."""
        lead = (
            f"A model was shown {self.trained} rated examples, a few per request, and tested on {self.tested} others. "
            f"{len(self.prompts)} prompts were tried, {self.kept} are used; the selector {self.selector} picks the "
            "examples."
        )
        enough = (
            "Next step: where the first line of the table of agreement is no better than the prompt by hand in it, a "
            "prompt by hand is enough. That table is over conversations that were neither learned from nor shown."
        )
        edited = (
            "To try an edited prompts.yaml: sources: {in-context: {prompts: FILE}}. "
            f"{percent(self.prefix_shared)} of the requests' text repeats the beginning of the request before."
        )
        rows: list[list[str | Estimate]] = [[one.selector, one.targets, one.gains] for one in self.selectors]
        own = frozenset(place for place, one in enumerate(self.selectors) if one.chosen)
        kept = [one for one in self.prompts if one.kept]
        return Section(f"Scoring in context: {self.dimension}", lead, [
            Text(enough, "soft"), Text("Selection of examples", "heading"),
            Table(["", "exp(-error) of what it picks", "gain over random"], rows, 3, own),
            Text("Prompts", "heading"), *(one.fold(place == 0) for place, one in enumerate(kept)), Text(edited, "soft"),
        ])  # fmt: skip

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
