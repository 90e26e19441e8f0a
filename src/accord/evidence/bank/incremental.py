"""Metric session of one conversation: each turn is measured against the turns before it, then added to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from accord.edges import Unmeasured
from accord.evidence.bank.conversation_words import RunningWords
from accord.evidence.bank.reply_features import ParsedText, TurnHistory, TurnMetric, parsed_document
from accord.evidence.bank.reply_metrics import LONGEST_RUN, copied_run, repeated_trigrams
from accord.evidence.bank.words import ENGLISH, Language
from accord.values import NON_SPEAKERS, Conversation, Document, Sample, Turn

NOTHING = "nothing to measure"
"""Reason for a missing value of a metric that returned `None`."""
WORDLESS = f"{NOTHING}: the reply has no words"
"""Reason for missing values of a reply without letters or digits."""
FEWEST_COPIED, MOSTLY = 20, 0.8
"""Minimum run of copied words, and minimum share of copied words, of a reply that counts as a copy."""

Values = dict[str, float | None]


class MetricSession:
    """State of the metrics in one conversation.

    Attributes:
        metrics: Metrics of replies by name.
        history: Turns so far.
        sources: Parsed documents.
        reasons: Reasons for missing values of the last reply, other than `NOTHING`.
        spoken: Languages of the replies in the last call of `measure`.
        copies: Warnings on copied text in the last reply.
        heard: Number of turns read by `measure`.
        words: Totals for lexical metrics of the conversation.
    """

    __slots__ = (
        "_before", "_documents", "_first", "_named", "_speaker", "_telling", "copies", "heard", "history", "metrics",
        "reasons", "sources", "spoken", "words",
    )  # fmt: skip

    def __init__(
        self, metrics: Mapping[str, TurnMetric], documents: Sequence[str] = (), language: Language | None = None
    ) -> None:
        """Prepare a session; without a `language`, the language of each text is detected."""
        self.metrics, self._named, self.words = metrics, language, RunningWords()
        names = {each: name for name, each in metrics.items()}
        self._telling = {which: names[which] for which in (copied_run, repeated_trigrams) if which in names}
        self._documents: Sequence[Document] = ()
        self._show(documents)
        self._begin(None)

    def _show(self, documents: Sequence[str]) -> None:
        """Set the documents, and the first language."""
        self.sources = [parsed_document(text, ENGLISH, self._named) for text in documents]
        self._first = self._before = self._named or (self.sources[0].words.language if documents else ENGLISH)

    def _begin(self, speaker: str | None) -> None:
        """Reset the history; `speaker` is the role that replies."""
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
        """Return each metric of the sample's reply, or its mean over the replies of a whole conversation.

        A later turn of the same conversation continues from the turns read so far; any other sample starts over.

        Returns:
            Values, and reasons for missing values.
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
        reply_values: list[Values] = []
        reply_reasons: list[dict[str, str]] = []
        languages: dict[Language, None] = {}
        copies: dict[str, None] = {}
        for message in conversation.turns:
            if message.role == speaker:
                reply_values.append(self.reply(message.content))
                reply_reasons.append(self.reasons)
                languages[self._before] = None
                copies |= dict.fromkeys(self.copies)
            else:
                self._hear(message)
        self.heard, self.spoken = len(conversation.turns), tuple(languages)
        self.copies = tuple(copies)
        worded = [reasons for reasons in reply_reasons if WORDLESS not in reasons.values()]
        means = {name: _mean([values[name] for values in reply_values]) for name in self.metrics}
        return means, {name: reason for reasons in worded or reply_reasons for name, reason in reasons.items()}

    def _hear(self, turn: Turn) -> None:
        """Add a turn without measuring it; system and tool messages are ignored."""
        if turn.role == self._speaker:
            self.say(turn.content)
        elif turn.role not in NON_SPEAKERS:
            self.hear(turn.content)

    def hear(self, text: str) -> None:
        """Add a turn of another speaker."""
        self.history.add(self._parsed(text), is_reply=False)

    def _parsed(self, text: str) -> ParsedText:
        """Parse a message. Documents whose language cannot be detected get that of the message."""
        message = ParsedText(text, self._before, self._named)
        if message.words.language is not self._before:
            self._before = message.words.language
            self.sources = [parsed_document(source.text, self._before, self._named) for source in self.sources]
        return message

    def reply(self, text: str) -> Values:
        """Measure a reply and add it; the cost is independent of the conversation's length."""
        message = self._parsed(text)
        history, sources = self.history, self.sources
        self.reasons = {}
        values: Values
        if not message.has_words:
            self.reasons = dict.fromkeys(self.metrics, WORDLESS)
            values = dict.fromkeys(self.metrics)
        else:
            try:
                values = {name: metric(message, history, sources) for name, metric in self.metrics.items()}
            except Unmeasured:
                values = {name: self._tried(name, message) for name in self.metrics}
        self.copies = self._copies(values, message) if self._telling else ()
        history.add(message, is_reply=True)
        return values

    def _copies(self, values: Values, message: ParsedText) -> tuple[str, ...]:
        """Return warnings on copied text: from a document, by the longest run; from a reply, by trigrams."""
        name_of = self._telling.get
        run, repeated = values.get(name_of(copied_run, "")) or 0.0, values.get(name_of(repeated_trigrams, "")) or 0.0
        if run < FEWEST_COPIED and repeated < MOSTLY:
            return ()
        count, copies = len(message.tokens), []
        if run >= max(FEWEST_COPIED, MOSTLY * min(count, LONGEST_RUN)):
            copies.append(f"copied from a document: {run:.0f} of {count} words in a row")
        if count >= FEWEST_COPIED and repeated >= MOSTLY:
            copies.append(f"copied from an earlier reply: {repeated:.0%} of its word trigrams")
        return tuple(copies)

    def _tried(self, name: str, message: ParsedText) -> float | None:
        """Return a metric's value, or `None` after storing the reason."""
        try:
            return self.metrics[name](message, self.history, self.sources)
        except Unmeasured as error:
            self.reasons[name] = str(error)
            return None

    def say(self, text: str) -> None:
        """Add a reply without measuring it."""
        self.history.add(self._parsed(text), is_reply=True)


def _speaker(conversation: Conversation, turn: int | None) -> str | None:
    """Return the role that replies."""
    if turn is not None:
        return conversation.turns[turn].role
    replies = conversation.replies
    return replies[0].role if replies else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
