"""Specification gaps: properties of conversations where people and the judge, or people among themselves, differ.

The judge's score is first put on the scale of people's ratings by a line, so that a judge that is too strict everywhere
has no gap. A property, such as a long reply, a topic or a kind of issue, is then a gap if ratings of conversations with
it differ from the line by more or less than those without it. Tests are cluster-robust over groups of conversations,
with Holm's correction over all properties and both kinds of gaps. Properties that mark nearly the same conversations
are reported once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings
from accord.statistics import MIN_GROUP_RATINGS, SIGNIFICANT, bias_difference, holm
from accord.validation.metrics_table import other_people
from accord.values import ISSUE, Sample, Target

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Against = Literal["judge", "people"]

MIN_GROUPS = 5
"""Smallest number of groups of conversations with a property, and of those without it."""
SAME = 0.7
"""Share of ratings that two properties must have in common to be reported as one."""
EXAMPLES = 10
MAX_LEVELS = 30
"""Largest number of values of a metadata entry that is used."""


@dataclass(frozen=True)
class Property:
    """A property of conversations.

    Attributes:
        key: Name that stays the same if thresholds move: `column:NAME`, with `:high` or `:low`, or `ENTRY=VALUE`.
        name: Name in words.
        holds: (n,) True for ratings of conversations with it.
        known: (n,) True for ratings of conversations for which it is known.
    """

    key: str
    name: str
    holds: Flags
    known: Flags


_Tested = tuple[Property, float, float]
"""A property with its difference and its p."""


@dataclass(frozen=True)
class SpecificationGap:
    """A property of conversations where two readings of the question differ.

    Attributes:
        against: `judge` if people rate such conversations higher or lower than the judge's scores suggest; `people` if
            people differ from each other more or less there.
        key: As in `Property`.
        name: The property in words.
        ratings: Number of ratings of conversations with it.
        conversations: Number of these conversations.
        difference: Mean of rating minus the judge's line in them, minus that in the others, in points; for `people`
            the same of the distance from the others' mean.
        p: p-value with Holm's correction over all properties.
        examples: Up to ten conversations or turns with it, the clearest first.
        also: Other properties that mark nearly the same conversations.
    """

    against: Against
    key: str
    name: str
    ratings: int
    conversations: int
    difference: float
    p: float
    examples: Sequence[Target]
    also: Sequence[str] = ()

    def __str__(self) -> str:
        size = f"{abs(self.difference):.2f} points"
        if self.against == "judge":
            side = "higher" if self.difference > 0 else "lower"
            return f"{self.name}: people rate {size} {side} than the judge's scores suggest"
        side = "further apart" if self.difference > 0 else "closer"
        return f"{self.name}: ratings of one conversation are {size} {side}"

    def to_json(self) -> dict[str, Any]:
        """Return a row with the sentence."""
        examples = [{"conversation": each.conversation, "turn": each.turn} for each in self.examples]
        return {**asdict(self), "examples": examples, "also": list(self.also), "text": str(self)}


def specification_gaps(rated: Ratings, judge: Floats | None, properties: Sequence[Property]) -> list[SpecificationGap]:
    """Return the properties where people differ from the judge, then those where people differ among themselves.

    Args:
        rated: n ratings.
        judge: (n,) score of the judge, or of an evaluator, for each rating; NaN without one. None skips the judge.
        properties: Properties to test.
    """
    errors = _errors(rated, judge)
    tests = {against: _tests(error, rated, properties) for against, error in errors.items()}
    corrected = iter(holm([p for each in tests.values() for _, _, p in each]))
    gaps = []
    for against, each in tests.items():
        found = [(one, difference, p) for (one, difference, _), p in zip(each, corrected, strict=False)]
        gaps += _gaps(against, [row for row in found if row[2] < SIGNIFICANT], errors[against], rated)
    return gaps


def _errors(rated: Ratings, judge: Floats | None) -> dict[Against, Floats]:
    """Return (n,) differences of ratings from the judge's line, if there is a judge, and those among people."""
    among: dict[Against, Floats] = {"people": people_distance(rated)}
    return among if judge is None else {"judge": judge_residual(rated.value, judge), **among}


def gap_of(against: Against, rated: Ratings, judge: Floats | None, each: Property) -> float | None:
    """Return the difference of one property, as `SpecificationGap.difference`; None if it cannot be measured."""
    error = _errors(rated, judge).get(against)
    if error is None:
        return None
    known = np.isfinite(error) & each.known
    sides = (known & each.holds, known & ~each.holds)
    return float(error[sides[0]].mean() - error[sides[1]].mean()) if all(side.any() for side in sides) else None


def judge_residual(value: Floats, judge: Floats) -> Floats:
    """Return (n,) ratings minus the least-squares line of the judge's scores; NaN without a score."""
    known = np.isfinite(judge)
    if known.sum() < 2:
        return np.full(len(value), np.nan)
    spread = judge[known] - judge[known].mean()
    slope = float(spread @ value[known] / (spread @ spread)) if spread.any() else 0.0
    return np.where(known, value - value[known].mean() - slope * (judge - judge[known].mean()), np.nan)


def people_distance(rated: Ratings) -> Floats:
    """Return (n,) distance of each rating from the mean of the other people's; NaN if nobody else rated the target."""
    others = other_people(rated)
    return np.full(len(rated), np.nan) if others is None else np.abs(rated.value - others.new_value)


