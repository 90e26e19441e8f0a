"""Langfuse, Phoenix and LangSmith on the loopback interface: strict about requests, with faults on demand."""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEYS = {
    "langfuse": ("pk-lf-loopback", "sk-lf-loopback-secret"),
    "phoenix": "phoenix-loopback-key",
    "langsmith": "ls-loopback-key",
}
Reply = tuple[int, Any, Mapping[str, str]]
CUT = "cut"
"""Fault: the connection is cut before the reply."""


class Invalid(Exception):
    """A request against the documented schema."""


def require(is_met: bool, about: str) -> None:
    if not is_met:
        raise Invalid(about)


def is_time(value: Any) -> bool:
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


def keys_of(row: Any, needed: set[str], allowed: set[str]) -> None:
    require(isinstance(row, dict) and needed <= row.keys() <= needed | allowed, f"keys: {sorted(row)}")


class HostServer:
    """A host with the objects of `known`, as a context manager; it can be stopped and started on the same port.

    Attributes:
        stored: Scores by everything that makes a score another one at this host.
        writes: Number of times that each of these was written.
        faults: Replies to the next requests: a status, a status with a body, `CUT`, or seconds to wait.
        invalid: Requests that were refused, with the reason.
        bodies: JSON of all requests.
    """

    def __init__(self, host: str, known: set[str], **features: Any) -> None:
        self.host, self.known, self.features, self.port = host, known, features, 0
        self.stored: dict[tuple[str, ...], dict[str, Any]] = {}
        self.writes: Counter[tuple[str, ...]] = Counter()
        self.faults: deque[Any] = deque()
        self.invalid: list[str] = []
        self.bodies: list[Any] = []
        self.texts: list[str] = []
        self.retry_after: str | None = None
        self.on_request: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                owner.on_request()
                fault = owner.faults.popleft() if owner.faults else None
                if isinstance(fault, float):
                    threading.Event().wait(fault)
                elif fault == CUT:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    return
                status, reply, headers = owner.reply(self.command, self.path, self.headers, text, fault)
                content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = _answer

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def reply(self, method: str, path: str, headers: Any, text: bytes, fault: Any) -> Reply:
        if isinstance(fault, tuple):
            return (*fault, {})
        if isinstance(fault, int):
            extra = {"Retry-After": self.retry_after} if fault == 429 and self.retry_after else {}
            return (
                fault,
                {"message": "key ls-loopback-key is noted"},
                {**extra, **({"Location": "http://127.0.0.1:9/"} if fault == 302 else {})},
            )
        with self._lock:
            body = json.loads(text)
            self.bodies.append(body)
            self.texts.append(text.decode())
            try:
                require(headers["Content-Type"] == "application/json", "content type")
                result: Reply = getattr(self, f"_{self.host}")(method, path, headers, body)
            except Invalid as error:
                self.invalid.append(str(error))
                return 400, {"message": str(error)}, {}
            return result

    def _store(self, key: tuple[str, ...], row: dict[str, Any]) -> None:
        self.stored[key] = row
        self.writes[key] += 1

    def _langfuse(self, method: str, path: str, headers: Any, body: Any) -> Reply:
        pair = base64.b64encode(":".join(KEYS["langfuse"]).encode()).decode()
        if headers["Authorization"] != f"Basic {pair}":
            return 401, {}, {}
        require((method, path) == ("POST", "/api/public/scores"), path)
        require(isinstance(body, dict if self.features.get("is_old") else list), "form of the body")
        rows = body if isinstance(body, list) else [body]
        require(1 <= len(rows) <= 100, "number of scores")
        rejected = 0
        for row in rows:
            keys_of(
                row, {"id", "name", "value", "timestamp"}, {"traceId", "sessionId", "dataType", "comment", "metadata"}
            )
            require(("traceId" in row) != ("sessionId" in row), "one object")
            require(isinstance(row["value"], float) and row["dataType"] == "NUMERIC", "value")
            require(is_time(row["timestamp"]) and isinstance(row["metadata"], dict), "time and metadata")
            kind = "traceId" if "traceId" in row else "sessionId"
            if row[kind] not in self.known:
                rejected += 1
                continue
            self._store((row["id"], row["timestamp"], kind, row[kind]), row)
        if self.features.get("is_old"):
            return (404, {}, {}) if rejected else (200, {"id": rows[0]["id"]}, {})
        if rejected:
            return (
                207,
                {"accepted": len(rows) - rejected, "rejected": rejected, "errors": [{"message": "x"}] * rejected},
                {},
            )
        return 202, {"message": "Accepted"}, {}

    def _phoenix(self, method: str, path: str, headers: Any, body: Any) -> Reply:
        if headers["Authorization"] != f"Bearer {KEYS['phoenix']}":
            return 401, {}, {}
        match = re.fullmatch(r"/v1/(session|trace|span)_annotations\?sync=true", path)
        require(method == "POST" and match is not None, path)
        assert match is not None
        id = f"{match[1]}_id"
        keys_of(body, {"data"}, set())
        for row in body["data"]:
            keys_of(row, {"name", "annotator_kind", id, "result"}, {"metadata", "identifier"})
            require(row["annotator_kind"] in ("LLM", "CODE", "HUMAN"), "kind")
            keys_of(row["result"], set(), {"label", "score", "explanation"})
            require(isinstance(row["result"]["score"], float), "score")
        if any(row[id] not in self.known for row in body["data"]):
            return 404, {"detail": "not found"}, {}
        for row in body["data"]:
            self._store((row["name"], id, row[id], row["identifier"]), row)
        return 200, {"data": [{"id": str(place)} for place, _ in enumerate(body["data"])]}, {}

    def _langsmith(self, method: str, path: str, headers: Any, body: Any) -> Reply:
        if headers["x-api-key"] != KEYS["langsmith"]:
            return 403, {}, {}
        require(round(body["score"], 4) == body["score"], "at most four decimals")
        if method == "PATCH":
            key = (path.removeprefix("/feedback/"),)
            keys_of(body, {"score", "comment"}, set())
            require(key in self.stored, path)
            self._store(key, {**self.stored[key], **body})
            return 200, self.stored[key], {}
        require(path == "/feedback", path)
        keys_of(body, {"id", "run_id", "trace_id", "key", "score", "comment", "feedback_source"}, {"session_id"})
        for name in ("id", "run_id", "trace_id", *({"session_id"} & body.keys())):
            uuid.UUID(body[name])
        keys_of(body["feedback_source"], {"type", "metadata"}, set())
        if body["run_id"] not in self.known:
            return 404, {}, {}
        if (body["id"],) in self.stored and self.features.get("has_conflicts"):
            return 409, {}, {}
        self._store((body["id"],), body)
        return 200, body, {}
