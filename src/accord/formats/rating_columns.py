"""Ratings that stand beside the text, or in a table of their own, under any name: who answered what, and how.

A rating is a cell of a row (`rating: 4`), one of a list (`ratings: [4, 5]`, whose places stand for people), one per
person in columns (`rater1`, `fluency_r2`), an entry of a mapping (`feedback: {helpful: true}`) or of a list of mappings
(`annotations: [{annotator, question, value}]`). Which of the cells are ratings at all is for the caller to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, NamedTuple

from accord.edges import is_sendable
from accord.formats.openai_messages import turn_index
from accord.formats.record import ANNOTATOR_KEYS, RATED_ROWS, WrongShape
from accord.values import Conversation, Label, PlainTurns, Target

UNNAMED = "unnamed"
"""Who rated, where nothing says it."""
RATING = "rating"
"""Name of the question that several raters answer in a column each, where the file does not name it."""
VALUE_KEYS = ("value", "rating", "score", "label", "answer", "result")
QUESTION_KEYS = ("question", "question_id", "dimension", "criterion", "aspect", "metric", "key", "name")
CONTAINERS = (
    "ratings", "rating", "annotations", "labels", "scores", "feedback", "evaluation", "evaluations", "human_ratings",
    "human_scores", "judgments", "judgements", "survey",
)  # fmt: skip
"""What an entry is called that holds ratings of several questions or people."""
_PERSON = r"(?:r|h|rater|annotator|judge|worker|coder|expert|human|labeler|reviewer)[ _-]?\d{1,2}"
_BY_PERSON = re.compile(
    rf"(?:(?P<before>.+?)[ _-])?(?P<who>{_PERSON})(?:[ _-](?P<after>.+))?", re.IGNORECASE | re.ASCII
)
_NOT_WIDE = {*ANNOTATOR_KEYS, "time", "timestamp", "rated_at", "created_at", "comment", "turn", "turn_index", "id"}

_NAMED = {
    "rating", "ratings", "rate", "rated", "score", "scores", "grade", "star", "stars", "quality", "satisfaction",
    "satisfied", "csat", "nps", "ces", "helpful", "helpfulness", "useful", "usefulness", "correct", "correctness",
    "accuracy", "accurate", "relevance", "relevant", "fluency", "fluent", "coherence", "coherent", "engaging",
    "engagingness", "engagement", "natural", "naturalness", "overall", "thumbs", "thumb", "thumbsup", "like", "liked",
    "likes", "vote", "upvote", "feedback", "label", "verdict", "resolved", "solved", "resolution", "success",
    "successful", "good", "bad", "harmless", "harmlessness", "safety", "safe", "toxic", "toxicity", "polite",
    "politeness", "empathy", "empathetic", "friendly", "friendliness", "tone", "groundedness", "grounded", "faithful",
    "faithfulness", "factuality", "factual", "consistent", "consistency", "completeness", "complete", "clear",
    "clarity", "understandable", "appropriate", "appropriateness", "preference", "likert", "opinion", "judgment",
    "judgement", "sentiment", "trust", "bewertung", "note", "zufriedenheit", "zufrieden", "qualität",
    "qualitaet", "hilfreich", "punkte", "sterne", "daumen", "gut", "calificación", "calificacion", "évaluation",
    "valutazione", "puntuación", "puntuacion", "satisfacción", "satisfaccion", "calidad", "avaliação", "avaliacao",
    "satisfação", "qualidade", "qualité", "qualite", "voto", "qualità", "soddisfazione", "оценка", "качество",
    "评分", "分数", "打分", "得分", "评价", "满意度", "质量", "評価", "満足度", "평점", "만족도",
}  # fmt: skip


class RatingCell(NamedTuple):
    """One answer as a file gives it: the turn (`None` for the whole), the question, who, and the raw value."""

    turn: int | None
    question: str
    annotator: str | None
    value: Any
    is_marked: bool = False
    """True for a cell of a field that holds only ratings."""


def words_of(name: str) -> list[str]:
    """The words of a column's name, in lower case.

    >>> words_of("userRating_1"), words_of("Maintains Context")
    (['user', 'rating', '1'], ['maintains', 'context'])
    """
    return [word.casefold() for word in re.findall(r"[A-ZÄÖÜ]?[^\W\d_A-ZÄÖÜ]+|[A-ZÄÖÜ]+(?![a-zäöü])|\d+", name)]


def is_rating_name(name: str) -> bool:
    """Whether the name of a column says that it holds ratings."""
    words = set(words_of(name))
    return bool(words & _NAMED) and not words & {"id", "ids", "comment", "comments", "reason", "explanation", "model"}


def number_in(text: str) -> float | None:
    """The number that a text writes in plain digits, with a decimal comma too where it has one; `None` for any other.

    >>> number_in("4"), number_in("3,5"), number_in("four")
    (4.0, 3.5, None)
    """
    if re.fullmatch(r"[+-]?\d{1,15},\d{1,2}", text, re.ASCII):
        text = text.replace(",", ".")
    if not re.fullmatch(r"[+-]?(\d{1,15}(\.\d*)?|\.\d+)(e[+-]?\d{1,2})?", text, re.ASCII | re.IGNORECASE):
        return None
    return float(text)


def answers_in(row: Mapping[str, Any], annotator: str | None = None, marked: bool = False) -> Iterator[RatingCell]:
    """Every answer that a row may hold: all its plain cells, and what lists and mappings of ratings hold."""
    who = annotator or next((str(row[key]) for key in ANNOTATOR_KEYS if row.get(key) not in (None, "")), None)
    by_person = {
        name: match for name in row if isinstance(name, str) and (match := _BY_PERSON.fullmatch(name)) is not None
    }
    several = len({match["who"].casefold() for match in by_person.values()}) > 1
    for name, raw in row.items():
        value = _decoded(raw) if name in CONTAINERS else raw
        if name in ANNOTATOR_KEYS or value is None or value == "" or not isinstance(name, str):
            continue
        if several and name in by_person:
            match = by_person[name]
            question = match["before"] or match["after"] or "rating"
            if _is_plain(value):
                yield RatingCell(None, question, match["who"], value, True)
        elif _is_plain(value):
            yield RatingCell(None, name, who, value, marked)
        elif isinstance(value, list | tuple):
            yield from _listed(name, value, who)
        elif isinstance(value, Mapping) and (marked or name in CONTAINERS):
            yield from _mapped(name, value, who)


def _listed(name: str, values: Collection[Any], who: str | None) -> Iterator[RatingCell]:
    """A list of answers, whose places stand for people, or of mappings, each a rating."""
    if all(each is None or isinstance(each, bool | int | float) for each in values):
        for place, value in enumerate(values, 1):
            if value is not None:
                yield RatingCell(None, _single(name), f"r{place}", value)
    elif name in CONTAINERS:
        for place, each in enumerate(values, 1):
            if isinstance(each, Mapping):
                yield from _entry(name, each, who or (None if _named(each) else f"r{place}"), len(values) > 1)


def _entry(name: str, entry: Mapping[str, Any], who: str | None, several: bool) -> Iterator[RatingCell]:
    """One of a list of ratings: a question with its value, or a column per question."""
    annotator = _named(entry) or (who if several else None)
    turn = next((turn_index(entry[key]) for key in ("turn", "turn_index") if entry.get(key) is not None), None)
    question = next((entry[key] for key in QUESTION_KEYS if isinstance(entry.get(key), str)), None)
    value = next((entry[key] for key in VALUE_KEYS if entry.get(key) is not None), None)
    if value is not None and (question is not None or not _others(entry)) and _is_plain(value):
        by = annotator if annotator and (_named(entry) or question is None) else None
        yield RatingCell(turn, question or _single(name), by, value, True)
        return
    for found in answers_in({k: v for k, v in entry.items() if k not in _NOT_WIDE}, annotator, True):
        yield found._replace(turn=turn)


def _others(entry: Mapping[str, Any]) -> list[str]:
    """Cells of a rating that are neither its value nor about it."""
    known = {*VALUE_KEYS, *_NOT_WIDE, *QUESTION_KEYS}
    return [key for key, value in entry.items() if key not in known and isinstance(value, bool | int | float)]


def _mapped(name: str, entry: Mapping[str, Any], who: str | None) -> Iterator[RatingCell]:
    """Answers by question, or by person and question; `{"value": 4}` is one answer to what it stands under."""
    plain = {key: value for key, value in entry.items() if _is_plain(value)}
    value = next((plain[key] for key in VALUE_KEYS if key in plain), None)
    if value is not None and not _others(entry):
        question = next((plain[key] for key in QUESTION_KEYS if isinstance(plain.get(key), str)), None)
        yield RatingCell(None, question or _single(name), _named(entry) or who, value, True)
        return
    for key, inner in entry.items():
        if not isinstance(inner, Mapping):
            continue
        value = next((inner[name] for name in VALUE_KEYS if _is_plain(inner.get(name))), None)
        of_person = _BY_PERSON.fullmatch(key) or ("rating" in inner and not is_rating_name(key))
        if value is not None and not _others(inner) and not of_person:
            yield RatingCell(None, key, _named(inner) or who, value, True)
            continue
        for found in answers_in(inner, None, True):
            if of_person or (is_rating_name(found.question) and not is_rating_name(key)):
                yield found._replace(annotator=key)
            else:
                yield found._replace(question=key, annotator=found.annotator or found.question)
    rest = {key: value for key, value in entry.items() if not isinstance(value, Mapping) and key not in _NOT_WIDE}
    yield from answers_in(rest, _named(entry) or who, True)


def _named(entry: Mapping[str, Any]) -> str | None:
    return next((str(entry[key]) for key in ANNOTATOR_KEYS if _is_plain(entry.get(key))), None)


def _single(name: str) -> str:
    """`ratings` hold a `rating`."""
    return "rating" if name in CONTAINERS else name


def _decoded(value: Any) -> Any:
    """The value inside JSON text, where a cell of a table holds a list or a mapping."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and value != "")


