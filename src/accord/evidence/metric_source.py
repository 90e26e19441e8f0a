"""Sources of cheap metrics: plain functions from a conversation or a reply to a number, registered by name.

`metrics` measures the metrics in its settings; `lexical`, `bank`, `embedding`, `reference`, `bertscore` and `steps` are
groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter

from accord.edges import BadInput, PluginError, one_line, validate
from accord.evidence.bank import ruber
from accord.evidence.bank.reply_features import TurnMetric, parsed_document, turn_metrics
from accord.evidence.bank.reply_metrics import BANK, BERTSCORE, CIU, EMBEDDING, REFERENCE
from accord.evidence.bank.session import LEXICAL, NOTHING, WORDLESS, LexicalMetric, Metric, MetricSession, metrics
from accord.evidence.bank.step_metrics import NO_STEPS, STEPS, ConversationSteps, StepMetric
from accord.evidence.bank.words import (
    ENGLISH,
    LANGUAGES,
    UNDETERMINED,
    WORDS,
    Language,
    named_language,
    pieces,
    recognised,
    tokens,
)
from accord.evidence.source import Source, SourceContext, SourceSettings, SourceState, sources
from accord.evidence.table import MEANING, Column, EvidenceTable, Note
from accord.models import EMBEDDER, Embedder, EmbeddingText, Flow, Request, is_remote, without_requests
from accord.values import BUILT_IN, Rubric, Sample, Signature, Target

_LANGUAGE = "language"


Measured = tuple[dict[str, float | None], dict[str, str], Note | None]
"""Metrics of a sample, reasons for missing values, and a note."""


def languages_of(note: Note | None) -> list[str]:
    """Return the codes of known languages of replies by the note of a source that detects them; English without one."""
    codes = ENGLISH.code if note is None else str(note.shown.get(_LANGUAGE, ENGLISH.code))
    return [code for code in codes.split(", ") if code != UNDETERMINED]


def signature_of(name: str, language: Language | None = None, folder: Path = Path()) -> Signature:
    """Return the signature of a metric; for a metric of replies it names the word rules or the models.

    `folder` is where the relative path in a name such as `ruber@FOLDER` starts.
    """
    if name not in turn_metrics:
        return Signature.of("metric", name=name)
    made = _made_with(_turn_metric(name, folder))
    if language is not None:
        made = made.replace(WORDS, language.made_with)
    redacted = Embedder.redaction_of(name.partition("@")[2])
    return Signature.of("metric", name=name, words=made, redacted=redacted or None)


def _turn_metric(name: str, folder: Path) -> TurnMetric:
    """Return a metric of replies; the relative path in a name such as `ruber@FOLDER` starts from `folder`."""
    family, _, argument = name.partition("@")
    is_learned = argument and family in ruber.LEARNED
    return turn_metrics.get(f"{family}@{folder / argument}" if is_learned else name)


def _made_with(metric: TurnMetric) -> str:
    return str(getattr(metric, "made_with", WORDS))


GROUPS = {
    "lexical": LEXICAL,
    "embedding": EMBEDDING,
    "bank": BANK,
    "reference": REFERENCE,
    "bertscore": BERTSCORE,
    "steps": STEPS,
}
"""Groups of metrics; `GROUP@EMBEDDER` is a group with another embedder."""


def metric_name(given: Any) -> str:
    """Return the name of a metric as it stands in `metrics:`; `ciu: {SETTING: VALUE}` becomes `ciu@SETTING=VALUE,...`.

    Raises:
        ValueError: The settings are invalid, or the metric has none.
    """
    try:
        if isinstance(given, str):
            return CIU.parsed(given.removeprefix("ciu@")).name if given.startswith("ciu@") else given
        if isinstance(given, Mapping) and list(given) == ["ciu"]:
            return validate(CIU, given["ciu"], "metric ciu").name
    except BadInput as error:
        raise ValueError(str(error)) from None
    raise ValueError(f"a metric is a name, or `ciu: {{SETTING: VALUE}}`, got {one_line(repr(given), 60)}")


def metric_names(named: Iterable[str]) -> list[str]:
    """Return metric names, with groups expanded."""
    names: dict[str, None] = {}
    for name in named:
        group, at, argument = name.partition("@")
        names |= dict.fromkeys(f"{part}{at}{argument}" for part in GROUPS.get(group, [group]))
    return list(names)


class GroupSettings(SourceSettings):
    """Settings of a group of metrics."""

    language: str | None = Field(
        default=None,
        description=f"Language of the texts ({', '.join(LANGUAGES)}); default: detected for each text.",
    )


class MetricSettings(GroupSettings):
    """Settings of the source `metrics`."""

    names: tuple[Annotated[str, BeforeValidator(metric_name)], ...] = Field(
        default=("lexical",), description="Metrics and groups; `accord plugins` lists them."
    )


@sources.register("metrics")
class Metrics(Source):
    """Cheap metrics of conversations and replies, without requests."""

    settings_type = MetricSettings
    default: tuple[str, ...] = ()

    def __init__(self, settings: SourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.names = metric_names(getattr(settings, "names", self.default))
        for name in self.names:
            if name not in turn_metrics:
                metrics.get(name)
        code = getattr(settings, "language", None)
        self._language = None if code is None else named_language(code)
        self._of_replies: Mapping[str, TurnMetric] = {}
        self._of_conversations: Mapping[str, Metric] = {}
        self._embedded: Sequence[Any] = ()
        self._columns: tuple[Column, ...] = ()

    @property
    def is_live(self) -> bool:
        """Return True if every metric is measured turn by turn and none asks an endpoint for vectors."""
        return all(
            not is_remote(_made_with(_turn_metric(name, self.context.folder)))
            if name in turn_metrics
            else isinstance(metrics.get(name), LexicalMetric)
            for name in self.names
        )

    @property
    def detects_languages(self) -> bool:
        """Return True unless the settings name the language."""
        return self._language is None

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return each metric of each sample; for a whole conversation, a metric of replies is the mean over them."""
        return (yield from without_requests(self._measured(samples)))

    def _measured(self, samples: Sequence[Sample]) -> EvidenceTable:
        """Return a row per sample; turns of one conversation share one session."""
        self._choose()
        sessions: dict[int, MetricSession] = {}
        if self._embedded:
            for sample in samples:
                if id(sample.conversation) not in sessions:
                    sessions[id(sample.conversation)] = self.session(sample, self._new_session)
            self._prepare(samples, [sessions[id(sample.conversation)] for sample in samples])
        results = list(self._each_measured(samples, sessions))
        targets = tuple(sample.target for sample in samples)
        absences: dict[tuple[Target, str], str] = {}
        values = np.zeros((len(samples), len(self.names)))
        present = np.ones(values.shape, dtype=bool)
        for row, (target, (measured, reasons, _)) in enumerate(zip(targets, results, strict=True)):
            cells = [measured[name] for name in self.names]
            missing = [place for place, cell in enumerate(cells) if cell is None or cell != cell]
            for place in missing:
                cells[place] = 0.0
                absences[target, self.names[place]] = reasons.get(self.names[place], NOTHING)
            values[row], present[row, missing] = cells, False
        notes = {target: note for target, (*_, note) in zip(targets, results, strict=True) if note}
        return EvidenceTable(targets, self._columns, values, present, absences, notes=notes)

    def _each_measured(self, samples: Sequence[Sample], sessions: dict[int, MetricSession]) -> Iterator[Measured]:
        """Yield the result of each sample; `sessions` holds the sessions of begun conversations, by object id."""
        last = {id(sample.conversation): place for place, sample in enumerate(samples)}
        of_steps: dict[int, ConversationSteps] = {}
        for place, sample in enumerate(samples):
            key = id(sample.conversation)
            if key not in sessions:
                sessions[key] = self.session(sample, self._new_session)
            yield self._of(sample, sessions[key], of_steps.setdefault(key, ConversationSteps()))
            if last[key] == place:  # frees the memory of a finished conversation
                del sessions[key], of_steps[key]

    def _choose(self) -> None:
        """Look up the metrics, again if the names have changed."""
        if [column.name for column in self._columns] == self.names:
            return
        folder = self.context.folder
        self._of_replies = {
            name: _guarded(name, _turn_metric(name, folder)) for name in self.names if name in turn_metrics
        }
        self._of_conversations = {
            name: _guarded(name, metrics.get(name)) for name in self.names if name not in turn_metrics
        }
        self._embedded = [metric for metric in self._of_replies.values() if hasattr(metric, "embedder")]
        self._columns = tuple(
            Column(name, str(signature_of(name, self._language, folder)), source=self.name or None)
            for name in self.names
        )

    def _new_session(self) -> MetricSession:
        return MetricSession(self._of_replies, language=self._language)

    def _of(self, sample: Sample, session: MetricSession, found_steps: ConversationSteps) -> Measured:
        """Return each metric of a sample, reasons for missing values, and a note."""
        values, reasons = session.measure(sample) if self._of_replies else ({}, {})
        if not self._of_conversations:
            return values, reasons, self._note(session.spoken, session.copies)
        conversation = sample.conversation.at(sample.turn)
        step_metrics = {name: each for name, each in self._of_conversations.items() if isinstance(each, StepMetric)}
        if step_metrics:
            found_steps.at(conversation)
        of_steps = {name: metric.measure(found_steps) for name, metric in step_metrics.items()}
        values, reasons = values | of_steps, reasons | dict.fromkeys(of_steps, NO_STEPS)
        if len(of_steps) == len(self._of_conversations):
            return values, reasons, self._note(session.spoken, session.copies)
        others = {name: metric for name, metric in self._of_conversations.items() if name not in of_steps}
        reply_pieces = pieces(" ".join(turn.content for turn in conversation.replies))
        note = self._note([recognised(reply_pieces, ENGLISH)], session.copies)
        if any(map(tokens, reply_pieces)):
            words = session.words.at(conversation)
            measured = {
                name: metric.measure(words) if isinstance(metric, LexicalMetric) else metric(conversation)
                for name, metric in others.items()
            }
            return values | measured, reasons, note
        missing = dict.fromkeys(others, WORDLESS)
        return values | dict.fromkeys(others), reasons | missing, note

    def _note(self, languages: Sequence[Language], copies: Sequence[str]) -> Note | None:
        """Return a note on the detected languages, unknown languages, and copied replies."""
        foreign = [] if self._language else [language for language in languages if language is not ENGLISH]
        if not foreign and not copies:
            return None
        values = {_LANGUAGE: ", ".join(dict.fromkeys(language.code for language in foreign))} if foreign else {}
        cautions = [*copies, *(language.caution for language in foreign if language.caution)]
        return Note(values, "; ".join(dict.fromkeys(cautions)) or None)

    def _prepare(self, samples: Sequence[Sample], sessions: Sequence[MetricSession]) -> None:
        """Let embedders read texts ahead, which is cheaper in one batch."""
        texts: dict[str, None] = {}
        for sample, own in zip(samples, sessions, strict=True):
            end = len(sample.conversation.turns) if sample.turn is None else sample.turn + 1
            first = own.heard if own.heard < end else 0
            texts |= dict.fromkeys(sample.conversation.turns[place].content for place in range(first, end))
            texts |= dict.fromkeys(parsed_document(document.text).text for document in sample.conversation.documents)
        for embedder in {metric.embedder for metric in self._embedded}:
            embedder.prepare(list(texts))

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Return this source with the metrics that the evaluator learned from."""
        source = type(self)(self.settings, self.context)
        source.name, source.names = self.name, [column.name for column in columns]
        return source if columns else None

    def state(self) -> SourceState:
        """Return the names of the metrics."""
        return SourceState({"names": list(self.names)})

    def restored(self, state: SourceState) -> Self:
        """Restore the metrics that the evaluator learned from; `ValueError` if the card has no list of names."""
        self.names = _NAMES.validate_python(state.card["names"], strict=True)
        return self


def measure(samples: Iterable[Sample], names: Sequence[str], language: str | None = None) -> EvidenceTable:
    """Return each named metric of each sample as a table.

    A sample with a turn is measured on that turn, given the conversation up to it. For a whole conversation, a metric
    of replies (`accord.evidence.bank`) is the mean over the replies. If no reply has a letter or a digit, every column
    is missing. Without a `language` code, the language of each text is detected; a note names any language other
    than English, with a warning for an unknown one.
    """
    settings = MetricSettings(names=tuple(names), language=language)
    return Metrics(settings, SourceContext(Rubric.model_construct()))._measured(list(samples))


def _guarded(name: str, metric: Any) -> Any:
    """Return a metric of a plug-in so that each of its values is checked; Accord's own are returned as they are."""
    owners = turn_metrics if name in turn_metrics else metrics
    has_model = hasattr(metric, "embedder") or hasattr(metric, "made_with")
    return metric if has_model or owners.owner(name) == BUILT_IN else partial(_checked, name, metric)


