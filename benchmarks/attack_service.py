"""The service under attack: raw bytes, wrong tokens and hosts, batches without end, and clients that are slow."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from attacking import KEY, Case, Ran, Workshop, environment, repeats_key, shown_badly

TOKEN = "a-token-of-the-service-0123456789"
SERVICE_MB = 700.0
JSON, FORM = "Content-Type: application/json\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"


class Served:
    """A command that listens, and what raw bytes it is sent."""

    def __init__(self, folder: Path, *arguments: str, token: str | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder = folder
        more = {"ACCORD_TOKEN": token or ""}
        self.error = (folder / "listening.txt").open("w+b")
        command = [sys.executable, "-m", "accord", *arguments, "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(folder, **more), stdin=subprocess.DEVNULL,
            stdout=self.error, stderr=self.error,
        )  # fmt: skip
        self.authorization = f"Authorization: Bearer {token}\r\n" if token else ""

    def wait(self) -> None:
        """Until it answers."""
        late = time.monotonic() + 120
        while self.status(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") != 200:
            if self.process.poll() is not None or time.monotonic() > late:
                raise RuntimeError(f"it does not listen: {self.said()}")
            time.sleep(0.2)
        if printed := re.search(r"token of live scoring .*: ([\w-]+)\n", self.said()):
            self.authorization = f"Authorization: Bearer {printed[1]}\r\n"

    def send(self, *parts: bytes, seconds: float = 20.0) -> bytes:
        """What comes back of raw bytes, until the connection is closed or nothing more comes for some seconds."""
        told = b""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
                for part in parts:
                    connection.sendall(part)
                while piece := connection.recv(1 << 16):
                    told += piece
                    connection.settimeout(2.0)
        except OSError:
            pass
        return told

    def status(self, *parts: bytes) -> int:
        """The status of the first answer; 0 where there is none."""
        found = re.match(rb"HTTP/1\.[01] (\d{3})", self.send(*parts))
        return int(found[1]) if found else 0

    def post(self, body: bytes, headers: str = "", path: str = "/v1/scores", host: str = "localhost") -> bytes:
        """What comes back of a request."""
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{self.authorization}{headers or JSON}Connection: close\r\n"
        return self.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body)

    def said(self) -> str:
        """What it printed so far."""
        self.error.seek(0)
        return self.error.read().decode(errors="backslashreplace")

    def end(self) -> str:
        """Stop it; what is wrong with how it ended."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        most = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        self.process.send_signal(signal.SIGTERM)
        try:
            code: int | None = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait() and None
        found = Ran(code, "", self.said(), 0, int(most.split()[1]) / 1024)
        return found.fell((0, -signal.SIGTERM), megabytes=SERVICE_MB) or repeats_key(found.err) or (
            "the token is shown" if TOKEN in found.err else ""
        )  # fmt: skip


@contextmanager
def listening(folder: Path, *arguments: str, token: str | None = None) -> Iterator[Served]:
    """The command while it listens; killed where nobody ended it."""
    served = Served(folder, *arguments, token=token)
    try:
        served.wait()
        yield served
    finally:
        served.process.kill()
        served.process.wait()
        served.error.close()


def said(**more: object) -> bytes:
    """A message."""
    return json.dumps({"conversation": "c", "role": "assistant", "content": "Yes.", **more}).encode()


def batch(count: int) -> bytes:
    """A batch of so many messages."""
    return b'{"messages": [' + b",".join([said()] * count) + b"]}"


