"""Lexical evidence: cheap counts over the words of a conversation; no model, no download.

Each metric is a weak predictor alone; a learned evaluator weighs them. They are measured turn by turn
(`ConversationWords`), so that live scoring can use them.
"""

from __future__ import annotations

import re
from collections.abc import Set
from statistics import fmean

from accord.evidence.bank.conversation_words import ConversationWords, LexicalMetric
from accord.evidence.metrics import metrics

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
    """Share of replies that ask something."""
    return _rate(words, _QUESTION)


def citation_rate(words: ConversationWords) -> float | None:
    """Share of replies that cite a document as `[1]`."""
    return _rate(words, _CITATION)


def apology_rate(words: ConversationWords) -> float | None:
    """Share of replies that apologise or decline."""
    return _rate(words, _APOLOGY)


def distinct_words(words: ConversationWords) -> float | None:
    """Distinct words of all replies over their number (distinct-1; Li et al., NAACL 2016)."""
    said = [word for reply in words.reply_words for word in reply]
    return len(set(said)) / len(said) if said else None


def repetition(words: ConversationWords) -> float | None:
    """Share of the replies' word trigrams that a reply has said before."""
    trigrams = [tuple(reply[i : i + 3]) for reply in words.reply_words for i in range(len(reply) - 2)]
    return 1 - len(set(trigrams)) / len(trigrams) if trigrams else None


def overlap_documents(words: ConversationWords) -> float | None:
    """Share of the replies' content words that stand in a document; nothing where there are no documents."""
    documents = words.document_content
    return None if documents is None else _share(words.reply_content, documents)


def overlap_user(words: ConversationWords) -> float | None:
    """Share of the user's content words that the replies take up."""
    return _share(words.others.content, words.reply_content)


def user_words(words: ConversationWords) -> float | None:
    """Mean number of words in a user's turn."""
    return words.others.words / words.others.count if words.others.count else None


for _measure in (
    turns, words_per_reply, question_rate, citation_rate, apology_rate, distinct_words, repetition, overlap_documents,
    overlap_user, user_words,
):  # fmt: skip
    metrics.register(_measure.__name__.replace("_", "-"))(LexicalMetric(_measure))
