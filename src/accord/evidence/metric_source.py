"""Metrics: plain functions to a number, registered by name, of a conversation or of a reply; the sources they make.

`metrics` measures those that its settings name; `lexical`, `bank`, `embedding`, `reference` and `bertscore` are groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, TypeAdapter

from accord.evidence.bank import ruber
from accord.evidence.bank.conversation_words import LexicalMetric, Metric, metrics
from accord.evidence.bank.incremental import NOTHING, WORDLESS, MetricSession
from accord.evidence.bank.languages import ENGLISH, LANGUAGES, Language, named_language, recognised
from accord.evidence.bank.overlap import CIU_NAMES, COPYING, LENGTH, NOVELTY, OVERLAP
from accord.evidence.bank.reply_features import TurnMetric, parsed_document, turn_metrics
from accord.evidence.bank.similarity import BERTSCORE, EMBEDDING, REFERENCE
from accord.evidence.bank.tokens import WORDS, pieces, tokens
from accord.evidence.source import Settings, Source, SourceContext, State, sources
from accord.evidence.table import Column, EvidenceTable, Note
from accord.models import EMBEDDER, EmbeddingText, Flow, Request, is_remote, without_requests
from accord.values import Sample, Signature, Target


def measure(samples: Iterable[Sample], names: Sequence[str], language: str | None = None) -> EvidenceTable:
    """Each named metric of each sample, as a table.

    A sample that is one turn is measured on that turn, given the conversation up to it; of a whole conversation, a
    metric of replies (`accord.evidence.bank`) is the mean over them. Where no reply has a letter or a digit, nothing is
    measured: every column is missing, for that reason. Without a `language`, by its code, that of each text is
    recognised, and a note names it where it is not English, with a warning where it is none that is known.

    Raises:
        UnknownName: No metric, or no language, is called so.
    """
    named = None if language is None else named_language(language)
    return _Chosen.of(names, language=named).measure(list(samples))


@dataclass(frozen=True)
class _Chosen:
    """Metrics that are measured together: of replies, some with an embedder, of conversations; and their columns."""

    of_replies: Mapping[str, TurnMetric]
    of_conversations: Mapping[str, Metric]
    columns: tuple[Column, ...]
    embedded: tuple[Any, ...]
    language: Language | None = None

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        source: str | None = None,
        language: Language | None = None,
        folder: Path = Path(),
    ) -> _Chosen:
        of_replies = {name: _turn_metric(name, folder) for name in names if name in turn_metrics}
        others = {name: metrics.get(name) for name in names if name not in of_replies}
        columns = tuple(Column(name, str(signature_of(name, language, folder)), source=source) for name in names)
        embedded = tuple(metric for metric in of_replies.values() if hasattr(metric, "embedder"))
        return cls(of_replies, others, columns, embedded, language)

    def new_session(self) -> MetricSession:
        """What is kept of one conversation."""
        return MetricSession(self.of_replies, language=self.language)

    def measure(
        self, samples: Sequence[Sample], session: Callable[[Sample], MetricSession] | None = None
    ) -> EvidenceTable:
        """A row per sample; several turns of one conversation go through it once. `session` gives what was kept."""
        new = session or (lambda sample: self.new_session())
        known: dict[int, MetricSession] = {}
        if self.embedded:
            for sample in samples:
                if id(sample.conversation) not in known:
                    known[id(sample.conversation)] = new(sample)
            self._prepare(samples, [known[id(sample.conversation)] for sample in samples])
        last = {id(sample.conversation): place for place, sample in enumerate(samples)}
        found = []
        for place, sample in enumerate(samples):
            which = id(sample.conversation)
            mine = known[which] if which in known else known.setdefault(which, new(sample))
            found.append(self._of(sample, mine))
            if last[which] == place:  # what was said in it is let go: the next one takes its memory
                del known[which]
        names, targets = [column.name for column in self.columns], tuple(sample.target for sample in samples)
        absences: dict[tuple[Target, str], str] = {}
        values = np.zeros((len(samples), len(names)))
        present = np.ones(values.shape, dtype=bool)
        for row, (target, (measured, reasons, _)) in enumerate(zip(targets, found, strict=True)):
            cells = [measured[name] for name in names]
            missing = [place for place, cell in enumerate(cells) if cell is None or cell != cell]
            for place in missing:
                cells[place] = 0.0
                absences[target, names[place]] = reasons.get(names[place], NOTHING)
            values[row], present[row, missing] = cells, False
        notes = {target: note for target, (*_, note) in zip(targets, found, strict=True) if note}
        return EvidenceTable(targets, self.columns, values, present, absences, notes=notes)

    def _of(self, sample: Sample, session: MetricSession) -> _Found:
        """Each metric of a sample, why some have no value, and what is to be said of it."""
        values, reasons = session.measure(sample) if self.of_replies else ({}, {})
        if not self.of_conversations:
            return values, reasons, self._note(session.spoken, session.copies)
        conversation = sample.conversation.at(sample.turn)
        said = pieces(" ".join(turn.content for turn in conversation.replies))
        note = self._note([recognised(said, ENGLISH)], session.copies)
        if any(map(tokens, said)):
            words = session.words.at(conversation)
            of_all = {
                name: metric.measure(words) if isinstance(metric, LexicalMetric) else metric(conversation)
                for name, metric in self.of_conversations.items()
            }
            return values | of_all, reasons, note
        lacking = dict.fromkeys(self.of_conversations, WORDLESS)
        return values | dict.fromkeys(self.of_conversations), reasons | lacking, note

    def _note(self, spoken: Sequence[Language], copies: Sequence[str]) -> Note | None:
        """The languages of the replies that were recognised, which of them is not known, and what is a copy."""
        foreign = [] if self.language else [each for each in spoken if each is not ENGLISH]
        if not foreign and not copies:
            return None
        shown = {"language": ", ".join(dict.fromkeys(each.code for each in foreign))} if foreign else {}
        cautions = [*copies, *(each.caution for each in foreign if each.caution)]
        return Note(shown, "; ".join(dict.fromkeys(cautions)) or None)

    def _prepare(self, samples: Sequence[Sample], sessions: Sequence[MetricSession]) -> None:
        """Let embedders read ahead what they will be asked for, where that is cheaper together."""
        if not self.embedded:
            return
        texts: dict[str, None] = {}
        for sample, mine in zip(samples, sessions, strict=True):
            end = len(sample.conversation.turns) if sample.turn is None else sample.turn + 1
            first = mine.heard if mine.heard < end else 0
            texts |= dict.fromkeys(sample.conversation.turns[place].content for place in range(first, end))
            texts |= dict.fromkeys(parsed_document(document.text).text for document in sample.conversation.documents)
        for embedder in {metric.embedder for metric in self.embedded}:
            embedder.prepare(list(texts))


_Found = tuple[dict[str, float | None], dict[str, str], Note | None]


def signature_of(name: str, language: Language | None = None, folder: Path = Path()) -> Signature:
    """Return the signature of a metric; that of a metric of replies names its word rules or its models.

    Args:
        name: The metric's name.
        language: The language of the word rules; by default, the language that is detected for each text.
        folder: The folder that the relative path in a name such as `ruber@FOLDER` starts from.
    """
    if name not in turn_metrics:
        return Signature.of("metric", name=name)
    made = _made_with(_turn_metric(name, folder))
    if language is not None:
        made = made.replace(WORDS, language.made_with)
    return Signature.of("metric", name=name, words=made)


def _turn_metric(name: str, folder: Path) -> TurnMetric:
    """Return a metric of replies; the relative path in a name such as `ruber@FOLDER` starts from `folder`."""
    family, _, argument = name.partition("@")
    is_learned = argument and family in ruber.LEARNED
    return turn_metrics.get(f"{family}@{folder / argument}" if is_learned else name)


def _made_with(metric: TurnMetric) -> str:
    return str(getattr(metric, "made_with", WORDS))


def _is_live(name: str, folder: Path) -> bool:
    if name in turn_metrics:
        return not is_remote(_made_with(_turn_metric(name, folder)))
    return isinstance(metrics.get(name), LexicalMetric)


LEXICAL = (
    "turns", "words-per-reply", "question-rate", "citation-rate", "apology-rate", "distinct-words", "repetition",
    "overlap-documents", "overlap-user", "user-words",
)  # fmt: skip
"""The metrics of `accord.evidence.bank.conversation_words`, in the order of their columns."""
BANK = (*CIU_NAMES, *OVERLAP, *NOVELTY, *LENGTH, *COPYING)
"""The default bank: everything that needs neither a model nor a library beyond the base install."""
GROUPS = {"lexical": LEXICAL, "embedding": EMBEDDING, "bank": BANK, "reference": REFERENCE, "bertscore": BERTSCORE}
"""Metrics that go by one name; `GROUP@EMBEDDER` are those of a group, each made with that embedder."""


def metric_names(named: Iterable[str]) -> list[str]:
    """Names of metrics, with those of groups spelled out."""
    return list(dict.fromkeys(part for name in named for part in _members(name)))


def _members(name: str) -> list[str]:
    group, at, argument = name.partition("@")
    return [f"{part}{at}{argument}" for part in GROUPS[group]] if group in GROUPS else [name]


class GroupSettings(Settings):
    """A group of metrics has its name for all that is measured; only the language can be named."""

    language: str | None = Field(
        default=None,
        description=f"The texts' language ({', '.join(LANGUAGES)}); without one, each text's own is recognised.",
    )


class MetricSettings(GroupSettings):
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
        code = getattr(settings, "language", None)
        self._language = None if code is None else named_language(code)
        self._chosen: _Chosen | None = None

    @property
    def is_live(self) -> bool:
        """Return True if every metric is measured turn by turn and none asks an endpoint for vectors."""
        return all(_is_live(name, self.context.folder) for name in self.names)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Each metric of each sample; of a whole conversation, a metric of replies is the mean over them."""
        return (yield from without_requests(self._measured(samples)))

    def _measured(self, samples: Sequence[Sample]) -> EvidenceTable:
        if self._chosen is None or [column.name for column in self._chosen.columns] != self.names:
            self._chosen = _Chosen.of(self.names, self.name or None, self._language, self.context.folder)
        new = self._chosen.new_session
        return self._chosen.measure(samples, lambda sample: self.session(sample, new))

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Only the metrics that were learned from are measured."""
        found = type(self)(self.settings, self.context)
        found.name, found.names = self.name, [column.name for column in columns]
        return found if columns else None

    def state(self) -> State:
        """The metrics that are measured."""
        return State({"names": list(self.names)})

    def restored(self, state: State) -> Self:
        """Restore the metrics that were learned from.

        Raises:
            ValueError: The card does not name them.
        """
        self.names = _NAMES.validate_python(state.card["names"], strict=True)
        return self


_NAMES = TypeAdapter(list[str])


def _group(name: str) -> type[Metrics]:
    """The source of one group of metrics."""
    about = {"settings_type": GroupSettings, "default": (name,), "__doc__": f"The metrics `{name}`; asks nobody."}
    return type("MetricGroup", (Metrics,), about)


for _name in GROUPS:
    sources.register(_name)(_group(_name))
    sources.family(_name, lambda argument, _name=_name: _group(f"{_name}@{argument}"))  # type: ignore[misc]


# --- embeddings ------------------------------------------------------------------------------------------

MEANING = "meaning:"
"""What the names of these columns begin with."""
NOTHING_SAID = "nothing to place"


class MeaningSettings(Settings):
    """Who places texts."""

    embedder: str = Field(default="minilm-l6", description="An embedder, as for metrics.")


@sources.register("meaning")
class Meaning(Source):
    """What a sample's replies are about, taken together: the coordinates of an embedder's unit vector."""

    settings_type = MeaningSettings
    settings: MeaningSettings

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """One column per dimension; a sample without words has none."""
        said = ["\n".join(turn.content for turn in s.conversation.at(s.turn).replies).strip() for s in samples]
        texts = [text for text in said if text]
        vectors = iter((yield [Request(EMBEDDER, EmbeddingText(self.settings.embedder, text)) for text in texts]))
        rows = [np.asarray(next(vectors)) if text else None for text in said]
        signature = str(Signature.of("meaning", embedder=self.settings.embedder))
        size = next((len(row) for row in rows if row is not None), 0)
        values = np.array([np.zeros(size) if row is None else row for row in rows]).reshape(len(samples), size)
        known = np.array([row is not None for row in rows], dtype=bool)
        columns = tuple(Column(f"{MEANING}{place}", signature) for place in range(size))
        targets = tuple(sample.target for sample in samples)
        absences = {(t, MEANING): NOTHING_SAID for t, there in zip(targets, known, strict=True) if not there}
        return EvidenceTable(targets, columns, values, np.repeat(known[:, None], size, axis=1), absences)
