"""Specification gaps: properties of conversations where people and the judge, or people among themselves, differ.

**People and the judge.** Both read the quality q of a conversation with error: a rating is y = a + b·q + error, a score
of the judge is s = c + d·q + error. A property x, such as a long reply, a topic or a kind of issue, is a gap if it
changes either at the same quality. The quality is unknown. In a regression of ratings on scores, the slope is
smaller than b/d, because the judge errs: good conversations lie above the line, and with them every property that good
conversations have. In the reversed regression, of scores on ratings, it is larger. The true slope lies between both
(Frisch, "Statistical Confluence Analysis", 1934; Klepper & Leamer, "Consistent Sets of Estimates for Regressions with
Errors in All Variables", Econometrica 52, 1984). The difference of a property is linear in the slope, so it is not zero
for any slope in between if both regressions agree on its sign (Goldberger, "Reverse Regression and Salary
Discrimination", Journal of Human Resources 19, 1984):

    y = α₁ + β₁·s + γ₁·x,    s = α₂ + β₂·y + γ₂·x,    differences in points: γ₁ and -γ₂/β₂.

A property is a gap only if both have the same sign. Its p is the larger one, its size the one nearer to 0. This is
conservative: a real gap needs more conversations if the judge is noisy or if the property is related to quality.

In the reversed regression, the mean rating of the other people is the instrument of a rating, because their errors are
independent (Durbin, "Errors in Variables", Review of the International Statistical Institute 22, 1954). Then only what
people agree on counts as quality. From 100 conversations on, both regressions have a square, because scores that reach
the end of the scale bend the relation.

**People among themselves.** Distances of ratings from the mean of the other people's are compared at the same mean
rating, because ratings at the ends of a scale are closer to each other.

Tests are cluster-robust over groups of conversations, with Holm's correction over all properties and both kinds of
gaps. Properties that mark nearly the same conversations are reported once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings
from accord.statistics import MIN_GROUP_RATINGS, SIGNIFICANT, adjusted_difference, holm
from accord.validation.metrics_table import other_people
from accord.values import ISSUE, Sample, Target

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Against = Literal["judge", "people"]
AGAINST: tuple[Against, ...] = ("judge", "people")
MIN_GROUPS = 5
"""Smallest number of groups of conversations with a property, and of those without it."""
MIN_CURVE = 100
"""Number of groups of conversations from which on regressions have a square."""
MIN_OWN_MEAN = 5
"""Number of ratings from which on an annotator has a mean of their own."""
SAME = 0.7
"""Share of ratings that two properties must have in common to be merged in the report."""
EXAMPLES = 10
MAX_LEVELS = 30
"""Largest number of values of a metadata entry that is used."""


@dataclass(frozen=True)
class Property:
    """A property of conversations.

    Attributes:
        key: Name that stays the same if thresholds move: `column:NAME`, with `:high` or `:low`, or `ENTRY=VALUE`.
        name: Name in words.
        holds: (n,) True for ratings of conversations with the property.
        known: (n,) True for ratings of conversations for which the property is known.
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
        ratings: Number of ratings of conversations with the property.
        conversations: Number of these conversations.
        difference: Points by which people rate such conversations higher than others at the same score of the judge, or
            the judge lower at the same rating, whichever is nearer to 0; for `people`, by which ratings are further
            from the mean of the other people at the same mean rating.
        p: p-value with Holm's correction over all properties.
        examples: Up to ten conversations or turns with the property, the clearest first.
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
    tests = {against: _tests(against, rated, judge, properties) for against in AGAINST}
    corrected = iter(holm([p for each in tests.values() for _, _, p in each]))
    gaps = []
    for against, each in tests.items():
        found = [(one, difference, p) for (one, difference, _), p in zip(each, corrected, strict=False)]
        gaps += _gaps(against, [row for row in found if row[2] < SIGNIFICANT], _errors(against, rated, judge), rated)
    return gaps


def gap_of(against: Against, rated: Ratings, judge: Floats | None, each: Property) -> float | None:
    """Return the difference of one property, as `SpecificationGap.difference`, or `None` if it cannot be measured."""
    tests = _tests(against, rated, judge, [each], least_ratings=1, least_groups=1)
    return tests[0][1] if tests else None


