"""Rows in every table of a store besides conversations and labels."""

from __future__ import annotations

import numpy as np

from accord import Store
from accord.store import Amounts, Claims, ComputedCache, Erasures, MonitoringTables, SharedBudget, VectorCache
from accord.store.anchors import Anchor, Anchors
from accord.values import Target


def fill_tables(store: Store) -> None:
    """Add a reply, a vector, a computation, a run, a day, an alarm, an anchor, a tombstone, a claim and a budget."""
    store.add_replies([{"key": "r1", "maker": "m", "content": '{"text":"hello"}'}])
    VectorCache(store).add("small", {"v1": np.ones(3)})
    ComputedCache(store).add("c1", "fit", {"a": 1}, {"x": np.ones(2)})
    store.finish_run(store.start_run("score", {"seed": 1}), "done", {"rows": 1})
    day = {"key": "d", "evaluator": "e", "system": "s", "day": "2026-01-01", "content": {}}
    MonitoringTables(store).put_days([day])
    MonitoringTables(store).raise_alarms({"alarm": {}})
    Anchors(store).add([Anchor("e", Target("c1"), "2026-01-02", 3.0, 4.0, {"Q0": 4.0}, "v1")])
    Erasures(store).bury({"gone": None})
    Claims(store).exchange((), ["q1"])
    SharedBudget(store, "november").take(Amounts(requests=1), {"requests": 10})
