"""Batches of scored conversations: did the scores change, by how much, and how much is that in people's ratings?

`batch_change` is the one rule behind `accord score`, `accord watch`, the board, `accord gate` and `accord cycle`. A
batch is a run of `accord score`, or a week of live scores. The latest batch is compared with the earlier ones within
assistant versions (`accord.statistics.batch_changes`). The latest two and four together are compared as well, so that a
small change that lasts is found, and so is each version, topic and language. Every comparison of every batch spends its
part of the level: the probability of any false alarm is at most 5%, however many batches are read, if batches differ by
themselves as assumed there.

A batch that differs stays out of the reference, so that a change that lasts is reported until it ends. Scores of two
evaluators are not compared.

A comparison that shows no change states the difference with its interval, and never that nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, hypot, isfinite
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.learning import HeldOutAnswers
from accord.results import Document, Figure, Ledger, Part, Section, Table, Text
from accord.statistics import CONFIDENCE, SIGNIFICANT, holm, label_plans, normal_quantile, normal_tail
from accord.statistics.batch_changes import (
    FEWEST_RATED,
    Cells,
    Difference,
    Sight,
    difference,
    rated_change,
    sight,
    spent_level,
)
from accord.values import Estimate, content_hash

Floats = NDArray[np.float64]
Names = NDArray[np.object_]
State = Literal["no batch", "first", "few", "unclear", "fell", "rose"]
"""State of the latest batch: `unclear` is a comparison that shows no change."""

WINDOWS = {1: 0.4, 2: 0.15, 4: 0.15}
"""Numbers of latest batches that are compared together, each with its part of a comparison's level."""
NEW_VERSION, GROUPS = 0.1, 0.2
"""Parts of a comparison's level for versions without an earlier batch, and for all groups together."""
USELESS, MOST_RATIO = 0.5, 4.0
"""An interval of people's change tells nothing if it is wider than this share of the scale, and if its ends have unlike
signs or a ratio above the second number."""
DIMENSIONS = ("version", "topic", "language")
"""Properties of conversations that may show the cause of a change."""
FEWEST_LABELS, MOST_LABELS = 10, 150
"""Smallest and largest number of labels of each side that are proposed."""
MOST_GROUPS = 12
"""Groups of one dimension whose changes are listed: those with the most new conversations."""
SOURCE = "accord.decisions.batch_change"
ASSUMPTION = (
    "This holds if the change moves the scores as differences among conversations do; a change whose cause the scores "
    "do not see cannot be measured by them"
)


@dataclass(frozen=True)
class Batch:
    """Scores of one batch, one row per conversation.

    Attributes:
        key: Run, or the Monday of a week of live scores.
        name: Name in sentences.
        conversation: (n,) ids.
        value: (n,) mean score of each conversation.
        version, topic, language: (n,) names; empty if unknown.
        lacking: Number of conversations that lack evidence which the evaluator learned from.
    """

    key: str
    name: str
    conversation: Names
    value: Floats
    version: Names
    topic: Names
    language: Names
    lacking: int = 0

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True)
class GroupChange:
    """Change of a part of the conversations, within versions.

    Attributes:
        dimension: `version`, `topic` or `language`.
        name: Name of the group.
        change: Difference with its interval; for a version without an earlier batch, against all earlier conversations.
        new, reference: Numbers of compared conversations.
        is_new: True for a version without an earlier batch.
        is_cause: True if the group changed more than the others, beyond chance.
        others: Change of the other groups.
    """

    dimension: str
    name: str
    change: Estimate
    new: int
    reference: int
    is_new: bool = False
    is_cause: bool = False
    others: float | None = None


