"""The store's part of scale: how fast files come in, judging that several processes share, ten million annotations.

    python benchmarks/scale.py --only import,judging,postgres [--quick] [--limit N] --json OUT

`import`: conversations of ten turns with a rating each, in one process per run, compared with a bare loop over `json`
and `sqlite3` in the same run (`ratio` is the loop's time over ours; the larger, the better), with one process that
parses and with one per core; peak memory must not grow with the number of rows. `judging`: processes that share one
PostgreSQL and one budget ask a loopback server that fails at times. `postgres`: labels come in by `COPY`; then what
pages ask, each some hundred times.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import import_speed
import numpy as np
from harness import (
    QUESTIONS,
    RUBRIC,
    Row,
    database,
    model_counts,
    model_server,
    run_python,
)

from accord.project import default_workers
from accord.store import MonitoringTables, SharedBudget, Store, vacuum
from accord.values import Conversation, Label, Target, Turn

# --- import ---------------------------------------------------------------------------------------------------------

ROUNDS = 3


def import_rows(quick: bool, limit: int | None = None) -> Iterator[Row]:
    """Seconds, rows a second, peak memory and the ratio to a bare loop, for two sizes."""
    sizes = [1_000, 5_000] if quick else [10_000, 1_000_000]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "items.jsonl"
        for size in [min(each, limit or each) for each in sizes]:
            import_speed.written(source, size)
            rounds = 1 if quick or size > 100_000 else ROUNDS
            for workers in dict.fromkeys((1, default_workers())):
                runs = []
                for _ in range(rounds):  # a loop per run, under the same load of the machine
                    bare, bare_peak = import_speed.measured(import_speed.BARE, source, size)
                    runs.append((*import_speed.measured(import_speed.ACCORD, source, size, workers), bare, bare_peak))
                seconds, peak, bare, bare_peak = np.median(runs, axis=0)
                row = {"what": "import", "conversations": size, "workers": workers, "seconds": seconds}
                ratio = float(np.median([one[2] / one[0] for one in runs]))
                yield {**row, "per_second": size / seconds, "peak_mb": peak, "ratio": ratio}
            yield {"what": "import, bare loop", "conversations": size, "seconds": bare, "per_second": size / bare,
                   "peak_mb": bare_peak, "ratio": 1.0}  # fmt: skip


# --- judging --------------------------------------------------------------------------------------------------------

PROCESSES = 4
FAULTY = 0.1
"""Share of prompts whose first request fails: half with a server error, half with a rate limit."""

JUDGE = (
    RUBRIC
    + """
from accord import Project
from accord.project import config_from
from accord.edges import BudgetReached
from itertools import islice
store, url, count, cap = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
config = config_from({"store": store, "models": {"judge": {"mode": "logprobs", "model": "m", "base_url": url,
    "concurrency": 64}}, "budget": {"requests": cap, "shared": "benchmark"}})
with Project(config, rubric) as project:
    try:
        asked = samples(count)
        while some := list(islice(asked, 500)):
            project.measure([project.source("rubric")], some, project.models)
    except BudgetReached:
        pass
    print(project.budget.requests)
