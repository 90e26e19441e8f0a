"""Words and figures of a verdict for pages, the report and the terminal: three facts, ruler, permitted uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from accord.decisions.figures import Figures
from accord.decisions.selective import AGREE
from accord.edges import count_of

State = Literal["not yet", "triage", "systems", "single"]
NEAR_PEOPLE = 1.1
"""Largest error of single scores as a multiple of that of other people."""
APART = 0.1
"""Difference of the shares of sure calls between repetitions from which the verdict names it."""
UNKNOWN = "unknown"
PLURALS = {"conversation": "conversations", "reply": "replies"}
MEANINGS: dict[State, str] = {
    "not yet": "The scores are not shown to be better than the same answer for every conversation. More ratings decide "
    "it.",
    "triage": "Low scores show which conversations to read first. Neither means nor single scores are safe to use, "
    "yet.",
    "systems": "Means over many new conversations are safe to compare. A single score is not, yet.",
    "single": "A single score is about as close to a person's rating as the rating of another person.",
}
"""Use of the scores in each state, in plain words."""
STEPS: dict[State, str] = {
    "not yet": "Not yet", "triage": "Finding bad conversations", "systems": "Comparing versions",
    "single": "Judging one conversation",
}  # fmt: skip
"""Names of the states in the row of steps."""
_SHARES = (
    (0.05, "Hardly any"), (0.15, "A tenth"), (0.22, "A fifth"), (0.29, "A quarter"), (0.42, "A third"), (0.58, "Half"),
    (0.71, "Two thirds"), (0.84, "Three quarters"), (0.95, "Nine tenths"),
)  # fmt: skip
"""Shares in words, with the end of the range of each."""
_USES: tuple[tuple[int, str], ...] = (
    (1, "Read the worst conversations first"),
    (2, "Compare assistant versions by their means"),
    (2, "Follow the mean over time"),
    (3, "Judge a single conversation"),
)
"""Uses of the scores, with the index of the state that permits each."""


class Rule(NamedTuple):
    """A rule with its measured value; `is_met` is None if the data cannot test it, which does not lower the state."""

    state: State
    name: str
    value: str
    limit: str
    is_met: bool | None
    failure: str
    remedy: tuple[str, str]


def points(value: float | None) -> str:
    """Format an error or a correlation with two decimals."""
    return UNKNOWN if value is None else f"{value:.2f}".replace("-", "−")


def near_ratings(known: Figures) -> tuple[str, str]:
    """Return the share of scores within one point of the person's rating, next to those of people and a constant."""
    ours, people, constant = known.near
    if known.step is None:
        meaning = "of scores are on the side of the person's rating"
    else:
        step = "one point" if known.step == 1 else f"{known.step:.3g} points"
        meaning = f"of scores, rounded, are within {step} of the person's rating"
    if ours is None:
        return UNKNOWN, f"share {meaning}"
    others = [
        "" if people is None else f"of other people's ratings {people:.0%}",
        "" if constant is None else f"of a constant guess {constant:.0%}",
    ]
    compared = ", ".join(filter(None, others))
    return f"{ours:.0%}", meaning + (f"; {compared}" if compared else "")


def calls(known: Figures) -> tuple[str, str]:
    """Return the number of conversations, or replies, that are sure enough to be called good or bad."""
    meaning = f"{PLURALS[known.unit]} are sure enough to be called good or bad without a person ({AGREE:.0%} agreement)"
    if known.decided is None:
        return UNKNOWN, f"number of {meaning.replace(' are ', ' that are ', 1)}"
    shares = [each.decided for each in known.repeats if each.decided is not None]
    if shares and max(shares) - min(shares) > APART:
        meaning += f"; {min(shares):.0%} to {max(shares):.0%} in single repetitions of the cross-validation"
    if known.units is None:
        return f"{known.decided:.0%}", f"of {meaning}"
    sure = max(round(known.decided * known.units), int(known.decided > 0))
    return f"{sure:,} of {known.units:,}", meaning


def distance(known: Figures) -> tuple[str, str]:
    """Return the place of the error between a constant guess and other people in words."""
    place, r = known.position, points(known.r.value)
    if place is None:
        compared = (
            "how well people predict each other is unknown" if known.people is None
            else "people are no better than a constant guess"
        )  # fmt: skip
        return r, f"correlation with people, 0 is chance ({compared})"
    if place >= 1:
        return "As close", "to a rating as another person: the error is not above that of other people"
    if place <= 0:
        return "No better", "than a constant guess: the error is not below that of the same answer for everything"
    word = next((word for end, word in _SHARES if place < end), "Nearly all")
    ends = known.position_ends
    interval = "" if ends is None else f", 95% interval {ends[0]:.0%} – {ends[1]:.0%}".replace("-", "−")
    return word, f"of the way from a constant guess to other people ({place:.0%}{interval})"


def ruler_figures(known: Figures) -> dict[str, Any] | None:
    """Return the errors of a constant guess, the evaluator and other people, on the same ratings.

    `limit` is the largest error at which single conversations can be judged, and `ratings` the number of ratings if
    these are only the ratings with a second person; None without an error.
    """
    error, guess, ratings = known.ruler_error, known.constant, None
    if known.shared is not None and known.is_partly_shared:
        ratings, _, guess = known.shared
    if error.value is None:
        return None
    limit = None if known.people is None else NEAR_PEOPLE * known.people
    return {
        "guess": guess, "error": error.value, "low": error.low, "high": error.high, "people": known.people,
        "limit": limit, "ratings": ratings, "scale": [known.low, known.high],
    }  # fmt: skip


def uses_of(known: Figures, place: int, checks: Sequence[Rule]) -> list[dict[str, Any]]:
    """Return the uses of the scores: whether each is permitted, and otherwise the first missing rule with its number.

    Args:
        known: Figures of the evaluator.
        place: Index of its state.
        checks: Rules with their measured values.
    """
    order = list(STEPS)
    uses: list[dict[str, Any]] = []
    for needed, text in _USES:
        missed = [rule for rule in checks if rule.is_met is False and order.index(rule.state) <= needed]
        missed.sort(key=lambda rule: order.index(rule.state))
        missing = "" if place >= needed or not missed else missed[0].failure
        more = len(missed) - 1
        if missing and more:
            missing += f", and {count_of(more, 'more rule')}"
        uses.append({"text": text, "is_permitted": place >= needed, "missing": missing})
    if known.decided is not None:
        is_permitted = place >= 1 and bool(known.decided > 0)
        missing = "" if is_permitted else str(uses[0]["missing"]) or "no conversation is sure enough"
        uses.insert(3, {"text": "Leave the sure conversations to the evaluator", "is_permitted": is_permitted,
                        "missing": missing})  # fmt: skip
    return uses