@dataclass(frozen=True)
class BatchChange:
    """Comparison of the latest batch of scores with the earlier ones.

    Attributes:
        state: Result of the comparison.
        batch: Name of the latest batch; empty without one.
        key: Its run or week.
        window: Number of latest batches that were compared together.
        conversations: Conversations of these batches.
        reference: Names of the reference batches.
        scores: Change of the mean score within versions, with an interval that holds at all batches together.
        people: Change of people's mean rating behind it; without a value if the evaluator cannot tell.
        blind: Reason why the evaluator cannot tell the change of people's ratings; empty if it can.
        seen: Part of a change of people's ratings that the scores show, with its 95% interval.
        compared: Numbers of compared conversations, new and reference.
        means: Mean score of the latest and of the reference batches, over all versions.
        groups: Changes by version, topic and language.
        number: Number of comparisons so far.
        evaluator: Evaluator that made the scores.
        labels: Number of labels of new and of reference conversations that would show the change of people's ratings.
        rated: Change of people's mean rating by labels, or no value without labels on both sides.
        rated_counts: Numbers of labeled conversations, new and reference.
        new_version: Version without an earlier batch, if its comparison is the reported one.
        group: Dimension and name of a group, if it alone is shown to differ; empty names otherwise. `overall` is then
            the change of all conversations.
        identity: Digest of the conversations of the latest batch, which stays if they are scored again.
        keys, reference_keys: Runs and weeks of the compared and the reference batches.
        lacking: Number of conversations of these batches that lack evidence which the evaluator learned from.
    """

    state: State
    batch: str = ""
    key: str = ""
    window: int = 1
    conversations: int = 0
    reference: tuple[str, ...] = ()
    scores: Estimate = Estimate()
    people: Estimate = Estimate()
    blind: str = ""
    seen: Estimate = Estimate()
    compared: tuple[int, int] = (0, 0)
    means: tuple[float | None, float | None] = (None, None)
    groups: tuple[GroupChange, ...] = ()
    number: int = 0
    evaluator: str = ""
    labels: int = 0
    rated: Estimate = Estimate()
    rated_counts: tuple[int, int] = (0, 0)
    new_version: str = ""
    group: tuple[str, str] = ("", "")
    overall: Estimate = Estimate()
    identity: str = ""
    keys: tuple[str, ...] = field(default=(), repr=False)
    reference_keys: tuple[str, ...] = field(default=(), repr=False)
    lacking: int = 0

    @property
    def is_alarm(self) -> bool:
        """True if the scores changed."""
        return self.state in ("fell", "rose")

    @property
    def is_without_evidence(self) -> bool:
        """True if most conversations lack evidence, such as a judge's answers, so that their scores show no change."""
        return 2 * self.lacking > self.conversations

    def is_about(self, batch: Batch) -> NDArray[np.bool_]:
        """Return, (n,), True for the conversations of a batch that the change is about: all, or those of a group."""
        dimension, name = self.group
        return np.ones(len(batch), dtype=bool) if not dimension else np.asarray(getattr(batch, dimension) == name)

    @property
    def causes(self) -> tuple[GroupChange, ...]:
        """Groups that changed more than the others."""
        return tuple(each for each in self.groups if each.is_cause)

    @property
    def ledger(self) -> Ledger:
        """Figures of the comparison."""
        return Ledger(self._figures())

    def _figures(self) -> Iterator[Figure]:
        if self.scores.value is None:
            return
        about = (
            f"{count_of(self.compared[0], 'new conversation')} and {self.compared[1]:,} of "
            f"{count_of(len(self.reference), 'earlier batch', 'earlier batches')}, within versions"
        )
        n = self.compared[0]
        yield Figure.measured("batch_change", self.scores, n, about, "scores", source=SOURCE, of=self.evaluator)
        if self.people.value is not None:
            yield Figure.measured("people_change", self.people, n, about, "scores", source=SOURCE, of=self.evaluator)
        if self.seen.value is not None:
            yield Figure.measured("seen_share", self.seen, about="held-out ratings", source=SOURCE, of=self.evaluator)
        if self.rated.value is not None:
            rated = f"{self.rated_counts[0]:,} new and {self.rated_counts[1]:,} earlier labeled conversations"
            yield Figure.measured("rated_change", self.rated, sum(self.rated_counts), rated, "people", source=SOURCE,
                                  of=self.evaluator)  # fmt: skip
        for each in self.groups:
            told = f"{count_of(each.new, 'new conversation')} and {each.reference:,} earlier ones"
            yield Figure.measured("batch_change", each.change, each.new, told, "scores",
                                  part=f"{each.dimension} {each.name}", source=SOURCE, of=self.evaluator)  # fmt: skip

    @property
    def finding(self) -> str:
        """The change of the scores in one sentence."""
        if self.state == "no batch":
            return "No batch of scores yet; score new conversations: accord score."
        latest = self.batch if self.window == 1 else f"the latest {self.window} batches, up to {self.batch}"
        if self.state == "first":
            more = "a change can be seen from the second batch of this evaluator on"
            return f"Not enough batches to tell a change: {latest} is the first one; {more}."
        if self.state == "few":
            seen = " and ".join(f"{mean:.2f}" for mean in self.means if mean is not None)
            return (
                f"Not enough conversations to tell a change: {latest} and the earlier batches share too few of one "
                f"version; mean scores, over all versions: {seen}."
            )
        figure = self.ledger["batch_change"].text()
        against = f"within versions, against {count_of(len(self.reference), 'earlier batch', 'earlier batches')}"
        if self.new_version:
            against = (
                f"of the new version {self.new_version}, against the versions of {against.rpartition('against ')[2]}"
            )
        if self.state == "unclear":
            return f"Not enough to tell a change of the scores of {latest}: {figure} {against}."
        if self.group[0]:
            overall = Figure.measured("batch_change", self.overall).text()
            named = f"{self.group[0]} {self.group[1] or 'unknown'}"
            return f"Scores of {named} {self.state} in {latest}: {figure} {against}; of all conversations: {overall}."
        return f"Scores {self.state} in {latest}: {figure} {against}."

    @property
    def in_people(self) -> str:
        """The change of people's mean rating in one sentence; empty without a comparison."""
        if self.scores.value is None and not self.is_without_evidence:
            return ""
        if self.blind:
            return f"This evaluator cannot tell by how much people's ratings changed: {self.blind}."
        figure = self.ledger["people_change"].text()
        if self.state == "unclear":
            return f"In people's ratings, that is {figure} points."
        return f"That is about {figure} points in people's ratings."

    @property
    def cause(self) -> str:
        """Sentence on the groups that changed most; empty without an alarm or without such a group."""
        if not self.is_alarm or not self.causes or self.group[0]:
            return ""
        ledger, told = self.ledger, list[str]()
        for each in self.causes:
            figure = ledger[f"batch_change:{each.dimension} {each.name}"].text()
            others = "" if each.others is None else f" (others {each.others:+.2f})".replace("-", "−")
            told.append(f"new version {each.name} {figure}" if each.is_new else
                        f"{each.dimension} {each.name} {figure}{others}")  # fmt: skip
        return f"Most of it is in {'; '.join(told)}."

    @property
    def by_labels(self) -> str:
        """Sentence on the change by labels of these conversations; empty without an alarm or without labels."""
        if not self.is_alarm or not any(self.rated_counts):
            return ""
        counts = f"{self.rated_counts[0]:,} new and {self.rated_counts[1]:,} earlier labeled conversations"
        change = {"fell": "fall", "rose": "rise"}[self.state]
        low, high = self.rated.low, self.rated.high
        if low is None or high is None:
            return (
                f"Not enough labels to tell if people see the {change}: {counts}, at least {FEWEST_RATED} of each are "
                "needed by the same people."
            )
        figure = f"{self.ledger['rated_change'].text()} points, by {counts}"
        if low <= 0 <= high:
            return f"Not enough labels to tell if people see the {change}: {figure}."
        is_seen = (high < 0) == (self.state == "fell")
        return f"People see the {change}: {figure}." if is_seen else f"People see the opposite: {figure}."

    @property
    def next(self) -> str:
        """Command of the next step: label conversations; empty without an alarm, or once people see the change."""
        if not self.is_alarm or (self.rated.low is not None and self.by_labels.startswith("People")):
            return ""
        return f"accord label next --for change --count {max(self.labels - sum(self.rated_counts), FEWEST_RATED)}"

    @property
    def summary(self) -> str:
        """All sentences."""
        return " ".join(filter(None, [self.finding, self.in_people, self.cause, self.by_labels]))

    @property
    def notes(self) -> list[str]:
        """Assumptions behind the figures, as sentences."""
        return [f"{ASSUMPTION}."] if self.people.value is not None else []

    @property
    def lines(self) -> list[str]:
        """The sentences, the assumptions and the next step, for a terminal."""
        return [self.summary, *self.notes, *([f"Let people rate some: {self.next}"] if self.next else [])]

    def section(self) -> Section:
        """Return the comparison as a section: the finding, groups, assumptions, and the next step."""
        ledger = self.ledger
        rows: list[list[str | Figure]] = [
            [each.dimension, f"{each.name or 'unknown'}{' (new)' if each.is_new else ''}", f"{each.new:,}",
             f"{each.reference:,}", ledger[f"batch_change:{each.dimension} {each.name}"]]
            for each in self.groups
        ]  # fmt: skip
        header = ["by", "group", "new", "earlier", "change of scores"]
        parts: list[Part] = [Table(header, rows)] if rows else []
        notes = [Text(each, "soft") for each in self.lines[1:]]
        return Section("Latest batch", self.summary, [*parts, *notes])

    def document(self) -> Document:
        """Return the comparison as a document."""
        titles = {"fell": "Scores fell", "rose": "Scores rose", "unclear": "Not enough to tell a change"}
        return Document(titles.get(self.state, "Not enough batches"), "", [self.section()])

    def to_json(self) -> dict[str, Any]:
        """Return the comparison with its sentences and figures."""
        groups = [
            {"dimension": each.dimension, "name": each.name, **_ends(each.change), "new": each.new,
             "reference": each.reference, "is_new": each.is_new, "is_cause": each.is_cause, "others": each.others}
            for each in self.groups
        ]  # fmt: skip
        return {
            "state": self.state, "is_alarm": self.is_alarm, "batch": self.batch, "key": self.key,
            "window": self.window, "group": list(self.group), "overall": _ends(self.overall),
            "conversations": self.conversations, "reference": list(self.reference),
            "scores": _ends(self.scores), "people": _ends(self.people), "cannot_tell": self.blind,
            "seen": _ends(self.seen), "compared": list(self.compared), "means": list(self.means), "groups": groups,
            "lacking": self.lacking,
            "number": self.number, "evaluator": self.evaluator, "labels": self.labels, "rated": _ends(self.rated),
            "rated_counts": list(self.rated_counts), "next": self.next, "summary": self.summary, "notes": self.notes,
            "lines": self.lines,
            "figures": self.ledger.to_json(),
        }  # fmt: skip


