"""Metrics of a conversation, extended turn by turn: lexical counts, and a session for metrics of replies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import update_wrapper
from math import fsum
from statistics import fmean
from weakref import WeakValueDictionary

from accord.edges import Unmeasured
from accord.evidence.bank.reply_features import ENTRY, ParsedText, TurnHistory, TurnMetric, lazy, parsed_document
from accord.evidence.bank.reply_metrics import LONGEST_RUN, copied_run, repeated_trigrams
from accord.evidence.bank.words import ENGLISH, Language, pieces, recognised, tokens, vocabulary
from accord.values import NON_SPEAKERS, Contract, Conversation, Document, Registry, Sample, Turn

# --- metrics of conversations -----------------------------------------------------------------------------------------

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been but by can could did do does for from get had
    has have he her here him his how i if in into is it its just let like me more my no not now of on one or our out
    she so some than that the their them then there these they this to up us was we were what when where which who
    will with would you your""".split()  # noqa: SIM905 - a list of literals would be a page long
)
HEAD_PIECES, HEAD_CHARACTERS = 200, 2000
"""Part of a text that detection reads; later text cannot change the language."""


def content_words(texts: Iterable[str]) -> set[str]:
    """Return the distinct words of some texts in one language, without its function words."""
    every = list(texts)
    return _content_words(every, recognised(pieces(" ".join(every)), ENGLISH))


def _content_words(texts: Iterable[str], language: Language) -> set[str]:
    stop_words = STOP_WORDS if language is ENGLISH else language.function_words
    return {word for text in texts for word in vocabulary(language).tokens(text)} - stop_words


_document_words: WeakValueDictionary[tuple[str, ...], frozenset[str]] = WeakValueDictionary()
"""Content words by document texts, shared by all conversations with the same documents."""


class RunningWords:
    """Totals over one conversation, extended by each turn at the cost of its own length.

    They equal those over all turns at once: while later text can change the language, it is detected again and the
    content words are collected again from the few words so far.

    Attributes:
        count, words: Number of turns of the other speakers, and of words in them.
        content: Distinct content words of these turns.
    """

    __slots__ = ("_documents", "_head", "_heard", "_language", "_role", "_texts", "content", "count", "words")

    def __init__(self) -> None:
        self._documents: tuple[tuple[Document, ...], frozenset[str]] | None = None
        self._begin(None)

    def _begin(self, role: str | None) -> None:
        self._role, self._heard = role, 0
        self._head: list[str] | None = []  # `None` once later text cannot change the language
        self._texts: list[str] = []
        self._language = ENGLISH
        self.count, self.words, self.content = 0, 0, set[str]()

    @property
    def size(self) -> int:
        """Approximate memory in bytes, without the words of documents, which conversations share."""
        return ENTRY * len(self.content) + sum(map(len, self._texts))

    def at(self, conversation: Conversation) -> ConversationWords:
        """Return the words of a conversation that continues the previous one; valid until the next call."""
        replies = conversation.replies
        role = replies[0].role if replies else None
        if role != self._role or len(conversation.turns) < self._heard:
            self._begin(role)
        for place in range(self._heard, len(conversation.turns)):
            turn = conversation.turns[place]
            if turn.role != role and turn.role not in NON_SPEAKERS:
                self._add(turn.content)
        self._heard = len(conversation.turns)
        return ConversationWords(conversation, self)

    def _add(self, text: str) -> None:
        """Add a turn of another speaker."""
        words = tokens(text)
        self.count, self.words = self.count + 1, self.words + len(words)
        if self._head is not None:
            self._recognise(self._head, text)
        self.content |= set(words) - STOP_WORDS if self._language is ENGLISH else _content_words([text], self._language)

    def _recognise(self, head: list[str], text: str) -> None:
        """Detect the language with one more text, and collect the words again if it changed."""
        head += pieces(text)[:HEAD_PIECES]
        language = recognised(head, ENGLISH)
        if language is not self._language:
            self._language, self.content = language, _content_words(self._texts, language)
        self._texts.append(text)
        if len(head) >= HEAD_PIECES or sum(map(len, head)) >= HEAD_CHARACTERS:
            self._head, self._texts = None, []

    def document_words(self, documents: tuple[Document, ...]) -> frozenset[str]:
        """The distinct content words of the conversation's documents."""
        if self._documents is None or self._documents[0] != documents:
            texts = tuple(document.text for document in documents)
            words = _document_words.get(texts)
            if words is None:
                words = _document_words[texts] = frozenset(content_words(texts))
            self._documents = documents, words
        return self._documents[1]


class ConversationWords:
    """The part of a conversation that lexical metrics count, each value computed on first use.

    Attributes:
        replies: Texts of the replies; one text for a sample with a turn.
        others: Totals over the turns of the other speakers.
    """

    def __init__(self, conversation: Conversation, others: RunningWords) -> None:
        self.turns, self.replies = len(conversation.turns), [turn.content for turn in conversation.replies]
        self.others, self._documents = others, conversation.documents

    @lazy
    def reply_words(self) -> list[list[str]]:
        """The words of each reply."""
        return list(map(tokens, self.replies))

    @lazy
    def reply_content(self) -> set[str]:
        """The distinct content words of the replies."""
        return content_words(self.replies)

    @property
    def document_content(self) -> frozenset[str] | None:
        """The distinct content words of the documents; `None` without documents."""
        return self.others.document_words(self._documents) if self._documents else None