"""
)


def judging_rows(quick: bool, limit: int | None = None) -> Iterator[Row]:
    """Processes judge the same conversations twice: under a cap that is too small, then under one that is enough."""
    wanted = limit or (450 if quick else 20_000)
    conversations = -(-wanted // QUESTIONS)
    questions = conversations * QUESTIONS
    with database("postgresql") as (store_url, _, _), model_server(FAULTY) as url, closing(Store(store_url)) as store:
        for cap in (questions // 2, 2 * questions):
            start, before = time.perf_counter(), model_counts(url)
            ask = partial(run_python, JUDGE, store_url, url, conversations, cap, OPENAI_API_KEY="k")
            with ThreadPoolExecutor(PROCESSES) as threads:
                spent = sum(found.result() for found in [threads.submit(ask) for _ in range(PROCESSES)])
            seconds, after = time.perf_counter() - start, model_counts(url)
            requests = after["requests"] - before["requests"]
            yield {
                "what": "judging", "processes": PROCESSES, "questions": questions, "cap": cap, "requests": requests,
                "counted": spent, "answered": after["prompts"], "paid_twice": after["twice"],
                "overspent": max(0, after["requests"] - cap),
                "taken": SharedBudget(store, "benchmark").taken().requests,
                "seconds": seconds, "per_second": requests / seconds,
            }  # fmt: skip


# --- ten million annotations ----------------------------------------------------------------------------------------

TIMES = 300
PER_CONVERSATION = 100


def postgres_rows(quick: bool, limit: int | None = None) -> Iterator[Row]:
    """Measure the insertion of labels as in an import, the size of the database, and the queries of pages."""
    annotations = limit or (20_000 if quick else 10_000_000)
    conversations = annotations // PER_CONVERSATION
    with database("postgresql") as (url, _, _), closing(Store(url)) as store:
        said = tuple(
            Turn(("user", "assistant")[turn % 2], "It blinks twice, then the light is out.") for turn in range(10)
        )
        store.add_conversations(Conversation(f"c{n:07}", said) for n in range(conversations))
        start = time.perf_counter()
        added = store.add_labels(_labels(conversations))
        seconds = time.perf_counter() - start
        assert added.new == annotations
        row = {"what": "postgres", "annotations": annotations}
        yield {**row, "part": "import", "seconds": seconds, "per_second": annotations / seconds}
        MonitoringTables(store).put_days(list(_days()))
        start = time.perf_counter()
        _, size = vacuum(url)
        yield {**row, "part": "vacuum", "seconds": time.perf_counter() - start, "size_mb": size / 2**20}
        for part, ask in _asked(store, conversations).items():
            waits = []
            for number in range(TIMES):
                start = time.perf_counter()
                ask(number)
                waits.append(1000 * (time.perf_counter() - start))
            p50, p99 = np.quantile(waits, [0.5, 0.99])
            yield {**row, "part": part, "p50_ms": float(p50), "p99_ms": float(p99)}


def _labels(conversations: int) -> Iterator[Label]:
    """A hundred labels per conversation: ten people on ten turns."""
    for n in range(conversations):
        for each in range(PER_CONVERSATION):
            yield Label(Target(f"c{n:07}", each % 10), "Q0", f"person {(n + each // 10) % 40}", 1 + (n + each) % 4)


def _days() -> Iterator[dict[str, object]]:
    for day in range(365):
        for system in range(20):
            date = f"2026-{1 + day // 31:02}-{1 + day % 31:02}"
            row = {"key": f"{date} {system}", "evaluator": "e", "system": f"s{system}", "day": date}
            yield {**row, "content": {"sketch": [0.0] * 40}}


def _asked(store: Store, conversations: int) -> dict[str, Callable[[int], object]]:
    """Return the queries of pages and commands, each a function of a number."""
    names = np.random.default_rng(0).integers(0, max(conversations, 1), (TIMES, 20))

    def shown(number: int) -> Sequence[str]:
        return [f"c{n:07}" for n in names[number]]

    return {
        "board: days": lambda number: list(MonitoringTables(store).days("2026-11-01")),
        "board: alarms": lambda number: MonitoringTables(store).alarms(unsent=True),
        "a page of conversations": lambda number: list(store.conversations(shown(number))),
        "labels of a page": lambda number: list(store.annotations(["person"], conversations=shown(number))),
        "one new label": lambda number: store.add_labels([Label(Target(shown(number)[0]), "Q0", f"new {number}", 1)]),
        "answers by key": lambda number: store.answers(f"s256:{number}{place}" for place in range(100)),
    }


RUN: dict[str, Callable[[bool, int | None], Iterator[Row]]] = {
    "import": import_rows,
    "judging": judging_rows,
    "postgres": postgres_rows,
}
