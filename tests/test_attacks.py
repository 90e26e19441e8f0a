"""Hostile endpoints, requests, answers, texts and stores, each against the whole command or a running `accord serve`."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from misbehaving_endpoint import answer_any
from special_files import make_link, make_pipe
from typer.testing import CliRunner, Result
from waiting import PATIENCE, until

from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app  # noqa: F401 - registers the commands
from accord.edges import AccordError, BadInput
from accord.embedded import catalogue
from accord.embedded.catalogue import pull
from accord.live import post_alarms
from accord.live.monitoring import WebhookError
from accord.models import (
    CallFailed,
    ChatMessage,
    Prompt,
    send_request,
    wait,
)
from accord.models.requests.client import ChatCompletions
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import Wire

pytestmark = pytest.mark.attack

MARKUP = '"\'><pwned onpwn=1 x=\'</script></style></textarea></title><pwned onpwn=1>--><a href="javascript:pwn">x</a>'
ESCAPE = "\x1b[2J\x1b]0;pwned\x07\x9b31m\rgone\x08\u202eright"
ODD = (MARKUP, ESCAPE, '=HYPERLINK("http://evil")', "+1+cmd|' /C calc'!A0", "-2+3+A1", "@SUM(1)", "\t=1+1", "\r=1+1")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TOKEN = "a-token-of-the-service-0123456789"
KEY = "sk-live-9fQxT4uLw0BzR7ydKc2N"


class Live(HTMLParser):
    """Collects elements that only hostile input can have put into a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        runs = any("pwn" in name or str(value).strip().startswith("javascript:") for name, value in attrs)
        if runs or tag == "pwned":
            self.found.append(tag)

    handle_startendtag = handle_starttag


def run(*arguments: str) -> Result:
    """Run a command in the working folder."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# --- endpoints ----------------------------------------------------------------------------------------------------

Answer = Callable[[socket.socket, threading.Event], object]


def says(*parts: bytes, again: bytes = b"", every: float = 0.0) -> Answer:
    """Send parts, then another part repeatedly until the client ends."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        for part in parts:
            connection.sendall(part)
        while again and not over.wait(every):
            connection.sendall(again)

    return answer


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
NO_STATUS: dict[str, Answer] = {
    "no HTTP": says(b"SSH-2.0-OpenSSH_9.9\r\n" * 9),
    "endless headers": says(OK, again=b"X-More: " + b"y" * 9000 + b"\r\n"),
    "one endless header": says(OK + b"X-More: ", again=b"y" * 9000),
    "slow headers": says(OK, again=b"X-A: b\r\n", every=0.2),
    "endless 100 Continue": says(again=b"HTTP/1.1 100 Continue\r\n\r\n", every=0.01),
}
RAW = {
    **NO_STATUS,
    "slow body": says(OK + b"Content-Length: 9000\r\n\r\n", again=b" ", every=0.2),
    "endless body": says(OK + b"\r\n{", again=b" " * 65536),
    "endless chunks": says(CHUNKED, again=b"4000\r\n" + b" " * 0x4000 + b"\r\n"),
    "chunk of a negative size": says(CHUNKED + b"-5\r\n{}\r\n0\r\n\r\n"),
    "chunk of exabytes": says(CHUNKED + b"ffffffffffffffff\r\n{}"),
    "truncated body": says(OK + b'Content-Length: 90000\r\n\r\n{"answers": ['),
    "invalid length": says(OK + b"Content-Length: many\r\n\r\n{}"),
}


