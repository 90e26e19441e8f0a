"""A learned rubric compared with others on conversations that it has not seen (RUBICON, section 4).

Table 1 compares it with other rubrics and with the judge asked directly, table 3 with other selections from the same
pool. The figures are those of the very rubric that is kept: it is not learned again from everything afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from accord.evidence import EvidenceTable, Training, ask_rubric
from accord.methods.learned_rubric.answers import Decided, points
from accord.methods.learned_rubric.fitting import AssertionSelector
from accord.methods.learned_rubric.pool import WrittenPool
from accord.methods.learned_rubric.rubrics import asking, only
from accord.methods.learned_rubric.selection import (
    ALL,
    RESAMPLES,
    RUBICON,
    SelectionSettings,
    selection_policies,
    stability,
)
from accord.methods.learned_rubric.separation import NAMES, Figure, with_intervals
from accord.models import JUDGE, NOT_YET, Flow
from accord.statistics import Clusters
from accord.values import BadInput, Rubric

ASKED = "judge asked directly"
RUBRICS, SELECTIONS = 1, 3
TABLES = {RUBRICS: "Rubrics", SELECTIONS: "Selection policies on the same pool"}
"""Titles by number; the numbers are the paper's."""


@dataclass(frozen=True)
class RubricFit:
    """A rubric selected from a pool (`everything`), and a judge's answers to the whole pool about the training side."""

    train: Training
    decided: Decided
    written: WrittenPool
    everything: Rubric
    rubric: Rubric
    selector: AssertionSelector
    answers: EvidenceTable

    def to_ask(self, names: Iterable[str]) -> set[str]:
        """The assertions to ask about further samples; the whole pool while a flow is priced and none is selected."""
        pending = NOT_YET in self.answers.absences.values()
        return {question.id for question in self.everything.assertions} if pending else set(names)


def fit_pool(written: WrittenPool, everything: Rubric, train: Training, settings: SelectionSettings) -> Flow[RubricFit]:
    """Have a pool judged about the good and the bad conversations, and select from it."""
    decided = Decided.of(train, settings)
    answers = yield from ask_rubric(everything, decided.samples, JUDGE, "judged")
    selector = AssertionSelector.of_rubric(everything, train.question, settings, train.seed).fit(answers, train.labels)
    return RubricFit(train, decided, written, everything, only(everything, selector.names_), selector, answers)


