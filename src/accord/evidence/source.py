"""The contract of a source: everything that knows something about a conversation, as columns of evidence.

A source is one file: settings, what it learns (most learn nothing), what it measures. Both are flows: what they ask is
asked by one driver, priced by another, and answered from the store by a third (`accord.models`), without code of
their own. A source never opens a model, a store or a file.

Live scoring is `measure` on the reply that was just said. What a live source works out turn by turn it keeps in its
`session` of the conversation, so that a reply costs its own length; evidence is the same with and without one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from accord.edges import BadInput, NotFitted, validate
from accord.evidence.table import Column, EvidenceTable
from accord.models import NOT_APPLICABLE, Flow, without_requests
from accord.statistics import DRAWS, Split
from accord.values import Findings, GrowingTurns, Labels, Question, Registry, Rubric, Sample, Target

T = TypeVar("T")
Value = TypeVar("Value")
Arrays = Mapping[str, NDArray[Any]]


class Settings(BaseModel):
    """Settings of a source: `accord.yaml`, JSON Schema and docs follow from them. Unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class State:
    """What was learned: JSON, arrays, and the files that people may read and edit, by name."""

    card: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """Everything that learning may look at, and nothing else.

    Attributes:
        samples: What was rated, and what else may be learned from.
        labels: All labels of these, with their groups; those on `question` are learned.
        question: The question whose answers are predicted.
        seed: Of every draw.
        draws: Bootstrap samples of what is found on the way.
    """

    samples: tuple[Sample, ...]
    labels: Labels
    question: Question
    seed: int = 0
    draws: int = DRAWS

    @property
    def targets(self) -> list[Target]:
        """The targets of the samples."""
        return [sample.target for sample in self.samples]

    def group_of(self, target: Target) -> str:
        """The group that splits keep together."""
        return self.labels.group_of(target)

    def rated(self) -> Training:
        """The part that somebody rated on the question itself; of one that compares, all of it."""
        if self.question.compares:
            return self
        rated = frozenset(self.labels.on(self.question.id).targets)
        samples = tuple(sample for sample in self.samples if sample.target in rated)
        labels = Labels((x for x in self.labels if x.target in rated or x.against in rated), self.labels.groups)
        return replace(self, samples=samples, labels=labels)

    def only(self, groups: Iterable[str]) -> Training:
        """The part that belongs to some groups."""
        kept = frozenset(groups)
        samples = tuple(sample for sample in self.samples if self.group_of(sample.target) in kept)
        return replace(self, samples=samples, labels=self.labels.filter(kept))


@dataclass(frozen=True)
class SourceContext:
    """Settings of a project that its sources share.

    Attributes:
        rubric: Questions that people and judges answer.
        seed: Seed of every random draw.
        recorded: Questions that recorded judges alone answered.
        folder: The folder that relative paths in settings start from.
    """

    rubric: Rubric
    seed: int = 0
    recorded: tuple[Question, ...] = ()
    folder: Path = Path()


@dataclass(frozen=True)
class Learned:
    """A source that has learned, and its evidence of what it learned from, as if it had not seen it."""

    source: Source
    evidence: EvidenceTable


class Counts(Protocol):
    """What a source counts of its own while it is asked: added up over batches, shown as lines and as JSON."""

    def plus(self, other: Any, /) -> None:
        """Count what another count has."""

    def lines(self) -> list[str]:
        """What to tell on a terminal."""
        ...

    def notices(self) -> list[str]:
        """What to tell apart from the result: samples that were passed over."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The counts."""
        ...


