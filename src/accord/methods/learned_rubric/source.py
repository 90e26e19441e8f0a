"""Source `learned-rubric` (RUBICON): assertions that separate good conversations from bad ones, summed to NetSAT.

Biyani et al., *RUBICON*, AIware 2024. Learning asks a writer for a pool of assertions and the judge about the pool, on
the training side only. Measuring asks the judge about the selected assertions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import Field

from accord.edges import BadInput, parse_yaml
from accord.evidence import (
    EvidenceTable,
    LearnedEvidence,
    LearnedSource,
    SourceContext,
    SourceSettings,
    SourceState,
    Training,
    ask_rubric,
    sources,
)
from accord.methods.learned_rubric.assertion_pool import (
    WriterOptions,
    WritingSettings,
    WrittenPool,
    asking,
    checked_given,
    checked_pool,
    questions_of,
    rubric_of,
    write_pool,
)
from accord.methods.learned_rubric.assertion_selector import FEWEST, AssertionSelector, ClassifiedSamples, verdicts
from accord.methods.learned_rubric.findings import RubricFindings, RubricFit, examine_rubric, fit_pool, learned_part
from accord.methods.learned_rubric.selection_policies import Flags, SelectionSettings, kinds_of
from accord.models import JUDGE, WRITER, Flow, ModelQuery, Request, without_requests
from accord.statistics import Split, fold_of
from accord.values import Question, Rubric, Sample, dump_rubric, load_rubric, read_rubric

RUBRIC_FILE, POOL_FILE = "rubric.yaml", "pool.yaml"
FEWEST_LABELS = 8
"""Minimum number of labels on the training side, to learn how ratings follow from NetSAT."""


class LearnedRubricSettings(WritingSettings, SelectionSettings):
    """Settings of writing, selecting and testing a rubric."""

    pool: str | None = Field(
        default=None, description="Rubric to select from, instead of writing one: name of a shipped rubric, or a file."
    )
    rivals: tuple[str, ...] = Field(
        default=(), description="Rubrics to compare with: names of shipped rubrics, or files."
    )
    held_out: float = Field(
        default=0.5, gt=0, le=0.5, description="Share of the good and bad conversations held out for testing."
    )


class _LearnedValue(NamedTuple):
    """Fitted selector, selected rubric, and whole pool."""

    selector: AssertionSelector
    rubric: Rubric
    everything: Rubric


@sources.register("learned-rubric")
class LearnedRubric(LearnedSource[_LearnedValue]):
    """Assertions written from good and bad conversations and selected to separate them; their sum is NetSAT.

    Attributes:
        fit_: After `learn`, the rubric with the judge's answers; not saved.
    """

    settings_type = LearnedRubricSettings
    settings: LearnedRubricSettings

    def __init__(self, settings: SourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.fit_: RubricFit | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The judge; learning also asks the writer."""
        return (JUDGE,)

    @property
    def promised(self) -> float:
        """The setting `precision`."""
        return self.settings.precision

    @property
    def rubric(self) -> Rubric:
        """Selected assertions and the main question."""
        return self.learned.rubric

    # --- learning -----------------------------------------------------------------------------------------------

    def hold_out(self, train: Training) -> Split:
        """Return the groups to learn from and the groups to test on, stratified by good and bad.

        Conversations that a given rubric learned on are never held out. The training side also gets undecided groups,
        about half as many as other groups. `BadInput` for too few good or bad conversations.
        """
        settings, targets = self.settings, train.targets
        rated = verdicts(targets, train.labels, train.question, settings, 2 * FEWEST)
        groups = [train.group_of(targets[row]) for row in rated.row]
        learned_on = self._learned_on()
        seen = {train.group_of(target) for target in targets if target.conversation in learned_on}
        held_out = _held_out(groups, rated.good, settings.held_out, train.seed) & ~np.isin(groups, list(seen))
        if any(len(set(rated.good[side])) < 2 for side in (held_out, ~held_out)):
            reason = "are in the training data of a rubric" if seen else "belong to the same few groups"
            raise BadInput(
                f"too many of the labeled good and bad conversations {reason}. Label others to test the rubric on"
            )
        test = frozenset(name for name, is_out in zip(groups, held_out, strict=True) if is_out)
        learned_from = set(groups) - test
        undecided = dict.fromkeys(train.group_of(targets[row]) for row in rated.undecided)
        others = [name for name in undecided if name not in test and name not in learned_from]
        learned_from |= set(others[:: max(1, 2 * len(others) // max(len(learned_from), 1))])
        learnable = len(train.labels.filter(learned_from).on(train.question.id))
        if learnable < FEWEST_LABELS:
            raise BadInput(
                f"{learnable} labels are left to learn from, {FEWEST_LABELS} are needed. Label more conversations"
            )
        return Split(frozenset(learned_from), test)

    def _learned_on(self) -> set[str]:
        """Return the conversations that the given rubrics learned on."""
        files = dict.fromkeys([*([self.settings.pool] if self.settings.pool else []), *self.settings.rivals])
        return {name for path in files for name in load_rubric(path, self.context.folder).learned_on}

    def learn(self, train: Training) -> Flow[LearnedEvidence]:
        """Write a pool, have it judged, and select from it.

        Evidence of the good and bad conversations comes from assertions selected without them, in the folds that chose
        α and the budget. `BadInput` for too few good or bad conversations, no assertion, or an unusable file.
        """
        decided = ClassifiedSamples.of(train, self.settings)  # check inputs before any request
        self.given_rubrics(train.question)
        written, path = WrittenPool(), self.settings.pool
        if path is not None:
            pool = checked_pool(load_rubric(path, self.context.folder), train)
            yield [Request(JUDGE, ModelQuery())]
        else:
            [writer] = yield [Request(WRITER, ModelQuery())]
            writing = WriterOptions.by(writer, self.settings, self.context.folder)
            yield [Request(JUDGE, ModelQuery())]
            written = yield from write_pool(writing, decided)
            questions = questions_of(written.assertions, train.question.id)
            seen = (sample.conversation.id for sample in train.samples)
            pool = rubric_of(questions, train.question, "pool", writing.guidance.instructions(), seen)
        fit = yield from fit_pool(written, pool, train, self.settings)
        source = self.having(_LearnedValue(fit.selector, fit.rubric, fit.everything))
        source.fit_ = fit
        return LearnedEvidence(source, (yield from _seen(fit)))

    def examine(self, test: Training) -> Flow[Self]:
        """Return this source with findings on the held-out side, compared with other rubrics."""
        fit = self.fit_
        if fit is None:
            return (yield from without_requests(self))
        results = yield from examine_rubric(fit, test, self.settings, self.given_rubrics(test.question))
        return self.having(self.learned, results)

    def given_rubrics(self, main: Question) -> dict[str, Rubric]:
        """Return the rubrics to compare with, by name."""
        return {
            name: checked_given(name, load_rubric(name, self.context.folder), main)
            for name in dict.fromkeys(self.settings.rivals)
        }

    # --- measuring ----------------------------------------------------------------------------------------------

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return NetSAT from the judge's answers to the selected assertions; parts and label are notes."""
        parts = self.learned
        answers = yield from ask_rubric(asking(parts.rubric, parts.selector.names_), samples)
        return parts.selector.measured(answers)

    def describe(self) -> Mapping[str, Any]:
        """Return `RubricFindings` as JSON; before `examine` the learned part, before `learn` nothing."""
        return super().describe() or ({} if self.fit_ is None else learned_part(self.fit_))

    # --- saving ------------------------------------------------------------------------------------------------

    def state(self) -> SourceState:
        """Return selection and findings, with rubric and pool as files that users may edit."""
        parts = self.learned
        card = {
            "selection": parts.selector.to_json(),
            "rubric": parts.rubric.hash,
            "keys": {question.id: question.key for question in parts.rubric.assertions},
            "findings": dict(self.describe()),
        }
        return SourceState(card, {}, {RUBRIC_FILE: dump_rubric(parts.rubric), POOL_FILE: dump_rubric(parts.everything)})

    def restored(self, state: SourceState) -> Self:
        """Return this source with its learned state; `BadInput` if a file is missing, or was edited after learning."""
        rubric, everything = (_rubric_in(state.files, name) for name in (RUBRIC_FILE, POOL_FILE))
        _check_unedited(rubric, state.card)
        selector = AssertionSelector.from_json(state.card["selection"], rubric.main_question, self.settings)
        card = state.card["findings"]
        findings = RubricFindings.from_json(card) if "rows" in card else None
        return self.having(_LearnedValue(selector, rubric, everything), findings)


def _seen(fit: RubricFit) -> Flow[EvidenceTable]:
    """Return evidence of all training samples; undecided ones are asked about the selected assertions only."""
    selector, decided = fit.selector, {sample.target for sample in fit.decided.samples}
    table = selector.measured(fit.answers, selector.unseen_)
    rest = [sample for sample in fit.train.samples if sample.target not in decided]
    if rest:
        selected = asking(fit.everything, fit.to_ask(set(selector.names_)))
        table = table.concat(selector.measured((yield from ask_rubric(selected, rest))))
    return table.take(table.rows_of(fit.train.targets))


def _held_out(groups: Sequence[str], good: Flags, share: float, seed: int) -> Flags:
    """Return a (C,) mask of held-out conversations: a share of the groups of each class, drawn by the seed."""
    held_out: set[str] = set()
    for names in kinds_of(groups, good):
        place = fold_of(names, max(len(names), 1), seed)
        count = min(max(1, round(share * len(names))), len(names) - 1)
        held_out |= {name for name in names if place[name] < count}
    return np.array([name in held_out for name in groups], dtype=bool)


def _rubric_in(files: Mapping[str, str], name: str) -> Rubric:
    if name not in files:
        raise BadInput(f"{name} of the learned rubric is missing. Restore it, or fit again: accord fit")
    return read_rubric(parse_yaml(files[name], name), name)


def _check_unedited(rubric: Rubric, card: Mapping[str, Any]) -> None:
    """Raise an error that names the assertion if the rubric was edited after learning."""
    advice = f"fit again, with the edited rubric as the pool: sources: {{learned-rubric: {{pool: {RUBRIC_FILE}}}}}"
    current = {q.id: (str(q.side), q.weight, q.key) for q in rubric.assertions}
    chosen = card["selection"]["assertions"]
    saved = {row["id"]: (row["class"], row["weight"], card["keys"][row["id"]]) for row in chosen}
    edited = next((name for name in {**saved, **current} if current.get(name) != saved.get(name)), None)
    if edited is not None:
        raise BadInput(
            f"assertion {edited!r} of {rubric.name!r} was added, removed or reworded, or has another class or weight "
            f"than the evaluator learned with; {advice}"
        )
    if rubric.hash != card["rubric"]:
        raise BadInput(
            f"{rubric.name!r} has other instructions, or another main question, than the evaluator learned with; "
            f"{advice}"
        )
