"""Scoring on Ray: the same bytes as local processes, also after kills; a private cluster on loopback, without telemetry."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import scaled

from accord.edges import MissingExtra
from accord.scoring import BatchScorer, Execution, score_parts

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="accord[ray] is not installed")
LIMIT = 300
RUN = """
import sys
from accord.formats.files import file_chunks
file_chunks.PIECE_ROWS = 50
from accord.cli import app, commands
app(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    scaled.saved(folder / "e")
    scaled.parquet(folder / "chats.parquet", scaled.drawn(2000))
    return folder


def command(work, out, *more):
    arguments = [
        "score",
        str(work / "chats.parquet"),
        "--out",
        str(out),
        "--evaluator",
        str(work / "e"),
        "--workers",
        "2",
    ]
    return [sys.executable, "-c", RUN, *arguments, "--json", *more]


def ran(work, out, *more):
    done = subprocess.run(command(work, out, *more), cwd=work, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parts(out):
    return {path.name: path.read_bytes() for path in Path(out).glob("part-*.parquet")}


def times(out):
    return {path.name: path.stat().st_mtime_ns for path in Path(out).glob("part-*.parquet")}


def begun(work, out):
    """Start a Ray driver and wait for its first parts."""
    driver = subprocess.Popen(
        command(work, out, "--engine", "ray"), cwd=work, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    deadline = time.monotonic() + LIMIT
    while len(parts(out)) < 3 and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return driver


@needs_ray
@pytest.mark.linux
@pytest.mark.slow
def test_ray_writes_the_same_bytes_after_kills(work, tmp_path):
    local = ran(work, tmp_path / "local")
    driver = begun(work, tmp_path / "ray")
    for pid in scaled.descendants(driver.pid, "ray::MapWorker")[:1]:
        os.kill(pid, signal.SIGKILL)
    said, _ = driver.communicate(timeout=LIMIT)
    found = json.loads(said)
    assert found["left"] == 0 and not found["failed"] and found["counts"] == local["counts"]
    assert parts(tmp_path / "ray") == parts(tmp_path / "local")

    driver = begun(work, tmp_path / "killed")
    driver.kill()
    driver.communicate()
    before = times(tmp_path / "killed")
    again = ran(work, tmp_path / "killed", "--engine", "ray")
    assert again["there"] >= len(before) > 0 and again["left"] == 0
    assert parts(tmp_path / "killed") == parts(tmp_path / "local"), "nothing lost, nothing doubled"
    assert before.items() <= times(tmp_path / "killed").items(), "nothing scored again"


def test_missing_package_is_named_with_install_command(work, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[ray\]'"):
        score_parts(BatchScorer(work / "e"), work / "chats.parquet", tmp_path / "out", Execution("ray"))
