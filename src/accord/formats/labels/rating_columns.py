"""Ratings in columns or metadata under any name, next to the text or in a separate table.

A rating is a cell (`rating: 4`), an element of a list with one position per annotator (`ratings: [4, 5]`), a column per
annotator (`rater1`, `fluency_r2`) or per annotator and question (`Anna Clarity`), an entry of an object (`feedback:
{helpful: true}`), or an object in a list (`annotations: [{annotator, question, value}]`). The caller selects the cells
that are ratings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from accord.edges import is_sendable
from accord.formats.openai_messages import turn_index
from accord.formats.record import ANNOTATOR_KEYS, RATED_ROWS, WrongShape, plain_name
from accord.values import Conversation, Label, PlainTurns, Target

UNNAMED = "unnamed"
"""Annotator of ratings without one."""
RATING = "rating"
"""Name of the question that annotators answer in a column each, if the file has no name for it."""
VALUE_KEYS = ("value", "rating", "score", "label", "answer", "result")
QUESTION_KEYS = ("question", "question_id", "dimension", "criterion", "aspect", "metric", "key", "name")
CONTAINERS = (
    "ratings", "rating", "annotations", "labels", "scores", "feedback", "evaluation", "evaluations", "human_ratings",
    "human_scores", "judgments", "judgements", "survey",
)  # fmt: skip
"""Names of entries with ratings on several questions or by several annotators."""
_PERSON = r"(?:r|h|rater|annotator|judge|worker|coder|expert|human|labeler|reviewer)[ _-]?\d{1,2}"
_BY_PERSON = re.compile(
    rf"(?:(?P<before>.+?)[ _-])?(?P<who>{_PERSON})(?:[ _-](?P<after>.+))?",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_NOT_WIDE = {
    *ANNOTATOR_KEYS,
    "judge",
    "time",
    "timestamp",
    "rated_at",
    "created_at",
    "comment",
    "turn",
    "turn_index",
    "id",
}

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
    """Answer as a file has it: turn (`None` for the conversation), question, annotator, and raw value."""

    turn: int | None
    question: str
    annotator: str | None
    value: Any
    is_marked: bool = False
    """True for a cell of a field that holds only ratings."""


def words_of(name: str) -> list[str]:
    """Split the name of a column into words in lower case.

    >>> words_of("userRating_1"), words_of("Maintains Context")
    (['user', 'rating', '1'], ['maintains', 'context'])
    """
    return [word.casefold() for word in re.findall(r"[A-ZÄÖÜ]?[^\W\d_A-ZÄÖÜ]+|[A-ZÄÖÜ]+(?![a-zäöü])|\d+", name)]


def is_rating_name(name: str) -> bool:
    """Return True if a column is named like a rating."""
    words = set(words_of(name))
    return bool(words & _NAMED) and not words & {"id", "ids", "comment", "comments", "reason", "explanation", "model"}


def number_in(text: str) -> float | None:
    """Return the number of a text in plain digits, also with a decimal comma; `None` for any other text.

    A comma before three digits may separate thousands, except after a zero.

    >>> number_in("4"), number_in("3,5"), number_in("0,125"), number_in("1,125"), number_in("four")
    (4.0, 3.5, 0.125, None, None)
    """
    if re.fullmatch(r"[+-]?(\d{1,15},(\d{1,2}|\d{4,20})|0,\d{3})", text, re.ASCII):
        text = text.replace(",", ".")
    if not re.fullmatch(r"[+-]?(\d{1,15}(\.\d*)?|\.\d+)(e[+-]?\d{1,2})?", text, re.ASCII | re.IGNORECASE):
        return None
    return float(text)


def answers_in(row: Mapping[str, Any], annotator: str | None = None, is_marked: bool = False) -> Iterator[RatingCell]:
    """Yield every possible answer of a row: plain cells, and ratings in lists and objects.

    The annotator is by default the one that the row names. `is_marked` is set for rows of fields that hold only
    ratings.
    """
    names = {name for name in row if isinstance(name, str) and plain_name(name) in ANNOTATOR_KEYS}
    named = {plain_name(name): row[name] for name in names}
    if not annotator and (who := _first(named, ANNOTATOR_KEYS, lambda cell: cell not in (None, ""))) is not None:
        annotator = str(who)
    by_person = _columns_by_person(row)
    for name, raw in row.items():
        if raw is None or name in names or not isinstance(name, str) or not name.strip():
            continue
        if isinstance(raw, str) and not raw.strip():
            continue
        value = _decoded(raw) if name in CONTAINERS else raw
        if _is_plain(value):
            question, person = by_person.get(name, (name, None))
            yield RatingCell(None, question, person or annotator, value, is_marked or person is not None)
        elif name in by_person:
            continue
        elif isinstance(value, list | tuple):
            yield from _answers_of_list(name, value, annotator)
        elif isinstance(value, Mapping) and (is_marked or name in CONTAINERS):
            yield from _answers_of_object(name, value, annotator)


def _columns_by_person(row: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """Return question and annotator of the columns that name an annotator; empty if they name only one annotator."""
    return _split_columns(tuple(name for name in row if isinstance(name, str)))


@lru_cache(maxsize=1024)
def _split_columns(names: tuple[str, ...]) -> Mapping[str, tuple[str, str]]:
    matches = {name: match for name in names if (match := _BY_PERSON.fullmatch(name))}
    if len({match["who"].casefold() for match in matches.values()}) > 1:
        return {name: (match["before"] or match["after"] or "rating", match["who"]) for name, match in matches.items()}
    named = [name for name in names if _has_first_name(name)]
    pairs = (_people_and_questions(named, words, is_last) for is_last in (False, True) for words in (1, 2))
    return next((found for found in pairs if found), {})


def _people_and_questions(names: Collection[str], words: int, is_last: bool) -> dict[str, tuple[str, str]]:
    """Return question and annotator of columns such as `Anna Clarity`, of two or more annotators and questions each.

    Args:
        names: Names of the columns.
        words: Number of words of an annotator's name, which begins with a first name.
        is_last: True if the annotator's name follows the question.
    """
    found: dict[str, tuple[str, str]] = {}
    for name in names:
        parts = re.split(r"([ _.:/-]+)", name)  # words and the marks between them
        place = len(parts) - 2 * words if is_last else 2 * words - 1
        if 0 < place < len(parts) - 1:
            before, after = "".join(parts[:place]), "".join(parts[place + 1 :])
            question, who = (before, after) if is_last else (after, before)
            if re.split(r"[ _.:/-]+", who)[0].casefold() in first_names():
                found[name] = (question, who)
    people: dict[str, set[str]] = {}
    for question, who in found.values():
        people.setdefault(question, set()).add(who)
    shared = {question for question, each in people.items() if len(each) > 1}
    if len(shared) < 2 or not any(map(is_rating_name, shared)):
        return {}
    return {name: pair for name, pair in found.items() if pair[0] in shared}


@lru_cache(maxsize=4096)
def _has_first_name(name: str) -> bool:
    """Return True if the name of a column has several words, and one of its first or last two is a first name."""
    words = [word.casefold() for word in re.split(r"[ _.:/-]+", name) if word]
    return len(words) > 1 and not first_names().isdisjoint((words[0], *words[-2:]))


@cache
def first_names() -> frozenset[str]:
    """Return common first names in lower case."""
    return frozenset((files("accord.formats.tables") / "first_names.txt").read_text(encoding="utf-8").split())


def _answers_of_list(name: str, values: Collection[Any], annotator: str | None) -> Iterator[RatingCell]:
    """Yield the answers of a list of values, one per annotator, or of a list of objects, one per rating."""
    if all(value is None or isinstance(value, bool | int | float) for value in values):
        for position, value in enumerate(values, 1):
            if value is not None:
                yield RatingCell(None, _singular(name), f"r{position}", value)
    elif name in CONTAINERS:
        for position, entry in enumerate(values, 1):
            if isinstance(entry, Mapping):
                by = annotator or (None if _annotator_of(entry) else f"r{position}")
                yield from _answers_of_entry(name, entry, by, len(values) > 1)


def _answers_of_entry(name: str, entry: Mapping[str, Any], by: str | None, has_several: bool) -> Iterator[RatingCell]:
    """Yield the answers of an object in a list: a question with its value, or an entry per question."""
    annotator = _annotator_of(entry) or (by if has_several else None)
    turn = next((turn_index(entry[key]) for key in ("turn", "turn_index") if entry.get(key) is not None), None)
    question = _first(entry, QUESTION_KEYS, lambda value: isinstance(value, str))
    value = _first(entry, VALUE_KEYS, lambda value: value is not None)
    if _is_plain(value) and (question is not None or not _others(entry)):
        is_known = _annotator_of(entry) or question is None
        yield RatingCell(turn, question or _singular(name), annotator if is_known else None, value, True)
        return
    for cell in answers_in({k: v for k, v in entry.items() if k not in _NOT_WIDE}, annotator, True):
        yield cell._replace(turn=turn)


def _others(entry: Mapping[str, Any]) -> list[str]:
    """Return the entries of a rating that are neither its value nor its annotator, question, time or comment."""
    known = {*VALUE_KEYS, *_NOT_WIDE, *QUESTION_KEYS}
    return [key for key, value in entry.items() if key not in known and isinstance(value, bool | int | float)]


def _answers_of_object(name: str, entry: Mapping[str, Any], annotator: str | None) -> Iterator[RatingCell]:
    """Yield answers by question, or by annotator and question; `{"value": 4}` answers the question `name`."""
    by = _annotator_of(entry) or annotator
    if (value := _only_value(entry)) is not None:
        question = _first(entry, QUESTION_KEYS, lambda value: isinstance(value, str) and value != "")
        yield RatingCell(None, question or _singular(name), by, value, True)
        return
    for key, inner in entry.items():
        if isinstance(inner, Mapping):
            yield from _answers_under(key, inner, annotator)
    rest = {key: value for key, value in entry.items() if not isinstance(value, Mapping) and key not in _NOT_WIDE}
    yield from answers_in(rest, by, True)


def _first(entry: Mapping[str, Any], keys: Iterable[str], fits: Callable[[Any], bool]) -> Any:
    """Return the first value under some keys that fits, or `None`."""
    return next((entry[key] for key in keys if fits(entry.get(key))), None)


def _only_value(entry: Mapping[str, Any]) -> Any:
    """Return the value of an object with a single rating, such as `{"value": 4}`; `None` if there are others."""
    value = _first(entry, VALUE_KEYS, _is_plain)
    return value if value is not None and not _others(entry) else None


def _answers_under(key: str, entry: Mapping[str, Any], annotator: str | None) -> Iterator[RatingCell]:
    """Yield the answers of an object inside an object; `key` is an annotator or a question."""
    is_person = _BY_PERSON.fullmatch(key) or ("rating" in entry and not is_rating_name(key))
    if not is_person and (value := _only_value(entry)) is not None:
        yield RatingCell(None, key, _annotator_of(entry) or annotator, value, True)
        return
    for cell in answers_in(entry, None, True):
        if is_person or (is_rating_name(cell.question) and not is_rating_name(key)):
            yield cell._replace(annotator=key)
        else:
            yield cell._replace(question=key, annotator=cell.annotator or cell.question)


def _annotator_of(entry: Mapping[str, Any]) -> str | None:
    named = {plain_name(key): value for key, value in entry.items() if isinstance(key, str)}
    return next((str(named[key]) for key in (*ANNOTATOR_KEYS, "judge") if _is_plain(named.get(key))), None)


def _singular(name: str) -> str:
    """Return `rating` for the name of a container."""
    return "rating" if name in CONTAINERS else name


def _decoded(value: Any) -> Any:
    """Decode a cell with the JSON text of a list or an object."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and value != "")


