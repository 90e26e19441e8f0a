"""Attribution of drift: are scores moved by the system or by the judge? Valid at every time.

Two e-processes (`accord.statistics.change_tests`) read every finished day, each at half of the level:

- of new traffic: the mean score of each conversation, ranked among earlier ones of the same system and weekday; the
  conversations of one day may move together;
- of anchors: rated conversations that the present judge judged again, each ranked among its own earlier scores, of
  which the first is the one that the evaluator learned from.

Only the judge can move the anchors, so their alarm identifies it (Li, "Who Drifted: the System or the Judge?
Anytime-Valid Attribution in LLM Evaluation Pipelines", arXiv 2606.15474). If traffic moves and the anchors do not, the
system moved, but only once enough anchors were judged after the change; before, the cause is unknown.

Both may have moved. The change of traffic, c, is measured within systems and weekdays, the judge's part, j, within
anchors, both from the same day on. The rest, c - j, is the part of the system. The two parts may have opposite signs.
The judge's is the larger one, |j| > |c - j|, exactly if its share j/c is above one half. A part is named only if its
test has an alarm and the 95% interval of the judge's share lies on its side of one half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from hashlib import blake2b
from math import hypot, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.statistics import CONFIDENCE, change_tests, clustered_mean, normal_quantile
from accord.values import Estimate, Target

if TYPE_CHECKING:
    from accord.store import Anchor

Outcome = Literal["none", "system", "judge", "unknown"]

MIN_DAYS = 14
"""Finished days that a comparison by weekday needs."""
MIN_ANCHORS = 10
"""Anchors that must be judged after a change to attribute it."""
HALF = 0.5
"""Share of a change above which the judge's part is the larger one."""
SAME_CHANGE_DAYS = 28
"""Largest distance in days of two changes treated as one change, which began between two rounds of paired anchors."""
COMMAND = "accord judge --anchors"


class ScoredConversation(NamedTuple):
    """Mean score of a conversation of new traffic on its first day (ISO), and the day on which it was scored."""

    conversation: str
    system: str
    day: str
    value: float
    scored: str = ""