def _ends(estimate: Estimate) -> dict[str, float | None]:
    return {name: None if end is None or not isfinite(end) else end for name, end in estimate.to_json().items()}


def sight_of(held_out: HeldOutAnswers | None) -> Sight | None:
    """Return how much of a change of people's ratings the scores of an evaluator show, or `None` if it is unknown.

    Ratings of one group with the same predictions are about one text.
    """
    if held_out is None or not len(held_out.answer):
        return None
    ratings, first, place = np.unique(held_out.rating, return_index=True, return_inverse=True)
    score = np.bincount(place, held_out.new @ held_out.options) / np.bincount(place)
    group, answer = held_out.group[first], held_out.answer[first]
    known = np.column_stack([group, np.round(score, 9)])
    text = np.unique(known, axis=0, return_inverse=True)[1].reshape(-1)
    return sight(score, held_out.options[answer], text, group)


def batch_change(
    batches: Sequence[Batch], seen: Sight | None, span: float, evaluator: str = "", level: float = 1 - CONFIDENCE
) -> BatchChange:
    """Compare the latest batch with the earlier ones.

    Args:
        batches: Batches of one evaluator in order of time, without empty ones.
        seen: Sight of the evaluator, or `None` if it is unknown.
        span: Width of the scale.
        evaluator: Name of the evaluator.
        level: Probability of any false alarm, at all batches together.
    """
    last = _latest(batches, seen, span, evaluator, level)
    last = replace(last, lacking=sum(each.lacking for each in batches if each.key in last.keys))
    if not last.is_without_evidence:
        return last
    lacking = f"{last.lacking:,} of {count_of(last.conversations, 'conversation')} lack evidence that it learned from"
    return replace(last, people=Estimate(), blind=lacking)


