"""Words for numbers: one rounding and one wording for terminals, pages, reports, cards and messages."""

from __future__ import annotations

from accord.edges import count_of
from accord.values import Estimate


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a page; a dash if it is undefined."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def told_apart(value: float, limit: float, spec: str = ".2f") -> tuple[str, str]:
    """Format a value and its limit with the fewest digits, from those of `spec`, that show which one is larger.

    >>> told_apart(0.71, 0.5), told_apart(0.496, 0.5), told_apart(0.504, 0.5, ".0%")
    (('0.71', '0.50'), ('0.496', '0.500'), ('50.4%', '50.0%'))
    """
    first = int(spec[1])
    shown = ((f"{value:.{digits}{spec[2]}}", f"{limit:.{digits}{spec[2]}}") for digits in range(first, first + 6))
    texts = next((texts for texts in shown if len({float(text.rstrip("%")) for text in texts}) > 1), None)
    return texts if texts is not None and value != limit else (f"{value:{spec}}", f"{limit:{spec}}")


def percent(share: float | None) -> str:
    """Format a share as a percentage for a page; a dash if it is undefined."""
    return "–" if share is None else f"{share:.0%}"


def counts(
    conversations: int,
    ratings: int,
    people: int,
    learned: int | None = None,
    rated: int | None = None,
    replaced: int = 0,
) -> str:
    """Return the numbers of conversations and ratings as every page, the report and the terminal state them.

    Args:
        conversations: Number of conversations.
        ratings: Number of ratings of the main question.
        people: Number of people who gave them.
        learned: Number of ratings that the evaluator learned from, if one is in use.
        rated: Number of conversations with a rating, if it may differ from `conversations`.
        replaced: Number of new ratings that replace a learned one of the same person and conversation.

    >>> counts(150, 571, 4, learned=507)
    '150 conversations, 571 ratings by 4 people: 507 learned, 64 new'
    >>> counts(150, 412, 4, learned=340, replaced=60).partition(": ")[2]
    '340 learned, 72 new, of which 60 replace earlier ones of the same person and conversation'
    >>> counts(1000, 1, 1, rated=1), counts(3, 0, 0)
    ('1,000 conversations (1 rated), 1 rating by 1 person', '3 conversations, no ratings')
    """
    some = "" if rated is None or rated == conversations or not ratings else f" ({rated:,} rated)"
    text = f"{count_of(conversations, 'conversation')}{some}, "
    if not ratings:
        return f"{text}no ratings"
    text += f"{count_of(ratings, 'rating')} by {count_of(people, 'person', 'people')}"
    if learned is None:
        return text
    new = max(ratings - learned, 0)
    if not new:
        return f"{text}: all learned"
    verb = "replaces an earlier one" if replaced == 1 else "replace earlier ones"
    clause = f", of which {replaced:,} {verb} of the same person and conversation" if replaced else ""
    return f"{text}: {ratings - new:,} learned, {new:,} new{clause}"


STRENGTHS = ((0.8, "well"), (0.667, "fairly well"), (0.4, "moderately"), (0.0, "a little"))
"""Words for Krippendorff's α above chance, each with its smallest value (Krippendorff, 2004, for the first two)."""


def agreement_word(alpha: Estimate) -> str:
    """Return the strength of an agreement in words, for Krippendorff's α, κ or r.

    >>> agreement_word(Estimate(0.27, 0.2, 0.3)), agreement_word(Estimate(0.27, -0.1, 0.5)), agreement_word(Estimate())
    ('a little', 'unclear', 'unknown')
    """
    if alpha.value is None:
        return "unknown"
    if alpha.value <= 0:
        return "not beyond chance"
    if alpha.low is not None and alpha.low <= 0:
        return "unclear"
    return next(word for least, word in STRENGTHS if round(alpha.value, 2) >= least)  # as the number is shown


def agreement_words(alpha: Estimate) -> str:
    """Return the strength of an agreement in words with its number.

    >>> agreement_words(Estimate(0.27, 0.2, 0.3)), agreement_words(Estimate())
    ('a little, 0.27', 'unknown')
    """
    word = agreement_word(alpha)
    return word if alpha.value is None else f"{word}, {number(alpha.value, 2)}"


def p_text(p: float) -> str:
    """Format the p of a test; a value below 0.001 is not printed as 0, and none is rounded to a usual level.

    >>> p_text(0.0142), p_text(0.0002), p_text(0.0497)
    ('p = 0.014', 'p < 0.001', 'p = 0.0497')
    """
    if p < 0.001:
        return "p < 0.001"
    shown = (f"{p:.{digits}g}" for digits in range(2, 7))
    return f"p = {next((text for text in shown if float(text) not in (0.05, 0.01) or float(text) == p), f'{p:.2g}')}"