def answers_beside(conversation: Conversation) -> Iterator[RatingCell]:
    """Every answer that may stand beside a conversation's text, about the whole and about its turns."""
    metadata = dict(conversation.metadata)
    rows = metadata.pop(RATED_ROWS, None) or ()
    for row in rows if isinstance(rows, list | tuple) else ():
        cells = {key: value for key, value in row.items() if key not in _NOT_WIDE} if isinstance(row, Mapping) else {}
        for each in answers_in(cells, _named(row) or None):
            yield each._replace(turn=turn_index(row.get("turn")))
        metadata = {key: value for key, value in metadata.items() if key not in cells}
    yield from answers_in(metadata)
    if isinstance(conversation.turns, PlainTurns):
        return
    for place, turn in enumerate(conversation.turns):
        for found in answers_in(turn.extra):
            yield found._replace(turn=place)


def labels_beside(
    conversation: Conversation,
    questions: Collection[str],
    turns: Collection[str] = (),
    raters: Mapping[str, str] = {},
) -> list[Label]:
    """Return the answers to some questions in a conversation's columns or metadata as labels, with raw values.

    Args:
        conversation: The conversation.
        questions: Names of the questions.
        turns: Questions about turns: an answer about the whole conversation is repeated for each reply.
        raters: Columns that each hold one person's ratings, with the person: answers to `RATING`.

    Raises:
        WrongShape: A value or an annotator cannot be stored.
    """
    found: list[Label] = []
    wanted = {*questions, *raters}
    if _is_bare(conversation, wanted):
        return found
    for each in answers_beside(conversation):
        if each.question not in wanted:
            continue
        who = UNNAMED if each.annotator is None else each.annotator
        question = each.question
        if question in raters:
            who, question = raters[question], RATING
        if not is_sendable(who) or (isinstance(each.value, str) and not is_sendable(each.value)):
            raise WrongShape(f"{question} {each.value!r} by {who!r} is no text that can be kept")
        places: list[int | None] = [each.turn]
        if each.turn is None and question in turns:
            replies = {id(turn) for turn in conversation.replies}
            places = [place for place, turn in enumerate(conversation.turns) if id(turn) in replies]
        found += [Label(Target(conversation.id, place), question, who, each.value) for place in places]
    return found


def _is_bare(conversation: Conversation, questions: AbstractSet[str]) -> bool:
    """Return True if a conversation can hold no answer to the questions, without a look at its values."""
    metadata = conversation.metadata
    is_plain = isinstance(conversation.turns, PlainTurns) and questions.isdisjoint(metadata)
    return is_plain and not any(map(_may_tell_more, metadata))


@lru_cache(maxsize=1024)
def _may_tell_more(name: Any) -> bool:
    """Return True if the entry of this name may hold answers to questions of other names."""
    return not isinstance(name, str) or name in CONTAINERS or name == RATED_ROWS or bool(_BY_PERSON.fullmatch(name))