def _latest(batches: Sequence[Batch], seen: Sight | None, span: float, evaluator: str, level: float) -> BatchChange:
    """Return the comparison of the latest batch with its groups."""
    found = list(_each(batches, seen, span, evaluator, level))
    if not found:
        return BatchChange("no batch", evaluator=evaluator)
    last, chosen, allowed = found[-1]
    if chosen is None:
        return last
    last = replace(last, identity=content_hash(sorted(batches[-1].conversation.tolist()), length=16))
    groups = _groups(batches, chosen, allowed * GROUPS)
    last = replace(last, groups=(*last.groups, *(each for each, _ in groups)))
    stated = [(test, each) for each, test in groups if test.p < allowed * GROUPS / len(groups)]
    if last.is_alarm or not stated:
        return last
    test, group = min(stated, key=lambda each: each[0].p)
    people, blind = _in_people(group.change, seen, span)
    return replace(
        last, state="fell" if test.value < 0 else "rose", scores=group.change, people=people, blind=blind,
        labels=_labels(people, seen, span), compared=(test.new, test.reference), overall=last.scores, new_version="",
        group=(group.dimension, group.name),
    )  # fmt: skip


def batch_changes(
    batches: Sequence[Batch], seen: Sight | None, span: float, evaluator: str = "", level: float = 1 - CONFIDENCE
) -> Iterator[BatchChange]:
    """Yield the comparison of each batch as it was then, without groups; arguments as for `batch_change`."""
    return (each for each, _, _ in _each(batches, seen, span, evaluator, level))