@dataclass(frozen=True)
class SystemFigures:
    """A line of a table.

    Attributes:
        table: Number of the table.
        system: Name of the system.
        figures: By name, on the held-out side.
        unanswered: Share of its assertions' answers that are missing, and count as neutral.
        failed: Why there are no figures.
    """

    table: int
    system: str
    figures: Mapping[str, Figure]
    unanswered: float | None = None
    failed: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A flat row: each figure by its name, its interval as `_low` and `_high`."""
        row: dict[str, Any] = {"table": self.table, "system": self.system, "unanswered": self.unanswered}
        for name, found in self.figures.items():
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        return row if self.failed is None else {**row, "failed": self.failed}

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> SystemFigures:
        """The inverse of `to_json`."""
        found = {name: Figure(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in NAMES}
        return cls(row["table"], row["system"], found, row["unanswered"], row.get("failed"))


@dataclass(frozen=True)
class ExperimentResult:
    """The good and bad conversations of the held-out side, a judge's answers about them, and the lines of the tables.

    `chosen` is the share of resamples of the training side on which each assertion of the pool is selected.
    """

    decided: Decided
    answers: EvidenceTable
    rows: tuple[SystemFigures, ...]
    chosen: Mapping[str, float]


@dataclass(frozen=True)
class Experiment:
    """A learned rubric, the held-out side, and other rubrics by name (`given`) to compare it with there."""

    fit: RubricFit
    test: Training
    settings: SelectionSettings
    given: Mapping[str, Rubric] = field(default_factory=dict)

    def run(self) -> Flow[ExperimentResult]:
        """Every line of the tables, the learned rubric first; where a given rubric fails, its line says why."""
        fit, main, decided = self.fit, self.test.question, Decided.of(self.test, self.settings, fewest=1)
        others = (name for name in (RUBICON, *selection_policies.names()) if name != ALL)
        systems = {name: self._by_policy(name) for name in dict.fromkeys((self.settings.policy, *others))}
        named = fit.to_ask(name for selector in systems.values() for name in selector.names_)
        answers = yield from ask_rubric(only(fit.everything, named), decided.samples, JUDGE, "held-out side judged")
        selections = [self._line(SELECTIONS, name, each, answers, decided) for name, each in systems.items()]
        rows = [replace(selections[0], table=RUBRICS)]
        if main.can_be_judged:
            directly = self._summing({main.id: "sat"}).fit(fit.answers, fit.train.labels)
            rows.append(self._line(RUBRICS, ASKED, directly, answers, decided))
        for name, rubric in self.given.items():
            rows.append((yield from self._given(name, rubric, decided)))
        return ExperimentResult(decided, answers, (*rows, *selections), self._stability())

    def _by_policy(self, policy: str) -> AssertionSelector:
        """The learned rubric, or another selection from its pool."""
        fit, settings = self.fit, self.settings.model_copy(update={"policy": policy})
        if policy == self.settings.policy:
            return fit.selector
        other = AssertionSelector.of_rubric(fit.everything, fit.train.question, settings, fit.train.seed)
        return other.fit(fit.answers, fit.train.labels)

    def _summing(self, classes: Mapping[str, str]) -> AssertionSelector:
        """A selector that sums everything; without classes it learns which answers speak for a conversation."""
        train, settings = self.fit.train, self.settings.model_copy(update={"policy": ALL})
        return AssertionSelector(train.question, classes, settings=settings, seed=train.seed)

    def _given(self, name: str, rubric: Rubric, decided: Decided) -> Flow[SystemFigures]:
        """The line of a rubric as it is, all of its questions summed; where it fails, the reason."""
        main, train = self.test.question, self.fit.train
        asked = asking(rubric, (question.id for question in rubric.questions if question.id != main.id))
        settings = self.settings.model_copy(update={"policy": ALL})
        try:
            seen = yield from ask_rubric(asked, self.fit.decided.samples, JUDGE, f"{rubric.name}: judged")
            selector = self._summing({})
            if len(rubric.assertions) == len(asked.questions):
                selector = AssertionSelector.of_rubric(rubric, main, settings, train.seed)
            selector.fit(seen, train.labels)
            answers = yield from ask_rubric(asked, decided.samples, JUDGE, f"{rubric.name}: held-out side judged")
            return self._line(RUBRICS, name, selector, answers, decided)
        except BadInput as error:
            return SystemFigures(RUBRICS, name, dict.fromkeys(NAMES, Figure()), failed=str(error))

    def _line(
        self, table: int, system: str, selector: AssertionSelector, answers: EvidenceTable, decided: Decided
    ) -> SystemFigures:
        """The figures of a selector on the held-out side."""
        missing = points(answers, selector.names_, self.settings.answers).missing
        outcome, clusters = selector.outcome(answers, decided.good), clusters_of(self.test, decided)
        found = with_intervals(outcome, clusters, self.test.draws, self.test.seed)
        return SystemFigures(table, system, found, float(missing.mean()))

    def _stability(self) -> dict[str, float]:
        """How often each assertion of the pool is selected on resamples of the training side."""
        side = self.fit.selector.training_side(self.fit.answers, self.fit.train.labels)
        draws, seed = min(RESAMPLES, self.test.draws), self.test.seed
        shares = stability(side.pool, self.fit.selector.choose, Clusters(side.groups), draws, seed)
        return dict(zip(side.names, shares.tolist(), strict=True))


def clusters_of(test: Training, decided: Decided) -> Clusters:
    """What is resampled together."""
    return Clusters([test.group_of(sample.target) for sample in decided.samples])