SYSTEM = '\u202e\x1b[2J\n"} 1\naccord_up 7'
GZIP = JSON + "Content-Encoding: gzip\r\n"
Body = tuple[bytes, str]
BODIES: dict[str, tuple[Body, tuple[int, ...]]] = {
    "1,001 messages": ((batch(1001), JSON), (400,)),
    "9 MB": ((b" " * (9 << 20), JSON), (413,)),
    "a gzip bomb": ((gzip.compress(bytes(4 << 20)) * 100, GZIP), (400, 413)),
    "gzip in gzip": ((gzip.compress(gzip.compress(said())), GZIP), (400,)),
    "gzip cut off": ((gzip.compress(said() * 900)[:-9], GZIP), (400,)),
    "gzip without its trailer": ((gzip.compress(said())[:-8], GZIP), (400,)),
    "gzip and something after it": ((gzip.compress(said()) + b"more", GZIP), (400,)),
    "two hosts": ((said(), JSON + "Host: evil.example\r\n"), (400,)),
    "two tokens": ((said(), JSON + "Authorization: Bearer x\r\n"), (400,)),
    "two encodings": ((said(), GZIP + "Content-Encoding: identity\r\n"), (400,)),
    "an encoding that is none": ((said(), JSON + "Content-Encoding: \xff\r\n"), (415,)),
    "deep": ((b'{"messages": [' * 90_000, JSON), (400,)),
    "deep inside a message": ((said()[:-1] + b', "time": ' + b"[" * 900 + b"]" * 900 + b"}", JSON), (400, 422)),
    "6,000 digits": ((said()[:-1] + b', "turn": ' + b"4" * 6000 + b"}", JSON), (400, 422)),
    "NaN": ((said()[:-1] + b', "turn": NaN}', JSON), (400, 422)),
    "a form": ((urlencode({"messages": "[]"}).encode(), FORM), (400, 415)),
    "a text for JSON": ((said(), "Content-Type: text/plain\r\n"), (400, 415)),
    "a name without end": ((said(conversation="c" * 90_000), JSON), (422,)),
    "a time before all": ((said(conversation="t", time="0001-01-01T00:00:00-14:00"), JSON), (200, 422)),
    "a time before the calendar": ((said(conversation="t", time="0001-01-01T00:00:00+14:00"), JSON), (422,)),
    "a time after the calendar": ((said(conversation="t", time="9999-12-31T23:59:59-14:00"), JSON), (422,)),
    "halves of surrogate pairs": ((said(conversation="\ud800", content="\udfff"), JSON), (200, 422)),
    "controls in a system": ((said(conversation="b", system=SYSTEM, id="\0"), JSON), (200, 422)),
}  # fmt: skip


def _traced(attributes: object, **more: object) -> dict[str, object]:
    return {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat m", "attributes": attributes, **more}


def _nested(depth: int) -> object:
    value: object = {"stringValue": "x"}
    for _ in range(depth):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    return value


def _attribute(key: str, text: str) -> list[object]:
    return [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": key, "value": {"stringValue": text}},
    ]


PROTOBUF = "Content-Type: application/x-protobuf\r\n"
TRACES: dict[str, object] = {
    "attributes that are a number": [_traced(7)],
    "attributes that are texts": [_traced(["a", None, {"key": 7}])],
    "a value forty deep": [_traced([{"key": "gen_ai.input.messages", "value": _nested(40)}])],
    "messages that are no JSON": [_traced(_attribute("gen_ai.input.messages", "[" * 9000))],
    "messages of numbers": [_traced(_attribute("gen_ai.output.messages", json.dumps([{"role": 1, "parts": 7}, 3])))],
    "controls in a role": [
        _traced(_attribute("gen_ai.output.messages", json.dumps([{"role": "\x1b[2J", "content": "\0"}])))
    ],
    "times without end": [_traced([], startTimeUnixNano="9" * 400, endTimeUnixNano=-1)],
    "events that are none": [_traced([], events=[7, {"name": None}, {"attributes": "x"}])],
    "20,000 of nothing": [{}] * 20_000,
    "ids that are lists": [_traced([], traceId=[1], spanId={"a": 2})],
}
"""Spans, and log records, that say nothing: counted and passed over, or refused."""
HEAD = b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
LENGTH = b"POST /v1/scores HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SOCKET = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==\r\n"
)
WIRE: dict[str, bytes] = {
    "two lengths": LENGTH + b"Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}" + SMUGGLED,
    "a length and chunks": LENGTH + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "chunked twice": LENGTH + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "chunks that are none": LENGTH + CHUNKED + b"\r\n-1\r\n{}\r\n",
    "a negative length": LENGTH + b"Content-Length: -1\r\n\r\n{}",
    "a length of exabytes": LENGTH + b"Content-Length: 9223372036854775807\r\n\r\n{}",
    "a header folded": LENGTH + b"X-A: b\r\n c: d\r\nContent-Length: 2\r\n\r\n{}",
    "200 kB of headers": b"GET /metrics" + HEAD + b"X-A: " + b"y" * 200_000 + b"\r\n\r\n",
    "NUL in the path": b"GET /\0" + HEAD + b"\r\n",
    "a path upwards": b"GET /v1/../../../etc/passwd" + HEAD + b"\r\n",
    "a path of 60 kB": b"GET /" + b"%2e" * 20_000 + HEAD + b"\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00" * 90,
    "HTTP/0.9": b"GET /metrics\r\n\r\n",
    "a method that is none": b"BREW /v1/scores" + HEAD + b"\r\n",
    "another protocol": b"GET /v1/scores" + HEAD + SOCKET + b"\r\n",
}
"""Requests without a token, most of them broken: turned away, or the connection closed."""
TURNED_AWAY = (0, 400, 401, 403, 404, 405, 408, 426, 429, 431)
TOKENS = ("", "Bearer", "Bearer ", f"bearer {TOKEN}", f"Bearer  {TOKEN}", f"Bearer {TOKEN}x", f"Basic {TOKEN}",
          TOKEN[:-1], f"Bearer {TOKEN[:-1]}\xff", f"Bearer {KEY}")  # fmt: skip