@contextmanager
def listening(answer: Answer) -> Iterator[str]:
    """A server that speaks HTTP only if `answer` does; yields its URL."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def one(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    answer(connection, over)
                except OSError:
                    return

        def listen() -> None:
            while not over.is_set():
                try:
                    threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()
                except OSError:
                    return

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        over.set()
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", RAW.values(), ids=RAW)
def test_misbehaving_connection_is_an_error_of_the_request(answer: Answer) -> None:
    with listening(answer) as url:
        model = ChatCompletions("m1", url, api_key=KEY, timeout=1.0)
        with pytest.raises(AccordError) as caught:
            wait(model.ask(Prompt((ChatMessage("user", "the whole transcript"),))))
        wait(model.close())
    assert "\n" not in str(caught.value) and not CONTROL.search(str(caught.value))


@pytest.mark.parametrize("answer", NO_STATUS.values(), ids=NO_STATUS)
def test_webhook_without_a_status_is_an_error_that_hides_its_address(answer: Answer) -> None:
    with listening(answer) as url, pytest.raises(WebhookError, match="did not accept the alarms") as caught:
        post_alarms(f"{url}/{KEY}", [{"message": f"the mean fell {ESCAPE} ${{OPENAI_API_KEY}}"}], wait=0, seconds=0.5)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("answer", NO_STATUS.values(), ids=NO_STATUS)
def test_request_without_a_reply_ends_in_time(answer: Answer) -> None:
    with listening(answer) as url, pytest.raises(CallFailed) as caught:
        send_request("GET", f"{url}/{KEY}", seconds=0.3, most_bytes=1000)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in RAW if name not in NO_STATUS and name != "invalid length"])
def test_body_beyond_the_limits_of_a_request_is_cut_off(name: str) -> None:
    parts: list[bytes] = []
    with listening(RAW[name]) as url:
        reply = send_request("GET", url, seconds=0.3, most_bytes=1000, write=parts.append)
    assert (reply.status, reply.is_whole, reply.content) == (200, False, b"") and len(b"".join(parts)) <= 1000


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_request_is_not_sent_to_the_address_of_a_redirect(status: int) -> None:
    with ChatServer(lambda _: Wire({})) as other:
        to_other = Wire({}, status=status, headers={"Location": other.url})
        with ChatServer(lambda _: to_other) as server:
            reply = send_request("POST", server.url, b"{}", {"Authorization": KEY}, seconds=5, most_bytes=1000)
        assert reply.status == status and not other.requests


def test_download_follows_redirects_and_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "folder_of", lambda name: tmp_path / "models" / name)
    monkeypatch.setattr(catalogue, "find_spec", lambda _: True)
    monkeypatch.setattr(catalogue, "URL_SECONDS", 0.2)
    moved = b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: "
    with (
        listening(says(OK + b"Content-Length: 4\r\n\r\nGGUF")) as url,
        listening(says(moved + url.encode() + b"\r\n\r\n")) as first,
        pytest.raises(BadInput, match="expected 00"),  # downloaded, with another checksum
    ):
        pull("mine", first, "00")
    for answer, reason in (
        (says(moved + b"/again\r\n\r\n"), "too many redirects"),
        (RAW["truncated body"], "the connection broke or was silent"),
        (says(OK + b"Content-Length: 9000\r\n\r\nGG", again=b"G", every=0.5), "the connection broke or was silent"),
        (says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), "status 403"),
    ):
        with listening(answer) as url, pytest.raises(BadInput, match=f"cannot download {url}.*: {reason}"):
            pull("mine", url, "00")
    monkeypatch.setattr(catalogue, "MAX_DOWNLOAD", 200_000)
    with listening(RAW["endless body"]) as url, pytest.raises(BadInput, match="more than 0.0002 GB"):
        pull("mine", url, "00")
    assert not list((tmp_path / "models").iterdir())


@pytest.mark.parametrize("usage", [{}, None, {"input_tokens": 1, "output_tokens": 0}, {"input_tokens": math.nan},
                                   {"input_tokens": -(10**6), "output_tokens": -9}], ids=str)  # fmt: skip
def test_false_usage_does_not_extend_a_budget(usage: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    rows = [{"id": f"c{n}", "messages": [{"role": "user", "content": f"Is it {n}?"},
                                         {"role": "assistant", "content": "It is fine. " * 9}]} for n in range(24)]  # fmt: skip
    Path("chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sent = []
    for is_true in (True, False):

        def respond(request: Mapping[str, Any], is_true: bool = is_true) -> Wire:
            right = answer_any(request)
            return right if is_true else Wire(json.dumps({**right.body, "usage": usage}).encode())  # type: ignore[dict-item]

        with ChatServer(respond) as server:
            Path("accord.yaml").write_text(json.dumps({"store": f"sqlite:///{is_true}.db", "models": {
                "judge": {"mode": "decisions", "model": "m1", "base_url": server.url, "concurrency": 1}}}), encoding="utf-8")  # fmt: skip
            assert run("import", "chats.jsonl").exit_code == 0
            assert run("judge", "--all", "--max-tokens", "6000").exit_code == 4
            sent.append(len(server.requests))
    assert 0 < sent[1] <= 2 * sent[0]


# --- a project of hostile texts -----------------------------------------------------------------------------------


@dataclass
class Served:
    """`accord serve` in a project whose every name and text is hostile."""

    folder: Path
    port: int
    links: dict[str, str]

    def send(self, *parts: bytes, seconds: float = 20.0) -> str:
        """Return the response to raw bytes, until the connection closes or is silent for two seconds."""
        received = b""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
                for part in parts:
                    connection.sendall(part)
                while piece := connection.recv(1 << 16):
                    received += piece
                    connection.settimeout(2.0)
        except OSError:
            pass
        return received.decode("latin-1")

    def answers(self) -> int:
        """Return the number of stored answers."""
        with closing(sqlite3.connect(self.folder / "accord.db", timeout=PATIENCE)) as store:
            return int(store.execute("SELECT count(*) FROM annotations").fetchone()[0])


def status_of(response: str) -> int:
    """Return the status of a response; 0 for none."""
    found = re.match(r"HTTP/1\.[01] (\d{3})", response)
    return int(found[1]) if found else 0


class Annotator:
    """Requests of an annotator who is signed in and has an item."""

    def __init__(self, served: Served, name: str) -> None:
        self.served, self.cookie, self.token = served, "", ""
        signed_in = self.send("POST", "/in", urlencode({"key": served.links[name]}), form=True)
        self.cookie = re.findall(r"set-cookie: ([^;\r]+)", signed_in, re.IGNORECASE)[0]
        self.token = re.findall(r'name="accord-form" content="(\w+)"', self.send("GET", "/"))[0]
        self.item = re.findall(r"location: /rate/look/([\w-]+)", self.send("GET", "/rate/look/next"), re.IGNORECASE)[0]

    def send(self, method: str, path: str, body: str = "", form: bool = False, **changed: str) -> str:
        """Return the response; headers can be changed, or omitted if empty."""
        host = f"127.0.0.1:{self.served.port}"
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        headers = {"Host": host, "Origin": f"http://{host}", "Cookie": self.cookie, "Content-Type": kind,
                   "X-Accord-Form": "" if form else self.token, "Connection": "close"}  # fmt: skip
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        content = body.encode("utf-8", "surrogatepass")
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        head = f"{method} {path} HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n"
        return self.served.send(head.encode("latin-1") + content)

    def answer(self, **changed: object) -> str:
        """Return a valid answer with some fields changed."""
        valid = {"study": "look", "assignment": self.item, "id": "honest-answer-0001", "value": 1,
                 "question": "quality", "stage": "one"}  # fmt: skip
        return json.dumps({**valid, **changed})


def finds(request: Mapping[str, Any]) -> Wire:
    """A valid answer; as a finder of issues, one whose every text is hostile."""
    if not str(request["_path"]).endswith("/chat/completions"):
        return answer_any(request)
    issue = {"type": "Coherence", "comment": MARKUP + ESCAPE, "quote": "Yes."}
    strange = {"type": MARKUP, "comment": ESCAPE, "quote": MARKUP}
    return completion(json.dumps({"issues": [issue, strange], "comment": MARKUP, "score": 2}))


COMMANDS = (
    "import chats.jsonl labels.csv", "judge --all", "fit m", "compare --only m", "estimate", "label next",
    "score chats.jsonl --out scores.csv", "export annotations.csv", "gate --min-mean 1 --include-training",
    "report --out report.html", "issues --out issues.html", "watch", "store check",
)  # fmt: skip


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Result]]:
    """Results of every command in the project, which is the working folder."""
    folder = tmp_path_factory.mktemp("hostile")
    questions = [{"id": "quality", "text": MARKUP, "options": [1, 2, 3, 4]},
                 {"id": "solved", "text": ODD[2], "scale": "binary", "options": [0, 1]}]  # fmt: skip
    (folder / "rubric.yaml").write_text(
        json.dumps({"name": "hostile", "main": "quality", "questions": questions}), encoding="utf-8"
    )
    rows = [{"id": f"{ODD[i % len(ODD)]} {i}".strip(), "metadata": {"system": ODD[i % 2], "topic": ODD[i % len(ODD)]},
             "messages": [{"role": "user", "content": f"Is it {i}? {ODD[i % len(ODD)]}"},
                          {"role": "assistant", "content": f"Yes. {MARKUP} {'Fine. ' * (i % 5)}"}],
             "documents": [{"title": MARKUP, "text": ESCAPE}]} for i in range(24)]  # fmt: skip
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with (folder / "labels.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["conversation", "annotator", "quality", "comment"])
        for place, row in enumerate(rows):
            for who in range(2):
                table.writerow([row["id"], ODD[who + place % 2], 1 + (place % 5 + who) % 4, MARKUP])
    with ChatServer(finds) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", KEY)
        endpoint = {"model": "m1", "base_url": server.url, "attempts": 1}
        look = {"title": MARKUP, "guidelines": MARKUP, "annotators_per_item": 2, "issue_taxonomy": "soda-eval",
                "stages": [{"id": "one"}, {"id": "two", "questions": ["quality"]}]}  # fmt: skip
        settings = {
            "rubric": "rubric.yaml", "metrics": ["bank"], "evaluator": "m", "folds": 2, "draws": 20,
            "evaluators": {"m": {"sources": ["metrics"], "head": "mixed"}}, "sources": {"issues": {"by": "chat"}},
            "models": {"judge": {"mode": "decisions", **endpoint}, "finder": endpoint},
            "studies": {"look": look, "others": {"title": "Others", "annotators": ["zoe"]}},
        }  # fmt: skip
        (folder / "accord.yaml").write_text(json.dumps(settings), encoding="utf-8")
        yield {command: run(*command.split()) for command in COMMANDS}


def test_commands_print_hostile_texts_as_plain_lines(outputs: dict[str, Result]) -> None:
    for command, result in outputs.items():
        assert result.exit_code in {0, 3, 5}, f"{command}: {result.output}"
        assert not CONTROL.search(result.output) and not any(len(line) > 2100 for line in result.output.splitlines())


def test_pages_and_tables_hold_no_markup_and_no_formula(outputs: dict[str, Result]) -> None:
    for name in ("report.html", "issues.html"):
        text = Path(name).read_text(encoding="utf-8")
        assert not Live(text).found and not CONTROL.search(text), name
    for name in ("scores.csv", "annotations.csv"):
        with Path(name).open(newline="", encoding="utf-8") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        number = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?")
        assert not [cell for cell in cells if cell[:1] in set("=+-@\t\r") and not number.fullmatch(cell)], name


@pytest.mark.parametrize("odd", [ESCAPE, "k" * 90_000], ids=["escapes", "90,000 characters"])
def test_errors_about_hostile_names_are_one_line(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rubric = {"name": odd, "main": odd, "questions": [{"id": odd, "text": "?", odd: 1}]}
    Path("odd.yaml").write_text(json.dumps(rubric), encoding="utf-8")
    for row in ({"id": odd, "messages": 7}, {"messages": [{"role": [odd], "content": odd}]}, {odd: odd}):
        Path("chats.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        for settings in ({}, {odd: 1}, {"rubric": "odd.yaml"}):
            Path("accord.yaml").write_text(json.dumps({"store": "sqlite:///a.db", **settings}), encoding="utf-8")
            for command in (["import", "chats.jsonl"], ["fit", odd], ["import", f"{odd[:3000]}.jsonl"]):
                result = run(*command)
                assert result.exit_code in {1, 2} and not CONTROL.search(result.output)
                assert all(len(line) <= 2100 for line in result.output.splitlines())


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["store", "erase", "--yes", "--conversation"], "conversation"),
        (["store", "backup"], "target"),
        (["users", "remove"], "name"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_named(
    command: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("accord.yaml").write_text(json.dumps({"store": "sqlite:///a.db"}), encoding="utf-8")
    run("users", "add", "ann")
    result = run(*command, os.fsdecode(b"x\xff"))
    assert result.exit_code == 1 and result.output.splitlines()[-1].startswith(f"accord: {name} is not UTF-8: "), result


# --- a running service --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(outputs: dict[str, Result]) -> Iterator[Served]:
    """The project as `accord serve` shows and scores it, with three accounts."""
    roles = {"ann": "annotator", "bob": "annotator", "zoe": "lead"}
    added = {name: run("users", "add", name, "--role", role, "--json") for name, role in roles.items()}
    links = {name: json.loads(result.stdout)["link"].rpartition("/")[2] for name, result in added.items()}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = Path("serve.log").absolute()
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "accord", "serve", "--port", str(port)]
        process = subprocess.Popen(command, env={**os.environ, "ACCORD_TOKEN": TOKEN}, stdout=stream, stderr=stream)
    found = Served(Path.cwd(), port, links)
    ready = f"GET /healthz{HEAD.decode()}\r\n".encode()
    try:
        until(lambda: process.poll() is not None or status_of(found.send(ready)) == 200, log.read_text)
        yield found
        assert status_of(found.send(ready)) == 200
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
    said = log.read_text(errors="backslashreplace", encoding="utf-8")
    assert code in (0, -15) and "Traceback" not in said and not CONTROL.search(said)
    assert not [secret for secret in (*links.values(), TOKEN, KEY) if secret in said]


@pytest.fixture(scope="module")
def ann(served: Served) -> Annotator:
    return Annotator(served, "ann")


@pytest.fixture(scope="module")
def bob(served: Served) -> Annotator:
    return Annotator(served, "bob")


HEAD = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
POST = b"POST /v1/scores HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIECES = b"Transfer-Encoding: chunked\r\n"
SOCKET = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n"
)
BROKEN = {
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}" + SMUGGLED,
    "a length and chunks": POST + b"Content-Length: 5\r\n" + PIECES + b"\r\n0\r\n\r\n" + SMUGGLED,
    "chunked twice": POST + PIECES + PIECES + b"\r\n0\r\n\r\n" + SMUGGLED,
    "invalid chunks": POST + PIECES + b"\r\n-1\r\n{}\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n{}",
    "a length of exabytes": POST + b"Content-Length: 9223372036854775807\r\n\r\n{}",
    "a folded header": POST + b"X-A: b\r\n c: d\r\nContent-Length: 2\r\n\r\n{}",
    "200 kB of headers": b"GET /metrics" + HEAD + b"X-A: " + b"y" * 200_000 + b"\r\n\r\n",
    "20 MB of headers": b"GET / HTTP/1.1\r\nX: " + b"x" * (20 << 20),
    "an endless upload": POST + PIECES + b"\r\n" + (b"100000\r\n" + b"x" * 2**20 + b"\r\n") * 80,
    "NUL in the path": b"GET /\0" + HEAD + b"\r\n",
    "a path upwards": b"GET /v1/../../../etc/passwd" + HEAD + b"\r\n",
    "a path of 60 kB": b"GET /" + b"%2e" * 20_000 + HEAD + b"\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00" * 90,
    "HTTP/0.9": b"GET /metrics\r\n\r\n",
    "an unknown method": b"BREW /v1/scores" + HEAD + b"\r\n",
    "another protocol": b"GET /v1/scores" + HEAD + SOCKET + b"\r\n",
}


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
def test_broken_request_is_refused(served: Served, sent: bytes) -> None:
    response = served.send(sent)
    assert "accord_waiting_messages" not in response and "root:" not in response
    assert status_of(response) in {0, 400, 401, 403, 404, 405, 408, 413, 426, 429, 431}, response[:200]


@pytest.mark.parametrize("host", [
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "http://127.0.0.1", "\xff", "",
    "127.0.0.1@evil.example", "127.0.0.1:80@evil.example", "evil#127.0.0.1", "[::ffff:8.8.8.8]",
    "127.0.0.1\r\nHost: evil.example",
])  # fmt: skip
def test_page_is_not_served_under_another_name(ann: Annotator, host: str) -> None:
    assert status_of(ann.send("GET", "/", Host=host)) in {0, 400, 421}


def attribute(key: str, text: str) -> list[object]:
    kind = {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}
    return [kind, {"key": key, "value": {"stringValue": text}}]


def nested(depth: int) -> object:
    return {"kvlistValue": {"values": [{"key": "k", "value": nested(depth - 1)}]}} if depth else {"stringValue": "x"}


CONTROL_ROLE = json.dumps([{"role": "\x1b[2J", "content": "\0"}])
SPANS: dict[str, Any] = {
    "attributes are a number": {"attributes": 7},
    "attributes are texts": {"attributes": ["a", None, {"key": 7}]},
    "a value forty deep": {"attributes": [{"key": "gen_ai.input.messages", "value": nested(40)}]},
    "messages are no JSON": {"attributes": attribute("gen_ai.input.messages", "[" * 9000)},
    "messages are numbers": {"attributes": attribute("gen_ai.output.messages", '[{"role": 1, "parts": 7}, 3]')},
    "controls in a role": {"attributes": attribute("gen_ai.output.messages", CONTROL_ROLE)},
    "impossible times": {"startTimeUnixNano": "9" * 400, "endTimeUnixNano": -1},
    "invalid events": {"events": [7, {"name": None}, {"attributes": "x"}]},
    "ids are lists": {"traceId": [1], "spanId": {"a": 2}},
}


@pytest.mark.parametrize("kind", ["traces", "logs"])
@pytest.mark.parametrize("span", [*SPANS.values(), b"\x0a\xff\xff\xff\xff\x0f" * 900], ids=[*SPANS, "noise"])
def test_odd_span_is_counted_or_refused(served: Served, span: Any, kind: str) -> None:
    names = ("Spans", "spans") if kind == "traces" else ("Logs", "logRecords")
    record = span if isinstance(span, bytes) else {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat m", **span}
    media = "x-protobuf" if isinstance(span, bytes) else "json"
    export = {f"resource{names[0]}": [{f"scope{names[0]}": [{names[1]: [record]}]}]}
    body = record if isinstance(record, bytes) else json.dumps(export).encode()
    head = f"POST /v1/{kind} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    response = served.send(
        f"{head}Content-Type: application/{media}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    assert status_of(response) in {200, 400, 415, 422} and "NaN" not in response


FORGED: dict[str, Callable[[Annotator, Annotator], str]] = {
    "an assignment of another": lambda ann, bob: ann.answer(assignment=bob.item),
    "an unknown assignment": lambda ann, bob: ann.answer(assignment="x" * 24),
    "a study of others": lambda ann, bob: ann.answer(study="others"),
    "an id with a path": lambda ann, bob: ann.answer(id="../" * 9),
    "a comment of a megabyte": lambda ann, bob: ann.answer(comment="x" * 10**6),
    **{f"{name}={value!r}": partial(lambda ann, bob, name, value: ann.answer(**{name: value}), name=name, value=value)
       for name, value in (
           ("question", "'; DROP TABLE annotations;--"), ("value", 9), ("value", True), ("value", [1]), ("value", {}),
           ("value", math.nan), ("stage", "two"), ("id", "x"), ("seconds", -1), ("seconds", "1"), ("by", "bob"),
       )},
    **{f"mark {more}": partial(
        lambda ann, bob, more: ann.answer(**{"question": "issue:Coherence", "turn": 1, **more}), more=more)
       for more in ({"span": [0, 10**9]}, {"question": "issue:<b>"}, {"turn": 77},
                    {"value": None, "replaces": "honest-answer-0001"})},
    "a list": lambda ann, bob: "[1]", "no JSON": lambda ann, bob: "{", "deep": lambda ann, bob: "[" * 90_000,
}  # fmt: skip


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_forged_answer_is_not_stored(served: Served, ann: Annotator, bob: Annotator, forged: Any) -> None:
    before = served.answers()
    response = ann.send("POST", "/answers", forged(ann, bob))
    assert 400 <= status_of(response) < 500 and "Traceback" not in response and served.answers() == before


@pytest.mark.parametrize("changed", [
    {"Origin": "http://evil.example"}, {"Origin": ""}, {"Origin": "https://127.0.0.1"}, {"Cookie": ""},
    {"Host": "evil.example", "Origin": "http://evil.example"}, {"Cookie": "accord_session=" + "x" * 43},
    {"X_Accord_Form": "x" * 64}, {"X_Accord_Form": ""}, {"Content_Encoding": "gzip"},
], ids=str)  # fmt: skip
def test_answer_of_another_origin_or_session_is_not_stored(
    served: Served, ann: Annotator, changed: dict[str, str]
) -> None:
    before = served.answers()
    assert 400 <= status_of(ann.send("POST", "/answers", ann.answer(), **changed)) < 500 and served.answers() == before


def test_answer_sent_fifty_times_at_once_is_stored_once(served: Served, ann: Annotator) -> None:
    before, found = served.answers(), list[int]()
    answer = ann.answer(id="fifty-times-00001", value=2, comment=MARKUP)
    threads = [
        threading.Thread(target=lambda: found.append(status_of(ann.send("POST", "/answers", answer))))
        for _ in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served.answers() == before + 1 and found.count(201) == 1 and set(found) <= {200, 201, 503}
    for path in ("/", f"/rate/look/{ann.item}", "/rate/look/done"):
        response = ann.send("GET", path)
        assert not Live(response.partition("\r\n\r\n")[2]).found
        assert "content-security-policy: default-src 'none'" in response


def test_guessed_links_are_slowed_down_and_others_continue(served: Served, ann: Annotator) -> None:
    statuses = set[str]()
    for start in range(0, 1000, 100):
        requests = [f"GET /in/{'y' * 38}{start + n:05} HTTP/1.1\r\nHost: 127.0.0.1\r\n" for n in range(100)]
        sent = "\r\n".join(requests) + "Connection: close\r\n\r\n"
        statuses |= set(re.findall(r"HTTP/1\.1 (\d{3})", served.send(sent.encode())))
    assert statuses == {"401", "429"} and status_of(ann.send("GET", "/")) == 200


# --- stores -------------------------------------------------------------------------------------------------------


def sql(statement: str) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(statement)

    return damage


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


STORES: dict[str, Callable[[Path], object]] = {
    "a row that is no JSON": sql("UPDATE conversations SET content = '[[['"),
    "a row of numbers": sql("UPDATE conversations SET content = '7'"),
    "a deep row": sql("UPDATE conversations SET content = '" + "[" * 50_000 + "'"),
    "another database": instead(sql("CREATE TABLE other (a)")),
    "a pipe": instead(make_pipe),
    "a device": instead(lambda path: make_link(path, "/dev/zero")),
}


@pytest.mark.parametrize("damage", STORES.values(), ids=STORES)
def test_damaged_store_is_reported_by_the_check(damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("accord.yaml").write_text("store: sqlite:///accord.db\n", encoding="utf-8")
    Path("chats.jsonl").write_text('{"id": "c", "messages": [{"role": "user", "content": "Hi"}]}\n', encoding="utf-8")
    assert run("import", "chats.jsonl").exit_code == 0
    damage(Path("accord.db"))
    assert run("store", "check").exit_code == 1
    assert run("export", "out.jsonl").exit_code in {0, 1}
