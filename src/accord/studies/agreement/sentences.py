"""Sentences about the agreement of annotators, for leads: how much, who is stricter, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from accord.results import agreement_word, number
from accord.studies.agreement.annotators import MIN_ITEMS, AnnotatorHabit, CountedEstimate, DisagreementParts

SETTLE = ": settle the wording before you use these ratings"
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
QUARTERS = {0.25: "a quarter of a point", 0.5: "half a point", 0.75: "three quarters of a point", 1.0: "one point"}
MAX_NAMES = 3
"""Maximum number of annotators that a sentence names."""


def describe_agreement(alpha: CountedEstimate) -> str:
    """Return Krippendorff's α as a sentence, from the value and its interval; percentages are from 0% to 100%."""
    if not alpha.n:
        return "Agreement is unknown: no item has answers of two people yet."
    if alpha.value is None:
        return "All answers are the same, so agreement beyond chance cannot be measured."
    low, high = alpha.low, alpha.high
    if alpha.value <= 0:
        more = ": they disagree more than by chance" if alpha.value < 0 and (high is None or high < 0) else ""
        return f"People agree no better than chance{more}."
    if low is not None and low <= 0:
        return "It is not clear that people agree beyond chance."
    strength = agreement_word(alpha)
    ends = "" if low is None or high is None else f" ({_share(low)} – {_share(high)})"
    return f"People agree {strength}: {_share(alpha.value)}{ends} of the way from chance to full agreement."


def describe_levels(habits: Sequence[AnnotatorHabit], scale_length: float) -> str:
    """Return the annotators who are clearly stricter or more lenient than the others, as a sentence.

    An annotator is clear if the interval of the level excludes 0, or if all differences are equal.

    Args:
        habits: Habits of all annotators.
        scale_length: Highest minus lowest value of the scale.
    """
    known = [habit for habit in habits if habit.level.value is not None]
    if len(known) < 2:
        return f"Too few shared items to compare people: each needs {MIN_ITEMS} items that others have rated too."
    strict, lenient = ([each for each in known if _is_clear(each.level, sign)] for sign in (-1, 1))
    if len(known) == 2 and strict and lenient:
        return f"{strict[0].person} is stricter than {lenient[0].person} by {_distance(strict, scale_length)}."
    among = f" of {_count(len(known))} people"
    clauses = list[str]()
    for people, word in ((strict, "stricter"), (lenient, "more lenient")):
        if people:
            verb = "is" if len(people) == 1 else "are"
            number = f"{_count(len(people))}{'' if clauses else among}"
            clauses.append(f"{number} {verb} {word} by {_distance(people, scale_length)}{_names(people)}")
    if not clauses:
        return f"None{among} is clearly stricter or more lenient than the others."
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."


def describe_agreement_on(question: str, alpha: CountedEstimate) -> str:
    """Return the agreement on a question as a headline, with what to do about it.

    >>> describe_agreement_on("Satisfaction", CountedEstimate(0.27, 0.1, 0.4, 32))
    'People agree a little on Satisfaction (0.27): settle the wording before you use these ratings'
    >>> describe_agreement_on("Satisfaction", CountedEstimate(0.85, 0.8, 0.9, 32))
    'People agree well on Satisfaction (0.85)'
    """
    if alpha.value is None:
        return f"It is unknown how far people agree on {question}"
    word, value = agreement_word(alpha), number(alpha.value, 2)
    if word == "not beyond chance":
        return f"People do not agree on {question} ({value}){SETTLE}"
    if word == "unclear":
        return f"It is not clear that people agree on {question} ({value}){SETTLE}"
    advice = SETTLE if word == "a little" else ""
    advice = ": discuss the disputed items" if word == "moderately" else advice
    return f"People agree {word} on {question} ({value}){advice}"


def describe_level(level: CountedEstimate, scale_length: float) -> str:
    """Return the level of one annotator in words.

    >>> describe_level(CountedEstimate(-0.48, -0.9, -0.1, 20), 4)
    'half a point lower than the others'
    >>> describe_level(CountedEstimate(0.2, -0.1, 0.5, 20), 4)
    'like the others'
    >>> describe_level(CountedEstimate(n=2), 4)
    'unknown: too few shared items'
    """
    if level.value is None:
        return "unknown: too few shared items"
    if not _is_clear(level, 1) and not _is_clear(level, -1):
        return "like the others"
    return f"{_points([abs(level.value)], scale_length)} {'lower' if level.value < 0 else 'higher'} than the others"


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


def _share(value: float) -> str:
    """Return a share of the way from chance to full agreement in percent."""
    return f"{min(max(value, 0.0), 1.0):.0%}"


def _is_clear(level: CountedEstimate, sign: int) -> bool:
    ends = (level.value or 0.0,) if level.low is None or level.high is None else (level.low, level.high)
    return all(sign * end > 0 for end in ends)


def _count(number: int) -> str:
    return COUNTS[number] if number < len(COUNTS) else str(number)


def _names(habits: Sequence[AnnotatorHabit]) -> str:
    return f" ({', '.join(each.person for each in habits)})" if len(habits) <= MAX_NAMES else ""


def _distance(habits: Sequence[AnnotatorHabit], scale_length: float) -> str:
    return _points([abs(each.level.value or 0) for each in habits], scale_length)


def _points(sizes: Sequence[float], scale_length: float) -> str:
    """Return differences in points; similar ones on a short scale as the nearest quarter of a point.

    >>> _points([0.37, 0.48], 4), _points([0.3, 1.4], 4), _points([12.4], 100), _points([0.04], 1)
    ('half a point', '0.3 to 1.4 points', '12 points', '0.04 points')
    """
    low, high = min(sizes), max(sizes)
    word = QUARTERS.get(round(2 * (low + high)) / 4)
    if word and 2 <= scale_length <= 20 and high - low <= 0.25:
        return word
    first, last = f"{low:.2g}", f"{high:.2g}"
    return f"{first} points" if first == last else f"{first} to {last} points"
