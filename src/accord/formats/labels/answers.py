"""Answers of label files as values on the scales of their questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from accord.formats.labels.rating_columns import number_in
from accord.formats.openai_messages import checked_answer
from accord.formats.record import WrongShape
from accord.values import Label, Question, Rubric, ScaleKind

NO_CLICK = {"no click", "no_click", "not clicked", "no feedback", "no_feedback", "no vote", "no_vote"}
"""Texts of a user who answered nothing: missing, not negative, unless such a text is an option of the question."""
NOT_APPLICABLE = {"na", "n/a", "not applicable", "none", "null", "nan", "-"} | NO_CLICK


def answer_to(question: Question | None, raw: Any, name: str) -> Any:
    """Convert an answer of a file to a value of the question's scale, or to `None` for "not applicable".

    The answer is an option, its text or its meaning. A `question` of `None` is outside the rubric; `name` is its name
    in errors. An answer that cannot be stored raises `WrongShape`.
    """
    if isinstance(raw, bool) and question is not None and question.scale.kind is not ScaleKind.BINARY:
        raise WrongShape(f"{raw!r} is not an answer to {name!r}; allowed: {question.scale}")
    if isinstance(raw, bool) and question is not None:
        return question.scale.options[int(raw)]
    if not isinstance(raw, str):
        return checked_answer(raw)
    if question is not None:
        option = question.scale.parse(raw)
        if option is not None:
            return option
        plain = raw.strip().casefold()
        options = {meaning.strip().casefold(): option for option, meaning in question.meanings.items()}
        if plain in options:
            return question.scale.parse(options[plain])
        if plain in NO_CLICK:  # an answer only where the scale offers it (LLM-RUBRIC, footnote 26)
            return next((option for option in question.scale.options if str(option).casefold() in NO_CLICK), None)
    return None if raw.strip().lower() in NOT_APPLICABLE else plain_number(raw.strip())


def on_scales(labels: Iterable[Label], rubric: Rubric) -> Iterator[Label]:
    """Yield labels with values on the scales of their questions.

    A label that was stored before the rubric had its question has the value of the file ("yes" for 1). If a second
    import stored the same label with the value of the scale, it is yielded once.
    """
    stored, on_scale, converted = list(labels), set[tuple[str, Any]](), dict[tuple[str, Any], Any]()
    for label in stored:
        question, answer = rubric.get(label.question), (label.question, label.value)
        if question is None or label.value is None or answer in on_scale or answer in converted:
            continue
        if question.scale.holds(label.value):
            on_scale.add(answer)
        else:
            converted[answer] = _option(question, label.value)
    if not converted:
        yield from stored
        return
    known = {replace(label, wording=None) for label in stored if (label.question, label.value) in on_scale}
    for label in stored:
        if (answer := (label.question, label.value)) not in converted:
            yield label
        elif (changed := replace(label, value=converted[answer], wording=None)) not in known:
            yield changed


def _option(question: Question, value: Any) -> Any:
    """Return a value on the question's scale; a value off the scale is returned unchanged."""
    try:
        return answer_to(question, value, question.id)
    except WrongShape:
        return value


def plain_number(text: str) -> Any:
    """Return the number of a text in plain digits, or the text itself."""
    number = number_in(text)
    if number is None:
        return text
    return int(number) if number.is_integer() else number
