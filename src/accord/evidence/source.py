"""Contract of a source: settings, learning (most sources learn nothing) and measuring of columns of evidence.

Learning and measuring are flows: drivers send, price, or answer their requests from the store (`accord.models`). A
source never opens a model, a store or a file. Live scoring calls `measure` on each new reply.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from accord.edges import BadInput, NotFitted, validate
from accord.evidence.table import Column, EvidenceTable
from accord.models import NOT_APPLICABLE, Flow, without_requests
from accord.results import Findings
from accord.statistics import DRAWS, Split
from accord.values import Contract, GrowingTurns, Labels, Question, Registry, Rubric, Sample, Target

T = TypeVar("T")
Value = TypeVar("Value")
Arrays = Mapping[str, NDArray[Any]]


class SourceSettings(BaseModel):
    """Settings of a source. `accord.yaml`, its JSON Schema and the docs follow from them; unknown keys are errors.

    >>> class Lengths(SourceSettings):
    ...     unit: str = "words"
    >>> Lengths(unit="characters").unit
    'characters'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class SourceState:
    """Learned state: JSON, arrays, and files by name that users may read and edit."""

    card: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """Data that learning may use.

    Attributes:
        samples: Rated samples, and others to learn from.
        labels: All labels on these samples, with their groups; labels on `question` are learned.
        question: Question whose answers are learned.
        seed: Seed of every random draw.
        draws: Number of bootstrap samples for intervals.

    >>> from accord import Conversation, Label, Scale
    >>> from accord.values import Sample
    >>> samples = tuple(Sample(Conversation(name, ())) for name in "abc")
    >>> labels = Labels(Label(each.target, "good", "ann", 1) for each in samples[:2])
    >>> train = Training(samples, labels, Question(id="good", text="Good?", scale=Scale(options=(0, 1))))
    >>> len(train.rated().samples), train.only(["a"]).targets
    (2, [Target(conversation='a', turn=None)])
    """

    samples: tuple[Sample, ...]
    labels: Labels
    question: Question
    seed: int = 0
    draws: int = DRAWS

    @property
    def targets(self) -> list[Target]:
        """Targets of the samples."""
        return [sample.target for sample in self.samples]

    def group_of(self, target: Target) -> str:
        """Return the group of a target; splits keep groups together."""
        return self.labels.group_of(target)

    def rated(self) -> Training:
        """Return the part with ratings on the question; for a comparative question, all data."""
        if self.question.compares:
            return self
        rated = frozenset(self.labels.on(self.question.id).targets)
        samples = tuple(sample for sample in self.samples if sample.target in rated)
        labels = Labels((x for x in self.labels if x.target in rated or x.against in rated), self.labels.groups)
        return replace(self, samples=samples, labels=labels)

    def only(self, groups: Iterable[str]) -> Training:
        """Return the part that belongs to some groups."""
        selected = frozenset(groups)
        samples = tuple(sample for sample in self.samples if self.group_of(sample.target) in selected)
        return replace(self, samples=samples, labels=self.labels.filter(selected))


@dataclass(frozen=True)
class SourceContext:
    """Project settings that all sources share.

    Attributes:
        rubric: Questions for annotators and judges.
        seed: Seed of every random choice.
        recorded: Questions with answers from recorded judges only.
        folder: Folder that relative paths in settings start from.

    >>> from accord import load_rubric
    >>> SourceContext(load_rubric("llm-rubric")).rubric.main
    'Q0'
    """

    rubric: Rubric
    seed: int = 0
    recorded: tuple[Question, ...] = ()
    folder: Path = Path()


@dataclass(frozen=True)
class LearnedEvidence:
    """A source after learning, with out-of-sample evidence about its training samples.

    Attributes:
        source: The learned source, another object than the one before learning.
        evidence: A row per training sample, in order, each measured by a source that did not learn from its group.

    >>> from accord import EvidenceTable, load_rubric
    >>> source = sources.get("metrics")(SourceSettings(), SourceContext(load_rubric("llm-rubric")))
    >>> LearnedEvidence(source, EvidenceTable.of([])).source is source
    True
    """

    source: Source
    evidence: EvidenceTable


