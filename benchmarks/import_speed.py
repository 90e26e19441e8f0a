"""Conversations read and stored: rows a second and peak memory, which must not grow with their number; start-up time.

    python benchmarks/import_speed.py [--quick] --json OUT

Each import runs in a process of its own, so that its peak memory is its own. The baseline, in the same run, is a bare
loop: json.loads each line, one table in sqlite3, one commit per 500 rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from harness import Row, finish, options, run_python
from synthetic_corpus import rated_chats

from accord.store import Store

TURNS = 10
SENTENCE = "The router blinks twice and then the light goes out, although I pressed the button as you said. "
ACCORD = """
import gc
from accord.cli.app import GC_THRESHOLD
from accord import Project
from accord.project import Config
gc.set_threshold(GC_THRESHOLD)  # as the command does
with Project(Config(store=sys.argv[2])) as project:
    done = project.import_([sys.argv[1]], workers=int(sys.argv[4]))
assert done.conversations.new == int(sys.argv[3]) and done.labels.new == int(sys.argv[3]), done
"""
BARE = """
import sqlite3
connection = sqlite3.connect(sys.argv[2].removeprefix("sqlite:///"))
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("CREATE TABLE conversations (id TEXT PRIMARY KEY, content TEXT)")
rows = []
for line in open(sys.argv[1]):
    row = json.loads(line)
    rows.append((row["id"], json.dumps(row)))
    if len(rows) == 500:
        connection.executemany("INSERT INTO conversations VALUES (?, ?)", rows)
        connection.commit()
        rows = []
connection.executemany("INSERT INTO conversations VALUES (?, ?)", rows)
connection.commit()
"""


def written(path: Path, conversations: int) -> None:
    """A file of conversations of `TURNS` turns, each with one rating."""
    with path.open("w", encoding="utf-8") as stream:
        for number in range(conversations):
            messages = [
                {"role": "user" if turn % 2 == 0 else "assistant", "content": f"{number}.{turn} {SENTENCE}"}
                for turn in range(TURNS)
            ]
            rating = {"annotator": f"p{number % 7}", "question": "Q0", "value": 1 + number % 4, "scale": [1, 4]}
            row = {"id": f"c{number}", "level": "dialogue", "messages": messages, "ratings": [rating]}
            stream.write(json.dumps(row) + "\n")


def measured(code: str, source: Path, conversations: int, workers: int = 1) -> tuple[float, float]:
    """Return seconds and peak megabytes of an import in a process of its own, which may have some that parse."""
    script = f"start = time.perf_counter()\n{code}\nprint(json.dumps([time.perf_counter() - start, peak_mb()]))"
    with tempfile.TemporaryDirectory() as folder:
        seconds, peak = run_python(script, source, f"sqlite:///{folder}/store.db", conversations, workers)
    return seconds, peak


def start_up(*command: str, times: int, folder: str | None = None) -> tuple[float, float]:
    """Median seconds from starting a command to its end, and of processor time."""
    seconds, busy = [], []
    for _ in range(times):
        start, before = time.perf_counter(), os.times()
        subprocess.run(command, capture_output=True, check=True, cwd=folder)
        after = os.times()
        seconds.append(time.perf_counter() - start)
        busy.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return median(seconds), median(busy)


ASKS_NOBODY = {
    "accord store check": ["store", "check"],
    "accord export": ["export", "all.jsonl"],
}
"""Commands that ask no model, in a small project: their time is nearly all their start."""


def start_rows(times: int) -> Iterator[Row]:
    """Start-up times of commands, and of an empty Python process."""
    nothing, busy = start_up(sys.executable, "-c", "pass", times=times)
    yield {"what": "python -c pass", "seconds": nothing, "cpu_seconds": busy, "ratio": 1.0}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "accord.yaml").write_text("store: sqlite:///accord.db\nmetrics: [bank]\n", encoding="utf-8")
        store = Store(f"sqlite:///{folder}/accord.db")
        chats, labels, _ = rated_chats(60)
        store.add_conversations(chats)
        store.add_labels(labels)
        store.close()
        for what, arguments in {"accord --help": ["--help"], **ASKS_NOBODY}.items():
            seconds, busy = start_up(sys.executable, "-m", "accord", *arguments, times=times, folder=folder)
            yield {"what": what, "seconds": seconds, "cpu_seconds": busy, "ratio": seconds / nothing}


def main() -> None:
    parser = options("import_speed", "Import speed and memory, and the time `accord --help` takes.")
    given = parser.parse_args()
    sizes = [1_000, 10_000] if given.quick else [10_000, 100_000]
    if given.limit:
        sizes = sorted({min(size, given.limit) for size in sizes})
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "items.jsonl"
        for size in sizes:
            written(source, size)
            bare_seconds, bare_peak = measured(BARE, source, size)
            for what, (seconds, peak) in (
                ("import", measured(ACCORD, source, size)),
                ("bare loop", (bare_seconds, bare_peak)),
            ):
                row = {"what": what, "conversations": size, "turns": TURNS, "seconds": seconds}
                rows.append({**row, "per_second": size / seconds, "peak_mb": peak, "ratio": seconds / bare_seconds})
    rows += start_rows(1 if given.quick else 9)
    columns = ["what", "conversations", "seconds", "cpu_seconds", "per_second", "peak_mb", "ratio"]
    finish("import_speed", rows, columns, given.json)


if __name__ == "__main__":
    main()