def _each(
    batches: Sequence[Batch], seen: Sight | None, span: float, evaluator: str, level: float
) -> Iterator[tuple[BatchChange, _Compared | None, float]]:
    """Yield the comparison of each batch, the comparison behind it, and the level of its intervals of groups."""
    if not batches:
        return
    versions, cells = _cells(batches, [each.version for each in batches])
    changed: set[int] = set()
    number = 0
    for place, latest in enumerate(batches):
        reference = [other for other in range(place) if other not in changed]
        about: dict[str, Any] = {"batch": latest.name, "key": latest.key, "evaluator": evaluator, "number": number}
        mean = float(latest.value.mean())
        if not reference:
            first = BatchChange("first", **about, conversations=len(latest), means=(mean, None), keys=(latest.key,))
            yield first, None, level
            continue
        number += 1
        about["number"], allowed = number, spent_level(number, level)
        within = list(_windows(cells, place, changed, allowed))
        fresh = list(_newcomers(cells, versions, place, reference, allowed * NEW_VERSION))
        stated = [each for each in within if each.is_stated] or [each for each in fresh if each.is_stated]
        chosen = min(stated, key=lambda each: each.test.p) if stated else next(iter(within + fresh), None)
        about["means"] = mean, float(np.concatenate([batches[one].value for one in reference]).mean())
        if chosen is None:
            names = tuple(batches[one].name for one in reference)
            few = BatchChange("few", **about, conversations=len(latest), reference=names, keys=(latest.key,))
            yield few, None, level
            continue
        people, blind = _in_people(chosen.change, seen, span)
        state: State = "unclear" if not stated else "fell" if chosen.test.value < 0 else "rose"
        newcomers = [GroupChange("version", each.version, each.change, each.test.new, each.test.reference, True,
                                 each.is_stated) for each in fresh]  # fmt: skip
        done = BatchChange(
            state, **about, window=len(chosen.new), conversations=sum(len(batches[one]) for one in chosen.new),
            reference=tuple(batches[one].name for one in chosen.reference), scores=chosen.change, people=people,
            blind=blind, seen=Estimate() if seen is None else seen.least, new_version=chosen.version,
            compared=(chosen.test.new, chosen.test.reference), labels=_labels(people, seen, span),
            groups=tuple(newcomers), keys=tuple(batches[one].key for one in chosen.new),
            reference_keys=tuple(batches[one].key for one in chosen.reference),
        )  # fmt: skip
        yield done, chosen, allowed
        if stated and not chosen.version:
            changed.update(chosen.new)


class _Compared(NamedTuple):
    """Comparison of new batches with reference batches; of a version without an earlier batch, by its name."""

    new: Sequence[int]
    reference: Sequence[int]
    test: Difference
    level: float
    version: str = ""

    @property
    def change(self) -> Estimate:
        return self.test.interval(self.level)

    @property
    def is_stated(self) -> bool:
        return self.test.p < self.level