@dataclass
class GatheredEvidence:
    """Result of asking a source about some samples.

    Attributes:
        known: Samples with evidence.
        answered: Answers available now.
        unanswered: Missing answers by reason; questions that cannot be asked about a sample do not count.
        counts: Further counts of the source, with the methods `plus`, `lines`, `notices` and `to_json`.
    """

    known: int = 0
    answered: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)
    counts: Any = None

    @classmethod
    def of(cls, table: EvidenceTable) -> GatheredEvidence:
        """Count the missing answers of a table: one per question, and one per sample for columns without a question."""
        blocks = {column.question: place for place, column in enumerate(table.columns) if column.option is not None}
        single = [reason for (_, name), reason in table.absences.items() if name in blocks]
        shared = {(target, reason) for (target, name), reason in table.absences.items() if name not in blocks}
        missing = Counter([*single, *(reason for _, reason in shared)])
        return cls(
            int(table.present.any(axis=1).sum()), int(table.present[:, list(blocks.values())].sum()),
            Counter({reason: count for reason, count in missing.items() if reason not in CANNOT_BE_ASKED}),
        )  # fmt: skip

    def plus(self, other: GatheredEvidence) -> None:
        """Add the counts of another batch."""
        self.known, self.answered = self.known + other.known, self.answered + other.answered
        self.unanswered += other.unanswered
        if self.counts is None:
            self.counts = other.counts
        elif other.counts is not None:
            self.counts.plus(other.counts)


CANNOT_BE_ASKED = frozenset({NOT_APPLICABLE, "no documents"})
"""Reasons for missing evidence that another request cannot change."""


