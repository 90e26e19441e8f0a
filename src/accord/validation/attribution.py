"""Attribution of drift: are scores moved by the system or by the judge? Valid at every time.

Two e-processes (`accord.statistics.change_tests`) read every finished day, each at half of the level:

- of new traffic: the mean score of each conversation, ranked among earlier ones of the same system and weekday; the
  conversations of one day may move together;
- of anchors: rated conversations that the present judge judged again, each ranked among its own earlier scores, of
  which the first is the one that the evaluator learned from.

Only the judge can move the anchors, so their alarm identifies it (Li, "Who Drifted: the System or the Judge?
Anytime-Valid Attribution in LLM Evaluation Pipelines", arXiv 2606.15474). If traffic moves and the anchors do not, the
system moved, but only once enough anchors were judged after the change; before, the cause is unknown. Both changes are
measured from the same day on: that of traffic within systems and weekdays, that of the judge within anchors. The
judge's share is their ratio, with the delta method's interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from hashlib import blake2b
from math import sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.statistics import CONFIDENCE, change_tests, clustered_mean, normal_quantile
from accord.values import Estimate, Target

Outcome = Literal["none", "system", "judge", "unknown"]

MIN_ANCHORS = 10
"""Anchors that must be judged after a change to attribute it."""
HALF = 0.5
"""Share of a change from which on it is the judge's."""
SAME_CHANGE_DAYS = 28
"""Largest distance in days of two changes that count as one; it began between two rounds of the paired anchors."""
COMMAND = "accord judge --anchors"


class ScoredConversation(NamedTuple):
    """Mean score of a conversation of new traffic on its first day (ISO), and the day on which it was scored."""

    conversation: str
    system: str
    day: str
    value: float
    scored: str = ""


class JudgedAgain(NamedTuple):
    """An anchor: the score from the answers that the evaluator learned from, and the score on a day (ISO)."""

    target: Target
    day: str
    then: float
    now: float


@dataclass(frozen=True)
class Attribution:
    """Outcome of both tests.

    Attributes:
        outcome: `none`: no change; `system` or `judge`: the larger part of the change; `unknown`: a change without
            enough anchors to attribute it.
        since: Likeliest first day of the change (ISO); None without one.
        change: Change of traffic since that day, as a share of the scale.
        judge_change: Change of the anchors since that day, as a share of the scale.
        judge_share: Part of the change that is the judge's; may be negative or above 1.
        conversations: Conversations of finished days.
        anchors: Anchors that were judged again; `anchors_since`, since the change.
        last_anchors: Last day with anchors (ISO); None without any.
        first_day, last_day: Finished days of traffic (ISO); None without any.
        asks: False if the evaluator asks no model, so that no judge can move its scores.
        is_scored_at_once: True if conversations before and after the change were scored at the same time, by one judge.
        traffic_e, anchor_e: Logarithms of the largest values of the e-processes.
    """

    outcome: Outcome
    since: str | None = None
    change: Estimate = Estimate()
    judge_change: Estimate = Estimate()
    judge_share: Estimate = Estimate()
    conversations: int = 0
    anchors: int = 0
    anchors_since: int = 0
    last_anchors: str | None = None
    first_day: str | None = None
    last_day: str | None = None
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
    def next(self) -> str:
        """Command of the next step; empty if there are enough anchors, or nothing to tell by them."""
        is_told = not self.asks or self.outcome in ("system", "judge") or not (self.conversations or self.anchors)
        return "" if is_told or (self.outcome == "none" and self.anchors >= MIN_ANCHORS) else COMMAND

    @property
    def finding(self) -> str:
        """The finding in one sentence."""
        if self.outcome == "none":
            return _quiet(self)
        if self.change.value is None:
            moved = f"The judge moved by {_percent(self.judge_change)} of the scale since {_day(self.since)}"
            return f"{moved}; scores of new conversations have not clearly changed."
        moved = f"Scores moved by {_percent(self.change)} of the scale since {_day(self.since)}"
        if not self.asks:
            return f"{moved}; the evaluator asks no judge, so the assistant or its users changed."
        if self.is_scored_at_once:
            return f"{moved}, among conversations that were scored together, so the assistant or its users changed."
        return f"{moved}; {_cause(self)}."

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
    anchors: Sequence[JudgedAgain],
    limits: tuple[float, float],
    today: str,
    asks: bool = True,
    level: float = 1 - CONFIDENCE,
    tests: DriftTests | None = None,
) -> Attribution:
    """Test whether scores of traffic and of anchors changed, and attribute the change.

    Args:
        traffic: Conversations of new traffic, scored by one evaluator; those of today are left out.
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
        last_day=days[-1] if days else None, asks=asks, traffic_e=moved.log_e, anchor_e=judged.log_e,
    )  # fmt: skip
    width = limits[1] - limits[0]
    place = max(judged.start, 1)
    judged_since = judged_days[place] if judged.is_alarm else None
    if not moved.is_alarm:
        if judged_since is None:
            return found
        part = _judge_change(anchors, judged_since, width)
        return replace(found, outcome="judge", since=judged_since, judge_change=part[0], anchors_since=part[1])
    since = days[moved.start]
    is_scored_at_once = _is_scored_at_once(traffic, since)
    if judged_since is not None and found.anchors >= MIN_ANCHORS and not is_scored_at_once:
        since = _limited_since(since, judged_days[place - 1], judged_since)
    change, error = _traffic_change(traffic, since, width)
    part = _judge_change(anchors, since, width)
    share = _share(change, error, part[0])
    found = replace(found, since=since, change=change, judge_change=part[0], judge_share=share, anchors_since=part[1])
    found = replace(found, is_scored_at_once=is_scored_at_once)
    return replace(found, outcome=_outcome(found, judged.is_alarm))


def _limited_since(since: str, last_before: str, judged_since: str) -> str:
    """Return the first day of a change of traffic, between two rounds of anchors if it is also the judge's change."""
    if abs(_ordinal(since) - _ordinal(judged_since)) > SAME_CHANGE_DAYS:
        return since
    return min(max(since, _day_after(last_before)), judged_since)


