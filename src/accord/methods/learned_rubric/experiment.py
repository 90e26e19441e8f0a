"""What a learned rubric is worth beside others, on conversations that it has not seen (RUBICON, section 4).

Table 1 holds it against other rubrics and the judge asked directly, table 2 against what a writer that is told less
writes, table 3 against other ways to select from the same pool. What the tables say is of the very rubric that is
kept: it is not learned anew from everything afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accord.evidence import EvidenceTable, Training, ask_rubric
from accord.methods.learned_rubric.figures import ROW, stability, with_intervals
from accord.methods.learned_rubric.fitting import AssertionSelector
from accord.methods.learned_rubric.likert import (
    AMOUNT,
    NUMBERS,
    asking,
    classes_of,
    only,
    points,
    questions_of,
    rubric_of,
)
from accord.methods.learned_rubric.pool import Writing, WrittenPool, write_pool
from accord.methods.learned_rubric.selection import POLICIES, SelectionSettings
from accord.methods.learned_rubric.verdicts import Decided
from accord.models import JUDGE, NOT_YET, Flow
from accord.statistics import DRAWS, Clusters
from accord.values import BadInput, Question, Rubric

SEPARATE = tuple(name for name in POLICIES if name != "all")
ABLATIONS: Mapping[str, Mapping[str, bool]] = {
    "−CDP": {"principles": False},
    "−DS": {"domain": False},
    "−CDP−DS": {"principles": False, "domain": False},
}
ASKED = "judge asked directly"
TABLES = {1: "Rubrics", 2: "What the writer is told", 3: "Ways to select from the same pool"}
"""By number, as in the paper."""
Row = dict[str, Any]


@dataclass(frozen=True)
class RubricFit:
    """A rubric selected from a pool, with everything that it was selected from.

    Attributes:
        train: What was learned from.
        decided: The good and the bad ones of it.
        written: What was written, with counts; nothing where a pool was given.
        everything: The whole pool as a rubric, with the main question.
        rubric: The selected assertions as a rubric, with the main question.
        selector: Fitted on the training side.
        answers: Answers to the whole pool about the good and the bad ones.
    """

    train: Training
    decided: Decided
    written: WrittenPool
    everything: Rubric
    rubric: Rubric
    selector: AssertionSelector
    answers: EvidenceTable

    def to_ask(self, questions: set[str]) -> set[str]:
        """The assertions to ask further samples about: some of the pool.

        Where the training side's answers are still to come, since a flow is only priced, nobody knows which will be
        chosen, and all are counted.
        """
        pending = NOT_YET in self.answers.absences.values()
        return {question.id for question in self.everything.assertions} if pending else questions


def fit_pool(
    written: WrittenPool, everything: Rubric, train: Training, settings: SelectionSettings, name: str = ""
) -> Flow[RubricFit]:
    """Have a pool judged about the good and the bad ones, and select from it.

    The judge is asked the main question too, unless the pool is that of a system with another `name`.

    Raises:
        BadInput: There are too few good ones, or bad ones, or no assertion can be chosen.
    """
    decided = Decided.of(train, settings)
    asked = _without_main(everything, train.question) if name else everything
    answers = yield from ask_rubric(asked, decided.samples, JUDGE, f"{name}: judged" if name else "judged")
    selector = fitted(everything, answers, train, settings)
    return RubricFit(train, decided, written, everything, only(everything, selector.names_), selector, answers)


def fitted(
    rubric: Rubric, answers: EvidenceTable, train: Training, settings: SelectionSettings, **more: Any
) -> AssertionSelector:
    """A selector that selected from a rubric on the training side."""
    about: dict[str, Any] = {**classes_of(rubric), **more}
    return AssertionSelector(train.question, settings=settings, seed=train.seed, **about).fit(answers, train.labels)


def checked_pool(pool: Rubric, main: Question) -> Rubric:
    """A pool that a user gives: its assertions, with the project's main question.

    Raises:
        BadInput: It has none, or one that a judge cannot be asked, or one that is called like the main question.
    """
    if not pool.assertions:
        raise BadInput(
            f"rubric {pool.name!r} has no question with a class; give those that speak for a conversation `class: sat` "
            "and those that speak against it `class: dsat`"
        )
    for question in pool.assertions:
        if not (question.can_be_judged and question.scale.is_ordered):
            raise BadInput(
                f"assertion {question.id!r} of {pool.name!r} has no ordered options that a judge can choose from"
            )
        if question.id == main.id:
            raise BadInput(f"assertion {question.id!r} of {pool.name!r} is called like the main question; rename it")
    return rubric_of(pool.assertions, main, pool.name, pool.instructions, pool.learned_on)


def checked_given(name: str, given: Rubric, main: Question) -> Rubric:
    """What can be summed of a rubric to compare with: its ordered questions that a judge can answer.

    Raises:
        BadInput: There are none.
    """
    left_out = (main.id, given.main if given.main_question.side is None else "")
    asked = [question for question in given.judged if question.scale.is_ordered and question.id not in left_out]
    if not asked:
        raise BadInput(
            f"given: {name}: it has no question beside its main one that a judge can answer on an ordered scale"
        )
    return rubric_of(asked, main, name, given.instructions, given.learned_on)


def pool_rubric(writing: Writing, written: WrittenPool, train: Training) -> Rubric:
    """What was written as a rubric that says which conversations it has seen."""
    questions = questions_of(written.assertions, main=train.question.id)
    return rubric_of(questions, train.question, "pool", writing.guidance.instructions(), conversations_of(train))


def conversations_of(train: Training) -> list[str]:
    """The conversations whose labels may be looked at."""
    return [sample.conversation.id for sample in train.samples]


@dataclass
class ExperimentResult:
    """What was found out on the held-out side.

    Attributes:
        decided: The good and the bad ones of it.
        answers: Answers to the assertions that any system chose.
        rows: One per system: `table` 1, 2 or 3, `system`, and the figures with their intervals.
        chosen: How often each assertion of the pool is chosen on resamples.
    """

    decided: Decided
    answers: EvidenceTable
    rows: list[Row] = field(default_factory=list)
    chosen: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """What every system is tried on.

    Attributes:
        fit: The learned rubric, and what it was learned from.
        test: The held-out side.
        settings: How assertions are selected.
        given: Other rubrics to compare with, by name: lines of table 1.
        writing: The writer of SPUR's rubric (table 1) and of the ablations (table 2), where these are asked for.
        draws: Of the intervals.
    """

    fit: RubricFit
    test: Training
    settings: SelectionSettings
    given: Mapping[str, Rubric] = field(default_factory=dict)
    writing: Writing | None = None
    draws: int = DRAWS

    def run(self) -> Flow[ExperimentResult]:
        """Every row of the tables; a system that comes to nothing says why, and the others' figures stand."""
        decided = Decided.of(self.test, self.settings, fewest=1)
        result = yield from self._own(decided)
        for name, other in self.given.items():
            row = yield from _or_why(self._whole(other, decided))
            result.rows.append({**row, "table": 1, "system": name})
        if self.writing is not None:
            row = yield from _or_why(self._spur(self.writing, decided))
            result.rows.append({**row, "table": 1, "system": "SPUR"})
            for name, switches in ABLATIONS.items():
                row = yield from _or_why(self._told_less(name, self.writing.telling(**switches), decided))
                result.rows.append({**row, "table": 2, "system": name})
        result.rows.sort(key=lambda row: row["table"])
        return result

    def _own(self, decided: Decided) -> Flow[ExperimentResult]:
        """The learned rubric, the other ways to select from its pool, and the judge asked directly."""
        fit, main = self.fit, self.test.question
        best = fit.selector
        systems = {self.settings.policy: best} | {
            name: self._fitted(fit, policy=name) for name in SEPARATE if name != self.settings.policy
        }
        named = {name for selector in systems.values() for name in selector.names_}
        asked = only(fit.everything, fit.to_ask(named))
        answers = yield from ask_rubric(asked, decided.samples, JUDGE, "held-out side judged")
        rows = [{"table": 3, "system": name, **self._figures(each, answers, decided)} for name, each in systems.items()]
        rows = [{**rows[0], "table": table} for table in (1, 2)] + rows
        if main.can_be_judged:
            directly = self._fitted(fit, policy="all", classes={main.id: "sat"}, weights={})
            rows.append({"table": 1, "system": ASKED, **self._figures(directly, answers, decided)})
        return ExperimentResult(decided, answers, rows, self._stability())

    def _fitted(self, fit: RubricFit, policy: str, **more: Any) -> AssertionSelector:
        """Another selector from the pool of a fit."""
        settings = self.settings.model_copy(update={"policy": policy})
        return fitted(fit.everything, fit.answers, fit.train, settings, **more)

    def _told_less(self, name: str, writing: Writing, decided: Decided) -> Flow[Row]:
        """The figures of a rubric whose writer was told less."""
        train = self.fit.train
        written = yield from write_pool(writing, self.fit.decided.pairs, name)
        fit = yield from fit_pool(written, pool_rubric(writing, written, train), train, self.settings, name)
        asked = asking(fit.everything, fit.to_ask(set(fit.selector.names_)))
        answers = yield from ask_rubric(asked, decided.samples, JUDGE, f"{name}: held-out side judged")
        return self._figures(fit.selector, answers, decided)

    def _spur(self, writing: Writing, decided: Decided) -> Flow[Row]:
        """The figures of SPUR's rubric."""
        train = self.fit.train
        written = yield from write_pool(writing, self.fit.decided.pairs, "for SPUR", as_spur=True)
        questions = questions_of(written.assertions, NUMBERS, AMOUNT, train.question.id)
        return (yield from self._whole(rubric_of(questions, train.question, "SPUR", "", ()), decided))

    def _whole(self, rubric: Rubric, decided: Decided) -> Flow[Row]:
        """The figures of a rubric as it is, all of its questions summed; which speak for what is found if need be."""
        classified = len(rubric.assertions) == len(rubric.questions) - 1
        more: dict[str, Any] = {} if classified else {"classes": {}, "weights": {}}
        asked, train = _without_main(rubric, self.test.question), self.fit.train
        seen = yield from ask_rubric(asked, self.fit.decided.samples, JUDGE, f"{rubric.name}: judged")
        settings = self.settings.model_copy(update={"policy": "all"})
        selector = fitted(rubric, seen, train, settings, **more)
        answers = yield from ask_rubric(asked, decided.samples, JUDGE, f"{rubric.name}: held-out side judged")
        return self._figures(selector, answers, decided)

    def _figures(self, selector: AssertionSelector, answers: EvidenceTable, decided: Decided) -> Row:
        """The figures of a selector on the held-out side, with intervals over groups.

        `unanswered` is the share of its assertions' answers that are missing there, and count as neutral.
        """
        missing = points(answers, selector.names_, self.settings.answers).missing
        clusters = clusters_of(self.test, decided)
        row = with_intervals(selector.outcome(answers, decided.good), clusters, self.draws, self.test.seed)
        return {**row, "unanswered": float(missing.mean())}

    def _stability(self) -> dict[str, float]:
        """How often each assertion of the pool is chosen on resamples of the training side."""
        fit = self.fit
        side = fit.selector.training_side(fit.answers, fit.train.labels)
        shares = stability(side.pool, fit.selector.choose, Clusters(side.groups), seed=self.test.seed)
        return dict(zip(side.names, shares.tolist(), strict=True))


def clusters_of(test: Training, decided: Decided) -> Clusters:
    """What is resampled together."""
    return Clusters([test.group_of(sample.target) for sample in decided.samples])


def _without_main(rubric: Rubric, main: Question) -> Rubric:
    """A rubric's questions without the one that people answer: no judge needs to be asked it once more."""
    return asking(rubric, (question.id for question in rubric.questions if question.id != main.id))


def _or_why(flow: Flow[Row]) -> Flow[Row]:
    """A system's figures; where it came to nothing, why."""
    try:
        return (yield from flow)
    except BadInput as error:
        return {**dict.fromkeys(ROW), "unanswered": None, "failed": str(error)}