def rating_cells(conversation: Conversation) -> Iterator[RatingCell]:
    """Yield every possible answer in the metadata and the turns of a conversation."""
    metadata = dict(conversation.metadata)
    rows = metadata.pop(RATED_ROWS, None) or ()
    for row in rows if isinstance(rows, list | tuple) else ():
        cells = {key: value for key, value in row.items() if key not in _NOT_WIDE} if isinstance(row, Mapping) else {}
        for cell in answers_in(cells, _annotator_of(row)):
            yield cell._replace(turn=turn_index(row.get("turn")))
        metadata = {key: value for key, value in metadata.items() if key not in cells}
    yield from answers_in(metadata)
    if isinstance(conversation.turns, PlainTurns):
        return
    for number, turn in enumerate(conversation.turns):
        for cell in answers_in(turn.extra):
            yield cell._replace(turn=number)


def rating_labels(
    conversation: Conversation,
    questions: Collection[str],
    turn_questions: Collection[str] = (),
    raters: Mapping[str, str] = {},
    judge_of: Callable[[str, str | None], str | None] = lambda question, annotator: None,
    on_judged: Callable[[RatingCell, str], None] = lambda cell, judge: None,
) -> list[Label]:
    """Return the answers of people to questions in a conversation's columns or metadata as labels with raw values.

    Args:
        conversation: The conversation.
        questions: Names of the questions.
        turn_questions: Questions about turns: an answer about the whole conversation is repeated for each reply.
        raters: Columns that each hold the answers of one annotator to `RATING`, with the annotator.
        judge_of: Returns the judge that gave an answer by question and annotator, or `None` for a person
            (`TableRoles.judge_of`).
        on_judged: Called with each answer of a judge and the judge.

    Raises:
        WrongShape: A value or an annotator cannot be stored.
    """
    labels: list[Label] = []
    names = {*questions, *raters}
    if _has_no_answer(conversation, names):
        return labels
    for cell in rating_cells(conversation):
        if (judge := judge_of(cell.question, cell.annotator)) is not None:
            on_judged(cell, judge)
            continue
        if cell.question not in names:
            continue
        annotator = UNNAMED if cell.annotator is None else cell.annotator
        question = cell.question
        if question in raters:
            annotator, question = raters[question], RATING
        if not is_sendable(annotator) or (isinstance(cell.value, str) and not is_sendable(cell.value)):
            raise WrongShape(f"{question} {cell.value!r} by {annotator!r} cannot be stored as text")
        turns: list[int | None] = [cell.turn]
        if cell.turn is None and question in turn_questions:
            replies = {id(turn) for turn in conversation.replies}
            turns = [number for number, turn in enumerate(conversation.turns) if id(turn) in replies]
        labels += [Label(Target(conversation.id, turn), question, annotator, cell.value) for turn in turns]
    return labels


def _has_no_answer(conversation: Conversation, questions: AbstractSet[str]) -> bool:
    """Return True if the names of a conversation's metadata exclude an answer to the questions."""
    metadata = conversation.metadata
    is_plain = isinstance(conversation.turns, PlainTurns) and questions.isdisjoint(metadata)
    return is_plain and not any(map(_may_hold_others, metadata))


@lru_cache(maxsize=1024)
def _may_hold_others(name: Any) -> bool:
    """Return True if the entry of this name may hold answers to other questions."""
    if not isinstance(name, str) or name in CONTAINERS or name == RATED_ROWS:
        return True
    return bool(_BY_PERSON.fullmatch(name)) or _has_first_name(name)
