"""Alarms of drift: features in a batch, and days of live scoring.

drift-false-alarms       share of samples with a false alarm of a shifted feature: 60 training conversations of 8
                         dependent turns compared with 60 others; halves of Topical-USR by context; and the power for
                         a feature shifted by one standard deviation.
weekend-false-alarms     share of weekend days with a false alarm, for assistants with equal weekends (fewer
                         conversations, lower scores, longer replies); the same for weekdays; and the power for a
                         further drop of half a standard deviation on weekend days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import numpy as np
from harness import Row
from synthetic_corpus import planted_turns
from true_shared import counted

from accord.evidence import Column
from accord.evidence.bank.reply_metrics import BANK
from accord.learning import make_head
from accord.live import raise_alarms
from accord.live.monitoring import ScoreMonitor
from accord.store import MonitoringTables, Store
from accord.validation import shifts
from accord.values import Score, Signature, Target, score_from

WEEKS = 6
FIRST_MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def drift_false_alarms(data: Path, draws: int) -> list[Row]:
    """Measure false alarms with dependent turns, and detection of one shifted feature."""
    draws, rows = 5 * draws, list[Row]()
    for name in ("curves", "mixed"):
        false, seen = [], []
        for seed in range(draws):
            world = planted_turns(seed=seed)
            old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 60), (60, 120)))
            found = make_head(name, world.question, {}).fit(world.evidence.filter(old), world.labels.filter(old))
            sides = found.seen(world.evidence.filter(new))
            assert sides is not None
            false.append(any(shift.is_shifted for shift in shifts(*sides)))
            values = sides[1].values.copy()
            values[:, 0] += 1.0
            shifted = shifts(sides[0], replace(sides[1], values=values))
            seen.append(any(shift.is_shifted for shift in shifted if shift.feature == "f0"))
        rows.append(counted("drift-false-alarms" if name == "curves" else f"drift-false-alarms {name}", false))
        rows.append(counted(f"drift-seen {name}", seen))
    if (data / "topical_usr").is_dir():
        rows.append(counted("drift-false-alarms topical_usr", list(halved(data, draws))))
    return rows


def halved(data: Path, draws: int) -> Iterator[bool]:
    """Return True for an alarm between two halves of Topical-USR's contexts, each with six replies."""
    from accord_papers.ciu import responses

    lexical = [name for name in BANK if not name.startswith(("bert", "cosine"))]
    found = responses.load(data / "topical_usr", lexical)["all"]
    named = tuple(Target(str(context), place) for place, context in enumerate(found.context))
    whole = replace(found.evidence, targets=named)
    contexts = sorted({target.conversation for target in named})
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(contexts)
        then, now = (whole.filter(part) for part in np.array_split(order, 2))
        yield any(shift.is_shifted for shift in shifts(then, now))


def weekend_false_alarms(data: Path, draws: int) -> list[Row]:
    """Simulate assistants over six weeks; half of them become worse on the last weekend."""
    watch, rng = ScoreMonitor("planted", [Column("words", "words")]), np.random.default_rng(0)
    days = [FIRST_MONDAY + timedelta(days=place) for place in range(7 * WEEKS)]
    for system, day in product(range(draws), days):
        is_weekend, is_worse = day.weekday() >= 5, system % 2 and day >= days[-2]
        for chat in range(60 if is_weekend else 120):
            taste = rng.normal(3.4 - 0.3 * is_weekend - 0.25 * is_worse, 0.4)
            for turn in range(int(rng.integers(1, 6))):
                value = float(np.clip(taste + rng.normal(0, 0.2), 1.1, 4.9))
                one = planted_score(value, f"{system} {day} {chat}", turn)
                watch.add(f"bot {system}", f"{day:%F}", one, {"words": float(rng.normal(20 + 8 * is_weekend, 5))})
    with closing(Store("sqlite://")) as store:
        watch.flush(store)
        for week in range(1, WEEKS + 1):
            raise_alarms(store, now=FIRST_MONDAY + timedelta(days=7 * week))
        told = {(alarm["system"], alarm["day"]) for alarm in MonitoringTables(store).alarms()}
    found: dict[str, list[bool]] = {"weekend-false-alarms": [], "weekday-false-alarms": [], "weekend-drops-told": []}
    for system, day in product(range(draws), days):
        is_worse = system % 2 and day >= days[-2]
        what = "weekend-drops-told" if is_worse else f"week{'end' if day.weekday() >= 5 else 'day'}-false-alarms"
        found[what].append((f"bot {system}", f"{day:%F}") in told)
    return [counted(what, hits) for what, hits in found.items()]


def planted_score(value: float, name: str, turn: int) -> Score:
    """A score from 1 to 5 that is sure of itself."""
    options = (1.0, value, 5.0)
    return score_from(Target(name, turn), "population", options, np.array([0.0, 1.0, 0.0]), Signature("planted"))


RUN: dict[str, Callable[[Path, int], list[Row]]] = {
    "drift-false-alarms": drift_false_alarms,
    "weekend-false-alarms": weekend_false_alarms,
}
NEEDS: dict[str, str] = {}
