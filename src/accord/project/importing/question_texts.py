"""Wording and short name of a question that are made from the name of a column with ratings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from accord.edges import escape_controls
from accord.formats import words_of
from accord.values import MAX_NAME, Question

MAX_NAME_WORDS = 4
"""Number of words above which a wording is too long for a name."""
_POSITION = re.compile(r"[A-Za-z]{0,2}\d+")
"""Ids that tell nothing about a question, such as Q0."""

UNITS = ("reply", "conversation")
_IS = {
    ("resolved", "solved", "resolution"): "Was the request resolved?",
    ("success", "successful", "succeeded", "passed", "pass"): "Was the {unit} successful?",
    ("correct", "correctness", "accurate", "accuracy", "factual", "factuality"): "Is what the assistant says correct?",
    ("helpful", "helpfulness", "useful", "usefulness"): "Is the {unit} helpful?",
    ("grounded", "groundedness", "faithful", "faithfulness"): "Is what the assistant says supported by its documents?",
    ("safe", "safety", "harmless", "harmlessness"): "Is the {unit} safe?",
    ("toxic", "toxicity"): "Is the {unit} toxic?",
    ("polite", "politeness"): "Is the assistant polite?",
    ("relevant", "relevance"): "Is what the assistant says relevant?",
    ("complete", "completeness"): "Is the answer complete?",
    ("satisfaction", "satisfied", "csat"): "Is the user satisfied with the {unit}?",
    ("like", "liked", "thumb", "thumbs", "thumbsup", "upvote"): "Did the user like the {unit}?",
    ("good",): "Is the {unit} good?",
}
_HOW = {
    ("resolved", "solved", "resolution"): "How well was the request resolved?",
    ("success", "successful"): "How successful was the {unit}?",
    ("correct", "correctness", "accurate", "accuracy", "factual", "factuality"): (
        "How correct is what the assistant says?"
    ),
    ("helpful", "helpfulness", "useful", "usefulness"): "How helpful is the {unit}?",
    ("grounded", "groundedness", "faithful", "faithfulness"): (
        "How well do its documents support what the assistant says?"
    ),
    ("safe", "safety", "harmless", "harmlessness"): "How safe is the {unit}?",
    ("toxic", "toxicity"): "How toxic is the {unit}?",
    ("polite", "politeness"): "How polite is the assistant?",
    ("relevant", "relevance"): "How relevant is what the assistant says?",
    ("complete", "completeness"): "How complete is the answer?",
    ("coherent", "coherence"): "How coherent is the {unit}?",
    ("fluent", "fluency"): "How fluent is the language of the assistant?",
    ("natural", "naturalness"): "How natural is the {unit}?",
    ("engaging", "engagingness", "engagement"): "How engaging is the {unit}?",
    ("clear", "clarity", "understandable"): "How clear is the {unit}?",
    ("friendly", "friendliness"): "How friendly is the assistant?",
    ("empathy", "empathetic"): "How well does the assistant understand how the user feels?",
    ("tone",): "How fitting is the tone of the assistant?",
    ("satisfaction", "satisfied", "csat", "zufriedenheit"): "How satisfied is the user with the {unit}?",
    ("quality", "rating", "ratings", "score", "stars", "overall", "good", "grade"): "How good is the {unit}?",
}
"""Questions by the words of a column, for two options and for more."""


def generated_text(name: str, unit: str, is_binary: bool) -> str:
    """Return a question for a column of ratings of a `unit` (reply, conversation).

    >>> generated_text("resolved", "conversation", True), generated_text("user_satisfaction", "reply", False)
    ('Was the request resolved?', 'How satisfied is the user with the reply?')
    >>> generated_text("wow factor", "reply", False), generated_text("wow factor", "reply", True)
    ('How would you rate the reply on "wow factor"?', 'Does "wow factor" hold of the reply?')
    """
    words = set(words_of(name))
    for names, text in (_IS if is_binary else _HOW).items():
        if words & set(names) and not words & {"not", "no", "un"}:
            return text.format(unit=unit)
    return f'Does "{name}" hold of the {unit}?' if is_binary else f'How would you rate the {unit} on "{name}"?'


def generated_name(id: str, text: str = "") -> str:
    """Return a short name of a question, or "" if its id says as much.

    The name has the words of the id. If the id is a position such as `Q3`, a wording of a few words is the name.

    >>> generated_name("satisfaction"), generated_name("user_rating.tone"), generated_name("toneOfVoice")
    ('Satisfaction', 'User rating tone', 'Tone of voice')
    >>> generated_name("Q3", "Helpful?"), generated_name("Q3", "Did the reply answer what the user asked?")
    ('Helpful', '')
    """
    if _POSITION.fullmatch(id):
        name = " ".join(text.split()).rstrip("?:.!")
        name = name if len(name.split()) <= MAX_NAME_WORDS else ""
    else:
        spaced = re.sub(r"(?<=[^\W\d_])(?<![A-Z])(?=[A-Z][a-z])", " ", id)
        name = " ".join(re.sub(r"[_.:/\-]+", " ", spaced).split())
        if name != id:
            name = " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in name.split())
    name = name[:1].upper() + name[1:]
    is_usable = 0 < len(name) <= MAX_NAME and escape_controls(name) == name and name != id
    return name if is_usable else ""


def with_generated_names(questions: Sequence[Question], others: Iterable[Question] = ()) -> list[Question]:
    """Return the questions with a generated name for each without one, so that all are shown differently."""
    known = {each.id: each for each in (*others, *questions)}
    for question in questions:
        taken = {each.shown.casefold() for each in known.values() if each.id != question.id}
        name = question.name or generated_name(question.id, question.text)
        base = (name or "Question")[: MAX_NAME - 4]
        numbered = (f"{base} {number}" for number in range(2, len(known) + 2))
        free = next(each for each in (name, "", *numbered) if (each or question.id).casefold() not in taken)
        known[question.id] = question.model_copy(update={"name": free})
    return [known[question.id] for question in questions]


def has_generated_text(question: Question) -> bool:
    """Return True if the text of a question was made from its name, and not edited since."""
    forms = [(unit, is_binary) for unit in UNITS for is_binary in (True, False)]
    return question.text in [generated_text(question.id, *form) for form in forms]