def judge_residual(value: Floats, judge: Floats) -> Floats:
    """Return (n,) ratings minus the least-squares line of the judge's scores; NaN without a score."""
    known = np.isfinite(judge)
    if known.sum() < 2:
        return np.full(len(value), np.nan)
    spread = judge[known] - judge[known].mean()
    slope = float(spread @ value[known] / (spread @ spread)) if spread.any() else 0.0
    return np.where(known, value - value[known].mean() - slope * (judge - judge[known].mean()), np.nan)


def people_distance(rated: Ratings) -> Floats:
    """Return (n,) distance of each rating from the other people's mean; NaN if no other person rated the target."""
    others = other_people(rated)
    return np.full(len(rated), np.nan) if others is None else np.abs(rated.value - others.new_value)


def _tests(
    against: Against,
    rated: Ratings,
    judge: Floats | None,
    properties: Sequence[Property],
    least_ratings: int = MIN_GROUP_RATINGS,
    least_groups: int = MIN_GROUPS,
) -> list[_Tested]:
    """Return each property that holds for enough ratings, with its difference and its p."""
    error, instrument = _errors(against, rated, judge), _instrument(rated)
    tested, names = list[_Tested](), rated.group.astype(str)
    _, place = np.unique(rated.text, return_inverse=True)
    level = (np.bincount(place, rated.value) / np.bincount(place))[place]
    for each in properties:
        known = np.isfinite(error) & each.known
        holds, groups = each.holds[known], names[known]
        if min(int(side.sum()) for side in (holds, ~holds)) < least_ratings:
            continue
        if min(len(set(groups[side])) for side in (holds, ~holds)) < least_groups:
            continue
        degree = 2 if len(set(groups)) >= MIN_CURVE else 1
        if judge is None or against == "people":
            apart = adjusted_difference(error[known], level[known], level[known], groups, holds, degree)
            tested.append((each, apart.difference, apart.p))
            continue
        value, score = rated.value[known], judge[known]
        people = adjusted_difference(value, score, score, groups, holds, degree)
        judged = adjusted_difference(score, value, instrument[known], groups, holds, degree)
        reversed_ = -judged.difference / judged.slope if judged.slope else 0.0
        is_gap = people.slope * judged.slope > 0 and people.difference * reversed_ > 0
        smaller = min(people.difference, reversed_, key=abs)
        tested.append((each, smaller, max(people.p, judged.p)) if is_gap else (each, 0.0, 1.0))
    return tested


def _errors(against: Against, rated: Ratings, judge: Floats | None) -> Floats:
    """Return (n,) differences of ratings from the judge's line or from the other people; NaN where unknown."""
    if against == "people":
        return people_distance(rated)
    return np.full(len(rated), np.nan) if judge is None else judge_residual(rated.value, judge)


def _instrument(rated: Ratings) -> Floats:
    """Return (n,) the mean rating of the other people who rated the target, or the own one if there are none.

    Each rating counts less the mean of its annotator, because two strict people who rate the same conversations would
    seem to agree on them; of annotators with few ratings, less the mean of all.
    """
    _, annotator, counts = np.unique(rated.annotator.astype(str), return_inverse=True, return_counts=True)
    means = np.where(counts >= MIN_OWN_MEAN, np.bincount(annotator, rated.value) / counts, rated.value.mean())
    value = rated.value - means[annotator]
    _, target = np.unique(rated.text, return_inverse=True)
    _, own = np.unique(np.stack([target, annotator]), axis=1, return_inverse=True)
    own = own.reshape(-1)
    others = np.bincount(target)[target] - np.bincount(own)[own]
    total = np.bincount(target, value)[target] - np.bincount(own, value)[own]
    return np.where(others > 0, total / np.maximum(others, 1), value)


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
    """Return a metadata entry as text, or `None` for numbers and nested values."""
    value = None if conversation is None else conversation.metadata.get(entry)
    return str(value) if isinstance(value, str | bool) else None