@dataclass(frozen=True)
class Attribution:
    """Outcome of both tests.

    Attributes:
        outcome: `none`: no change; `system` or `judge`: clearly the larger part of the change; `unknown`: a change
            without enough anchors, or with two parts of which neither is clearly larger.
        since: Likeliest first day of the change (ISO), or `None` without a change.
        change: Change of traffic since that day, as a share of the scale.
        judge_change: Part of the judge: the change of the anchors since that day, as a share of the scale.
        system_change: Part of the system: the rest of the change.
        judge_share: The judge's part divided by the change; may be negative or above 1, because parts may have opposite
            signs. Without an interval if the change may be 0.
        judge_moved: True if the test of the anchors has an alarm.
        conversations: Conversations of finished days.
        anchors: Anchors that were judged again; `anchors_since`, since the change.
        last_anchors: Last day with anchors (ISO), or `None` without anchors.
        first_day, last_day: Finished days of traffic (ISO), or `None` if no day is finished.
        days: Number of finished days with traffic.
        asks: False if the evaluator asks no model, so that no judge can move its scores.
        is_scored_at_once: True if conversations before and after the change were scored at the same time, by one judge.
        traffic_e, anchor_e: Logarithms of the largest values of the e-processes.
    """

    outcome: Outcome
    since: str | None = None
    change: Estimate = Estimate()
    judge_change: Estimate = Estimate()
    system_change: Estimate = Estimate()
    judge_share: Estimate = Estimate()
    conversations: int = 0
    anchors: int = 0
    anchors_since: int = 0
    last_anchors: str | None = None
    first_day: str | None = None
    last_day: str | None = None
    days: int = 0
    judge_moved: bool = False
    asks: bool = True
    is_scored_at_once: bool = False
    traffic_e: float = 0.0
    anchor_e: float = 0.0

    @property
    def is_alarm(self) -> bool:
        """True if scores of traffic or of anchors changed."""
        return self.outcome != "none"

    @property
    def summary(self) -> str:
        """The finding in one sentence, with the command of the next step if it needs anchors."""
        return f"{self.finding} Run: {self.next}" if self.next else self.finding

    @property
    def cause(self) -> Literal["system", "judge"] | None:
        """Cause of the alarm: the larger part; the judge if it moved and neither part is clearly larger; else None."""
        if self.outcome == "system" or self.outcome == "judge":
            return self.outcome
        return "judge" if self.judge_moved else None

    @property
    def next(self) -> str:
        """Command of the next step; empty if there are enough anchors, or nothing to tell by them."""
        is_told = not self.asks or self.outcome in ("system", "judge") or not (self.conversations or self.anchors)
        return "" if is_told or (self.outcome == "none" and self.anchors >= MIN_ANCHORS) else COMMAND

    @property
    def finding(self) -> str:
        """The finding in one sentence, with the intervals of both parts."""
        if self.outcome == "none":
            return _quiet(self)
        since, is_measured = _day(self.since), self.change.value is not None
        if self.judge_moved and not is_measured:
            moved = f"The judge moved by {_part(self.judge_change, ' of the scale')} since {since}"
            return f"{moved}; no conversations from before and after that day can be compared."
        size = f" by {_part(self.change, ' of the scale')}" if is_measured else ""
        moved = f"Scores moved{size} since {since}"
        if not self.asks:
            return f"{moved}; the evaluator asks no judge, so the assistant or its users changed."
        if self.is_scored_at_once:
            return f"{moved}, among conversations that were scored together, so the assistant or its users changed."
        if self.anchors_since < MIN_ANCHORS or not is_measured:
            reason = f"only {count_of(self.anchors_since, 'anchor')} since {since}, {MIN_ANCHORS} needed"
            if self.anchors_since >= MIN_ANCHORS:
                reason = "no conversations from before that day"
            elif not self.anchors_since:
                reason = f"no anchors since {since}"
            return f"{moved}; system or judge unknown: {reason}."
        parts = f"{_part(self.judge_change)} by the judge, {_part(self.system_change)} by the assistant or its users"
        larger = {"judge": "the judge's part is larger", "system": "the part of the assistant or its users is larger"}
        return f"{moved}: {parts}; {larger.get(self.outcome, 'neither part is clearly larger')}."

    def to_json(self) -> dict[str, Any]:
        """Return the fields, the sentence and the command of the next step."""
        return {**asdict(self), "summary": self.summary, "next": self.next}


class DriftTests(NamedTuple):
    """Tests of the scores of traffic and of anchors, with the days (ISO) of each; a day counts once it is over.

    Days of anchors begin with an empty one, which stands for the answers that the evaluator learned from.
    """

    moved: change_tests.ChangeTest
    judged: change_tests.ChangeTest
    days: Sequence[str]
    judged_days: Sequence[str]

    def until(self, day: str) -> DriftTests:
        """Return the tests as they were after a day: later alarms are unknown then."""
        kept = [
            replace(test, alarm=None if test.alarm is None or days[test.alarm] > day else test.alarm)
            for test, days in ((self.moved, self.days), (self.judged, self.judged_days))
        ]
        return self._replace(moved=kept[0], judged=kept[1])


def attribute(
    traffic: Sequence[ScoredConversation],
    anchors: Sequence[Anchor],
    limits: tuple[float, float],
    today: str,
    asks: bool = True,
    level: float = 1 - CONFIDENCE,
    tests: DriftTests | None = None,
) -> Attribution:
    """Test whether scores of traffic and of anchors changed, and attribute the change.

    Args:
        traffic: Conversations of new traffic, scored by one evaluator; today's conversations are left out.
        anchors: Anchors of the same evaluator.
        limits: Ends of the scale.
        today: ISO date of the current day (UTC).
        asks: False if the evaluator asks no model.
        level: Probability of any false alarm, at all times together.
        tests: The tests of these conversations and anchors, if they are known.
    """
    traffic = [each for each in traffic if each.day < today]
    anchors = [each for each in anchors if each.day <= today]
    moved, judged, days, judged_days = tests or drift_tests(traffic, anchors, level)
    found = Attribution(
        "none", conversations=len(traffic), anchors=len({each.target for each in anchors}),
        last_anchors=max((each.day for each in anchors), default=None), first_day=days[0] if days else None,
        last_day=days[-1] if days else None, days=len(days), asks=asks, traffic_e=moved.log_e, anchor_e=judged.log_e,
    )  # fmt: skip
    if not moved.is_alarm and not judged.is_alarm:
        return found
    place = max(judged.start, 1)
    since = days[moved.start] if moved.is_alarm else judged_days[place]
    is_scored_at_once = moved.is_alarm and _is_scored_at_once(traffic, since)
    if moved.is_alarm and judged.is_alarm and found.anchors >= MIN_ANCHORS and not is_scored_at_once:
        since = _limited_since(since, judged_days[place - 1], judged_days[place])
    width = limits[1] - limits[0]
    change = _traffic_change(traffic, since, width)
    judge_change, anchors_since = _judge_change(anchors, since, width)
    found = replace(
        found, since=since, change=change, judge_change=judge_change, system_change=_difference(change, judge_change),
        judge_share=_share(judge_change, change), anchors_since=anchors_since, is_scored_at_once=is_scored_at_once,
        judge_moved=judged.is_alarm,
    )  # fmt: skip
    return replace(found, outcome=_outcome(found, moved.is_alarm))