class Source(ABC):
    """Columns of evidence; the registry sets `name`, as in `accord.yaml`.

    Args:
        settings: An instance of `settings_type`.
        context: Settings of the project.

    >>> from accord import Conversation, Turn, load_rubric
    >>> from accord.evidence import Column
    >>> from accord.models import memory_models, run, without_requests
    >>> class Length(Source):
    ...     def measure(self, samples):
    ...         rows = {each.target: {"turns": len(each.conversation.turns)} for each in samples}
    ...         table = EvidenceTable.from_rows([Column("turns", "length|version:1")], rows)
    ...         return (yield from without_requests(table))
    >>> source = Length(SourceSettings(), SourceContext(load_rubric("llm-rubric")))
    >>> chat = Conversation("c1", (Turn("user", "Hi."), Turn("assistant", "Hello!")))
    >>> run(source.measure([Sample(chat)]), memory_models()).values.tolist()
    [[2.0]]
    """

    settings_type: ClassVar[type[SourceSettings]] = SourceSettings
    name: str = ""

    def __init__(self, settings: Any, context: SourceContext) -> None:
        self.settings, self.context = settings, context

    @property
    def promised(self) -> float | None:
        """Share of calls (good or bad) that should agree with people, .5 to 1, or `None` if scores need no calls."""
        return None

    @property
    def is_live(self) -> bool:
        """Return True if a reply can be scored live, at the cost of its own length and without requests."""
        return False

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Entries of a conversation's metadata that change the evidence, such as `topic`."""
        return ()

    @property
    def detects_languages(self) -> bool:
        """Return True if notes name the language of replies that are not in English (`languages_of`)."""
        return False

    def session(self, sample: Sample, make: Callable[[], T]) -> T:
        """Return this source's state of a conversation in progress, made on first use.

        A conversation in progress only grows, but its documents may change. A complete one keeps no state. An attribute
        `size`, in bytes, counts against the memory limit of live scoring. Evidence is the same without a session.
        """
        turns = sample.conversation.turns
        if not isinstance(turns, GrowingTurns):
            return make()
        if id(self) not in turns.session:
            turns.session[id(self)] = self, make()  # a reference to the source, so that its id stays unique
        return turns.session[id(self)][1]  # type: ignore[no-any-return]

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the models that `measure` may ask."""
        return ()

    def learn(self, train: Training) -> Flow[LearnedEvidence]:
        """Learn, and return the learned source with out-of-sample evidence; most sources only measure.

        Raises:
            BadInput: Too little data to learn from.
        """
        return LearnedEvidence(self, (yield from self.measure(train.samples)))

    def hold_out(self, train: Training) -> Split | None:
        """Return the groups to learn from and to test on; `None` if learning costs nothing and is repeated per fold."""
        return None

    def examine(self, test: Training) -> Flow[Self]:
        """Return the learned source with findings about the held-out side; evidence from `measure` must not change."""
        return (yield from without_requests(self))

    def rivals(self) -> Mapping[str, EvidenceTable]:
        """Return answers of other systems about the held-out side, by name: rows of the comparison table."""
        return {}

    def own_questions(self) -> Mapping[str, tuple[Question, str, Mapping[str, Any]]]:
        """Return questions that annotators may label, such as issue kinds, by id, each with its head and settings."""
        return {}

    def read_labels(self, labels: Labels) -> Labels:
        """Return the labels with the question ids of this source; other labels are unchanged."""
        return labels

    @abstractmethod
    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return one row per sample: a pure function of the batch. Live scoring is a batch of one."""

    def gather(self, samples: Sequence[Sample]) -> Flow[GatheredEvidence]:
        """Ask for missing evidence about some samples, so that `measure` needs no further requests."""
        return GatheredEvidence.of((yield from self.measure(samples)))

    @property
    def questions(self) -> tuple[Question, ...]:
        """Questions that can be measured one by one, as an adaptive rubric does."""
        return ()

    def asking(self, questions: Sequence[str]) -> Source:
        """Return this source with some of `questions` only, by id; `BadInput` if it measures its columns together."""
        raise BadInput(f"source {self.name!r} measures its columns together; its questions cannot be asked one by one")

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Return this source for a subset of its columns; `None` if it is not needed at all."""
        return self if columns else None

    def findings(self) -> Findings | None:
        """Return the findings of learning for the terminal and the report; `None` without any."""
        return None

    def describe(self) -> Mapping[str, Any]:
        """Return the findings as JSON; empty without any."""
        findings = self.findings()
        return {} if findings is None else findings.to_json()

    def state(self) -> SourceState:
        """Return the learned state."""
        return SourceState()

    def restored(self, state: SourceState) -> Self:
        """Return this source with a saved state."""
        return self


class LearnedSource(Source, Generic[Value]):
    """A source that learns one value; its findings may need `examine` first.

    >>> from accord import load_rubric
    >>> class Longest(LearnedSource[int]):
    ...     def measure(self, samples): ...
    >>> source = Longest(SourceSettings(), SourceContext(load_rubric("llm-rubric")))
    >>> source.having(12).learned
    12
    """

    def __init__(self, settings: Any, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.learned_: Value | None = None
        self.findings_: Findings | None = None

    @property
    def learned(self) -> Value:
        """The learned value; `NotFitted` before `learn`."""
        if self.learned_ is None:
            raise NotFitted(f"source {self.name or type(self).__name__!r} is not fitted. Run: accord fit")
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
    contract=Contract(
        lambda plugin: isinstance(plugin, type) and issubclass(plugin, Source),
        "a subclass of accord.evidence.Source with a method `measure`",
        "check_source",
    ),
)
"""Sources of evidence: subclasses of `Source`."""


def make_source(name: str, settings: Mapping[str, Any], context: SourceContext) -> Source:
    """Return a source by its registered name; `BadInput` if a setting does not exist, or has an invalid value."""
    kind = sources.get(name)
    made = kind(validate(kind.settings_type, dict(settings), f"sources: {name}"), context)
    made.name = name
    return made


def measure_all(parts: Sequence[Source], samples: Sequence[Sample]) -> Flow[EvidenceTable]:
    """Measure several sources and join their columns; `BadInput` if two sources give a column of the same name."""
    table = None
    for source in parts:
        evidence = yield from source.measure(samples)
        table = _named(evidence, source.name) if table is None else joined(table, evidence, source.name)
    if table is None:
        return EvidenceTable.of(samples)
    # Live conversations often have no metadata; skip the copy then.
    metadata = {sample.target: sample.conversation.metadata for sample in samples if sample.conversation.metadata}
    return replace(table, metadata=metadata) if metadata else table


def joined(table: EvidenceTable, more: EvidenceTable, source: str) -> EvidenceTable:
    """Return a table with the columns of one more source; `BadInput` if a column exists already."""
    names = {column.name for column in table.columns}
    duplicate = next((column.name for column in more.columns if column.name in names), None)
    if duplicate is not None:
        raise BadInput(f"two sources give the column {duplicate!r}, the second one is {source!r}. Remove one of them")
    return table.join(_named(more, source))


def _named(table: EvidenceTable, source: str) -> EvidenceTable:
    """Set the source of every column."""
    if all(column.source == source for column in table.columns):
        return table
    return replace(table, columns=tuple(replace(column, source=source) for column in table.columns))