class LexicalMetric:
    """A metric of conversations that live scoring can measure turn by turn."""

    def __init__(self, measure: Callable[[ConversationWords], float | None]) -> None:
        self.measure = measure
        update_wrapper(self, measure)

    def __call__(self, conversation: Conversation) -> float | None:
        """Measure a conversation; return `None` if the metric does not apply."""
        return self.measure(RunningWords().at(conversation))


Metric = Callable[[Conversation], float | None]
"""A number about a conversation, or `None` if it does not apply (no document to compare with)."""

metrics: Registry[Metric] = Registry(
    "metric", contract=Contract.function(1, "a function of one Conversation", "check_metric")
)
"""Metrics of conversations: functions from a `Conversation` to a number, or `None` if the metric does not apply."""


def _rate(words: ConversationWords, pattern: str) -> float | None:
    return fmean(bool(re.search(pattern, text)) for text in words.replies) if words.replies else None


def _share(part: Set[str], whole: Set[str]) -> float | None:
    return len(part & whole) / len(part) if part else None


def turns(words: ConversationWords) -> float | None:
    """Number of turns."""
    return words.turns or None


def words_per_reply(words: ConversationWords) -> float | None:
    """Mean number of words in a reply."""
    return fmean(map(len, words.reply_words)) if words.replies else None


def question_rate(words: ConversationWords) -> float | None:
    """Share of replies that ask a question."""
    return _rate(words, r"\?")


def citation_rate(words: ConversationWords) -> float | None:
    """Share of replies that cite a document as `[1]`."""
    return _rate(words, r"\[\d+\]")


def apology_rate(words: ConversationWords) -> float | None:
    """Share of replies that apologize or decline."""
    return _rate(words, r"(?i)\b(sorry|apologi[sz]e|apologies|unfortunately|unable|cannot|can't)\b")


def distinct_words(words: ConversationWords) -> float | None:
    """Distinct words of all replies over their number (distinct-1; Li et al., NAACL 2016)."""
    all_words = [word for reply in words.reply_words for word in reply]
    return len(set(all_words)) / len(all_words) if all_words else None


def repetition(words: ConversationWords) -> float | None:
    """Share of the replies' word trigrams that occur in an earlier reply."""
    trigrams = [tuple(reply[i : i + 3]) for reply in words.reply_words for i in range(len(reply) - 2)]
    return 1 - len(set(trigrams)) / len(trigrams) if trigrams else None


def overlap_documents(words: ConversationWords) -> float | None:
    """Share of the replies' content words that occur in a document; `None` without documents."""
    documents = words.document_content
    return None if documents is None else _share(words.reply_content, documents)


def overlap_user(words: ConversationWords) -> float | None:
    """Share of the user's content words that the replies repeat."""
    return _share(words.others.content, words.reply_content)


def user_words(words: ConversationWords) -> float | None:
    """Mean number of words in a user's turn."""
    return words.others.words / words.others.count if words.others.count else None


_LEXICAL = {
    each.__name__.replace("_", "-"): each
    for each in (
        turns, words_per_reply, question_rate, citation_rate, apology_rate, distinct_words, repetition,
        overlap_documents, overlap_user, user_words,
    )
}  # fmt: skip
LEXICAL = tuple(_LEXICAL)
"""Names of the lexical metrics, in the order of their columns."""
for _name, _measure in _LEXICAL.items():
    metrics.register(_name)(LexicalMetric(_measure))


# --- metrics of replies -------------------------------------------------------------------------------------------

NOTHING = "nothing to measure"
"""Reason for a missing value of a metric that returned `None`."""
WORDLESS = f"{NOTHING}: the reply has no words"
"""Reason for missing values of a reply without letters or digits."""
FEWEST_COPIED, MOSTLY = 20, 0.8
"""Minimum run of copied words, and minimum share of copied words, of a reply that counts as a copy."""

Values = dict[str, float | None]


class MetricSession:
    """State of the metrics of replies in one conversation.

    Attributes:
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
        return self._measure_replies(conversation, speaker)

    def _measure_replies(self, conversation: Conversation, speaker: str | None) -> tuple[Values, dict[str, str]]:
        """Return the mean of each metric over the replies of a conversation; `speaker` is their role."""
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

    def say(self, text: str) -> None:
        """Add a reply without measuring it."""
        self.history.add(self._parsed(text), is_reply=True)

    def _parsed(self, text: str) -> ParsedText:
        """Parse a message. Documents whose language cannot be detected get the message's language."""
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


def _speaker(conversation: Conversation, turn: int | None) -> str | None:
    """Return the role that replies."""
    if turn is not None:
        return conversation.turns[turn].role
    replies = conversation.replies
    return replies[0].role if replies else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None