def _limited_since(since: str, last_before: str, judged_since: str) -> str:
    """Return the first day of a change of traffic, between two rounds of anchors if it is also the judge's change."""
    if abs(_ordinal(since) - _ordinal(judged_since)) > SAME_CHANGE_DAYS:
        return since
    return min(max(since, _day_after(last_before)), judged_since)


def _outcome(found: Attribution, scores_moved: bool) -> Outcome:
    """Return the larger part of a change, if its test has an alarm and its share is clearly above one half."""
    if scores_moved and (not found.asks or found.is_scored_at_once):
        return "system"
    if found.change.value is None:
        return "judge" if found.judge_moved else "unknown"
    share = found.judge_share
    if found.anchors_since < MIN_ANCHORS or share.low is None or share.high is None:
        return "unknown"
    if found.judge_moved and share.low > HALF:
        return "judge"
    return "system" if scores_moved and share.high < HALF else "unknown"


# --- tests ------------------------------------------------------------------------------------------------------------


def drift_tests(traffic: Sequence[ScoredConversation], anchors: Sequence[Anchor], level: float) -> DriftTests:
    """Test traffic and anchors, each at half of the level; see `attribute`."""
    moved, days = _test_traffic(traffic, level / 2)
    judged, judged_days = _test_anchors(anchors, level / 2)
    return DriftTests(moved, judged, days, judged_days)


def _test_traffic(traffic: Sequence[ScoredConversation], level: float) -> tuple[change_tests.ChangeTest, list[str]]:
    """Test conversations in order of days, ranked within their system and weekday (decision 33).

    Conversations of the first day of a system and weekday have no earlier day to be ranked among, and are not tested.
    """
    days = sorted({each.day for each in traffic})
    weekday = {day: _weekday(day) for day in days}
    of_rows, (places, uniforms) = _places(days, [each.day for each in traffic]), _draws(each[0] for each in traffic)
    order = np.lexsort((uniforms, places, of_rows))
    codes: dict[tuple[str, int], int] = {}
    strata = [codes.setdefault((each.system, weekday[each.day]), len(codes)) for each in traffic]
    stratum, of_rows = np.array(strata, dtype=np.intp)[order], of_rows[order]
    values = np.array([each.value for each in traffic], dtype=float)[order]
    ranks = change_tests.conformal_ranks(values, stratum, uniforms[order])
    _, first, inverse = np.unique(stratum, return_index=True, return_inverse=True)
    is_compared = of_rows != of_rows[first][inverse]
    return change_tests.change_test(ranks[is_compared], of_rows[is_compared], level, moves_by_day=True), days


def _test_anchors(anchors: Sequence[Anchor], level: float) -> tuple[change_tests.ChangeTest, list[str]]:
    """Test anchors in order of days, each ranked among its own earlier scores; learning counts as the first day."""
    first = {each.target: each.then for each in sorted(anchors, key=lambda each: each.day, reverse=True)}
    scores = [("", target, then) for target, then in first.items()]
    scores += [(each.day, each.target, each.now) for each in anchors]
    days = sorted({day for day, *_ in scores})
    places, uniforms = _draws(f"{target.conversation} {target.turn} {day}" for day, target, _ in scores)
    of_rows = _places(days, [day for day, *_ in scores])
    order = np.lexsort((uniforms, places, of_rows))
    rows = [scores[place] for place in order]
    ranks = change_tests.conformal_ranks([row[2] for row in rows], [row[1] for row in rows], uniforms[order])
    return change_tests.change_test(ranks, of_rows[order], level), days


