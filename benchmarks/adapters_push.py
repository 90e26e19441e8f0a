"""Scores sent to a host on the loopback interface, which is strict about the documented schema, and read back.

    python benchmarks/adapters_push.py --json OUT [--quick]

Rows are hosts. Columns:

version        version of the host's public client, whose types the tests compare with the bodies; null if not installed
lines          lines of the host's module that are neither empty nor docstring nor comment
user_lines     lines of `accord.yaml` and of the shell until scores are at the host
round_trip     share of the scores that the host holds with value, band and object, after one kill and one second run
scores         number of scores
requests       requests of both runs together
repeated       scores that the host got more than once, because their confirmation was lost in the kill
duplicates     scores that the host holds more than once
seconds        time of both runs, with the start of their processes
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness import Row, finish, options
from host_servers import KEYS, HostServer  # of the tests

from accord.formats import ScoreWriter
from accord.values import Signature, Target, score_from

CLIENTS = {"langfuse": "langfuse", "phoenix": "arize-phoenix-client", "langsmith": "langsmith"}
SETTINGS: dict[str, dict[str, str]] = {
    "langfuse": {"public_key": "${LANGFUSE_PUBLIC_KEY}", "secret_key": "${LANGFUSE_SECRET_KEY}"},
    "phoenix": {"api_key": "${PHOENIX_API_KEY}"},
    "langsmith": {"api_key": "${LANGSMITH_API_KEY}"},
}
VARIABLES = {
    "LANGFUSE_PUBLIC_KEY": KEYS["langfuse"][0], "LANGFUSE_SECRET_KEY": KEYS["langfuse"][1],
    "PHOENIX_API_KEY": str(KEYS["phoenix"]), "LANGSMITH_API_KEY": str(KEYS["langsmith"]),
}  # fmt: skip
COMMANDS = ("accord push scores.jsonl --to HOST",)
REQUEST_SECONDS = 0.02
"""Time that the host takes for a request."""


def measure(host: str, scores: int) -> Row:
    """Send scores to a host, kill the command midway, and run it again."""
    names = [str(uuid.UUID(int=number + 1)) for number in range(scores)]
    with tempfile.TemporaryDirectory() as folder, HostServer(host, set(names)) as server:
        settings = {"url": server.url, **SETTINGS[host], "ids": "trace"}
        Path(folder, "accord.yaml").write_text(json.dumps({"push": {host: settings}}), encoding="utf-8")
        made = [
            score_from(
                Target(name), "population", [0, 4], [1 - place / scores, place / scores], Signature("mixture"),
                (0.0, 4.0),
            )
            for place, name in enumerate(names)
        ]  # fmt: skip
        with ScoreWriter(Path(folder, "scores.jsonl")) as writer:
            writer.write(score.to_json() for score in made)
        requests = 0

        def slow() -> None:
            nonlocal requests
            requests += 1
            time.sleep(REQUEST_SECONDS)

        server.on_request = slow
        command = [sys.executable, "-m", "accord", "push", "scores.jsonl", "--to", host]
        environment = {**os.environ, **VARIABLES, "NO_PROXY": "127.0.0.1"}
        start = time.perf_counter()
        first = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        while len(server.stored) < scores // 3 and first.poll() is None:
            time.sleep(0.002)
        first.kill()
        first.wait()
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
    held = {_object(row): _figures(row) for row in server.stored.values()}
    expected = {score.target.conversation: (round(score.value, 4), 0.0, 4.0) for score in made}
    return {
        "host": host, "version": _version(CLIENTS[host]), "lines": _lines(host),
        "user_lines": 2 + len(SETTINGS[host]) + 1 + len(COMMANDS),
        "round_trip": sum(held.get(name) == figures for name, figures in expected.items()) / scores,
        "scores": scores, "requests": requests, "repeated": sum(count > 1 for count in server.writes.values()),
        "duplicates": len(server.stored) - scores,
        "seconds": seconds,
    }  # fmt: skip


def _object(row: dict[str, Any]) -> str:
    return str(row.get("traceId") or row.get("trace_id"))


def _figures(row: dict[str, Any]) -> tuple[float, float, float]:
    details = row.get("metadata") or row["feedback_source"]["metadata"]
    value = row.get("value", row.get("score", row.get("result", {}).get("score")))
    return round(float(value), 4), details["band_low"], details["band_high"]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _lines(host: str) -> int:
    """Return the number of lines with code of a host's module."""
    path = Path(__file__).parents[1] / "src" / "accord" / "hosts" / f"{host}.py"
    text = path.read_text(encoding="utf-8")
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in documented for n, line in lines)


def main() -> None:
    """Measure all hosts."""
    parser = options("adapters_push", __doc__ or "")
    args = parser.parse_args()
    rows = [measure(host, args.limit or (60 if args.quick else 600)) for host in CLIENTS]
    columns = ["host", "version", "lines", "user_lines", "round_trip", "scores", "requests", "repeated", "duplicates",
               "seconds"]  # fmt: skip
    finish("adapters_push", rows, columns, args.json)


if __name__ == "__main__":
    main()
