"""Argilla 2: records with suggestions, for `rg.Dataset.records.from_json` in a data set with a chat field `chat`.

A whole number from 0 to 10 answers a rating question; any other option answers a label question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accord.hosts.shared.predictions import Prediction, messages_of
from accord.values import POPULATION, Conversation, Question

_LARGEST_RATING = 10


def record(conversation: Conversation, question: Question, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return a record with one suggestion, for a new annotator if such a prediction exists."""
    prediction = next((each for each in predictions if each.annotator == POPULATION), predictions[0])
    return {
        "id": conversation.id, "fields": {"chat": messages_of(conversation)}, "metadata": {}, "responses": {},
        "suggestions": {question.id: _suggestion(prediction, question)}, "vectors": {},
    }  # fmt: skip


def _suggestion(prediction: Prediction, question: Question) -> dict[str, Any]:
    value = prediction.answer if _is_rating(question) else f"{prediction.answer}"
    return {"value": value, "score": prediction.probability, "agent": f"accord {prediction.evaluator}"}


def _is_rating(question: Question) -> bool:
    options = question.scale.options
    return bool(options) and all(isinstance(option, int) and 0 <= option <= _LARGEST_RATING for option in options)


def hint(question: Question) -> str:
    """Return a sentence with the settings of a data set."""
    options = list(question.scale.options)
    answer = f"RatingQuestion(name={question.id!r}, values={options})"
    if not _is_rating(question):
        answer = (
            f"LabelQuestion(name={question.id!r}, labels={list(map(str, options))})"
            if options
            else (f"TextQuestion(name={question.id!r})")
        )
    return f"data set for these records: fields=[rg.ChatField(name='chat')], questions=[rg.{answer}]"
