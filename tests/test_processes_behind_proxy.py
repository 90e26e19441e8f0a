"""Two `accord serve` processes behind nginx, with the configuration of examples/deploy."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from processes import Forked
from small_sample import sources
from waiting import PATIENCE, until

from accord import Evaluator, Label, Labels, Question, Rubric, Scale, Store, read
from accord.evidence import BANK, SourceContext, Training
from accord.learning import EvaluatorSettings, make_evaluator
from accord.models import memory_models
from accord.models import run as drive
from accord.values import Sample

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light")]
pytest.importorskip("fastapi", reason="needs accord[serve]")

CONFIGURATION = Path(__file__).parents[1] / "examples" / "deploy" / "nginx.conf"
TOKEN = "a-token-of-sixteen-characters"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    question = Question(id="useful", text="Is it useful?", scale=Scale(options=(1, 2, 3, 4)))
    chats = [record.conversation for record in read(sources()[0])]
    samples = [Sample(c, place) for c in chats for place, turn in enumerate(c.turns) if turn.role == "assistant"]
    labels = Labels(Label(s.target, "useful", "ann", 1 + place % 4) for place, s in enumerate(samples))
    context = SourceContext(Rubric(name="useful", questions=(question,), main="useful"))
    about, settings = EvaluatorSettings(head="curves"), {"metrics": {"names": BANK}}
    made = make_evaluator("mixture", about, question, context, ("metrics",), settings)
    return drive(made.fit(Training(tuple(samples), labels, question)), memory_models())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def reply(conversation: str, **fields: Any) -> dict[str, Any]:
    return {"conversation": conversation, "role": "assistant", "content": "Hold the button for ten seconds.", **fields}


class Deployment:
    """Two processes of one project, and nginx in front of them."""

    def __init__(self, folder: Path, evaluator: Evaluator) -> None:
        self.folder, self.port, self.ports = folder, free_port(), [free_port(), free_port()]
        evaluator.save(folder / "evaluators" / "mixture")
        (folder / "accord.yaml").write_text("evaluator: mixture\n", encoding="utf-8")
        Store(f"sqlite:///{folder}/accord.db").close()
        self.processes = [self._serve(number) for number in range(2)]
        for number in range(2):
            until(lambda number=number: self._is_up(self.ports[number]), lambda: self.log("serve-1.log"))  # type: ignore[misc]
        text = CONFIGURATION.read_text(encoding="utf-8")
        for standard, own in zip((8701, 8702, 8700), (*self.ports, self.port), strict=True):
            assert text.count(f":{standard}") == 1
            text = text.replace(f":{standard}", f":{own}")
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        with (folder / "nginx.log").open("wb") as log:
            command = [str(NGINX), "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off;"]
            self.nginx = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self._is_up(self.port), lambda: self.log("nginx.log"))

    def _serve(self, number: int) -> Forked:
        command = ["-m", "accord", "serve", "--port", str(self.ports[number]), "--out", f"rows-{number}.jsonl"]
        with (self.folder / f"serve-{number}.log").open("wb") as log:
            environment = {**os.environ, "ACCORD_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
            return Forked(command, cwd=self.folder, stdout=log, stderr=log, env=environment)

    def _is_up(self, port: int) -> bool:
        with suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/healthz", port=port)[0] == 200
        return False

    def log(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def request(
        self, method: str, path: str, content: Any = None, conversation: str | None = None, port: int | None = None
    ) -> tuple[int, Any]:
        headers = HEADERS if conversation is None else {**HEADERS, "X-Conversation-Id": conversation}
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, json.dumps(content), headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        return response.status, json.loads(body) if is_json else body

    def score(self, conversation: str, **fields: Any) -> tuple[int, Any]:
        return self.request("POST", "/v1/scores", reply(conversation, **fields), conversation)

    def rows(self, number: int) -> list[dict[str, Any]]:
        path = self.folder / f"rows-{number}.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def close(self) -> None:
        self.nginx.terminate()
        self.nginx.wait(PATIENCE)
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE)


@pytest.fixture
def deployment(tmp_path: Path, evaluator: Evaluator) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path, evaluator)
    yield deployment
    deployment.close()


def load(seconds: float, send: Callable[[int, int], bool], clients: int = 8) -> float:
    """Return the requests per second of several clients that each send as fast as they are answered."""
    end, counts = time.monotonic() + seconds, [0] * clients

    def client(number: int) -> None:
        while time.monotonic() < end:
            counts[number] += send(number, counts[number])

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def test_conversation_header_routes_to_one_process_and_is_checked(deployment: Deployment) -> None:
    names = [f"chat-{number}" for number in range(24)]
    for turn in range(3):
        for name in names:
            status, row = deployment.score(name)
            assert (status, row["turn"]) == (200, turn), "the process knows the earlier turns"
    first, second = ({row["conversation"] for row in deployment.rows(number)} for number in range(2))
    assert first and second and not first & second and first | second == set(names)
    status, answer = deployment.request("POST", "/v1/scores", reply("chat-1"), "chat-2")
    assert status == 400 and "X-Conversation-Id names another conversation" in answer["error"]
    batch = {"messages": [reply("größer"), reply("größer")]}
    status, answer = deployment.request("POST", "/v1/scores", batch, "gr%C3%B6%C3%9Fer")
    assert status == 200 and [row["turn"] for row in answer["scores"]] == [0, 1]
    assert deployment.request("POST", "/v1/scores", batch, "chat-1")[0] == 400
    days = deployment.request("GET", "/v1/watch")[1]["days"]
    assert sum(row["replies"] for row in days) > 0


def test_killed_process_loses_nothing_that_was_acknowledged(deployment: Deployment) -> None:
    acknowledged: set[tuple[str, str]] = set()

    def send(client: int, count: int) -> bool:
        name, id = f"chat-{client}-{count // 10}", str(count)
        with suppress(OSError, http.client.HTTPException, ValueError):
            status, row = deployment.score(name, id=id, turn=count % 10)
            if status == 200 and row["status"] in ("scored", "unscored") and row.get("taken", True):
                acknowledged.add((name, id))
                return True
            assert status in (200, 429, 502, 503, 504), row
        return False

    def kill() -> None:
        until(lambda: len(acknowledged) > 40)
        os.kill(deployment.processes[0].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    load(6.0, send, clients=4)
    killer.join()
    before = len(acknowledged)
    assert all(deployment.score(f"after-{number}")[0] == 200 for number in range(20)), "the other process takes over"
    stored = {(row["conversation"], row["id"]) for number in range(2) for row in deployment.rows(number)}
    assert before > 60 and acknowledged <= stored


def test_throughput_of_one_and_two_processes_is_printed(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    def send_to(port: int) -> Callable[[int, int], bool]:
        def send(client: int, count: int) -> bool:
            name = f"load-{port}-{client}-{count // 20}"
            return deployment.request("POST", "/v1/scores", reply(name), name, port)[0] == 200

        return send

    one, two = (load(2.0, send_to(port)) for port in (deployment.ports[0], deployment.port))
    with capsys.disabled():
        print(f"\none process {one:.0f} requests/s; nginx and two processes {two:.0f} requests/s")
