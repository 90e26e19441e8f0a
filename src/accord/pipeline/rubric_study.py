"""Learning a rubric from labelled conversations: written and selected on one part of them, tried on the other.

What the table says is of the very rubric that is kept: it is not learned anew from everything afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from accord.config import Config, WriterConfig
from accord.evidence import EvidenceTable, judge_samples, ratings
from accord.learning import LearnedRubric
from accord.methods import (
    AMOUNT,
    NUMBERS,
    POLICIES,
    ROW,
    Outcome,
    classes_of,
    only,
    points,
    questions_of,
    rubric_of,
    stability,
    with_intervals,
)
from accord.methods.learned_rubric.guidance import RubricPromptBuilder
from accord.models import ChatModel, Judge
from accord.pipeline.collecting import judging_options
from accord.pipeline.rubric_pool import PoolOf, Sides, evaluator_settings, guidance_of, sides_of, write_pool
from accord.statistics import DRAWS, Clusters
from accord.store import Store
from accord.values import BadInput, Labels, Question, Rubric, Sample

SEPARATE = tuple(name for name in POLICIES if name != "all")
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "−CDP": {"principles": False},
    "−DS": {"domain": False},
    "−CDP−DS": {"principles": False, "domain": False},
}
ASKED = "judge asked directly"
TABLES = {1: "Rubrics", 2: "What the writer is told", 3: "Ways to select from the same pool"}
"""By number, as in the paper."""
NO_WRITER = (
    "the project names no writer, a chat model that writes assertions; add one to accord.yaml: "
    "writer: {model: NAME, task: task.yaml}, or name a rubric to select from with --pool"
)

JudgeFor = Callable[[Rubric], Judge]
OnStage = Callable[[str, int | None], Callable[[], None]]


@dataclass
class Study:
    """A learned rubric with what was found out about it.

    Attributes:
        sides: What it was learned from and tried on.
        pool: What was written, with counts; nothing where a rubric was given.
        everything: The whole pool as a rubric.
        rubric: The selected assertions as a rubric.
        evaluator: Fitted on the training side.
        train: Answers about the training side.
        test: Answers about the other side.
        rows: One a system: `table` 1, 2 or 3, `system`, and the figures with their intervals.
        chosen: How often each assertion of the pool is chosen on resamples.
    """

    sides: Sides
    pool: PoolOf
    everything: Rubric
    rubric: Rubric
    evaluator: LearnedRubric
    train: EvidenceTable
    test: EvidenceTable
    rows: list[dict[str, Any]] = field(default_factory=list)
    chosen: Mapping[str, float] = field(default_factory=dict)


def learn_rubric(
    store: Store,
    config: Config,
    rubric: Rubric,
    writer: ChatModel | None,
    judge_for: JudgeFor,
    given: Mapping[str, Rubric] | None = None,
    pool: Rubric | None = None,
    tables: bool = False,
    on_stage: OnStage = lambda name, total: lambda: None,
    draws: int = DRAWS,
) -> Study:
    """Write a pool, have it judged, select from it, and try the selection on conversations it has not seen.

    Args:
        store: Holds conversations, labels and all replies and answers.
        config: Names the writer's and the evaluator's settings.
        rubric: Its main question says which conversations are good.
        writer: Writes the pool; not needed where one is given and no ablation is asked for.
        judge_for: The judge, told a rubric's instructions.
        given: Other rubrics to compare with, by name: lines of table 1.
        pool: A rubric to select from, in place of writing one.
        tables: Whether to write and try SPUR's rubric (table 1) and the ablations (table 2) too.
        on_stage: Called with a stage's name and its length; returns what is called at each step.
        draws: Of the intervals.

    Raises:
        BadInput: Too few labels of one class, no assertion came out, or no writer is named.
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    given = {name: checked_given(name, other, rubric) for name, other in (given or {}).items()}
    writing = _writing(config, writer) if pool is None or tables else None  # before anything is paid for
    sides = tried_on(store, config, rubric, pool, given)
    bench = _Bench(store, config, rubric, sides, judge_for, on_stage, draws)
    if pool is not None:
        study = bench.study(PoolOf(), _checked(pool, rubric, sides))
    else:
        assert writing is not None
        study = bench.study(*bench.written(writing, "studied"))
    for name, other in given.items():
        study.rows.append({**_or_why(partial(bench.given, other)), "table": 1, "system": name})
    if tables:
        assert writing is not None
        study.rows += _other_writers(bench, writing)
    study.rows.sort(key=lambda row: row["table"])
    return study


