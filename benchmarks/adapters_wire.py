"""The evaluator as a decision model, and scores as events: lines of code, and the time of a round trip.

    python benchmarks/adapters_wire.py

Columns: `version` of the client's package, `lines` of code of the adapter without blanks, comments and docstrings,
`user_lines` that a user writes, and `round_trip` in milliseconds of one request or record (median of 200).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from architecture import code_lines, read_files
from harness import chosen, finish, options

HOSTS = ("systemone", "decisions", "otel")
REPEATS = 200
Row = dict[str, Any]


def _lines(*files: str) -> int:
    return code_lines(each for each in read_files(ROOT / "src" / "accord") if each.path in files)


def _median_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(1000 * median(times), 2)


def _user_lines(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


def systemone(port: int) -> Row:
    """Ask by the client of System One."""
    from decision_service import CHAT, LEVELS
    from serving import TOKEN
    from typesafe_sdk import Score, TypeSafeClient

    user = "client = TypeSafeClient(base_url=URL, api_key=TOKEN, model='accord')\nclient.system_one(chat, questions)"
    with TypeSafeClient(
        base_url=f"http://127.0.0.1:{port}", api_key=TOKEN, model="accord", compression=False
    ) as client:
        spent = _median_ms(lambda: client.system_one(CHAT, {"useful": Score(criteria=LEVELS)}))
    lines = _lines("live/service/decision_requests.py")
    return {"host": "systemone", "version": version("typesafe-sdk"), "lines": lines, "user_lines": _user_lines(user),
            "round_trip": spent}  # fmt: skip


def decisions(port: int) -> Row:
    """Ask by OpenAI's client."""
    from decision_service import CHAT
    from openai import OpenAI
    from serving import TOKEN

    user = "client = OpenAI(base_url=URL, api_key=TOKEN)\nclient.decisions.create(model='accord', input=chat, ...)"
    question: Any = {"type": "predicate", "name": "short", "instructions": "Is the reply short?"}
    chat: Any = CHAT
    with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=TOKEN) as client:
        spent = _median_ms(lambda: client.decisions.create(model="accord", input=chat, questions=[question]))
    lines = _lines("live/service/decision_requests.py")
    return {"host": "decisions", "version": version("openai"), "lines": lines, "user_lines": _user_lines(user),
            "round_trip": spent}  # fmt: skip


def otel(row: Any) -> Row:
    """Queue a record, and send it in the background; the round trip is what scoring waits for."""
    from collector import collecting

    from accord.hosts.otel import EvaluationEvents

    with collecting() as (url, collector):
        events = EvaluationEvents(url)
        spent = _median_ms(lambda: events.emit(row, "useful", {"accord.evaluator.id": "default"}))
        events.close()
        assert len(collector.records) == REPEATS
    user = "monitoring: {otel: URL}"
    return {"host": "otel", "version": version("opentelemetry-sdk"), "lines": _lines("hosts/otel.py"),
            "user_lines": _user_lines(user), "round_trip": spent}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the hosts whose clients are installed."""
    global REPEATS
    parser = options("adapters_wire", "The evaluator as a decision model, and scores as events.", HOSTS)
    given = parser.parse_args(arguments)
    wanted = chosen(parser, given.only, HOSTS)
    REPEATS = 5 if given.quick else given.limit or REPEATS
    from decision_service import CHAT, fitted_project, served

    rows, before = list[Row](), Path.cwd()
    packages = {"systemone": "typesafe_sdk", "decisions": "openai", "otel": "opentelemetry.sdk._logs"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with fitted_project(Path(folder)) as project, served(project.load()) as port:
                score = project.score([{"id": "q", "messages": CHAT}]).scores[0]
                calls = {"systemone": lambda: systemone(port), "decisions": lambda: decisions(port)}
                calls["otel"] = lambda: otel(score)
                for name in wanted:
                    try:
                        import_module(packages[name])
                    except ImportError:
                        rows.append({"host": name, "missing": f"needs {packages[name]}"})
                        continue
                    rows.append(calls[name]())
        finally:
            os.chdir(before)
    finish("adapters_wire", rows, ["host", "version", "lines", "user_lines", "round_trip", "missing"], given.json)


if __name__ == "__main__":
    main()
