"""Scoring at scale: a mixture on the lexical bank over conversations of six turns, into parts.

`score-bank` is `score_parts` with one worker (in one process of its own), and with two; `ratio` is one worker's time
by two's. `cpu_seconds` is the processors' time, start included, which other work on the machine changes little, and
`microseconds` that of one conversation without the start; `ratio_naive` is how many times longer a loop takes that
scores one at a time. `peak_mb` is the most memory that the process had (with two workers, the one that hands out the
work), `peak_mb_few` that of ten thousand conversations: flat where they are equal. `ray` is the same on Ray with two
workers, its start apart; `same_bytes` says whether its parts are those of local processes. `kill` ends the driver, and
a worker, by SIGKILL in the middle, and runs the same again. `s3` reads from and writes to a server of that protocol on
loopback.

Conversations are drawn: words of everyday frequency, twenty a message.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from harness import PRELUDE, Row, run_python
from live_scoring import texts

from accord.evidence import SourceContext, Training, make_source
from accord.formats import find_files, list_names, split_files
from accord.learning import Evaluator, make_head
from accord.models import memory_models
from accord.models import run as driven
from accord.scoring.parts import finished
from accord.values import Conversation, Label, Labels, Question, Rubric, Sample, Scale, Target, Turn

TURNS, WORDS = 6, 20
CONVERSATIONS, FEW, NAIVE = 200_000, 10_000, 1_000
DRIVER = """
import json, resource, sys, time
from accord.scoring import BatchScorer, Execution, score_parts
if __name__ == "__main__":
    evaluator, source, out, engine, workers = sys.argv[1:6]
    begun = time.perf_counter()
    scorer = BatchScorer(evaluator)
    opened = time.perf_counter()
    done = score_parts(scorer, source, out, Execution(engine, int(workers)))
    ended = time.perf_counter()
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    assert not done.failed, done.failed
    print(json.dumps({"seconds": ended - opened, "opening": opened - begun, "made": done.made, "there": done.there,
                      "rows": done.counts.rows, "left": done.left, "peak_mb": peak_mb(),
                      "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in used)}))
"""
LOOP = """
import json, sys, time
from accord.formats import find_files, split_files, read_piece
from accord.learning import load_evaluator
from accord.models import memory_models, run
from accord.values import Sample
evaluator, models, left = load_evaluator(sys.argv[1]), memory_models(), int(sys.argv[3])
begun, used = time.perf_counter(), time.process_time()
with open(sys.argv[4], "w") as stream:
    for chat in read_piece(split_files(find_files(sys.argv[2]))[0]):
        [score] = run(evaluator.predict([Sample(chat)]), models)
        stream.write(json.dumps(score.to_json()) + "\\n")
        left -= 1
        if not left:
            break
print(json.dumps({"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - used}))
"""


def fitted(folder: Path) -> Path:
    """Fit a mixture on random ratings of random conversations."""
    rng = np.random.default_rng(1)
    said = texts(rng, 200 * TURNS, WORDS)
    chats = [
        Conversation(
            str(n), tuple(Turn("user" if t % 2 == 0 else "assistant", said[n * TURNS + t]) for t in range(TURNS))
        )
        for n in range(200)
    ]
    question = Question(id="q", text="?", scale=Scale(options=(1, 2, 3, 4, 5)))
    labels = Labels(Label(Target(chat.id), "q", "ann", int(rng.integers(1, 6))) for chat in chats)
    bank = make_source("bank", {}, SourceContext(Rubric(name="drawn", questions=(question,), main="q")))
    evaluator = Evaluator(question, (bank,), make_head("curves", question, {}), "mixture", "curves")
    train = Training(tuple(map(Sample, chats)), labels, question)
    driven(evaluator.fit(train), memory_models()).save(folder)
    return folder


def written(path: Path, count: int) -> Path:
    """A Parquet file of drawn conversations, a row each."""
    rng = np.random.default_rng(2)
    frames = []
    for start in range(0, count, 10_000):
        size = min(10_000, count - start)
        said = texts(rng, size * TURNS, WORDS)
        turns = [
            [{"role": "user" if t % 2 == 0 else "assistant", "content": said[n * TURNS + t]} for t in range(TURNS)]
            for n in range(size)
        ]
        frames.append(pl.DataFrame({"id": [f"c{start + n}" for n in range(size)], "messages": turns}))
    pl.concat(frames).write_parquet(path, row_group_size=10_000)
    return path


@contextmanager
def workshop(count: int) -> Iterator[tuple[Path, Path, Path]]:
    """A folder with an evaluator and a file of conversations."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield folder, fitted(folder / "evaluator"), written(folder / "chats.parquet", count)


def ids_of(out: Path) -> list[str]:
    """Return the ids of scored conversations, sorted."""
    return sorted(name for path in out.glob("part-*.parquet") for name in pl.read_parquet(path)["conversation"])


def bank_rows(quick: bool, limit: int | None) -> list[Row]:
    """Rows of one worker, two workers and a loop over single conversations."""
    count = min(limit or CONVERSATIONS, 20_000 if quick else CONVERSATIONS)
    with workshop(count) as (folder, evaluator, chats):
        few = written(folder / "few.parquet", min(FEW, count))
        small = run_python(DRIVER, evaluator, few, folder / "small", "local", 1)
        one = run_python(DRIVER, evaluator, chats, folder / "one", "local", 1)
        two = run_python(DRIVER, evaluator, chats, folder / "two", "local", 2)
        naive = run_python(LOOP, evaluator, chats, min(NAIVE, count), folder / "naive.jsonl")
    # Processors' time, that of the start taken out: other work on the machine slows the clock of one run, not of both.
    more = max(count - FEW, 1)
    each = (one["cpu_seconds"] - small["cpu_seconds"]) / more if count > FEW else one["cpu_seconds"] / count
    alone = naive["cpu_seconds"] / min(NAIVE, count)
    about = {"conversations": count, "turns": TURNS, "microseconds": each * 1e6}
    return [
        _row("score-bank", 1, one, **about, ratio_naive=alone / each, peak_mb_few=small["peak_mb"]),
        _row("score-bank", 2, two, conversations=count, turns=TURNS, ratio=one["seconds"] / two["seconds"]),
        {"what": "one at a time", **naive, "per_second": min(NAIVE, count) / naive["seconds"], "workers": 1,
         "microseconds": alone * 1e6},
    ]  # fmt: skip


def kill_rows(quick: bool, limit: int | None) -> list[Row]:
    """Kill a driver and a worker, and run the command again."""
    count = min(limit or 100_000, 80_000 if quick else 100_000)  # four parts at least
    rows: list[Row] = []
    with workshop(count) as (folder, evaluator, chats):
        expected = sorted(pl.read_parquet(chats, columns=["id"])["id"])
        planned = len(split_files(find_files(str(chats))))
        for victim in ("driver", "worker"):
            out = folder / victim
            killed = _killed(victim, [evaluator, chats, out, "local", 2], out)
            before = {
                name: (out / name).stat().st_mtime_ns for name in list_names(str(out)) if name.startswith("part-")
            }
            again = run_python(DRIVER, evaluator, chats, out, "local", 2)
            found = ids_of(out)
            after = {name: (out / name).stat().st_mtime_ns for name in before}
            rows.append({
                "what": f"kill: {victim}", "conversations": count, "workers": 2, "parts": planned, "killed": killed,
                "parts_before": len(before), "lost": len(set(expected) - set(found)),
                "doubled": len(found) - len(set(found)), "seconds": again["seconds"],
                "rescored_parts": sum(after[name] != made for name, made in before.items()),
            })  # fmt: skip
    return rows


def _killed(victim: str, arguments: list[object], out: Path) -> bool:
    """Run the driver, kill it or a worker after the first parts, and return True if one was killed."""
    command = [sys.executable, "-c", PRELUDE + DRIVER, *map(str, arguments)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while driver.poll() is None and len(finished(str(out))) < 2:
            time.sleep(0.02)
        if driver.poll() is not None:
            return False
        target = driver.pid if victim == "driver" else _worker_of(driver.pid)
        os.kill(target, signal.SIGKILL)
        return True
    finally:
        driver.wait()


def _worker_of(pid: int) -> int:
    children = [
        int(n)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for n in (task / "children").read_text(encoding="utf-8").split()
    ]
    return next(n for n in children if b"worker_pool" in Path(f"/proc/{n}/cmdline").read_bytes())


def ray_rows(quick: bool, limit: int | None) -> list[Row]:
    """Rows of Ray, compared with local processes, with its start and a killed driver."""
    if find_spec("ray") is None:
        return [{"what": "ray", "skipped": "accord[ray] is not installed"}]
    count = min(limit or CONVERSATIONS, 20_000 if quick else CONVERSATIONS)
    with workshop(count) as (folder, evaluator, chats):
        local = run_python(DRIVER, evaluator, chats, folder / "local", "local", 2)
        empty = written(folder / "one.parquet", 1)
        start = run_python(DRIVER, evaluator, empty, folder / "start", "ray", 2)
        ray = run_python(DRIVER, evaluator, chats, folder / "ray", "ray", 2)
        same = _contents(folder / "ray") == _contents(folder / "local")
        out = folder / "killed"
        _killed("driver", [evaluator, chats, out, "ray", 2], out)
        before = {name: (out / name).stat().st_mtime_ns for name in list_names(str(out)) if name.startswith("part-")}
        run_python(DRIVER, evaluator, chats, out, "ray", 2)
        found, expected = ids_of(out), sorted(pl.read_parquet(chats, columns=["id"])["id"])
        rescored = sum((out / name).stat().st_mtime_ns != made for name, made in before.items())
    about = {"conversations": count, "start_seconds": start["seconds"], "same_bytes": same}
    killed = {"lost": len(set(expected) - set(found)), "doubled": len(found) - len(set(found))}
    return [
        _row("ray", 2, ray, **about, ratio=local["seconds"] / ray["seconds"]),
        {"what": "ray, driver killed", "conversations": count, "parts_before": len(before), **killed,
         "rescored_parts": rescored},
    ]  # fmt: skip


def s3_rows(quick: bool, limit: int | None) -> list[Row]:
    """Rows of a local S3 server, compared with local files."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        return [{"what": "s3", "skipped": "moto or accord[s3] is not installed"}]
    import boto3
    from moto.server import ThreadedMotoServer

    count = min(limit or 50_000, 10_000 if quick else 50_000)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    try:
        with workshop(count) as (folder, evaluator, chats):
            keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
            store = boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"], **keys)
            store.create_bucket(Bucket="bucket")
            store.upload_file(str(chats), "bucket", "chats/a.parquet")
            local = run_python(DRIVER, evaluator, chats, folder / "local", "local", 2)
            there = ("s3://bucket/chats/*.parquet", "s3://bucket/scores")
            s3 = run_python(DRIVER, evaluator, *there, "local", 2, **environment)
            again = run_python(DRIVER, evaluator, *there, "local", 2, **environment)
    finally:
        server.stop()
    ratio = local["seconds"] / s3["seconds"]
    return [_row("s3", 2, s3, conversations=count, ratio=ratio, lost=count - s3["rows"], rescored_parts=again["made"])]


def _contents(out: Path) -> dict[str, bytes]:
    """Return the parts by name."""
    return {path.name: path.read_bytes() for path in out.glob("part-*.parquet")}


def _row(what: str, workers: int, found: Mapping[str, Any], **more: Any) -> Row:
    names = ("seconds", "cpu_seconds", "peak_mb")
    about = {"what": what, "workers": workers, **{name: found[name] for name in names}}
    return {**about, "per_second": found["rows"] / found["seconds"], **more}


RUN: dict[str, Callable[[bool, int | None], list[Row]]] = {
    "score-bank": bank_rows, "kill": kill_rows, "ray": ray_rows, "s3": s3_rows,
}  # fmt: skip