def tried_on(store: Store, config: Config, rubric: Rubric, pool: Rubric | None, given: Mapping[str, Rubric]) -> Sides:
    """The two sides of a study: what any of its rubrics was learned on before is not held out."""
    held_out = config.writer.held_out if config.writer else WriterConfig.model_fields["held_out"].default
    seen = {name for one in (pool, *given.values()) if one is not None for name in one.learned_on}
    return sides_of(store, config, rubric, held_out, seen)


@dataclass(frozen=True)
class _Writing:
    """Who writes, on what terms, and what it is told."""

    model: ChatModel
    config: WriterConfig
    guidance: RubricPromptBuilder


def _writing(config: Config, writer: ChatModel | None) -> _Writing:
    if config.writer is None or writer is None:
        raise BadInput(NO_WRITER)
    return _Writing(writer, config.writer, guidance_of(config.writer))


def _checked(pool: Rubric, rubric: Rubric, sides: Sides) -> Rubric:
    """A pool that a user gives: its assertions, with the project's main question."""
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
        if question.id == rubric.main:
            raise BadInput(f"assertion {question.id!r} of {pool.name!r} is called like the main question; rename it")
    return rubric_of(
        pool.assertions, rubric.main_question, pool.name, pool.instructions, (*pool.learned_on, *sides.trained)
    )


def checked_given(name: str, given: Rubric, rubric: Rubric) -> Rubric:
    """What can be summed of a rubric to compare with: its ordered questions that a judge can answer.

    Raises:
        BadInput: There are none.
    """
    asked = [
        q
        for q in given.judged
        if q.scale.is_ordered and q.id not in (rubric.main, given.main if q.side is None else "")
    ]
    if not asked:
        raise BadInput(
            f"--given {name}: it has no question beside its main one that a judge can answer on an ordered scale"
        )
    return rubric_of(asked, rubric.main_question, name, given.instructions, given.learned_on)


def _other_writers(bench: _Bench, writing: _Writing) -> list[dict[str, Any]]:
    """SPUR's line of table 1, and table 2."""

    def without(name: str) -> dict[str, Any]:
        less = replace(writing, guidance=replace(writing.guidance, **ABLATIONS[name]))
        return bench.study(*bench.written(less, f"studied {name}"), alone=True).rows[0]

    rows = [{**_or_why(partial(bench.spur, writing)), "table": 1, "system": "SPUR"}]
    return rows + [{**_or_why(partial(without, name)), "table": 2, "system": name} for name in ABLATIONS]


