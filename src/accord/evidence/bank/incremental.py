"""A conversation as it goes on: each turn is measured against what was before it, and then becomes part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from accord.edges import Unmeasured
from accord.evidence.bank.conversation_words import RunningWords
from accord.evidence.bank.languages import ENGLISH, Language
from accord.evidence.bank.overlap import LONGEST_RUN, copied_run, repeated_trigrams
from accord.evidence.bank.reply_features import ParsedText, TurnHistory, TurnMetric, parsed_document
from accord.values import NON_SPEAKERS, Conversation, Document, Sample, Turn

NOTHING = "nothing to measure"
"""Why a metric that returned `None` has no value."""
WORDLESS = f"{NOTHING}: the reply has no words"
"""Why no metric has a value of a reply without a letter or a digit."""
FEWEST_COPIED, MOSTLY = 20, 0.8
"""A reply is called a copy where so many words in a row, and so much of it, stand elsewhere."""

Values = dict[str, float | None]


class MetricSession:
    """The state that some metrics keep of one conversation.

    Attributes:
        metrics: What is measured of a reply, by name.
        history: What was said so far.
        sources: The documents, taken apart.
        reasons: Why metrics of the last reply have no value, where that is more than `NOTHING`.
        spoken: The languages of the replies that `measure` measured last.
        copies: Of what the last reply is a copy, as far as its metrics tell.
        heard: How many turns were gone through (`measure`).
        words: Totals for lexical metrics of the conversation.
    """

    __slots__ = (
        "_before", "_documents", "_first", "_named", "_speaker", "_telling", "copies", "heard", "history", "metrics",
        "reasons", "sources", "spoken", "words",
    )  # fmt: skip

    def __init__(
        self, metrics: Mapping[str, TurnMetric], documents: Sequence[str] = (), language: Language | None = None
    ) -> None:
        """Prepare; without a `language`, each text's own is recognised."""
        self.metrics, self._named, self.words = metrics, language, RunningWords()
        names = {each: name for name, each in metrics.items()}
        self._telling = {which: names[which] for which in (copied_run, repeated_trigrams) if which in names}
        self._documents: Sequence[Document] = ()
        self._show(documents)
        self._begin(None)

    def _show(self, documents: Sequence[str]) -> None:
        """Texts that a reply can draw on, and the language to begin with."""
        self.sources = [parsed_document(text, ENGLISH, self._named) for text in documents]
        self._first = self._before = self._named or (self.sources[0].words.language if documents else ENGLISH)

    def _begin(self, speaker: str | None) -> None:
        """Nothing was said yet; `speaker` is the role that replies."""
        self.history = TurnHistory(keeps_trigrams=repeated_trigrams in self.metrics.values())
        self.heard, self._speaker, self._before = 0, speaker, self._first
        self.reasons: dict[str, str] = {}
        self.spoken: tuple[Language, ...] = ()
        self.copies: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Approximate memory in bytes, without the documents."""
        return self.history.size + self.words.size

    def measure(self, sample: Sample) -> tuple[Values, dict[str, str]]:
        """Each metric of the sample's reply, given all before it; of a whole conversation, its mean over the replies.

        Beside it, why metrics have no value. A later turn of the same conversation goes on from the turns that were
        gone through; anything else begins anew.
        """
        conversation, turn = sample.conversation, sample.turn if sample.turn is not None else sample.conversation.reply
        first = self._first
        if conversation.documents != self._documents:
            self._documents = conversation.documents
            self._show([document.text for document in conversation.documents])
        speaker = _speaker(conversation, turn)
        if turn is None or turn < self.heard or speaker != self._speaker or first is not self._first:
            self._begin(speaker)
        if turn is not None:
            while self.heard < turn:
                self._hear(conversation.turns[self.heard])
                self.heard += 1
            values = self.reply(conversation.turns[turn].content)
            self.heard += 1
            self.spoken = (self._before,)
            return values, self.reasons
        found: list[Values] = []
        why: list[dict[str, str]] = []
        spoken: dict[Language, None] = {}
        copies: dict[str, None] = {}
        for each in conversation.turns:
            if each.role == speaker:
                found.append(self.reply(each.content))
                why.append(self.reasons)
                spoken[self._before] = None
                copies |= dict.fromkeys(self.copies)
            else:
                self._hear(each)
        self.heard, self.spoken = len(conversation.turns), tuple(spoken)
        self.copies = tuple(copies)
        worded = [reasons for reasons in why if WORDLESS not in reasons.values()]
        means = {name: _mean([values[name] for values in found]) for name in self.metrics}
        return means, {name: reason for reasons in worded or why for name, reason in reasons.items()}

    def _hear(self, turn: Turn) -> None:
        """Take in a turn that is not to be measured; instructions and what tools gave back are nobody's."""
        if turn.role == self._speaker:
            self.say(turn.content)
        elif turn.role not in NON_SPEAKERS:
            self.hear(turn.content)

    def hear(self, text: str) -> None:
        """Take in what somebody else said."""
        self.history.add(self._parsed(text), is_reply=False)

    def _parsed(self, text: str) -> ParsedText:
        """A message taken apart; documents whose own words do not tell their language have that of what was said."""
        message = ParsedText(text, self._before, self._named)
        if message.words.language is not self._before:
            self._before = message.words.language
            self.sources = [parsed_document(source.text, self._before, self._named) for source in self.sources]
        return message

    def reply(self, text: str) -> Values:
        """Measure a reply, and take it in; its cost does not grow with the conversation."""
        message = self._parsed(text)
        history, sources = self.history, self.sources
        self.reasons = {}
        found: Values
        if not message.has_words:
            self.reasons = dict.fromkeys(self.metrics, WORDLESS)
            found = dict.fromkeys(self.metrics)
        else:
            try:
                found = {name: metric(message, history, sources) for name, metric in self.metrics.items()}
            except Unmeasured:
                found = {name: self._tried(name, message) for name in self.metrics}
        self.copies = self._copies(found, message) if self._telling else ()
        history.add(message, is_reply=True)
        return found

    def _copies(self, values: Values, message: ParsedText) -> tuple[str, ...]:
        """What a reply is a copy of: a document, by its longest run; what was replied before, by its runs of three."""
        name_of = self._telling.get
        run, again = values.get(name_of(copied_run, "")) or 0.0, values.get(name_of(repeated_trigrams, "")) or 0.0
        if run < FEWEST_COPIED and again < MOSTLY:
            return ()
        count, found = len(message.tokens), []
        if run >= max(FEWEST_COPIED, MOSTLY * min(count, LONGEST_RUN)):
            found.append(f"it is a copy: {run:.0f} of its {count} words stand in a row in a document")
        if count >= FEWEST_COPIED and again >= MOSTLY:
            found.append(f"it is a copy: {again:.0%} of its runs of three words were said in a reply before")
        return tuple(found)

    def _tried(self, name: str, message: ParsedText) -> float | None:
        """A metric's value, or why there is none."""
        try:
            return self.metrics[name](message, self.history, self.sources)
        except Unmeasured as error:
            self.reasons[name] = str(error)
            return None

    def say(self, text: str) -> None:
        """Take in a reply that is not to be measured."""
        self.history.add(self._parsed(text), is_reply=True)


def measured(conversation: Conversation, metrics: Mapping[str, TurnMetric]) -> tuple[Values, dict[str, str]]:
    """Each metric's mean over the replies; of a conversation at one turn, that turn's, given all before.

    Beside it, why metrics could not be measured.
    """
    return MetricSession(metrics).measure(Sample(conversation))


def _speaker(conversation: Conversation, turn: int | None) -> str | None:
    """The role that replies."""
    if turn is not None:
        return conversation.turns[turn].role
    replies = conversation.replies
    return replies[0].role if replies else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
