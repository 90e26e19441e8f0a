"""Sentences about the agreement of annotators, for leads: its size, strict annotators, and next steps."""

from __future__ import annotations

from collections.abc import Sequence

from accord.edges import count_of
from accord.results import Figure, agreement_word, written
from accord.studies.agreement.annotators import MIN_ITEMS, AnnotatorHabit, CountedEstimate, DisagreementParts

SETTLE = ": settle the wording before you use these ratings"
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
MAX_NAMES = 3
"""Maximum number of annotators that a sentence names."""


def describe_agreement(alpha: Figure) -> str:
    """Return Krippendorff's α as a sentence, with its interval, its number of ratings and their set.

    >>> describe_agreement(Figure("alpha", 0.58, 0.32, 0.73, 72, "72 ratings of 24 items"))
    'People agree moderately: 0.58 [0.32, 0.73] from 0 (chance) to 1 (full agreement), 72 ratings of 24 items.'
    """
    if not alpha.n:
        return "Agreement is unknown: no item has answers of two people yet."
    if alpha.value is None:
        return f"All answers are the same, so agreement beyond chance cannot be measured ({alpha.about})."
    low, high = alpha.low, alpha.high
    shown = f"{alpha.text()}, {alpha.about}"
    if alpha.value <= 0:
        more = ": they disagree more than by chance" if alpha.value < 0 and (high is None or high < 0) else ""
        return f"People agree no better than chance{more} ({shown})."
    if low is not None and low <= 0:
        return f"It is not clear that people agree beyond chance ({shown})."
    strength = agreement_word(alpha.estimate)
    return f"People agree {strength}: {alpha.text()} from 0 (chance) to 1 (full agreement), {alpha.about}."


def level_figures(habits: Sequence[AnnotatorHabit], part: str = "") -> list[Figure]:
    """Return the level of each annotator as a figure; `part` is the study, or the study and the question."""
    source = "accord.studies.annotator_habits"
    return [
        Figure.measured(
            "level", each.level, each.level.n, f"{count_of(each.level.n, 'item')} that others rated too", "people",
            part=": ".join(filter(None, [part, each.person])), source=source,
        )
        for each in habits
    ]  # fmt: skip


def describe_levels(habits: Sequence[AnnotatorHabit]) -> str:
    """Return the annotators who are clearly stricter or more lenient than the others, as a sentence.

    An annotator is clear if the interval of the level excludes 0, or if all differences are equal.

    Args:
        habits: Habits of all annotators.
    """
    known = [habit for habit in habits if habit.level.value is not None]
    if len(known) < 2:
        return f"Too few shared items to compare people: each needs {MIN_ITEMS} items that others have rated too."
    strict, lenient = ([each for each in known if _is_clear(each.level, sign)] for sign in (-1, 1))
    if len(known) == 2 and strict and lenient:
        return f"{strict[0].person} is stricter than {lenient[0].person} by {_points(strict)}."
    among = f" of {_count(len(known))} people"
    clauses = list[str]()
    for people, word in ((strict, "stricter"), (lenient, "more lenient")):
        if people:
            verb = "is" if len(people) == 1 else "are"
            number = f"{_count(len(people))}{'' if clauses else among}"
            clauses.append(f"{number} {verb} {word} by {_points(people)}{_names(people)}")
    if not clauses:
        return f"None{among} is clearly stricter or more lenient than the others."
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."


def describe_agreement_on(question: str, alpha: Figure) -> str:
    """Return the agreement on a question as a headline, with its number of ratings and a next step.

    >>> describe_agreement_on("Satisfaction", Figure("alpha", 0.27, 0.1, 0.4, 72))
    'People agree a little on Satisfaction (0.27 on 72 ratings): settle the wording before you use these ratings'
    >>> describe_agreement_on("Satisfaction", Figure("alpha", 0.85, 0.8, 0.9, 72))
    'People agree well on Satisfaction (0.85 on 72 ratings)'
    """
    if alpha.value is None:
        return f"It is unknown how far people agree on {question}"
    word, value = agreement_word(alpha.estimate), f"{alpha.short} on {count_of(alpha.n or 0, 'rating')}"
    if word == "not beyond chance":
        return f"People do not agree on {question} ({value}){SETTLE}"
    if word == "unclear":
        return f"It is not clear that people agree on {question} ({value}){SETTLE}"
    advice = SETTLE if word == "a little" else ""
    advice = ": discuss the disputed items" if word == "moderately" else advice
    return f"People agree {word} on {question} ({value}){advice}"


def describe_level(level: CountedEstimate) -> str:
    """Return the level of one annotator in words.

    >>> describe_level(CountedEstimate(-0.48, -0.9, -0.1, 20))
    '0.48 points lower than the others'
    >>> describe_level(CountedEstimate(0.2, -0.1, 0.5, 20))
    'like the others'
    >>> describe_level(CountedEstimate(n=2))
    'unknown: too few shared items'
    """
    if level.value is None:
        return "unknown: too few shared items"
    if not _is_clear(level, 1) and not _is_clear(level, -1):
        return "like the others"
    return f"{written(abs(level.value), 'points')} points {'lower' if level.value < 0 else 'higher'} than the others"


def describe_parts(parts: DisagreementParts) -> str:
    """Return the largest part of the disagreement as a sentence, with the next step."""
    level, width, residual = (part.value or 0.0 for part in (parts.level, parts.width, parts.residual))
    if residual >= max(level, width):
        single = round(100 * residual)
        return (
            f"Of the disagreement, {single}% is about single conversations and {100 - single}% comes from habits: "
            "discuss the items below."
        )
    if level >= width:
        return (
            f"Of the disagreement, {level:.0%} comes from people who are stricter or more lenient: agree on the "
            "meaning of each point of the scale."
        )
    return (
        f"Of the disagreement, {width:.0%} comes from people who use more or less of the scale: agree on examples of "
        "its highest and lowest points."
    )


def _is_clear(level: CountedEstimate, sign: int) -> bool:
    ends = (level.value or 0.0,) if level.low is None or level.high is None else (level.low, level.high)
    return all(sign * end > 0 for end in ends)


def _count(number: int) -> str:
    return COUNTS[number] if number < len(COUNTS) else str(number)


def _names(habits: Sequence[AnnotatorHabit]) -> str:
    return f" ({', '.join(each.person for each in habits)})" if len(habits) <= MAX_NAMES else ""


def _points(habits: Sequence[AnnotatorHabit]) -> str:
    """Return the sizes of levels as their chart shows them, such as "0.37 to 0.48 points"."""
    sizes = [abs(each.level.value or 0.0) for each in habits]
    first, last = written(min(sizes), "points"), written(max(sizes), "points")
    return f"{first} points" if first == last else f"{first} to {last} points"
