"""Words of a verdict: states, rules, and the table of the uses of the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from accord.decisions.figures import PLURALS, Figures
from accord.edges import count_of
from accord.results import Table, number

State = Literal["not yet", "triage", "systems", "single"]
NEAR_PEOPLE = 1.1
"""Largest error of single scores as a multiple of other people's error."""
APART = 0.1
"""Difference of the shares of sure calls between repetitions from which the verdict names it."""
UNKNOWN = "unknown"
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
USES = ("Find bad conversations", "Compare versions", "Judge one conversation")
"""Uses of the scores, in the order of the states that permit them."""


class Rule(NamedTuple):
    """A rule with its measured value; a rule that the data cannot test has `is_met=None` and cannot lower the state."""

    state: State
    name: str
    value: str
    limit: str
    is_met: bool | None
    failure: str
    remedy: tuple[str, str]


def points(value: float | None) -> str:
    """Format an error or a correlation with two decimals."""
    return UNKNOWN if value is None else number(value, 2)


class Use(NamedTuple):
    """Use of the scores: whether it is allowed, the values measured for exactly this use, and its rules.

    `rule` counts the rules that are met; `missing` names the others with their values, if the use is not allowed.
    """

    use: str
    is_allowed: bool
    measured: str
    rule: str
    missing: str = ""


def uses_of(known: Figures, place: int, checks: Sequence[Rule]) -> list[Use]:
    """Return the three uses of the scores, each with figures on held-out ratings and its rule or the missing ones.

    Args:
        known: Figures of the evaluator.
        place: Index of its state.
        checks: Rules with their measured values.
    """
    order, measured = list(STEPS), (_found(known), _versions(known), _band(known))
    uses = []
    for needed, (text, shown) in enumerate(zip(USES, measured, strict=True), 1):
        rules = [rule for rule in checks if order.index(rule.state) <= needed and rule.is_met is not None]
        met = sum(bool(rule.is_met) for rule in rules)
        missed = [rule for rule in rules if not rule.is_met and order.index(rule.state) == needed]
        above = [] if place >= needed - 1 else ["the rules above"]
        named = [*above, *(f"{each.name} {each.value} ({each.limit})" for each in missed)]
        missing = f"missing: {' · '.join(named)}" if place < needed else ""
        uses.append(Use(text, place >= needed, shown, f"{met} of {count_of(len(rules), 'rule')} met", missing))
    return uses


def uses_table(uses: Sequence[Mapping[str, Any]]) -> Table:
    """Return the uses of a verdict as JSON as a table."""
    rows = [
        [each["use"], f"{'yes' if each['is_allowed'] else 'not yet'}: {each['rule'] or '–'}", each["measured"] or "–"]
        for each in uses
    ]
    return Table(["use", "allowed", "measured on held-out ratings"], rows, is_text=True)


def rules_table(checks: Sequence[Rule]) -> Table:
    """Return the rules of a verdict with their measured values."""
    met = {True: "yes", False: "no", None: "untested"}
    rows = [[rule.name, STEPS[rule.state].lower(), rule.value, rule.limit, met[rule.is_met]] for rule in checks]
    return Table(["rule", "state", "measured", "needed", "met"], rows, is_text=True)


def _found(known: Figures) -> str:
    """State how many of the conversations that people rate low are among the lowest scores."""
    many, found = PLURALS[known.unit], known.found
    if found is None:
        return f"too few rated {many} to test a list of the lowest scores"
    low, high = found.found.low, found.found.high
    ends = "" if low is None or high is None else f" [{low:.0f}, {high:.0f}]"
    return (
        f"{found.found.value:.0f}{ends} of the {found.read:,} lowest scores are among the "
        f"{count_of(found.bad, known.unit, many)} rated {found.cut:.3g} or less; chance: {found.chance:.1f}"
    )


def _versions(known: Figures) -> str:
    """State the difference of two versions by scores and by people, and the difference of the two."""
    gap = known.versions
    if gap is None:
        return "fewer than two assistant versions: no difference was measured"
    names = f"{gap.first} − {gap.second}"
    scores, people, apart = (
        known.ledger[f"{name}:{names}"] for name in ("score_difference", "people_difference", "difference_gap")
    )
    return f"{names}: by scores {scores.short}, by people {people.short}; difference {apart.text()}"


def _band(known: Figures) -> str:
    """State the width of a band in points, and how many texts are clearly good or bad."""
    many, parts = PLURALS[known.unit], []
    if "band" in known.ledger:
        parts.append(f"a 90% band is {known.ledger['band'].short} points wide")
    if "decided" in known.ledger:
        parts.append(f"{known.ledger['decided'].text()} {many} are clearly good or bad")
        shares = [each.decided for each in known.repeats if each.decided is not None]
        if shares and max(shares) - min(shares) > APART:
            parts[-1] += f", {min(shares):.0%} to {max(shares):.0%} in single repetitions of the cross-validation"
    return "; ".join(parts) or "bands are unknown"