@dataclass
class Gathered:
    """What asking a source about some samples came to.

    Attributes:
        known: Samples that something is known of.
        answered: Answers to questions that there are by now.
        unanswered: Why something is missing, counted; what cannot be asked of a sample is not counted.
        counts: What the source counts beyond that.
    """

    known: int = 0
    answered: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)
    counts: Counts | None = None

    @classmethod
    def of(cls, table: EvidenceTable) -> Gathered:
        """The counts of a table: each question's reason by itself, once per sample for columns that come together."""
        blocks = {column.question: place for place, column in enumerate(table.columns) if column.option is not None}
        single = [reason for (_, name), reason in table.absences.items() if name in blocks]
        shared = {(target, reason) for (target, name), reason in table.absences.items() if name not in blocks}
        missing = Counter([*single, *(reason for _, reason in shared)])
        return cls(
            int(table.present.any(axis=1).sum()), int(table.present[:, list(blocks.values())].sum()),
            Counter({reason: count for reason, count in missing.items() if reason not in CANNOT_BE_ASKED}),
        )  # fmt: skip

    def plus(self, other: Gathered) -> None:
        """Count what another batch came to."""
        self.known, self.answered = self.known + other.known, self.answered + other.answered
        self.unanswered += other.unanswered
        if self.counts is None:
            self.counts = other.counts
        elif other.counts is not None:
            self.counts.plus(other.counts)


CANNOT_BE_ASKED = frozenset({NOT_APPLICABLE, "no documents"})
"""Reasons why evidence is missing that asking again cannot change."""


class Source(ABC):
    """Columns of evidence.

    Attributes:
        name: What it is called in `accord.yaml`; the registry gives it.
        settings: As they were given.
    """

    settings_type: ClassVar[type[Settings]] = Settings
    name: str = ""

    def __init__(self, settings: Any, context: SourceContext) -> None:
        self.settings, self.context = settings, context

    @property
    def is_live(self) -> bool:
        """Whether a reply can be scored as it is said: measured at the cost of its own length, without asking anybody.

        The one thing that live scoring asks of a source.
        """
        return False

    def session(self, sample: Sample, make: Callable[[], T]) -> T:
        """What this source keeps of the sample's conversation while it is under way, made when it is first needed.

        `measure` may go on from there. A conversation under way only grows, though its documents may change; of one
        that is whole nothing is kept, and each call makes anew. What has an attribute `size` counts as many bytes
        against those that live scoring may remember.
        """
        turns = sample.conversation.turns
        if not isinstance(turns, GrowingTurns):
            return make()
        if id(self) not in turns.session:
            turns.session[id(self)] = self, make()  # with the source itself, so that no other gets its number
        return turns.session[id(self)][1]  # type: ignore[no-any-return]

    @property
    def roles(self) -> tuple[str, ...]:
        """Whom `measure` may ask, by role."""
        return ()

    def learn(self, train: Training) -> Flow[Learned]:
        """The source after learning, with out-of-sample evidence of what it learned from; most only measure.

        Raises:
            BadInput: There is too little to learn from.
        """
        return Learned(self, (yield from self.measure(train.samples)))

    def hold_out(self, train: Training) -> Split | None:
        """The groups to learn from and those to try it on, of a source that pays to learn.

        `None` where learning is free, and is repeated for every fold.
        """
        return None

    def examine(self, test: Training) -> Flow[Self]:
        """The learned source after a look at the side that was held out: what else `describe` should tell.

        Nothing that `measure` gives may change. Another object than this one has asked of that side all that `measure`
        asks.
        """
        return (yield from without_requests(self))

    def rivals(self) -> Mapping[str, EvidenceTable]:
        """Answers of other systems about the held-out side, by name: lines of the table beside what was learned."""
        return {}

    def own_questions(self) -> Mapping[str, tuple[Question, str, Mapping[str, Any]]]:
        """Questions of the source's own that people may have labelled, such as kinds of issues, by their ids.

        Each with the head that learns it, and the settings with which this source is its evidence.
        """
        return {}

    def read_labels(self, labels: Labels) -> Labels:
        """Labels as this source's questions ask for them; other labels as they are."""
        return labels

    @abstractmethod
    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """One row per sample: a pure function of the batch; live scoring is a batch of one."""

    def gather(self, samples: Sequence[Sample]) -> Flow[Gathered]:
        """Ask for what is not known of some samples yet, so that `measure` needs nobody; what it came to."""
        return Gathered.of((yield from self.measure(samples)))

    @property
    def questions(self) -> tuple[Question, ...]:
        """Questions whose answers can be measured one by one: what an adaptive rubric may ask."""
        return ()

    def asking(self, questions: Sequence[str]) -> Source:
        """This source with some of `questions` alone, named by their ids.

        Raises:
            BadInput: Its columns cannot be measured apart.
        """
        raise BadInput(f"the columns of {self.name!r} are measured together; no question of it can be asked alone")

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """This source where no more than some of its columns are needed; `None` where it need not measure at all."""
        return self if columns else None

    def findings(self) -> Findings | None:
        """What was learned, and how it was found out: what a terminal and a report show; `None` where nothing was."""
        return None

    def describe(self) -> Mapping[str, Any]:
        """The findings as JSON; empty where nothing was learned."""
        found = self.findings()
        return {} if found is None else found.to_json()

    def state(self) -> State:
        """What was learned."""
        return State()

    def restored(self, state: State) -> Self:
        """This source with what `state` gave."""
        return self


