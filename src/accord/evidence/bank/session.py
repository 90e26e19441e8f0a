"""A conversation as it goes on: each turn is measured against what was before it, and then becomes part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from accord.evidence.bank.counts import repeated_trigrams
from accord.evidence.bank.message import ParsedText, TurnHistory, TurnMetric, parsed_document
from accord.values import NOBODY, Conversation, Document, Sample, Turn, Unmeasured

NOTHING = "nothing to measure"
"""Why a metric that returned `None` has no value."""
WORDLESS = f"{NOTHING}: the reply has no words"
"""Why no metric has a value of a reply without a letter or a digit."""

Values = dict[str, float | None]


class MetricSession:
    """The state that some metrics keep of one conversation.

    Attributes:
        metrics: What is measured of a reply, by name.
        history: What was said so far.
        sources: The documents, taken apart.
        reasons: Why metrics of the last reply have no value, where that is more than `NOTHING`.
        heard: How many turns were gone through (`measure`).
    """

    __slots__ = ("_documents", "_speaker", "heard", "history", "metrics", "reasons", "sources")

    def __init__(self, metrics: Mapping[str, TurnMetric], documents: Sequence[str] = ()) -> None:
        self.metrics = metrics
        self.sources = [parsed_document(text) for text in documents]
        self._documents: Sequence[Document] = ()
        self._begin(None)

    def _begin(self, speaker: str | None) -> None:
        """Nothing was said yet; `speaker` is the role that replies."""
        self.history = TurnHistory(keeps_trigrams=repeated_trigrams in self.metrics.values())
        self.heard, self._speaker = 0, speaker
        self.reasons: dict[str, str] = {}

    @property
    def size(self) -> int:
        """About how many bytes it keeps alive, beside the documents."""
        return self.history.size

    def measure(self, sample: Sample) -> tuple[Values, dict[str, str]]:
        """Each metric of the sample's reply, given all before it; of a whole conversation, its mean over the replies.

        Beside it, why metrics have no value. A later turn of the same conversation goes on from the turns that were
        gone through; anything else begins anew.
        """
        conversation, turn = sample.conversation, sample.turn if sample.turn is not None else sample.conversation.reply
        if conversation.documents != self._documents:
            self._documents = conversation.documents
            self.sources = [parsed_document(document.text) for document in conversation.documents]
        speaker = _speaker(conversation, turn)
        if turn is None or turn < self.heard or speaker != self._speaker:
            self._begin(speaker)
        if turn is not None:
            while self.heard < turn:
                self._hear(conversation.turns[self.heard])
                self.heard += 1
            values = self.reply(conversation.turns[turn].content)
            self.heard += 1
            return values, self.reasons
        found: list[Values] = []
        why: list[dict[str, str]] = []
        for each in conversation.turns:
            if each.role == speaker:
                found.append(self.reply(each.content))
                why.append(self.reasons)
            else:
                self._hear(each)
        self.heard = len(conversation.turns)
        spoken = [reasons for reasons in why if WORDLESS not in reasons.values()]
        means = {name: _mean([values[name] for values in found]) for name in self.metrics}
        return means, {name: reason for reasons in spoken or why for name, reason in reasons.items()}

    def _hear(self, turn: Turn) -> None:
        """Take in a turn that is not to be measured; instructions and what tools gave back are nobody's."""
        if turn.role == self._speaker:
            self.say(turn.content)
        elif turn.role not in NOBODY:
            self.hear(turn.content)

    def hear(self, text: str) -> None:
        """Take in what somebody else said."""
        self.history.add(ParsedText(text), is_reply=False)

    def reply(self, text: str) -> Values:
        """Measure a reply, and take it in; its cost does not grow with the conversation."""
        message, history, sources = ParsedText(text), self.history, self.sources
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
        history.add(message, is_reply=True)
        return found

    def _tried(self, name: str, message: ParsedText) -> float | None:
        """A metric's value, or why there is none."""
        try:
            return self.metrics[name](message, self.history, self.sources)
        except Unmeasured as error:
            self.reasons[name] = str(error)
            return None

    def say(self, text: str) -> None:
        """Take in a reply that is not to be measured."""
        self.history.add(ParsedText(text), is_reply=True)


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
    return fmean(known) if known else None