HOSTS = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "http://127.0.0.1", "\xff", "",
         "127.0.0.1@evil.example", "127.0.0.1:80@evil.example", "evil#127.0.0.1", "[::ffff:8.8.8.8]")  # fmt: skip


def _answered(told: bytes, codes: Sequence[int]) -> str:
    found = re.match(rb"HTTP/1\.[01] (\d{3})", told)
    status = int(found[1]) if found else 0
    if status not in codes:
        return f"HTTP {status}, expected {' or '.join(map(str, codes))}: {told[-150:]!r}"
    return "NaN in an answer" if re.search(rb"[:\[ ]NaN", told.partition(b"\r\n\r\n")[2]) else ""


def serve(shop: Workshop) -> Iterator[Case]:
    """`accord serve`: one process with a token and one without stand all of it, and end when they are told."""
    with listening(shop.learned(), "serve", token=TOKEN) as closed, listening(shop.learned(), "serve") as open_:
        for name, ((body, headers), codes) in BODIES.items():
            yield name, partial(_posted, closed, body, headers, codes)
        for name, spans in TRACES.items():
            for kind, names in (("traces", ("Spans", "spans")), ("logs", ("Logs", "logRecords"))):
                body = json.dumps({f"resource{names[0]}": [{f"scope{names[0]}": [{names[1]: spans}]}]}).encode()
                yield f"{kind}: {name}", partial(_posted, closed, body, JSON, (200, 400, 422), f"/v1/{kind}")
        for kind in ("traces", "logs"):
            noise = b"\x0a\xff\xff\xff\xff\x0f" * 900
            yield f"{kind}: protobuf of noise", partial(_posted, closed, noise, PROTOBUF, (400, 415), f"/v1/{kind}")
        for name, sent in WIRE.items():
            yield name, partial(_once, closed, sent)
        for given in TOKENS:
            yield f"token {given[:12]!r}", partial(_guessed, closed, given)
        for host in HOSTS:
            yield f"host {host!r}", partial(_hosted, open_, host)
        yield "metrics after all that", lambda: _metrics(closed)
        yield "slow clients beside a quick one", lambda: _slow(closed)
        yield "it still answers, and ends quietly", lambda: _ends(closed)
        yield "the one without a token too", lambda: _ends(open_)


def _posted(served: Served, body: bytes, headers: str, codes: Sequence[int], path: str = "/v1/scores") -> str:
    return _answered(served.post(body, headers, path=path), codes)


def _hosted(served: Served, host: str) -> str:
    return _answered(served.post(said(), host=host), (0, 400, 421))


def _once(served: Served, sent: bytes) -> str:
    told = served.send(sent)
    smuggled = b"accord_waiting_messages" in told or b"root:" in told
    return "what was smuggled in is answered" if smuggled else _answered(told, TURNED_AWAY)


def _guessed(served: Served, given: str) -> str:
    head = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {given}\r\n\r\n"
    told = served.send(head.encode("latin-1"))
    return _answered(told, (400, 401, 429)) or ("the token is told" if TOKEN.encode() in told else "")


def _metrics(served: Served) -> str:
    head = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{served.authorization}Connection: close\r\n\r\n"
    text = served.send(head.encode()).partition(b"\r\n\r\n")[2].decode(errors="backslashreplace")
    line = r"#.*|\w+(\{[^{}]*\})? [-+0-9.e]+(NaN|Inf)?|[0-9a-f]*|"
    odd = [each for each in re.split(r"\r?\n", text) if not re.fullmatch(line, each) and "\\n" not in each]
    if re.search(r"^accord_up 7", text, re.M):
        return "a forged line of metrics"
    return shown_badly(text.replace("\r", "")) or (f"a line that is no metric: {odd[0][:120]!r}" if odd else "")


def _slow(served: Served) -> str:
    slow = []
    for _ in range(40):
        each = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        each.sendall(LENGTH + served.authorization.encode() + b"Content-Length: 900\r\n\r\n{")
        slow.append(each)
    quick = _answered(served.post(said(conversation="quick")), (200,))
    told = slow[0].recv(4096)
    for each in slow:
        each.close()
    return quick or ("" if b" 408 " in told else f"a slow client is not let go: {told[:80]!r}")


def _ends(served: Served) -> str:
    return _answered(served.post(said(conversation="after")), (200,)) or served.end()
