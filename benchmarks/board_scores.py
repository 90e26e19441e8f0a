"""The board under load (`workbench.py --only dashboard`): a mart of planted scores, and its pages over HTTP, timed.

`first_seconds` is the first load of a new server, `seconds` the first load of each address after that, and
`again_seconds` its second load. `megabytes` is the peak memory of the server's process (Linux; empty elsewhere),
`mart_megabytes` the size on disk, and `cpu_seconds` the processor time of the server for a page.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
from harness import Row, Server, process_memory

from accord.store import Mart
from accord.values import bundle_of, mart_schema, row_key

PAGES = (
    "/board?by=version", "/board?by=topic", "/board?system=system-1", "/board?system=system-1&by=topic",
    "/board?view=each", "/board?since=2026-08-01", "/board?by=version&first=v0&second=v1", "/board/list",
    "/board/list?low=1&high=1.15", "/board/list?system=system-0&page=20", "/board/list?order=newest&page=1000",
)  # fmt: skip

SYSTEMS, WEEKS, TURNS = 8, 26, 5
BEGIN = 1_780_000_000_000
"""Milliseconds since 1970 of the first conversation."""


def planted(folder: Path, rows: int, question: str = "Q0", seed: int = 0, systems: int = SYSTEMS) -> Mart:
    """Create a mart of `count` scored turns, five per conversation, over half a year; system 0 is worse by .2."""
    import polars as pl

    rng, mart = np.random.default_rng(seed), Mart(folder)
    for start in range(0, rows // TURNS, 20_000):
        count = min(20_000, rows // TURNS - start)
        names = [f"conversation-{start + n}" for n in range(count)]
        system = rng.integers(0, systems, count)
        level = rng.normal(0, 0.5, count) - 0.4 * (system == 0)
        each = np.repeat(np.arange(count), TURNS)
        drift = level[each, None] + rng.normal(0, 0.4, (len(each), 1))
        shares = np.exp(drift * np.array([-1.5, -0.5, 0.5, 1.5]))
        shares /= shares.sum(axis=1, keepdims=True)
        turn = np.tile(np.arange(TURNS) * 2 + 1, count)
        when = BEGIN + rng.integers(0, WEEKS * 7, count) * 86_400_000
        inputs = rng.integers(0, 50_000, count)
        bundles = np.array([bundle_of(name) for name in names])
        about = {"question": question, "annotator": "population", "evaluator": "calibration@planted"}
        keys = [
            row_key({**about, "conversation": names[one], "turn": int(t)}) for one, t in zip(each, turn, strict=True)
        ]
        schema = mart_schema()
        cells = {
            "conversation": pl.Series(names).gather(each), "turn": turn, "value": shares @ np.arange(1.0, 5.0),
            "low": np.full(len(each), 1.0), "high": np.full(len(each), 4.0),
            "probabilities": pl.Series(shares.tolist()),
            "system": pl.Series([f"system-{s}" for s in system]).gather(each),
            "version": pl.Series([f"v{s % 3}" for s in system]).gather(each), "time": when[each], "scored": when[each],
            "topic": pl.Series([f"topic {t}" for t in inputs % 40]).gather(each), "key": keys,
            "input": pl.Series([f"{t:016x}" for t in inputs]).gather(each), "bundle": bundles[each],
        }  # fmt: skip
        frame = pl.DataFrame(cells).with_columns(
            *(pl.lit(value).alias(name) for name, value in about.items()),
            pl.lit("calibration|planted").alias("signature"), pl.lit("batch").alias("origin"),
            pl.lit(False).alias("synthetic"), pl.lit(True).alias("is_main"),
            pl.lit([1.0, 2.0, 3.0, 4.0]).alias("options"),
        )  # fmt: skip
        missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in frame.columns]
        mart._write(frame.with_columns(missing).select(pl.col(n).cast(kind) for n, kind in schema.items()).lazy(), None)
    mart.compact()
    return mart


def dashboard(scores: int) -> Iterator[Row]:
    """Measure the board's pages with `scores` scores; one row per page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planted(folder / "accord.db.scores", scores)
        disk = sum(each.stat().st_size for each in (folder / "accord.db.scores").iterdir())
        (folder / "accord.yaml").write_text(
            "store: sqlite:///accord.db\nstudies: {look: {title: Look}}\n", encoding="utf-8"
        )
        with Server(folder) as server:
            cookie = _signed_in(server)
            common: Row = {"what": "dashboard", "database": "sqlite", "scores": scores, "mart_megabytes": disk / 1e6}
            first = _seconds(server, "/board", cookie)
            again, memory = _seconds(server, "/board", cookie), process_memory(server.process.pid)
            yield {**common, "page": "/board", "first_seconds": first, "again_seconds": again, "megabytes": memory}
            for path in PAGES:
                yield {**common, "page": path, **_timed(server, path, cookie)}
            with Mart(folder / "accord.db.scores").writer() as writer:
                about: Row = {"question": "Q0", "annotator": "population", "evaluator": "calibration@planted"}
                about |= {"scored": BEGIN, "time": BEGIN, "origin": "live"}
                writer.write([{**about, "conversation": "new", "turn": 1, "value": 2.0}])
                yield {**common, "page": "/board, a new score", **_timed(server, "/board", cookie)}


def _signed_in(server: Server) -> str:
    """Open the sign-in link that the server printed, and return the cookie."""
    while not (links := re.findall(r"/in/\S+", server.log())):
        time.sleep(0.05)
    connection = HTTPConnection("127.0.0.1", server.port, timeout=300)
    connection.request("GET", links[-1])
    return (connection.getresponse().headers.get("Set-Cookie") or "").partition(";")[0]


def _seconds(server: Server, path: str, cookie: str) -> float:
    """Return the seconds from the request to the last byte of a page."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=300)
    start = time.perf_counter()
    connection.request("GET", path, headers={"Cookie": cookie})
    answer = connection.getresponse()
    said = answer.read()
    seconds = time.perf_counter() - start
    assert answer.status == 200, json.dumps([path, said[:300].decode()])
    return seconds


def _timed(server: Server, path: str, cookie: str) -> Row:
    """Load a page twice."""
    before = _cpu_seconds(server)
    seconds, after = _seconds(server, path, cookie), _cpu_seconds(server)
    used = None if before is None or after is None else after - before
    again, memory = _seconds(server, path, cookie), process_memory(server.process.pid)
    return {"seconds": seconds, "cpu_seconds": used, "again_seconds": again, "megabytes": memory}


def _cpu_seconds(server: Server) -> float | None:
    """Return the processor time of the server."""
    status = Path(f"/proc/{server.process.pid}/stat")
    if not status.exists():
        return None
    fields = status.read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