def _or_why(row: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A system's figures; where it came to nothing, why: the other systems' figures stand."""
    try:
        return row()
    except BadInput as error:
        return {**dict.fromkeys(ROW), "unanswered": None, "failed": str(error)}


@dataclass
class _Bench:
    """What every system is tried on, and by whom its rubric is answered."""

    store: Store
    config: Config
    rubric: Rubric
    sides: Sides
    judge_for: JudgeFor
    on_stage: OnStage
    draws: int

    def __post_init__(self) -> None:
        self.main: Question = self.rubric.main_question
        self.labels: Labels = self.store.labels().filter(self.sides.trained)
        self.clusters = Clusters([sample.conversation.id for sample, _ in self.sides.test])
        self.good = np.array([good for _, good in self.sides.test])

    def as_rubric(self, name: str, questions: Sequence[Question], instructions: str) -> Rubric:
        """Assertions as a rubric that says which conversations it has seen."""
        return rubric_of(questions, self.main, name, instructions, self.sides.trained)

    def written(self, writing: _Writing, stage: str) -> tuple[PoolOf, Rubric]:
        """What is written from the training side, and its pool as a rubric."""
        train = self.sides.train
        written = write_pool(writing.model, train, writing.guidance, writing.config, self.on_stage(stage, len(train)))
        questions = questions_of(written.assertions, main=self.main.id)
        return written, self.as_rubric("pool", questions, writing.guidance.instructions())

    def spur(self, writing: _Writing) -> dict[str, Any]:
        """The figures of SPUR's rubric."""
        train, told = self.sides.train, (writing.guidance, writing.config)
        step = self.on_stage("studied for SPUR", len(train))
        written = write_pool(writing.model, train, *told, step, as_spur=True)
        return self.given(self.as_rubric("SPUR", questions_of(written.assertions, NUMBERS, AMOUNT, self.main.id), ""))

    def study(self, written: PoolOf, everything: Rubric, alone: bool = False) -> Study:
        """Select from a pool and try the selection; unless `alone`, the other ways to select too."""
        learned = [*(sample for sample, _ in self.sides.train), *self.sides.between]
        train = self.answers(everything, learned, "training side judged")
        best = self.fitted(everything, train)
        systems = {best.policy: best}
        if not alone:
            systems |= {n: self.fitted(everything, train, policy=n) for n in SEPARATE if n != best.policy}
        named = {name for evaluator in systems.values() for name in evaluator.names_}
        test = self.answers(only(everything, named), [s for s, _ in self.sides.test], "held-out side judged")
        rows = [{"table": 3, "system": name, **self.figures(each, test)} for name, each in systems.items()]
        if alone:
            return Study(self.sides, written, everything, only(everything, best.names_), best, train, test, rows)
        rows = [{**rows[0], "table": table} for table in (1, 2)] + rows
        if self.main.can_be_judged:
            asked = self.fitted(everything, train, policy="all", classes={self.main.id: "sat"}, weights={})
            rows.append({"table": 1, "system": ASKED, **self.figures(asked, test)})
        chosen = self.stability(best, train)
        return Study(self.sides, written, everything, only(everything, best.names_), best, train, test, rows, chosen)

    def given(self, rubric: Rubric) -> dict[str, Any]:
        """The figures of a rubric as it is, all of its questions summed; which speak for what is found if need be."""
        train = self.answers(rubric, [s for s, _ in self.sides.train], f"{rubric.name}: training side judged")
        whole = len(rubric.assertions) == len(rubric.questions) - 1
        more: dict[str, Any] = {} if whole else {"classes": {}, "weights": {}}
        evaluator = self.fitted(rubric, train, policy="all", **more)
        return self.figures(
            evaluator, self.answers(rubric, [s for s, _ in self.sides.test], f"{rubric.name}: held-out")
        )

    def answers(self, rubric: Rubric, samples: Sequence[Sample], stage: str) -> EvidenceTable:
        """The judge's answers to a rubric's questions, the main one included."""
        step = self.on_stage(stage, len(samples))
        judge = self.judge_for(rubric)
        return judge_samples(judge, rubric, samples, self.store, lambda _: step(), *judging_options(self.config))

    def fitted(self, rubric: Rubric, train: EvidenceTable, **more: Any) -> LearnedRubric:
        """An evaluator that selected from a rubric on the training side."""
        settings = {"seed": self.config.seed, **evaluator_settings(self.config), **classes_of(rubric), **more}
        return LearnedRubric(self.main, **settings).fit(train, self.labels)

    def figures(self, evaluator: LearnedRubric, test: EvidenceTable) -> dict[str, Any]:
        """The figures of an evaluator on the held-out side, with intervals over conversations.

        `unanswered` is the share of its assertions' answers that are missing there, and count as neutral.
        """
        missing = points(test, evaluator.names_, evaluator.answers).missing
        row = with_intervals(outcome(evaluator, test, self.good), self.clusters, self.draws, self.config.seed)
        return {**row, "unanswered": float(missing.mean())}

    def stability(self, evaluator: LearnedRubric, train: EvidenceTable) -> dict[str, float]:
        """How often each assertion of the pool is chosen on resamples of the training side."""
        side = evaluator.training_side(train, ratings(train, self.labels, self.main))
        shares = stability(side.pool, evaluator.choose, Clusters(side.groups), seed=self.config.seed)
        return dict(zip(side.names, shares.tolist(), strict=True))


def outcome(evaluator: LearnedRubric, evidence: EvidenceTable, good: np.ndarray) -> Outcome:
    """An evaluator's scores of some conversations beside what people called them."""
    sat, dsat = evaluator.parts(evidence)
    of = (evaluator.threshold_, evaluator.window_, evaluator.precision)
    return Outcome(sat + dsat, good, *of, sat, dsat)
