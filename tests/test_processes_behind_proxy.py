"""Two `accord serve` processes behind nginx, with the configuration of examples/deploy."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from serving import TOKEN, free_port, is_open, serving
from waiting import PATIENCE, at_once, until

from accord import Evaluator, Store

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light")]
pytest.importorskip("fastapi", reason="needs accord[serve]")

CONFIGURATION = Path(__file__).parents[1] / "examples" / "deploy" / "nginx.conf"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx-light")]
pytest.importorskip("fastapi", reason="needs accord[serve]")

CONFIGURATION = Path(__file__).parents[1] / "examples" / "deploy" / "nginx.conf"
TOKEN = "a-token-of-sixteen-characters"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


def reply(conversation: str, **fields: Any) -> dict[str, Any]:
    return {"conversation": conversation, "role": "assistant", "content": "Hold the button for ten seconds.", **fields}


class Deployment:
    """Two processes of one project, and nginx in front of them."""

    def __init__(self, folder: Path, evaluator: Evaluator, stack: ExitStack) -> None:
        self.folder, self.port = folder, free_port()
        evaluator.save(folder / "evaluators" / "mixture")
        (folder / "accord.yaml").write_text("evaluator: mixture\n", encoding="utf-8")
        Store(f"sqlite:///{folder}/accord.db").close()
        self.processes = [stack.enter_context(serving(folder, "--out", f"rows-{number}.jsonl")) for number in range(2)]
        text = CONFIGURATION.read_text(encoding="utf-8")
        ports = [*(each.port for each in self.processes), self.port]
        for standard, own in zip((8701, 8702, 8700), ports, strict=True):
            assert text.count(f":{standard}") == 1
            text = text.replace(f":{standard}", f":{own}")
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        with (folder / "nginx.log").open("wb") as log:
            command = [str(NGINX), "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off;"]
            nginx = subprocess.Popen(command, stdout=log, stderr=log)
        stack.callback(nginx.wait, PATIENCE)
        stack.callback(nginx.terminate)
        until(lambda: is_open(self.port), lambda: (folder / "nginx.log").read_text(encoding="utf-8"))

    def request(self, method: str, path: str, content: Any = None, conversation: str | None = None) -> tuple[int, Any]:
        headers = HEADERS if conversation is None else {**HEADERS, "X-Conversation-Id": conversation}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
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


@pytest.fixture
def deployment(tmp_path: Path, evaluator: Evaluator) -> Iterator[Deployment]:
    with ExitStack() as stack:
        yield Deployment(tmp_path, evaluator, stack)


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


@pytest.mark.posix
def test_killed_process_loses_nothing_that_was_acknowledged(deployment: Deployment) -> None:
    acknowledged: set[tuple[str, str]] = set()
    is_over = threading.Event()

    def send(client: int) -> None:
        count = 0
        while not is_over.is_set():
            name, id = f"chat-{client}-{count // 10}", str(count)
            with suppress(OSError, http.client.HTTPException, ValueError):
                status, row = deployment.score(name, id=id, turn=count % 10)
                if status == 200 and row["status"] in ("scored", "unscored") and row.get("taken", True):
                    acknowledged.add((name, id))
                else:
                    assert status in (200, 429, 502, 503, 504), row
            count += 1

    def kill() -> None:
        until(lambda: len(acknowledged) > 40)
        deployment.processes[0].process.send_signal(signal.SIGKILL)
        count = len(acknowledged)
        until(lambda: len(acknowledged) > count + 20)
        is_over.set()

    at_once([*(partial(send, client) for client in range(4)), kill])
    assert all(deployment.score(f"after-{number}")[0] == 200 for number in range(20)), "the other process takes over"
    stored = {(row["conversation"], row["id"]) for number in range(2) for row in deployment.rows(number)}
    assert acknowledged <= stored
