"""Lexical metrics: counts over the words of a conversation, updated turn by turn for live scoring.

Each metric is a weak predictor alone; a learned evaluator weighs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from functools import update_wrapper
from statistics import fmean
from weakref import WeakValueDictionary

from accord.evidence.bank.reply_features import ENTRY, lazy
from accord.evidence.bank.words import ENGLISH, Language, pieces, recognised, tokens, vocabulary
from accord.values import NON_SPEAKERS, Conversation, Document, Registry

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

    The totals equal those of `content_words` over all turns at once: while later text can change the language, it is
    detected again and the content words are collected again from the few words so far.

    Attributes:
        count: Number of turns of the other speakers.
        words: Number of words in these turns.
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
        turns: Number of turns.
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

metrics: Registry[Metric] = Registry("metric")


_CITATION = re.compile(r"\[\d+\]")
_APOLOGY = re.compile(r"\b(sorry|apologi[sz]e|apologies|unfortunately|unable|cannot|can't)\b", re.IGNORECASE)
_QUESTION = re.compile(r"\?")


def _rate(words: ConversationWords, pattern: re.Pattern[str]) -> float | None:
    return fmean(bool(pattern.search(text)) for text in words.replies) if words.replies else None


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
    return _rate(words, _QUESTION)


def citation_rate(words: ConversationWords) -> float | None:
    """Share of replies that cite a document as `[1]`."""
    return _rate(words, _CITATION)


def apology_rate(words: ConversationWords) -> float | None:
    """Share of replies that apologize or decline."""
    return _rate(words, _APOLOGY)


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


for _measure in (
    turns, words_per_reply, question_rate, citation_rate, apology_rate, distinct_words, repetition, overlap_documents,
    overlap_user, user_words,
):  # fmt: skip
    metrics.register(_measure.__name__.replace("_", "-"))(LexicalMetric(_measure))