def _places(days: Sequence[str], of_rows: Sequence[str]) -> NDArray[np.intp]:
    """Return the index of the day of each row."""
    place = {day: index for index, day in enumerate(days)}
    return np.array([place[day] for day in of_rows], dtype=np.intp)


def _weekday(day: str) -> int:
    return date.fromisoformat(day).weekday()


def _day_after(day: str) -> str:
    """Return the next ISO date; the empty day of learning stays empty."""
    return day and (date.fromisoformat(day) + timedelta(days=1)).isoformat()


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _draws(names: Iterable[str]) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return places in the order of a day and numbers from 0 to 1: random, but the same for each reader."""
    digests = b"".join(blake2b(name.encode("utf-8", "replace"), digest_size=16).digest() for name in names)
    places, numbers = np.frombuffer(digests, dtype=">u8").reshape(-1, 2).astype(np.uint64).T
    return places, numbers / 2**64


# --- sizes of changes -------------------------------------------------------------------------------------------------


def _is_scored_at_once(traffic: Sequence[ScoredConversation], since: str) -> bool:
    """Return True if conversations before a change were scored as late as those after it, by their medians."""
    before, after = [
        sorted(each.scored or each.day for each in traffic if (each.day >= since) == is_after)
        for is_after in (False, True)
    ]
    return bool(before and after) and before[len(before) // 2] >= after[len(after) // 2]


def _traffic_change(traffic: Sequence[ScoredConversation], since: str, width: float) -> Estimate:
    """Return the change of the mean within systems and weekdays, as a share of the scale.

    With s the strata that have conversations on both sides of the day, weighted by those after it, the change is
    Σ_s w_s·(m_s,after - m_s,before). Conversations of one day may move together: a score is the mean of its side, an
    effect of its day with variance τ², and noise with variance σ². Both are estimated from the days of all sides by the
    analysis of variance for unequal sizes (Searle, Casella & McCulloch, "Variance Components", 1992, chapter 3). The
    change has the variance Σ_sides w_s²·(σ²·n + τ²·Σ_d n_d²)/n², with n_d conversations on day d and n on all days.
    """
    strata: dict[tuple[str, int], tuple[dict[str, list[float]], dict[str, list[float]]]] = {}
    weekday = {day: _weekday(day) for day in {each.day for each in traffic}}
    for each in traffic:
        side = strata.setdefault((each.system, weekday[each.day]), ({}, {}))[each.day >= since]
        side.setdefault(each.day, []).append(each.value / width)
    pairs = [pair for pair in strata.values() if all(pair)]
    total = sum(len(scores) for _, after in pairs for scores in after.values())
    if not total:
        return Estimate()
    change = within = between = load = noise_factor = day_factor = 0.0
    n_scores = n_days = n_sides = 0
    for pair in pairs:
        weight = sum(map(len, pair[1].values())) / total
        for sign, side in zip((-1, 1), pair, strict=True):
            sizes = np.array([len(scores) for scores in side.values()])
            means = np.array([np.mean(scores) for scores in side.values()])
            n, squares = int(sizes.sum()), float((sizes**2).sum())
            mean = float(sizes @ means) / n
            change += sign * weight * mean
            within += sum(float(np.var(scores)) * len(scores) for scores in side.values())
            between += float(sizes @ (means - mean) ** 2)
            load += n - squares / n
            noise_factor += weight**2 / n
            day_factor += weight**2 * squares / n**2
            n_scores, n_days, n_sides = n_scores + n, n_days + len(sizes), n_sides + 1
    noise = within / max(n_scores - n_days, 1)
    of_days = max((between - (n_days - n_sides) * noise) / load, 0.0) if load > 0 else 0.0
    error = sqrt(noise * noise_factor + of_days * day_factor)
    return _within(change, float(normal_quantile((1 + CONFIDENCE) / 2)) * error)


def _judge_change(anchors: Sequence[Anchor], since: str, width: float) -> tuple[Estimate, int]:
    """Return the mean difference of the anchors since a day and before it, as a share of the scale, and their number.

    Before a day are the score from the answers that the evaluator learned from, and all judgings until then.
    """
    before: dict[Target, list[float]] = {}
    after: dict[Target, list[float]] = {}
    for each in anchors:
        before.setdefault(each.target, [each.then])
        (before if each.day < since else after).setdefault(each.target, []).append(each.now)
    if not after:
        return Estimate(), 0
    differences = [float(np.mean(values) - np.mean(before[target])) / width for target, values in after.items()]
    return clustered_mean(differences, [str(target) for target in after]).interval(), len(after)


def _difference(change: Estimate, part: Estimate) -> Estimate:
    """Return the rest of a change after a part; both estimates are independent, so their variances add up."""
    if change.value is None or part.value is None:
        return Estimate()
    return _within(change.value - part.value, hypot(_half(change), _half(part)))


def _share(part: Estimate, change: Estimate) -> Estimate:
    """Return the share r of a part p in a change c, with Fieller's interval; without one if the change may be 0.

    The interval holds all r with (p - r·c)² ≤ h_p² + r²·h_c², with the half widths h of the intervals of p and c, which
    are independent (Fieller, "Some Problems in Interval Estimation", JRSS B 16, 1954).
    """
    if not change.value or part.value is None:
        return Estimate()
    p, c, divisor = part.value, change.value, change.value**2 - _half(change) ** 2
    if divisor <= 0:
        return Estimate(p / c)
    root = sqrt(max((p * c) ** 2 - divisor * (p**2 - _half(part) ** 2), 0.0))
    return Estimate(p / c, (p * c - root) / divisor, (p * c + root) / divisor)


def _half(estimate: Estimate) -> float:
    """Return half of the width of an interval."""
    return ((estimate.high or 0.0) - (estimate.low or 0.0)) / 2


def _within(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half)


# --- words ------------------------------------------------------------------------------------------------------------


def _quiet(found: Attribution) -> str:
    """Return the sentence on scores without a change."""
    if not found.conversations and not found.anchors:
        return "No new scores of finished days yet, so no drift can be found."
    said = "No new scores yet"
    if found.conversations and found.days < MIN_DAYS:
        few = f"{count_of(found.days, 'day')} of {MIN_DAYS} needed"
        said = f"Not enough days to tell a change of the scores day by day: {few}"
    elif found.conversations:
        said = f"Not enough to tell a change of the scores day by day since {_day(found.first_day)}"
    if not found.asks:
        return f"{said}; the evaluator asks no judge."
    if not found.anchors:
        return f"{said}; the judge is not watched: no anchors."
    if found.anchors < MIN_ANCHORS:
        few = f"only {count_of(found.anchors, 'anchor')} of {MIN_ANCHORS} needed"
        return f"{said}; the judge is hardly watched: {few}."
    return f"{said}; the judge has not moved, by {count_of(found.anchors, 'anchor')} up to {_day(found.last_anchors)}."


def _part(estimate: Estimate, unit: str = "") -> str:
    """Return a change and its interval as signed percentages."""
    low, high = estimate.low or 0.0, estimate.high or 0.0
    return f"{_signed(estimate.value or 0.0)}{unit} [{_signed(low)}, {_signed(high)}]"


def _signed(share: float) -> str:
    """Return a share as a signed percentage.

    >>> _signed(0.0612), _signed(-0.004)
    ('+6%', '-0.4%')
    """
    return f"{share:+.0%}" if abs(share) >= 0.0095 else f"{share:+.1%}"


def _day(day: str | None) -> str:
    """Return an ISO date as in text."""
    if not day:
        return "–"
    parsed = date.fromisoformat(day)
    return f"{parsed.day} {parsed:%B} {parsed.year}"


def attribution_row(found: Attribution, evaluator: str) -> Mapping[str, Any]:
    """Return the alarm of a change, in the format of alarms of live scores; of each cause, an evaluator has one."""
    values = found.judge_change if found.change.value is None else found.change
    return {
        "kind": "drift", "system": None, "day": found.since or "", "evaluator": evaluator,
        "feature": "", "before": 0.0, "after": values.value, "stability": None, "p": None,
        "outcome": found.outcome, "message": found.finding.rstrip("."),
    }  # fmt: skip
