"""The source `learned-rubric` (RUBICON): assertions that tell good conversations from bad ones, summed to NetSAT.

Biyani et al., *RUBICON*, AIware 2024. Learning asks a writer for a pool of assertions, and the judge about the pool, on
the training side alone; measuring asks the judge about the selected ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pydantic import Field

from accord.edges import BadInput, parse_yaml
from accord.evidence import (
    EvidenceTable,
    Learned,
    LearnedSource,
    Settings,
    SourceContext,
    State,
    Training,
    ask_rubric,
    sources,
)
from accord.methods.learned_rubric.assertion_pool import (
    Writing,
    WritingSettings,
    WrittenPool,
    asking,
    checked_given,
    checked_pool,
    questions_of,
    rubric_of,
    seen_in,
    write_pool,
)
from accord.methods.learned_rubric.assertion_selector import FEWEST, AssertionSelector, Decided, verdicts_of
from accord.methods.learned_rubric.findings import RubricFindings, RubricFit, examine_rubric, fit_pool, learned_part
from accord.methods.learned_rubric.selection_policies import Flags, SelectionSettings, kinds_of
from accord.models import JUDGE, WRITER, Flow, ModelQuery, Request, without_requests
from accord.statistics import Split, fold_of
from accord.values import Question, Rubric, Sample, dump_rubric, load_rubric, read_rubric

RUBRIC_FILE, POOL_FILE = "rubric.yaml", "pool.yaml"
FEWEST_LABELS = 8
"""On the training side: how people's answers follow from NetSAT is learned from no fewer."""


class LearnedRubricSettings(WritingSettings, SelectionSettings):
    """How a rubric is written from good and bad conversations, selected, and tried on others."""

    pool: str | None = Field(
        default=None, description="Rubric to select from instead of writing one: the name of a shipped one, or a file."
    )
    given: tuple[str, ...] = Field(default=(), description="Rubrics to compare with: names of shipped ones, or files.")
    held_out: float = Field(
        default=0.5, gt=0, le=0.5, description="Share of the good and bad conversations held out for testing."
    )


@dataclass(frozen=True)
class _LearnedValue:
    """What was learned: the selection, the selected rubric, the whole pool."""

    selector: AssertionSelector
    rubric: Rubric
    everything: Rubric