def _windows(cells: Cells, place: int, changed: set[int], allowed: float) -> Iterator[_Compared]:
    """Yield the comparison of the latest batch, then of longer windows that end with it.

    A longer window counts if no earlier batch of it was found changed, or if all were, in the direction of the latest.
    """
    latest = None
    for length, part in WINDOWS.items():
        new = list(range(place - length + 1, place + 1))
        reference = [other for other in range(new[0]) if other not in changed]
        earlier = changed & set(new[:-1])
        if new[0] < 1 or not reference or (earlier and len(earlier) < length - 1):
            continue
        test = difference(cells, new, reference)
        latest = test if length == 1 else latest
        if test is not None and latest is not None and (not earlier or latest.value * test.value > 0):
            yield _Compared(new, reference, test, allowed * part)


def _newcomers(
    cells: Cells, versions: Sequence[str], place: int, reference: Sequence[int], allowed: float
) -> Iterator[_Compared]:
    """Yield the comparison of each version without an earlier batch with all conversations of the reference."""
    counts = cells.n[list(reference)].sum(axis=0)
    fresh = [one for one in np.flatnonzero(cells.n[place]).tolist() if not counts[one]]
    for one in fresh:
        only = np.arange(len(versions)) == one
        mine = Cells(*(np.where(only, each[[place]], 0.0).sum(axis=1, keepdims=True) for each in _sums(cells)))
        others = Cells(*(each[list(reference)].sum(axis=1, keepdims=True) for each in _sums(cells)))
        both = Cells(*(np.concatenate(pair) for pair in zip(_sums(mine), _sums(others), strict=True)))
        test = difference(both, [0], range(1, len(reference) + 1))
        if test is not None:
            yield _Compared([place], reference, test, allowed / len(fresh), versions[one])


def _sums(cells: Cells) -> tuple[Floats, Floats, Floats]:
    return cells.n, cells.total, cells.squares


def _cells(batches: Sequence[Batch], strata: Sequence[Names]) -> tuple[list[str], Cells]:
    """Return the names of the strata, and the sums by batch and stratum."""
    names, place = _codes(strata)
    of = np.repeat(np.arange(len(batches)), [len(each) for each in batches])
    values = np.concatenate([each.value for each in batches])
    return names, Cells.of(values, of, place, (len(batches), len(names)))


def _codes(columns: Sequence[Names]) -> tuple[list[str], NDArray[np.intp]]:
    """Return the sorted names of some columns, and the index of the name of each row."""
    every = np.concatenate(columns).tolist()
    names = sorted(set(every))
    place = {name: index for index, name in enumerate(names)}
    return names, np.array([place[name] for name in every], dtype=np.intp)


def _in_people(scores: Estimate, seen: Sight | None, span: float) -> tuple[Estimate, str]:
    """Return the change of people's mean rating, or an empty estimate and the reason."""
    if seen is None:
        return Estimate(), "too few held-out ratings are stored with it"
    if not seen.is_clear:
        return Estimate(), "its scores are not shown to rise with people's ratings, in held-out ratings"
    found = seen.change(scores)
    if found.low is None or found.high is None or not isfinite(found.high - found.low):
        return Estimate(), "its scores are not shown to rise with people's ratings, in held-out ratings"
    near, far = sorted((abs(found.low), abs(found.high)))
    if found.high - found.low > USELESS * span and (found.low * found.high <= 0 or far > MOST_RATIO * near):
        seen_text = Figure.measured("seen_share", seen.least).text()
        return Estimate(), (
            f"its scores show {seen_text} of a change, so the interval would be from {found.low:+.1f} to "
            f"{found.high:+.1f} points".replace("-", "−")
        )
    return found, ""


def _labels(people: Estimate, seen: Sight | None, span: float) -> int:
    """Return the labels of both sides that show a change of people's ratings with the power of `label_plans`.

    Without an estimate, an eighth of the scale is to be shown.
    """
    size = abs(people.value or 0.0) or span / 8
    spread = span / 4 if seen is None else seen.spread
    away = float(normal_quantile(1 - SIGNIFICANT / 2) + normal_quantile(label_plans.POWER))
    return 2 * min(max(ceil(2 * (away * spread / size) ** 2), FEWEST_LABELS), MOST_LABELS)


