"""Labels and evaluators of another wording or scale than the question of the rubric has now."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from accord.edges import BadInput
from accord.formats import LabelWordings
from accord.learning import saved_as
from accord.store import LabelCounts, Store
from accord.values import Labels, Question, Rubric

if TYPE_CHECKING:
    from pathlib import Path

    from accord.learning import Evaluator

_LOGGER = logging.getLogger("accord")
_TREATED = {
    "leave-out": "labels on another scale are left out",
    "map": "labels on another scale are mapped to the present one",
    "keep": "labels on another scale count with their values",
}


def check_scales(store: Store, questions: Iterable[Question]) -> None:
    """Refuse labels on another scale than their question has now, unless the setting `other_scales` treats them.

    Raises:
        BadInput: There are such labels; the message has their number by scale, and each way on.
    """
    if store.other_scales != "stop":
        return
    for question in questions:
        found = LabelCounts(store).wordings(question)
        if found.other_scales:
            raise BadInput(
                f"{found}; the present scale is {question.scale.range}, and two scales are not mixed. Leave the others "
                "out: --other-scales leave-out; map them linearly: --other-scales map; or, if only the rubric was "
                "corrected, keep their values: --other-scales keep. For good: `other_scales: leave-out` (or map, keep) "
                "in accord.yaml"
            )


def wordings_text(found: LabelWordings, how: str) -> str:
    """Return the number of labels by wording and their treatment as a sentence; empty if there is one wording."""
    if not found.is_mixed:
        return ""
    treated = f"; {_TREATED[how]}" if found.other_scales and how in _TREATED else ""
    return f"{found}{treated}"


def note_wordings(store: Store, question: Question) -> str:
    """Log the number of labels by wording where there is more than one, and return the sentence."""
    text = wordings_text(LabelCounts(store).wordings(question), store.other_scales)
    if text:
        _LOGGER.warning("%s", text)
    return text


def comparable_labels(store: Store, question: str) -> Labels:
    """Return the labels of a question on its present scale, for pages: others are left out where commands stop."""
    how = store.other_scales
    return store.labels(question, "leave-out" if how == "stop" else how).on(question)


def is_other_scale(rubric: Rubric, question: Question) -> bool:
    """Return True if the question of an evaluator has another scale in the rubric."""
    present = rubric.get(question.id)
    return present is not None and present.scale.range != question.scale.range


def evaluator_text(rubric: Rubric, name: str, question: Question) -> str:
    """Return the sentence about an evaluator of another wording or scale than the rubric has; else an empty text."""
    present = rubric.get(question.id)
    if present is None or present.key == question.key:
        return ""
    if is_other_scale(rubric, question):
        return (
            f"{name} answers {present.shown!r} on the scale {question.scale.range}, and the rubric asks it on "
            f"{present.scale.range}"
        )
    learned, asked = (" ".join(each.text.split()) for each in (question, present))  # in one line
    changed = (
        f"learned {present.shown!r} as {learned!r}, and the rubric asks {asked!r}"
        if learned != asked
        else f"learned {present.shown!r} with other line breaks than the rubric has"
        if present.text != question.text
        else f"learned {present.shown!r} with other meanings of its options or another condition than the rubric has"
    )
    return f"{name} {changed}"


def other_question(rubric: Rubric, folder: Path) -> str:
    """Return the sentence about the evaluator in a folder if the rubric has another wording or scale, else ""."""
    try:
        question = Question.model_validate(saved_as(folder)["question"])
    except (BadInput, KeyError, TypeError, ValueError):  # a damaged folder is reported where it is loaded
        return ""
    return evaluator_text(rubric, folder.name, question)


def check_scale(rubric: Rubric, evaluator: Evaluator) -> None:
    """Refuse an evaluator whose question has another scale in the rubric.

    Raises:
        BadInput: The scales differ.
    """
    if is_other_scale(rubric, evaluator.question):
        text = evaluator_text(rubric, evaluator.name, evaluator.question)
        raise BadInput(
            f"{text}; its scores would not be comparable. Fit it again: accord fit; or score with an evaluator of the "
            "present scale: --evaluator FOLDER"
        )


def check_question(store: Store, rubric: Rubric, evaluator: Evaluator) -> None:
    """Compare the question of an evaluator with the question of the rubric, and log another wording.

    Raises:
        BadInput: The scales differ.
    """
    check_scale(rubric, evaluator)
    if text := evaluator_text(rubric, evaluator.name, evaluator.question):
        _LOGGER.warning("%s; to learn the present wording: accord fit", text)
    if (present := rubric.get(evaluator.question.id)) is not None:
        note_wordings(store, present)