def _outcome(found: Attribution, is_judge_alarm: bool) -> Outcome:
    """Return the cause of a change of traffic."""
    if not found.asks or found.is_scored_at_once:
        return "system"
    high = found.judge_share.high
    if found.anchors_since < MIN_ANCHORS or high is None:
        return "unknown"
    if high < HALF:
        return "system"
    return "judge" if is_judge_alarm else "unknown"


# --- tests ------------------------------------------------------------------------------------------------------------


def drift_tests(traffic: Sequence[ScoredConversation], anchors: Sequence[JudgedAgain], level: float) -> DriftTests:
    """Test traffic and anchors, each at half of the level; see `attribute`."""
    moved, days = _test_traffic(traffic, level / 2)
    judged, judged_days = _test_anchors(anchors, level / 2)
    return DriftTests(moved, judged, days, judged_days)


def _test_traffic(traffic: Sequence[ScoredConversation], level: float) -> tuple[change_tests.ChangeTest, list[str]]:
    """Test conversations in order of days, ranked within their system and weekday (decision 33).

    Those of the first day of a system and weekday have no earlier day to be ranked among, and are not tested.
    """
    drawn = ((each.day, _draws(each.conversation), each) for each in traffic)
    rows = sorted(drawn, key=lambda row: row[:2])
    days = sorted({day for day, *_ in rows})
    weekday = {day: _weekday(day) for day in days}
    strata = [(each.system, weekday[day]) for day, _, each in rows]
    ranks = change_tests.conformal_ranks([each.value for *_, each in rows], strata, [draws[1] for _, draws, _ in rows])
    first: dict[tuple[str, int], str] = {}
    is_compared = np.array([first.setdefault(at, day) != day for at, (day, *_) in zip(strata, rows, strict=True)], bool)
    of_rows = _places(days, [day for day, *_ in rows])
    return change_tests.change_test(ranks[is_compared], of_rows[is_compared], level, moves_by_day=True), days


def _test_anchors(anchors: Sequence[JudgedAgain], level: float) -> tuple[change_tests.ChangeTest, list[str]]:
    """Test anchors in order of days, each ranked among its own earlier scores; the first day is that of learning."""
    first = {each.target: each.then for each in sorted(anchors, key=lambda each: each.day, reverse=True)}
    scores = [("", target, then) for target, then in first.items()]
    scores += [(each.day, each.target, each.now) for each in anchors]
    drawn = (
        (day, _draws(f"{target.conversation} {target.turn} {day}"), target, score) for day, target, score in scores
    )
    rows = sorted(drawn, key=lambda row: row[:2])
    days = sorted({day for day, *_ in rows})
    targets, values = [target for *_, target, _ in rows], [score for *_, score in rows]
    ranks = change_tests.conformal_ranks(values, targets, [draws[1] for _, draws, *_ in rows])
    return change_tests.change_test(ranks, _places(days, [day for day, *_ in rows]), level), days


def _places(days: Sequence[str], of_rows: Sequence[str]) -> NDArray[np.intp]:
    """Return the index of the day of each row."""
    place = {day: index for index, day in enumerate(days)}
    return np.array([place[day] for day in of_rows], dtype=np.intp)


def _weekday(day: str) -> int:
    return date.fromisoformat(day).weekday()


def _day_after(day: str) -> str:
    """Return the next ISO date; that of learning, which is empty, stays."""
    return day and (date.fromisoformat(day) + timedelta(days=1)).isoformat()


def _ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _draws(name: str) -> tuple[int, float]:
    """Return a place in the order of a day and a number from 0 to 1: random, but the same for each reader."""
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") / 2**64


# --- sizes of changes -------------------------------------------------------------------------------------------------