def with_labels(found: BatchChange, batches: Sequence[Batch], ratings: Sequence[tuple[str, str, float]]) -> BatchChange:
    """Return the change with what labels of these conversations say about it.

    Args:
        found: The change of the latest batch.
        batches: The batches.
        ratings: Conversation, annotator and rating of each label.
    """
    if not found.is_alarm or found.new_version:
        return found
    sides = {**dict.fromkeys(found.reference_keys, False), **dict.fromkeys(found.keys, True)}
    known = {
        name: (sides[each.key], version, value)
        for each in batches if each.key in sides
        for name, version, value, is_in in zip(each.conversation, each.version, each.value.tolist(),
                                               found.is_about(each).tolist(), strict=True) if is_in
    }  # fmt: skip
    rows = [(name, annotator, rating, *known[name]) for name, annotator, rating in ratings if name in known]
    if not rows:
        return found
    names, annotators, values, new, versions, scores = zip(*rows, strict=True)
    is_new = np.array(new, dtype=bool)
    half = ((found.scores.high or 0.0) - (found.scores.low or 0.0)) / 2
    error = half / float(normal_quantile((1 + CONFIDENCE) / 2))  # at most: the interval is wider than 95%
    of_scores = Difference(found.scores.value or 0.0, error, 1.0, *found.compared, 0.0)
    rated = rated_change(
        np.array(values, dtype=float), is_new, versions, annotators, names, np.array(scores), of_scores
    )
    counts = tuple(
        len({name for name, side in zip(names, new, strict=True) if side == wanted}) for wanted in (True, False)
    )
    return replace(found, rated=rated, rated_counts=(counts[0], counts[1]))


def _groups(batches: Sequence[Batch], chosen: _Compared, allowed: float) -> list[tuple[GroupChange, Difference]]:
    """Return the changes of groups of conversations, with the causes: groups that changed more than the others.

    All intervals together miss a change with a probability of at most `allowed`.
    """
    used = [batches[one] for one in (*chosen.new, *chosen.reference)]
    sides = range(len(chosen.new)), range(len(chosen.new), len(used))
    of_batch = np.repeat(np.arange(len(used)), [len(each) for each in used])
    values = np.concatenate([each.value for each in used])
    versions, version = _codes([each.version for each in used])
    known: list[tuple[str, str, Difference, Difference | None]] = []
    for dimension in DIMENSIONS:
        names, code = _codes([getattr(each, dimension) for each in used])
        if len(names) < 2:
            continue
        shape = len(used), len(versions), len(names)
        place = code + shape[2] * version
        every = Cells.of(values, of_batch, place, (shape[0], shape[1] * shape[2]))
        own_sums = [each.reshape(shape) for each in _sums(every)]
        counts = own_sums[0][: len(chosen.new)].sum(axis=(0, 1))
        for label in np.argsort(-counts, kind="stable")[:MOST_GROUPS].tolist():
            own = difference(Cells(*(each[:, :, label] for each in own_sums)), *sides)
            rest = difference(Cells(*(each.sum(axis=2) - each[:, :, label] for each in own_sums)), *sides)
            if own is not None:
                known.append((dimension, names[label], own, rest))
    apart = [1.0 if rest is None else _p_apart(own, rest) for _, _, own, rest in known]
    found = []
    for (dimension, label, own, rest), p in zip(known, holm(apart) if apart else [], strict=True):
        is_larger = rest is not None and abs(own.value) > abs(rest.value) and own.value * chosen.test.value > 0
        change = own.interval(allowed / len(known))
        is_cause, others = is_larger and p < SIGNIFICANT, None if rest is None else rest.value
        found.append((GroupChange(dimension, label, change, own.new, own.reference, False, is_cause, others), own))
    return found


def _p_apart(own: Difference, rest: Difference) -> float:
    """Return the two-sided p of equal changes of two groups of conversations."""
    return float(2 * normal_tail(abs(own.value - rest.value) / hypot(own.error, rest.error)))