def _tests(error: Floats, rated: Ratings, properties: Sequence[Property]) -> list[_Tested]:
    """Return each property that holds for enough ratings, with its difference and its p."""
    tested, finite, names = list[_Tested](), np.isfinite(error), rated.group.astype(str)
    for each in properties:
        known = finite & each.known
        sides = (known & each.holds, known & ~each.holds)
        if min(int(side.sum()) for side in sides) < MIN_GROUP_RATINGS:
            continue
        if min(len(set(names[side])) for side in sides) < MIN_GROUPS:
            continue
        apart, p = bias_difference(error, names, known, each.holds)
        tested.append((each, apart.value or 0.0, p))
    return tested


def _gaps(against: Against, found: Sequence[_Tested], error: Floats, rated: Ratings) -> list[SpecificationGap]:
    """Return the gaps by p; properties of nearly the same conversations become one."""
    finite = np.isfinite(error)
    gaps: list[tuple[Property, SpecificationGap]] = []
    for each, difference, p in sorted(found, key=lambda row: (row[2], -abs(row[1]))):
        same = next((place for place, (other, _) in enumerate(gaps) if _overlap(each, other, finite) >= SAME), None)
        if same is None:
            gaps.append((each, _gap(against, each, difference, p, error, rated)))
        else:
            other, gap = gaps[same]
            gaps[same] = other, replace(gap, also=(*gap.also, each.name))
    return [gap for _, gap in gaps]


def _overlap(one: Property, other: Property, finite: Flags) -> float:
    """Return the larger share of ratings that two properties, or one and the opposite of the other, have in common."""
    known = finite & one.known & other.known
    return max(_jaccard(one.holds[known], other.holds[known]), _jaccard(one.holds[known], ~other.holds[known]))


def _jaccard(one: Flags, other: Flags) -> float:
    union = (one | other).sum()
    return float((one & other).sum() / union) if union else 0.0


def _gap(
    against: Against, each: Property, difference: float, p: float, error: Floats, rated: Ratings
) -> SpecificationGap:
    rows = np.flatnonzero(np.isfinite(error) & each.known & each.holds)
    targets: dict[Target, float] = {}
    for row in rows:
        target = rated.target[row]
        targets[target] = max(targets.get(target, -np.inf), float(error[row]) * np.sign(difference or 1))
    examples = sorted(targets, key=lambda target: (-targets[target], str(target)))[:EXAMPLES]
    conversations = len({target.conversation for target in targets})
    return SpecificationGap(against, each.key, each.name, len(rows), conversations, difference, p, examples)


# --- properties -----------------------------------------------------------------------------------------------------


def properties_of(rated: Ratings, samples: Sequence[Sample], evidence: EvidenceTable) -> list[Property]:
    """Return the properties of rated conversations: metrics, kinds of issues, and metadata entries with few values.

    A metric is a property above the upper third of its values, and below the lower third. Answers of judges are left
    out, because a gap in them says nothing about the conversations.
    """
    found = _metadata(rated, samples)
    for place, column in enumerate(evidence.columns):
        if column.question is not None or column.option is not None:
            continue
        value, known = evidence.values[rated.row, place], evidence.present[rated.row, place]
        if known.any() and np.ptp(value[known]) > 0:
            found += _of_column(column.name, value, known)
    return found


def _of_column(name: str, value: Floats, known: Flags) -> list[Property]:
    shown = name.removeprefix(ISSUE)
    if name.startswith(ISSUE) or set(np.unique(value[known])) <= {0.0, 1.0}:
        words = f"issue {shown}" if name.startswith(ISSUE) else shown
        return [Property(f"column:{name}", words, known & (value > 0), known)]
    low, high = (float(each) for each in np.quantile(value[known], [1 / 3, 2 / 3]))
    result = []
    if (value[known] > high).any():
        result.append(Property(f"column:{name}:high", f"{shown} above {high:.3g}", known & (value > high), known))
    if (value[known] < low).any():
        result.append(Property(f"column:{name}:low", f"{shown} below {low:.3g}", known & (value < low), known))
    return result


def _metadata(rated: Ratings, samples: Sequence[Sample]) -> list[Property]:
    conversations = {sample.conversation.id: sample.conversation for sample in samples}
    entries: dict[str, list[str | None]] = {"system": [_system(conversations.get(name)) for name in rated.conversation]}
    for entry in sorted({entry for each in conversations.values() for entry in each.metadata} - {"system"}):
        entries[entry] = [_entry(conversations.get(name), entry) for name in rated.conversation]
    found = []
    for entry, values in entries.items():
        levels = sorted({value for value in values if value is not None})
        if not 2 <= len(levels) <= MAX_LEVELS:
            continue
        known = np.array([value is not None for value in values], dtype=bool)
        for level in levels:
            holds = np.array([value == level for value in values], dtype=bool)
            found.append(Property(f"{entry}={level}", f"{entry} {level}", holds, known))
    return found


def _system(conversation: Any) -> str | None:
    return None if conversation is None else conversation.shown_system


def _entry(conversation: Any, entry: str) -> str | None:
    """Return a metadata entry as text; None for numbers and nested values."""
    value = None if conversation is None else conversation.metadata.get(entry)
    return str(value) if isinstance(value, str | bool) else None