def _is_scored_at_once(traffic: Sequence[ScoredConversation], since: str) -> bool:
    """Return True if conversations before a change were scored as late as those after it, by their medians."""
    before, after = [
        sorted(each.scored or each.day for each in traffic if (each.day >= since) == is_after)
        for is_after in (False, True)
    ]
    return bool(before and after) and before[len(before) // 2] >= after[len(after) // 2]


def _traffic_change(traffic: Sequence[ScoredConversation], since: str, width: float) -> tuple[Estimate, float]:
    """Return the change of the mean within systems and weekdays, and its standard error, as shares of the scale.

    With s the strata that have conversations on both sides, weighted by those after, the change is Σ_s w_s·(m_s,after -
    m_s,before), its variance Σ_s w_s²·σ²·(1/n_s,after + 1/n_s,before) with the pooled variance σ² within strata.
    """
    sides: dict[tuple[str, int], tuple[list[float], list[float]]] = {}
    weekday = {day: _weekday(day) for day in {each.day for each in traffic}}
    for each in traffic:
        sides.setdefault((each.system, weekday[each.day]), ([], []))[each.day >= since].append(each.value / width)
    pairs = [(np.array(before), np.array(after)) for before, after in sides.values() if before and after]
    total = sum(len(after) for _, after in pairs)
    if not total:
        return Estimate(), 0.0
    change = sum(len(after) * float(after.mean() - before.mean()) for before, after in pairs) / total
    squares = sum(float(((side - side.mean()) ** 2).sum()) for pair in pairs for side in pair)
    freedom = max(sum(len(side) - 1 for pair in pairs for side in pair), 1)
    weights = sum((len(after) / total) ** 2 * (1 / len(after) + 1 / len(before)) for before, after in pairs)
    error = sqrt(squares / freedom * weights)
    return _normal(change, error), error


def _judge_change(anchors: Sequence[JudgedAgain], since: str, width: float) -> tuple[Estimate, int]:
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


def _share(change: Estimate, error: float, judge: Estimate) -> Estimate:
    """Return the judge's share of a change, r = j/c, with the variance (σ_j² + r²·σ_c²)/c² of the delta method."""
    if not change.value or judge.value is None or judge.low is None or judge.high is None:
        return Estimate()
    share = judge.value / change.value
    judge_error = (judge.high - judge.low) / 2 / normal_quantile((1 + CONFIDENCE) / 2)
    return _normal(share, sqrt(judge_error**2 + share**2 * error**2) / abs(change.value))


def _normal(value: float, error: float) -> Estimate:
    half = float(normal_quantile((1 + CONFIDENCE) / 2)) * error
    return Estimate(value, value - half, value + half)


# --- words ------------------------------------------------------------------------------------------------------------


def _quiet(found: Attribution) -> str:
    """Return the sentence on scores without a change."""
    if not found.conversations and not found.anchors:
        return "No new scores of finished days yet, so no drift can be found."
    since = f"since {_day(found.first_day)}" if found.first_day else "yet"
    said = f"No change of the scores beyond chance {since}" if found.conversations else "No new scores yet"
    if not found.asks:
        return f"{said}; the evaluator asks no judge."
    if not found.anchors:
        return f"{said}; the judge is not watched: no anchors."
    if found.anchors < MIN_ANCHORS:
        few = f"only {count_of(found.anchors, 'anchor')} of {MIN_ANCHORS} needed"
        return f"{said}; the judge is hardly watched: {few}."
    return f"{said}; the judge has not moved, by {count_of(found.anchors, 'anchor')} up to {_day(found.last_anchors)}."


def _cause(found: Attribution) -> str:
    """Return the clause on the cause of a change of traffic."""
    share, since = found.judge_share, _day(found.since)
    if found.outcome == "unknown":
        if not found.anchors_since:
            return f"system or judge unknown: no anchors since {since}"
        if found.anchors_since < MIN_ANCHORS or share.value is None:
            few = f"only {count_of(found.anchors_since, 'anchor')} since {since}, {MIN_ANCHORS} needed"
            return f"system or judge unknown: {few}"
        return f"system or judge unknown: the judge's part is {_range(share)}, so more days with anchors are needed"
    total, part = found.change.value or 0.0, share.value or 0.0
    low, high = share.low or 0.0, share.high or 0.0
    if low > 1 or high < 0:
        own = total * (1 - part)
        return f"the judge alone moved them by {_signed(part * total)}, the assistant or its users by {_signed(own)}"
    amount = "all" if part > 1 else "none" if part < 0 else f"{part:.0%}"
    said = f"{amount} of the {_signed(total)} is the judge {_range(share)}"
    return said if found.outcome == "judge" else f"{said}: the assistant or its users changed"


def _percent(estimate: Estimate) -> str:
    return "" if estimate.value is None else _signed(estimate.value)


def _signed(share: float) -> str:
    """Return a share as a signed percentage.

    >>> _signed(0.0612), _signed(-0.004)
    ('+6%', '-0.4%')
    """
    return f"{share:+.0%}" if abs(share) >= 0.0095 else f"{share:+.1%}"


def _range(estimate: Estimate) -> str:
    low, high = estimate.low or 0.0, estimate.high or 0.0
    return f"[{low:.0%}, {high:.0%}]"


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
