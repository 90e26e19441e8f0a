"""Live scores of a process that was killed before it wrote its statistics: they are counted once, by anybody."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import accord_json
from live_evaluator import learned, support_chats
from serving import TOKEN, serving
from waiting import PATIENCE

from accord import Store
from accord.live.ingest import Ingestor, LiveContext, open_ingestor
from accord.live.messages import Message
from accord.live.monitoring import load_series
from accord.store import Mart

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed") / "evaluators" / "default"
    learned(support_chats()[:10], ["words", "question-share"]).save(folder)
    return folder


def take(ingestor: Ingestor, first: int, count: int) -> None:
    """Take in conversations of one user's message and one reply each."""
    for number in range(first, first + count):
        ingestor.take([Message(f"c{number}", "user", "Where is it?", system="bot-1"),
                       Message(f"c{number}", "assistant", "It arrives soon. " * (1 + number % 7), system="bot-1")])  # fmt: skip


def watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the day of `accord watch` in a folder, as two calls show it."""
    monkeypatch.chdir(folder)
    Path("accord.yaml").write_text("{}", encoding="utf-8")
    [first], [second] = (accord_json("watch", "--days", "366")["days"] for _ in range(2))
    assert first == second
    return dict(first)


def test_scores_of_a_killed_process_are_counted_once(
    evaluator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = tmp_path / "live"
    live.mkdir()

    def copy(name: str) -> Path:
        """Return a copy of the folder, which is what a kill at this moment leaves."""
        shutil.copytree(live, tmp_path / name)
        Mart(tmp_path / name / "accord.db.scores").compact()  # `accord score` of another process may do so
        return tmp_path / name

    with closing(Store(f"sqlite:///{live}/accord.db")) as store:
        mart = Mart(live / "accord.db.scores")
        with open_ingestor(evaluator, context=LiveContext(store=store, mart=mart), every=PATIENCE) as ingestor:
            take(ingestor, 0, 15)
            places = {"before": copy("before")}
            ingestor.settle()
            places["settled"] = copy("settled")
            take(ingestor, 15, 5)
            take(ingestor, 0, 3)  # later replies of known conversations
            places["after"] = copy("after")
        places["ended"] = copy("ended")
    again, mart = Store(f"sqlite:///{places['after']}/accord.db"), Mart(places["after"] / "accord.db.scores")
    with (
        closing(again),
        open_ingestor(evaluator, context=LiveContext(store=again, mart=mart), every=PATIENCE) as next_one,
    ):
        take(next_one, 100, 2)
    days = {name: watched(place, monkeypatch) for name, place in places.items()}
    assert {name: day["replies"] for name, day in days.items()} == {
        "before": 15,
        "settled": 15,
        "after": 25,
        "ended": 23,
    }
    series = {}
    for name, place in places.items():
        assert not list((place / "accord.db.scores").glob("live-*.jsonl"))
        with closing(Store(f"sqlite:///{place}/accord.db")) as store:
            [[key, found]] = load_series(store, "").items()
            [sketch] = found.values()
            series[name] = key, sorted(tuple(each.evidence) for each in sketch.sample.values())
    assert series["before"] == series["settled"] and series["before"][0] == series["ended"][0] == series["after"][0]
    assert days["before"]["mean"] == pytest.approx(days["settled"]["mean"])


def test_a_torn_or_erased_line_of_a_log_costs_no_other_score(
    evaluator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, killed = tmp_path / "live", tmp_path / "killed"
    live.mkdir()
    store, mart = Store(f"sqlite:///{live}/accord.db"), Mart(live / "accord.db.scores")
    with (
        closing(store),
        open_ingestor(evaluator, context=LiveContext(store=store, mart=mart), every=PATIENCE) as ingestor,
    ):
        take(ingestor, 0, 6)
        shutil.copytree(live, killed)
    [log] = (killed / "accord.db.scores").glob("live-*.jsonl")
    first, *rest = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b" " * (len(first) - 1) + b"\n" + b"".join(rest) + b'{"conversation": "c9", "coun')
    assert watched(killed, monkeypatch)["replies"] == 5


@pytest.mark.posix
def test_watch_shows_acknowledged_scores_after_a_kill(
    evaluator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(evaluator, tmp_path / "evaluators" / "default")
    with serving(tmp_path, "--evaluator", "evaluators/default") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        for number in range(200):
            row = {"conversation": f"c{number}", "role": "assistant", "content": "It arrives on Monday."}
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
            connection.request("POST", "/v1/scores", json.dumps(row), headers)
            answer = connection.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["status"] == "scored"
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    assert watched(tmp_path, monkeypatch)["replies"] == 200
