"""A conversation as it goes on: each message is measured against what was before it, and then becomes part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from accord.evidence.bank.counts import repeated_trigrams
from accord.evidence.bank.message import ParsedText, TurnHistory, TurnMetric, parsed_document
from accord.values import Conversation, Unmeasured


class MetricSession:
    """The state that some metrics keep of one conversation."""

    __slots__ = ("history", "metrics", "reasons", "sources")

    def __init__(self, metrics: Mapping[str, TurnMetric], documents: Sequence[str] = ()) -> None:
        self.metrics = metrics
        self.history = TurnHistory(keeps_trigrams=repeated_trigrams in metrics.values())
        self.sources = [parsed_document(text) for text in documents]
        self.reasons: dict[str, str] = {}  # why a metric could not be measured last

    def hear(self, text: str) -> None:
        """Take in what somebody else said."""
        self.history.add(ParsedText(text), is_reply=False)

    def reply(self, text: str) -> dict[str, float | None]:
        """Measure a reply, and take it in; its cost does not grow with the conversation."""
        message, history, sources = ParsedText(text), self.history, self.sources
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


def measured(
    conversation: Conversation, metrics: Mapping[str, TurnMetric]
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Each metric's mean over the replies; of a conversation at one turn, that turn's, given all before.

    Beside it, why metrics could not be measured.
    """
    session = MetricSession(metrics, [document.text for document in conversation.documents])
    ours, theirs = ({turn.role for turn in turns} for turns in (conversation.replies, conversation.others))
    found: list[dict[str, float | None]] = []
    for index, turn in enumerate(conversation.turns):
        if turn.role in ours:
            if conversation.reply in {None, index}:
                found.append(session.reply(turn.content))
            else:
                session.say(turn.content)
        elif turn.role in theirs:
            session.hear(turn.content)
    return {name: _mean([values[name] for values in found]) for name in metrics}, session.reasons


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