def _checked(name: str, metric: Any, *arguments: Any) -> float | None:
    """Return the value of a metric.

    Raises:
        PluginError: It is neither None nor a number, or it is infinite.
    """
    value = metric(*arguments)
    number = float(value) if isinstance(value, int | float | np.number | np.bool_) else None
    if value is None or (number is not None and not np.isinf(number)):
        return number
    raise PluginError(
        f"the metric {name!r} returned {one_line(repr(value), 60)}; a metric returns a finite number or None. Check it "
        "with accord.testing.check_metric"
    )


_NAMES = TypeAdapter(list[str])


def _group(name: str) -> type[Metrics]:
    """Return the source of one group of metrics."""
    doc = f"The metrics `{name}`, without requests."
    return type("MetricGroup", (Metrics,), {"settings_type": GroupSettings, "default": (name,), "__doc__": doc})


for _name in GROUPS:
    sources.register(_name)(_group(_name))
    sources.family(_name, lambda argument, _name=_name: _group(f"{_name}@{argument}"))  # type: ignore[misc]


# --- embeddings ------------------------------------------------------------------------------------------

NOTHING_SAID = "no text to embed"


class SentenceEmbeddingSettings(SourceSettings):
    """Settings of the source `meaning`."""

    embedder: str = Field(default="minilm-l6", description="Name of the embedder, as for metrics.")