@sources.register("learned-rubric")
class LearnedRubric(LearnedSource[_LearnedValue]):
    """Assertions written from good and bad conversations and selected to tell them apart: their sum, NetSAT."""

    settings_type = LearnedRubricSettings
    settings: LearnedRubricSettings

    def __init__(self, settings: Settings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.fit_: RubricFit | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The judge; learning asks the writer too."""
        return (JUDGE,)

    @property
    def rubric(self) -> Rubric:
        """Selected assertions and the main question."""
        return self.learned.rubric

    @property
    def pool(self) -> Rubric:
        """Whole pool and the main question."""
        return self.learned.everything

    @property
    def selector(self) -> AssertionSelector:
        """Fitted selector."""
        return self.learned.selector

    @property
    def private_details(self) -> list[list[str]]:
        """Private details in written assertions, for the person who runs the fit; they are not saved."""
        return [] if self.fit_ is None else [details for _, details in self.fit_.written.flagged]

    # --- learning -----------------------------------------------------------------------------------------------

    def hold_out(self, train: Training) -> Split:
        """The groups to learn from and those to try it on; good and bad ones are dealt out apart.

        Conversations that a given rubric was learned on are never held out. Undecided groups are learned from, half as
        many of them as of the others.

        Raises:
            BadInput: The main question compares, or there are too few good or bad ones for both sides.
        """
        settings, targets = self.settings, train.targets
        found = verdicts_of(targets, train.labels, train.question, settings, 2 * FEWEST)
        groups = [train.group_of(targets[row]) for row in found.row]
        files = [*([settings.pool] if settings.pool else []), *settings.given]
        names = {name for path in dict.fromkeys(files) for name in load_rubric(path, self.context.folder).learned_on}
        seen = {train.group_of(target) for target in targets if target.conversation in names}
        out = _held_out(groups, found.good, settings.held_out, train.seed) & ~np.isin(groups, list(seen))
        if any(len(set(found.good[side])) < 2 for side in (out, ~out)):
            why = "were seen when a rubric was learned" if seen else "belong to the same few conversations"
            raise BadInput(
                f"too many of the labelled good and bad conversations {why}; label others to try the rubric on"
            )
        test = frozenset(name for name, is_out in zip(groups, out, strict=True) if is_out)
        learned_from = {name for name in groups if name not in test}
        between = [train.group_of(targets[row]) for row in found.undecided]
        between = [name for name in dict.fromkeys(between) if name not in test and name not in learned_from]
        learned_from |= set(between[:: max(1, 2 * len(between) // max(len(learned_from), 1))])
        learnable = len(train.labels.filter(learned_from).on(train.question.id))
        if learnable < FEWEST_LABELS:
            raise BadInput(
                f"{learnable} labels are left to learn from, {FEWEST_LABELS} are needed; label more conversations"
            )
        return Split(frozenset(learned_from), test)

    def learn(self, train: Training) -> Flow[Learned]:
        """Write a pool, have it judged, and select from it.

        The evidence of the good and bad ones is by assertions that were chosen without them, in the folds that chose
        α and the budget.

        Raises:
            BadInput: There are too few good or bad ones, no assertion came out, or a file cannot be used.
            BudgetReached: The budget is spent; the same flow goes on from there.
        """
        decided = Decided.of(train, self.settings)  # what can be refused is refused before anything is paid for
        self._given(train.question)
        written, path = WrittenPool(), self.settings.pool
        pool = None if path is None else checked_pool(load_rubric(path, self.context.folder), train)
        writing = None
        if pool is None:
            [who] = yield [Request(WRITER, ModelQuery())]
            writing = Writing.by(who, self.settings, self.context.folder)
        yield [Request(JUDGE, ModelQuery())]
        if writing is not None:
            written = yield from write_pool(writing, decided)
            asked = questions_of(written.assertions, train.question.id)
            pool = rubric_of(asked, train.question, "pool", writing.guidance.instructions(), seen_in(train))
        assert pool is not None
        fit = yield from fit_pool(written, pool, train, self.settings)
        found = self.having(_LearnedValue(fit.selector, fit.rubric, fit.everything))
        found.fit_ = fit
        return Learned(found, (yield from _seen(fit)))

    def examine(self, test: Training) -> Flow[Self]:
        """This source with the findings of the held-out side, beside those of other rubrics.

        Raises:
            BadInput: There are no good ones, or no bad ones.
            BudgetReached: The budget is spent; the same flow goes on from there.
        """
        fit = self.fit_
        if fit is None:
            return (yield from without_requests(self))
        results = yield from examine_rubric(fit, test, self.settings, self._given(test.question))
        return self.having(self.learned, results)

    def _given(self, main: Question) -> dict[str, Rubric]:
        """The rubrics to compare with, by name."""
        return {
            name: checked_given(name, load_rubric(name, self.context.folder), main)
            for name in dict.fromkeys(self.settings.given)
        }

    # --- measuring ----------------------------------------------------------------------------------------------

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """NetSAT, by the judge's answers to the selected assertions; its parts and its label are notes.

        Raises:
            NotFitted: Nothing was learned yet.
            BadInput: Another judge answers than the one that was learned with.
        """
        parts = self.learned
        answers = yield from ask_rubric(asking(parts.rubric, parts.selector.names_), samples)
        return parts.selector.measured(answers)

    def describe(self) -> Mapping[str, Any]:
        """`RubricFindings` as JSON; before `examine` the learned part alone, before `learn` nothing."""
        return super().describe() or ({} if self.fit_ is None else learned_part(self.fit_))

    # --- keeping ------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """The selection and its findings, with the rubric and its pool as files that people may read and edit."""
        parts = self.learned
        card = {
            "selection": parts.selector.to_json(),
            "rubric": parts.rubric.hash,
            "keys": {question.id: question.key for question in parts.rubric.assertions},
            "findings": dict(self.describe()),
        }
        return State(card, {}, {RUBRIC_FILE: dump_rubric(parts.rubric), POOL_FILE: dump_rubric(parts.everything)})

    def restored(self, state: State) -> Self:
        """This source with what was learned.

        Raises:
            BadInput: A file is missing or no rubric, or the rubric was edited after it was learned.
        """
        rubric, everything = (_rubric_in(state.files, name) for name in (RUBRIC_FILE, POOL_FILE))
        _check_unedited(rubric, state.card)
        selector = AssertionSelector.from_json(state.card["selection"], rubric.main_question, self.settings)
        card = state.card["findings"]
        findings = RubricFindings.from_json(card) if "rows" in card else None
        return self.having(_LearnedValue(selector, rubric, everything), findings)


def _seen(fit: RubricFit) -> Flow[EvidenceTable]:
    """The evidence of all that was learned from; who is neither good nor bad is asked the selected assertions alone."""
    selector, decided = fit.selector, {sample.target for sample in fit.decided.samples}
    table = selector.measured(fit.answers, selector.unseen_)
    rest = [sample for sample in fit.train.samples if sample.target not in decided]
    if rest:
        asked = asking(fit.everything, fit.to_ask(set(selector.names_)))
        table = table.concat(selector.measured((yield from ask_rubric(asked, rest))))
    return table.take(table.rows_of(fit.train.targets))


def _held_out(groups: Sequence[str], good: Flags, share: float, seed: int) -> Flags:
    """(C,) what is held out: a share of the groups of each kind, drawn by the seed."""
    out: set[str] = set()
    for kind in kinds_of(groups, good):
        place = fold_of(kind, max(len(kind), 1), seed)
        count = min(max(1, round(share * len(kind))), len(kind) - 1)
        out |= {name for name in kind if place[name] < count}
    return np.array([name in out for name in groups], dtype=bool)


def _rubric_in(files: Mapping[str, str], name: str) -> Rubric:
    if name not in files:
        raise BadInput(f"{name} of the learned rubric is missing; put it back, or fit again: accord fit")
    return read_rubric(parse_yaml(files[name], name), name)


def _check_unedited(rubric: Rubric, card: Mapping[str, Any]) -> None:
    """Refuse a rubric that was edited after it was learned, and name the assertion."""
    again = f"fit again, with the edited rubric as the pool: sources: {{learned-rubric: {{pool: {RUBRIC_FILE}}}}}"
    told = {q.id: (str(q.side), q.weight, q.key) for q in rubric.assertions}
    chosen = card["selection"]["assertions"]
    own = {one["id"]: (one["class"], one["weight"], card["keys"][one["id"]]) for one in chosen}
    edited = next((name for name in {**own, **told} if told.get(name) != own.get(name)), None)
    if edited is not None:
        raise BadInput(
            f"assertion {edited!r} of {rubric.name!r} is new, gone or reworded, or has another class or weight than "
            f"the evaluator learned with; {again}"
        )
    if rubric.hash != card["rubric"]:
        raise BadInput(
            f"{rubric.name!r} has other instructions, or another main question, than the evaluator learned with; "
            f"{again}"
        )
