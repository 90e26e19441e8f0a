"""Lexical evidence: cheap counts over the words of a conversation; no model, no download.

Each is a weak witness on its own; a learned evaluator finds out which to trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import fmean

from accord.evidence.bank.languages import ENGLISH, recognised
from accord.evidence.bank.words import pieces, vocabulary
from accord.evidence.bank.words import tokens as words
from accord.evidence.metrics import metrics
from accord.values import Conversation

_CITATION = re.compile(r"\[\d+\]")
_APOLOGY = re.compile(r"\b(sorry|apologi[sz]e|apologies|unfortunately|unable|cannot|can't)\b", re.IGNORECASE)
STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be because been but by can could did do does for from get had
    has have he her here him his how i if in into is it its just let like me more my no not now of on one or our out
    she so some than that the their them then there these they this to up us was we were what when where which who
    will with would you your""".split()  # noqa: SIM905 - a list of literals would be a page long
)


def content_words(texts: Iterable[str]) -> set[str]:
    """The distinct words of some texts in one language, its function words left out."""
    every = list(texts)
    language = recognised(pieces(" ".join(every)), ENGLISH)
    left_out = STOP_WORDS if language is ENGLISH else language.function_words
    return {word for text in every for word in vocabulary(language).tokens(text)} - left_out


def _rate(conversation: Conversation, pattern: re.Pattern[str]) -> float | None:
    replies = conversation.replies
    return fmean(bool(pattern.search(turn.content)) for turn in replies) if replies else None


def _share(part: set[str], whole: set[str]) -> float | None:
    return len(part & whole) / len(part) if part else None


@metrics.register("turns")
def turns(conversation: Conversation) -> float | None:
    """Number of turns."""
    return len(conversation.turns) or None


@metrics.register("words-per-reply")
def words_per_reply(conversation: Conversation) -> float | None:
    """Mean number of words in a reply."""
    replies = conversation.replies
    return fmean(len(words(turn.content)) for turn in replies) if replies else None


@metrics.register("question-rate")
def question_rate(conversation: Conversation) -> float | None:
    """Share of replies that ask something."""
    return _rate(conversation, re.compile(r"\?"))


@metrics.register("citation-rate")
def citation_rate(conversation: Conversation) -> float | None:
    """Share of replies that cite a document as `[1]`."""
    return _rate(conversation, _CITATION)


@metrics.register("apology-rate")
def apology_rate(conversation: Conversation) -> float | None:
    """Share of replies that apologise or decline."""
    return _rate(conversation, _APOLOGY)


@metrics.register("distinct-words")
def distinct_words(conversation: Conversation) -> float | None:
    """Distinct words of all replies over their number (distinct-1; Li et al., NAACL 2016)."""
    said = [word for turn in conversation.replies for word in words(turn.content)]
    return len(set(said)) / len(said) if said else None


@metrics.register("repetition")
def repetition(conversation: Conversation) -> float | None:
    """Share of the replies' word trigrams that a reply has said before."""
    said = [words(turn.content) for turn in conversation.replies]
    trigrams = [tuple(reply[i : i + 3]) for reply in said for i in range(len(reply) - 2)]
    return 1 - len(set(trigrams)) / len(trigrams) if trigrams else None


@metrics.register("overlap-documents")
def overlap_documents(conversation: Conversation) -> float | None:
    """Share of the replies' content words that stand in a document; nothing where there are no documents."""
    if not conversation.documents:
        return None
    replies = content_words(turn.content for turn in conversation.replies)
    return _share(replies, content_words(document.text for document in conversation.documents))


@metrics.register("overlap-user")
def overlap_user(conversation: Conversation) -> float | None:
    """Share of the user's content words that the replies take up."""
    user = content_words(turn.content for turn in conversation.others)
    return _share(user, content_words(turn.content for turn in conversation.replies))


@metrics.register("user-words")
def user_words(conversation: Conversation) -> float | None:
    """Mean number of words in a user's turn."""
    user = conversation.others
    return fmean(len(words(turn.content)) for turn in user) if user else None
