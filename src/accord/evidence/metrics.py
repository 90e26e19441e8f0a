"""Metrics: plain functions to a number, registered by name, of a conversation or of a reply; the sources they make.

`metrics` measures those that its settings name; `lexical`, `bank`, `embedding`, `reference` and `bertscore` are groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from pydantic import Field

from accord.evidence.bank import BANK, BERTSCORE, EMBEDDING, REFERENCE
from accord.evidence.bank.message import TurnMetric, parsed_document, turn_metrics
from accord.evidence.bank.session import measured
from accord.evidence.bank.words import WORDS
from accord.evidence.source import Settings, Source, SourceContext, State, sources
from accord.evidence.table import Column, EvidenceTable
from accord.models import Flow, nothing
from accord.values import Conversation, Registry, Sample, Signature

Metric = Callable[[Conversation], float | None]
"""A number about a conversation, or `None` where it says nothing (no document to compare with)."""

metrics: Registry[Metric] = Registry("metric")

NOTHING = "nothing to measure"
"""Why a metric that returned `None` has no value."""


def measure(samples: Iterable[Sample], names: Sequence[str]) -> EvidenceTable:
    """Each named metric of each subject, as a table.

    A subject that is one turn is measured on that turn, given the conversation up to it; of a whole conversation, a
    metric of replies (`accord.evidence.bank`) is the mean over them.

    Raises:
        UnknownName: No metric is called so.
    """
    of_replies = {name: turn_metrics.get(name) for name in names if name in turn_metrics}
    chosen = {name: metrics.get(name) for name in names if name not in of_replies}
    columns = [Column(name, str(signature_of(name))) for name in names]
    samples = list(samples)
    _prepare(of_replies.values(), samples)
    rows: dict[object, dict[str, float]] = {}
    absences = {}
    for sample in samples:
        conversation = sample.conversation.at(sample.turn)
        rows[sample.target] = features = {}
        values, reasons = measured(conversation, of_replies) if of_replies else ({}, {})
        values |= {name: metric(conversation) for name, metric in chosen.items()}
        for name, value in values.items():
            if value is None:
                absences[sample.target, name] = reasons.get(name, NOTHING)
            else:
                features[name] = float(value)
    return EvidenceTable.from_rows(columns, rows, absences)  # type: ignore[arg-type]


def _prepare(chosen: Iterable[TurnMetric], samples: Sequence[Sample]) -> None:
    """Let embedders read ahead what they will be asked for, where that is cheaper together."""
    for embedder in {metric.embedder for metric in chosen if hasattr(metric, "embedder")}:
        conversations = [sample.conversation.at(sample.turn) for sample in samples]
        said = [turn.content for conversation in conversations for turn in conversation.turns]
        embedder.prepare(
            [*said, *(parsed_document(document.text).text for c in conversations for document in c.documents)]
        )


def signature_of(name: str) -> Signature:
    """How a metric is made: one of replies also by its words and stems, or by what it says itself."""
    if name not in turn_metrics:
        return Signature.of("metric", name=name)
    return Signature.of("metric", name=name, words=getattr(turn_metrics.get(name), "made_with", WORDS))


LEXICAL = (
    "turns", "words-per-reply", "question-rate", "citation-rate", "apology-rate", "distinct-words", "repetition",
    "overlap-documents", "overlap-user", "user-words",
)  # fmt: skip
"""The metrics of `accord.evidence.lexical`, in the order of their columns."""
GROUPS = {"lexical": LEXICAL, "embedding": EMBEDDING, "bank": BANK, "reference": REFERENCE, "bertscore": BERTSCORE}
"""Metrics that go by one name; `GROUP@EMBEDDER` are those of a group, each made with that embedder."""


def metric_names(named: Iterable[str]) -> list[str]:
    """Names of metrics, with those of groups spelled out."""
    return list(dict.fromkeys(part for name in named for part in _members(name)))


def _members(name: str) -> list[str]:
    group, at, argument = name.partition("@")
    return [f"{part}{at}{argument}" for part in GROUPS[group]] if group in GROUPS else [name]


class MetricSettings(Settings):
    """Which metrics are measured."""

    names: tuple[str, ...] = Field(default=("lexical",), description="Metrics and groups of them: `accord plugins`.")


@sources.register("metrics")
class Metrics(Source):
    """Cheap metrics of conversations and replies; asks nobody."""

    settings_type = MetricSettings
    default: tuple[str, ...] = ()

    def __init__(self, settings: Settings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.names = metric_names(getattr(settings, "names", self.default))
        for name in self.names:
            if name not in turn_metrics:
                metrics.get(name)

    @property
    def is_live(self) -> bool:
        """Whether all of them are metrics of single replies."""
        return all(name in turn_metrics for name in self.names)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Each metric of each sample; of a whole conversation, a metric of replies is the mean over them."""
        return nothing(measure(samples, self.names))

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Only the metrics that were learned from are measured."""
        found = type(self)(self.settings, self.context)
        found.name, found.names = self.name, [column.name for column in columns]
        return found if columns else None

    def state(self) -> State:
        """The metrics that are measured."""
        return State({"names": list(self.names)})

    def restored(self, state: State) -> Self:
        """The same with the metrics that were learned from."""
        self.names = list(state.card["names"])
        return self


class GroupSettings(Settings):
    """A group of metrics has no settings: its name says all."""


def _group(name: str) -> type[Metrics]:
    """The source of one group of metrics."""
    about = {"settings_type": GroupSettings, "default": (name,), "__doc__": f"The metrics `{name}`; asks nobody."}
    return type("MetricGroup", (Metrics,), about)


for _name in GROUPS:
    sources.register(_name)(_group(_name))
    sources.family(_name, lambda argument, _name=_name: _group(f"{_name}@{argument}"))  # type: ignore[misc]