@sources.register("meaning")
class SentenceEmbeddings(Source):
    """Unit vector of a sample's replies from an embedder, one column per dimension."""

    settings_type = SentenceEmbeddingSettings
    settings: SentenceEmbeddingSettings

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return one column per dimension; a sample without words is missing."""
        reply_texts = ["\n".join(turn.content for turn in s.conversation.at(s.turn).replies).strip() for s in samples]
        vectors = iter((yield [
            Request(EMBEDDER, EmbeddingText(self.settings.embedder, text, conversations=(sample.conversation.id,)))
            for text, sample in zip(reply_texts, samples, strict=True) if text
        ]))  # fmt: skip
        rows = [np.asarray(next(vectors)) if text else None for text in reply_texts]
        redacted = Embedder.redaction_of(self.settings.embedder)
        signature = str(Signature.of("meaning", embedder=self.settings.embedder, redacted=redacted or None))
        size = next((len(row) for row in rows if row is not None), 0)
        values = np.array([np.zeros(size) if row is None else row for row in rows]).reshape(len(samples), size)
        known = np.array(list(map(bool, reply_texts)), dtype=bool)
        columns = tuple(Column(f"{MEANING}{place}", signature) for place in range(size))
        targets = tuple(sample.target for sample in samples)
        absences = {(t, MEANING): NOTHING_SAID for t, is_known in zip(targets, known, strict=True) if not is_known}
        return EvidenceTable(targets, columns, values, np.repeat(known[:, None], size, axis=1), absences)
