"""Label Studio: tasks with predictions, for Import in a project with `Paragraphs` or `Chat` named `chat`.

An answer of stars is a `Rating`, an option of another scale is one of `Choices`, and a number of a real scale is a
`Number`; the name of the control is the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from accord.hosts.shared.predictions import Prediction, messages_of
from accord.values import POPULATION, Conversation, Question

_MAX_STARS = 20


def _kind(question: Question) -> str:
    """Return the control that answers a question."""
    options = question.scale.options
    if not options:
        return "number"
    is_stars = list(options) == list(range(1, len(options) + 1)) and len(options) <= _MAX_STARS
    return "rating" if is_stars else "choices"


def record(conversation: Conversation, question: Question, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return a task: messages, no annotations, and a prediction per annotator."""
    data = {"conversation_id": conversation.id, "messages": messages_of(conversation)}
    return {"data": data, "annotations": [], "predictions": [_entry(each, question) for each in predictions]}


def _entry(prediction: Prediction, question: Question) -> dict[str, Any]:
    kind = _kind(question)
    answer: Any = [str(prediction.answer)] if kind == "choices" else prediction.answer
    result = {
        "id": "accord", "from_name": question.id, "to_name": "chat", "type": kind, "value": {kind: answer},
        "meta": {"text": [prediction.comment]},
    }  # fmt: skip
    about = "" if prediction.annotator == POPULATION else f" for {prediction.annotator}"
    entry: dict[str, Any] = {"model_version": f"accord {prediction.evaluator}{about}", "result": [result]}
    return entry if prediction.probability is None else {**entry, "score": prediction.probability}


def hint(question: Question) -> str:
    """Return a sentence with the labeling interface."""
    return f"labeling interface of a project for these tasks: {interface(question)}"


def interface(question: Question) -> str:
    """Return the labeling interface of a project for these tasks."""
    name, kind = escape(question.id), _kind(question)
    options = "".join(f'<Choice value="{escape(str(option))}"/>' for option in question.scale.options)
    controls = {
        "rating": f'<Rating name="{name}" toName="chat" maxRating="{len(question.scale.options)}"/>',
        "choices": f'<Choices name="{name}" toName="chat" choice="single">{options}</Choices>',
        "number": f'<Number name="{name}" toName="chat"/>',
    }
    chat = '<Paragraphs name="chat" value="$messages" layout="dialogue" nameKey="role" textKey="content"/>'
    return f'<View>{chat}<Header value="{escape(question.text)}"/>{controls[kind]}</View>'