class LearnedSource(Source, Generic[Value]):
    """A source that learns one value.

    Attributes:
        learned_: The learned value; `None` before `learn`.
        findings_: Findings of learning; `None` before `learn`, or before `examine` where they need a held-out side.
    """

    def __init__(self, settings: Any, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.learned_: Value | None = None
        self.findings_: Findings | None = None

    @property
    def learned(self) -> Value:
        """Return the learned value.

        Raises:
            NotFitted: Nothing was learned yet.
        """
        if self.learned_ is None:
            raise NotFitted(f"source {self.name or type(self).__name__!r} has learned nothing yet. Run: accord fit")
        return self.learned_

    def having(self, learned: Value, findings: Findings | None = None) -> Self:
        """Return a copy of this source with a learned value and its findings."""
        made = copy(self)
        made.learned_, made.findings_ = learned, findings
        return made

    def findings(self) -> Findings | None:
        """Return the findings of learning."""
        return self.findings_


sources: Registry[type[Source]] = Registry(
    "source",
    *(f"accord.evidence.{name}" for name in ("likelihood", "metric_source", "rubric_answers")),
    *(f"accord.methods.{name}.source" for name in ("in_context", "issues", "learned_rubric")),
)


def make_source(name: str, settings: Mapping[str, Any], context: SourceContext) -> Source:
    """A source by its registered name.

    Raises:
        UnknownName: No source is called so.
        BadInput: A setting does not exist, or has a value that cannot be.
    """
    kind = sources.get(name)
    made = kind(validate(kind.settings_type, dict(settings), f"sources: {name}"), context)
    made.name = name
    return made


def measure_all(parts: Sequence[Source], samples: Sequence[Sample]) -> Flow[EvidenceTable]:
    """The evidence of several sources, side by side.

    Raises:
        BadInput: Two of them give a column of the same name.
    """
    table = None
    for source in parts:
        found = yield from source.measure(samples)
        table = _named(found, source.name) if table is None else joined(table, found, source.name)
    if table is None:
        return EvidenceTable.of(samples)
    # A live reply's conversation often says nothing of itself: that costs it nothing.
    about = {sample.target: sample.conversation.metadata for sample in samples if sample.conversation.metadata}
    return replace(table, metadata=about) if about else table


def joined(table: EvidenceTable, more: EvidenceTable, source: str) -> EvidenceTable:
    """A table with the columns of one more source.

    Raises:
        BadInput: One of its columns is there already.
    """
    there = {column.name for column in table.columns}
    twice = next((column.name for column in more.columns if column.name in there), None)
    if twice is not None:
        raise BadInput(f"two sources give {twice!r}, the second is {source!r}; leave one of them out")
    return table.join(_named(more, source))


def _named(table: EvidenceTable, source: str) -> EvidenceTable:
    """The table with the name of its source in every column."""
    if all(column.source == source for column in table.columns):
        return table
    return replace(table, columns=tuple(replace(column, source=source) for column in table.columns))
